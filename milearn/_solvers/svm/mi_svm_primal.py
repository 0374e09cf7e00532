"""MI-SVM with a linear kernel in the primal, by a handful of passes over the instances.

The problem is that of :mod:`.mi_svm`, J(w, b). A convex step (witnesses of the positive bags held)
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

from ..._bags.segments import gather_rows, pooling_matrix, segment_argmax, segment_max
from ..common.cccp import CCCPSolution
from ..common.options import SolverOptions
from ..common.passes import ArraySource, Block, PassSource
from ..common.rounding import rounding_scale
from .group_newton import GroupProblem, solve_groups
from .losses import Hinge

__all__ = ["PrimalMISVMResult", "solve_mi_svm_primal"]

Matrix = Any  # an ndarray or a CSR matrix

# Rows within this distance of what counts belong to the working set, in units of the margin.
_BAND = 0.3
# A start is found on a sample of bags with as many instances.
_SAMPLE = 4_000
_SAMPLE_PER_FEATURE = 100
_SAMPLE_NUMBERS = 2**23
_FEWEST_BAGS = 4
# Numbers in the working set of negative bags, at the most.
_WORKING_NUMBERS = 2**25
# Numbers in all instances up to which they are the working set.
_EVERYTHING = 2**20
# Numbers in rows of earlier passes that stay in it at any size.
_KEPT_NUMBERS = 2**21
_SAMPLE_TOL = 2e-2
_SAMPLE_PASSES = 12
_MAX_PASSES = 200
# Precision of the working set's problem against that of a step, exactly and roughly.
_EXACT, _ROUGH = 0.3, 5.0
_FIRST_SMOOTHING = 0.5


@dataclass(kw_only=True)
class PrimalMISVMResult(CCCPSolution):
    """A local minimum.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    intercept : float
    n_passes : int
        Passes over all instances.
    """

    w: np.ndarray
    intercept: float
    n_passes: int


@dataclass(frozen=True)
class _Prices:
    """Signs of the bags, costs of their slacks, and whether each instance has one."""

    signs: np.ndarray
    weights: np.ndarray
    by_instance: bool

    @property
    def positive(self) -> np.ndarray:
        return np.flatnonzero(self.signs > 0)


@dataclass(frozen=True)
class _Held:
    """The witnesses of a convex step, as rows and as instances; -1 stands for the mean of a bag."""

    witnesses: np.ndarray
    vectors: Matrix


@dataclass(frozen=True)
class _Pass:
    """What a pass found, in a block or in all.

    Attributes
    ----------
    top : ndarray of shape (n_bags,), highest score of each bag
    witnesses : ndarray of int of shape (n_positive,), the rows of those of positive bags
    vectors : matrix of shape (n_positive, n_features), the instances there
    rows, numbers, groups : the working set of negative bags: instances, their rows, their bags
    far, far_cost : weighted sum of the rows beyond the band, and the sum of their weights
    quiet, quiet_cost : the same for the highest rows of bags that keep clear of the margin
    loss : float, of all negative bags
    """

    top: np.ndarray
    witnesses: np.ndarray
    vectors: Matrix
    rows: Matrix
    numbers: np.ndarray
    groups: np.ndarray
    far: np.ndarray
    far_cost: float
    quiet: np.ndarray
    quiet_cost: float
    loss: float


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
    prices = _Prices(loss.signs, loss.weights, slack == "instance")
    if isinstance(start, str) and start == "auto":
        w, b, n_passes, rough = _start_of_sample(source, prices, options, gap_tol)
        found = _pass(source, (w, b), prices)
        held = _Held(found.witnesses, found.vectors)
        n_passes += 1
    else:
        held, rough = _given(source, prices, start), False
        w, b = _against_sample(source, held.vectors, prices)
        found = _pass(source, (w, b), prices)
        n_passes = 2
    # A start may have taken what is allowed: the step that begins is finished all the same.
    limit = max(max_passes, n_passes + 1)
    return _descend(source, prices, (w, b, held, found, n_passes), options, gap_tol, rough, limit)


def _descend(
    source: PassSource,
    prices: _Prices,
    start: tuple[np.ndarray, float, _Held, _Pass, int],
    options: SolverOptions,
    gap_tol: float,
    rough: bool,
    max_passes: int,
) -> PrimalMISVMResult:
    """The concave-convex procedure from witnesses and a pass at a point."""
    w, b, held, found, n_passes = start
    costs, tol = prices.weights[prices.positive], max(options.tol, 0.1 * gap_tol)
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
    best_pass, shares = found, _Shares.none(len(costs))
    held_value = last_objective = np.inf
    bound = -np.inf
    while n_passes < max_passes and best.n_iter < options.max_iter:
        problem = _working_set(held.vectors, found, prices)
        aim = (_ROUGH if rough else _EXACT) * gap_tol
        first = shares.first_of(problem, found, problem.values(w, b))
        solved = solve_groups(problem, w, b, gap_tol=aim, shares=first)
        w, b, shares = solved.w, solved.v, _Shares.of_solution(solved.shares, found, len(costs))
        bound = max(bound, solved.lower_bound)
        before, found = found, _pass(source, (w, b), prices, np.unique(found.groups))
        n_passes += 1
        rest = 0.5 * float(w @ w) + found.loss
        value = rest + float(costs @ np.maximum(0.0, 1.0 - np.asarray(held.vectors @ w) - b))
        objective = rest + float(costs @ np.maximum(0.0, 1.0 - found.top[prices.positive]))
        closed = value - bound <= gap_tol * abs(value)
        improved = objective < best.objective
        if improved:
            best.w, best.intercept, best.objective = w, b, objective
            best_pass, held_value = found, value
        # What the step, with the witnesses it holds, is worth at the best point.
        best.dual_gap = max(0.0, held_value - bound)
        if not closed and not rough:
            # Rows were missing: the same step once more, over all that it has looked at.
            found = _joined(before, found, (w, b), prices, np.ones(len(before.numbers), bool))
            continue
        best.n_iter += 1
        best.history.append(best.objective)
        scale = (10.0 * gap_tol if rough else tol) * abs(best.objective)
        ended = last_objective - best.objective <= scale or np.array_equal(
            best_pass.witnesses, held.witnesses
        )
        if ended and not rough:
            best.stopped = ""
            break
        if options.on_iteration is not None and options.on_iteration(best.n_iter, best.objective):
            best.stopped = "callback"
            break
        rough = rough and not ended
        found = _joined(before, found, (w, b), prices, shares.negative > 0)
        held = _Held(best_pass.witnesses, best_pass.vectors)
        held_value = last_objective = best.objective
        bound = -np.inf
    best.n_passes = n_passes
    return best


@dataclass(frozen=True)
class _Shares:
    """Shares of the rows of a working set, by which the next one starts.

    Attributes
    ----------
    positive : ndarray of shape (n_positive,)
    numbers, negative : the rows of negative bags, sorted, and their shares
    """

    positive: np.ndarray
    numbers: np.ndarray
    negative: np.ndarray

    @classmethod
    def none(cls, n_positive: int) -> _Shares:
        return cls(np.zeros(n_positive), np.zeros(0, dtype=np.intp), np.zeros(0))

    @classmethod
    def of_solution(cls, shares: np.ndarray, found: _Pass, n_positive: int) -> _Shares:
        last = n_positive + len(found.numbers)
        return cls(shares[:n_positive], found.numbers, shares[n_positive:last])

    def of_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Shares of given rows, zero for those that are new."""
        found = np.zeros(len(numbers))
        if len(self.numbers):
            place = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
            known = self.numbers[place] == numbers
            found[known] = self.negative[place[known]]
        return found

    def first_of(self, problem: GroupProblem, found: _Pass, u: np.ndarray) -> np.ndarray:
        """Shares to begin with; in a group that has none the highest row takes all if it pays."""
        n_positive, n_rows = len(self.positive), len(found.numbers)
        shares = np.zeros(len(u))
        shares[:n_positive] = self.positive
        shares[n_positive : n_positive + n_rows] = self.of_rows(found.numbers)
        top = segment_argmax(u, problem.offsets)
        missing = np.add.reduceat(shares, problem.offsets[:-1]) == 0
        shares[top[missing & (u[top] > 0)]] = 1.0
        return shares


