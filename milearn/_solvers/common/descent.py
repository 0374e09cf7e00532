"""The concave-convex procedure by passes over many instances.

A convex step is solved over a working set of rows, whose value is a lower bound of the step, for
rows that are missing or summed up only lower it. A pass at the solution gives

* the value of the step over all rows, an upper bound: the distance is the gap of the step as
  stated, and rows that are missing count in it;
* the objective itself, the next linearisation, and the next working set.

So a pass ends one convex step and begins the next. The linearisation moves only where the objective
falls. Where it moves far, the steps are solved roughly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..._bags.segments import segment_argmax
from .newton import GroupProblem, solve_groups
from .options import SolverOptions

__all__ = [
    "Descent",
    "PassModel",
    "Seen",
    "descend",
]

Matrix = Any  # an ndarray or a CSR matrix

MAX_PASSES = 500
# Numbers in all instances up to which they are the working set.
EVERYTHING = 2**20
# Precision of the working set's problem against that of a step, exactly and roughly.
_EXACT, _ROUGH = 0.3, 5.0


class Seen(Protocol):
    """What a pass at a point saw.

    Attributes
    ----------
    objective : float
        The objective at the point, the free variables being the best for it or those given.
    value : float
        The convex step that was held, at the point.
    v : ndarray
        The free variables at the point.
    linearisation : Linearisation
        What states the next convex step.
    """

    objective: float
    value: float
    v: np.ndarray
    linearisation: Any


class PassModel(Protocol):
    """A problem whose convex steps are sums of group maxima.

    Attributes
    ----------
    n_passes : int
        Passes over all instances so far.
    """

    n_passes: int

    def look(self, w: np.ndarray, v: np.ndarray, held: Any) -> Any:
        """Pass over all instances at a point, while a linearisation is held."""
        ...

    def joined(self, before: Any, seen: Any, held: Any) -> Any:
        """The same, with the working set of the pass before it for the step that is held.

        It has to grow, or the step would be solved in circles.
        """
        ...

    def advanced(self, seen: Any) -> Any:
        """The same, with the working set of the step that it states."""
        ...

    def problem(self, held: Any, seen: Any) -> tuple[GroupProblem, np.ndarray]:
        """The convex step over a working set, and a number by which each row is known again.

        Rows that are not to be known have the number -1.
        """
        ...

    def same(self, left: Any, right: Any) -> bool:
        """Whether two linearisations state the same step."""
        ...


@dataclass
class Descent:
    """The best point of a run.

    Attributes
    ----------
    w, v : ndarray, the point
    seen : what the pass at the point saw
    objective, history, n_iter, stopped, dual_gap
        As in :class:`.cccp.CCCPSolution`.
    """

    w: np.ndarray
    v: np.ndarray
    seen: Any
    objective: float
    history: list[float]
    n_iter: int
    stopped: str
    dual_gap: float

    def outcome(self, unit: float = 1.0) -> dict[str, Any]:
        """What the run gives to a :class:`.cccp.CCCPSolution`, in another unit."""
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
    rough: bool,
    max_passes: int = MAX_PASSES,
) -> Descent:
    """A local minimum of the model.

    Parameters
    ----------
    model : PassModel
    point : tuple of ndarray
        w and the free variables to begin from.
    held : Linearisation
        The first.
    options : SolverOptions
        ``qp_solver`` is not used.
    gap_tol : float
        Relative duality gap of a convex step.
    rough : bool
        Whether to solve the steps roughly while the objective falls fast: from a start that was
        not asked for.
    max_passes : int
    """
    (w, v), tol = point, max(options.tol, 0.1 * gap_tol)
    seen = model.look(w, v, held)
    best = Descent(w, v, seen, np.inf, [], 0, "max_iter", np.inf)
    duals = _Duals(np.zeros(0, dtype=np.intp), np.zeros(0))
    held_value, last_objective, bound = np.inf, np.inf, -np.inf
    while model.n_passes < max_passes and best.n_iter < options.max_iter:
        problem, keys = model.problem(held, seen)
        aim = (_ROUGH if rough else _EXACT) * gap_tol
        first = duals.first_of(problem, keys, problem.values(w, v))
        solved = solve_groups(problem, w, v, gap_tol=aim, proportions=first)
        w, v, duals = solved.w, solved.v, _Duals.of_rows(keys, solved.proportions)
        before, seen = seen, model.look(w, v, held)
        bound = max(bound, solved.lower_bound)
        closed = seen.value - bound <= gap_tol * abs(seen.value)
        # Where rows are missing the objective may happen to be low: the procedure goes on from
        # solutions of its steps.
        if seen.objective < best.objective and (closed or rough):
            best.w, best.v, best.seen, best.objective = w, seen.v, seen, seen.objective
            held_value = seen.value
        best.dual_gap = max(0.0, held_value - bound)
        if not closed and not (rough and best.seen is seen):
            # Rows were missing: the same step once more, over both working sets.
            seen = model.joined(before, seen, held)
            continue
        best.n_iter += 1
        best.history.append(best.objective)
        scale = (10.0 * gap_tol if rough else tol) * abs(best.objective)
        ended = last_objective - best.objective <= scale or model.same(
            best.seen.linearisation, held
        )
        if ended and not rough:
            best.stopped = ""
            break
        if options.on_iteration is not None and options.on_iteration(best.n_iter, best.objective):
            best.stopped = "callback"
            break
        rough = rough and not ended
        w, v, held = best.w, best.v, best.seen.linearisation
        seen = model.advanced(best.seen)
        held_value, last_objective, bound = best.objective, best.objective, -np.inf
    if best.n_iter == 0:
        # Not even the first step was solved.
        best.w, best.v, best.seen, best.objective = w, seen.v, seen, seen.objective
        best.n_iter, best.history, best.dual_gap = 1, [seen.objective], seen.value - bound
    return best


@dataclass(frozen=True)
class _Duals:
    """Dual variables of a working set over the costs of their groups; the next one starts there.

    Attributes
    ----------
    keys : ndarray of int, sorted
    values : ndarray
    """

    keys: np.ndarray
    values: np.ndarray

    @classmethod
    def of_rows(cls, keys: np.ndarray, found: np.ndarray) -> _Duals:
        known = np.flatnonzero((keys >= 0) & (found > 0))
        known = known[np.argsort(keys[known], kind="stable")]
        return cls(keys[known], found[known])

    def first_of(self, problem: GroupProblem, keys: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Where to begin; in a group that has none the highest row takes all if it pays."""
        found = np.zeros(len(u))
        if len(self.keys):
            place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            known = self.keys[place] == keys
            found[known] = self.values[place[known]]
        sums = np.add.reduceat(found, problem.offsets[:-1])
        top = segment_argmax(u, problem.offsets)
        missing = (sums == 0) & (u[top] > 0)
        full = np.ones(len(sums))
        # A row that came into a group does not take its sum beyond the bound.
        plain = slice(0, problem.n_plain)
        full[plain] = np.maximum(sums[plain], 1.0)
        found /= np.repeat(full, np.diff(problem.offsets))
        found[top[missing]] = 1.0
        squared = np.flatnonzero(missing[problem.n_plain :]) + problem.n_plain
        found[top[squared]] = 2.0 * u[top[squared]]
        return found
