"""Bags coupled to their highest instances, for a linear kernel, by passes over the instances.

The problem is defined in :mod:`.cccp`: bags are scaled sums of their instances and coupled to them,
or bag scores are highest instance scores (a hard maximum, in regression). Bags and the mixtures
that linearise the maximum, one per bag, are in memory. The working set contains the instances with
nearly the highest score of their bags. The loss of a bag and its coupling are groups of
:mod:`...common.newton`. The width of the tube is a variable without a penalty whose cost is the
group [eps]_+.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy import sparse

from ...._bags.blocks import PassSource, stacked
from ...common.cccp import SolverOptions
from ...common.descent import Duals, descend, with_rows
from ...common.newton import GroupProblem, NewtonSolution, solve_groups
from ...common.passes import TieRule, is_constant, rows_of_block
from ..losses import BagLoss, Coupling, Tube
from .cccp import CoupledSolution, coupled_objective
from .view import (
    MEAN,
    CoupledLimits,
    Linearisation,
    Place,
    bag_means,
    scaled_bags,
    scaled_rows,
    together,
    tops_of_block,
    view_of_block,
)

Matrix = Any  # an ndarray or a CSR matrix
_START_TOL = 1e-3
# Up to this relative gap of a convex step no step is solved roughly.
_FINE = 1e-4
# Key of the row of the tube, larger than those of all instances and bags.
_TUBE = np.iinfo(np.intp).max


@dataclass(kw_only=True)
class CoupledRowsResult(CoupledSolution):
    """A local minimum of J with its weight vector and the number of passes over all instances."""

    w: np.ndarray
    n_passes: int


@dataclass(frozen=True)
class BagRows:
    """Bags as rows in the space of their instances, and the scales of instances (1 if None)."""

    bags: Matrix
    scales: np.ndarray | None = None


@dataclass(frozen=True)
class _View:
    """Result of a pass with a working set of instances."""

    value: float
    objective: float
    v: np.ndarray
    linearisation: Linearisation
    numbers: np.ndarray
    rows: Matrix
    owners: np.ndarray


def solve_coupled_rows(
    source: PassSource,
    loss: BagLoss,
    coupling: Coupling,
    bag_kernel: str | BagRows,
    start: str | np.ndarray,
    options: SolverOptions,
    gap_tol: float,
    limits: CoupledLimits | None = None,
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
    gap_tol : float
        Relative duality gap of a convex step.
    limits : CoupledLimits, default=None
    """
    limits = CoupledLimits() if limits is None else limits
    at_zero = loss.value(*_at_zero(loss))
    if at_zero <= gap_tol * loss.objective_scale:
        # The solution for constant targets is w = 0; a relative gap would be rounding.
        return _zero_result(loss, at_zero, source.n_features, options)
    # Standardise the targets, so that the smoothing is the same as for a margin of one. With
    # y = m + s y' and w = s w' the objective is s^2 times the objective at w' with all costs
    # divided by s, except those of squares.
    unit_loss, middle, size = loss.standardised()
    weights = coupling.weights if coupling.squared else coupling.weights / size
    unit_coupling = Coupling(coupling.loss, weights, coupling.epsilon / size)
    model = _Coupled(source, unit_loss, unit_coupling, bag_kernel, limits)
    own_start = isinstance(start, str) and start == "auto"
    held = model.means() if isinstance(start, str) else model.given(start)
    # In a fine problem the start is the same as in the dual.
    first = model.first_function(held, min(_START_TOL, gap_tol))
    if own_start:
        held = model.tops(first.w, is_constant(first.objective, model.at_zero))
    # The means of bags may be far from the solution.
    many = source.n_instances > limits.exact_instances
    rough = coupling.hard and (many or (own_start and gap_tol > _FINE))
    watch = options.on_iteration
    if watch is not None:
        options = options.watched_by(lambda n, value: watch(n, size**2 * value))
    point, most = (first.w, first.v), limits.max_passes
    found = descend(model, point, held, options, gap_tol, rough=rough, max_passes=most)
    rows = found.held.rows
    return CoupledRowsResult(
        **found.outcome(size**2),
        witnesses=rows if coupling.hard and (rows != MEAN).all() else None,
        objective_scale=loss.objective_scale,
        intercept=middle + size * float(found.v[0]),
        width=size * float(found.v[1]) if len(found.v) > 1 else 0.0,
        w=size * found.w,
        n_passes=model.n_passes,
    )


