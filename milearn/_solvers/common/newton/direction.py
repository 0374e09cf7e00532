"""Newton's direction of a smoothed problem, for w and the variables without a norm.

The system is R + X'SX with a diagonal R, the rows X with the coefficients of the free variables,
and a curvature S of the rows that is as sparse as groups and links. There are three methods:

* few rows with curvature: Woodbury's identity, with I + S K over the kernel of these rows;
* few columns: the system itself;
* otherwise: conjugate gradients, with one product with X and S per iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lu_factor, lu_solve, qr
from scipy.sparse.linalg import LinearOperator, cg

from ...._bags.segments import gather_rows
from ...._bags.threads import in_threads
from .cholesky import solve_positive

Matrix = Any  # an ndarray or a CSR matrix

# Above this size of the system of the rows, Woodbury's identity cancels catastrophically.
_LARGE = 1e8


@dataclass(frozen=True)
class Limits:
    """Sizes that determine the method, and stopping criteria of conjugate gradients."""

    # Maximum number of rows with curvature whose kernel is formed, and of sparse rows if their
    # columns exceed the next limit.
    few_rows: int = 1500
    few_sparse_rows: int = 300
    # Maximum number of columns, and of entries in sparse rows, for which the system is formed.
    dense_columns: int = 400
    dense_numbers: int = 2**23
    # Residual as a fraction of the gradient, and maximum number of products.
    residual: float = 0.05
    max_products: int = 100


@dataclass(frozen=True)
class Pooled:
    """A part A'QA of S; A may be given as row numbers, and a diagonal Q as a vector.

    Any other Q has products ``Q @ values`` with one or two dimensions, ``gram(V)``, which is V'QV,
    and ``diagonal()``, of which an upper bound is sufficient.
    """

    A: Any
    Q: Any

    @property
    def rows(self) -> np.ndarray:
        return np.asarray(self.A.indices if sparse.issparse(self.A) else self.A)

    def renumbered(self, number: np.ndarray, n: int) -> Pooled:
        """The same where rows have other numbers."""
        A = self.A
        if not sparse.issparse(A):
            return Pooled(number[A], self.Q)
        moved = sparse.csr_array((A.data, number[A.indices], A.indptr), shape=(A.shape[0], n))
        return Pooled(moved, self.Q)

    def add_to(self, system: np.ndarray, X: Matrix, E: np.ndarray) -> None:
        """Add (X, E)'A'QA(X, E)."""
        picked, n = not sparse.issparse(self.A), X.shape[1]
        V = np.empty((self.A.shape[0], len(system)))
        V[:, :n] = _dense(X[self.A] if picked else self.A @ X)
        V[:, n:] = E[self.A] if picked else self.A @ E
        system += V.T @ _times(self.Q, V) if _is_matrix(self.Q) else self.Q.gram(V)

    def pooled(self, n: int) -> list[Pooled]:
        """Parts with a matrix A."""
        if sparse.issparse(self.A):
            return [self]
        m = len(self.A)
        return [Pooled(sparse.csr_array((np.ones(m), self.A, np.arange(m + 1)), (m, n)), self.Q)]


@dataclass(frozen=True)
class Rows:
    """Rows with positive weights, minus a fraction of the sum of their group.

    Groups begin at ``starts`` and have one weight for all rows; ``starts`` is empty without groups.
    """

    rows: np.ndarray
    weights: np.ndarray
    starts: np.ndarray
    share: np.ndarray

    def renumbered(self, number: np.ndarray, n: int) -> Rows:
        """The same where rows have other numbers."""
        return Rows(number[self.rows], self.weights, self.starts, self.share)

    def add_to(
        self,
        system: np.ndarray,
        X: Matrix,
        E: np.ndarray,
        *,
        at_once: int = 2**18,
        n_sums: int = 8,
    ) -> None:
        """Add the sum over rows of weight times row'row; threads share the rows.

        Blocks of about ``at_once`` values fit into a cache. At most ``n_sums`` sums over some of
        them are added, whatever the number of threads.
        """
        d = len(system)
        chunks = list(self._chunks(max(d, at_once // d)))
        if len(chunks) == 1:
            self._add_chunk(system, chunks[0], X, E)
            return
        step = -(-len(chunks) // n_sums)

        def summed(first: int) -> np.ndarray:
            total = np.zeros((d, d))
            for chunk in chunks[first : first + step]:
                self._add_chunk(total, chunk, X, E)
            return total

        for total in in_threads(summed, range(0, len(chunks), max(1, step))):
            system += total

    def _add_chunk(
        self, system: np.ndarray, chunk: tuple[int, int, slice], X: Matrix, E: np.ndarray
    ) -> None:
        first, last, groups = chunk
        A, n = np.empty((last - first, len(system))), X.shape[1]
        rows, scale = self.rows[first:last], np.sqrt(self.weights[first:last])[:, None]
        np.multiply(_dense(X[rows]), scale, out=A[:, :n])
        np.multiply(E[rows], scale, out=A[:, n:])
        system += A.T @ A
        shared = np.flatnonzero(self.share[groups])
        if len(shared):
            starts, share = self.starts[groups] - first, self.share[groups][shared]
            sizes = np.diff(np.r_[starts, last - first])[shared]
            members, offsets = gather_rows(np.r_[starts, last - first], shared)
            roots = np.repeat(np.sqrt(share * (2.0 - sizes * share)), sizes)
            # reduceat would take ten times as long.
            pooling = sparse.csr_array((roots, members, offsets), (len(shared), len(A)))
            sums = pooling @ A
            system -= sums.T @ sums

    def _chunks(self, most: int) -> Iterator[tuple[int, int, slice]]:
        """First and last row, and groups, of chunks of whole groups with about ``most`` rows."""
        n_rows, starts = len(self.rows), self.starts
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

    def pooled(self, n: int) -> list[Pooled]:
        """Parts with a matrix A: the rows, and the correction for the sums of groups."""
        plain = Pooled(self.rows, self.weights).pooled(n)
        if not self.share.any():
            return plain
        sizes = np.diff(np.r_[self.starts, len(self.rows)])
        ends, shape = np.r_[self.starts, len(self.rows)], (len(self.starts), n)
        sums = sparse.csr_array((np.ones(len(self.rows)), self.rows, ends), shape)
        lost = self.weights[self.starts] * self.share * (2.0 - sizes * self.share)
        return [*plain, Pooled(sums, -lost)]


Part = Pooled | Rows


def newton_direction(
    matrix: tuple[Matrix, np.ndarray],
    parts: list[Part],
    gradient: np.ndarray,
    ridge: np.ndarray,
    limits: Limits | None = None,
) -> np.ndarray:
    """-(R + (X, E)'S(X, E))^-1 times the gradient.

    Parameters
    ----------
    matrix : tuple of X, of shape (n_rows, n_columns), and E, of shape (n_rows, n_free)
    parts : list of Part
        S is their sum.
    gradient, ridge : ndarray of shape (n_columns + n_free,)
        The diagonal of R is the ridge.
    limits : Limits, default=None
    """
    (X, E), d, limits = matrix, len(gradient), limits or Limits()
    parts = [part for part in parts if len(part.rows)]
    if not parts:
        return np.asarray(-gradient / ridge)
    used = np.zeros(X.shape[0], dtype=bool)
    for part in parts:
        used[part.rows] = True
    rows = np.flatnonzero(used)
    few_rows = min(d, limits.few_rows)
    if sparse.issparse(X) and d > limits.dense_columns:
        few_rows = min(few_rows, limits.few_sparse_rows)
    few = len(rows) < few_rows
    formed = not sparse.issparse(X) or len(rows) * d <= limits.dense_numbers
    if not few and d <= limits.dense_columns and formed:
        return _by_columns(matrix, parts, gradient, ridge)
    number = np.cumsum(used) - 1
    parts = [part.renumbered(number, len(rows)) for part in parts]
    X = X[rows] if sparse.issparse(X) else np.asarray(X[rows], dtype=np.float64)
    if few:
        return _by_rows((X, E[rows]), parts, gradient, ridge, limits)
    return _by_products((X, E[rows]), parts, gradient, ridge, limits)


def _dense(matrix: Matrix) -> np.ndarray:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


def _is_matrix(Q: Any) -> bool:
    return isinstance(Q, np.ndarray) or sparse.issparse(Q)


def _times(Q: Any, values: np.ndarray) -> np.ndarray:
    if not isinstance(Q, np.ndarray):
        return np.asarray(Q @ values)
    return np.asarray(Q * values if values.ndim == 1 else Q[:, None] * values)


def _bent(pooled: list[Pooled], values: np.ndarray) -> np.ndarray:
    """S times values of all rows, of parts with a matrix A."""
    found = [each.A.T @ _times(each.Q, each.A @ values) for each in pooled]
    return np.asarray(np.sum(found, axis=0))


def _by_columns(
    matrix: tuple[Matrix, np.ndarray], parts: list[Part], gradient: np.ndarray, ridge: np.ndarray
) -> np.ndarray:
    system = np.diag(ridge)
    for part in parts:
        part.add_to(system, *matrix)
    return -solve_positive(system, gradient)


def _by_rows(
    matrix: tuple[Matrix, np.ndarray],
    parts: list[Part],
    gradient: np.ndarray,
    ridge: np.ndarray,
    limits: Limits,
) -> np.ndarray:
    (X, E), (m, n) = matrix, matrix[0].shape
    pooled = [each for part in parts for each in part.pooled(m)]
    scaled = X.multiply(1.0 / ridge[:n]).tocsr() if sparse.issparse(X) else X / ridge[:n]
    system = _bent(pooled, _dense(scaled @ X.T))
    fits = not sparse.issparse(X) or m * n <= limits.dense_numbers
    if np.abs(system).max(initial=0.0) > _LARGE and fits:
        return _in_basis((_dense(X), E), parts, gradient, ridge)
    # The free variables are eliminated from the system by themselves: in the kernel, their part
    # would be divided by a ridge that may be arbitrarily small.
    system[np.diag_indices(m)] += 1.0
    target = _bent(pooled, np.column_stack([np.asarray(X @ (gradient[:n] / ridge[:n])), E]))
    solved = lu_solve(lu_factor(system, overwrite_a=True, check_finite=False), target)
    y, of_free, free = solved[:, 0], solved[:, 1:], np.zeros(0)
    if E.shape[1]:
        curvature = E.T @ of_free
        curvature = 0.5 * (curvature + curvature.T) + np.diag(ridge[n:])
        free = solve_positive(curvature, E.T @ y - gradient[n:])
    y = y - of_free @ free
    return np.append((np.asarray(X.T @ y) - gradient[:n]) / ridge[:n], free)


def _in_basis(
    matrix: tuple[np.ndarray, np.ndarray],
    parts: list[Part],
    gradient: np.ndarray,
    ridge: np.ndarray,
) -> np.ndarray:
    """The direction in an orthonormal basis of the rows, without cancellation outside of it."""
    (X, E), n = matrix, matrix[0].shape[1]
    root = np.sqrt(ridge[:n])
    basis, coordinates = qr((X / root).T, mode="economic", check_finite=False)
    t = gradient[:n] / root
    inside = basis.T @ t
    k = len(inside)
    found = _by_columns(
        (coordinates.T, E),
        parts,
        np.append(inside, gradient[n:]),
        np.append(np.ones(k), ridge[n:]),
    )
    return np.append((basis @ (found[:k] + inside) - t) / root, found[k:])


def _by_products(
    matrix: tuple[Matrix, np.ndarray],
    parts: list[Part],
    gradient: np.ndarray,
    ridge: np.ndarray,
    limits: Limits,
) -> np.ndarray:
    (X, E), (m, n) = matrix, matrix[0].shape
    Xt = X.T.tocsr() if sparse.issparse(X) else X.T
    pooled = [(each.A, each.A.T.tocsr(), each.Q) for part in parts for each in part.pooled(m)]

    def product(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        scores = np.asarray(X @ x[:n]) + E @ x[n:]
        bent = np.zeros(m)
        for A, adjoint, Q in pooled:
            bent += adjoint @ _times(Q, A @ scores)
        return np.asarray(ridge * x + np.append(np.asarray(Xt @ bent), E.T @ bent))

    # Upper bound of the diagonal: ignores the correction for means and the off-diagonal of S.
    weights = np.zeros(m)
    for _, adjoint, Q in pooled:
        entries = np.maximum(Q, 0.0) if isinstance(Q, np.ndarray) else Q.diagonal()
        weights += adjoint.power(2) @ entries
    squares = (Xt.power(2) if sparse.issparse(Xt) else Xt**2) @ weights
    diagonal = ridge + np.append(squares, (E * E).T @ weights)
    shape = (len(ridge), len(ridge))
    system = LinearOperator(shape, matvec=product, dtype=np.float64)
    scaling = LinearOperator(shape, matvec=lambda x: x.ravel() / diagonal, dtype=np.float64)
    # An approximate direction is sufficient, because a line search follows.
    found, _ = cg(system, -gradient, rtol=limits.residual, maxiter=limits.max_products, M=scaling)
    return np.asarray(found)
