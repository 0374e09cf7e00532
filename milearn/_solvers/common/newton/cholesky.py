"""Systems that are positive definite but for rounding.

A Newton system R + A'A, with a small diagonal R, is positive definite however large A is. In double
precision R is lost where it is below a rounding of A'A, and where A is of low rank a pivot of
Cholesky's method is then zero, below zero, or of rounding alone: a direction from it would be as
long as rounding likes. Such a system is solved with its diagonal raised by what rounding may have
changed it. The solution is that of a positive definite system still, a direction of descent for
a gradient, and the same to rounding for what lies in the rows of A.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, qr
from scipy.linalg.lapack import dpotrf

__all__ = ["solve_of_rows", "solve_positive"]

_EPS = float(np.finfo(np.float64).eps)
# Size of A'A beside R from which Woodbury's identity leaves no digits of what it takes off.
_LARGE = 1e8
# How much the diagonal is raised again where that was too little.
_AGAIN, _TIMES = 100.0, 6


def solve_positive(system: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Solution of a symmetric system of which positive definiteness is known.

    Parameters
    ----------
    system : ndarray of shape (n, n)
    target : ndarray of shape (n,)
    """
    diagonal = np.diagonal(system).copy()
    share = 10.0 * len(diagonal) * _EPS
    factor, info = dpotrf(system, lower=1, clean=0)
    for _ in range(_TIMES):
        # A square of a pivot is what is left of a diagonal entry after the columns before it.
        if info == 0 and (np.diagonal(factor) ** 2 >= share * diagonal).all():
            break
        raised = system.copy()
        raised[np.diag_indices(len(diagonal))] += share * diagonal
        factor, info = dpotrf(raised, lower=1, clean=0)
        if info == 0:
            break
        share *= _AGAIN
    return np.asarray(cho_solve((factor, True), target, check_finite=False))


def solve_of_rows(A: np.ndarray, ridge: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(R + A'A)^-1 times the target, where A has fewer rows than columns.

    By Woodbury's identity, whose system is as large as A has rows; where R is small beside A'A, in
    an orthonormal basis of the rows.

    Parameters
    ----------
    A : ndarray of shape (m, n)
    ridge : ndarray of shape (n,), the diagonal of R, above zero
    target : ndarray of shape (n,)
    """
    m = len(A)
    scaled = A / ridge
    small = scaled @ A.T
    small[np.diag_indices(m)] += 1.0
    if np.diagonal(small).max(initial=0.0) <= _LARGE:
        return np.asarray((target - A.T @ solve_positive(small, scaled @ target)) / ridge)
    root = np.sqrt(ridge)
    basis, T = qr((A / root).T, mode="economic", check_finite=False)
    t = target / root
    inside = basis.T @ t
    system = T @ T.T
    system[np.diag_indices(m)] += 1.0
    return np.asarray((t + basis @ (solve_positive(system, inside) - inside)) / root)
