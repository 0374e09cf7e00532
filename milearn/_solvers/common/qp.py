"""Convex quadratic programs, through the backends of qpsolvers.

    min 1/2 x'Px + q'x   subject to   Gx <= h,  Ax = b,  lb <= x <= ub

Solutions are checked by their optimality conditions and not by the status of the backend. The
primal-dual active set iteration of :mod:`.active_set` is used for warm starts, and to polish the
solution of the backend. The first backend is piqp, an interior point method. If it fails, osqp is
used, a method of multipliers that does not need a well-conditioned Newton system.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ...exceptions import SolverError
from .active_set import active_set_iterations, polish
from .gram import Matrix
from .qp_problem import ActiveSet, QPProblem, QPResult

# Imported where a program is solved: qpsolvers imports all its backends, and templates with osqp.
if TYPE_CHECKING:
    import qpsolvers

__all__ = [
    "BACKENDS",
    "ActiveSet",
    "QPProblem",
    "QPResult",
    "call_backend",
    "solve_qp",
    "solve_qp_near",
    "sparse_columns",
]

# In the order of use.
BACKENDS: tuple[str, ...] = ("piqp", "osqp")

# Options of each backend for its precision.
_PRECISION_OPTIONS = {
    "clarabel": ("tol_gap_abs", "tol_gap_rel", "tol_feas"),
    "cvxopt": ("abstol", "reltol", "feastol"),
    "daqp": ("primal_tol", "dual_tol"),
    "ecos": ("abstol", "reltol", "feastol"),
    "highs": ("primal_feasibility_tolerance", "dual_feasibility_tolerance"),
    "osqp": ("eps_abs", "eps_rel"),
    "piqp": ("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"),
    "proxqp": ("eps_abs", "eps_rel"),
    "scs": ("eps_abs", "eps_rel"),
}
_EXTRA_OPTIONS: dict[str, dict[str, Any]] = {"osqp": {"max_iter": 100_000, "raise_error": True}}

# A first-order method is slow beyond this precision; the solution is polished by the active set.
_FIRST_ORDER_TOL = 1e-5

# If the backend reports a failure, its solution is used up to this residual; the duality gap of the
# problem of the caller then measures the error.
_UNUSABLE = 1e-3

# Up to this size a backend is as fast on the whole problem.
_MIN_SIZE_FOR_FIXING = 150
_MAX_FIXING_ROUNDS = 8


def solve_qp(
    problem: QPProblem,
    *,
    tol: float = 1e-8,
    solver: str | None = None,
    start: ActiveSet | None = None,
) -> QPResult:
    """Solve a convex quadratic program.

    Parameters
    ----------
    problem : QPProblem
    tol : float, default=1e-8
        Precision of the backend.
    solver : str, default=None
        Backend of qpsolvers; by default, those of :data:`BACKENDS` in turn.
    start : ActiveSet, default=None
        Estimate of the active constraints. If the active set iteration from it reaches ``tol``, no
        backend is called.

    Raises
    ------
    SolverError
        If no backend finds a solution.
    """
    backends = BACKENDS if solver is None else (solver,)
    if start is not None:
        warm = active_set_iterations(problem, start, "active-set")
        if warm is not None and warm.residual <= tol:
            return warm
    statuses = []
    for backend in backends:
        result, status = _usable(problem, tol, backend)
        if result is not None:
            return polish(problem, result)
        statuses.append(f"{backend}: {status}")
    raise SolverError(
        f"The quadratic program of {len(problem.q)} variables was not solved "
        f"({'; '.join(statuses)}): scale the features or lower C."
    )


def _usable(problem: QPProblem, tol: float, solver: str) -> tuple[QPResult | None, str]:
    """The solution of the backend, or None if it is not good enough, and the backend's status."""
    from osqp import OSQPException

    try:
        solution = _solution_of(problem, tol, solver)
    except OSQPException as error:
        # The option raise_error is set, because qpsolvers would warn otherwise.
        return None, f"status {error}"
    if solution.x is None or not np.isfinite(solution.x).all():
        return None, _status(solution)
    result = problem.with_residuals(
        solution.x, _vector(solution.y), _vector(solution.z), _vector(solution.z_box), solver
    )
    good = solution.found or result.residual <= _UNUSABLE
    return (result if good else None), _status(solution)


