"""MI-SVM over rows: a linear kernel or explicit features, and ordered classes, in a few passes.

The problem is :class:`.objectives.MISVMProblem`. The concave-convex procedure replaces the maxima
of the first sum by the witnesses of the bags, see :mod:`..common.descent`. Witnesses change only if
J decreases. The working set of a convex step has the highest rows of the bags that are negative for
some threshold, unless they satisfy the margin by more than the band. If each instance has a slack,
it has the rows near the margin, and the rows beyond are summed in one row. By convexity the hinge
of this sum is a lower bound of the sum of hinges, so the minimum over the working set is a lower
bound of the step. The working set of a small problem contains all instances.

The means of the bags are followed, and the highest instances under the best of several screened
directions, see :mod:`..common.screen`. Where there are many instances, a sample of the bags is
screened, and the lowest of its ends is the start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import Block, PassSource, product, stacked, width_of
from ..._bags.segments import gather_rows, pooling_matrix, segment_argmax
from ..common.cccp import SolverOptions, lowest, optimal_intercept, rounding_scale
from ..common.descent import (
    Duals,
    PassSolution,
    RowLimits,
    Witnesses,
    WorkingSet,
    descend,
    near_the_top,
)
from ..common.newton import GroupProblem
from ..common.passes import (
    SampleLimits,
    TieRule,
    bag_maxima,
    bag_means,
    is_constant,
    rows_of_block,
    sampled_source,
    weighted_sum,
)
from ..common.screen import highest_rows, screened
from .losses import Hinge
from .objectives import DOUBLE_NUMBERS, MISVMProblem, Point

Matrix = Any  # an ndarray or a CSR matrix
# The means of bags, the rows of their witnesses, or a point (w, b).
Start = np.ndarray | Point | None

# Up to this relative gap ties are broken by a rule, as over kernel values.
_FINE = 1e-4
# Numbers in rows of earlier passes that are always kept.
_KEPT_NUMBERS = 2**21
# Numbers that a row counts for at least: a step over many narrow rows takes longer than a pass.
_LEAST_WIDTH = 256
# A step that is repeated until the band is so many times wider may lack digits of scores in single
# precision.
_WIDE = 4.0

# The bags that are screened where there are many: of a bag few instances decide.
SCREENED = SampleLimits(instances=5_000, numbers=2**26, bags=100)
# Numbers in all instances up to which the means are followed on all of them.
_MEANS = 2**24
# The steps by which screened starts are compared. On a sample, whose best end is followed, one
# rough step is enough; on small data it chooses starts whose ends are 3 to 5 % higher.
TRIAL, _SHORT_TRIAL = SolverOptions(0.03, 3), SolverOptions(0.1, 1)


def solve_from(
    problem: MISVMProblem,
    start: Start,
    options: SolverOptions,
    *,
    max_passes: int = 200,
    limits: RowLimits | None = None,
) -> PassSolution:
    """A stationary point of J from a start; ``v`` has the intercepts.

    ``witnesses`` are those of the bags with a rank above zero, in their order.

    Parameters
    ----------
    problem : MISVMProblem
    start : ndarray of int of shape (n_upper,), tuple (w, b) or None
        Rows of the first witnesses of bags with a rank above zero, or a point, whose first steps
        are rough. The means of the bags if None.
    options : SolverOptions
        ``tol`` is the relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes.
    limits : RowLimits, default=None
    """
    model = _Model(problem, limits or RowLimits(), options.tol)
    point, witnesses = (start, None) if isinstance(start, tuple) else model.first(start)
    found = descend(
        model,
        point,
        witnesses,
        options,
        rough=witnesses is None,
        objective_scale=rounding_scale(problem.costs),
        max_passes=max_passes,
    )
    numbers, found.linearisation = found.linearisation.numbers, None
    found.witnesses = numbers if (numbers >= 0).all() else None
    return found


def solve_mi_svm_rows(
    source: PassSource,
    loss: Hinge,
    slack: str,
    start: str | Start,
    options: SolverOptions,
    *,
    max_passes: int = 200,
    limits: RowLimits | None = None,
    sample: SampleLimits = SCREENED,
) -> PassSolution:
    """MI-SVM over rows.

    Parameters
    ----------
    source : PassSource
    loss : Hinge
    slack : {"bag", "instance"}
        Whether a negative bag or each of its instances has a slack.
    start : {"auto", "mean"} or start
        The lowest end of several starts, the mean of each bag, or a start of ``solve_from``.
    options : SolverOptions
        ``tol`` is the relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes of each run.
    limits : RowLimits, default=None
    sample : SampleLimits
        Size of the sample for the starts.
    """
    ranks = (loss.signs > 0).astype(np.intp)
    problem = MISVMProblem(source, ranks, loss.weights, slack == "instance")
    several: list[Start] = [None if isinstance(start, str) else start]
    if isinstance(start, str) and start == "auto":
        several = starts_of(problem, sample)
    ends, n_iter, n_passes = [], 0, 0
    for each in several:
        own = options.after(n_iter)
        ends.append(solve_from(problem, each, own, max_passes=max_passes, limits=limits))
        n_iter, n_passes = n_iter + ends[-1].n_iter, n_passes + ends[-1].n_passes
        if ends[-1].stopped == "callback":
            break
    return replace(lowest(ends), n_passes=n_passes)


def starts_of(problem: MISVMProblem, limits: SampleLimits = SCREENED) -> list[Start]:
    """The means of bags and the best screened witnesses, or the lowest end of a sample.

    Of the screened directions, the one whose first steps end lowest is the best.
    """
    source, part, trial, many = problem.source, problem, TRIAL, False
    small = limits.holds_all(source.n_instances, source.n_features)
    if not small:
        part, trial = problem.part(*sampled_source(source, problem.ranks, limits)), _SHORT_TRIAL
        many = source.n_instances * source.n_features > _MEANS
    starts: list[Start] = [None]
    found = screened(part.source, part.ranks, part.costs)
    if len(found.directions):
        lengths = np.linalg.norm(found.directions, axis=1)
        directions = found.directions / np.maximum(lengths, 1e-300)[:, None]
        if many and source.n_features >= part.source.n_bags:
            # A function separates all labels of a sample: its ends follow noise, not directions.
            return [problem.along(directions[0], bag_maxima(source, directions[:1])[:, 0])]
        ends = []
        for direction, tops in zip(directions, bag_maxima(part.source, directions).T, strict=True):
            ends.append(solve_from(part, part.along(direction, tops), trial))
        best = int(np.argmin([*map(attrgetter("objective"), ends)]))
        if small:
            return [None, found.rows[best, part.upper]]
        # Where the means are followed on all instances, their end on the sample is not needed.
        after_trial: Start = (ends[best].w, ends[best].v)
        starts = [None, after_trial] if many else [after_trial]
    if small:
        return starts
    options = SolverOptions(limits.tol, 100)
    ends = [solve_from(part, each, options, max_passes=limits.max_passes) for each in starts]
    end = min(ends, key=attrgetter("objective"))
    return [(end.w, end.v)] if many else [None, (end.w, end.v)]


def screened_rows(source: PassSource, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Highest instance of each bag under the best direction of a screen on a sample of the bags.

    ``targets`` are numbers, with which the highest score should grow. The shape is (1, n_bags), or
    (0, n_bags) without a choice of instances.
    """
    if SCREENED.holds_all(source.n_instances, source.n_features):
        return screened(source, targets, weights).rows[:1]
    sample, bags = sampled_source(source, np.ones(source.n_bags), SCREENED)
    directions = screened(sample, targets[bags], weights[bags]).directions[:1]
    none = np.zeros((0, source.n_bags), dtype=np.intp)
    return highest_rows(source, directions) if len(directions) else none


