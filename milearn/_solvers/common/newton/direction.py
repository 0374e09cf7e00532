"""Newton's direction of a smoothed problem, for w and the variables without a norm.

The system is R + X'SX with a diagonal R, the rows X with the coefficients of the free variables,
and a curvature S of the rows that is as sparse as groups and links. There are three methods:

* few rows with curvature: Woodbury's identity, with I + S K over the kernel of these rows, unless
  the identity cancels and one of the other methods serves;
* few columns: the system itself;
* otherwise: conjugate gradients, with one product with X and S per iteration.

In double precision R is lost if it is smaller than the rounding error of X'SX. If X has a low rank,
a pivot of the Cholesky factorisation may then be zero or negative, and the direction may be
arbitrarily long. For such a system, a bound of the rounding error is added to the diagonal. The
solution is still that of a positive definite system, hence a descent direction, and its products
with the rows are the same up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, lu_factor, lu_solve
from scipy.linalg.lapack import dpotrf
from scipy.sparse.linalg import LinearOperator, cg

from ...._bags.segments import bag_ranges
from ...._bags.threads import in_threads
from ....exceptions import SolverError

Matrix = Any  # an ndarray or a CSR matrix

# Maximum number of rows with curvature whose kernel is formed, and of sparse rows if their columns
# exceed the next limit.
_FEW_ROWS, _FEW_SPARSE_ROWS = 1500, 400
# Maximum number of columns, and of entries in sparse rows, for which the system is formed.
_DENSE_COLUMNS, _DENSE_NUMBERS = 400, 2**23
# Of conjugate gradients: residual as a fraction of the gradient, and maximum number of products.
_RESIDUAL, _MAX_PRODUCTS = 0.05, 100
# Above these sizes of the system of the rows, Woodbury's identity cancels, and it may be singular.
_LARGE, _SINGULAR = 1e8, 1e14
# Values of a block of rows that fits into a cache, and sums over some of the blocks, at the most,
# whatever the number of threads.
_AT_ONCE, _N_SUMS = 2**18, 8
_EPS = float(np.finfo(np.float64).eps)
# Factor for further increases of the diagonal, and their maximum number.
_AGAIN, _TIMES = 100.0, 6


@dataclass(frozen=True)
class Part:
    """A part A'QA of S, with a CSR matrix A; a diagonal Q, not negative, is given as a vector.

    Any other Q has products ``Q @ values`` with one or two dimensions, ``gram(V)``, which is V'QV,
    unless it is a matrix, and ``diagonal()``, of which an upper bound is sufficient.
    """

    A: Any
    Q: Any

    @cached_property
    def adjoint(self) -> Any:
        """A', also in rows, because conjugate gradients multiply with it many times."""
        return self.A.T.tocsr()

    @property
    def rows(self) -> np.ndarray:
        """The rows of X that occur, with repetitions."""
        return np.asarray(self.A.indices)

    def within(self, rows: np.ndarray) -> Part:
        """The same part for the given rows of X, among which all of its own are."""
        return Part(self.A[:, rows], self.Q)

    def blocks(self, width: int) -> list[Any]:
        """Lists of ranges of rows of A, whose sums :meth:`squared` returns; one of any other Q."""
        if isinstance(self.Q, np.ndarray):
            return _shared_blocks(self.A.indptr, width)
        return [[(0, self.A.shape[0])]]

    def squared(self, X: Matrix, E: np.ndarray, blocks: Any) -> Any:
        """The sum of (X, E)'A'QA(X, E) over some rows of A."""
        total: Any = 0.0
        for first, last in blocks:
            ends = self.A.indptr[first : last + 1]
            part = slice(ends[0], ends[-1])
            rows, data = self.A.indices[part], self.A.data[part]
            shape = (last - first, len(rows))
            A = sparse.csr_array((data, np.arange(len(rows)), ends - ends[0]), shape)
            V = np.asarray(A @ _side_by_side(X, E, rows))
            if isinstance(self.Q, np.ndarray):
                V = np.sqrt(self.Q[first:last, None]) * V
                total = total + V.T @ V
            else:
                total = V.T @ (self.Q @ V) if sparse.issparse(self.Q) else self.Q.gram(V)
        return total

    def bent(self, values: np.ndarray) -> np.ndarray:
        """A'QA times values."""
        moved = self.A @ values
        moved = (self.Q * moved.T).T if isinstance(self.Q, np.ndarray) else self.Q @ moved
        return np.asarray(self.adjoint @ moved)

    def diagonal(self, n: int) -> np.ndarray:
        """An upper bound of the diagonal of A'QA for n rows, without the off-diagonal of Q."""
        entries = self.Q if isinstance(self.Q, np.ndarray) else self.Q.diagonal()
        return np.asarray(self.adjoint.power(2) @ entries)


