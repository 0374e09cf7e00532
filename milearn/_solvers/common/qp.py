"""Convex quadratic programs, through the backends of qpsolvers.

    min 1/2 x'Px + q'x   subject to   Gx <= h,  Ax = b,  lb <= x <= ub

What comes back is measured by its optimality conditions, not by what the backend says of itself.
Around the backend stands the primal-dual active set iteration (Hintermueller, Ito & Kunisch,
SIAM J. Optim. 13, 2002): the constraints that hold with equality are guessed, the problem with
those equalities is one linear system, and its solution says which guesses were wrong. Started
from an interior-point solution it turns six right digits into twelve; started from the solution
of a neighbouring problem it often makes the call of the backend unnecessary. It has no guarantee
of its own, so its answer counts only when its residuals are the smaller ones.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import qpsolvers
from scipy.linalg.lapack import dgetrf, dgetrs

from ...exceptions import SolverError

__all__ = [
    "DEFAULT_QP_SOLVER",
    "QP_PRECISION",
    "ActiveSet",
    "QPProblem",
    "QPResult",
    "check_qp_solver",
    "refine_qp",
    "rough_qp",
    "sharpen_qp",
    "solve_qp",
]

DEFAULT_QP_SOLVER = "piqp"

# How each backend spells its precision.
QP_PRECISION = {
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
_FURTHER: dict[str, dict[str, Any]] = {"osqp": {"max_iter": 100_000}}

# A solution that the backend does not vouch for is used up to this residual; the duality gap of
# the caller's own problem then tells what it is worth.
_UNUSABLE = 1e-3


@dataclass
class ActiveSet:
    """Which bounds and inequalities are taken to hold with equality.

    Where that leaves the free variables undetermined (a kernel of low rank), the solution nearest
    to ``x`` is taken, or to zero when there is no ``x``.
    """

    lower: np.ndarray
    upper: np.ndarray
    tight: np.ndarray
    x: np.ndarray | None = None

    def distance(self, other: ActiveSet) -> int:
        """In how many constraints two sets differ."""
        return int(
            (self.lower != other.lower).sum()
            + (self.upper != other.upper).sum()
            + (self.tight != other.tight).sum()
        )


@dataclass
class QPResult:
    """Solution of a quadratic program with the residuals of its optimality conditions.

    Attributes
    ----------
    x : ndarray of shape (n,)
    y, z, z_box : ndarray, multipliers of the equalities, inequalities and bounds
        (``z_box`` below zero at a lower bound, above zero at an upper one)
    objective : float
    primal_residual, dual_residual, gap : float
        Largest violation of a constraint, largest entry of the gradient of the Lagrangian, and
        distance of the primal from the dual objective.
    active : ActiveSet
        The constraints that hold with equality, to start a neighbouring problem from.
    solver : str
        The backend, or "active-set" when the start made it unnecessary.
    """

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    z_box: np.ndarray
    objective: float
    primal_residual: float
    dual_residual: float
    gap: float
    active: ActiveSet
    solver: str

    @property
    def residual(self) -> float:
        """The largest of the three residuals."""
        return max(self.primal_residual, self.dual_residual, self.gap)


def check_qp_solver(name: str | None) -> str:
    """Name of an installed backend; ``None`` stands for the default."""
    wanted = DEFAULT_QP_SOLVER if name is None else name
    if wanted not in qpsolvers.available_solvers:
        raise ValueError(
            f"qp_solver={wanted!r} is not installed: choose one of "
            f"{sorted(qpsolvers.available_solvers)} or install it."
        )
    return wanted


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
        Precision asked of the backend.
    solver : str, default=None
        Backend of qpsolvers, ``"piqp"`` when None.
    start : ActiveSet, default=None
        Guess of the active constraints. Where the active set iteration from it reaches ``tol``,
        the backend is not called.

    Raises
    ------
    SolverError
        When the backend finds no solution.
    """
    solver = check_qp_solver(solver)
    if start is not None:
        warm = refine_qp(problem, start, "active-set")
        if warm is not None and warm.residual <= tol:
            return warm
    solution = _called(problem, tol, solver)
    result = None
    if solution.x is not None and np.isfinite(solution.x).all():
        result = problem.measured(
            solution.x, _vector(solution.y), _vector(solution.z), _vector(solution.z_box), solver
        )
    if result is None or (not solution.found and not result.residual <= _UNUSABLE):
        raise SolverError(
            f"The quadratic program of {len(problem.q)} variables was not solved by {solver} "
            f"(status: {_status(solution)}): scale the features, lower C, or choose another "
            "qp_solver."
        )
    return sharpen_qp(problem, result)


