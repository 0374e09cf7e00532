"""Inner products between instances, as far as a solver asks for them.

A support vector problem over many instances touches the rows of a few. Both classes answer two
questions, the inner products among some patterns and the scores that a combination of instances
gives to all; :class:`KernelGram` keeps each kernel row that it ever computed, until its share of
memory is used up.

A pattern is an instance, or the mean of the instances ``rows[starts[t]:starts[t + 1]]``; ``starts``
is None when each row is a pattern. ``rank`` bounds the rank of the whole matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, eigh

from ..._bags.segments import segment_mean

Rows = tuple[np.ndarray, np.ndarray | None]

__all__ = ["BLOCK_BYTES", "KernelGram", "LinearGram", "clipped_gram"]

# Size of a block where a whole matrix would be too large.
BLOCK_BYTES = 64 * 2**20


class LinearGram:
    """Plain inner products; never forms more than the Gram matrix of the patterns asked for."""

    def __init__(self, instances: Any) -> None:
        self.instances = instances
        self.n, self.rank = instances.shape

    def inner(self, left: Rows, right: Rows) -> np.ndarray:
        """Inner products between patterns, shape (n_left, n_right)."""
        vectors = [self._vectors(*side) for side in (left, right)]
        product = vectors[0] @ vectors[1].T
        return product.toarray() if sparse.issparse(product) else product

    def _vectors(self, rows: np.ndarray, starts: np.ndarray | None) -> Any:
        if starts is None:
            return self.instances[rows]
        sizes = np.diff(starts)
        shares = (np.repeat(1.0 / sizes, sizes), np.arange(len(rows)), starts)
        mixture = sparse.csr_array(shares, shape=(len(sizes), len(rows)))
        return mixture @ self.instances[rows]

    def scores(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Scores of all instances under the weight vector sum_r coef_r x_r, shape (n,)."""
        return self.instances @ self.weights(rows, coef)

    def weights(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """The weight vector sum_r coef_r x_r, shape (n_features,)."""
        return np.asarray(self.instances[rows].T @ coef)

    def expansion(self, rows: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows and coefficients with which the kernel reproduces the scores."""
        return rows, coef


class KernelGram:
    """Kernel rows, computed when first asked for and kept while ``cache_bytes`` lasts.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n, n_features)
    kernel : callable
        ``kernel(A, B)`` gives the matrix of shape (len(A), len(B)).
    cache_bytes : int
        Most that the kept rows may take. Past it, rows are computed again in blocks.
    """

    def __init__(
        self, instances: Any, kernel: Callable[[Any, Any], np.ndarray], cache_bytes: int
    ) -> None:
        self.instances = instances
        self.kernel = kernel
        self.n = self.rank = instances.shape[0]
        self.capacity = min(self.n, int(cache_bytes // (8 * max(self.n, 1))))
        self._forget()

    def _forget(self) -> None:
        self._slot = np.full(self.n, -1, dtype=np.intp)
        self._rows = np.empty((0, self.n))
        self._used = 0

    def __getstate__(self) -> dict[str, Any]:
        # Not even empty: joblib hands large arrays to workers as read-only memory maps.
        dropped = ("_slot", "_rows", "_used")
        return {name: value for name, value in self.__dict__.items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_slot" not in state:
            self._forget()

    def inner(self, left: Rows, right: Rows) -> np.ndarray:
        """Inner products between patterns, shape (n_left, n_right)."""
        if self._hold(left[0]):
            product = self._rows[np.ix_(self._slot[left[0]], right[0])]
        else:
            product = self.kernel(self.instances[left[0]], self.instances[right[0]])
        if left[1] is not None:
            product = segment_mean(product, left[1])
        if right[1] is not None:
            product = segment_mean(product.T, right[1]).T
        return product

    def scores(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Scores of all instances under the function sum_r coef_r k(x_r, .), shape (n,)."""
        used = np.flatnonzero(coef)
        rows, coef = rows[used], coef[used]
        if self._hold(rows):
            if 3 * len(rows) < self._used:
                return coef @ self._rows[self._slot[rows]]
            weights = np.bincount(self._slot[rows], weights=coef, minlength=self._used)
            return weights @ self._rows[: self._used]
        support = self.instances[rows]
        step = max(1, BLOCK_BYTES // (8 * max(len(rows), 1)))
        blocks = [
            self.kernel(self.instances[start : start + step], support) @ coef
            for start in range(0, self.n, step)
        ]
        return np.concatenate(blocks)

    def expansion(self, rows: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows and coefficients with which the kernel reproduces the scores."""
        return rows, coef

    def _hold(self, rows: np.ndarray) -> bool:
        """Whether all given rows are kept, after computing those that still find room."""
        missing = np.unique(rows[self._slot[rows] < 0])
        if len(missing) == 0:
            return True
        needed = self._used + len(missing)
        if needed > self.capacity:
            return False
        if len(self._rows) == 0:
            # Address space only: memory is taken row by row as rows are written.
            self._rows = np.empty((self.capacity, self.n))
        step = max(1, BLOCK_BYTES // (8 * self.n))
        for start in range(0, len(missing), step):
            part = missing[start : start + step]
            end = self._used + len(part)
            self._rows[self._used : end] = self.kernel(self.instances[part], self.instances)
            self._slot[part] = np.arange(self._used, end)
            self._used = end
        return True


class _ClippedGram(KernelGram):
    """An indefinite kernel matrix with its negative part dropped, K+ = K Pi.

    ``Pi`` projects onto the eigenvectors of positive eigenvalues, so that coefficients ``c`` over
    K+ are coefficients ``Pi c`` over the kernel itself.
    """

    def __init__(self, instances: Any, vectors: np.ndarray, values: np.ndarray) -> None:
        super().__init__(instances, _no_kernel, 8 * instances.shape[0] ** 2)
        self._basis = vectors
        self._rows = (vectors * values) @ vectors.T
        self._slot = np.arange(self.n)
        self._used = self.n

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def expansion(self, rows: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(self.n), self._basis @ (coef @ self._basis[rows])


def _no_kernel(left: Any, right: Any) -> np.ndarray:
    raise AssertionError("all rows of a clipped kernel matrix are kept")


def clipped_gram(gram: KernelGram) -> tuple[KernelGram, float]:
    """The same kernel matrix if it is positive semidefinite, else without its negative part.

    Returns
    -------
    gram : KernelGram
    smallest : float
        Smallest eigenvalue as a share of the largest in absolute value; 0.0 when semidefinite.

    Raises
    ------
    MemoryError
        When the whole matrix finds no room in the cache.
    """
    if gram.capacity < gram.n:
        raise MemoryError(
            f"A kernel that may be indefinite needs its whole matrix of {gram.n} x {gram.n} "
            f"numbers ({8 * gram.n**2 / 2**20:.0f} MiB): raise cache_size, or use the linear, rbf "
            "or polynomial kernel with coef0 >= 0."
        )
    everything = (np.arange(gram.n), None)
    matrix = gram.inner(everything, everything)
    matrix = 0.5 * (matrix + matrix.T)
    try:
        jitter = 1e-10 * max(float(np.abs(np.diagonal(matrix)).max()), 1e-300)
        cholesky(matrix + jitter * np.eye(gram.n), check_finite=False)
    except LinAlgError:
        values, vectors = eigh(matrix, check_finite=False)
        keep = values > 1e-12 * np.abs(values).max()
        share = float(values[0] / np.abs(values).max())
        return _ClippedGram(gram.instances, vectors[:, keep], values[keep]), share
    return gram, 0.0
