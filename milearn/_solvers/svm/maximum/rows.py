"""MI-SVM with a linear kernel in the primal, by a handful of passes over the instances.

The problem is that of :mod:`.dual`, J(w, b). A convex step (witnesses of the positive bags held)
is solved over a working set of rows: the witnesses, and of the negative bags the rows near or
beyond the margin. What is far from it is summed up in two rows, whose hinges bound the sums of
hinges from below by convexity. A pass scores all rows and gives

* the value of the step over all rows, whose distance from the dual value of the working set is the
  gap of the step as stated: rows that are missing count in it;
* J itself, the next witnesses, and the next working set.

So a pass ends one convex step and begins the next. Witnesses move only where J falls. From a start
of the solver's own the steps are solved roughly while witnesses move far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.segments import gather_rows, pooling_matrix
from ...common.cccp import CCCPSolution
from ...common.newton import GroupProblem, solve_groups
from ...common.options import SolverOptions
from ...common.passes import ArraySource, Block, PassSource, rows_of_block, stacked
from ...common.rounding import rounding_scale
from ..losses import Hinge
from .view import (
    BAND,
    Held,
    Moved,
    Pass,
    Prices,
    Proportions,
    joined,
    kept_type,
    pass_over,
    working_set,
)

__all__ = ["PrimalMISVMResult", "solve_mi_svm_primal"]

Matrix = Any  # an ndarray or a CSR matrix

# A start is found on a sample of bags with as many instances.
_SAMPLE = 4_000
_SAMPLE_PER_FEATURE = 100
_SAMPLE_NUMBERS = 2**23
# Bags of a class that are in it at least; of large ones some instances.
_FEWEST_BAGS, _FEW_LARGE_BAGS = 50, 4
_SAMPLE_TOL = 5e-2
_SAMPLE_PASSES = 6
_MAX_PASSES = 200
# How much the band widens from round to round of a step.
_WIDER = 1.5
# Range of the bags' scores in which they tell nothing, in units of the margin.
_CONSTANT = 1e-3
# Rounds of a step in a row in which that of the working set is missed, after which the step ends.
_MAX_MISSED = 3
# Precision of the working set's problem, as a share of that of a step, and of a rough step.
_EXACT, _ROUGH = 0.3, 2.5e-3


@dataclass(kw_only=True)
class PrimalMISVMResult(CCCPSolution):
    """A local minimum.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    intercept : float
    n_passes : int
        Passes over all instances.
    stopped : {"", "max_iter", "max_passes", "callback"}
    """

    w: np.ndarray
    intercept: float
    n_passes: int


def solve_mi_svm_primal(
    source: PassSource,
    loss: Hinge,
    slack: str,
    start: str | np.ndarray,
    options: SolverOptions,
    gap_tol: float,
    max_passes: int = _MAX_PASSES,
) -> PrimalMISVMResult:
    """MI-SVM with a linear kernel.

    Parameters
    ----------
    source : PassSource
    loss : Hinge
    slack : {"bag", "instance"}
        Whether a negative bag or each of its instances has a slack.
    start : {"auto", "mean"} or ndarray of int of shape (n_positive,)
        First witnesses: the better of two starts on a sample of the bags (the mean of each bag,
        and the highest instances under the SVM on instances that inherit labels), the mean of each
        bag, or given rows. A sample that holds all bags is solved to the precision asked for.
    options : SolverOptions
        ``qp_solver`` is not used.
    gap_tol : float
        Relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes.
    """
    prices = Prices(loss.signs, loss.weights, slack == "instance")
    if isinstance(start, str) and start == "auto":
        begin = _start_of_sample(source, prices, options, gap_tol)
    else:
        held = _given(source, prices, start)
        w, b = _against_sample(source, held.vectors, prices)
        found = _without_moves(pass_over(source, (w, b), prices, witnesses=held.witnesses))
        none = Proportions.none(len(prices.positive))
        begin = _Begin(w, b, held, found, none, n_passes=2, rough=False)
    # A start may have taken what is allowed: the step that it begins is finished all the same.
    limit = max(max_passes, begin.n_passes + 1)
    return _descend(source, prices, begin, options, gap_tol, limit)[0]


@dataclass(frozen=True)
class _Begin:
    """Where the procedure begins: a point with the pass there, and witnesses.

    Attributes
    ----------
    w, b : ndarray of shape (n_features,) and float
    held : Held
    found : Pass
    proportions : Proportions
    n_passes : int
        Passes until here.
    rough : bool
        Whether witnesses are likely to move far.
    """

    w: np.ndarray
    b: float
    held: Held
    found: Pass
    proportions: Proportions
    n_passes: int
    rough: bool


def _descend(
    source: PassSource,
    prices: Prices,
    begin: _Begin,
    options: SolverOptions,
    gap_tol: float,
    max_passes: int,
) -> tuple[PrimalMISVMResult, _Begin]:
    """A local minimum, and its last step to begin again from."""
    w, b, held, found, proportions = begin.w, begin.b, begin.held, begin.found, begin.proportions
    n_passes, rough = begin.n_passes, begin.rough
    costs, tol = prices.weights[prices.positive], max(options.tol, _EXACT * gap_tol)
    following: Moved | None = None
    best = PrimalMISVMResult(
        w=w,
        intercept=b,
        objective=np.inf,
        history=[],
        n_iter=0,
        stopped="max_iter",
        dual_gap=np.inf,
        objective_scale=rounding_scale(prices.weights),
        n_passes=0,
    )
    held_value = last_objective = np.inf
    bound, band, n_missed = -np.inf, BAND, 0
    scale_of_gap = best.objective_scale
    while n_passes < max_passes and best.n_iter < options.max_iter:
        problem = working_set(held.vectors, found, prices)
        aim = max(_ROUGH, gap_tol) if rough else _EXACT * gap_tol
        first = (
            proportions.first_of(problem, found, problem.values(w, b))
            if proportions.known
            else None
        )
        solved = solve_groups(problem, w, b, gap_tol=aim, proportions=first)
        w, b, proportions = (
            solved.w,
            solved.v,
            Proportions.of_solution(solved.proportions, found, len(costs)),
        )
        bound = max(bound, solved.lower_bound)
        size = max(abs(solved.objective), scale_of_gap)
        missed = solved.objective - solved.lower_bound > aim * size
        n_missed = n_missed + 1 if missed and not rough else 0
        before, groups = found, np.unique(found.groups)
        found = pass_over(source, (w, b), prices, groups, band, held.witnesses)
        moved, found = found.moved, _without_moves(found)
        n_passes += 1
        rest = 0.5 * float(w @ w) + found.loss
        value = rest + float(costs @ np.maximum(0.0, 1.0 - held.scores(w) - b))
        objective = rest + found.positive_loss
        # Rounds that the working set's solver has no digits for would all end alike.
        closed = value - bound <= gap_tol * max(abs(value), scale_of_gap)
        closed = closed or n_missed >= _MAX_MISSED
        # Where rows are missing the objective may happen to be low: the procedure goes on from
        # solutions of its steps.
        improved = objective < best.objective and (closed or rough)
        if improved:
            best.w, best.intercept, best.objective = w, b, objective
            held_value = value
        # What the step, with the witnesses it holds, is worth at the best point.
        best.dual_gap = max(0.0, held_value - bound)
        if not closed and not rough:
            # Rows were missing: the same step once more, over all that it has looked at. The band
            # widens, for rows beyond it may change sides from one round to the next.
            band *= _WIDER
            found = joined(before, found, (w, b), prices, np.ones(len(before.numbers), bool))
            continue
        best.n_iter += 1
        best.history.append(best.objective)
        if improved:
            following = moved
            if found.span[1] - found.span[0] <= _CONSTANT:
                following = _far_from_constant(source, prices, held)
                n_passes += 2
        scale = (2.0 * max(_ROUGH, gap_tol) if rough else tol) * abs(best.objective)
        stays = following is None or len(following.positions) == 0
        ended = last_objective - best.objective <= scale or stays
        if ended and not rough:
            best.stopped = ""
            break
        if options.on_iteration is not None and options.on_iteration(best.n_iter, best.objective):
            best.stopped = "callback"
            break
        rough = rough and not ended
        found = joined(before, found, (w, b), prices, proportions.negative > 0)
        if following is not None:
            held.move(following)
        following, moved = None, None
        held_value, last_objective = best.objective, best.objective
        bound, band, n_missed = -np.inf, BAND, 0
    finished = best.n_iter
    if finished == 0:
        # The passes did not suffice for the first step.
        best.w, best.intercept, best.objective = w, b, objective
        best.n_iter, best.history, best.dual_gap = 1, [objective], value - bound
    if best.stopped == "max_iter" and finished < options.max_iter:
        best.stopped = "max_passes"
    best.n_passes = n_passes
    return best, _Begin(w, b, held, found, proportions, n_passes, rough=False)


# -- starts ------------------------------------------------------------------------------------


def _means(block: Block, signs: np.ndarray) -> Matrix:
    rows, offsets = gather_rows(block.offsets, np.flatnonzero(signs[block.bags] > 0))
    return pooling_matrix(offsets) @ block.take(rows)


def _mean_difference(block: Block, prices: Prices) -> np.ndarray:
    positive, sizes = prices.signs > 0, np.diff(block.offsets)
    totals = prices.weights[positive].sum(), prices.weights[~positive].sum()
    share = np.where(positive[block.bags], 1.0 / totals[0], -1.0 / totals[1])
    share *= prices.weights[block.bags] / sizes
    return block.weighted_sum(np.arange(int(block.offsets[-1])), np.repeat(share, sizes))


def _far_from_constant(source: PassSource, prices: Prices, held: Held) -> Moved | None:
    """Witnesses where a step ended with w = 0: the highest under the difference of the means."""
    w = np.sum(source.map(_mean_difference, prices), axis=0)
    return pass_over(source, (w, 0.0), prices, witnesses=held.witnesses).moved


def _highest(
    source: PassSource, point: tuple[np.ndarray, float], prices: Prices
) -> tuple[Held, Pass]:
    """A pass at a point, and the witnesses there."""
    found = pass_over(source, point, prices)
    moved = found.moved
    assert moved is not None
    return Held(moved.witnesses, moved.vectors), _without_moves(found)


def _without_moves(found: Pass) -> Pass:
    return replace(found, moved=None)


def _given(source: PassSource, prices: Prices, start: str | np.ndarray) -> Held:
    """First witnesses."""
    if isinstance(start, str):
        means = stacked(source.map(_means, prices.signs))
        return Held(np.full(means.shape[0], -1), means)
    return Held(start, stacked(source.map(_rows_as_kept, start)))


def _rows_as_kept(block: Block, rows: np.ndarray) -> Matrix:
    return rows_of_block(block, rows, kept_type(block))


def _pick(block: Block, used: np.ndarray, most: int) -> tuple[Matrix, np.ndarray]:
    mine = used[(used >= block.bags.start) & (used < block.bags.stop)]
    rows, offsets = gather_rows(block.offsets, mine - block.first_bag)
    # Of a large bag instances at equal distances.
    steps = np.repeat(np.maximum(1, -(-np.diff(offsets) // most)), np.diff(offsets))
    place = np.arange(len(rows)) - np.repeat(offsets[:-1], np.diff(offsets))
    kept = place % steps == 0
    sizes = np.bincount(np.repeat(np.arange(len(mine)), np.diff(offsets)), kept, len(mine))
    return block.take(rows[kept]), sizes.astype(np.intp)


def _sample(source: PassSource, prices: Prices) -> tuple[ArraySource, np.ndarray]:
    """Some bags of both classes, and their positions."""
    wanted = max(_SAMPLE, _SAMPLE_PER_FEATURE * source.n_features)
    wanted = min(wanted, max(_SAMPLE, _SAMPLE_NUMBERS // source.n_features))
    fraction = min(1.0, wanted / source.n_instances)
    rng = np.random.RandomState(0)
    parts = []
    for sign in (1.0, -1.0):
        members = np.flatnonzero(prices.signs == sign)
        count = min(len(members), max(_FEWEST_BAGS, int(np.ceil(fraction * len(members)))))
        parts.append(
            members if count == len(members) else rng.choice(members, count, replace=False)
        )
    used = np.sort(np.concatenate(parts))
    fewest = 2 * _FEWEST_BAGS
    most = max(wanted // fewest, _SAMPLE_NUMBERS // (fewest * source.n_features))
    most = min(most, wanted // (2 * _FEW_LARGE_BAGS)) if fraction < 1 else source.n_instances
    found = source.map(_pick, used, max(1, most))
    sizes = np.concatenate([part for _, part in found])
    return ArraySource(stacked([rows for rows, _ in found]), np.r_[0, np.cumsum(sizes)]), used


def _against_sample(
    source: PassSource, vectors: Matrix, prices: Prices
) -> tuple[np.ndarray, float]:
    """A first function: given witnesses against instances of some negative bags."""
    sample, used = _sample(source, prices)
    negative = np.flatnonzero(prices.signs[used] < 0)
    rows, offsets = gather_rows(sample.offsets, negative)
    signs = np.r_[np.ones(vectors.shape[0]), -np.ones(len(rows))]
    weights = np.repeat(prices.weights[used[negative]], np.diff(offsets))
    costs = np.r_[prices.weights[prices.positive], weights]
    return _svm(stacked([vectors, sample.instances[rows]]), signs, costs)


def _svm(rows: Matrix, signs: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, float]:
    """A rough SVM between rows."""
    signed = (
        sparse.diags_array(-signs).tocsr() @ rows
        if sparse.issparse(rows)
        else -signs[:, None] * rows
    )
    problem = GroupProblem(signed, -signs, np.arange(len(signs) + 1), costs)
    found = solve_groups(problem, np.zeros(rows.shape[1]), 0.0, gap_tol=0.05)
    return found.w, found.v


def _start_of_sample(
    source: PassSource, prices: Prices, options: SolverOptions, gap_tol: float
) -> _Begin:
    """The better of two local minima for a sample of the bags; where that is all of them, for all.

    One begins with the mean of each positive bag, the other with its highest instance under the SVM
    on instances that inherit labels.
    """
    sample, used = _sample(source, prices)
    part = Prices(prices.signs[used], prices.weights[used], prices.by_instance)
    whole = sample.n_instances == source.n_instances
    tol, most = (gap_tol, _MAX_PASSES) if whole else (_SAMPLE_TOL, _SAMPLE_PASSES)
    quiet = SolverOptions(max(options.tol, 0.1 * tol), options.max_iter)
    owner = np.repeat(np.arange(len(used)), sample.sizes)
    w, b = _svm(sample.instances, part.signs[owner], part.weights[owner])
    (held, found), none = _highest(sample, (w, b), part), Proportions.none(len(part.positive))
    begins = [_Begin(w, b, held, found, none, 1, rough=False)]
    held = _given(sample, part, "mean")
    w, b = _against_sample(sample, held.vectors, part)
    found = _without_moves(pass_over(sample, (w, b), part, witnesses=held.witnesses))
    begins.append(_Begin(w, b, held, found, none, 2, rough=False))
    ends = [_descend(sample, part, begin, quiet, tol, most) for begin in begins]
    best, end = min(ends, key=lambda pair: pair[0].objective)
    if whole:
        return replace(end, n_passes=sum(result.n_passes for result, _ in ends))
    del ends, begins, end
    held, found = _highest(source, (best.w, best.intercept), prices)
    none = Proportions.none(len(prices.positive))
    return _Begin(best.w, best.intercept, held, found, none, n_passes=1, rough=True)
