"""A quadratic program whose solution is nearly known: most variables stay at their bounds.

Variables that a neighbouring solution has at a bound are fixed there, the backend solves what is
left, and the multipliers of the fixed ones tell which of them have to be let go. The answer is
that of the whole problem, measured by the whole problem's optimality conditions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...exceptions import SolverError
from .qp import (
    ActiveSet,
    QPProblem,
    QPResult,
    refine_qp,
    sharpen_qp,
    solve_qp,
)

__all__ = ["solve_qp_near"]

# Below this size a backend is as quick on the whole problem.
_SMALL = 150
_MOST_ROUNDS = 8


def solve_qp_near(
    problem: QPProblem,
    start: ActiveSet | None,
    *,
    tol: float = 1e-8,
    solver: str | None = None,
) -> QPResult:
    """Solve a convex quadratic program from a guess of its active constraints.

    Parameters
    ----------
    problem : QPProblem
    start : ActiveSet or None
        None asks for a solution from nothing.
    tol : float, default=1e-8
    solver : str, default=None
        Backend of qpsolvers.

    Raises
    ------
    SolverError
        When the backend does not solve the whole problem.
    """
    if start is None or len(problem.q) <= _SMALL:
        return solve_qp(problem, tol=tol, solver=solver, start=start)
    warm = refine_qp(problem, start, "active-set")
    if warm is not None and warm.residual <= tol:
        return warm
    fixed = start.lower | start.upper
    x = np.where(start.upper, problem.ub, np.where(start.lower, problem.lb, 0.0))
    for _ in range(_MOST_ROUNDS):
        if fixed.mean() < 0.2 or fixed.all():
            break
        try:
            found = _with_fixed(problem, fixed, x, tol, solver)
        except SolverError:
            # What is fixed may leave nothing feasible.
            break
        gradient = problem.P @ found.x + problem.q + problem.G.T @ found.z + problem.A.T @ found.y
        rounding = 10 * max(tol, found.dual_residual)
        wrong = fixed & (
            (start.lower & (gradient < -rounding)) | (start.upper & (gradient > rounding))
        )
        if not wrong.any():
            # A multiplier of the wrong sign by rounding would meet a bound at infinity.
            z_box = np.where(start.lower, np.minimum(-gradient, 0), np.maximum(-gradient, 0))
            z_box = np.where(fixed, z_box, found.z_box)
            whole = problem.measured(found.x, found.y, found.z, z_box, found.solver)
            return sharpen_qp(problem, whole)
        fixed &= ~wrong
    return solve_qp(problem, tol=tol, solver=solver)


def _with_fixed(
    problem: QPProblem, fixed: np.ndarray, x: np.ndarray, tol: float, solver: str | None
) -> QPResult:
    free = np.flatnonzero(~fixed)
    at = np.where(fixed, x, 0.0)
    G = problem.G[:, free]
    rows = np.flatnonzero(G.any(axis=1))
    part = QPProblem(
        problem.P[free[:, None], free],
        problem.q[free] + problem.P[free] @ at,
        G=G[rows],
        h=problem.h[rows] - problem.G[rows] @ at,
        A=problem.A[:, free],
        b=problem.b - problem.A @ at,
        lb=problem.lb[free],
        ub=problem.ub[free],
    )
    found = solve_qp(part, tol=tol, solver=solver)
    z, z_box, whole = np.zeros(len(problem.h)), np.zeros(len(x)), at.copy()
    z[rows], z_box[free], whole[free] = found.z, found.z_box, found.x
    return replace(found, x=whole, z=z, z_box=z_box)
