r"""MI-SVM with ordered classes: one weight vector and all thresholds, by passes.

Bags have ranks :math:`r_i \in \{0, \dots, T\}` and the costs :math:`c_i`. With the highest scores
:math:`f_i = \max_j \langle w, x_{ij} \rangle` and the thresholds :math:`b_0, \dots, b_{T-1}`,

.. math::

    J(w, b) = \tfrac12 \|w\|^2 + \sum_i c_i \Bigl(
    \sum_{t < r_i} [1 - (f_i - b_t)]_+ + \sum_{t \ge r_i} [1 + (f_i - b_t)]_+ \Bigr) .

A bag is positive for the thresholds below its rank and negative for the others, so this is MI-SVM
for T + 1 copies of a bag with one weight vector and an intercept for each threshold. The
concave-convex procedure replaces the maxima of the first sum by the witnesses of the bags. The
convex step is a :class:`...common.newton.GroupProblem` with T variables without a norm, and
:mod:`...common.descent` describes the procedure. For fixed w the best thresholds are those of T
separate problems of one variable. Their order follows, because the bags above a threshold are also
above the lower ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...._bags.blocks import Block, PassSource, product, stacked
from ...._bags.segments import gather_rows, segment_argmax, segment_rank
from ...common.cccp import SolverOptions, optimal_intercept, rounding_scale
from ...common.descent import Duals, PassSolution, Witnesses, WorkingSet, descend
from ...common.newton import GroupProblem
from ...common.passes import TieRule, bag_means, gather, is_constant, weighted_sum
from .view import RowLimits

Matrix = Any  # an ndarray or a CSR matrix

# Gap of the problem of bags of one vector, from which the procedure starts.
_START_TOL = 0.05


@dataclass(frozen=True)
class OrdinalProblem:
    """Bags with their ranks, from 0 and without gaps, and the costs of their slacks."""

    source: PassSource
    ranks: np.ndarray
    costs: np.ndarray

    @property
    def n_thresholds(self) -> int:
        return int(self.ranks.max())


def solve_ordinal(
    problem: OrdinalProblem,
    start: np.ndarray | None,
    options: SolverOptions,
    gap_tol: float,
    *,
    max_passes: int = 500,
    limits: RowLimits | None = None,
) -> PassSolution:
    """A stationary point of J; ``v`` has the thresholds.

    ``witnesses`` are those of the bags above a threshold, in their order.

    Parameters
    ----------
    problem : OrdinalProblem
    start : ndarray of int of shape (n_bags,) or None
        Rows of the first witnesses; the means of the bags if None.
    options : SolverOptions
        ``tol`` is not used.
    gap_tol : float
        Relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes.
    limits : RowLimits, default=None
    """
    model = _Ordinal(problem, limits or RowLimits())
    found = descend(
        model,
        *model.first(start),
        options,
        gap_tol,
        objective_scale=rounding_scale(problem.costs),
        max_passes=max_passes,
    )
    numbers = found.held.numbers
    found.witnesses, found.held = numbers if (numbers >= 0).all() else None, None
    return found


def best_thresholds(tops: np.ndarray, ranks: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """The thresholds that minimise J for given highest scores of the bags."""
    return np.array(
        [
            -optimal_intercept(tops, np.where(ranks > t, 1.0, -1.0), costs)
            for t in range(int(ranks.max()))
        ]
    )


@dataclass(frozen=True)
class _View:
    """A pass over a block or over all instances.

    Attributes
    ----------
    tops : ndarray of shape (n_bags,), highest score of each bag
    highest : Witnesses
        The highest instances of bags above a threshold.
    working : WorkingSet
    below : ndarray of bool of shape (n_bags, n_thresholds)
        Thresholds for which a bag is negative and in the working set.
    objective, value : float
        Value of the problem and of the convex step, if this is a view of all instances.
    v : ndarray of shape (n_thresholds,), the best thresholds
    """

    tops: np.ndarray
    highest: Witnesses
    working: WorkingSet
    below: np.ndarray
    objective: float = np.nan
    value: float = np.nan
    v: np.ndarray = field(default_factory=lambda: np.zeros(0))


class _Ordinal:
    """The problem for :func:`...common.descent.descend`; witnesses are the linearisation."""

    def __init__(self, problem: OrdinalProblem, limits: RowLimits) -> None:
        self.source, self.limits, self.n_passes = problem.source, limits, 0
        self.ranks, self.costs, self.T = problem.ranks, problem.costs, problem.n_thresholds
        # Bags that are above a threshold.
        self.upper = np.flatnonzero(self.ranks > 0)
        self.above = np.arange(self.T) < self.ranks[:, None]
        sums = self.costs @ self.above
        self.at_zero = 2.0 * float(np.minimum(sums, self.costs.sum() - sums).sum())
        # A direction that decides between instances which tie.
        excess = self.costs * (self.ranks - np.average(self.ranks, weights=self.costs))
        self.n_passes += 1
        self.second = weighted_sum(self.source, excess / np.diff(self.source.offsets))

    def first(self, start: np.ndarray | None) -> tuple[tuple[np.ndarray, np.ndarray], Witnesses]:
        """The function between bags of one vector each, and these vectors as witnesses."""
        self.n_passes += 1
        if start is None:
            vectors = bag_means(self.source, np.float64)
            held = Witnesses(np.full(len(self.upper), -1), vectors[self.upper])
        else:
            vectors = gather(self.source, start)
            held = Witnesses(start[self.upper], vectors[self.upper])
        n_bags = len(self.ranks)
        alone = np.arange(n_bags)
        step = self._step(held.vectors, vectors, alone, ~self.above)
        found = step.solve((np.zeros(self.source.n_features), np.zeros(self.T)), _START_TOL)
        return (found.w, found.v), held

    # -- the model --

    def view(
        self, w: np.ndarray, v: np.ndarray, held: Witnesses | None, before: _View | None
    ) -> _View:
        """Pass over all instances."""
        found = self._pass(w, v, constant=False)
        best = best_thresholds(found.tops, self.ranks, self.costs)
        half = 0.5 * float(w @ w)
        objective = half + self._losses(found.tops, found.tops, best)
        value = np.nan
        if held is not None:
            scores = np.zeros(len(self.ranks))
            scores[self.upper] = product(held.vectors, w)
            value = half + self._losses(found.tops, scores, v)
            if is_constant(value, self.at_zero):
                found = replace(found, highest=self._pass(w, v, constant=True).highest)
        return replace(found, objective=objective, value=value, v=best)

    def _losses(self, tops: np.ndarray, held: np.ndarray, v: np.ndarray) -> float:
        """The losses for the highest scores and the scores of the witnesses."""
        below = np.maximum(0.0, 1.0 + tops[:, None] - v)
        above = np.maximum(0.0, 1.0 - held[:, None] + v)
        return float(self.costs @ np.where(self.above, above, below).sum(axis=1))

    def _pass(self, w: np.ndarray, v: np.ndarray, *, constant: bool) -> _View:
        self.n_passes += 1
        source = self.source
        parts = source.map(
            _look, (w, v), self.ranks, self.second, self.limits, source.n_instances, constant
        )
        return _View(
            tops=np.concatenate([part.tops for part in parts]),
            highest=Witnesses.together([part.highest for part in parts]),
            working=WorkingSet.together([part.working for part in parts]),
            below=np.concatenate([part.below for part in parts]),
        )

    def joined(self, before: _View, view: _View, held: Witnesses) -> _View:
        """The view with the working set of the previous one."""
        working = view.working.joined(before.working)
        return replace(view, below=view.below | before.below, working=working)

    def advanced(
        self, held: Witnesses | None, before: _View | None, view: _View, duals: Duals
    ) -> tuple[Witnesses, _View]:
        """The highest instances, and the view with the rows of the previous step that count."""
        if before is not None:
            old = before.working
            keys = old.numbers[:, None] * self.T + np.arange(self.T)
            counts = duals.of(keys.ravel()).reshape(keys.shape) > 0
            below = np.zeros(before.below.shape, dtype=bool)
            row, t = np.nonzero(counts)
            below[old.owners[row], t] = True
            working = view.working.joined(old, np.asarray(counts.any(axis=1)))
            view = replace(view, below=view.below | below & before.below, working=working)
        return view.highest, view

    def unchanged(self, held: Witnesses, view: _View) -> bool:
        """Whether the same instances are the highest."""
        return bool(np.array_equal(held.numbers, view.highest.numbers))

    def problem(self, held: Witnesses, view: _View) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over the working set; a witness has the key of its bag."""
        working = view.working
        step = self._step(held.vectors, working.rows, working.owners, view.below)
        above, _ = self._pairs()
        picked, _, t = _negatives(working.owners, view.below)
        bags, thresholds = self.upper[above[0]], above[1]
        keys = (self.source.n_instances + bags) * self.T + thresholds
        return step, np.r_[keys, working.numbers[picked] * self.T + t]

    def _pairs(self) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Witnesses and the thresholds that their bags are above, and the costs."""
        counts = self.ranks[self.upper]
        place = np.repeat(np.arange(len(self.upper)), counts)
        return (place, np.nonzero(self.above)[1]), self.costs[self.upper][place]

    def _step(
        self, witnesses: Matrix, rows: Matrix, owners: np.ndarray, below: np.ndarray
    ) -> GroupProblem:
        """The convex step over rows of the bags that are below thresholds."""
        (place, t_above), costs = self._pairs()
        picked, sizes, t_below = _negatives(owners, below)
        n_above = len(place)
        e = np.zeros((n_above + len(picked), self.T))
        e[np.arange(n_above), t_above] = 1.0
        e[n_above + np.arange(len(picked)), t_below] = -1.0
        ends = np.cumsum(np.r_[np.ones(n_above, dtype=np.intp), sizes])
        return GroupProblem(
            Z=stacked([-witnesses[place], rows[picked]]),
            e=e,
            offsets=np.r_[0, ends],
            costs=np.r_[costs, self.costs[np.nonzero(below)[0]]],
        )


def _negatives(owners: np.ndarray, below: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of each pair of a bag and a threshold, the sizes of pairs, and thresholds of rows."""
    bags, thresholds = np.nonzero(below)
    bounds = np.searchsorted(owners, np.arange(len(below) + 1))
    picked, offsets = gather_rows(bounds, bags)
    sizes = np.diff(offsets)
    return picked, sizes, np.repeat(thresholds, sizes)


