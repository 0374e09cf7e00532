"""Newton's method for the problems of :mod:`.groups`, over rows held in memory.

Newton's method meets the minimum of the smoothed problem in some steps; then its a is the next p.
That is the proximal point method on the dual, in which h need not become small: systems stay well
conditioned, and the proportions of a neighbouring problem are as good a start as its w. The
distance of the two values is known after every round and says when it is small enough. Where
features are so large that the squared norm is rounding beside the losses, rounds are held near
their beginning by :class:`.pull.Pull`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..rounding import rounding_scale
from .direction import newton_direction
from .groups import GroupProblem
from .pull import Pull

__all__ = ["GroupSolution", "solve_groups"]

_FIRST_SMOOTHING = 0.5
_MIN_SMOOTHING = 1e-7
# Of the smoothing of a round, that of the next; and after one that was not finished.
_LOWERED, _RAISED = 0.5, 10.0
# Of a round, and of all.
_MAX_STEPS, _MAX_STEPS_IN_ALL = 25, 1000
# A round ends when what its residuals cost is this share of what smoothing costs.
_INNER = 0.3
# Given proportions are a start where the relative gap there is at most this, and their first h.
_WARM_GAP, _WARM_SMOOTHING = 10.0, 0.05
# Curvature of the intercept where no row has any, as a share of all costs.
_INTERCEPT_RIDGE = 1e-4
# Change of a value that may be rounding, and by how much a step beyond it has to lower what misses.
_ROUNDING, _PROGRESS = 1e-13, 0.25
# Slope along a direction at which its line search ends, as a share of that at its beginning.
_LINE_SEARCH = 0.4
# Slope of a free variable at which it is left to Newton's method, as a share of all costs.
_SHIFTED = 1e-3


@dataclass(frozen=True)
class GroupSolution:
    """A point and its certificate.

    Attributes
    ----------
    w : ndarray of shape (n_columns,)
    v : float, or ndarray of shape (n_free,) where ``e`` has two dimensions
    objective, lower_bound : float
    smoothing : float
        The last h.
    proportions : ndarray of shape (n_rows,)
        The last a. With those of its rows a neighbouring problem may start.
    n_steps : int
        Newton steps.
    """

    w: np.ndarray
    v: Any
    objective: float
    lower_bound: float
    smoothing: float
    proportions: np.ndarray
    n_steps: int


def solve_groups(
    problem: GroupProblem,
    w: np.ndarray,
    v: float | np.ndarray,
    *,
    gap_tol: float,
    smoothing: float = _FIRST_SMOOTHING,
    proportions: np.ndarray | None = None,
) -> GroupSolution:
    """Solve to a relative duality gap of ``gap_tol``.

    Parameters
    ----------
    problem : GroupProblem
    w, v : where to start
    gap_tol : float
    smoothing : float
        First h.
    proportions : ndarray of shape (n_rows,), default=None
        Those of a neighbouring problem, which fulfil the bounds; used where they are near.

    Returns
    -------
    GroupSolution
        Its gap is above ``gap_tol`` only where neither the smallest h nor many steps sufficed.
    """
    single = problem.e.ndim == 1
    free = np.atleast_1d(np.asarray(v, dtype=np.float64))
    u = problem.values(w, free)
    h, p, bound = smoothing, np.zeros(len(u)), -np.inf
    if proportions is not None:
        value = problem.objective(w, u)
        given = problem.dual_value(problem.balanced(problem.row_costs * proportions))
        if value - given <= _WARM_GAP * abs(value):
            h, p, bound = min(h, _WARM_SMOOTHING), proportions, given
    if bound == -np.inf:
        free, u = _shifted(problem, (free, u), (h, p))
    point, n_steps = (w, free, u), 0
    pull = Pull.towards(w, problem.Z, float(problem.costs.sum()))
    scale = rounding_scale(problem.costs)
    best = GroupSolution(w, free, problem.objective(w, u), bound, h, p, 0)
    while True:
        point, p, steps = _newton(problem, point, (h, p), pull, 0.1 * gap_tol)
        n_steps += steps
        w, free, u = point
        objective = problem.objective(w, u)
        bound = max(bound, 0.0, problem.dual_value(problem.balanced(problem.row_costs * p)))
        if objective > best.objective:
            w, free, objective = best.w, best.v, best.objective
        best = GroupSolution(w, free, objective, bound, h, p, n_steps)
        closed = objective - bound <= gap_tol * max(abs(objective), scale)
        if closed or pull.exhausted or h <= _MIN_SMOOTHING or n_steps > _MAX_STEPS_IN_ALL:
            return replace(best, v=float(best.v[0])) if single else best
        # A round that took all its steps was too hard: the next one starts where it ended.
        finished = steps < _MAX_STEPS
        h = pull.smoothing(h * _LOWERED if finished else min(_FIRST_SMOOTHING, _RAISED * h))
        pull = pull.after(point[0], finished)


Point = tuple[np.ndarray, np.ndarray, np.ndarray]
Smoothing = tuple[float, np.ndarray]


def _newton(
    problem: GroupProblem, point: Point, smoothing: Smoothing, pull: Pull, precision: float
) -> tuple[Point, np.ndarray, int]:
    """Minimise the smoothed problem; returns w, v and u, a, and the number of steps."""
    w, v, u = point
    costs, free, dim = problem.row_costs, problem.free, len(w)
    a, full = problem.maximiser(u, smoothing)
    value = problem.smoothed(2.0 * pull.value(w), a, u, smoothing)
    unbound = np.full(free.shape[1], _INTERCEPT_RIDGE * float(problem.costs.sum()))
    ridge = np.append(pull.ridge(dim), unbound)
    steps, stalled = 0, np.inf
    while steps < _MAX_STEPS:
        alpha = costs * a
        gradient = np.append(pull.gradient(w) + np.asarray(problem.Z.T @ alpha), free.T @ alpha)
        # What the residuals of stationarity take from the dual value.
        missing = 0.5 * float(gradient[:dim] @ gradient[:dim]) + float(np.abs(gradient[dim:]).sum())
        smoothed_away = problem.objective(w, u) + pull.added(w) - value
        if missing <= max(precision * abs(value), _INNER * smoothed_away):
            break
        if missing > _PROGRESS * stalled or pull.is_rounding(gradient[:dim], alpha):
            break
        steps += 1
        direction = newton_direction(problem, (a, full), smoothing[0], gradient, ridge)
        slope = float(direction @ gradient)
        if slope >= 0:
            break
        du = np.asarray(problem.Z @ direction[:dim]) + free @ direction[dim:]
        t = _step_length(problem, (pull, w, u), (direction[:dim], du), smoothing, slope)
        w, v, u = w + t * direction[:dim], v + t * direction[dim:], u + t * du
        a, full = problem.maximiser(u, smoothing)
        before, value = value, problem.smoothed(2.0 * pull.value(w), a, u, smoothing)
        stalled = np.inf
        if before - value <= _ROUNDING * abs(value):
            if not pull:
                break
            # Slopes still tell what the value is too large to show.
            stalled = missing
    return (w, v, u), a, steps


def _shifted(
    problem: GroupProblem, start: tuple[np.ndarray, np.ndarray], smoothing: Smoothing
) -> tuple[np.ndarray, np.ndarray]:
    """v and u with each free variable where the smoothed problem is lowest along it."""
    v, u = start
    small = _SHIFTED * float(problem.costs.sum())
    for column, e in enumerate(problem.free.T):
        shift = _best_shift(problem, (u, e), smoothing, small)
        v, u = v + shift * (np.arange(len(v)) == column), u + shift * e
    return v, u


def _best_shift(
    problem: GroupProblem,
    line: tuple[np.ndarray, np.ndarray],
    smoothing: Smoothing,
    small: float,
) -> float:
    """Change of a free variable that minimises the smoothed problem, by bisection.

    ``line`` are the values of all rows and the coefficients of the variable.
    """
    (u, e), costs = line, problem.row_costs

    def slope_at(t: float) -> float:
        a, _ = problem.maximiser(u + t * e, smoothing)
        return float((costs * a) @ e)

    slope = slope_at(0.0)
    if abs(slope) <= small:
        return 0.0
    low, high = 0.0, -float(np.sign(slope))
    for _ in range(60):
        if slope_at(high) * slope <= 0:
            break
        low, high = high, 2.0 * high
    middle = 0.5 * (low + high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        found = slope_at(middle)
        if abs(found) <= small:
            break
        if found * slope > 0:
            low = middle
        else:
            high = middle
    return middle


def _step_length(
    problem: GroupProblem,
    point: tuple[Pull, np.ndarray, np.ndarray],
    direction: tuple[np.ndarray, np.ndarray],
    smoothing: Smoothing,
    slope: float,
) -> float:
    """Where the slope along the direction, which rises, is nearly zero."""
    (pull, w, u), (dw, du) = point, direction
    costs = problem.row_costs
    curvature, level = float(pull.ridge(len(w)) @ (dw * dw)), float(pull.gradient(w) @ dw)

    def slope_at(t: float) -> float:
        a, _ = problem.maximiser(u + t * du, smoothing)
        return level + t * curvature + float((costs * a) @ du)

    # A point whose slope has not turned positive is below the beginning by convexity.
    small = _LINE_SEARCH * abs(slope)
    low, low_slope, high = 0.0, slope, 1.0
    high_slope = slope_at(high)
    while high_slope < 0 and high < 64.0:
        low, low_slope, high = high, high_slope, 2.0 * high
        if -low_slope <= small:
            return low
        high_slope = slope_at(high)
    for number in range(80):
        t = 0.5 * (low + high)
        if number % 2 == 0 and high_slope > low_slope:
            false = low - low_slope * (high - low) / (high_slope - low_slope)
            t = min(max(false, low + 0.01 * (high - low)), high - 0.01 * (high - low))
        found = slope_at(t)
        if found > 0:
            high, high_slope = t, found
            continue
        low, low_slope = t, found
        if -low_slope <= small:
            break
    return low
