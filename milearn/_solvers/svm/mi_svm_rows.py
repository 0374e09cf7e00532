r"""MI-SVM over rows: a linear kernel or explicit features, and ordered classes, in a few passes.

Bags have ranks :math:`r_i \in \{0, \dots, T\}` and costs :math:`c_i`. With the highest scores
:math:`f_i = \max_j \langle w, x_{ij} \rangle` and the intercepts :math:`b_0, \dots, b_{T-1}`,

.. math::

    J(w, b) = \tfrac12 \|w\|^2 + \sum_i c_i \Bigl(
    \sum_{t < r_i} [1 - (f_i + b_t)]_+ + \sum_{t \ge r_i} [1 + (f_i + b_t)]_+ \Bigr) .

A bag is positive for the intercepts below its rank and negative for the others. With two classes
T = 1, and this is MI-SVM; each instance of a negative bag may then have a slack of its own, as if
it were a bag. Intercepts are the negative thresholds between ordered classes. For fixed w the best
ones are those of T separate problems of one variable, so they are in order: the bags above a
threshold are also above the lower ones.

The concave-convex procedure replaces the maxima of the first sum by the witnesses of the bags, see
:mod:`..common.descent`. Witnesses change only if J decreases. The working set of a convex step has
the highest rows of the bags that are negative for some threshold, unless they satisfy the margin by
more than the band. If each instance has a slack, it has the rows near the margin, and the rows
beyond are summed in one row. By convexity the hinge of this sum is a lower bound of the sum of
hinges, so the minimum over the working set is a lower bound of the step. The working set of a small
problem contains all instances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import ArraySource, Block, PassSource, product, stacked, width_of
from ..._bags.segments import gather_rows, pooling_matrix, segment_argmax
from ..common.cccp import SolverOptions, optimal_intercept, rounding_scale
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
    bag_means,
    is_constant,
    rows_of_block,
    sampled_source,
    weighted_sum,
)

Matrix = Any  # an ndarray or a CSR matrix
Point = tuple[np.ndarray, np.ndarray]
# The means of bags, the rows of their witnesses, or a point (w, b).
Start = np.ndarray | Point | None

# Gap of the problem of bags of one vector, from which the procedure starts.
_START_TOL = 0.05
# Up to this relative gap ties are broken by a rule, as over kernel values.
_FINE = 1e-4
# Numbers in rows of earlier passes that are always kept, and in rows of a step that are converted
# to double precision: larger problems are not solved to many digits.
_KEPT_NUMBERS, _DOUBLE_NUMBERS = 2**21, 2**22
# Numbers that a row counts for at least: a step over many narrow rows takes longer than a pass.
_LEAST_WIDTH = 256
# A step that is repeated until the band is so many times wider may lack digits of scores in single
# precision.
_WIDE = 4.0


@dataclass(frozen=True)
class MISVMProblem:
    """Bags with their ranks, from 0 and without gaps, and the costs of their slacks."""

    source: PassSource
    ranks: np.ndarray
    costs: np.ndarray
    # Whether each instance of a negative bag has a slack; only for two classes.
    by_instance: bool = False

    @property
    def n_intercepts(self) -> int:
        return int(self.ranks.max())

    @cached_property
    def upper(self) -> np.ndarray:
        """The bags with witnesses."""
        return np.flatnonzero(self.ranks > 0)

    @cached_property
    def above(self) -> np.ndarray:
        """The intercepts for which a bag is positive, shape (n_bags, n_intercepts)."""
        return np.arange(self.n_intercepts) < self.ranks[:, None]

    @cached_property
    def negative_costs(self) -> np.ndarray:
        """Cost of all slacks of each bag, if it is negative."""
        return self.costs * np.diff(self.source.offsets) if self.by_instance else self.costs

    @cached_property
    def at_zero(self) -> float:
        """The smallest value of a constant function."""
        sides = self.costs @ self.above, self.negative_costs @ ~self.above
        return 2.0 * float(np.minimum(*sides).sum())

    def part(self, source: PassSource, bags: np.ndarray) -> MISVMProblem:
        """The problem of some bags."""
        return replace(self, source=source, ranks=self.ranks[bags], costs=self.costs[bags])

    def between(self, witnesses: Matrix, rows: Matrix, bags: np.ndarray) -> Point:
        """A rough function between witnesses and rows that stand for some bags."""
        alone = np.arange(len(bags) + 1)
        costs = np.where(self.ranks > 0, self.costs, self.negative_costs)
        part = replace(self, costs=costs).part(ArraySource(rows, alone), bags)
        step, _ = part.step(witnesses, WorkingSet(rows, alone[:-1], alone[:-1]))
        found = step.solve((np.zeros(rows.shape[1]), np.zeros(part.n_intercepts)), _START_TOL)
        return found.w, found.v

    def along(self, direction: np.ndarray, tops: np.ndarray) -> Point:
        """A multiple of a direction of length one, by the highest scores of all bags."""
        problem, rows = replace(self, by_instance=False), tops[:, None]
        factor, v = problem.between(rows[self.upper], rows, np.arange(len(tops)))
        return factor[0] * direction, v

    def value(
        self,
        point: Point,
        tops: np.ndarray,
        of_witnesses: np.ndarray,
        of_instances: float | None = None,
    ) -> float:
        """J for the highest scores of all bags and scores of the witnesses.

        ``of_instances`` are the losses of instances with slacks.
        """
        w, b = point
        negative = of_instances
        if negative is None:
            hinges = np.maximum(0.0, 1.0 + tops[:, None] + b)
            negative = float(self.costs @ np.where(self.above, 0.0, hinges).sum(axis=1))
        hinges = np.maximum(0.0, 1.0 - of_witnesses[:, None] - b)
        positive = np.where(self.above[self.upper], hinges, 0.0).sum(axis=1)
        return 0.5 * float(w @ w) + negative + float(self.costs[self.upper] @ positive)

    def step(
        self,
        witnesses: Matrix,
        working: WorkingSet,
        beyond: np.ndarray | None = None,
        double_numbers: float = _DOUBLE_NUMBERS,
    ) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over a working set, and the keys of its rows.

        The witnesses come first and the sum of the rows beyond the band last. Rows in float32 stay
        in it if they have more than ``double_numbers`` numbers.
        """
        T, owners = self.n_intercepts, working.owners
        counts = self.ranks[self.upper]
        place, t_above = np.repeat(np.arange(len(counts)), counts), np.nonzero(self.above)[1]
        new = np.ones(len(owners), dtype=bool)
        if not self.by_instance:
            new[1:] = owners[1:] != owners[:-1]
        ends = np.append(np.flatnonzero(new), len(owners))
        owner = owners[ends[:-1]]
        group, t_group = np.nonzero(np.arange(T) >= self.ranks[owner][:, None])
        picked, offsets = gather_rows(ends, group)
        t_below, n_above = np.repeat(t_group, np.diff(offsets)), len(place)
        keys = [(self.source.n_instances + self.upper[place]) * T + t_above]
        keys += [working.numbers[picked] * T + t_below]
        parts, costs = [(witnesses, place), (working.rows, picked)], [self.costs[self.upper[place]]]
        costs += [self.costs[owner[group]]]
        if beyond is not None and beyond[-1] > 0:
            mean: Matrix = beyond[None, :-1] / beyond[-1]
            if sparse.issparse(witnesses):
                mean = sparse.csr_array(mean)
            parts, costs = [*parts, (mean, np.zeros(1, dtype=np.intp))], [*costs, beyond[-1:]]
            keys, offsets = [*keys, np.array([-1])], np.append(offsets, offsets[-1] + 1)
            t_below = np.append(t_below, 0)
        Z, numbers = rows_of_parts(parts, double_numbers), np.arange(n_above + len(t_below))
        # A slice of a CSR array would be assigned entry by entry.
        above = Z.data[: Z.indptr[n_above]] if sparse.issparse(Z) else Z[:n_above]
        above *= -1.0
        e = np.zeros((len(numbers), T))
        e[numbers, np.r_[t_above, t_below]] = np.where(numbers < n_above, -1.0, 1.0)
        bounds = np.r_[np.arange(n_above), n_above + offsets]
        return GroupProblem(Z, e, bounds, np.concatenate(costs)), np.concatenate(keys)


def rows_of_parts(
    parts: list[tuple[Matrix, np.ndarray]], double_numbers: float, at_once: int = 2**14
) -> Matrix:
    """Rows with the given numbers of each matrix; dense ones are many, and are copied once."""
    if sparse.issparse(parts[0][0]):
        return stacked([rows[numbers] for rows, numbers in parts])
    n_rows, n_columns = sum(len(numbers) for _, numbers in parts), parts[0][0].shape[1]
    single = n_rows * n_columns > double_numbers and parts[1][0].dtype == np.float32
    found, first = np.empty((n_rows, n_columns), dtype=np.float32 if single else np.float64), 0
    for rows, numbers in parts:
        for start in range(0, len(numbers), at_once):
            some = numbers[start : start + at_once]
            found[first : first + len(some)] = rows[some]
            first += len(some)
    return found


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
        double_numbers = np.inf if self.precise else _DOUBLE_NUMBERS
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
