"""Bags and their instances as vectors of explicit features, of which few are kept.

An instance is z(x) = Q' k(L, x) over landmarks L, so that z(x).z(x') is the part of k(x, x') that
the span of the landmarks' images holds; for a linear kernel z(x) = x. Bags, mixtures and a few
instances are kept as vectors; the scores of all instances are made in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from ..._bags.segments import segment_index

__all__ = [
    "FeatureMap",
    "FeatureObjects",
    "FeatureRows",
    "choose_landmarks",
    "feature_bytes",
    "whitening",
]

Kernel = Callable[[Any, Any], np.ndarray]

_BLOCK_BYTES = 8 * 2**20
# Share of the largest eigenvalue below which a direction of the landmarks is rounding.
_NEGLIGIBLE = 1e-10


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
        landmarks: Any = None,
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
        """Numbers that a row needs while its features are made."""
        return self.dim if self.kernel is None else self.landmarks.shape[0]

    def transform(self, rows: Any) -> Any:
        """Features of rows, (n_rows, dim)."""
        return rows if self.kernel is None else self.kernel(rows, self.landmarks) @ self.factor

    def scores(self, rows: Any, w: np.ndarray) -> np.ndarray:
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

    def sums(self, rows: Any, weights: np.ndarray, offsets: np.ndarray) -> Any:
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


class FeatureRows:
    """Inner products of feature vectors that are made when they are asked for.

    The interface of :class:`milearn._solvers.common.gram.LinearGram`, without the matrix of all
    features.
    """

    def __init__(self, rows: Any, features: FeatureMap) -> None:
        self.instances = rows
        self.features = features
        self.n, self.rank = rows.shape[0], features.dim

    def inner(self, left: Any, right: Any) -> np.ndarray:
        """Inner products between patterns, shape (n_left, n_right)."""
        vectors = self._vectors(*left)
        if right[1] is None:
            return self.features.scores(self.instances[right[0]], vectors.T).T
        return vectors @ self._vectors(*right).T

    def _vectors(self, rows: np.ndarray, starts: np.ndarray | None) -> np.ndarray:
        if starts is None:
            return self.features.transform(self.instances[rows])
        shares = np.repeat(1.0 / np.diff(starts), np.diff(starts))
        return self.features.sums(self.instances[rows], shares, starts)

    def weights(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """The weight vector sum_r coef_r z_r, shape (dim,)."""
        whole = np.array([0, len(rows)])
        return self.features.sums(self.instances[rows], coef, whole)[0]

    def scores(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Scores of all rows under the weight vector sum_r coef_r z_r, shape (n,)."""
        return self.features.scores(self.instances, self.weights(rows, coef))


class FeatureObjects:
    """Bags and instances as feature vectors.

    Parameters
    ----------
    features : FeatureMap
    rows : ndarray or CSR of shape (n_instances, n_columns)
    offsets : ndarray of shape (n_bags + 1,)
    bag_scale, instance_scale : ndarray, of the bag kernel
    whole : ndarray, default=None
        Rows that stand for bags, where a bag is not the sum of its instances.
    """

    def __init__(
        self,
        features: FeatureMap,
        rows: Any,
        offsets: np.ndarray,
        bag_scale: np.ndarray,
        instance_scale: np.ndarray,
        whole: Any = None,
    ) -> None:
        self.features, self.rows, self.offsets = features, rows, offsets
        self.instance_scale = instance_scale
        self.n_bags, self.n_instances = len(offsets) - 1, int(offsets[-1])
        self.dim = features.dim
        if whole is None:
            spread = np.repeat(bag_scale, np.diff(offsets))
            self.bags = features.sums(rows, spread, offsets)
        else:
            self.bags = features.transform(whole)

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Scores of all instances without the intercept."""
        return self.features.scores(self.rows, w) * self.instance_scale

    def instances(self, rows: np.ndarray) -> Any:
        """Vectors of the given instances."""
        scale = self.instance_scale[rows]
        found = self.features.transform(self.rows[rows])
        return (
            sparse.diags_array(scale) @ found if sparse.issparse(found) else found * scale[:, None]
        )

    def mixtures(self, shares: np.ndarray) -> Any:
        """Vectors of sum_j shares_ij z_ij, one a bag."""
        used = np.flatnonzero(shares)
        starts = np.searchsorted(used, self.offsets)
        weights = shares[used] * self.instance_scale[used]
        return self.features.sums(self.rows[used], weights, starts)


def feature_bytes(rows: Any, n_bags: int, dim: int) -> int:
    """Memory that bags, mixtures, and as many instances that are looked at may take."""
    # Instances that are looked at: twice while more of them are appended.
    copies = 6
    if sparse.issparse(rows):
        return copies * 12 * int(rows.nnz)
    return copies * 8 * n_bags * dim + 8 * rows.shape[0]


def choose_landmarks(rows: Any, n_landmarks: int, rng: Any) -> np.ndarray:
    """Numbers of rows drawn without replacement from those that differ, all when they are fewer.

    Rows are ranked by a number of their own before the draw, so that neither their order nor
    how often each is there decides.
    """
    own = np.cos(np.arange(1.0, rows.shape[1] + 1.0))
    if sparse.issparse(rows):
        key = np.asarray(rows.multiply(own).sum(axis=1)).ravel()
    else:
        key = np.einsum("ij,j->i", rows, own)
    size = float(np.abs(key).max())
    _, first = np.unique(np.round(key / size, 10) if size > 0 else key, return_index=True)
    if len(first) <= n_landmarks:
        return first
    return first[rng.permutation(len(first))[:n_landmarks]]


def whitening(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Q with Q Q' the inverse of a kernel matrix on its positive part; its least eigenvalue share.

    Returns
    -------
    factor : ndarray of shape (n, rank)
    smallest : float, as a share of the largest eigenvalue
    """
    values, vectors = eigh(0.5 * (matrix + matrix.T))
    largest = float(np.abs(values).max())
    keep = values > _NEGLIGIBLE * largest
    if not keep.any():
        return np.zeros((len(matrix), 1)), 0.0
    return vectors[:, keep] / np.sqrt(values[keep]), float(values[0] / largest)