def rough_qp(problem: QPProblem, *, tol: float = 1e-8, solver: str | None = None) -> np.ndarray:
    """Primal solution as the backend gives it, neither measured nor sharpened.

    For many small programs in a row, where the caller has bounds of its own and one call of the
    backend costs less than an active set iteration. A solution that the backend does not vouch for
    goes the long way through :func:`solve_qp`.
    """
    solver = check_qp_solver(solver)
    solution = _called(problem, tol, solver)
    if solution.found and solution.x is not None and np.isfinite(solution.x).all():
        return solution.x
    return solve_qp(problem, tol=tol, solver=solver).x


def _called(problem: QPProblem, tol: float, solver: str) -> qpsolvers.Solution:
    options = dict.fromkeys(QP_PRECISION.get(solver, ()), tol) | _FURTHER.get(solver, {})
    with warnings.catch_warnings():
        # Backends tell their state by warnings of their own; the residuals say it instead.
        warnings.simplefilter("ignore")
        return qpsolvers.solve_problem(problem.stated(), solver=solver, **options)


def sharpen_qp(problem: QPProblem, result: QPResult) -> QPResult:
    """The solution after the active set iteration from it, or as it was when that is better.

    Undetermined variables are first taken as small as possible, which treats equal ones equally;
    where that oversteps bounds they stay near the given solution.
    """
    for x in (None, result.x):
        sharp = refine_qp(problem, replace(result.active, x=x), result.solver)
        if sharp is not None and sharp.residual < result.residual:
            return sharp
    return result


class QPProblem:
    """The data of a quadratic program in dense arrays; blocks that are missing are empty ones.

    Parameters
    ----------
    P : ndarray of shape (n, n), symmetric positive semidefinite
    q : ndarray of shape (n,)
    G, h, A, b, lb, ub : the constraints, each optional
    rank : int, default=None
        A bound on the rank of P, where one is known. Far more free variables than that are not
        determined by any set of active constraints, and the active set iteration is not tried.
    """

    def __init__(
        self,
        P: Any,
        q: np.ndarray,
        *,
        G: Any = None,
        h: np.ndarray | None = None,
        A: Any = None,
        b: np.ndarray | None = None,
        lb: np.ndarray | None = None,
        ub: np.ndarray | None = None,
        rank: int | None = None,
    ) -> None:
        n = len(q)
        self.most_free = n if rank is None else max(200, rank + 50)
        self.P, self.q = _dense(P), q
        self.G = np.zeros((0, n)) if G is None else _dense(G)
        self.h = np.zeros(0) if h is None else h
        self.A = np.zeros((0, n)) if A is None else np.atleast_2d(_dense(A))
        self.b = np.zeros(0) if b is None else np.atleast_1d(b)
        self.lb = np.full(n, -np.inf) if lb is None else lb
        self.ub = np.full(n, np.inf) if ub is None else ub

    def stated(self) -> qpsolvers.Problem:
        """The problem as qpsolvers takes it, without the empty blocks."""
        G, h = (self.G, self.h) if len(self.h) else (None, None)
        A, b = (self.A, self.b) if len(self.b) else (None, None)
        return qpsolvers.Problem(self.P, self.q, G, h, A, b, self.lb, self.ub)

    def measured(
        self,
        x: np.ndarray,
        y: np.ndarray | None,
        z: np.ndarray | None,
        z_box: np.ndarray | None,
        solver: str,
    ) -> QPResult:
        """The solution with its residuals and active constraints."""
        y, z, z_box = _sized(y, self.b), _sized(z, self.h), _sized(z_box, x)
        Px, slack = self.P @ x, self.h - self.G @ x
        below, above = x - self.lb, self.ub - x
        stationary = Px + self.q + self.G.T @ z + self.A.T @ y + z_box
        lower, upper = np.minimum(z_box, 0.0), np.maximum(z_box, 0.0)
        bounds = sum(
            float(part[part != 0] @ bound[part != 0])
            for part, bound in ((lower, self.lb), (upper, self.ub))
        )
        primal = 0.5 * x @ Px + self.q @ x
        violation = [np.abs(self.A @ x - self.b), -slack, -below, -above]
        return QPResult(
            x=x,
            y=y,
            z=z,
            z_box=z_box,
            objective=float(primal),
            primal_residual=max(0.0, *(float(part.max()) for part in violation if part.size)),
            dual_residual=float(max(np.abs(stationary).max(), (-z).max(initial=0.0))),
            gap=float(abs(x @ Px + self.q @ x + self.h @ z + self.b @ y + bounds)),
            active=ActiveSet(lower=-z_box > below, upper=z_box > above, tight=z > slack),
            solver=solver,
        )


