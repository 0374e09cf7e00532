"""Inner products between instances, computed on demand.

A support vector problem over many instances only needs the kernel rows of a few. All classes have
the same interface: inner products between instances, and the scores of all instances under a
combination of instances. :class:`KernelGram` caches every kernel row that it computes, as long as
there is space.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, eigh

from ..._bags.warn import warn_user

# An array that may be dense or CSR.
Matrix = Any
Kernel = Callable[[Matrix, Matrix], np.ndarray]

# Size of a block if the whole matrix would be too large.
KERNEL_BLOCK_BYTES = 64 * 2**20
# Size of a block of cached rows that is copied before it is multiplied. It fits into the
# processor's cache.
_COPY_BYTES = 2**19


@dataclass(frozen=True)
class KernelExpansion:
    """Functions of rows: expansions of a kernel over vectors, ``coef`` of shape (k, n_vectors)."""

    kernel: Kernel
    vectors: Matrix
    coef: np.ndarray

    def __call__(self, rows: Matrix) -> np.ndarray:
        """Values of shape (n_rows, k), in blocks."""
        n_vectors, scores = self.vectors.shape[0], np.zeros((rows.shape[0], len(self.coef)))
        step = max(1, KERNEL_BLOCK_BYTES // (8 * max(1, n_vectors)))
        for first in range(0, len(scores) if n_vectors else 0, step):
            part = slice(first, first + step)
            scores[part] = self.kernel(rows[part], self.vectors) @ self.coef.T
        return scores


class Gram(Protocol):
    """Inner products of n instances."""

    # Of shape (n, n_columns).
    instances: Matrix
    n: int
    # Upper bound of the rank of the whole matrix.
    rank: int

    def inner(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Inner products between rows, shape (n_left, n_right)."""

    def scores(self, coef: np.ndarray) -> np.ndarray:
        """Scores of all instances under the function sum_r coef_r <x_r, .>, shape (n,)."""

    def expansion(self, coef: np.ndarray) -> np.ndarray:
        """Coefficients with which the kernel reproduces the scores."""
        return coef

    def vectors(self) -> Matrix | None:
        """Vectors of all instances; None if there are no explicit features."""
        return None


