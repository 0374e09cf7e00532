"""The kernel between bags as graphs (miGraph): instances are weighted by one over their degree.

In the graph of a bag, two instances are linked if their distance is at most the mean distance
between two instances of the bag, and each instance is linked to itself. The weight W of an instance
is one over its number of links. With a scale s, the kernel is

    k(A, B) = sum_a sum_b W_a W_b exp(-d(a, b)^2 / s) / (sum_a W_a sum_b W_b),

in which a clique of many similar instances counts as one (Zhou, Sun & Li, 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances

from .._bags.segments import bag_ranges
from .memory import block_bytes, require_memory

# Distances that exceed the mean by less than this are equal to it, as in bags of two instances.
_EQUAL = 1e-6
# Number of matrices of pairs of instances that are in memory at the same time.
_HELD = 2


@dataclass(frozen=True)
class WeightedBags:
    """Instances of bags, centred if dense, with weights that sum to one in each bag."""

    instances: Any
    offsets: np.ndarray
    weights: np.ndarray


def weighted_bags(instances: Any, offsets: np.ndarray, centre: np.ndarray | None) -> WeightedBags:
    """Bags with the weights of their graphs.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    centre : ndarray of shape (n_features,) or None
        It is subtracted from dense instances to avoid cancellation in distances.
    """
    if not sparse.issparse(instances):
        instances = instances.astype(np.float64) - (0.0 if centre is None else centre)
    return WeightedBags(instances, offsets, degree_weights(instances, offsets))


def degree_weights(instances: Any, offsets: np.ndarray) -> np.ndarray:
    """One over the number of links of each instance, normalised to a sum of one in each bag."""
    weights = np.ones(int(offsets[-1]))
    _require_block(offsets, offsets)
    for first, last in pairwise(offsets):
        size = int(last - first)
        if size > 1:
            distances = euclidean_distances(instances[first:last])
            limit = distances.sum() / (size * (size - 1)) * (1.0 + _EQUAL)
            own = 1.0 / (distances <= limit).sum(axis=1)
            weights[first:last] = own / own.sum()
    return weights


def _require_block(left: np.ndarray, right: np.ndarray) -> None:
    """Raise an error if all pairs of instances of the largest bags do not fit into memory."""
    sizes = int(np.diff(left).max()), int(np.diff(right).max())
    require_memory(
        _HELD * 8.0 * sizes[0] * sizes[1],
        f"The graph kernel of bags of up to {sizes[0]} and {sizes[1]} instances",
        "draw some instances of large bags, or use another kernel",
    )


def graph_kernel(left: WeightedBags, right: WeightedBags, scale: float) -> np.ndarray:
    """The kernel of each bag on the left with each on the right, in blocks."""
    _require_block(left.offsets, right.offsets)
    out = np.empty((len(left.offsets) - 1, len(right.offsets) - 1))
    side = max(1, int(np.sqrt(block_bytes() / 8)))
    for first, last in bag_ranges(left.offsets, side):
        of = slice(left.offsets[first], left.offsets[last])
        for start, stop in bag_ranges(right.offsets, side):
            to = slice(right.offsets[start], right.offsets[stop])
            values = euclidean_distances(left.instances[of], right.instances[to], squared=True)
            values *= -1.0 / scale
            np.exp(values, out=values)
            values *= left.weights[of, None]
            values *= right.weights[to]
            by_bag = np.add.reduceat(values, left.offsets[first:last] - of.start, axis=0)
            columns = right.offsets[start:stop] - to.start
            out[first:last, start:stop] = np.add.reduceat(by_bag, columns, axis=1)
    return out
