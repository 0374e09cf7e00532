"""The concave-convex procedure by passes over many instances.

A convex step is solved over a working set of rows. Rows that are missing or summed up only lower
its value, which is therefore a lower bound of the step. A pass at the solution gives

* the value of the step over all rows, an upper bound;
* the objective itself, the next linearisation, and the next working set.

So a pass ends one convex step and begins the next. The procedure ends where the step that a point
states has a lower bound within the tolerance of the objective there: the gap that is reported
belongs to the linearisation at the point that is returned. Where the start is likely to be far from
the end, the first steps are solved roughly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..._bags.segments import segment_argmax
from .newton import GroupProblem, solve_groups
from .options import SolverOptions

__all__ = ["Descent", "Duals", "PassLimits", "PassModel", "View", "descend"]


class View(Protocol):
    """A pass at a point.

    ``objective`` is the value of the problem, with the free variables ``v`` that are best for it or
    those of the point; ``value`` is that of the convex step at the point.
    """

    @property
    def objective(self) -> float: ...
    @property
    def value(self) -> float: ...
    @property
    def v(self) -> np.ndarray: ...


class PassModel(Protocol):
    """A problem whose convex steps are sums of group maxima.

    ``n_passes`` counts the passes over all instances so far. Views and linearisations are of types
    that only the model knows.
    """

    n_passes: int

    def view(self, w: np.ndarray, v: np.ndarray, held: Any, before: Any) -> Any:
        """Pass over all instances; linearisation and view before it are None at first."""
        ...

    def joined(self, before: Any, view: Any, held: Any) -> Any:
        """The view with the working set of the one before it, for the same step again.

        The working set has to grow, or the step would be solved in circles.
        """
        ...

    def advanced(self, held: Any, before: Any, view: Any, duals: Duals) -> tuple[Any, Any]:
        """The linearisation at the view, and the view with the working set of the next step."""
        ...

    def settled(self, held: Any, view: Any) -> bool:
        """Whether the linearisation at the view is the one that was held."""
        ...

    def problem(self, held: Any, view: Any) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over a working set, and keys by which rows are recognised later.

        Rows with the key -1 are not recognised.
        """
        ...


