"""The concave-convex procedure: one outer loop for every method of the package.

To minimise u(w) - v(w), both convex, replace v by its linearisation at the current point (for a
maximum: by the element that attains it) and solve what is convex, again and again. Each convex
problem is an upper bound of the objective that touches it at the current point, so the objective
cannot rise by more than the error of the convex solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .options import SolverOptions

__all__ = ["CCCPResult", "CCCPSolution", "cccp"]

_MIN_TOL = 1e-13


class Point(Protocol):
    """What a convex step returns.

    ``objective`` is the value of the original, non-convex problem, which is not above that of the
    convex one; ``dual_gap`` bounds how far the latter is from its optimum; ``linearisation`` is the
    array that states the next convex problem (witnesses, labels).
    """

    objective: float
    dual_gap: float
    linearisation: np.ndarray


@dataclass
class CCCPResult:
    """The best point of the run.

    Attributes
    ----------
    point : Point
    history : list of float, one value per step, never rising
    n_iter : int
    stopped : {"", "max_iter", "callback"}
        Empty at a fixed point, or where a step lowers the objective by no more than ``tol``.
    dual_gap : float
    """

    point: Any
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    stopped: str = "max_iter"
    dual_gap: float = np.inf

    @property
    def converged(self) -> bool:
        """Whether the run ended by itself."""
        return not self.stopped

    def outcome(self) -> dict[str, Any]:
        """What the run gives to a :class:`CCCPSolution`."""
        return {
            "objective": self.point.objective,
            "dual_gap": self.dual_gap,
            "history": self.history,
            "n_iter": self.n_iter,
            "stopped": self.stopped,
        }


@dataclass(kw_only=True)
class CCCPSolution:
    """A local minimum: base of the results of solvers that run the procedure.

    Attributes
    ----------
    objective : float
        Value of the original, non-convex problem, recomputed at the solution.
    history : list of float
    n_iter : int
    stopped : {"", "max_iter", "callback"}
    dual_gap : float
        Duality gap of the last convex step, in units of the objective.
    objective_scale : float
        What a gap is measured against where the objective is smaller: below it the terms of the
        objective cancel to rounding.
    """

    objective: float
    history: list[float]
    n_iter: int
    stopped: str
    dual_gap: float
    objective_scale: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether the run ended by itself."""
        return not self.stopped


def cccp(
    step: Callable[[np.ndarray, Any, float], Any],
    start: np.ndarray,
    options: SolverOptions,
    inner_tol: float,
    *,
    certified: bool = False,
) -> CCCPResult:
    """Iterate convex steps until the linearisation repeats itself or the objective converges.

    Parameters
    ----------
    step : callable
        ``step(linearisation, previous_point, inner_tol)`` solves the convex problem to a relative
        gap of ``inner_tol`` and returns a :class:`Point`.
    start : ndarray
        The first linearisation.
    options : SolverOptions
    inner_tol : float
        First precision of the steps. When the objective rises, which only an inexact step can
        cause, the precision is tightened a hundredfold and the step repeated.
    certified : bool
        Whether a run ends at the point before a step that lowers the objective by little, with the
        gap of that step: it belongs to the linearisation at the point. Otherwise the run ends at
        the lower point, with the gap of the step that led there.
    """
    linearisation = start
    result = CCCPResult(point=None)
    while result.n_iter < options.max_iter:
        result.n_iter += 1
        best = result.point
        point = step(linearisation, best, inner_tol)
        while best is not None and point.objective > best.objective and inner_tol > _MIN_TOL:
            if point.dual_gap <= 1e-12 * abs(point.objective):
                break
            inner_tol *= 1e-2
            point = step(linearisation, best, inner_tol)
        fixed = np.array_equal(point.linearisation, linearisation)
        if best is not None:
            fall, allowed = best.objective - point.objective, options.tol * abs(best.objective)
            # The step that the best point states lowers the objective by no more than this.
            gap = max(0.0, fall + point.dual_gap)
            if fall <= 0 or (certified and gap <= allowed and not fixed):
                result.history.append(best.objective)
                result.dual_gap, result.stopped = gap, ""
                break
            fixed |= not certified and fall <= allowed
        result.point, result.dual_gap = point, point.dual_gap
        result.history.append(point.objective)
        asked_to_stop = options.on_iteration is not None and options.on_iteration(
            result.n_iter, point.objective
        )
        if fixed:
            result.stopped = ""
            break
        if asked_to_stop:
            result.stopped = "callback"
            break
        linearisation = point.linearisation
    return result
