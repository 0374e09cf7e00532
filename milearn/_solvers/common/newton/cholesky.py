"""Systems that are positive definite up to rounding.

A Newton system R + A'A, with a small diagonal R, is positive definite for any A. In double
precision R is lost if it is smaller than the rounding error of A'A. If A has a low rank, a pivot of
the Cholesky factorisation may then be zero or negative, and the direction may be arbitrarily long.
For such a system, a bound of the rounding error is added to the diagonal. The solution is still
that of a positive definite system, hence a descent direction, and its products with the rows of A
are the same up to rounding.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf

from ....exceptions import SolverError

_EPS = float(np.finfo(np.float64).eps)
# Factor for further increases of the diagonal, and their maximum number.
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
    # A squared pivot is the residual of a diagonal entry after the previous columns.
    if info != 0 or (np.diagonal(factor) ** 2 < share * diagonal).any():
        factor = _factor_of_raised(system, diagonal, share)
    return np.asarray(cho_solve((factor, True), target, check_finite=False))


def _factor_of_raised(system: np.ndarray, diagonal: np.ndarray, share: float) -> np.ndarray:
    """Factor of the system with a raised diagonal, by the least of some amounts that is enough.

    Entries that are differences of larger numbers may have lost all digits. Then the rounding error
    is not in proportion to them, but to the largest entry.
    """
    for scale in (diagonal, np.full(len(diagonal), diagonal.max())):
        for power in range(_TIMES):
            raised = system.copy()
            raised[np.diag_indices(len(diagonal))] += share * _AGAIN**power * scale
            factor, info = dpotrf(raised, lower=1, clean=0)
            if info == 0:
                return np.asarray(factor)
    raise SolverError("A Newton system is not positive definite: scale the features.")