def solve_qp_near(
    problem: QPProblem,
    start: ActiveSet | None,
    *,
    tol: float = 1e-8,
) -> QPResult:
    """Solve a convex quadratic program from an estimate of its active constraints.

    Variables at a bound in the estimate are fixed, and the backend solves the remaining problem.
    Fixed variables with a multiplier of the wrong sign are released. The result is a solution of
    the whole problem, checked by the optimality conditions of the whole problem.

    Parameters
    ----------
    problem : QPProblem
    start : ActiveSet or None
        None is a cold start.
    tol : float, default=1e-8

    Raises
    ------
    SolverError
        If no backend solves the whole problem.
    """
    if start is None or len(problem.q) <= _MIN_SIZE_FOR_FIXING:
        return solve_qp(problem, tol=tol, start=start)
    warm = active_set_iterations(problem, start, "active-set")
    if warm is not None and warm.residual <= tol:
        return warm
    fixed = start.lower | start.upper
    x = np.where(start.upper, problem.ub, np.where(start.lower, problem.lb, 0.0))
    for _ in range(_MAX_FIXING_ROUNDS):
        if fixed.mean() < 0.2 or fixed.all():
            break
        try:
            found = _with_fixed(problem, fixed, x, tol)
        except SolverError:
            # The problem with fixed variables may be infeasible.
            break
        gradient = problem.P @ found.x + problem.q + problem.G.T @ found.z + problem.A.T @ found.y
        rounding = 10 * max(tol, found.dual_residual)
        wrong = fixed & (
            (start.lower & (gradient < -rounding)) | (start.upper & (gradient > rounding))
        )
        if not wrong.any():
            # The other bound may be infinite, so multipliers must not have the wrong sign.
            z_box = np.where(start.lower, np.minimum(-gradient, 0), np.maximum(-gradient, 0))
            z_box = np.where(fixed, z_box, found.z_box)
            whole = problem.with_residuals(found.x, found.y, found.z, z_box, found.solver)
            return polish(problem, whole)
        fixed &= ~wrong
    return solve_qp(problem, tol=tol)


def _with_fixed(problem: QPProblem, fixed: np.ndarray, x: np.ndarray, tol: float) -> QPResult:
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
    found = solve_qp(part, tol=tol)
    z, z_box, whole = np.zeros(len(problem.h)), np.zeros(len(x)), at.copy()
    z[rows], z_box[free], whole[free] = found.z, found.z_box, found.x
    return replace(found, x=whole, z=z, z_box=z_box)


def call_backend(problem: qpsolvers.Problem, solver: str, tol: float) -> qpsolvers.Solution:
    """The unmodified solution of a backend, to the precision ``tol`` of its own criteria.

    Parameters
    ----------
    problem : qpsolvers.Problem
        With sparse matrices for a backend that requires them (:func:`requires_sparse`).
    solver : str
    tol : float
    """
    import qpsolvers

    precision = max(tol, _FIRST_ORDER_TOL) if solver == "osqp" else tol
    settings: dict[str, Any] = dict.fromkeys(_PRECISION_OPTIONS.get(solver, ()), precision)
    settings |= _EXTRA_OPTIONS.get(solver, {})
    return qpsolvers.solve_problem(problem, solver=solver, **settings)


def requires_sparse(solver: str) -> bool:
    """Whether a backend would have to convert dense matrices, with a warning."""
    import qpsolvers

    return solver in qpsolvers.sparse_solvers and solver not in qpsolvers.dense_solvers


def _solution_of(problem: QPProblem, tol: float, solver: str) -> qpsolvers.Solution:
    import qpsolvers

    matrices: list[Matrix] = [problem.P, problem.G, problem.A]
    if requires_sparse(solver):
        matrices = [sparse_columns(matrix) for matrix in matrices]
    P, G, A = matrices
    program = qpsolvers.Problem(
        P,
        problem.q,
        G=G if len(problem.h) else None,
        h=problem.h if len(problem.h) else None,
        A=A if len(problem.b) else None,
        b=problem.b if len(problem.b) else None,
        lb=problem.lb,
        ub=problem.ub,
    )
    return call_backend(program, solver, tol)


def sparse_columns(matrix: Matrix) -> sparse.csc_matrix:
    """A CSC matrix with 32-bit indices, which backends in C require.

    Raises
    ------
    SolverError
        If there are too many entries for such indices.
    """
    columns = sparse.csc_matrix(matrix)
    largest = np.iinfo(np.int32).max
    if max(columns.nnz, *columns.shape) > largest:
        raise SolverError(
            f"A matrix of {columns.shape[0]} x {columns.shape[1]} with {columns.nnz} entries is "
            "too large for a QP backend, whose indices have 32 bits: use fewer instances or "
            "features."
        )
    columns.indices = columns.indices.astype(np.int32)
    columns.indptr = columns.indptr.astype(np.int32)
    return columns


def _status(solution: Any) -> str:
    for key in ("status", "info"):
        status = solution.extras.get(key)
        if status is not None:
            return str(getattr(status, "status", status))
    return "no solution found"


def _vector(values: Any) -> np.ndarray | None:
    return None if values is None else np.atleast_1d(np.asarray(values, dtype=np.float64))
