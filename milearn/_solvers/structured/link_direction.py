"""Newton's direction of a smoothed convex step of MILSD, for w and the intercept.

The system is R + X'SX with a diagonal R and S = sum A'QA, a curvature in the scores that is as
sparse as the links. It is never formed over links: X is pooled to nodes first, and of the links the
Laplacian of those with curvature is left. Three ways, by the size of what has curvature:

* few rows: Woodbury's identity, with I + S K over the kernel of these rows;
* few columns: the system itself;
* else conjugate gradients, a product of which costs what X, the nodes and the links hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lu_factor, lu_solve, qr
from scipy.sparse.linalg import LinearOperator, cg

from ..common.newton.cholesky import solve_positive
from .linked_step import Bend

__all__ = ["newton_direction"]

Matrix = Any  # an ndarray or a CSR matrix

# Up to so many rows with curvature their kernel is formed.
_FEW_ROWS = 1500
# Up to so many columns, and numbers in sparse rows that are made dense, the system is formed.
_DENSE_COLUMNS, _DENSE_NUMBERS = 2500, 2**23
# Size of the system beside one from which its solution leaves no digits of what it takes off.
_LARGE = 1e8
# Residual of conjugate gradients as a share of the gradient, and their number.
_ROUGH_DIRECTION, _MAX_PRODUCTS = 0.05, 100


def newton_direction(
    X: Matrix, bends: list[Bend], gradient: np.ndarray, ridge: np.ndarray
) -> np.ndarray:
    """-(R + X'SX)^-1 times the gradient.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_instances, n_features)
    bends : list of Bend
    gradient : ndarray of shape (n_features,) or (n_features + 1,)
        The last entry is that of the intercept, if there is one.
    ridge : ndarray of the same shape
        The diagonal of R.
    """
    if not bends:
        return np.asarray(-gradient / ridge)
    used = np.zeros(X.shape[0], dtype=bool)
    for bend in bends:
        used[bend.A.indices if sparse.issparse(bend.A) else bend.A] = True
    rows = np.flatnonzero(used)
    d = len(gradient)
    if len(rows) < min(d, _FEW_ROWS):
        return _by_rows(X[rows], _renumbered(bends, rows, len(used)), gradient, ridge)
    if d <= _DENSE_COLUMNS and (not sparse.issparse(X) or len(rows) * d <= _DENSE_NUMBERS):
        return _by_columns(X, bends, gradient, ridge)
    return _by_products(X[rows], _renumbered(bends, rows, len(used)), gradient, ridge)


def _renumbered(bends: list[Bend], rows: np.ndarray, n: int) -> list[Bend]:
    """The same curvature where only some rows are left."""
    number = np.zeros(n, dtype=np.intp)
    number[rows] = np.arange(len(rows))
    found = []
    for bend in bends:
        A = bend.A
        if sparse.issparse(A):
            shape = (A.shape[0], len(rows))
            A = sparse.csr_array((A.data, number[A.indices], A.indptr), shape=shape)
        else:
            A = number[A]
        found.append(Bend(A, bend.Q))
    return found


def _dense(matrix: Matrix) -> np.ndarray:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


def _times(Q: Any, values: np.ndarray) -> np.ndarray:
    if sparse.issparse(Q):
        return np.asarray(Q @ values)
    return np.asarray(Q * values if values.ndim == 1 else Q[:, None] * values)


def _by_columns(
    X: Matrix, bends: list[Bend], gradient: np.ndarray, ridge: np.ndarray
) -> np.ndarray:
    d, n_columns = len(gradient), X.shape[1]
    system = np.zeros((d, d))
    for bend in bends:
        picked = not sparse.issparse(bend.A)
        V = np.empty((len(bend.A) if picked else bend.A.shape[0], d))
        V[:, :n_columns] = _dense(X[bend.A] if picked else bend.A @ X)
        if d > n_columns:
            V[:, n_columns] = 1.0 if picked else bend.A.sum(axis=1)
        system += V.T @ _times(bend.Q, V)
    system[np.diag_indices(d)] += ridge
    return -solve_positive(system, gradient)


def _by_rows(X: Matrix, bends: list[Bend], gradient: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    m, n_columns = X.shape
    S = sparse.csr_array((m, m))
    for bend in bends:
        A, Q = bend.A, bend.Q
        if not sparse.issparse(A):
            A = sparse.csr_array((np.ones(len(A)), A, np.arange(len(A) + 1)), shape=(len(A), m))
        S = S + A.T @ ((Q if sparse.issparse(Q) else sparse.diags_array(Q, format="csr")) @ A)
    K = _dense(X @ X.T)
    z = gradient / ridge
    v = np.asarray(X @ z[:n_columns])
    if len(z) > n_columns:
        K += 1.0 / ridge[n_columns]
        v += z[n_columns]
    system = np.asarray(S @ K)
    if np.abs(system).max(initial=0.0) > _LARGE and not sparse.issparse(X):
        return _in_basis(X, bends, gradient, ridge)
    system[np.diag_indices(m)] += 1.0
    y = lu_solve(lu_factor(system, overwrite_a=True, check_finite=False), S @ v, check_finite=False)
    back = np.asarray(X.T @ y)
    if len(z) > n_columns:
        back = np.append(back, y.sum())
    return np.asarray(back / ridge - z)


def _in_basis(X: Matrix, bends: list[Bend], gradient: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """The same by columns of an orthonormal basis of the rows, with no digits lost to the rest."""
    n_columns = X.shape[1]
    root = np.sqrt(ridge[:n_columns])
    basis, coordinates = qr((X / root).T, mode="economic", check_finite=False)
    t = gradient[:n_columns] / root
    inside = basis.T @ t
    n_inside = len(inside)
    found = _by_columns(
        coordinates.T,
        bends,
        np.append(inside, gradient[n_columns:]),
        np.append(np.ones(n_inside), ridge[n_columns:]),
    )
    w = (basis @ (found[:n_inside] + inside) - t) / root
    return np.append(w, found[n_inside:])


def _by_products(
    X: Matrix, bends: list[Bend], gradient: np.ndarray, ridge: np.ndarray
) -> np.ndarray:
    m, n_columns = X.shape
    free = len(gradient) > n_columns
    Xt = X.T.tocsr() if sparse.issparse(X) else X.T
    adjoints = [bend.A.T.tocsr() if sparse.issparse(bend.A) else None for bend in bends]

    def product(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        scores = np.asarray(X @ x[:n_columns])
        if free:
            scores += x[n_columns]
        bent = np.zeros(m)
        for bend, adjoint in zip(bends, adjoints, strict=True):
            if adjoint is None:
                bent[bend.A] += _times(bend.Q, scores[bend.A])
            else:
                bent += adjoint @ _times(bend.Q, bend.A @ scores)
        back = np.asarray(Xt @ bent)
        return np.asarray(ridge * x + (np.append(back, bent.sum()) if free else back))

    # The diagonal from above: without what is taken off for means, and of S the diagonal alone.
    weights = np.zeros(m)
    for bend, adjoint in zip(bends, adjoints, strict=True):
        q = bend.Q.diagonal() if sparse.issparse(bend.Q) else np.maximum(bend.Q, 0.0)
        if adjoint is None:
            weights[bend.A] += q
        else:
            weights += adjoint.power(2) @ q
    diagonal = ridge.copy()
    diagonal[:n_columns] += (Xt.power(2) if sparse.issparse(Xt) else Xt**2) @ weights
    diagonal[n_columns:] += weights.sum()
    shape = (len(ridge), len(ridge))
    system = LinearOperator(shape, matvec=product, dtype=np.float64)
    scaling = LinearOperator(shape, matvec=lambda x: x.ravel() / diagonal, dtype=np.float64)
    # A rough direction will do: the line search follows it as far as it descends.
    found, _ = cg(system, -gradient, rtol=_ROUGH_DIRECTION, maxiter=_MAX_PRODUCTS, M=scaling)
    return np.asarray(found)