@dataclass(frozen=True)
class Duals:
    """Dual variables over the costs of their groups by sorted keys: a start for the next step."""

    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of_rows(cls, keys: np.ndarray, found: np.ndarray) -> Duals:
        known = np.flatnonzero((keys >= 0) & (found > 0))
        known = known[np.argsort(keys[known], kind="stable")]
        return cls(keys[known], found[known])

    def of(self, keys: np.ndarray) -> np.ndarray:
        """Values of the given keys, zero for those that are new."""
        found = np.zeros(len(keys))
        if len(self.keys):
            place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            known = self.keys[place] == keys
            found[known] = self.values[place[known]]
        return found

    def first_of(self, problem: GroupProblem, keys: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Where to begin; in a group without any the highest row takes all if that pays."""
        found = self.of(keys)
        sums = np.add.reduceat(found, problem.offsets[:-1])
        top = segment_argmax(u, problem.offsets)
        missing = (sums == 0) & (u[top] > 0)
        full = np.ones(len(sums))
        # A row that came into a group must not take its sum beyond the bound.
        plain = slice(0, problem.n_plain)
        full[plain] = np.maximum(sums[plain], 1.0)
        found /= np.repeat(full, np.diff(problem.offsets))
        found[top[missing]] = 1.0
        squared = np.flatnonzero(missing[problem.n_plain :]) + problem.n_plain
        found[top[squared]] = 2.0 * u[top[squared]]
        return found


@dataclass(frozen=True)
class PassLimits:
    """When a descent by passes is rough, and when it gives up.

    Attributes
    ----------
    max_passes : int
        Maximum number of passes. The pass after those of the start is always made.
    rough_tol : float
        Gap of a rough step, over the working set.
    inner_share : float
        Gap of a step over its working set, as a share of that of the step.
    max_missed : int
        Number of rounds in a row that miss their precision over the working set, after which a step
        ends: double precision allows no more.
    """

    max_passes: int = 500
    rough_tol: float = 2.5e-3
    inner_share: float = 0.3
    max_missed: int = 3


@dataclass
class Descent:
    """The best point (w, v) of a run; the other fields are those of :class:`.cccp.CCCPSolution`."""

    w: np.ndarray
    v: np.ndarray
    objective: float = np.inf
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    stopped: str = "max_iter"
    dual_gap: float = np.inf

    def take(self, w: np.ndarray, view: View, bound: float) -> None:
        """Take over a point that ends a step."""
        self.w, self.v, self.objective = w, view.v, view.objective
        self.dual_gap = max(0.0, view.value - bound)

    def end(self, bound: float) -> None:
        """End the run with a lower bound of the step that the point states."""
        self.dual_gap, self.stopped = max(0.0, self.objective - bound), ""

    def count(self) -> None:
        """Count a step."""
        self.n_iter += 1
        self.history.append(self.objective)

    def outcome(self, unit: float = 1.0) -> dict[str, Any]:
        """Fields of a :class:`.cccp.CCCPSolution`, in another unit of the objective."""
        return {
            "objective": unit * self.objective,
            "history": [unit * value for value in self.history],
            "n_iter": self.n_iter,
            "stopped": self.stopped,
            "dual_gap": unit * self.dual_gap,
        }


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
        w and the free variables to begin from.
    held : linearisation or None
        The first one. None takes that at the point.
    options : SolverOptions
        ``tol`` is not used.
    gap_tol : float
        Gap of a convex step, as a share of the objective, at which the step and the run end.
    rough : bool
        Whether to solve the first steps roughly, until the objective falls slowly.
    objective_scale : float
        What a gap is measured against where the objective is smaller.
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
        first = duals.first_of(problem, keys, problem.values(w, v)) if len(duals.keys) else None
        solved = solve_groups(problem, w, v, gap_tol=aim, proportions=first)
        w, v, duals = solved.w, solved.v, Duals.of_rows(keys, solved.proportions)
        bound = max(bound, solved.lower_bound)
        gap = best.objective - bound
        if best.n_iter and not rough and gap <= gap_tol * max(best.objective, objective_scale):
            # The step that the best point states cannot lower the objective by more.
            best.end(bound)
            best.count()
            break
        missed = solved.objective - bound > aim * max(solved.objective, objective_scale)
        n_missed = n_missed + 1 if missed and not rough else 0
        before, view = view, model.view(w, v, held, view)
        closed = view.value - bound <= gap_tol * max(view.value, objective_scale)
        closed |= n_missed >= limits.max_missed
        improved = view.objective < best.objective
        if not closed and not (rough and improved):
            # Rows were missing. The objective may happen to be low, but the procedure goes on from
            # solutions of its steps: the same step is solved again, over both working sets.
            view, rough = model.joined(before, view, held), False
            continue
        if not improved:
            best.end(bound)
            best.count()
            break
        fall = best.objective - view.objective if best.n_iter else np.inf
        slow = fall <= 2.0 * rough_tol * view.objective
        best.take(w, view, bound)
        best.count()
        settled = model.settled(held, view)
        if settled and not rough:
            best.end(bound)
            break
        if options.on_iteration is not None and options.on_iteration(best.n_iter, best.objective):
            best.stopped = "callback"
            break
        rough = rough and not slow and not settled
        held, view = model.advanced(held, before, view, duals)
        v, bound, n_missed = best.v, -np.inf, 0
    if best.stopped == "max_iter" and best.n_iter < options.max_iter:
        best.stopped = "max_passes"
    if best.n_iter == 0:
        # The passes did not suffice for the first step.
        best.take(w, view, bound)
        best.count()
    return best
