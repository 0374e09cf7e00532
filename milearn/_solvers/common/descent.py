"""The concave-convex procedure by passes over many instances.

A convex step is solved over a working set of rows. Missing or aggregated rows only decrease its
value, which is therefore a lower bound of the step. A pass at the solution gives

* the value of the step over all rows, an upper bound;
* the objective itself, the next linearisation, and the next working set.

So each pass ends one convex step and starts the next. The procedure ends when the lower bound of
the convex step at a point is within the tolerance of the objective there. The reported gap
therefore belongs to the linearisation at the returned point. If the start is likely to be far from
the solution, the first steps are solved to a low precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from ..._bags.blocks import Block, stacked
from ..._bags.segments import gather_rows, segment_rank
from .cccp import CCCPSolution, SolverOptions

W = TypeVar("W", bound="WorkingSet")

# Gap of a step over its working set, as a fraction of the gap of the step.
_INNER_SHARE = 0.3
# A step ends after this number of consecutive rounds that missed their precision over the working
# set, which is then beyond double precision.
_MAX_MISSED = 3


@dataclass
class Witnesses:
    """One instance of each of some bags, or a mixture of its instances, that linearises a maximum.

    Attributes
    ----------
    numbers : ndarray of int of shape (n_bags,)
        Row numbers of the instances; -1 for a mixture.
    vectors : ndarray or CSR matrix of shape (n_bags, n_features)
        None if they are no longer in memory.
    """

    numbers: np.ndarray
    vectors: Any

    @classmethod
    def together(cls, parts: Sequence[Witnesses]) -> Witnesses:
        """The witnesses of all blocks."""
        numbers, vectors = zip(*map(attrgetter("numbers", "vectors"), parts), strict=True)
        return cls(np.concatenate(numbers), stacked(vectors))


@dataclass(frozen=True)
class WorkingSet:
    """Instances that a convex step is solved over.

    Attributes
    ----------
    rows : ndarray or CSR matrix of shape (n_rows, n_features)
    numbers : ndarray of int of shape (n_rows,), increasing
        Their row numbers.
    owners : ndarray of int of shape (n_rows,)
        Their bags.
    """

    rows: Any
    numbers: np.ndarray
    owners: np.ndarray

    @classmethod
    def of_block(cls, block: Block, rows: np.ndarray, dtype: Any = np.float64) -> WorkingSet:
        """Some rows of a block in a type."""
        owners = np.searchsorted(block.offsets, rows, side="right") - 1 + block.first_bag
        return cls(block.take(rows, dtype), rows + block.first_row, owners)

    @classmethod
    def together(cls, parts: Sequence[WorkingSet]) -> WorkingSet:
        """The rows of all blocks."""
        fields = map(attrgetter("rows", "numbers", "owners"), parts)
        rows, numbers, owners = zip(*fields, strict=True)
        return cls(stacked(rows), np.concatenate(numbers), np.concatenate(owners))

    def only(self, kept: np.ndarray) -> WorkingSet:
        """Some of the rows."""
        return WorkingSet(self.rows[kept], self.numbers[kept], self.owners[kept])

    def joined(self: W, other: WorkingSet, kept: np.ndarray | None = None) -> W:
        """The working set with rows of another one that it does not have, by default all of them.

        Parameters
        ----------
        other : WorkingSet
        kept : ndarray of bool, default=None
            The rows of the other one that are added.
        """
        candidates = np.arange(len(other.numbers)) if kept is None else np.flatnonzero(kept)
        extra = candidates[~np.isin(other.numbers[candidates], self.numbers)]
        if len(extra) == 0:
            return self
        numbers = np.r_[self.numbers, other.numbers[extra]]
        order = np.argsort(numbers, kind="stable")
        return replace(
            self,
            rows=_merged(self.rows, other.rows, extra, order),
            numbers=numbers[order],
            owners=np.r_[self.owners, other.owners[extra]][order],
        )


def _merged(rows: Any, others: Any, extra: np.ndarray, order: np.ndarray) -> Any:
    """Rows and some others in an order; dense rows are many, and are copied once."""
    if sparse.issparse(rows):
        return stacked([rows, others[extra]])[order]
    found = np.empty((len(order), rows.shape[1]), dtype=np.result_type(rows, others))
    place = np.argsort(order)
    found[place[: len(rows)]] = rows
    places = place[len(rows) :]
    for first in range(0, len(extra), 2**14):
        part = slice(first, first + 2**14)
        found[places[part]] = others[extra[part]]
    return found


@dataclass(frozen=True)
class RowLimits:
    """Limits of the rows that belong to a working set."""

    # Distance from the margin or from the highest row of a bag, in units of the margin.
    band: float = 0.3
    # Rows of each bag; more if the band is wider, so that a step which is repeated ends.
    per_bag: int = 4
    # Numbers in all rows.
    numbers: int = 2**25
    # Numbers in all instances up to which all instances belong to the working set.
    all_rows: int = 2**21

    def hold_all(self, n_instances: int, width: float) -> bool:
        """Whether all instances belong to the working set."""
        return n_instances * width <= self.all_rows

    def share(self, n_instances: int, width: float) -> float:
        """The largest share of all instances in it, by their numbers."""
        return self.numbers / (n_instances * width)

    def of_bag(self, n_bags: int, width: float) -> int:
        """The largest number of rows of a bag in it."""
        most = int(self.per_bag * (self.band / RowLimits.band) ** 2)
        return max(1, min(most, int(self.numbers / (n_bags * width))))


def near_the_top(
    scores: np.ndarray, offsets: np.ndarray, level: np.ndarray, band: float, few: int
) -> np.ndarray:
    """Rows of bags that belong to the working set, at most ``few`` of a bag.

    Rows below the ``level`` of their bag cost nothing; that of bags without rows is infinite. A
    bag has a number of rows that does not depend on the other bags of its block, because the order
    of the bags would choose the blocks.
    """
    sizes = np.diff(offsets)
    top = np.maximum.reduceat(scores, offsets[:-1])
    near = scores > np.repeat(np.maximum(top, level) - band, sizes)
    over = np.flatnonzero(np.add.reduceat(near, offsets[:-1], dtype=np.intp) > few)
    if len(over):
        # If scores hardly differ, the highest rows of each bag are enough.
        rows, own = gather_rows(offsets, over)
        low = segment_rank(scores[rows], own) >= few
        near[rows[low]] = False
    return np.asarray(near)


@dataclass(frozen=True)
class Duals:
    """Dual variables divided by the costs of their groups, by sorted keys; they start a step."""

    keys: np.ndarray
    values: np.ndarray

    @classmethod
    def of_rows(cls, keys: np.ndarray, found: np.ndarray) -> Duals:
        known = np.flatnonzero((keys >= 0) & (found > 0))
        known = known[np.argsort(keys[known], kind="stable")]
        return cls(keys[known], found[known])

    def of(self, keys: np.ndarray) -> np.ndarray:
        """Values of the given keys; zero for new keys."""
        found = np.zeros(len(keys))
        if len(self.keys):
            place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            known = self.keys[place] == keys
            found[known] = self.values[place[known]]
        return found


@dataclass(kw_only=True)
class PassSolution(CCCPSolution):
    """The best point (w, v) of a run; v are the variables without a norm.

    The gap belongs to its linearisation.
    """

    w: np.ndarray
    v: np.ndarray
    n_passes: int = 0
    linearisation: Any = None

    @property
    def intercept(self) -> float:
        """The first variable without a norm."""
        return float(self.v[0])


def descend(
    model: Any,
    point: tuple[np.ndarray, np.ndarray],
    linearisation: Any,
    options: SolverOptions,
    *,
    rough: bool = False,
    rough_tol: float = 2.5e-3,
    objective_scale: float = 0.0,
    max_passes: int = 500,
) -> PassSolution:
    """A stationary point of the model.

    Parameters
    ----------
    model : object
        A problem whose convex steps depend on the highest rows of groups. It counts its passes over
        all instances in ``n_passes``, and has these methods; views and linearisations are its own.

        * ``view(w, v, linearisation)`` passes over all instances; the linearisation is initially
          None. A view has the ``objective`` at the point, for optimal free variables ``v`` or those
          of the point, and the ``value`` of the convex step.
        * ``next_step(linearisation, before, view, duals)`` returns the linearisation at the view,
          and the view with the working set of the next step.
        * ``with_rows_of(before, view, linearisation)`` returns the view with the working set of the
          previous one added, to repeat the same step. The working set has to grow.
        * ``is_fixed_point(linearisation, view)`` tells whether the linearisation at the view is the
          given one.
        * ``problem(linearisation, view)`` returns the convex step over the working set, such as a
          :class:`.newton.GroupProblem`, and keys of its rows that identify them in later steps
          (-1 for none).
    point : tuple of ndarray
        Initial w and free variables.
    linearisation : linearisation or None
        The first linearisation; by default, the one at the point.
    options : SolverOptions
        ``tol`` is the gap of a convex step, as a fraction of the objective, at which the step and
        the run end.
    rough : bool
        Whether to solve the first steps roughly, until the objective decreases slowly.
    rough_tol : float
        Gap of the rough first steps, over the working set.
    objective_scale : float
        Lower bound of the scale of relative gaps.
    max_passes : int
        Maximum number of passes. One pass after those of the start is always made.
    """
    (w, v), tol = point, options.tol
    duals = Duals(np.zeros(0, dtype=np.intp), np.zeros(0))
    rough_tol = max(rough_tol, tol)
    best = PassSolution(w=w, v=v, objective_scale=objective_scale)

    def within(tol: float, value: float, bound: float) -> bool:
        return value - bound <= tol * max(value, objective_scale)

    view, given = model.view(w, v, linearisation), np.inf
    if linearisation is None:
        given = view.objective
        linearisation, view = model.next_step(None, None, view, duals)
    max_passes, bound, ended = max(max_passes, model.n_passes + 1), -np.inf, False
    while not ended and model.n_passes < max_passes and best.n_iter < options.max_iter:
        # Solve this step: add rows to the working set until its gap is closed.
        bound, n_missed, closed = -np.inf, 0, False
        while not closed and model.n_passes < max_passes:
            problem, keys = model.problem(linearisation, view)
            aim = rough_tol if rough else _INNER_SHARE * tol
            first = problem.first(duals.of(keys), problem.values(w, v)) if len(duals.keys) else None
            solved = problem.solve((w, v), aim, first)
            # Its rows need not be in memory during the next pass.
            del problem, first
            w, v, duals = solved.w, solved.v, Duals.of_rows(keys, solved.proportions)
            bound = max(bound, solved.lower_bound)
            # The step at the best point decreases the objective by at most the difference.
            ended = best.n_iter > 0 and not rough and within(tol, best.objective, bound)
            if ended:
                break
            missed = not rough and not within(aim, solved.objective, bound)
            n_missed = n_missed + 1 if missed else 0
            before, view = view, model.view(w, v, linearisation)
            closed = within(tol, view.value, bound) or n_missed >= _MAX_MISSED
            closed |= rough and view.objective < min(best.objective, given)
            if not closed:
                # Rows were missing. Even if the objective is low, the procedure continues only from
                # solutions of its steps, so the same step is repeated over both working sets.
                view, rough = model.with_rows_of(before, view, linearisation), False
        ended |= closed and view.objective >= best.objective
        if ended:
            best.n_iter += 1
            best.history.append(best.objective)
        if ended or not closed:
            break
        # The next linearisation.
        slow = best.n_iter and best.objective - view.objective <= 2.0 * rough_tol * view.objective
        _take(best, w, view, bound, linearisation)
        fixed = model.is_fixed_point(linearisation, view)
        ended = fixed and not rough
        if ended:
            break
        if options.on_iteration is not None and options.on_iteration(best.n_iter, best.objective):
            best.stopped = "callback"
            break
        rough = rough and not slow and not fixed
        linearisation, view = model.next_step(linearisation, before, view, duals)
        v = best.v
    if ended:
        # The bound is that of the step at the best point.
        best.dual_gap, best.stopped = max(0.0, best.objective - bound), ""
        best.linearisation = linearisation
    elif best.stopped == "max_iter" and best.n_iter < options.max_iter:
        best.stopped = "max_passes"
    if best.n_iter == 0:
        # The first step did not end within the maximum number of passes.
        _take(best, w, view, bound, linearisation)
    best.n_passes = model.n_passes
    return best


def _take(best: PassSolution, w: np.ndarray, view: Any, bound: float, linearisation: Any) -> None:
    """Store and count the point at which a step ended."""
    best.w, best.v, best.objective, best.linearisation = w, view.v, view.objective, linearisation
    best.dual_gap = max(0.0, view.value - bound)
    best.n_iter += 1
    best.history.append(best.objective)