# -- functions of a block ------------------------------------------------------------------------


def _look(
    block: Block,
    point: tuple[np.ndarray, np.ndarray],
    ranks: np.ndarray,
    second: np.ndarray,
    limits: RowLimits,
    n_instances: int,
    constant: bool,
) -> _View:
    """What a pass sees in a block."""
    w, v = point
    whole = limits.hold_all(n_instances, block.width)
    scores = block.scores(w, precise=whole)
    ranks, offsets = ranks[block.bags], block.offsets
    tops = scores[segment_argmax(scores, offsets)]
    below = np.arange(len(v)) >= ranks[:, None]
    if not whole:
        # Other pairs of a bag and a threshold satisfy the margin by more than the band.
        below &= 1.0 + tops[:, None] - v > -limits.band
    active = np.flatnonzero(below.any(axis=1))
    rows, inner = gather_rows(offsets, active)
    near = np.ones(len(rows), dtype=bool)
    if not whole and len(rows):
        own = scores[rows]
        near = own > np.repeat(tops[active] - limits.band, np.diff(inner))
        share = len(rows) / (n_instances * block.width)
        most = max(limits.per_bag * len(active), int(limits.numbers * share))
        if int(near.sum()) > most:
            near &= segment_rank(own, inner) < max(2, most // len(active))
        near[segment_argmax(own, inner)] = True
    upper = np.flatnonzero(ranks > 0)
    witnesses = segment_argmax(scores, offsets)[upper]
    if whole or constant:
        witnesses, _ = TieRule(second, constant).highest(block, scores, upper)
    return _View(
        tops=tops,
        highest=Witnesses(witnesses + block.first_row, block.take(witnesses, np.float64)),
        working=WorkingSet.of_block(block, rows[near]),
        below=below,
    )
