"""Initial weights of maximum margin clustering."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans

from ..._bags.blocks import PassSource
from ..common.passes import bag_means, gather
from .margins import best_of_bags

# Runs of k-means for a start.
_RUNS = 3


def k_means_weights(
    source: PassSource,
    points: Any,
    n_clusters: int,
    n_starts: int,
    rng: np.random.RandomState,
    *,
    rounds: int,
) -> list[np.ndarray]:
    """Mean witnesses of clusters of k-means, minus their mean, for each start.

    The first witnesses are the means of the bags. In each round, the witness of a bag for a cluster
    becomes the highest instance along the difference between the mean witness of the bags of the
    cluster and that of all bags.

    If there are fewer distinct points than clusters, some clusters share a mean.

    Parameters
    ----------
    source : PassSource
    points : ndarray or CSR of shape (n_bags, n_statistics)
        What k-means groups the bags by.
    n_clusters, n_starts : int
    rng : RandomState
    rounds : int

    Returns
    -------
    list of ndarray of shape (n_clusters, n_features), float64
    """
    n_distinct = _count_distinct(points, n_clusters)
    means, starts = bag_means(source, np.float64), []
    for _ in range(n_starts):
        seed = rng.randint(2**31 - 1)
        labels = KMeans(n_distinct, n_init=_RUNS, random_state=seed).fit(points).labels_
        bags = [np.flatnonzero(labels == p) for p in np.unique(labels)]
        own = np.array([means[each].mean(axis=0) for each in bags])
        along = own - means.mean(axis=0)
        for _ in range(rounds):
            for p, rows in enumerate(best_of_bags(source, along)[1].T):
                witnesses = gather(source, rows)
                own[p] = witnesses[bags[p]].mean(axis=0, dtype=np.float64)
                along[p] = own[p] - witnesses.mean(axis=0, dtype=np.float64)
        weights = own[np.arange(n_clusters) % len(own)]
        starts.append(weights - weights.mean(axis=0))
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
