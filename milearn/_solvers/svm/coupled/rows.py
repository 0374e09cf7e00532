"""Bags coupled to their highest instances, for a linear kernel, by passes over the instances.

The problem is defined in :mod:`.cccp`: bags are scaled sums of their instances and coupled to them,
or bag scores are highest instance scores (a hard maximum, in regression). Bags and the mixtures
that linearise the maximum, one per bag, are in memory. The working set contains the instances with
nearly the highest score of their bags. The loss of a bag and its coupling are groups of
:mod:`...common.newton`. The width of the tube is a variable without a penalty whose cost is the
group [eps]_+.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy import sparse

from ...._bags.blocks import Block, PassSource, stacked
from ...._bags.segments import pooling_matrix, segment_index, segment_max
from ...common.cccp import SolverOptions
from ...common.descent import (
    Duals,
    RowLimits,
    Witnesses,
    WorkingSet,
    descend,
    near_the_top,
)
from ...common.newton import GroupProblem, NewtonSolution
from ...common.passes import TieRule, is_constant, rows_of_block
from ..losses import BagLoss, Coupling, Tube
from .cccp import CoupledSolution, coupled_objective, top_subgradient

Matrix = Any  # an ndarray or a CSR matrix
_START_TOL = 1e-3
# Up to this relative gap of a convex step no step is solved roughly.
_FINE = 1e-4
# Number of the mean of several instances as a witness.
MEAN = -1
# Key of the row of the tube, larger than those of all instances and bags.
_TUBE = np.iinfo(np.intp).max


# As many rows of a bag as there is room for: with a few, a hard maximum ends higher.
TIED_LIMITS = RowLimits(per_bag=2**21, numbers=2**21, all_rows=2**20)


@dataclass(kw_only=True)
class CoupledRowsResult(CoupledSolution):
    """A stationary point of J with its weight vector and the number of passes."""

    w: np.ndarray
    n_passes: int


@dataclass(frozen=True)
class BagRows:
    """Bags as rows in the space of their instances, and the scales of instances (1 if None)."""

    bags: Matrix
    scales: np.ndarray | None = None


def solve_coupled_rows(
    source: PassSource,
    loss: BagLoss,
    coupling: Coupling,
    bag_kernel: str | BagRows,
    start: str | np.ndarray,
    options: SolverOptions,
    *,
    max_passes: int = 500,
    exact_instances: int = 2_000,
    limits: RowLimits = TIED_LIMITS,
) -> CoupledRowsResult:
    """Minimise J.

    Parameters
    ----------
    source : PassSource
    loss : Hinge or Tube
    coupling : Coupling
    bag_kernel : {"set", "mean_set", "normalized_set"} or BagRows
        Bags as scaled sums of their instances, or given bags. Not used for a hard maximum.
    start : {"auto", "mean"} or ndarray of int of shape (n_bags,)
        First linearisation: the highest instances under the model without coupling, the mean of
        each bag, or given rows. For a hard maximum "auto" uses the model of the means.
    options : SolverOptions
        ``tol`` is the relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes.
    exact_instances : int
        Instances above which the first steps of a hard maximum are solved roughly. Below, they are
        exact, so that a start ends in the same minimum as in the dual.
    limits : RowLimits
    """
    # Standardise the targets, so that the smoothing is the same as for a margin of one. With
    # y = m + s y' and w = s w' the objective is s^2 times the objective at w' with all costs
    # divided by s, except those of squares.
    unit_loss, middle, size = loss.standardised()
    weights = coupling.weights if coupling.squared else coupling.weights / size
    unit_coupling = Coupling(coupling.loss, weights, coupling.epsilon / size)
    model = _Model(source, unit_loss, unit_coupling, bag_kernel, limits)
    own_start = isinstance(start, str) and start == "auto"
    witnesses = model.means() if isinstance(start, str) else model.given(start)
    # In a fine problem the start is the same as in the dual.
    first = model.first_function(witnesses, min(_START_TOL, options.tol))
    if own_start:
        witnesses = model.tops(first.w, is_constant(first.objective, model.at_zero))
    # The means of bags may be far from the solution.
    many = source.n_instances > exact_instances
    rough = coupling.hard and (many or (own_start and options.tol > _FINE))
    watch = options.on_iteration
    if watch is not None:
        options = options.watched_by(lambda n, value: watch(n, size**2 * value))
    found = descend(
        model,
        (first.w, first.v),
        witnesses,
        options,
        rough=rough,
        objective_scale=loss.objective_scale / size**2,
        max_passes=max_passes,
    )
    rows = found.linearisation.numbers
    return CoupledRowsResult(
        **found.outcome(size**2),
        witnesses=rows if coupling.hard and (rows != MEAN).all() else None,
        objective_scale=loss.objective_scale,
        intercept=middle + size * float(found.v[0]),
        width=size * float(found.v[1]) if len(found.v) > 1 else 0.0,
        w=size * found.w,
        n_passes=model.n_passes,
    )


class _Model:
    """The problem for :func:`...common.descent.descend`."""

    def __init__(
        self,
        source: PassSource,
        loss: BagLoss,
        coupling: Coupling,
        bag_kernel: str | BagRows,
        limits: RowLimits,
    ) -> None:
        self.source, self.loss, self.coupling, self.limits = source, loss, coupling, limits
        self.hard = coupling.hard
        self.scales: np.ndarray | None = None
        self.n_passes = 0
        sizes = np.diff(source.offsets)
        if not self.hard:
            if isinstance(bag_kernel, str):
                parts = source.map(_scaled_bags, bag_kernel)
                self.bags = stacked([bags for bags, _ in parts])
                if bag_kernel == "normalized_set":
                    self.scales = np.concatenate([scale for _, scale in parts])
                self.n_passes = 1
            else:
                self.bags, self.scales = bag_kernel.bags, bag_kernel.scales
            # A bag of one instance is that instance and needs no coupling.
            self.coupled = np.flatnonzero((coupling.weights > 0) & (sizes > 1))
        self.n_bags, self.n_instances = len(sizes), source.n_instances
        # Breaks ties of a hard maximum.
        self.second: np.ndarray | None = None

    # -- linearisations and a first function --

    def means(self) -> Witnesses:
        """The mean of each bag."""
        self.n_passes += 1
        vectors = stacked(self.source.map(_bag_means, self.scales))
        if self.hard:
            self.second = np.asarray(cast(Tube, self.loss).descent() @ vectors)
        return Witnesses(np.full(self.n_bags, MEAN), vectors)

    def given(self, rows: np.ndarray) -> Witnesses:
        """Given instances."""
        self.n_passes += 1
        vectors = stacked(self.source.map(rows_of_block, rows))
        return Witnesses(
            rows, vectors if self.scales is None else scaled_rows(vectors, self.scales[rows])
        )

    def tops(self, w: np.ndarray, constant: bool = False) -> Witnesses:
        """Highest instance of each bag; of a hard maximum all tie where the model is constant."""
        rule = None
        if self.hard:
            if self.second is None:
                self.means()
            rule = TieRule(self.second, constant)
        return self._pass(w, np.full(self.n_bags, np.inf), rule).highest

    def _pass(self, w: np.ndarray, bounds: np.ndarray, rule: TieRule | None) -> _View:
        self.n_passes += 1
        given = self.scales, self.n_instances, self.limits, rule
        parts = self.source.map(_view_of_block, w, bounds, *given)
        found = WorkingSet.together(parts)
        return _View(
            found.rows,
            found.numbers,
            found.owners,
            top=np.concatenate([part.top for part in parts]),
            highest=Witnesses.together([part.highest for part in parts]),
            tied=any(part.tied for part in parts),
        )

    @cached_property
    def at_zero(self) -> float:
        """The loss at w = 0."""
        zeros = np.zeros(self.n_bags)
        return self.loss.value(zeros, self.loss.free(zeros)[0])

    def first_function(self, witnesses: Witnesses, tol: float) -> NewtonSolution:
        """The model without coupling, or of the linearised bags for a hard maximum."""
        objects = witnesses.vectors if self.hard else self.bags
        everyone = np.arange(self.n_bags)
        side = everyone, objects, everyone
        problem, _ = _assembled(_loss_groups(self.loss, side, side), 0)
        n_free = problem.free.shape[1]
        start = np.zeros(objects.shape[1]), np.zeros(n_free)
        return problem.solve(start, tol)

    # -- the model --

    def view(self, w: np.ndarray, v: np.ndarray, witnesses: Witnesses) -> _View:
        """Pass over all instances."""
        mixed = np.asarray(witnesses.vectors @ w)
        if self.hard:
            # The upper edge of the tube.
            side = self.loss.dual_columns()[0]
            bounds = -side.gain + side.equation * v[0] + side.tube * v[1]
            bags = mixed
        else:
            bags = np.asarray(self.bags @ w)
            bounds = bags + np.maximum(np.abs(bags - mixed), self.coupling.margin)
        view = self._pass(w, bounds, TieRule(self.second) if self.hard else None)
        top = view.top
        loss, coupling, norm2 = self.loss, self.coupling, float(w @ w)
        objective, intercept, width = coupled_objective(norm2, bags, top, loss, coupling)
        if self.hard:
            value = 0.5 * norm2 + cast(Tube, loss).split(np.maximum(top, mixed), mixed)[1]
        else:
            excess = np.maximum(np.abs(bags - mixed), top - bags)
            value = 0.5 * norm2 + loss.value(bags, intercept) + coupling.value(excess)
        constant = self.hard and is_constant(value, self.at_zero)
        return replace(
            view,
            value=value,
            objective=objective,
            v=np.array([intercept, width])[: len(v)],
            highest=self.tops(w, constant) if constant or view.tied else view.highest,
        )

    def with_rows_of(self, before: _View, view: _View, witnesses: Witnesses) -> _View:
        """The view with the rows of the previous working set."""
        return view.joined(before)

    def next_step(
        self, witnesses: Witnesses, before: _View | None, view: _View, duals: Duals
    ) -> tuple[Witnesses, _View]:
        """The highest instances, and the view, which does not depend on the linearisation."""
        return view.highest, view

    def is_fixed_point(self, witnesses: Witnesses, view: _View) -> bool:
        """Whether the linearisation is the same."""
        there = view.highest
        if not np.array_equal(witnesses.numbers, there.numbers):
            return False
        means = witnesses.numbers == MEAN
        return not means.any() or abs(witnesses.vectors[means] - there.vectors[means]).max() == 0

    def problem(self, witnesses: Witnesses, view: _View) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over a working set."""
        # Add the vectors of the linearisation that are not in the working set.
        missing = np.flatnonzero(~np.isin(witnesses.numbers, view.numbers))
        if self.hard:
            return self._hard_problem(witnesses, view, missing)
        return self._coupled_problem(witnesses, view, missing)

    def _hard_problem(
        self, witnesses: Witnesses, view: _View, missing: np.ndarray
    ) -> tuple[GroupProblem, np.ndarray]:
        upper = (
            np.r_[view.owners, missing],
            stacked([view.rows, witnesses.vectors[missing]]),
            np.r_[view.numbers, witnesses.numbers[missing]],
        )
        everyone = np.arange(self.n_bags)
        lower = everyone, witnesses.vectors, self.n_instances + everyone
        return _assembled(_loss_groups(self.loss, upper, lower), 0)

    def _coupled_problem(
        self, witnesses: Witnesses, view: _View, missing: np.ndarray
    ) -> tuple[GroupProblem, np.ndarray]:
        coupled, coupling, n = self.coupled, self.coupling, self.n_bags
        everyone = np.arange(n)
        upper, lower = (
            (everyone, self.bags, self.n_instances + side * n + everyone) for side in range(2)
        )
        groups = _loss_groups(self.loss, upper, lower)
        if len(coupled) == 0:
            return _assembled(groups, 0)
        place = np.full(n, -1)
        place[coupled] = np.arange(len(coupled))
        missing, near = missing[place[missing] >= 0], place[view.owners] >= 0
        owners, numbers = view.owners[near], view.numbers[near]
        rows = view.rows if near.all() else view.rows[near]
        own = np.r_[place[coupled], place[missing], place[owners]]
        differences = [
            self.bags[coupled] - witnesses.vectors[coupled],
            witnesses.vectors[missing] - self.bags[missing],
            rows - self.bags[owners],
        ]
        more = _Groups(
            own,
            stacked(differences),
            np.r_[self.n_instances + 2 * n + coupled, witnesses.numbers[missing], numbers],
            e=np.zeros((len(own), groups[0].e.shape[1])),
            c=np.full(len(own), -coupling.margin),
            costs=coupling.weights[coupled],
        )
        return _assembled([*groups, more], len(coupled) if coupling.squared else 0)