@dataclass(frozen=True)
class _View:
    """A pass over all instances.

    Attributes
    ----------
    tops : ndarray of shape (n_bags,), highest score of each bag
    highest : Witnesses
        The highest instances of bags with a rank above zero.
    working : WorkingSet
        Rows of bags that are negative for some intercept.
    furthest : ndarray of shape (n_bags,)
        The u beyond which rows are summed, if each row has a slack.
    beyond : ndarray of shape (n_features + 1,)
        Their weighted sum; the last number is the sum of their weights.
    negative_losses : float
        Losses of instances with slacks.
    objective, value : float
        Value of the problem and of the convex step.
    w, v : ndarray
        The point; of several intercepts, the best ones, which are in order.
    """

    tops: np.ndarray
    highest: Witnesses
    working: WorkingSet
    furthest: np.ndarray
    beyond: np.ndarray
    negative_losses: float
    w: np.ndarray
    v: np.ndarray
    objective: float = np.nan
    value: float = np.nan


class _Model:
    """The problem for :func:`..common.descent.descend`; witnesses are the linearisation."""

    def __init__(self, problem: MISVMProblem, limits: RowLimits, tol: float) -> None:
        self.problem_of_bags, self.source, self.limits = problem, problem.source, limits
        # Ties matter where steps are solved exactly.
        self.exact, self.precise = tol <= _FINE, False
        self.n_passes, self.band = 0, limits.band

    @cached_property
    def second(self) -> np.ndarray:
        """A direction that decides between instances which tie, by a pass."""
        self.n_passes += 1
        ranks, costs = self.problem_of_bags.ranks, self.problem_of_bags.costs
        excess = costs * (ranks - np.average(ranks, weights=costs))
        return weighted_sum(self.source, excess / np.diff(self.source.offsets))

    def first(self, start: np.ndarray | None) -> tuple[Point, Witnesses]:
        """The first witnesses, and a function between some of them and means of bags."""
        problem, source, limits = self.problem_of_bags, self.source, SampleLimits()
        self.n_passes += 1 + 2 * (not limits.holds_all(source.n_instances, source.n_features))
        sample, bags = sampled_source(source, problem.ranks, limits)
        if start is None:
            numbers = np.full(len(problem.upper), -1)
            first = Witnesses(numbers, stacked(source.map(_means_of_block, problem.ranks > 0)))
        else:
            first = Witnesses(start, stacked(source.map(rows_of_block, start, None)))
        vectors = first.vectors[np.searchsorted(problem.upper, bags[problem.ranks[bags] > 0])]
        return problem.between(vectors, bag_means(sample, np.float64), bags), first

    # -- the model --

    def view(self, w: np.ndarray, v: np.ndarray, witnesses: Witnesses | None) -> _View:
        """Pass over all instances."""
        problem, found, value = self.problem_of_bags, self._pass(w, v), np.nan
        losses = found.negative_losses if problem.by_instance else None
        if witnesses is not None:
            value = problem.value((w, v), found.tops, product(witnesses.vectors, w), losses)
            if is_constant(value, problem.at_zero):
                found = replace(found, highest=self._pass(w, v, constant=True).highest)
        if problem.n_intercepts > 1:
            sides = np.where(problem.above, 1.0, -1.0).T
            v = np.array([optimal_intercept(found.tops, side, problem.costs) for side in sides])
        objective = problem.value((w, v), found.tops, found.tops[problem.upper], losses)
        return replace(found, objective=objective, value=value, v=v)

    def _pass(self, w: np.ndarray, v: np.ndarray, *, constant: bool = False) -> _View:
        rule = TieRule(self.second, constant) if constant or self.exact else None
        self.n_passes += 1
        problem, source = self.problem_of_bags, self.source
        at = _Pass(
            w=w,
            v=v,
            ranks=problem.ranks,
            costs=problem.costs,
            by_instance=problem.by_instance,
            limits=replace(self.limits, band=self.band),
            n_instances=source.n_instances,
            rule=rule,
            precise=self.precise,
        )
        parts = zip(*source.map(_view_of_block, at), strict=True)
        tops, highest, working, furthest, beyond, losses = parts
        witnesses = Witnesses.together(highest)
        del parts, highest  # the witnesses of each block, before the rows are copied
        return _View(
            tops=np.concatenate(tops),
            highest=witnesses,
            working=WorkingSet.together(working),
            furthest=np.concatenate(furthest),
            beyond=np.sum(beyond, axis=0),
            negative_losses=sum(losses),
            w=w,
            v=v,
        )

    def with_rows_of(self, before: _View, view: _View, witnesses: Witnesses) -> _View:
        """The view with the working set of the previous one.

        Otherwise rows outside of the working set could alternate between two rounds.
        """
        self.band *= 1.5
        self.precise |= self.band > _WIDE * self.limits.band
        view = self._with_rows(view, before.working, np.ones(len(before.working.numbers), bool))
        # The highest instances of this view are not the witnesses of a later step.
        return replace(view, highest=witnesses)

    def next_step(
        self, witnesses: Witnesses | None, before: _View | None, view: _View, duals: Duals
    ) -> tuple[Witnesses, _View]:
        """The highest instances, and the view with the rows of the previous step that count."""
        if before is not None:
            n_intercepts = self.problem_of_bags.n_intercepts
            keys = before.working.numbers[:, None] * n_intercepts + np.arange(n_intercepts)
            counts = duals.of(keys.ravel()).reshape(keys.shape) > 0
            view = self._with_rows(view, before.working, np.asarray(counts.any(axis=1)))
        self.band = self.limits.band
        if witnesses is not None:
            # They are many, and not needed any more.
            witnesses.vectors = None
        return view.highest, view

    def _with_rows(self, view: _View, old: WorkingSet, kept: np.ndarray) -> _View:
        """The view with some rows of another working set, the nearest to the margin if many."""
        problem, beyond = self.problem_of_bags, view.beyond
        kept = kept & ~np.isin(old.numbers, view.working.numbers)
        last = problem.n_intercepts - 1
        u = 1.0 + product(old.rows, view.w) + view.v[np.minimum(problem.ranks[old.owners], last)]
        summed = u > view.furthest[old.owners]
        if problem.by_instance:
            # By the digits of its score, any other row of a loss may be in the sum.
            kept &= (u <= 0.0) | summed
        most = max(len(view.working.numbers), int(_KEPT_NUMBERS / width_of(old.rows)))
        if np.count_nonzero(kept) > most:
            kept &= np.abs(u) <= np.partition(np.abs(u[kept]), most - 1)[most - 1]
        if problem.by_instance:
            # Rows that are now beyond the band move from the sum to the working set.
            moved = np.flatnonzero(kept & summed)
            costs = problem.costs[old.owners[moved]]
            beyond = beyond - np.append(np.asarray(old.rows[moved].T @ costs), costs.sum())
            beyond[-1] = max(0.0, beyond[-1])
        return replace(view, working=view.working.joined(old, kept), beyond=beyond)

    def is_fixed_point(self, witnesses: Witnesses, view: _View) -> bool:
        """Whether the same instances are the highest."""
        return bool(np.array_equal(witnesses.numbers, view.highest.numbers))

    def problem(self, witnesses: Witnesses, view: _View) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over the working set."""
        double_numbers = np.inf if self.precise else DOUBLE_NUMBERS
        return self.problem_of_bags.step(
            witnesses.vectors, view.working, view.beyond, double_numbers
        )


# -- functions of a block --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """What a pass over all instances needs."""

    w: np.ndarray
    v: np.ndarray
    ranks: np.ndarray
    costs: np.ndarray
    by_instance: bool
    limits: RowLimits
    n_instances: int
    # Breaks ties of the highest instances; scores then have all digits.
    rule: TieRule | None
    precise: bool


def _view_of_block(block: Block, at: _Pass) -> tuple[Any, ...]:
    """What a pass sees in a block: the fields of a view up to its losses."""
    v, limits, offsets, sizes = at.v, at.limits, block.offsets, np.diff(block.offsets)
    everything = limits.hold_all(at.n_instances, max(block.width, _LEAST_WIDTH))
    scores = block.scores(at.w, precise=everything or at.precise or at.rule is not None)
    ranks, costs = at.ranks[block.bags], at.costs[block.bags]
    highest, below = segment_argmax(scores, offsets), ranks < len(v)
    # Of the intercepts for which a bag is negative, the first one costs most.
    level = np.where(below, -1.0 - v[np.minimum(ranks, len(v) - 1)], np.inf)
    each, beyond = np.repeat(np.where(below, costs, 0.0), sizes), np.zeros(0, dtype=np.intp)
    losses, furthest = 0.0, np.inf
    if at.by_instance:
        losses = float(each @ np.maximum(0.0, 1.0 + scores + v[0]))
    if everything:
        near = each > 0
    elif at.by_instance:
        share = limits.share(at.n_instances, block.width)
        most = max(int(below.sum()), int(share * sizes[below].sum()))
        near, furthest = _near_the_margin(1.0 + scores + v[0], each > 0, limits.band, most)
        beyond = np.flatnonzero((1.0 + scores + v[0] > furthest) & (each > 0))
    else:
        near = near_the_top(
            scores, offsets, level, limits.band, limits.of_bag(len(at.ranks), block.width)
        )
    upper = np.flatnonzero(ranks > 0)
    witnesses = highest[upper]
    if at.rule is not None:
        # Only the witnesses of a constant function are asked for.
        near &= not at.rule.constant
        witnesses, _ = at.rule.highest(block, scores, upper)
    # Gathered rows in the type of dense ones, because they are many.
    kept_type: Any = np.float64 if sparse.issparse(block.stored) else block.dtype
    return (
        scores[highest],
        Witnesses(witnesses + block.first_row, block.take(witnesses, kept_type)),
        WorkingSet.of_block(block, np.flatnonzero(near), kept_type),
        np.full(len(sizes), furthest),
        np.append(block.weighted_sum(beyond, each[beyond]), each[beyond].sum()),
        losses,
    )


def _near_the_margin(
    u: np.ndarray, negative: np.ndarray, band: float, most: int
) -> tuple[np.ndarray, float]:
    """Negative rows with slacks that belong to the working set, and the u of those beyond."""
    near, furthest = (u > -band) & (u <= 1.0 + band) & negative, 1.0 + band
    if np.count_nonzero(near) > most:
        distance = np.abs(u)
        furthest = float(np.partition(distance[near], most)[most])
        near &= distance <= furthest
    return near, furthest


def _means_of_block(block: Block, wanted: np.ndarray) -> Matrix:
    rows, offsets = gather_rows(block.offsets, np.flatnonzero(wanted[block.bags]))
    return pooling_matrix(offsets) @ block.take(rows)
