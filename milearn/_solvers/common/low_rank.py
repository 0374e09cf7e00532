"""Features with the inner products of a kernel, or of a low-rank approximation of it.

Nystroem's method uses the span of landmarks. Pivoted Cholesky factorisation gives as many columns
as the rank, or as requested. With an intercept, the origin of the feature space is arbitrary, so
features of all instances are centred to avoid losing digits to a common offset.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dpstrf

from .gram import Gram

# Columns of the factor below this fraction of the largest diagonal entry are rounding errors.
_NEGLIGIBLE = 1e-13


def kernel_features(
    gram: Gram, *, n_components: int | None = None, max_bytes: float = np.inf
) -> np.ndarray:
    """Features z with z_i.z_j = k(x_i, x_j), up to a common shift of all z.

    A linear kernel with fewer (used) columns than instances does not need a factor. Otherwise the
    kernel matrix is factorised by pivoted Cholesky, completely or, with ``n_components``, by that
    many steps, which only need the kernel rows of the pivots.

    Parameters
    ----------
    gram : Gram
    n_components : int, default=None
        Maximum number of columns of the factor. By default, the rank.
    max_bytes : float
        Maximum size of the kernel matrix.

    Returns
    -------
    ndarray of shape (n_instances, n_columns), new

    Raises
    ------
    MemoryError
        If the kernel matrix would be larger than ``max_bytes``.
    """
    features = _columns(gram)
    if features is None and n_components is not None and n_components < gram.n:
        features = _greedy(gram, n_components)
    if features is not None:
        return np.asarray(features - features.mean(axis=0))
    # A factor of the matrix, which is overwritten.
    matrix = centered_kernel(gram, max_bytes=max_bytes)
    largest = float(np.diagonal(matrix).max())
    if largest <= 0:
        return np.zeros((len(matrix), 1))
    lower, order, rank, _ = dpstrf(matrix, tol=_NEGLIGIBLE * largest, lower=1, overwrite_a=1)
    factor = np.empty((len(matrix), rank))
    factor[order - 1] = np.tril(lower[:, :rank])
    return factor


def needs_kernel(gram: Gram) -> bool:
    """Whether the kernel is needed because there are not fewer features than instances."""
    return _columns(gram) is None


def centered_kernel(gram: Gram, *, max_bytes: float = np.inf) -> np.ndarray:
    """A new kernel matrix of centred instances, in Fortran order.

    Parameters
    ----------
    gram : Gram
    max_bytes : float
        Maximum size of the matrix.

    Raises
    ------
    MemoryError
        If it would be larger than ``max_bytes``.
    """
    n, rows = gram.n, np.arange(gram.n)
    if 8 * n * n > max_bytes:
        raise MemoryError(
            f"The fit needs the kernel matrix of {n} x {n} instances "
            f"({8 * n * n / 2**20:.0f} MiB): raise working_memory by sklearn.set_config, or "
            "set n_components to use a low-rank approximation."
        )
    matrix = np.array(gram.inner(rows, rows), order="F")
    middle = matrix.mean(axis=0)
    matrix -= middle
    matrix -= (middle - middle.mean())[:, None]
    return matrix


def _columns(gram: Gram) -> np.ndarray | None:
    """The used columns as a dense matrix if there are fewer of them than instances."""
    instances, n = gram.vectors(), gram.n
    if instances is None:
        return None
    if not sparse.issparse(instances):
        return instances if instances.shape[1] <= n else None
    used = np.unique(instances.indices)
    if len(used) > n:
        return None
    return (
        np.asarray(instances[:, used].toarray(), dtype=np.float64)
        if len(used)
        else np.zeros((n, 1))
    )


def _greedy(gram: Gram, n_components: int) -> np.ndarray:
    """Pivoted Cholesky with one kernel row per step; the pivot has the largest residual."""
    n = gram.n
    rest = _diagonal(gram)
    # In the first step of an RBF kernel all instances tie. A projection of the instances breaks the
    # tie, independently of their order and multiplicity.
    own = np.asarray(gram.instances @ np.cos(np.arange(1.0, gram.instances.shape[1] + 1.0)))
    stop = 1e-10 * float(rest.max())
    factor = np.zeros((n, n_components), order="F")
    for step in range(n_components):
        largest = float(rest.max())
        if largest <= stop:
            return factor[:, : max(step, 1)]
        tied = np.flatnonzero(rest >= largest * (1.0 - 1e-9))
        pivot = tied[np.argmax(own[tied])]
        column = gram.inner(np.array([pivot]), np.arange(n))[0]
        column = column - factor[:, :step] @ factor[pivot, :step]
        factor[:, step] = column / np.sqrt(column[pivot])
        rest -= factor[:, step] ** 2
        rest[pivot] = 0.0
        np.maximum(rest, 0.0, out=rest)
    return factor


def _diagonal(gram: Gram, block: int = 256) -> np.ndarray:
    parts = []
    for first in range(0, gram.n, block):
        mine = np.arange(first, min(first + block, gram.n))
        parts.append(np.diagonal(gram.inner(mine, mine)))
    return np.concatenate(parts).astype(np.float64)
