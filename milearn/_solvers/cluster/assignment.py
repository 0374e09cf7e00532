"""Assignment of items to clusters at the lowest cost, with a smallest number of items per cluster.

    min over p(1..n) of sum_i c[i, p(i)]   subject to   |{i: p(i) = q}| >= smallest  for all q

This is a transportation problem. Every item starts in its cheapest cluster. While a cluster has
too few items, one item is passed on along a shortest path that ends there and begins in a cluster
with items to spare. The length of an arc from p to q is the lowest cost of moving an item from p
to q (successive shortest paths, Ahuja, Magnanti & Orlin, Network Flows, 1993, section 9.7). After
every path the assignment has the lowest cost of all with its numbers of items, so the last one is
optimal. The graph has a node per cluster only.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

# Paths whose lengths differ by no more than this fraction of the largest cost are equally long.
_ROUNDING = 1e-14


def assign(costs: np.ndarray, first: np.ndarray, smallest: int) -> np.ndarray:
    """Cheapest assignment with at least ``smallest`` items in every cluster.

    Ties are broken in favour of the first item, the path with fewer arcs, and the first cluster,
    so the result does not depend on the platform.

    Parameters
    ----------
    costs : ndarray of shape (n_items, n_clusters), finite
    first : ndarray of int of shape (n_items,)
        A cheapest cluster of each item.
    smallest : int
        At most n_items / n_clusters.

    Returns
    -------
    ndarray of int of shape (n_items,)
    """
    n, k = costs.shape
    if k * smallest > n:
        raise ValueError(f"{n} items are too few for {k} clusters of at least {smallest} each.")
    labels = np.array(first, dtype=np.intp)
    counts = np.bincount(labels, minlength=k)
    if counts.min() >= smallest:
        return labels
    arcs = _Arcs(costs, labels)
    slack = _ROUNDING * float(np.abs(costs).max())
    while counts.min() < smallest:
        path = _shortest_path(arcs.lengths, counts > smallest, counts < smallest, slack)
        for p, q in pairwise(path):
            labels[arcs.items[p, q]] = q
        counts[path[0]] -= 1
        counts[path[-1]] += 1
        for p in path:
            arcs.renew(p)
    return labels


class _Arcs:
    """Lowest cost of moving an item between each pair of clusters, and the item."""

    def __init__(self, costs: np.ndarray, labels: np.ndarray) -> None:
        self.costs, self.labels = costs, labels
        k = costs.shape[1]
        self.lengths = np.full((k, k), np.inf)
        self.items = np.zeros((k, k), dtype=np.intp)
        for p in range(k):
            self.renew(p)

    def renew(self, p: int) -> None:
        """Update the arcs from a cluster."""
        members = np.flatnonzero(self.labels == p)
        if len(members) == 0:
            self.lengths[p] = np.inf
            return
        rises = self.costs[members] - self.costs[members, p][:, None]
        cheapest = rises.argmin(axis=0)
        self.items[p] = members[cheapest]
        self.lengths[p] = rises[cheapest, np.arange(rises.shape[1])]
        self.lengths[p, p] = np.inf


def _shortest_path(
    lengths: np.ndarray, sources: np.ndarray, targets: np.ndarray, slack: float
) -> list[int]:
    """Nodes of a shortest path from any source to any target, by Bellman and Ford."""
    k = len(lengths)
    distances = np.where(sources, 0.0, np.inf)
    before = np.full(k, -1)
    for _ in range(k):
        through = distances[:, None] + lengths
        nearest = through.argmin(axis=0)
        shorter = through[nearest, np.arange(k)]
        better = shorter < distances - slack
        if not better.any():
            break
        distances = np.where(better, shorter, distances)
        before = np.where(better, nearest, before)
    node = int(np.where(targets, distances, np.inf).argmin())
    path = [node]
    while before[path[-1]] >= 0 and len(path) <= k:
        path.append(int(before[path[-1]]))
    return path[::-1]
