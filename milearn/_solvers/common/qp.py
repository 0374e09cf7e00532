"""Convex quadratic programs, through qpsolvers, and a primal-dual active set iteration.

    min 1/2 x'Px + q'x   subject to   Gx <= h,  Ax = b,  lb <= x <= ub

Given an estimate of the active constraints, the problem is one linear system, and its solution
shows where the estimate is wrong (Hintermueller, Ito & Kunisch, SIAM J. Optim. 13, 2002). Started
from an interior-point solution, the iteration improves six correct digits to twelve. Started from
the solution of a neighbouring problem, it often makes the call of a backend unnecessary.
Convergence is not guaranteed.

Solutions are checked by their optimality conditions and not by the status of the backend, which is
piqp, an interior point method. It may fail if the entries of P and the bounds differ by many orders
of magnitude. Then the program is solved with a factor of P = c FF' and variables v = F'x,

    min c/2 v'v + q'x   subject to the constraints and  v = F'x,

whose Newton system has entries of moderate size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dgetrf, dgetrs

from ...exceptions import SolverError

# In the order of use, with the coarsest precision: an error of v counts by the size of P.
FORMS = {"piqp": np.inf, "factored": 1e-12}
_TOLERANCES = "eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"

# The active set iteration ends after more consecutive steps than this that do not have fewer
# changes than all before: a few often undo each other before it converges.
_CHANCES = 3

# Negative curvature that counts as rounding where the diagonal is one.
_CONCAVITY = 1e-6

# If piqp reports a failure, its solution is used up to this residual; the duality gap of the
# caller's problem then measures the error.
_UNUSABLE = 1e-3

# With a factor, the residual is at most this fraction of the largest entry of q. Otherwise the
# rounding of P outweighs q.
_LOST = 0.1


class QPProblem:
    """The data of a quadratic program in dense arrays; missing blocks are empty arrays.

    Parameters
    ----------
    P : ndarray of shape (n, n), symmetric positive semidefinite
    q : ndarray of shape (n,)
    G, h, A, b, lb, ub : the constraints, each optional
    rank : int, default=None
        A bound on the rank of P, if one is known. A much larger number of free variables is not
        determined by any set of active constraints, and the active set iteration is skipped.
    """

    def __init__(
        self,
        P: np.ndarray,
        q: np.ndarray,
        *,
        G: np.ndarray | None = None,
        h: np.ndarray | None = None,
        A: np.ndarray | None = None,
        b: np.ndarray | None = None,
        lb: np.ndarray | None = None,
        ub: np.ndarray | None = None,
        rank: int | None = None,
    ) -> None:
        n = len(q)
        self.max_free = n if rank is None else max(200, rank + 50)
        self.P, self.q = P, q
        self.G = np.zeros((0, n)) if G is None else G
        self.h = np.zeros(0) if h is None else h
        self.A = np.zeros((0, n)) if A is None else A
        self.b = np.zeros(0) if b is None else b
        self.lb = np.full(n, -np.inf) if lb is None else lb
        self.ub = np.full(n, np.inf) if ub is None else ub

    def with_residuals(
        self, x: np.ndarray, y: np.ndarray, z: np.ndarray, z_box: np.ndarray, solver: str
    ) -> QPResult:
        """The solution with its residuals and active constraints."""
        Px, slack = self.P @ x, self.h - self.G @ x
        below, above = x - self.lb, self.ub - x
        stationary = Px + self.q + self.G.T @ z + self.A.T @ y + z_box
        of_box = np.where(z_box < 0, self.lb, np.where(z_box > 0, self.ub, 0.0)) @ z_box
        violation = np.concatenate([np.abs(self.A @ x - self.b), -slack, -below, -above])
        return QPResult(
            x=x,
            y=y,
            z=z,
            z_box=z_box,
            objective=float(0.5 * x @ Px + self.q @ x),
            primal_residual=float(violation.max(initial=0.0)),
            dual_residual=float(max(np.abs(stationary).max(), (-z).max(initial=0.0))),
            gap=float(abs(x @ Px + self.q @ x + self.h @ z + self.b @ y + of_box)),
            active=ActiveSet(lower=-z_box > below, upper=z_box > above, tight=z > slack),
            solver=solver,
        )


@dataclass
class ActiveSet:
    """Bounds and inequalities that are assumed to hold with equality.

    If this does not determine the free variables (a kernel of low rank), the solution is the
    nearest one to ``x``, or to zero without ``x``.
    """

    lower: np.ndarray
    upper: np.ndarray
    tight: np.ndarray
    x: np.ndarray | None = None


@dataclass
class QPResult:
    """Solution of a quadratic program with the residuals of its optimality conditions."""

    x: np.ndarray
    # Multipliers of the equalities, inequalities and bounds; ``z_box`` is negative at a lower bound
    # and positive at an upper one.
    y: np.ndarray
    z: np.ndarray
    z_box: np.ndarray
    objective: float
    # Largest violation of a constraint, largest entry of the gradient of the Lagrangian, and
    # distance of the primal from the dual objective.
    primal_residual: float
    dual_residual: float
    gap: float
    # The constraints that hold with equality, to start a similar problem.
    active: ActiveSet
    # "piqp", "factored", or "active-set" if no backend was needed.
    solver: str

    @property
    def residual(self) -> float:
        """The largest of the three residuals."""
        return max(self.primal_residual, self.dual_residual, self.gap)


def solve_qp(problem: QPProblem, *, tol: float = 1e-8, start: ActiveSet | None = None) -> QPResult:
    """Solve a convex quadratic program.

    Parameters
    ----------
    problem : QPProblem
    tol : float, default=1e-8
        Precision of the backend.
    start : ActiveSet, default=None
        Estimate of the active constraints. If the active set iteration from it reaches ``tol``, no
        backend is called.

    Raises
    ------
    SolverError
        If piqp does not find a solution, with the factor of P either.
    """
    if start is not None:
        warm = active_set_iterations(problem, start, "active-set")
        if warm is not None and warm.residual <= tol:
            return warm
    import qpsolvers

    n, k, statuses = len(problem.q), len(problem.b), []
    for form, coarsest in FORMS.items():
        at, rows = (problem, np.ones(len(problem.h))) if form == "piqp" else factored(problem)
        program = qpsolvers.Problem(at.P, at.q, at.G, at.h, at.A, at.b, at.lb, at.ub)
        options: Any = dict.fromkeys(_TOLERANCES, min(tol, coarsest))
        found: Any = qpsolvers.solve_problem(program, solver="piqp", **options)
        if np.isfinite(found.x).all():
            multipliers = found.y[:k], found.z / rows, found.z_box[:n]
            result = problem.with_residuals(found.x[:n], *multipliers, form)
            if found.found or result.residual <= _UNUSABLE:
                result = polish(problem, result)
                if form == "piqp" or result.residual <= _LOST * np.abs(problem.q).max():
                    return result
        statuses.append(f"{form}: {found.extras['info'].status}")
    raise SolverError(
        f"The quadratic program of {n} variables was not solved ({'; '.join(statuses)}): "
        "scale the features or lower C."
    )


def factored(problem: QPProblem) -> tuple[QPProblem, np.ndarray]:
    """The same program in x and v = F'x, where P = c FF' and no row of F is longer than one.

    Returns
    -------
    program : QPProblem
        No entry of h is above one: from a distant bound piqp would begin far away.
    rows : ndarray of shape (len(h),)
        By which its inequalities are divided.

    Raises
    ------
    SolverError
        If P is not positive semidefinite beyond rounding.
    """
    n, k = len(problem.q), len(problem.b)
    diagonal = np.diagonal(problem.P)
    scales = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = eigh(problem.P / scales / scales[:, None])
    if values[0] < -_CONCAVITY:
        raise SolverError(
            f"The quadratic program of {n} variables is not convex: use a kernel whose matrix is "
            "positive semidefinite."
        )
    kept = values > n * np.finfo(np.float64).eps * values[-1]
    unit = float(scales.max())
    F = (scales / unit)[:, None] * vectors[:, kept] * np.sqrt(values[kept])
    m, rows = F.shape[1], np.maximum(1.0, np.abs(problem.h))
    program = QPProblem(
        np.diag(np.repeat([0.0, unit**2], [n, m])),
        np.pad(problem.q, (0, m)),
        G=np.pad(problem.G / rows[:, None], ((0, 0), (0, m))),
        h=problem.h / rows,
        A=np.block([[problem.A, np.zeros((k, m))], [F.T, -np.eye(m)]]),
        b=np.pad(problem.b, (0, m)),
        lb=np.pad(problem.lb, (0, m), constant_values=-np.inf),
        ub=np.pad(problem.ub, (0, m), constant_values=np.inf),
    )
    return program, rows


# -- the active set iteration ----------------------------------------------------------------------


def polish(problem: QPProblem, result: QPResult) -> QPResult:
    """Refine a solution by the active set iteration; return the better of the two.

    Undetermined variables are first set to the solution of minimum norm, which treats equal
    variables equally. If it violates bounds, they stay near the given solution.
    """
    for x in (None, result.x):
        sharp = active_set_iterations(problem, replace(result.active, x=x), result.solver)
        if sharp is not None and sharp.residual < result.residual:
            return sharp
    return result


def active_set_iterations(
    problem: QPProblem, start: ActiveSet, solver: str, max_steps: int = 25
) -> QPResult | None:
    """Primal-dual active set iteration; None if a system is singular or it does not converge.

    Parameters
    ----------
    problem : QPProblem
    start : ActiveSet
        Estimate of the active constraints.
    solver : str
        Name to store in the result.
    max_steps : int, default=25
        Maximum number of linear systems to solve.
    """
    fewest, chances, active = np.inf, _CHANCES, start
    for _ in range(max_steps):
        solved = _equality_step(problem, active)
        if solved is None:
            return None
        x, y, z, z_box = solved
        # Update the estimate from the unclipped step: violated bounds become active, bounds whose
        # multiplier has the wrong sign become inactive.
        slack = problem.h - problem.G @ x
        # A variable on its bound may deviate from it by rounding. Ignore such deviations, which
        # only concern degenerate multipliers.
        slip = 1e-15 * float(np.abs(x).max())
        judged = ActiveSet(
            lower=(active.lower & (z_box < 0)) | (x < problem.lb - slip),
            upper=(active.upper & (z_box > 0)) | (x > problem.ub + slip),
            tight=(active.tight & (z > 0)) | (~active.tight & (slack < 0)),
            x=None if active.x is None else np.clip(x, problem.lb, problem.ub),
        )
        changes = int((judged.lower != active.lower).sum() + (judged.upper != active.upper).sum())
        changes += int((judged.tight != active.tight).sum())
        if changes == 0:
            x = np.clip(x, problem.lb, problem.ub)
            return problem.with_residuals(x, y, z, z_box, solver)
        fewest, chances = (changes, _CHANCES) if changes < fewest else (fewest, chances - 1)
        if chances < 0:
            # The sets do not converge: a backend will be faster.
            return None
        active = judged
    return None


def _equality_step(problem: QPProblem, active: ActiveSet) -> tuple[np.ndarray, ...] | None:
    free = np.flatnonzero(~(active.lower | active.upper))
    n_free = len(free)
    if n_free == 0 or n_free > problem.max_free:
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
    # Regularise singular blocks (a kernel of low rank) and remove the error by refinement.
    shift = 1e-11 * (float(np.abs(np.diagonal(problem.P)).max()) or 1.0)
    regular = system.copy(order="F")
    regular.flat[:: n_free + m + 1] += np.r_[np.full(n_free, shift), np.full(m, -shift)]
    # Call LAPACK directly: for many small systems, SciPy's wrappers take as long as the solution.
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
