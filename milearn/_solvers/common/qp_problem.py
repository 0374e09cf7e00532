"""Data, solution and active set of a convex quadratic program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .gram import Matrix

__all__ = ["ActiveSet", "QPProblem", "QPResult"]


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
        P: Matrix,
        q: np.ndarray,
        *,
        G: Matrix = None,
        h: np.ndarray | None = None,
        A: Matrix = None,
        b: np.ndarray | None = None,
        lb: np.ndarray | None = None,
        ub: np.ndarray | None = None,
        rank: int | None = None,
    ) -> None:
        n = len(q)
        self.max_free = n if rank is None else max(200, rank + 50)
        self.P, self.q = _dense(P), q
        self.G = np.zeros((0, n)) if G is None else _dense(G)
        self.h = np.zeros(0) if h is None else h
        self.A = np.zeros((0, n)) if A is None else np.atleast_2d(_dense(A))
        self.b = np.zeros(0) if b is None else np.atleast_1d(b)
        self.lb = np.full(n, -np.inf) if lb is None else lb
        self.ub = np.full(n, np.inf) if ub is None else ub

    def with_residuals(
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

    def distance(self, other: ActiveSet) -> int:
        """Number of constraints in which two sets differ."""
        return int(
            (self.lower != other.lower).sum()
            + (self.upper != other.upper).sum()
            + (self.tight != other.tight).sum()
        )


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
    # The backend, or "active-set" if no backend was needed.
    solver: str

    @property
    def residual(self) -> float:
        """The largest of the three residuals."""
        return max(self.primal_residual, self.dual_residual, self.gap)


def _sized(values: np.ndarray | None, like: np.ndarray) -> np.ndarray:
    return np.zeros(len(like)) if values is None or len(values) != len(like) else values


def _dense(matrix: Matrix) -> np.ndarray:
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
