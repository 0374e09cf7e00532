"""Bags tied to their highest instances, for a linear kernel, by passes over the instances.

The problem is that of :mod:`.coupled_cccp`: bags are scaled sums of their instances and coupled to
them, or their scores are those of the highest instances (a hard maximum, in regression). Bags and
the mixtures that linearise the maximum, one of each bag, are held in memory; of the instances those
that are near the top of their bags are in the working set. The loss of a bag and its coupling are
groups of :mod:`.group_newton`, the width of the tube is a variable without a norm whose cost is
the group [eps]_+.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ..._bags.segments import (
    pooling_matrix,
    segment_argmax,
    segment_index,
    segment_max,
)
from ..common.options import SolverOptions
from ..common.passes import Block, PassSource
from .coupled_cccp import CoupledSolution, coupled_objective
from .group_newton import GroupProblem, solve_groups
from .losses import BagLoss, Coupling
from .pass_descent import MAX_PASSES, Matrix, descend, rank_in_bags, rows_of_block, stacked

__all__ = ["CoupledPassesResult", "solve_coupled_passes"]

# Instances within this distance of what counts belong to the working set, in units of the margin.
_BAND = 0.3
# Numbers in the working set of instances, at the most.
_WORKING_NUMBERS = 2**25
_START_TOL = 1e-3
# Witness of a bag that is linearised by the mean of its instances.
_MEAN = -1


@dataclass(kw_only=True)
class CoupledPassesResult(CoupledSolution):
    """A local minimum of J.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    n_passes : int
        Passes over all instances.
    """

    w: np.ndarray
    n_passes: int


@dataclass(frozen=True)
class _Held:
    """A linearisation: of each bag an instance, or the mean of all.

    Attributes
    ----------
    rows : ndarray of int of shape (n_bags,)
    vectors : matrix of shape (n_bags, n_features), scaled
    """

    rows: np.ndarray
    vectors: Matrix


@dataclass(frozen=True)
class _BlockTops:
    """What a pass saw in a block, without the intercept.

    Attributes
    ----------
    top : ndarray of shape (n_bags,), highest score of each bag
    witnesses, vectors : rows of the highest instances, and these, scaled
    numbers, rows, owners : the instances near the top, scaled, and their bags
    """

    top: np.ndarray
    witnesses: np.ndarray
    vectors: Matrix
    numbers: np.ndarray
    rows: Matrix
    owners: np.ndarray


@dataclass(frozen=True)
class _SeenTops:
    """What a pass saw: a :class:`.pass_descent.Seen` with a working set of instances."""

    value: float
    objective: float
    v: np.ndarray
    linearisation: _Held
    numbers: np.ndarray
    rows: Matrix
    owners: np.ndarray


def solve_coupled_passes(
    source: PassSource,
    loss: BagLoss,
    coupling: Coupling,
    bag_kernel: str,
    start: str | np.ndarray,
    options: SolverOptions,
    gap_tol: float,
    max_passes: int = MAX_PASSES,
) -> CoupledPassesResult:
    """Minimise J.

    Parameters
    ----------
    source : PassSource
    loss : Hinge or Tube
    coupling : Coupling
    bag_kernel : {"set", "mean_set", "normalized_set"}
        Scales of bags and instances; not used where the maximum is hard.
    start : {"auto", "mean"} or ndarray of int of shape (n_bags,)
        First linearisation: the highest instances under the SVM without coupling, the mean of each
        bag, or given rows. Where the maximum is hard "auto" is the mean.
    options : SolverOptions
        ``qp_solver`` is not used.
    gap_tol : float
        Relative duality gap of a convex step.
    max_passes : int
        Maximum number of passes.
    """
    # In units of the spread of the targets the smoothing is as fine as for a margin of one. With
    # y = m + s y' and w = s w' the objective is s^2 times that of w' where all costs are divided
    # by s, those of squares excepted.
    unit_loss, middle, size = loss.standardised()
    weights = coupling.weights if coupling.squared else coupling.weights / size
    unit_coupling = Coupling(coupling.loss, weights, coupling.epsilon / size)
    model = _Coupled(source, unit_loss, unit_coupling, bag_kernel)
    held = model.means() if isinstance(start, str) else model.given(start)
    w, v = model.first_function(held)
    if isinstance(start, str) and start == "auto" and not coupling.hard:
        held = model.look(w, v, held).linearisation
    watch = options.on_iteration
    if watch is not None:
        options = options.watched_by(lambda n, value: watch(n, size**2 * value))
    found = descend(model, (w, v), held, options, gap_tol, rough=False, max_passes=max_passes)
    return CoupledPassesResult(
        **found.outcome(size**2),
        objective_scale=loss.objective_scale,
        intercept=middle + size * float(found.v[0]),
        width=size * float(found.v[1]) if len(found.v) > 1 else 0.0,
        w=size * found.w,
        n_passes=model.n_passes,
    )


class _Coupled:
    """The problem as a :class:`.pass_descent.PassModel`."""

    def __init__(
        self, source: PassSource, loss: BagLoss, coupling: Coupling, bag_kernel: str
    ) -> None:
        self.source, self.loss, self.coupling = source, loss, coupling
        self.hard = coupling.hard
        self.scales: np.ndarray | None = None
        self.n_passes = 0
        if self.hard:
            sizes = np.concatenate(source.map(_sizes))
        else:
            parts = source.map(_bags, bag_kernel)
            sizes = np.concatenate([size for size, _, _ in parts])
            self.bags = stacked([bags for _, bags, _ in parts])
            if bag_kernel == "normalized_set":
                self.scales = np.concatenate([scale for _, _, scale in parts])
            self.n_passes = 1
            # The one instance of a bag of one is the bag: nothing to couple.
            self.tied = np.flatnonzero((coupling.weights > 0) & (sizes > 1))
        self.n_bags = len(sizes)

    # -- linearisations and a first function --

    def means(self) -> _Held:
        """The mean of each bag."""
        self.n_passes += 1
        vectors = stacked(self.source.map(_means, self.scales))
        return _Held(np.full(self.n_bags, _MEAN), vectors)

    def given(self, rows: np.ndarray) -> _Held:
        """Given instances."""
        self.n_passes += 1
        vectors = stacked(self.source.map(rows_of_block, rows))
        return _Held(rows, vectors if self.scales is None else _scaled(vectors, self.scales[rows]))

    def first_function(self, held: _Held) -> tuple[np.ndarray, np.ndarray]:
        """The model without coupling, or of the linearised bags where the maximum is hard."""
        objects = held.vectors if self.hard else self.bags
        problem = _assembled(_loss_groups(self.loss, objects, objects), [], 0)
        n_free = problem.free.shape[1]
        start = np.zeros(objects.shape[1]), np.zeros(n_free)
        found = solve_groups(problem, *start, gap_tol=_START_TOL)
        return found.w, found.v

    # -- the model --

    def look(self, w: np.ndarray, v: np.ndarray, held: _Held) -> _SeenTops:
        """Pass over all instances."""
        self.n_passes += 1
        mixed = np.asarray(held.vectors @ w)
        if self.hard:
            # Where the upper side of the tube begins.
            side = self.loss.dual_columns()[0]
            floor = -side.gain + side.equation * v[0] + side.tube * v[1]
            bags = mixed
        else:
            bags = np.asarray(self.bags @ w)
            floor = bags + np.maximum(np.abs(bags - mixed), self.coupling.margin)
        per_row = _WORKING_NUMBERS / (self.source.n_features * self.source.n_instances)
        parts = self.source.map(_look, w, floor, self.scales, per_row)
        top = np.concatenate([part.top for part in parts])
        loss, coupling, norm2 = self.loss, self.coupling, float(w @ w)
        objective, intercept, width = coupled_objective(norm2, bags, top, loss, coupling)
        if self.hard:
            value = 0.5 * norm2 + loss.split(np.maximum(top, mixed), mixed)[1]
        else:
            held_excess = np.maximum(np.abs(bags - mixed), top - bags)
            value = 0.5 * norm2 + loss.value(bags, intercept) + coupling.value(held_excess)
        return _SeenTops(
            value=value,
            objective=objective,
            v=np.array([intercept, width])[: len(v)],
            linearisation=_Held(
                np.concatenate([part.witnesses for part in parts]),
                stacked([part.vectors for part in parts]),
            ),
            numbers=np.concatenate([part.numbers for part in parts]),
            rows=stacked([part.rows for part in parts]),
            owners=np.concatenate([part.owners for part in parts]),
        )

    def joined(self, before: _SeenTops, seen: _SeenTops, held: _Held) -> _SeenTops:
        """The working set of a pass with the rows of the one before."""
        extra = ~np.isin(before.numbers, seen.numbers)
        numbers = np.r_[seen.numbers, before.numbers[extra]]
        order = np.argsort(numbers, kind="stable")
        return replace(
            seen,
            numbers=numbers[order],
            rows=stacked([seen.rows, before.rows[extra]])[order],
            owners=np.r_[seen.owners, before.owners[extra]][order],
        )

    def advanced(self, seen: _SeenTops) -> _SeenTops:
        """The working set does not depend on the linearisation."""
        return seen

    def same(self, left: _Held, right: _Held) -> bool:
        """Whether the same instances stand for their bags."""
        return bool(np.array_equal(left.rows, right.rows))

    def problem(self, held: _Held, seen: _SeenTops) -> GroupProblem:
        """The convex step over a working set."""
        if self.hard:
            return self._hard_problem(held, seen)
        return self._coupled_problem(held, seen)

    def _hard_problem(self, held: _Held, seen: _SeenTops) -> GroupProblem:
        # What linearises a bag belongs to the upper side too, which is never below the lower one.
        near = seen.numbers != held.rows[seen.owners]
        owners = np.r_[seen.owners[near], np.arange(self.n_bags)]
        order = np.argsort(owners, kind="stable")
        upper = stacked([seen.rows[near], held.vectors])[order]
        groups = _loss_groups(self.loss, upper, held.vectors, owners[order])
        return _assembled(groups, [], 0)

    def _coupled_problem(self, held: _Held, seen: _SeenTops) -> GroupProblem:
        tied, coupling = self.tied, self.coupling
        groups = _loss_groups(self.loss, self.bags, self.bags)
        if len(tied) == 0:
            return _assembled(groups, [], 0)
        place = np.full(self.n_bags, -1)
        place[tied] = np.arange(len(tied))
        # An instance that linearises its bag is there already.
        near = (place[seen.owners] >= 0) & (seen.numbers != held.rows[seen.owners])
        owners = seen.owners[near]
        apart = held.vectors[tied] - self.bags[tied]
        order = np.argsort(np.r_[place[tied], place[tied], place[owners]], kind="stable")
        rows = stacked([apart, -apart, seen.rows[near] - self.bags[owners]])[order]
        counts = np.bincount(np.r_[place[tied], place[tied], place[owners]], minlength=len(tied))
        more = _Groups(
            rows=rows,
            e=np.zeros((rows.shape[0], groups[0].e.shape[1])),
            c=np.full(rows.shape[0], -coupling.margin),
            sizes=counts,
            costs=coupling.weights[tied],
        )
        return _assembled(groups, [more], len(tied) if coupling.squared else 0)


# -- groups --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Groups:
    """Some groups of a problem; attributes as in :class:`.group_newton.GroupProblem`."""

    rows: Matrix
    e: np.ndarray
    c: np.ndarray
    sizes: np.ndarray
    costs: np.ndarray


def _loss_groups(
    loss: BagLoss, upper: Matrix, lower: Matrix, owners: np.ndarray | None = None
) -> list[_Groups]:
    """The loss of the bags; of two sides the first sees the highest of ``upper``.

    ``owners`` are the bags of the rows of ``upper``, sorted; one row of each by default.
    """
    everyone, limit = np.arange(len(loss.weights)), loss.tube_limit
    of_upper, groups = everyone if owners is None else owners, []
    for number, side in enumerate(loss.dual_columns()):
        first = number == 0 and limit is not None
        rows, bags = (upper, of_upper) if first else (lower, everyone)
        free = -np.stack([side.equation, side.tube], axis=1)[bags]
        groups.append(
            _Groups(
                rows=_scaled(rows, -side.sign[bags]),
                e=free if limit is not None else free[:, :1],
                c=side.gain[bags],
                sizes=np.bincount(bags, minlength=len(everyone)),
                costs=loss.weights,
            )
        )
    if limit is None:
        return groups
    nothing: Matrix = np.zeros((1, lower.shape[1]))
    if sparse.issparse(lower):
        nothing = sparse.csr_array(nothing)
    # The width of the tube is its own group: below zero it would only be worse for the bags.
    free, cost = np.array([[0.0, 1.0]]), np.array([limit * float(loss.weights.sum())])
    return [*groups, _Groups(nothing, free, np.zeros(1), np.ones(1, dtype=np.intp), cost)]


def _assembled(groups: list[_Groups], more: list[_Groups], n_squared: int) -> GroupProblem:
    groups = groups + more
    return GroupProblem(
        Z=stacked([group.rows for group in groups]),
        e=np.concatenate([group.e for group in groups]),
        offsets=np.r_[0, np.cumsum(np.concatenate([group.sizes for group in groups]))],
        costs=np.concatenate([group.costs for group in groups]),
        c=np.concatenate([group.c for group in groups]),
        n_squared=n_squared,
    )


# -- functions of a block ------------------------------------------------------------------------


def _scaled(rows: Matrix, scale: np.ndarray) -> Matrix:
    if sparse.issparse(rows):
        return (sparse.diags_array(scale) @ rows).tocsr()
    return rows * scale[:, None]


def _inverse_norms(rows: Matrix) -> np.ndarray:
    """One over the norm of each row; zero for a row of zeros."""
    if sparse.issparse(rows):
        squares = np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    else:
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    inverse = np.zeros(len(squares))
    np.divide(1.0, np.sqrt(squares), out=inverse, where=squares > 0)
    return inverse


def _sizes(block: Block) -> np.ndarray:
    return np.diff(block.offsets)


def _bags(block: Block, bag_kernel: str) -> tuple[np.ndarray, Matrix, np.ndarray]:
    """Sizes of the bags, the scaled sums of their instances, and the scales of instances."""
    sizes = np.diff(block.offsets)
    sums = pooling_matrix(block.offsets, 1.0) @ block.instances
    if bag_kernel == "mean_set":
        return sizes, _scaled(sums, 1.0 / sizes), np.zeros(0)
    if bag_kernel == "set":
        return sizes, sums, np.zeros(0)
    return sizes, _scaled(sums, _inverse_norms(sums)), _inverse_norms(block.instances)


def _means(block: Block, scales: np.ndarray | None) -> Matrix:
    weights = np.repeat(1.0 / np.diff(block.offsets), np.diff(block.offsets))
    if scales is not None:
        weights = weights * scales[block.rows]
    return pooling_matrix(block.offsets, weights) @ block.instances


def _look(
    block: Block, w: np.ndarray, floor: np.ndarray, scales: np.ndarray | None, per_row: float
) -> _BlockTops:
    scores, sizes = block.scores(w), np.diff(block.offsets)
    if scales is not None:
        scores = scores * scales[block.rows]
    top, highest = segment_max(scores, block.offsets), segment_argmax(scores, block.offsets)
    near = scores > np.repeat(np.maximum(top, floor[block.bags]) - _BAND, sizes)
    limit = max(len(top), int(per_row * len(scores)))
    if int(near.sum()) > limit:
        # Where scores hardly differ, the highest rows of each bag stand for the others.
        near &= rank_in_bags(scores, block.offsets) < max(2, limit // len(top))
    near[highest] = True
    rows = np.flatnonzero(near)
    vectors, found = block.take(highest), block.take(rows)
    if scales is not None:
        own = scales[block.rows]
        vectors, found = _scaled(vectors, own[highest]), _scaled(found, own[rows])
    return _BlockTops(
        top=top,
        witnesses=highest + block.first_row,
        vectors=vectors,
        numbers=rows + block.first_row,
        rows=found,
        owners=segment_index(block.offsets)[rows] + block.first_bag,
    )
