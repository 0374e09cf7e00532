"""Equilibration of quadratic programs whose entries differ by many orders of magnitude.

With positive diagonal matrices D (of variables), E (of rows of constraints) and a factor c of the
objective, x = D v turns

    min 1/2 x'Px + q'x   subject to   Gx <= h,  Ax = b,  lb <= x <= ub

into a program of v with the matrices cDPD, EGD and EAD. D and E are those of Ruiz' iteration, which
brings the largest entry of each row and column of the optimality conditions' matrix near 1, and c
makes the gradient's entries of size 1. The solutions are the same; a backend, whose stopping rule
is absolute, meets numbers that the rule was made for.

References
----------
D. Ruiz. A scaling algorithm to equilibrate both rows and columns norms in matrices. Technical
report RAL-TR-2001-034, Rutherford Appleton Laboratory, 2001.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .qp_problem import QPProblem, QPResult

__all__ = ["Equilibrated", "equilibrated"]

_ROUNDS = 10


@dataclass
class Equilibrated:
    """The scaled program and the way back.

    Attributes
    ----------
    problem : QPProblem
        The program of v.
    variables : ndarray of shape (n,)
        The diagonal of D.
    inequalities, equalities : ndarray
        The diagonals of E.
    factor : float
        The factor c of the objective.
    """

    problem: QPProblem
    variables: np.ndarray
    inequalities: np.ndarray
    equalities: np.ndarray
    factor: float

    def restored(self, original: QPProblem, result: QPResult) -> QPResult:
        """A solution of the scaled program as one of the original, with residuals of that."""
        return original.with_residuals(
            np.clip(self.variables * result.x, original.lb, original.ub),
            self.equalities * result.y / self.factor,
            self.inequalities * result.z / self.factor,
            result.z_box / (self.variables * self.factor),
            result.solver,
        )


def equilibrated(problem: QPProblem, unit: float = 1.0) -> Equilibrated:
    """The program in units in which its entries are near 1.

    Parameters
    ----------
    problem : QPProblem
    unit : float, default=1.0
        All variables are counted in so many: the matrices stay as they are, the gradient and the
        bounds get smaller. Where P is of low rank and bounds are far away, solutions are large.
    """
    P, G, A = (np.array(matrix, dtype=np.float64) for matrix in (problem.P, problem.G, problem.A))
    d, of_g, of_a = np.ones(len(problem.q)), np.ones(len(G)), np.ones(len(A))
    for _ in range(_ROUNDS):
        columns = np.max([_largest(part, axis=0) for part in (P, G, A)], axis=0)
        by_column, by_g, by_a = (
            _inverse_root(sizes) for sizes in (columns, _largest(G, axis=1), _largest(A, axis=1))
        )
        P *= by_column * by_column[:, None]
        G *= by_column * by_g[:, None]
        A *= by_column * by_a[:, None]
        d, of_g, of_a = d * by_column, of_g * by_g, of_a * by_a
    q = d * problem.q
    size = max(float(np.abs(q).max(initial=0.0)), float(_largest(P, axis=0).mean()))
    factor = 1.0 / size if size > 0 else 1.0
    # In units of the variables, so that the matrices P, G and A are those of unit 1.
    d, of_g, of_a, factor = d * unit, of_g / unit, of_a / unit, factor / unit**2
    q = q * unit
    scaled = QPProblem(
        factor * unit**2 * P,
        factor * q,
        G=G,
        h=of_g * problem.h,
        A=A,
        b=of_a * problem.b,
        lb=problem.lb / d,
        ub=problem.ub / d,
    )
    scaled.max_free = problem.max_free
    return Equilibrated(scaled, d, of_g, of_a, factor)


def _largest(matrix: np.ndarray, axis: int) -> np.ndarray:
    sizes: np.ndarray = np.abs(matrix).max(axis=axis, initial=0.0)
    return sizes


def _inverse_root(sizes: np.ndarray) -> np.ndarray:
    roots: np.ndarray = 1.0 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    return roots