# -- passes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _View(WorkingSet):
    """Result of a pass over a block, or over all instances."""

    # Highest score of each bag, the witnesses, and whether several instances of a bag are highest.
    top: np.ndarray
    highest: Witnesses
    tied: bool
    value: float = np.nan
    objective: float = np.nan
    v: np.ndarray | None = None


def _view_of_block(
    block: Block,
    w: np.ndarray,
    bounds: np.ndarray,
    scales: np.ndarray | None,
    n_instances: int,
    limits: RowLimits,
    rule: TieRule | None,
) -> _View:
    """What a pass at w sees in a block; instances below ``bounds`` of their bags cost nothing."""
    everything = limits.hold_all(n_instances, block.width)
    scores = block.scores(w, precise=everything)
    if scales is not None:
        scores = scores * scales[block.rows]
    near = np.ones(len(scores), dtype=bool)
    if not everything:
        few = limits.of_bag(len(bounds), block.width)
        near = near_the_top(scores, block.offsets, bounds[block.bags], limits.band, few)
    weights, tied = np.zeros(len(scores)), False
    if rule is None:
        weights = top_subgradient(scores, block.offsets)
    else:
        chosen, tied = rule.highest(block, scores, np.arange(block.offsets.size - 1))
        weights[chosen] = 1.0
    rows = np.flatnonzero(near | (weights > 0))
    found = block.take(rows)
    if scales is not None:
        found = scaled_rows(found, scales[block.rows][rows])
    return _View(
        found,
        rows + block.first_row,
        segment_index(block.offsets)[rows] + block.first_bag,
        top=segment_max(scores, block.offsets),
        highest=_mixtures(block, weights[rows], rows, found),
        tied=tied,
    )