class LinearGram(Gram):
    """Linear inner products; forms only the Gram matrix of the requested patterns."""

    def __init__(self, instances: Matrix) -> None:
        self.instances = instances
        self.n, self.rank = instances.shape

    def inner(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Inner products between rows, shape (n_left, n_right)."""
        product = self.instances[left] @ self.instances[right].T
        return np.asarray(product.toarray() if sparse.issparse(product) else product)

    def scores(self, coef: np.ndarray) -> np.ndarray:
        """Scores of all instances under the weight vector sum_r coef_r x_r, shape (n,)."""
        used = np.flatnonzero(coef)
        return np.asarray(self.instances @ np.asarray(self.instances[used].T @ coef[used]))

    def vectors(self) -> Matrix:
        """Vectors of all instances."""
        return self.instances


class KernelGram(Gram):
    """Kernel rows, computed on first use and cached up to a size of ``cache_bytes``.

    An object can be shared by threads: rows are added under a lock, and become visible only when
    they are complete. The cache is not pickled.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n, n_features)
    kernel : callable
        ``kernel(A, B)`` returns the matrix of shape (len(A), len(B)).
    cache_bytes : float
        Maximum size of the cache. Further rows are recomputed in blocks.
    """

    def __init__(self, instances: Matrix, kernel: Kernel, cache_bytes: float) -> None:
        self.instances = instances
        self.kernel = kernel
        self.n = self.rank = instances.shape[0]
        self.capacity = min(self.n, int(cache_bytes // (8 * max(self.n, 1))))
        self._slot = np.full(self.n, -1, dtype=np.intp)
        self._rows = np.empty((0, self.n))
        self._used = 0
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the cache: joblib passes large arrays to workers as read-only memory maps.
        return KernelGram, (self.instances, self.kernel, 8 * self.n * self.capacity)

    def inner(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Inner products between rows, shape (n_left, n_right)."""
        slots = self._slots(left)
        if slots is not None:
            return np.asarray(self._rows[np.ix_(slots, right)])
        return np.asarray(self.kernel(self.instances[left], self.instances[right]))

    def scores(self, coef: np.ndarray) -> np.ndarray:
        """Scores of all instances under the function sum_r coef_r k(x_r, .), shape (n,)."""
        rows = np.flatnonzero(coef)
        coef = coef[rows]
        slots = self._slots(rows)
        if slots is not None:
            # Use only the given rows: the last digits must not depend on the rest of the cache.
            total = np.zeros(self.n)
            step = max(1, _COPY_BYTES // (8 * max(self.n, 1)))
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                total += coef[part] @ self._rows[slots[part]]
            return total
        support = self.instances[rows]
        step = max(1, KERNEL_BLOCK_BYTES // (8 * max(len(rows), 1)))
        blocks = [
            self.kernel(self.instances[start : start + step], support) @ coef
            for start in range(0, self.n, step)
        ]
        return np.concatenate(blocks)

    def _slots(self, rows: np.ndarray) -> np.ndarray | None:
        """Positions of the given rows in the cache, after adding new ones while there is space."""
        slots = self._slot[rows]
        if (slots >= 0).all():
            return np.asarray(slots)
        with self._lock:
            missing = np.unique(rows[self._slot[rows] < 0])
            if self._used + len(missing) > self.capacity:
                return None
            if len(self._rows) == 0:
                # This reserves only address space: memory is allocated when rows are written.
                self._rows = np.empty((self.capacity, self.n))
            step = max(1, KERNEL_BLOCK_BYTES // (8 * self.n))
            for start in range(0, len(missing), step):
                part = missing[start : start + step]
                end = self._used + len(part)
                self._rows[self._used : end] = self.kernel(self.instances[part], self.instances)
                self._slot[part] = np.arange(self._used, end)
                self._used = end
        return np.asarray(self._slot[rows])


class _ClippedGram(KernelGram):
    """An indefinite kernel matrix without its negative part, K+ = K Pi.

    ``Pi`` projects onto the eigenvectors of positive eigenvalues, so coefficients ``c`` over K+
    are coefficients ``Pi c`` over the kernel.
    """

    def __init__(self, gram: KernelGram, basis: np.ndarray, rows: np.ndarray) -> None:
        super().__init__(gram.instances, gram.kernel, 8 * gram.n**2)
        self._basis, self._rows = basis, rows
        self._slot = np.arange(self.n)
        self._used = self.n

    def __reduce__(self) -> tuple[Any, ...]:
        # With the matrix, which is constant: workers share a memory map of it.
        return _ClippedGram, (KernelGram(self.instances, self.kernel, 0.0), self._basis, self._rows)

    def expansion(self, coef: np.ndarray) -> np.ndarray:
        return np.asarray(self._basis @ (coef @ self._basis))


def clipped_gram(gram: KernelGram, n_workers: int = 1) -> KernelGram:
    """The same kernel matrix if it is positive semidefinite, otherwise without its negative part.

    Parameters
    ----------
    gram : KernelGram
    n_workers : int, default=1
        Workers that share the size of its cache, unless they share the matrix without its negative
        part.

    Returns
    -------
    KernelGram

    Raises
    ------
    MemoryError
        If the whole matrix does not fit into the cache.

    Warns
    -----
    UserWarning
        If the matrix is indefinite.
    """
    if gram.capacity < gram.n:
        raise MemoryError(
            f"A kernel that may be indefinite needs its whole matrix of {gram.n} x {gram.n} "
            f"numbers ({8 * gram.n**2 / 2**20:.0f} MiB): raise scikit-learn's working_memory, "
            "give n_components= (300, say), or use the linear, rbf or polynomial kernel."
        )
    everything = np.arange(gram.n)
    matrix = gram.inner(everything, everything)
    matrix = 0.5 * (matrix + matrix.T)
    try:
        jitter = 1e-10 * max(float(np.abs(np.diagonal(matrix)).max()), 1e-300)
        cholesky(matrix + jitter * np.eye(gram.n), check_finite=False)
    except LinAlgError:
        values, vectors = eigh(matrix, check_finite=False)
        keep = values > 1e-12 * np.abs(values).max()
        warn_of_indefinite(float(values[0] / np.abs(values).max()), "training instances")
        basis = vectors[:, keep]
        return _ClippedGram(gram, basis, (basis * values[keep]) @ basis.T)
    if n_workers == 1:
        return gram
    return KernelGram(gram.instances, gram.kernel, 8 * gram.n * (gram.capacity // n_workers))


def warn_of_indefinite(smallest: float, rows: str) -> None:
    """Warn of a kernel matrix with a negative eigenvalue, given as a fraction of the largest."""
    if smallest < 0:
        warn_user(
            f"The kernel matrix of the {rows} is indefinite (its smallest eigenvalue is "
            f"{smallest:.1e} of the largest): its negative part was dropped.",
            UserWarning,
        )