# -- a pass ------------------------------------------------------------------------------------


def _pass(
    source: PassSource,
    point: tuple[np.ndarray, float],
    prices: _Prices,
    held: np.ndarray | None = None,
) -> _Pass:
    """A pass at a point; ``held`` are the bags with rows in the working set."""
    bags = np.zeros(0, dtype=np.intp) if held is None else held
    parts = source.map(_look, point, prices, bags, source.n_instances)
    return _Pass(
        top=np.concatenate([part.top for part in parts]),
        witnesses=np.concatenate([part.witnesses for part in parts]),
        vectors=_stacked([part.vectors for part in parts]),
        rows=_stacked([part.rows for part in parts]),
        numbers=np.concatenate([part.numbers for part in parts]),
        groups=np.concatenate([part.groups for part in parts]),
        far=np.sum([part.far for part in parts], axis=0),
        far_cost=sum(part.far_cost for part in parts),
        quiet=np.sum([part.quiet for part in parts], axis=0),
        quiet_cost=sum(part.quiet_cost for part in parts),
        loss=sum(part.loss for part in parts),
    )


def _width(instances: Matrix) -> float:
    """Numbers that an instance takes."""
    if sparse.issparse(instances):
        return max(1.0, 2.0 * instances.nnz / max(1, instances.shape[0]))
    return float(instances.shape[1])


