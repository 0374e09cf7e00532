"""Systems that are positive definite but for rounding.

A Newton system R + A'A, with a small diagonal R, is positive definite for any A. In double
precision R is lost where it is smaller than the rounding of A'A. If A has a low rank, a pivot of
Cholesky's method may then be zero or negative, and a direction from it arbitrarily long. Such a
system is solved with its diagonal raised by a bound of the rounding. The solution is still that of
a positive definite system, hence a direction of descent, and in the rows of A it is the same up to
rounding.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf

__all__ = ["solve_positive"]

_EPS = float(np.finfo(np.float64).eps)
# Factor by which the diagonal is raised again, and how often.
_AGAIN, _TIMES = 100.0, 6


def solve_positive(system: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Solution of a symmetric system that is positive definite in exact arithmetic.

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