def _mixtures(block: Block, weights: np.ndarray, rows: np.ndarray, vectors: Matrix) -> Witnesses:
    """The sum of some rows of each bag with these weights, and its number if it is one row."""
    used = np.flatnonzero(weights)
    starts = np.searchsorted(rows[used], block.offsets)
    numbers = rows[used][starts[:-1]] + block.first_row
    if len(used) == len(numbers):
        return Witnesses(numbers, vectors[used])
    numbers[np.diff(starts) > 1] = MEAN
    return Witnesses(numbers, pooling_matrix(starts, weights[used]) @ vectors[used])


def scaled_rows(rows: Matrix, scale: np.ndarray) -> Matrix:
    """Rows times a scale of each."""
    if sparse.issparse(rows):
        return (sparse.diags_array(scale) @ rows).tocsr()
    return rows * scale[:, None]


def inverse_norms(rows: Matrix) -> np.ndarray:
    """One over the norm of each row; zero for a row of zeros."""
    if sparse.issparse(rows):
        rows = rows.astype(np.float64, copy=False)
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    inverse = np.zeros(len(squares))
    np.divide(1.0, np.sqrt(squares), out=inverse, where=squares > 0)
    return inverse


def _scaled_bags(block: Block, bag_kernel: str) -> tuple[Matrix, np.ndarray]:
    """The scaled sums of the instances of each bag, and the scales of instances."""
    sizes = np.diff(block.offsets)
    sums = pooling_matrix(block.offsets, 1.0) @ block.instances
    if bag_kernel == "mean_set":
        return scaled_rows(sums, 1.0 / sizes), np.zeros(0)
    if bag_kernel == "set":
        return sums, np.zeros(0)
    return scaled_rows(sums, inverse_norms(sums)), inverse_norms(block.instances)


