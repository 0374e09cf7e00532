"""Initial weights of maximum margin clustering."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from ..._bags.blocks import PassSource
from ..._bags.distinct import row_ranks
from ..common.passes import bag_means, gather
from .margins import best_of_bags

# Runs of k-means for a start.
_RUNS = 3


def k_means_weights(
    source: PassSource,
    points: Any,
    n_clusters: int,
    rng: np.random.RandomState,
    rounds: int,
) -> np.ndarray:
    """Mean witnesses of clusters of k-means, minus their mean.

    The first witnesses are the means of the bags. In each round, the witness of a bag for a cluster
    becomes the highest instance along the difference between the mean witness of the bags of the
    cluster and that of all bags.

    If there are fewer distinct points than clusters, some clusters share a mean.

    Parameters
    ----------
    source : PassSource
    points : ndarray or CSR of shape (n_bags, n_statistics)
        What k-means groups the bags by.
    n_clusters : int
    rng : RandomState
    rounds : int

    Returns
    -------
    ndarray of shape (n_clusters, n_features), float64
    """
    # Points that differ by rounding count once: k-means would warn of them.
    n_distinct = min(n_clusters, len(np.unique(row_ranks(points))))
    means, seed = bag_means(source, np.float64), rng.randint(2**31 - 1)
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
    return np.asarray(weights - weights.mean(axis=0))
