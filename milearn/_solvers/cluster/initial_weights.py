"""Initial weights of maximum margin clustering."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans


def k_means_weights(
    points: Any, n_clusters: int, n_starts: int, rng: np.random.RandomState
) -> list[np.ndarray]:
    """Centres of k-means minus their mean, for each start.

    If there are fewer distinct points than clusters, some clusters share a centre.

    Parameters
    ----------
    points : ndarray or CSR of shape (n_points, n_features)
    n_clusters, n_starts : int
    rng : RandomState

    Returns
    -------
    list of ndarray of shape (n_clusters, n_features), float64
    """
    n_distinct = _count_distinct(points, n_clusters)
    starts = []
    for _ in range(n_starts):
        found = KMeans(n_distinct, n_init=1, random_state=rng.randint(2**31 - 1)).fit(points)
        centres = found.cluster_centers_.astype(np.float64)
        centres = centres[np.arange(n_clusters) % n_distinct]
        starts.append(centres - centres.mean(axis=0))
    return starts


def _count_distinct(points: Any, most: int) -> int:
    """Number of points that k-means can tell apart, counted up to ``most``."""
    distances, resolution = _distances(points, 0)
    nearest, count = distances, 1
    while count < most and nearest.max() > resolution:
        # The farthest point differs from all previous ones.
        nearest = np.minimum(nearest, _distances(points, int(nearest.argmax()))[0])
        count += 1
    return count


def _distances(points: Any, number: int) -> tuple[np.ndarray, float]:
    """Distances from one point, and the distance below which points are equal up to rounding.

    k-means computes distances from norms and products, which loses half of the digits. It first
    centres dense points.
    """
    eps = float(np.finfo(points.dtype).eps)
    if sparse.issparse(points):
        norms = np.asarray(points.multiply(points).sum(axis=1), dtype=np.float64).ravel()
        products = np.asarray((points @ points[[number]].T).toarray(), dtype=np.float64).ravel()
        squares = np.maximum(norms + norms[number] - 2.0 * products, 0.0)
        return np.sqrt(squares), 10.0 * float(np.sqrt(eps * norms.max()))
    differences = points.astype(np.float64) - points[number]
    distances = np.sqrt(np.einsum("ij,ij->i", differences, differences))
    size = float(np.abs(points).max(initial=0.0))
    return distances, 10.0 * max(float(np.sqrt(eps) * distances.max()), 10.0 * eps * size)