@dataclass(frozen=True)
class GroupPart:
    """A part M'WM of S: rows in groups, of which M subtracts a fraction of the sum of their group.

    Rows increase, groups begin at ``starts``, and W is a positive weight for each row that is the
    same within a group.
    """

    rows: np.ndarray
    weights: np.ndarray
    starts: np.ndarray
    share: np.ndarray

    def within(self, rows: np.ndarray) -> GroupPart:
        """The same part for the given rows of X, among which all of its own are."""
        place = np.searchsorted(rows, self.rows)
        return GroupPart(place, self.weights, self.starts, self.share)

    def blocks(self, width: int) -> list[Any]:
        """Lists of ranges of groups, whose sums :meth:`squared` returns."""
        return _shared_blocks(np.append(self.starts, len(self.rows)), width)

    def squared(self, X: Matrix, E: np.ndarray, blocks: Any) -> Any:
        """The sum of (X, E)'M'WM(X, E) over some groups."""
        ends, total = np.append(self.starts, len(self.rows)), 0.0
        for first, last in blocks:
            part = slice(ends[first], ends[last])
            rows, starts = self.rows[part], self.starts[first:last] - ends[first]
            V = _without_sums(_side_by_side(X, E, rows), starts, self.share[first:last])
            V *= np.sqrt(self.weights[part, None])
            total = total + V.T @ V
        return total

    def bent(self, values: np.ndarray) -> np.ndarray:
        """M'WM times values."""
        moved = _without_sums(values[self.rows], self.starts, self.share)
        moved = (self.weights * moved.T).T
        found = np.zeros_like(values)
        found[self.rows] = _without_sums(moved, self.starts, self.share)
        return found

    def diagonal(self, n: int) -> np.ndarray:
        """An upper bound of the diagonal of M'WM for n rows."""
        found = np.zeros(n)
        found[self.rows] = self.weights
        return found


