"""Explicit features whose inner products approximate those of a kernel (Nystroem's method).

The features of an instance are z(x) = Q' k(L, x) with landmarks L, so that z(x).z(x') is the inner
product of the projections of x and x' onto the span of the landmarks. For a linear kernel z(x) = x.
Features are computed in blocks and not stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.segments import segment_index
from .gram import Kernel, Matrix
from .low_rank import choose_landmarks, whitening

__all__ = ["FeatureMap", "landmark_features"]

_BLOCK_BYTES = 8 * 2**20


class FeatureMap:
    """Explicit features of rows: by landmarks of a kernel, or the rows themselves.

    Parameters
    ----------
    dim : int
        Number of features.
    kernel : callable, default=None
        None if the rows themselves are the features.
    landmarks : ndarray or CSR of shape (n_landmarks, n_columns)
    factor : ndarray of shape (n_landmarks, dim)
        Q above.
    chosen : ndarray of shape (n_landmarks,)
        Rows of the landmarks in the training instances.
    """

    def __init__(
        self,
        dim: int,
        kernel: Kernel | None = None,
        landmarks: Matrix = None,
        factor: Any = None,
        chosen: Any = None,
    ) -> None:
        self.dim = dim
        self.kernel = kernel
        self.landmarks = landmarks
        self.factor = factor
        self.chosen = chosen

    @property
    def width(self) -> int:
        """Number of values per row in the computation of features."""
        return self.dim if self.kernel is None else int(self.landmarks.shape[0])

    def transform(self, rows: Matrix) -> Matrix:
        """Features of rows, (n_rows, dim)."""
        return rows if self.kernel is None else self.kernel(rows, self.landmarks) @ self.factor

    def stored(self, rows: Matrix) -> np.ndarray:
        """Features of rows as one array, (n_rows, dim), whose kernel values come in blocks."""
        out = np.empty((rows.shape[0], self.dim))
        step = max(1, _BLOCK_BYTES // (8 * self.width))
        for first in range(0, len(out), step):
            out[first : first + step] = self.transform(rows[first : first + step])
        return out

    def scores(self, rows: Matrix, w: np.ndarray) -> np.ndarray:
        """Products of the features of rows with weight vectors (dim,) or (dim, q), in blocks."""
        if self.kernel is None:
            return np.asarray(rows @ w)
        weights = self.factor @ w
        step = max(1, _BLOCK_BYTES // (8 * self.width))
        blocks = [
            self.kernel(rows[first : first + step], self.landmarks) @ weights
            for first in range(0, rows.shape[0], step)
        ]
        return np.concatenate(blocks)

    def sums(self, rows: Matrix, weights: np.ndarray, offsets: np.ndarray) -> Matrix:
        """Weighted sums of features over each bag's rows, (n_bags, dim)."""
        n_bags, n_rows = len(offsets) - 1, int(offsets[-1])
        matrix = sparse.csr_array((weights, np.arange(n_rows), offsets), shape=(n_bags, n_rows))
        if self.kernel is None:
            return matrix @ rows
        total = np.zeros((n_bags, self.width))
        owner = segment_index(offsets)
        step = max(1, _BLOCK_BYTES // (8 * self.width))
        for first in range(0, n_rows, step):
            last = min(first + step, n_rows)
            bags = slice(int(owner[first]), int(owner[last - 1]) + 1)
            total[bags] += matrix[bags, first:last] @ self.kernel(rows[first:last], self.landmarks)
        return total @ self.factor


def landmark_features(
    rows: Matrix, kernel: Kernel, n_components: int, rng: np.random.RandomState
) -> tuple[FeatureMap, float]:
    """Explicit features by landmarks among the rows.

    Parameters
    ----------
    rows : ndarray or CSR of shape (n, n_columns)
    kernel : callable
        ``kernel(A, B)`` returns the matrix of shape (len(A), len(B)).
    n_components : int
        Number of landmarks, which are all distinct rows if there are not more.
    rng : RandomState

    Returns
    -------
    features : FeatureMap
    smallest : float
        Smallest eigenvalue of the kernel of the landmarks, as a fraction of the largest.
    """
    chosen = choose_landmarks(rows, n_components, rng)
    landmarks = rows[chosen]
    matrix = np.asarray(kernel(landmarks, landmarks), dtype=np.float64)
    factor, smallest = whitening(matrix)
    return FeatureMap(factor.shape[1], kernel, landmarks, factor, chosen), smallest