def _at_zero(loss: BagLoss) -> tuple[np.ndarray, float]:
    scores = np.zeros(len(loss.weights))
    return scores, loss.free(scores)[0]


def _zero_result(
    loss: BagLoss, value: float, dim: int, options: SolverOptions
) -> CoupledRowsResult:
    stopped = options.on_iteration is not None and options.on_iteration(1, value)
    intercept, width = loss.free(np.zeros(len(loss.weights)))
    return CoupledRowsResult(
        objective=value,
        history=[value],
        n_iter=1,
        stopped="callback" if stopped else "",
        dual_gap=value,
        objective_scale=loss.objective_scale,
        intercept=intercept,
        width=width,
        w=np.zeros(dim),
        n_passes=0,
    )


class _Coupled:
    """The problem as a model of :func:`.descent.descend`."""

    def __init__(
        self,
        source: PassSource,
        loss: BagLoss,
        coupling: Coupling,
        bag_kernel: str | BagRows,
        limits: CoupledLimits,
    ) -> None:
        self.source, self.loss, self.coupling, self.limits = source, loss, coupling, limits
        self.hard = coupling.hard
        self.scales: np.ndarray | None = None
        self.n_passes = 0
        sizes = np.diff(source.offsets)
        if not self.hard:
            if isinstance(bag_kernel, str):
                parts = source.map(scaled_bags, bag_kernel)
                self.bags = stacked([bags for bags, _ in parts])
                if bag_kernel == "normalized_set":
                    self.scales = np.concatenate([scale for _, scale in parts])
                self.n_passes = 1
            else:
                self.bags, self.scales = bag_kernel.bags, bag_kernel.scales
            # A bag of one instance is that instance and needs no coupling.
            self.tied = np.flatnonzero((coupling.weights > 0) & (sizes > 1))
        self.n_bags, self.n_instances = len(sizes), source.n_instances
        # Breaks ties of a hard maximum.
        self.second: np.ndarray | None = None

    # -- linearisations and a first function --

    def means(self) -> Linearisation:
        """The mean of each bag."""
        self.n_passes += 1
        vectors = stacked(self.source.map(bag_means, self.scales))
        if self.hard:
            self.second = np.asarray(cast(Tube, self.loss).descent() @ vectors)
        return Linearisation(np.full(self.n_bags, MEAN), vectors)

    def given(self, rows: np.ndarray) -> Linearisation:
        """Given instances."""
        self.n_passes += 1
        vectors = stacked(self.source.map(rows_of_block, rows))
        return Linearisation(
            rows, vectors if self.scales is None else scaled_rows(vectors, self.scales[rows])
        )

    def tops(self, w: np.ndarray, constant: bool = False) -> Linearisation:
        """Highest instance of each bag; of a hard maximum all tie where the model is constant."""
        rule = None
        if self.hard:
            if self.second is None:
                self.means()
            rule = TieRule(self.second, constant)
        self.n_passes += 1
        return together(self.source.map(tops_of_block, self.place(w), rule))

    def place(self, w: np.ndarray) -> Place:
        """Where a pass looks."""
        return Place(w, self.scales, self.n_instances, self.limits)

    @cached_property
    def at_zero(self) -> float:
        """The loss at w = 0."""
        zeros = np.zeros(self.n_bags)
        return self.loss.value(zeros, self.loss.free(zeros)[0])

    def first_function(self, held: Linearisation, tol: float) -> NewtonSolution:
        """The model without coupling, or of the linearised bags for a hard maximum."""
        objects = held.vectors if self.hard else self.bags
        everyone = np.arange(self.n_bags)
        side = _Side(everyone, [(objects, None)], everyone)
        problem, _ = _assembled(_loss_groups(self.loss, side, side), 0)
        n_free = problem.free.shape[1]
        start = np.zeros(objects.shape[1]), np.zeros(n_free)
        return solve_groups(problem, *start, gap_tol=tol)

    # -- the model --

    def view(
        self, w: np.ndarray, v: np.ndarray, held: Linearisation, before: _View | None
    ) -> _View:
        """Pass over all instances."""
        self.n_passes += 1
        mixed = np.asarray(held.vectors @ w)
        if self.hard:
            # The upper edge of the tube.
            side = self.loss.dual_columns()[0]
            bounds = -side.gain + side.equation * v[0] + side.tube * v[1]
            bags = mixed
        else:
            bags = np.asarray(self.bags @ w)
            bounds = bags + np.maximum(np.abs(bags - mixed), self.coupling.margin)
        rule = TieRule(self.second) if self.hard else None
        parts = self.source.map(view_of_block, self.place(w), rule, bounds)
        top = np.concatenate([part.top for part in parts])
        loss, coupling, norm2 = self.loss, self.coupling, float(w @ w)
        objective, intercept, width = coupled_objective(norm2, bags, top, loss, coupling)
        if self.hard:
            value = 0.5 * norm2 + cast(Tube, loss).split(np.maximum(top, mixed), mixed)[1]
        else:
            held_excess = np.maximum(np.abs(bags - mixed), top - bags)
            value = 0.5 * norm2 + loss.value(bags, intercept) + coupling.value(held_excess)
        linearisation = together([part.held for part in parts])
        constant = self.hard and is_constant(value, self.at_zero)
        if constant or any(part.tied for part in parts):
            linearisation = self.tops(w, constant)
        return _View(
            value=value,
            objective=objective,
            v=np.array([intercept, width])[: len(v)],
            linearisation=linearisation,
            numbers=np.concatenate([part.numbers for part in parts]),
            rows=stacked([part.rows for part in parts]),
            owners=np.concatenate([part.owners for part in parts]),
        )

    def joined(self, before: _View, view: _View, held: Linearisation) -> _View:
        """The view with the rows of the previous working set."""
        return with_rows(before, view)

    def advanced(
        self, held: Linearisation, before: _View | None, view: _View, duals: Duals
    ) -> tuple[Linearisation, _View]:
        """The highest instances, and the view, which does not depend on the linearisation."""
        return view.linearisation, view

    def unchanged(self, held: Linearisation, view: _View) -> bool:
        """Whether the linearisation is the same."""
        there = view.linearisation
        if not np.array_equal(held.rows, there.rows):
            return False
        means = held.rows == MEAN
        return not means.any() or abs(held.vectors[means] - there.vectors[means]).max() == 0

    def problem(self, held: Linearisation, view: _View) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over a working set."""
        # Add the vectors of the linearisation that are not in the working set.
        missing = np.flatnonzero(~np.isin(held.rows, view.numbers))
        if self.hard:
            return self._hard_problem(held, view, missing)
        return self._coupled_problem(held, view, missing)

    def _hard_problem(
        self, held: Linearisation, view: _View, missing: np.ndarray
    ) -> tuple[GroupProblem, np.ndarray]:
        upper = _Side(
            np.r_[view.owners, missing],
            [(view.rows, None), (held.vectors[missing], None)],
            np.r_[view.numbers, held.rows[missing]],
        )
        everyone = np.arange(self.n_bags)
        lower = _Side(everyone, [(held.vectors, None)], self.n_instances + everyone)
        return _assembled(_loss_groups(self.loss, upper, lower), 0)

    def _coupled_problem(
        self, held: Linearisation, view: _View, missing: np.ndarray
    ) -> tuple[GroupProblem, np.ndarray]:
        tied, coupling, n = self.tied, self.coupling, self.n_bags
        groups = _loss_groups(self.loss, *self._bag_sides())
        if len(tied) == 0:
            return _assembled(groups, 0)
        place = np.full(n, -1)
        place[tied] = np.arange(len(tied))
        missing, near = missing[place[missing] >= 0], place[view.owners] >= 0
        owners, numbers = view.owners[near], view.numbers[near]
        rows = view.rows if near.all() else view.rows[near]
        side = _Side(
            np.r_[place[tied], place[missing], place[owners]],
            [
                (self.bags[tied] - held.vectors[tied], None),
                (held.vectors[missing] - self.bags[missing], None),
                (rows - self.bags[owners], None),
            ],
            np.r_[self.n_instances + 2 * n + tied, held.rows[missing], numbers],
        )
        more = _Groups(
            side,
            np.zeros((len(side.owners), groups[0].e.shape[1])),
            np.full(len(side.owners), -coupling.margin),
            coupling.weights[tied],
        )
        return _assembled([*groups, more], len(tied) if coupling.squared else 0)

    def _bag_sides(self) -> tuple[_Side, _Side]:
        everyone = np.arange(self.n_bags)
        upper, lower = (
            _Side(everyone, [(self.bags, None)], self.n_instances + number * self.n_bags + everyone)
            for number in range(2)
        )
        return upper, lower


# -- groups --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Side:
    """Rows of some groups in any order."""

    # The group of each row.
    owners: np.ndarray
    # Matrices with their scales (None for one), one below the other.
    parts: list[tuple[Matrix, np.ndarray | None]]
    # Numbers that identify rows in other working sets.
    keys: np.ndarray

    def scaled(self, scale: np.ndarray) -> _Side:
        """The rows times the scales of their groups."""
        if (scale == 1.0).all():
            return self
        ends = np.cumsum([rows.shape[0] for rows, _ in self.parts])
        scales = np.split(scale[self.owners], ends[:-1])
        return _Side(
            self.owners,
            [(rows, each) for (rows, _), each in zip(self.parts, scales, strict=True)],
            self.keys,
        )


@dataclass(frozen=True)
class _Groups:
    """Some groups of a problem; ``e`` and ``c`` have an entry for each row of the side."""

    side: _Side
    e: np.ndarray
    c: np.ndarray
    costs: np.ndarray


def _loss_groups(loss: BagLoss, upper: _Side, lower: _Side) -> list[_Groups]:
    """The groups of the loss; the upper side of a tube has the rows of ``upper``."""
    limit, groups = loss.tube_limit, []
    for number, columns in enumerate(loss.dual_columns()):
        side = upper if number == 0 and limit is not None else lower
        free = -np.stack([columns.equation, columns.tube], axis=1)[side.owners]
        groups.append(
            _Groups(
                side.scaled(-columns.sign),
                free if limit is not None else free[:, :1],
                columns.gain[side.owners],
                loss.weights,
            )
        )
    if limit is None:
        return groups
    # The cost of the width of the tube. A negative width is never optimal.
    first = np.zeros(1, dtype=np.intp)
    nothing: Matrix = np.zeros((1, lower.parts[0][0].shape[1]))
    if sparse.issparse(lower.parts[0][0]):
        nothing = sparse.csr_array(nothing)
    side = _Side(first, [(nothing, None)], np.array([_TUBE]))
    cost = np.array([limit * float(loss.weights.sum())])
    return [*groups, _Groups(side, np.array([[0.0, 1.0]]), np.zeros(1), cost)]


def _assembled(groups: list[_Groups], n_squared: int) -> tuple[GroupProblem, np.ndarray]:
    """The problem of some groups with rows in the order of groups, and the keys of the rows."""
    firsts = np.cumsum([0, *[len(group.costs) for group in groups]])
    owners = np.concatenate(
        [group.side.owners + first for group, first in zip(groups, firsts[:-1], strict=True)]
    )
    order = np.argsort(owners, kind="stable")
    parts = [part for group in groups for part in group.side.parts]
    problem = GroupProblem(
        Z=_ordered(parts, order),
        e=np.concatenate([group.e for group in groups])[order],
        offsets=np.r_[0, np.cumsum(np.bincount(owners, minlength=firsts[-1]))],
        costs=np.concatenate([group.costs for group in groups]),
        c=np.concatenate([group.c for group in groups])[order],
        n_squared=n_squared,
    )
    return problem, np.concatenate([group.side.keys for group in groups])[order]


def _ordered(parts: list[tuple[Matrix, np.ndarray | None]], order: np.ndarray) -> Matrix:
    """Rows of all parts in a given order, copied once."""
    if sparse.issparse(parts[0][0]):
        return stacked([rows if s is None else scaled_rows(rows, s) for rows, s in parts])[order]
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    matrix, first = np.empty((len(order), parts[0][0].shape[1])), 0
    for rows, scale in parts:
        mine = place[first : first + len(rows)]
        matrix[mine] = rows
        if scale is not None:
            matrix[mine] *= scale[:, None]
        first += len(rows)
    return matrix