def _bag_means(block: Block, scales: np.ndarray | None) -> Matrix:
    """The means of the scaled instances of each bag."""
    weights = np.repeat(1.0 / np.diff(block.offsets), np.diff(block.offsets))
    if scales is not None:
        weights = weights * scales[block.rows]
    return pooling_matrix(block.offsets, weights) @ block.instances


# -- groups --------------------------------------------------------------------------------------

# Groups of rows, the rows, and numbers that identify them in other working sets.
_Side = tuple[np.ndarray, Matrix, np.ndarray]


@dataclass(frozen=True)
class _Groups:
    """Some groups of a problem with their rows in any order."""

    # Of each row: its group, its vector, and a number that identifies it in other working sets.
    owners: np.ndarray
    rows: Matrix
    keys: np.ndarray
    # See :class:`...common.newton.GroupProblem`; ``costs`` has an entry for each group.
    e: np.ndarray
    c: np.ndarray
    costs: np.ndarray


def _loss_groups(loss: BagLoss, upper: _Side, lower: _Side) -> list[_Groups]:
    """The groups of the loss; the upper side of a tube has the rows of ``upper``."""
    limit, groups = loss.tube_limit, []
    for number, columns in enumerate(loss.dual_columns()):
        owners, rows, keys = upper if number == 0 and limit is not None else lower
        free = -np.stack([columns.equation, columns.tube], axis=1)[owners]
        groups.append(
            _Groups(
                owners,
                scaled_rows(rows, -columns.sign[owners]),
                keys,
                e=free if limit is not None else free[:, :1],
                c=columns.gain[owners],
                costs=loss.weights,
            )
        )
    if limit is not None:
        # The cost of the width of the tube. A negative width is never optimal.
        cost, first = np.array([limit * float(loss.weights.sum())]), np.zeros(1, dtype=np.intp)
        nothing, free = 0.0 * lower[1][:1], np.array([[0.0, 1.0]])
        groups.append(_Groups(first, nothing, np.array([_TUBE]), free, np.zeros(1), cost))
    return groups


def _assembled(groups: list[_Groups], n_squared: int) -> tuple[GroupProblem, np.ndarray]:
    """The problem of some groups with rows in the order of groups, and the keys of the rows."""
    firsts = np.cumsum([0, *[len(group.costs) for group in groups]])
    owners = np.concatenate(
        [group.owners + first for group, first in zip(groups, firsts[:-1], strict=True)]
    )
    order = np.argsort(owners, kind="stable")
    problem = GroupProblem(
        Z=stacked([group.rows for group in groups])[order],
        e=np.concatenate([group.e for group in groups])[order],
        offsets=np.r_[0, np.cumsum(np.bincount(owners, minlength=firsts[-1]))],
        costs=np.concatenate([group.costs for group in groups]),
        c=np.concatenate([group.c for group in groups])[order],
        n_squared=n_squared,
    )
    return problem, np.concatenate([group.keys for group in groups])[order]
