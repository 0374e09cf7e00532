"""Cutting planes for one convex, piecewise linear risk and a squared norm.

    min 1/2 |w|^2 + C R(w)   subject to   the last entries of w lie in a convex set

The risk R >= 0 is replaced by the maximum of its cuts, the tangent planes R(v) + g'(w - v) found so
far. The dual of this problem is a quadratic program with one variable per cut. There are a few
dozen cuts, regardless of the number of bags and features. The most violated cut is added while the
duality gap exceeds the precision, and the program is solved again (Joachims, Finley & Yu, Machine
Learning 77, 2009: the 1-slack formulation). The dual value is a lower bound at every step, the best
point an upper one.

The convex set is not added to the quadratic program as constraints, because their multipliers may
be unbounded. For given multipliers of the cuts, the minimiser over the last entries is a projection
onto the set. The dual is then concave and, for a polyhedral set, piecewise quadratic. Newton's
method with an exact line search maximises it and solves one program over the cuts per step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...exceptions import SolverError
from ..common.qp import ActiveSet, QPProblem, solve_qp
from .balance import IntervalOfWidth

# w -> (R(w), a subgradient of R).
Oracle = Callable[[np.ndarray], tuple[float, np.ndarray]]

# Violations up to this fraction of the risk are considered rounding errors.
_ROUNDING = 1e-13
_QP_TOL = 1e-9
# Added to the programs that no backend solves, relative to the largest entry.
_CURVATURE = 1e-11
# Maximum number of Newton steps of a dual program with a convex set, and of line search halvings.
_MAX_NEWTON_STEPS = 50
_MAX_HALVINGS = 60
# A line search ends at this fraction of its initial slope.
_LINE_SEARCH = 0.01
# Newton's method ends when the possible gain is at most this fraction of the objective.
_KINK = 1e-4
# Newton's method may leave a gain of this fraction of the last violation, or of the precision.
_ENOUGH = 1e-2


@dataclass
class CuttingPlaneResult:
    """The best point of a run and its lower bound."""

    w: np.ndarray
    objective: float
    lower_bound: float = 0.0
    # Calls of the oracle, and cuts kept at the end.
    n_iter: int = 0
    n_cuts: int = 0
    converged: bool = False

    @property
    def gap(self) -> float:
        """Distance of the upper from the lower bound."""
        return max(0.0, self.objective - self.lower_bound)


def cutting_plane(
    oracle: Oracle,
    start: np.ndarray,
    cost: float,
    tol: float,
    *,
    scale: float = 0.0,
    held: IntervalOfWidth | None = None,
    max_iter: int = 1000,
    drop_after: int = 20,
) -> CuttingPlaneResult:
    """Minimise half the squared norm and a risk by cutting planes.

    Parameters
    ----------
    oracle : callable
        Value and a subgradient of the risk.
    start : ndarray of shape (dim,)
        First w, in the set. The result is never worse.
    cost : float
        C above.
    tol : float
        Duality gap, as a fraction of the objective, at which to stop.
    scale : float, default=0.0
        Lower bound of the objective in this fraction.
    held : IntervalOfWidth, default=None
        The set of the last entries of w.
    max_iter : int, default=1000
        Maximum number of calls of the oracle.
    drop_after : int, default=20
        A cut is dropped if its multiplier was zero for this number of consecutive steps.

    Raises
    ------
    SolverError
        If a quadratic program is not solved.
    """
    model = _CutModel(len(start), cost, held, drop_after)
    w, best, lower = start, None, 0.0
    for n_iter in range(1, max_iter + 1):
        value, slope = oracle(w)
        objective = 0.5 * float(w @ w) + cost * value
        violation = value - model.height(w)
        if best is None or objective < best.objective:
            best = CuttingPlaneResult(w, objective)
        best.lower_bound, best.n_iter, best.n_cuts = lower, n_iter, model.size
        allowed = max(tol, _ROUNDING) * max(best.objective, scale)
        missing = violation > _ROUNDING * value
        best.converged = best.gap <= allowed
        # A start with zero risk violates no cut, but it does not minimise the model. Minimisers of
        # programs with few digits violate no cut either, although the gap is open.
        if best.converged or n_iter == max_iter or not (missing or n_iter == 1):
            break
        if missing:
            model.add(value, slope, w)
        w, bound = model.minimise(best.objective, _ENOUGH * min(cost * violation, allowed))
        lower = max(lower, bound)
    assert best is not None, f"max_iter={max_iter}"
    return best


class _CutModel:
    """The cuts so far, their Gram matrix, and the dual program over them."""

    def __init__(
        self, dim: int, cost: float, held: IntervalOfWidth | None, drop_after: int
    ) -> None:
        self.cost, self.held, self.drop_after = cost, held, drop_after
        # Number of unconstrained entries of w.
        self.n_loose = dim - (0 if held is None else held.size)
        self.slopes, self.gram = np.zeros((0, dim)), np.zeros((0, 0))
        self.offsets = np.zeros(0)
        # Multipliers as fractions of the cost, and the number of steps for which they were zero.
        self.proportions, self.idle = np.zeros(0), np.zeros(0, dtype=np.intp)

    @property
    def size(self) -> int:
        """Number of cuts."""
        return len(self.offsets)

    def height(self, w: np.ndarray) -> float:
        """The largest cut at a point, or zero."""
        return float((self.offsets + self.slopes @ w).max(initial=0.0))

    def add(self, value: float, slope: np.ndarray, w: np.ndarray) -> None:
        """Add the tangent plane at w."""
        self.slopes = np.concatenate([self.slopes, slope[None]])
        products = self.slopes[:, : self.n_loose] @ slope[: self.n_loose]
        self.gram = np.block([[self.gram, products[:-1, None]], [products[None]]])
        self.offsets = np.append(self.offsets, value - slope @ w)
        self.proportions, self.idle = np.append(self.proportions, 0.0), np.append(self.idle, 0)

    def minimise(self, objective: float, enough: float) -> tuple[np.ndarray, float]:
        """Minimiser of the model and its dual value, up to a gain of ``enough``."""
        if not self.size:  # the norm alone
            return np.zeros(self.slopes.shape[1]), 0.0
        # Multipliers are scaled by the cost and values by the objective, so that a precision has
        # the same meaning for every C.
        scale = objective if objective > 0 else 1.0
        if self.held is None:
            proportions = self._solved(self.gram, self.offsets, scale)
        else:
            proportions = self._by_newton(self.held, scale, enough)
        weights = proportions * self.cost
        w = -(weights @ self.slopes)
        value = float(weights @ self.offsets)
        if self.held is not None:
            slope = -w[self.n_loose :]
            w[self.n_loose :] = self.held.project(-slope)
            value += float((slope + w[self.n_loose :]) @ w[self.n_loose :])
        value -= 0.5 * float(w @ w)
        self._keep(proportions)
        return w, value

    def _keep(self, proportions: np.ndarray) -> None:
        """Drop the cuts that have not been used for ``drop_after`` steps."""
        idle = np.where(proportions > 0, 0, self.idle + 1)
        kept = np.flatnonzero(idle <= self.drop_after)
        self.proportions, self.idle = proportions[kept], idle[kept]
        self.offsets = self.offsets[kept]
        if len(kept) < len(idle):
            self.slopes, self.gram = self.slopes[kept], self.gram[np.ix_(kept, kept)]

    def _solved(self, gram: np.ndarray, offsets: np.ndarray, scale: float) -> np.ndarray:
        """Maximiser of a quadratic function over proportions, whose sum is at most 1."""
        n = self.size
        problem = QPProblem(
            gram * (self.cost**2 / scale),
            offsets * (-self.cost / scale),
            G=np.ones((1, n)),
            h=np.ones(1),
            lb=np.zeros(n),
        )
        idle = (self.proportions <= 0) & (np.arange(n) < n - 1)
        full = np.array([self.proportions.sum() > 1 - 1e-9])
        start = ActiveSet(lower=idle, upper=np.zeros(n, dtype=bool), tight=full)
        try:
            found = solve_qp(problem, tol=_QP_TOL, start=start)
        except SolverError:
            # Cuts of unscaled features cancel each other in more digits than there are. A small
            # curvature prevents this; bounds are computed without it, so they hold.
            problem.P = problem.P + _CURVATURE * float(np.diagonal(problem.P).max()) * np.eye(n)
            found = solve_qp(problem, tol=_QP_TOL, start=start)
        proportions: np.ndarray = np.maximum(found.x, 0.0)
        return proportions

    def _by_newton(self, held: IntervalOfWidth, scale: float, enough: float) -> np.ndarray:
        """Proportions that maximise the dual if the last entries of w are constrained to a set."""
        ends, x = self.slopes[:, self.n_loose :], self.proportions

        def gradient(proportions: np.ndarray) -> np.ndarray:
            weights = proportions * self.cost
            nearest = held.project(-(weights @ ends))
            return np.asarray(self.offsets - self.gram @ weights + ends @ nearest) * self.cost

        def ascent(slope: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, float]:
            derivative = held.derivative(-self.cost * (at @ ends))
            gram = self.gram + ends @ derivative @ ends.T
            found = self._solved(gram, slope / self.cost + gram @ (x * self.cost), scale)
            return found, float(slope @ (found - x))

        for _ in range(_MAX_NEWTON_STEPS):
            slope = gradient(x)
            # Upper bound of the gain: the linear model is maximal at a vertex, which is the
            # steepest cut or zero.
            steepest = int(slope.argmax())
            corner = np.zeros(self.size)
            corner[steepest] = slope[steepest] > 0
            most = float(slope @ (corner - x))
            if most <= enough:
                break
            found, rise = ascent(slope, x)
            if rise <= _QP_TOL * scale:
                # Near a kink, the quadratic model may predict no gain although there is one.
                if most <= _KINK * scale:
                    break
                found, rise = ascent(slope, corner)
                if rise <= _QP_TOL * scale:
                    break
            x = x + _step_length(gradient, x, found - x, rise) * (found - x)
        return x


def _step_length(
    gradient: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: np.ndarray, rise: float
) -> float:
    """Maximiser of a concave function along a step, at most 1; ``rise`` is the initial slope."""
    low, high, t = 0.0, 1.0, 1.0
    for _ in range(_MAX_HALVINGS):
        left = float(gradient(x + t * step) @ step)
        if abs(left) <= _LINE_SEARCH * rise or (t == 1.0 and left > 0):
            break
        low, high = (t, high) if left > 0 else (low, t)
        t = 0.5 * (low + high)
    return t
