"""Newton's direction of a smoothed problem of groups, for w and the variables without a norm.

The second derivative of a smoothed maximum is that of the projection onto the simplex: the
identity on the rows with a > 0, less their mean where a sums to one. Three ways to solve the
system: over the rows with curvature where these are few, over the columns, and by conjugate
gradients where sparse rows have many columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from .cholesky import solve_of_rows, solve_positive
from .groups import GroupProblem, runs

__all__ = ["newton_direction"]

Matrix = Any  # an ndarray, a CSR matrix or a RowStack

# Above this number of columns the Newton system of sparse rows is solved by conjugate gradients.
_DENSE_COLUMNS = 2500
# Numbers in the rows by which the system is summed up.
_CHUNK_NUMBERS = 2**20
# Their residual, as a share of the gradient.
_ROUGH_DIRECTION = 0.05


def newton_direction(
    problem: GroupProblem,
    projection: tuple[np.ndarray, np.ndarray],
    h: float,
    gradient: np.ndarray,
    ridge: np.ndarray,
) -> np.ndarray:
    """Newton's direction of the smoothed problem, for w and v.

    Parameters
    ----------
    problem : GroupProblem
    projection : tuple of ndarray
        What :meth:`GroupProblem.maximiser` gives.
    h : float
    gradient, ridge : ndarray of shape (n_columns + n_free,)
        The gradient, and the diagonal of the second derivative of all but the maxima.
    """
    rows, starts, centred, proportions = _curved_rows(problem, *projection, h)
    dim, n_columns = len(gradient), problem.Z.shape[1]
    if len(rows) == 0:
        return np.asarray(-gradient / ridge)
    curvature = problem.row_costs[rows] / h
    e = problem.free[rows]
    lengths = np.diff(np.r_[starts, len(rows)])
    share = np.zeros(len(starts))
    share[centred] = proportions / lengths[centred]
    if sparse.issparse(problem.Z) and dim > _DENSE_COLUMNS:
        Z = problem.Z[rows]
        return _by_conjugate_gradients((Z, e), (starts, share), curvature, ridge, gradient)

    def factor(first: int, last: int, groups: slice) -> np.ndarray:
        """Some rows less the share of the mean of their groups, times the root of the curvature."""
        A = np.empty((last - first, dim))
        Z = problem.Z[rows[first:last]]
        A[:, :n_columns] = Z.toarray() if sparse.issparse(Z) else Z
        A[:, n_columns:] = e[first:last]
        if share[groups].any():
            sums = np.add.reduceat(A, starts[groups] - first, axis=0)
            A -= np.repeat(sums * share[groups, None], lengths[groups], axis=0)
        A *= np.sqrt(curvature[first:last])[:, None]
        return A

    if len(rows) < dim:
        A = factor(0, len(rows), slice(0, len(starts)))
        return -solve_of_rows(A, ridge, gradient)
    system = np.diag(ridge)
    for first, last, groups in _chunks(len(rows), starts, max(dim, _CHUNK_NUMBERS // dim)):
        A = factor(first, last, groups)
        system += A.T @ A
    return -solve_positive(system, gradient)


def _chunks(n_rows: int, starts: np.ndarray, most: int) -> Iterator[tuple[int, int, slice]]:
    """First and last row, and groups, of parts of whole groups with about as many rows."""
    if len(starts) == 0:
        for first in range(0, n_rows, most):
            yield first, min(first + most, n_rows), slice(0, 0)
        return
    group = 0
    while group < len(starts):
        first = int(starts[group])
        last_group = max(group + 1, int(np.searchsorted(starts, first + most)))
        last = n_rows if last_group == len(starts) else int(starts[last_group])
        yield first, last, slice(group, last_group)
        group = last_group


def _curved_rows(
    problem: GroupProblem, a: np.ndarray, full: np.ndarray, h: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows with curvature, where each group begins among them, and groups that lose their mean.

    The last array is the share of the mean that each of these loses: all of it where the sum of
    the group is at its bound, and for the square of k rows g with (1 - g)^2 = 2 h / (k + 2 h).
    """
    nothing = np.zeros(0, dtype=np.intp)
    if problem.singles:
        return np.flatnonzero((a > 0) & ~full), nothing, nothing, np.zeros(0)
    rows = np.flatnonzero(a > 0)
    group = problem.owner[rows]
    counts = np.bincount(group, minlength=len(full))
    # The one active row of a full group stays at its bound.
    rows = rows[~(full & (counts == 1))[group]]
    if len(rows) == 0:
        return rows, nothing, nothing, np.zeros(0)
    group = problem.owner[rows]
    starts, _ = runs(group)
    group = group[starts]
    squared = group >= problem.n_plain
    proportions = np.where(squared, 1.0 - np.sqrt(2.0 * h / (counts[group] + 2.0 * h)), 1.0)
    centred = np.flatnonzero(full[group] | squared)
    return rows, starts, centred, proportions[centred]


def _by_conjugate_gradients(
    rows: tuple[Matrix, np.ndarray],
    groups: tuple[np.ndarray, np.ndarray],
    curvature: np.ndarray,
    ridge: np.ndarray,
    gradient: np.ndarray,
) -> np.ndarray:
    """Newton's direction; ``groups`` begin at rows, and lose a share of their mean."""
    (Z, e), n = rows, rows[0].shape[1]
    starts, weights = groups
    lengths = np.diff(np.r_[starts, len(curvature)])

    def centred(values: np.ndarray) -> np.ndarray:
        if not weights.any():
            return values
        return np.asarray(values - np.repeat(weights * np.add.reduceat(values, starts), lengths))

    def product(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        inner = centred(curvature * centred(np.asarray(Z @ x[:n]) + e @ x[n:]))
        return np.asarray(ridge * x + np.append(np.asarray(Z.T @ inner), e.T @ inner))

    # Without means: a diagonal from above.
    squares = sparse.csr_array((Z.data**2, Z.indices, Z.indptr), shape=Z.shape)
    diagonal = ridge + np.append(np.asarray(squares.T @ curvature), (e * e).T @ curvature)
    shape = (len(ridge), len(ridge))
    system = LinearOperator(shape, matvec=product, dtype=np.float64)
    scaling = LinearOperator(shape, matvec=lambda x: x.ravel() / diagonal, dtype=np.float64)
    # A rough direction will do: the line search follows it as far as it descends.
    found, _ = cg(system, -gradient, rtol=_ROUGH_DIRECTION, maxiter=100, M=scaling)
    return np.asarray(found)