def refine_qp(
    problem: QPProblem, guess: ActiveSet, solver: str, max_steps: int = 12
) -> QPResult | None:
    """Primal-dual active set iteration; None when a system is singular or it does not settle.

    Parameters
    ----------
    problem : QPProblem
    guess : ActiveSet
    solver : str
        Name to store in the result.
    max_steps : int, default=12
        Most linear systems to solve.
    """
    changes: list[int] = []
    for _ in range(max_steps):
        solved = _equality_step(problem, guess)
        if solved is None:
            return None
        x, y, z, z_box = solved
        # The unclipped step judges the guess; a bound that is overstepped becomes active, one
        # whose multiplier has the wrong sign is let go.
        slack = problem.h - problem.G @ x
        # A variable that belongs on its bound comes out beside it by rounding: that is no reason
        # to change sides, where the two sides only tell apart a degenerate multiplier.
        slip = 1e-15 * float(np.abs(x).max())
        judged = ActiveSet(
            lower=(guess.lower & (z_box < 0)) | (x < problem.lb - slip),
            upper=(guess.upper & (z_box > 0)) | (x > problem.ub + slip),
            tight=(guess.tight & (z > 0)) | (~guess.tight & (slack < 0)),
            x=None if guess.x is None else np.clip(x, problem.lb, problem.ub),
        )
        changes.append(judged.distance(guess))
        if changes[-1] == 0:
            x = np.clip(x, problem.lb, problem.ub)
            return problem.measured(x, y, z, z_box, solver)
        if len(changes) > 3 and changes[-1] > 0.6 * changes[-4]:
            # It wanders instead of closing in: a backend will be faster.
            return None
        guess = judged
    return None


def _equality_step(problem: QPProblem, active: ActiveSet) -> tuple[np.ndarray, ...] | None:
    free = np.flatnonzero(~(active.lower | active.upper))
    n_free = len(free)
    if n_free == 0 or n_free > problem.most_free:
        return None
    x = np.where(active.upper, problem.ub, np.where(active.lower, problem.lb, 0.0))
    E, e = problem.A, problem.b
    if len(problem.h):
        E = np.concatenate([E, problem.G[active.tight]])
        e = np.concatenate([e, problem.h[active.tight]])
    m = len(e)
    system = np.zeros((n_free + m, n_free + m), order="F")
    system[:n_free, :n_free] = problem.P[free[:, None], free]
    system[n_free:, :n_free] = E[:, free]
    system[:n_free, n_free:] = system[n_free:, :n_free].T
    x[free] = 0.0 if active.x is None else active.x[free]
    target = np.concatenate([-(problem.q + problem.P @ x)[free], e - E @ x])
    # A singular block (a kernel of low rank) is made regular and the error refined away.
    shift = 1e-11 * (float(np.abs(np.diagonal(problem.P)).max()) or 1.0)
    regular = system.copy(order="F")
    regular.flat[:: n_free + m + 1] += np.r_[np.full(n_free, shift), np.full(m, -shift)]
    # Straight from LAPACK: systems are small and many, and the wrappers would cost as much.
    factors, pivots, info = dgetrf(regular, overwrite_a=True)
    if info != 0:
        return None
    unknown = dgetrs(factors, pivots, target)[0]
    for _ in range(2):
        unknown += dgetrs(factors, pivots, target - system @ unknown)[0]
    if not np.isfinite(unknown).all():
        return None
    x[free] += unknown[:n_free]
    y = unknown[n_free : n_free + len(problem.b)]
    z = np.zeros(len(problem.h))
    z[active.tight] = unknown[n_free + len(problem.b) :]
    z_box = -(problem.P @ x + problem.q + unknown[n_free:] @ E)
    z_box[free] = 0.0
    return x, y, z, z_box


def _status(solution: Any) -> str:
    for key in ("status", "info"):
        status = solution.extras.get(key)
        if status is not None:
            return str(getattr(status, "status", status))
    return "no solution found"


def _sized(values: np.ndarray | None, like: np.ndarray) -> np.ndarray:
    return np.zeros(len(like)) if values is None or len(values) != len(like) else values


def _vector(values: Any) -> np.ndarray | None:
    return None if values is None else np.atleast_1d(np.asarray(values, dtype=np.float64))


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
