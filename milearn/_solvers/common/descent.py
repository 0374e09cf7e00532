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

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from ..._bags.blocks import stacked
from ..._bags.threads import one_blas_thread
from .cccp import SolverOptions
from .newton import NewtonSolution

V = TypeVar("V")


class View(Protocol):
    """The result of a pass at a point.

    ``objective`` is the value of the problem, for optimal free variables ``v`` or those of the
    point; ``value`` is the value of the convex step at the point.
    """

    @property
    def objective(self) -> float: ...
    @property
    def value(self) -> float: ...
    @property
    def v(self) -> np.ndarray: ...


class Step(Protocol):
    """A convex step over a working set of rows."""

    def values(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Scores at a point."""
        ...

    def first(self, known: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Initial proportions from those of known rows, which are zero for new ones."""
        ...

    def solve(
        self, start: tuple[np.ndarray, np.ndarray], gap_tol: float, proportions: np.ndarray | None
    ) -> NewtonSolution:
        """Solve from (w, v), and initial proportions if there are some, to a relative gap."""
        ...


class PassModel(Protocol):
    """A problem whose convex steps depend on the highest rows of groups.

    ``n_passes`` is the number of passes over all instances so far. The types of views and
    linearisations are internal to the model.
    """

    n_passes: int

    def view(self, w: np.ndarray, v: np.ndarray, held: Any, before: Any) -> Any:
        """Pass over all instances; the linearisation and the previous view are initially None."""
        ...

    def joined(self, before: Any, view: Any, held: Any) -> Any:
        """The view with the working set of the previous one added, to repeat the same step.

        The working set has to grow. Otherwise the step would be repeated without progress.
        """
        ...

    def advanced(self, held: Any, before: Any, view: Any, duals: Duals) -> tuple[Any, Any]:
        """The linearisation at the view, and the view with the working set of the next step."""
        ...

    def unchanged(self, held: Any, view: Any) -> bool:
        """Whether the linearisation at the view is equal to the given one."""
        ...

    def problem(self, held: Any, view: Any) -> tuple[Step, np.ndarray]:
        """The convex step over a working set, and keys that identify its rows in later steps.

        Rows with the key -1 are not identified.
        """
        ...


@dataclass(frozen=True)
class Witnesses:
    """One instance of each of some bags, or a mixture of its instances, that linearises a maximum.

    Attributes
    ----------
    numbers : ndarray of int of shape (n_bags,)
        Row numbers of the instances; -1 for a mixture.
    vectors : ndarray or CSR matrix of shape (n_bags, n_features)
    """

    numbers: np.ndarray
    vectors: Any

    @classmethod
    def together(cls, parts: list[Witnesses]) -> Witnesses:
        """The witnesses of all blocks."""
        numbers = np.concatenate([part.numbers for part in parts])
        return cls(numbers, stacked([part.vectors for part in parts]))


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
    def together(cls, parts: list[WorkingSet]) -> WorkingSet:
        """The rows of all blocks."""
        return cls(
            stacked([part.rows for part in parts]),
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.owners for part in parts]),
        )

    def joined(self, other: WorkingSet, kept: np.ndarray | None = None) -> WorkingSet:
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
        return WorkingSet(
            stacked([self.rows, other.rows[extra]])[order],
            numbers[order],
            np.r_[self.owners, other.owners[extra]][order],
        )


@dataclass(frozen=True)
class Duals:
    """Dual variables divided by the costs of their groups, by sorted keys; they start a step."""

    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))

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


@dataclass(frozen=True)
class PassLimits:
    """Precision and limits of a descent by passes."""

    # Maximum number of passes. One pass after those of the start is always made.
    max_passes: int = 500
    # Gap of the rough first steps, over the working set.
    rough_tol: float = 2.5e-3
    # Gap of a step over its working set, as a fraction of the gap of the step.
    inner_share: float = 0.3
    # A step ends after this number of consecutive rounds that missed their precision over the
    # working set, which is then beyond double precision.
    max_missed: int = 3


@dataclass
class Descent:
    """The best point (w, v) of a run; the other fields are those of :class:`.cccp.CCCPSolution`.

    ``held`` is the linearisation that the gap belongs to.
    """

    w: np.ndarray
    v: np.ndarray
    objective: float = np.inf
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    stopped: str = "max_iter"
    dual_gap: float = np.inf
    held: Any = None

    def take(self, w: np.ndarray, view: View, bound: float, held: Any) -> None:
        """Store a point at which a step ended."""
        self.w, self.v, self.objective, self.held = w, view.v, view.objective, held
        self.dual_gap = max(0.0, view.value - bound)

    def end(self, bound: float, held: Any) -> None:
        """End the run with a lower bound of the convex step at the point."""
        self.dual_gap, self.stopped, self.held = max(0.0, self.objective - bound), "", held

    def count(self) -> None:
        """Count a step."""
        self.n_iter += 1
        self.history.append(self.objective)

    @property
    def converged(self) -> bool:
        """Whether the run ended by itself."""
        return not self.stopped

    def follow(self, before: Descent) -> None:
        """Put the steps of a less precise run, from whose end this one started, before its own."""
        first = self.history[0] if self.history else -np.inf
        # The last of them may be lower within their precision.
        kept = [value for value in before.history if value >= first]
        self.history = kept + self.history
        self.n_iter = len(self.history)

    def outcome(self, unit: float = 1.0) -> dict[str, Any]:
        """Fields of a :class:`.cccp.CCCPSolution`, with the objective in the given unit."""
        return {
            "objective": unit * self.objective,
            "history": [unit * value for value in self.history],
            "n_iter": self.n_iter,
            "stopped": self.stopped,
            "dual_gap": unit * self.dual_gap,
        }


