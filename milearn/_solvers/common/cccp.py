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

__all__ = ["CCCPResult", "cccp"]

_TIGHTEST = 1e-13


class Point(Protocol):
    """What a convex step returns.

    ``objective`` is the value of the original, non-convex problem; ``gap`` bounds how far the
    convex problem is from its optimum; ``linearisation`` is the array that states the next convex
    problem (witnesses, labels).
    """

    objective: float
    gap: float
    linearisation: np.ndarray


@dataclass
class CCCPResult:
    """The best point of the run.

    Attributes
    ----------
    point : Point
        The last convex solution that lowered the objective.
    history : list of float, one value a step, never rising
    n_iter : int
    converged : bool
        True at a fixed point, or where a step lowers the objective by no more than ``tol``.
    """

    point: Any
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False


def cccp(
    step: Callable[[np.ndarray, Any, float], Any],
    start: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    inner_tol: float,
    on_iteration: Callable[[int, float], bool] | None = None,
) -> CCCPResult:
    """Iterate convex steps until the linearisation repeats itself or the objective rests.

    Parameters
    ----------
    step : callable
        ``step(linearisation, previous_point, inner_tol)`` solves the convex problem to a relative
        gap of ``inner_tol`` and returns a :class:`Point`.
    start : ndarray
        The first linearisation.
    tol : float
        Relative decrease of the objective at which to stop.
    max_iter : int
        Most convex steps.
    inner_tol : float
        First precision of the steps. When the objective rises, which only an inexact step can
        cause, the precision is tightened a hundredfold and the step repeated.
    on_iteration : callable, default=None
        Called with the step's number and objective; True asks to stop.
    """
    linearisation = start
    result = CCCPResult(point=None)
    while result.n_iter < max_iter:
        result.n_iter += 1
        best = result.point
        point = step(linearisation, best, inner_tol)
        while best is not None and point.objective > best.objective and inner_tol > _TIGHTEST:
            if point.gap <= 1e-12 * abs(point.objective):
                break
            inner_tol *= 1e-2
            point = step(linearisation, best, inner_tol)
        if best is not None and point.objective >= best.objective:
            # Within rounding the step found nothing better: the point before it is as good.
            result.history.append(best.objective)
            result.converged = True
            break
        result.point = point
        result.history.append(point.objective)
        asked_to_stop = on_iteration is not None and on_iteration(result.n_iter, point.objective)
        if np.array_equal(point.linearisation, linearisation):
            result.converged = True
            break
        if best is not None and best.objective - point.objective <= tol * abs(best.objective):
            result.converged = True
            break
        if asked_to_stop:
            break
        linearisation = point.linearisation
    return result
