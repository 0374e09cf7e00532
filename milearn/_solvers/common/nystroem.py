"""Explicit features whose inner products approximate those of a kernel (Nystroem's method).

An instance is z(x) = Q' k(L, x) over landmarks L, so that z(x).z(x') is the part of k(x, x') that
the span of the landmarks' images holds; for a linear kernel z(x) = x. Features of all instances
are made in blocks and never kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.segments import segment_index
from .gram import Kernel, Matrix

__all__ = ["FeatureMap"]

_BLOCK_BYTES = 8 * 2**20


class FeatureMap:
    """Explicit features of rows: by landmarks of a kernel, or the rows as they are.

    Parameters
    ----------
    dim : int, number of features
    kernel : callable, default=None
        None stands for the rows themselves.
    landmarks : ndarray or CSR of shape (n_landmarks, n_columns)
    factor : ndarray of shape (n_landmarks, dim), the Q above
    chosen : ndarray of shape (n_landmarks,), the rows that the landmarks were
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
        """Number of values that a row takes while its features are made."""
        return self.dim if self.kernel is None else int(self.landmarks.shape[0])

    def transform(self, rows: Matrix) -> Matrix:
        """Features of rows, (n_rows, dim)."""
        return rows if self.kernel is None else self.kernel(rows, self.landmarks) @ self.factor

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
