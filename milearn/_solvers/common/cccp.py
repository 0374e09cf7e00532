"""The concave-convex procedure, its options and results, and what its solvers share.

To minimise u(w) - v(w), with u and v convex, repeatedly replace v by its linearisation at the
current point (for a maximum: by the element that attains it) and solve the resulting convex
problem. Each convex problem is an upper bound of the objective that is tight at the current point,
so the objective cannot increase by more than the error of the convex solver.

The result is a stationary point. Where several elements attain the maximum, v has a kink, and the
convex problem of another one can be lower. Often the convex steps themselves make instances tie. No
steps from other elements are tried at the end: two of them take about half of the
time of a fit, and do not exclude that another of the many combinations is lower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

# Relative difference up to which two values (scores, objectives, distances) count as equal.
RELATIVE_TIE = 1e-9
_MIN_TOL = 1e-13
# Relative difference of objectives that may be due to rounding.
_ROUNDING = 1e-12
# Slopes up to this fraction of the sum of all changes count as zero.
_FLAT = 1e-12
# Numbers in all instances up to which the tolerance "auto" is fine.
_FINE_NUMBERS = 2**21


@dataclass(frozen=True)
class SolverOptions:
    """Stopping criteria of an outer iteration, and a callback for each step."""

    # Relative decrease of the objective at which to stop.
    tol: float
    # Maximum number of outer iterations, at least one: without a step there is no solution.
    max_iter: int
    # Called with the number of the iteration and the objective; True asks to stop.
    on_iteration: Callable[[int, float], bool] | None = None

    def __post_init__(self) -> None:
        if self.max_iter < 1:
            raise ValueError(f"max_iter={self.max_iter}: there is no solution without a step.")

    def watched_by(self, on_iteration: Callable[[int, float], bool] | None) -> SolverOptions:
        """The options with another function to call at each step."""
        return replace(self, on_iteration=on_iteration)

    def after(self, n_iter: int) -> SolverOptions:
        """The same options for a run that follows one of so many iterations."""
        watch = self.on_iteration
        if watch is None:
            return self
        return replace(self, on_iteration=lambda n, value: watch(n_iter + n, value))


def precision(tol: float | str, n_instances: int, width: float, coarse: float = 5e-4) -> float:
    """Relative duality gap of a convex step: ``tol``, or by the size of the data for "auto"."""
    if isinstance(tol, str):
        return 1e-6 if n_instances * width <= _FINE_NUMBERS else coarse
    return tol


@dataclass(kw_only=True)
class CCCPSolution:
    """A stationary point; base class of the results of solvers that use the procedure."""

    # Value of the original, non-convex problem, recomputed at the solution.
    objective: float = np.inf
    # One value per step, not increasing.
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    # "max_iter", "max_passes", "gap", "callback", or empty if the run converged.
    stopped: str = "max_iter"
    # Duality gap of the last convex step, in units of the objective.
    dual_gap: float = np.inf
    # Rows of the witnesses of the convex problem that the gap belongs to, one per linearised bag;
    # None for other linearisations.
    witnesses: np.ndarray | None = None
    # Lower bound of the scale of relative gaps: if the objective is smaller, its terms cancel up
    # to rounding.
    objective_scale: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether the run ended by itself."""
        return not self.stopped

    def outcome(self, unit: float = 1.0) -> dict[str, Any]:
        """The fields that describe the run, with the objective in the given unit."""
        return {
            "objective": unit * self.objective,
            "history": (unit * np.array(self.history)).tolist(),
            "n_iter": self.n_iter,
            "stopped": self.stopped,
            "dual_gap": unit * self.dual_gap,
        }


@dataclass(kw_only=True)
class CCCPResult(CCCPSolution):
    """The best point of a run, see :func:`cccp`."""

    point: Any = None


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
        gap of ``inner_tol``. It returns an object with the ``objective`` of the original problem,
        the ``dual_gap`` of the convex one, and the ``linearisation`` (witnesses, labels), an array
        that defines the next convex problem.
    start : ndarray
        The first linearisation.
    options : SolverOptions
    inner_tol : float
        Initial precision of the steps. If the objective increases by more than rounding, which can
        only be due to an inexact step, the tolerance is divided by a hundred and the step is
        repeated.
    certified : bool
        Whether the run returns the point before the last step, which decreased the objective by
        at most ``tol``, with the gap of that step: this gap belongs to the linearisation at the
        returned point. Otherwise it returns the last point, with the gap of the step that led to
        it.
    """
    linearisation = start
    result = CCCPResult(point=None)
    while result.n_iter < options.max_iter:
        result.n_iter += 1
        best = result.point
        point = step(linearisation, best, inner_tol)
        while best is not None and inner_tol > _MIN_TOL:
            rounding = _ROUNDING * abs(best.objective)
            if point.objective <= best.objective + rounding or point.dual_gap <= rounding:
                break
            inner_tol *= 1e-2
            point = step(linearisation, best, inner_tol)
        fixed = np.array_equal(point.linearisation, linearisation)
        if best is not None:
            fall, allowed = best.objective - point.objective, options.tol * abs(best.objective)
            # Upper bound of the decrease by the step at the best point.
            gap = max(0.0, fall + point.dual_gap)
            if fall <= 0 or (certified and gap <= allowed and not fixed):
                result.history.append(best.objective)
                result.dual_gap, result.stopped = gap, ""
                break
            fixed |= not certified and fall <= allowed
        result.point, result.objective, result.dual_gap = point, point.objective, point.dual_gap
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


End = TypeVar("End", bound=CCCPSolution)


def lowest(ends: Sequence[End]) -> End:
    """The end with the lowest objective; a callback that ends the last run ends them all."""
    best = min(ends, key=attrgetter("objective"))
    if ends[-1].stopped == "callback":
        best.stopped = "callback"
    return best


def lowest_point(breaks: np.ndarray, changes: np.ndarray, fall: float) -> float:
    """Minimiser of a convex, piecewise linear function, or the middle of all minimisers.

    The slope is ``-fall`` to the left of all ``breaks`` and increases by ``changes``, which are not
    negative, at each break.
    """
    order = np.argsort(breaks, kind="stable")
    breaks, slope = breaks[order], np.cumsum(changes[order])
    flat = _FLAT * slope[-1]
    # The slope is zero between these breaks.
    ends = np.searchsorted(slope, [fall - flat, fall + flat], side="left")
    first, last = breaks[np.minimum(ends, len(breaks) - 1)]
    return float(0.5 * (first + last))


def optimal_intercept(scores: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> float:
    """The b that minimises sum_g c_g [1 - s_g (score_g + b)]_+, or the middle of all minimisers.

    The middle does not depend on the order or on duplicates of groups.
    """
    # The slope to the left of all breaks is minus the positive weight.
    return lowest_point(signs - scores, weights, float(weights[signs > 0].sum()))


def rounding_scale(weights: np.ndarray, largest: float = 1.0) -> float:
    """Objective below which a relative duality gap would be dominated by rounding in the losses.

    Parameters
    ----------
    weights : ndarray, of the terms
    largest : float, default=1.0
        Largest target.
    """
    return 1e-8 * float(weights.sum()) * max(1.0, largest)
