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
from .gram import Kernel, Matrix, Rows

__all__ = ["FeatureGram", "FeatureMap"]

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


class FeatureGram:
    """Inner products of feature vectors that are made when they are asked for.

    A :class:`milearn._solvers.common.gram.Gram` without the matrix of all features.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n, n_columns)
    features : FeatureMap
    """

    def __init__(self, instances: Matrix, features: FeatureMap) -> None:
        self.instances = instances
        self.features = features
        self.n, self.rank = instances.shape[0], features.dim

    def inner(self, left: Rows, right: Rows) -> np.ndarray:
        """Inner products between patterns, shape (n_left, n_right)."""
        vectors = self._patterns(*left)
        if right[1] is None:
            return self.features.scores(self.instances[right[0]], vectors.T).T
        return np.asarray(vectors @ self._patterns(*right).T)

    def _patterns(self, rows: np.ndarray, starts: np.ndarray | None) -> Matrix:
        if starts is None:
            return self.features.transform(self.instances[rows])
        weights = np.repeat(1.0 / np.diff(starts), np.diff(starts))
        return self.features.sums(self.instances[rows], weights, starts)

    def weights(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """The weight vector sum_r coef_r z_r, shape (dim,)."""
        whole = np.array([0, len(rows)])
        return np.asarray(self.features.sums(self.instances[rows], coef, whole)[0])

    def scores(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Scores of all instances under the weight vector sum_r coef_r z_r, shape (n,)."""
        return self.features.scores(self.instances, self.weights(rows, coef))

    def expansion(self, rows: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Landmarks and coefficients with which the kernel reproduces the scores.

        The landmarks must have been chosen among the instances.
        """
        if self.features.kernel is None:
            return rows, coef
        return self.features.chosen, self.features.factor @ self.weights(rows, coef)

    def vectors(self) -> None:
        """None: the features of all instances are not at hand."""
        return None

    def share_of(self, n_workers: int) -> FeatureGram:
        """The same object: there is no cache."""
        return self