def _rank_in_bags(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Rank of each value among those of its bag, 0 for the highest."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-values, owner))
    rank = np.empty(len(values), dtype=np.intp)
    rank[order] = np.arange(len(values)) - np.repeat(offsets[:-1], np.diff(offsets))
    return rank


def _look(
    block: Block,
    point: tuple[np.ndarray, float],
    prices: _Prices,
    held: np.ndarray,
    n_instances: int,
) -> _Pass:
    w, b = point
    scores = block.scores(w) + b
    signs, weights = prices.signs[block.bags], prices.weights[block.bags]
    top, highest = segment_max(scores, block.offsets), segment_argmax(scores, block.offsets)
    positive, negative = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    rows, offsets = gather_rows(block.offsets, negative)
    owner = np.repeat(negative, np.diff(offsets))
    u, top_u = 1.0 + scores[rows], 1.0 + top[negative]
    numbers = n_instances * _width(block.instances)
    # Few instances all belong to the working set.
    band = np.inf if numbers <= _EVERYTHING else _BAND
    limit = max(len(negative), int(_WORKING_NUMBERS / numbers * len(rows)))
    if prices.by_instance:
        beyond = u > 1.0 + band
        near = (u > -band) & ~beyond
        if int(near.sum()) > limit:
            # The rows nearest to the margin; the others beyond it are summed up.
            nearest = np.partition(np.abs(u), limit)[limit]
            beyond |= near & (u >= nearest)
            near &= np.abs(u) < nearest
        loss = float(weights[owner] @ np.maximum(u, 0.0))
    else:
        beyond = np.zeros(len(u), dtype=bool)
        near = u > np.maximum(1.0 + top[owner], 0.0) - band
        if int(near.sum()) > limit:
            # Where scores hardly differ, the highest rows of each bag stand for the others.
            near &= _rank_in_bags(u, offsets) < max(2, limit // max(1, len(negative)))
        loss = float(weights[negative] @ np.maximum(top_u, 0.0))
    # A bag with rows in the working set pays there.
    known = np.isin(negative + block.first_bag, held)
    silent = negative[(top_u <= -band) & ~known]
    return _Pass(
        top=top,
        witnesses=highest[positive] + block.first_row,
        vectors=block.take(highest[positive]),
        rows=block.take(rows[near]),
        numbers=rows[near] + block.first_row,
        groups=owner[near] + block.first_bag,
        far=block.weighted_sum(rows[beyond], weights[owner[beyond]]),
        far_cost=float(weights[owner[beyond]].sum()),
        quiet=block.weighted_sum(highest[silent], weights[silent]),
        quiet_cost=float(weights[silent].sum()),
        loss=loss,
    )


def _stacked(parts: list[Matrix]) -> Matrix:
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def _joined(
    before: _Pass,
    found: _Pass,
    point: tuple[np.ndarray, float],
    prices: _Prices,
    kept: np.ndarray,
) -> _Pass:
    """The working set of a pass with some rows of the one before."""
    (w, b), extra = point, np.flatnonzero(kept & ~np.isin(before.numbers, found.numbers))
    u = 1.0 + np.asarray(before.rows[extra] @ w) + b
    if prices.by_instance:
        # Rows inside of the band that the pass left out are in its sum.
        outside = (u <= -_BAND) | (u > 1.0 + _BAND)
        extra, u = extra[outside], u[outside]
    most = max(len(found.numbers), int(_KEPT_NUMBERS / _width(before.rows)))
    if len(extra) > most:
        nearest = np.argpartition(np.abs(u), most)[:most]
        extra, u = extra[nearest], u[nearest]
    if len(extra) == 0:
        return found
    rows, groups = before.rows[extra], before.groups[extra]
    far, far_cost = found.far, found.far_cost
    if prices.by_instance:
        # Rows that went beyond the band are looked at one by one again.
        weights = prices.weights[groups] * (u > 1.0 + _BAND)
        far = far - np.asarray(rows.T @ weights)
        far_cost = max(0.0, far_cost - float(weights.sum()))
    numbers = np.r_[found.numbers, before.numbers[extra]]
    order = np.argsort(numbers, kind="stable")
    return replace(
        found,
        rows=_stacked([found.rows, rows])[order],
        numbers=numbers[order],
        groups=np.r_[found.groups, groups][order],
        far=far,
        far_cost=far_cost,
    )


def _working_set(vectors: Matrix, found: _Pass, prices: _Prices) -> GroupProblem:
    """The convex step over the working set: positive bags first, summed rows last."""
    positive = prices.positive
    n_positive, n_rows = len(positive), found.rows.shape[0]
    sums = [
        (total / cost, cost)
        for total, cost in ((found.far, found.far_cost), (found.quiet, found.quiet_cost))
        if cost > 0
    ]
    parts = [-vectors, found.rows]
    if sums:
        means = np.stack([mean for mean, _ in sums])
        parts.append(sparse.csr_array(means) if sparse.issparse(vectors) else means)
    if prices.by_instance:
        starts = np.arange(n_rows)
    else:
        starts = np.flatnonzero(np.r_[True, found.groups[1:] != found.groups[:-1]][:n_rows])
    n_all = n_positive + n_rows + len(sums)
    ends = np.arange(n_positive + n_rows, n_all + 1)
    return GroupProblem(
        Z=_stacked(parts),
        e=np.r_[-np.ones(n_positive), np.ones(n_all - n_positive)],
        offsets=np.r_[np.arange(n_positive), n_positive + starts, ends],
        costs=np.r_[
            prices.weights[positive],
            prices.weights[found.groups[starts]],
            [cost for _, cost in sums],
        ],
    )


# -- starts ------------------------------------------------------------------------------------


def _take(block: Block, rows: np.ndarray) -> Matrix:
    mine = rows[(rows >= block.rows.start) & (rows < block.rows.stop)]
    return block.take(mine - block.first_row)


def _means(block: Block, signs: np.ndarray) -> Matrix:
    rows, offsets = gather_rows(block.offsets, np.flatnonzero(signs[block.bags] > 0))
    return pooling_matrix(offsets) @ block.take(rows)


def _given(source: PassSource, prices: _Prices, start: str | np.ndarray) -> _Held:
    """First witnesses."""
    if isinstance(start, str):
        means = _stacked(source.map(_means, prices.signs))
        return _Held(np.full(means.shape[0], -1), means)
    return _Held(start, _stacked(source.map(_take, start)))


def _pick(block: Block, used: np.ndarray, most: int) -> tuple[Matrix, np.ndarray]:
    mine = used[(used >= block.bags.start) & (used < block.bags.stop)]
    rows, offsets = gather_rows(block.offsets, mine - block.first_bag)
    # Of a large bag instances at equal distances.
    steps = np.repeat(np.maximum(1, -(-np.diff(offsets) // most)), np.diff(offsets))
    place = np.arange(len(rows)) - np.repeat(offsets[:-1], np.diff(offsets))
    kept = place % steps == 0
    sizes = np.bincount(np.repeat(np.arange(len(mine)), np.diff(offsets)), kept, len(mine))
    return block.take(rows[kept]), sizes.astype(np.intp)


def _sample(source: PassSource, prices: _Prices) -> tuple[ArraySource, np.ndarray]:
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
    found = source.map(_pick, used, max(1, wanted // (2 * _FEWEST_BAGS)))
    sizes = np.concatenate([part for _, part in found])
    return ArraySource(_stacked([rows for rows, _ in found]), np.r_[0, np.cumsum(sizes)]), used


def _against_sample(
    source: PassSource, vectors: Matrix, prices: _Prices
) -> tuple[np.ndarray, float]:
    """A first function: given witnesses against instances of some negative bags."""
    sample, used = _sample(source, prices)
    negative = np.flatnonzero(prices.signs[used] < 0)
    rows, offsets = gather_rows(sample.offsets, negative)
    signs = np.r_[np.ones(vectors.shape[0]), -np.ones(len(rows))]
    weights = np.repeat(prices.weights[used[negative]], np.diff(offsets))
    costs = np.r_[prices.weights[prices.positive], weights]
    return _svm(_stacked([vectors, sample.instances[rows]]), signs, costs)


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
    source: PassSource, prices: _Prices, options: SolverOptions, gap_tol: float
) -> tuple[np.ndarray, float, int, bool]:
    """The better of two local minima for a sample of the bags.

    Returns
    -------
    w, intercept : ndarray of shape (n_features,) and float
    n_passes : int
        Passes over all instances.
    rough : bool
        Whether these are local minima of some bags only.
    """
    sample, used = _sample(source, prices)
    loss = Hinge(prices.signs[used], prices.weights[used])
    owner = np.repeat(np.arange(len(used)), sample.sizes)
    w, _ = _svm(sample.instances, loss.signs[owner], loss.weights[owner])
    first = segment_argmax(np.asarray(sample.instances @ w), sample.offsets)
    slack = "instance" if prices.by_instance else "bag"
    rough = sample.n_instances < source.n_instances
    tol, most = (_SAMPLE_TOL, _SAMPLE_PASSES) if rough else (gap_tol, _MAX_PASSES)
    quiet = SolverOptions(max(options.tol, 0.1 * tol), options.max_iter)
    starts: list[str | np.ndarray] = [first[loss.signs > 0], "mean"]
    results = [
        solve_mi_svm_primal(sample, loss, slack, start, quiet, tol, most) for start in starts
    ]
    best = min(results, key=lambda result: result.objective)
    n_passes = 0 if rough else sum(result.n_passes for result in results)
    return best.w, best.intercept, n_passes, rough