def _side_by_side(X: Matrix, E: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Some rows of (X, E)."""
    some = X[rows]
    return np.hstack([some.toarray() if sparse.issparse(some) else some, E[rows]])


def _shared_blocks(ends: np.ndarray, width: int) -> list[Any]:
    """Ranges of groups, of rows that fit into a cache, in lists that threads share."""
    blocks = [*bag_ranges(ends, max(width, _AT_ONCE // width))]
    step = max(1, -(-len(blocks) // _N_SUMS))
    return [blocks[number : number + step] for number in range(0, len(blocks), step)]


def _without_sums(values: np.ndarray, starts: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Values minus a fraction of the sum of their group."""
    if not share.any():
        return values
    sums = np.add.reduceat(values, starts, axis=0)
    lost = (share * sums.T).T
    return np.asarray(values - np.repeat(lost, np.diff(np.append(starts, len(values))), axis=0))


def newton_direction(
    X: Matrix,
    E: np.ndarray,
    parts: list[Any],
    gradient: np.ndarray,
    ridge: np.ndarray,
    K: np.ndarray | None = None,
) -> np.ndarray:
    """-(R + (X, E)'S(X, E))^-1 times the gradient.

    Parameters
    ----------
    X : matrix of shape (n_rows, n_columns)
    E : ndarray of shape (n_rows, n_free)
    parts : list of Part and GroupPart
        S is their sum.
    gradient, ridge : ndarray of shape (n_columns + n_free,)
        The diagonal of R is the ridge.
    K : ndarray of shape (n_rows, n_rows), default=None
        X X' if it is known.
    """
    d = len(gradient)
    parts = [part for part in parts if part.rows.size]
    if not parts:
        return np.asarray(-gradient / ridge)
    used = np.zeros(X.shape[0], dtype=bool)
    for part in parts:
        used[part.rows] = True
    rows = np.flatnonzero(used)
    few_rows = d if K is not None else min(d, _FEW_ROWS)
    if sparse.issparse(X) and d > _DENSE_COLUMNS:
        few_rows = min(few_rows, _FEW_SPARSE_ROWS)
    few = len(rows) < few_rows
    formed = not sparse.issparse(X) or len(rows) * d <= _DENSE_NUMBERS
    by_columns = d <= _DENSE_COLUMNS and formed
    if few or not by_columns:
        parts = [part.within(rows) for part in parts]
        X, E = X[rows] if sparse.issparse(X) else np.asarray(X[rows], dtype=np.float64), E[rows]
    if few:
        found = _by_rows(X, E, parts, gradient, ridge, None if K is None else K[np.ix_(rows, rows)])
        if found is not None:
            return found
        by_columns = X.shape[1] <= _DENSE_COLUMNS
    if not by_columns:
        return _by_products(X, E, parts, gradient, ridge)
    system = np.diag(ridge)
    for part in parts:
        for total in in_threads(partial(part.squared, X, E), part.blocks(d)):
            system += total
    return -solve_positive(system, gradient)


def solve_positive(system: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Solution of a symmetric system that is positive definite in exact arithmetic.

    Entries that are differences of larger numbers may have lost all digits. Then the rounding error
    is not in proportion to them, but to the largest entry.

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
        scales = diagonal, np.full(len(diagonal), diagonal.max())
        for scale, power in ((scale, power) for scale in scales for power in range(_TIMES)):
            raised = system.copy()
            raised[np.diag_indices(len(diagonal))] += share * _AGAIN**power * scale
            factor, info = dpotrf(raised, lower=1, clean=0)
            if info == 0:
                break
        else:
            raise SolverError("A Newton system is not positive definite: scale the features.")
    return np.asarray(cho_solve((factor, True), target, check_finite=False))


def _by_rows(
    X: Matrix, E: np.ndarray, parts: list[Any], gradient: np.ndarray, ridge: np.ndarray, K: Any
) -> np.ndarray | None:
    """The direction by Woodbury's identity; None where it cancels and another method serves."""
    m, n = X.shape
    kernel: Matrix = K
    if K is None or (ridge[:n] != 1.0).any():
        scaled = X.multiply(1.0 / ridge[:n]).tocsr() if sparse.issparse(X) else X / ridge[:n]
        kernel = scaled @ X.T
    kernel = kernel.toarray() if sparse.issparse(kernel) else kernel
    # S times values of the rows.
    system = parts[0].bent(kernel)
    for part in parts[1:]:
        system = system + part.bent(kernel)
    if np.abs(system).max(initial=0.0) > (_LARGE if n <= _DENSE_COLUMNS else _SINGULAR):
        return None
    # The free variables are eliminated from the system by themselves: in the kernel, their part
    # would be divided by a ridge that may be arbitrarily small.
    system[np.diag_indices(m)] += 1.0
    values = np.column_stack([np.asarray(X @ (gradient[:n] / ridge[:n])), E])
    target = parts[0].bent(values)
    for part in parts[1:]:
        target = target + part.bent(values)
    solved = lu_solve(lu_factor(system, overwrite_a=True, check_finite=False), target)
    y, of_free, free = solved[:, 0], solved[:, 1:], np.zeros(0)
    if E.shape[1]:
        curvature = E.T @ of_free
        curvature = 0.5 * (curvature + curvature.T) + np.diag(ridge[n:])
        free = solve_positive(curvature, E.T @ y - gradient[n:])
    y = y - of_free @ free
    return np.append((np.asarray(X.T @ y) - gradient[:n]) / ridge[:n], free)


def _by_products(
    X: Matrix, E: np.ndarray, parts: list[Any], gradient: np.ndarray, ridge: np.ndarray
) -> np.ndarray:
    n, Xt = X.shape[1], X.T.tocsr() if sparse.issparse(X) else X.T

    def product(x: np.ndarray) -> np.ndarray:
        x = x.ravel()
        values = np.asarray(X @ x[:n]) + E @ x[n:]
        bent = parts[0].bent(values)
        for part in parts[1:]:
            bent = bent + part.bent(values)
        return np.asarray(ridge * x + np.append(np.asarray(Xt @ bent), E.T @ bent))

    # Upper bound of the diagonal: ignores the correction for means and the off-diagonal of S.
    weights = np.sum([part.diagonal(len(E)) for part in parts], axis=0)
    squares = (Xt.power(2) if sparse.issparse(Xt) else Xt**2) @ weights
    diagonal = ridge + np.append(squares, (E * E).T @ weights)
    shape = (len(ridge), len(ridge))
    system = LinearOperator(shape, matvec=product, dtype=np.float64)
    scaling = LinearOperator(shape, matvec=lambda x: x.ravel() / diagonal, dtype=np.float64)
    # An approximate direction is sufficient, because a line search follows.
    found, _ = cg(system, -gradient, rtol=_RESIDUAL, maxiter=_MAX_PRODUCTS, M=scaling)
    return np.asarray(found)