def precision(
    n_instances: int,
    width: float,
    *,
    fine_numbers: int = 2**21,
    fine: float = 1e-8,
    coarse: float = 5e-4,
) -> float:
    """Relative duality gap of a convex step, by the size of the data."""
    return fine if n_instances * width <= fine_numbers else coarse


@one_blas_thread()
def descend(
    model: PassModel,
    point: tuple[np.ndarray, np.ndarray],
    held: Any,
    options: SolverOptions,
    gap_tol: float,
    *,
    rough: bool = False,
    objective_scale: float = 0.0,
    limits: PassLimits | None = None,
) -> Descent:
    """A local minimum of the model.

    Parameters
    ----------
    model : PassModel
    point : tuple of ndarray
        Initial w and free variables.
    held : linearisation or None
        The first linearisation; by default, the one at the point.
    options : SolverOptions
        ``tol`` is not used.
    gap_tol : float
        Gap of a convex step, as a fraction of the objective, at which the step and the run end.
    rough : bool
        Whether to solve the first steps roughly, until the objective decreases slowly.
    objective_scale : float
        Lower bound of the scale of relative gaps.
    limits : PassLimits, default=None
    """
    limits = PassLimits() if limits is None else limits
    rough_tol, (w, v), duals = max(limits.rough_tol, gap_tol), point, Duals()
    best, bound, n_missed = Descent(w, v), -np.inf, 0
    view = model.view(w, v, held, None)
    if held is None:
        held, view = model.advanced(None, None, view, duals)
    max_passes = max(limits.max_passes, model.n_passes + 1)
    while model.n_passes < max_passes and best.n_iter < options.max_iter:
        problem, keys = model.problem(held, view)
        aim = rough_tol if rough else limits.inner_share * gap_tol
        first = problem.first(duals.of(keys), problem.values(w, v)) if len(duals.keys) else None
        solved = problem.solve((w, v), aim, first)
        w, v, duals = solved.w, solved.v, Duals.of_rows(keys, solved.proportions)
        bound = max(bound, solved.lower_bound)
        gap = best.objective - bound
        if best.n_iter and not rough and gap <= gap_tol * max(best.objective, objective_scale):
            # Upper bound of the decrease by the step at the best point.
            best.end(bound, held)
            best.count()
            break
        missed = solved.objective - bound > aim * max(solved.objective, objective_scale)
        n_missed = n_missed + 1 if missed and not rough else 0
        before, view = view, model.view(w, v, held, view)
        closed = view.value - bound <= gap_tol * max(view.value, objective_scale)
        closed |= n_missed >= limits.max_missed
        improved = view.objective < best.objective
        if not closed and not (rough and improved):
            # Rows were missing. Even if the objective is low, the procedure continues only from
            # solutions of its steps, so the same step is repeated over both working sets.
            view, rough = model.joined(before, view, held), False
            continue
        if not improved:
            best.end(bound, held)
            best.count()
            break
        fall = best.objective - view.objective if best.n_iter else np.inf
        slow = fall <= 2.0 * rough_tol * view.objective
        best.take(w, view, bound, held)
        best.count()
        unchanged = model.unchanged(held, view)
        if unchanged and not rough:
            best.end(bound, held)
            break
        if options.on_iteration is not None and options.on_iteration(best.n_iter, best.objective):
            best.stopped = "callback"
            break
        rough = rough and not slow and not unchanged
        held, view = model.advanced(held, before, view, duals)
        v, bound, n_missed = best.v, -np.inf, 0
    if best.stopped == "max_iter" and best.n_iter < options.max_iter:
        best.stopped = "max_passes"
    if best.n_iter == 0:
        # The first step did not end within the maximum number of passes.
        best.take(w, view, bound, held)
        best.count()
    return best


def with_rows(before: Any, view: V, kept: np.ndarray | None = None) -> V:
    """A view whose working set also has rows of the one before it; see :class:`WorkingSet`.

    Both are dataclasses with the fields of a working set.
    """
    now: Any = view
    found = WorkingSet(now.rows, now.numbers, now.owners).joined(before, kept)
    view = replace(now, rows=found.rows, numbers=found.numbers, owners=found.owners)
    return view
