"""Cutting planes for one convex, piecewise linear risk and a squared norm.

    min 1/2 |w|^2 + C R(w)   subject to   the last entries of w differ by at most a width

The risk R >= 0 is replaced by the maximum of its cuts, the tangent planes R(v) + g'(w - v) found so
far. The dual of this problem is a quadratic program with one variable per cut. There are a few
dozen cuts, regardless of the number of bags and features. The most violated cut is added while the
duality gap exceeds the precision, and the program is solved again (Joachims, Finley & Yu, Machine
Learning 77, 2009: the 1-slack formulation). The dual value is a lower bound at every step, the best
point an upper one.

The last entries y of w are variables of the program too, so that large slopes there do not hide the
others. They are y = -E'a - u + v with the multipliers a of the cuts, the last entries E of their
slopes, and the multipliers u and v of the upper and the lower end of the interval, whose sums are
equal because its position is free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...exceptions import SolverError
from ..common.qp import ActiveSet, QPProblem, solve_qp

# w -> (R(w), a subgradient of R).
Oracle = Callable[[np.ndarray], tuple[float, np.ndarray]]

# Violations up to this fraction of the risk are considered rounding errors.
_ROUNDING = 1e-13
_QP_TOL = 1e-9
# Added to the programs that no backend solves, relative to the largest entry.
_CURVATURE = 1e-11


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
    held: tuple[int, float] = (0, 0.0),
    max_iter: int = 1000,
    drop_after: int = 20,
) -> CuttingPlaneResult:
    """Minimise half the squared norm and a risk by cutting planes.

    Parameters
    ----------
    oracle : callable
        Value and a subgradient of the risk.
    start : ndarray of shape (dim,)
        First w, which is feasible. The result is never worse.
    cost : float
        C above.
    tol : float
        Duality gap, as a fraction of the objective, at which to stop.
    scale : float, default=0.0
        Lower bound of the objective in this fraction.
    held : tuple of int and float, default=(0, 0.0)
        How many of the last entries of w may differ by at most the width, and this width.
    max_iter : int, default=1000
        Maximum number of calls of the oracle.
    drop_after : int, default=20
        A cut is dropped if its multiplier was zero for this number of consecutive steps.

    Raises
    ------
    SolverError
        If a quadratic program is not solved.
    """
    model = _CutModel(len(start), cost, *held, drop_after)
    w, best, lower = start, None, 0.0
    for n_iter in range(1, max_iter + 1):
        value, slope = oracle(w)
        objective = 0.5 * float(w @ w) + cost * value
        violation = value - model.height(w)
        if best is None or objective < best.objective:
            best = CuttingPlaneResult(w, objective)
        best.lower_bound, best.n_iter, best.n_cuts = lower, n_iter, len(model.offsets)
        allowed = max(tol, _ROUNDING) * max(best.objective, scale)
        missing = violation > _ROUNDING * value
        best.converged = best.gap <= allowed
        # A start with zero risk violates no cut, but it does not minimise the model. Minimisers of
        # programs with few digits violate no cut either, although the gap is open.
        if best.converged or n_iter == max_iter or not (missing or n_iter == 1):
            break
        if missing:
            model.add(value, slope, w)
        w, bound = model.minimise(best.objective)
        lower = max(lower, bound)
    assert best is not None, f"max_iter={max_iter}"
    return best


class _CutModel:
    """The cuts so far, their Gram matrix, and the dual program over them."""

    def __init__(self, dim: int, cost: float, n_held: int, width: float, drop_after: int) -> None:
        self.cost, self.n_held, self.width, self.drop_after = cost, n_held, width, drop_after
        # Slopes of the cuts, and inner products of their entries that are not held.
        self.slopes, self.gram = np.zeros((0, dim)), np.zeros((0, 0))
        self.offsets = np.zeros(0)
        # Multipliers as fractions of the cost, and the number of steps for which they were zero.
        self.proportions, self.idle = np.zeros(0), np.zeros(0, dtype=np.intp)
        # Multipliers of the upper and the lower end of the interval, for each entry.
        self.ends = np.zeros(2 * n_held)

    def height(self, w: np.ndarray) -> float:
        """The largest cut at a point, or zero."""
        return float((self.offsets + self.slopes @ w).max(initial=0.0))

    def add(self, value: float, slope: np.ndarray, w: np.ndarray) -> None:
        """Add the tangent plane at w."""
        self.slopes = np.concatenate([self.slopes, slope[None]])
        n_loose = len(slope) - self.n_held
        products = self.slopes[:, :n_loose] @ slope[:n_loose]
        self.gram = np.block([[self.gram, products[:-1, None]], [products[None]]])
        self.offsets = np.append(self.offsets, value - slope @ w)
        self.proportions, self.idle = np.append(self.proportions, 0.0), np.append(self.idle, 0)

    def minimise(self, objective: float) -> tuple[np.ndarray, float]:
        """Minimiser of the model and its dual value."""
        if not len(self.offsets):  # the norm alone
            return np.zeros(self.slopes.shape[1]), 0.0
        # Multipliers and values are scaled by the objective, so that a precision has the same
        # meaning for every C.
        self._solve(objective if objective > 0 else 1.0)
        weights = self.proportions * self.cost
        w = -(weights @ self.slopes)
        value = float(weights @ self.offsets)
        if self.n_held:
            free = w[-self.n_held :].copy()
            w[-self.n_held :] = held = _clipped(free, self.width)
            # The multipliers of the ends are the difference.
            value += float((held - free) @ held)
        value -= 0.5 * float(w @ w)
        self._keep()
        return w, value

    def _keep(self) -> None:
        """Drop the cuts that have not been used for ``drop_after`` steps."""
        idle = np.where(self.proportions > 0, 0, self.idle + 1)
        kept = np.flatnonzero(idle <= self.drop_after)
        self.proportions, self.idle = self.proportions[kept], idle[kept]
        self.offsets = self.offsets[kept]
        if len(kept) < len(idle):
            self.slopes, self.gram = self.slopes[kept], self.gram[np.ix_(kept, kept)]

    def _solve(self, scale: float) -> None:
        """Maximise the dual over a, y, u and v."""
        n, k = len(self.offsets), self.n_held
        n_all = n + 3 * k
        # No entry of w exceeds the largest one of this norm, and u and v are as large as E'a.
        largest = np.sqrt(2.0 * scale)
        pulls = self.slopes[:, self.slopes.shape[1] - k :].T * scale
        unit = float(np.abs(pulls).max(initial=largest))
        P, q = np.zeros((n_all, n_all)), np.zeros(n_all)
        P[:n, :n] = self.gram * scale
        P[range(n, n + k), range(n, n + k)] = 2.0
        q[:n], q[n + k :] = -self.offsets, 0.5 * self.width * unit / scale
        sums = np.repeat([1.0, 0.0], [n, 3 * k])[None]
        problem = QPProblem(P, q, G=sums, h=np.array([self.cost / scale]), lb=np.zeros(n_all))
        problem.lb[n : n + k] = -np.inf
        if k:
            identity = np.eye(k)
            y = np.hstack([pulls / unit, identity * (largest / unit), identity, -identity])
            problem.A = np.vstack([y, np.repeat([0.0, 1.0, -1.0], [n + k, k, k])])
            problem.b = np.zeros(k + 1)
        start = ActiveSet(
            lower=np.concatenate([self.proportions, np.ones(k), self.ends]) <= 0,
            upper=np.zeros(n_all, dtype=bool),
            tight=np.array([self.proportions.sum() > 1 - 1e-9]),
        )
        start.lower[n - 1] = False  # the newest cut
        try:
            found = solve_qp(problem, tol=_QP_TOL, start=start)
        except SolverError:
            # Cuts of unscaled features cancel each other in more digits than there are. A small
            # curvature prevents this; bounds are computed without it, so they hold.
            problem.P = P + _CURVATURE * float(np.diagonal(P).max()) * np.eye(n_all)
            found = solve_qp(problem, tol=_QP_TOL, start=start)
        self.proportions = np.maximum(found.x[:n], 0.0) * (scale / self.cost)
        self.ends = found.x[n + k :]


def _clipped(z: np.ndarray, width: float) -> np.ndarray:
    """The nearest point whose entries differ by at most the width.

    It clips the entries into the interval for which the amounts above and below sum to zero. This
    sum is piecewise linear in the centre.
    """
    if np.ptp(z) <= width:
        return z
    half = 0.5 * width
    centres = np.sort(np.concatenate([z - half, z + half]))
    cut = (z - np.clip(z, centres[:, None] - half, centres[:, None] + half)).sum(axis=1)
    centre = np.interp(0.0, -cut, centres)
    return np.asarray(np.clip(z, centre - half, centre + half))
