"""Scores of instances that may not fit into memory, block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.segments import bag_ranges, pooling_matrix, segment_max

__all__ = ["InstanceStream"]

# Instances at a time, in float64: a block stays in a core's cache.
_BLOCK_BYTES = 2**21
# Gathered instances are given in float64 up to this size, larger ones in their own type.
_GATHERED_BYTES = 2**27
# Share of a sum of absolute values below which the sum itself is noise.
_ROUNDING = 1e-12


class InstanceStream:
    """All instances, read in blocks of whole bags; a bag larger than a block is read in parts.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features), or ``Bags.instance_rows``
        Of float64, float32 or float16; read by slices and by arrays of rows.
    offsets : ndarray of shape (n_bags + 1,)
    block_bytes : int
        Size of a block in float64.
    """

    def __init__(
        self, instances: Any, offsets: np.ndarray, *, block_bytes: int = _BLOCK_BYTES
    ) -> None:
        self.instances, self.offsets = instances, offsets
        self.in_file = not (sparse.issparse(instances) or isinstance(instances, np.ndarray))
        self.n_bags, self.n_features = len(offsets) - 1, int(instances.shape[1])
        n_instances = max(1, int(instances.shape[0]))
        width = self.n_features
        if sparse.issparse(instances):
            width = max(1, instances.nnz // n_instances)
        self.limit = max(1, block_bytes // (8 * width))

    def highest(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The highest score of each bag for any weight vector, and where it is attained.

        Of several equal ones the one of the first weight vector counts, then the first of the bag.

        Parameters
        ----------
        weights : ndarray of shape (n_vectors, n_features)

        Returns
        -------
        rows, vectors : ndarray of int of shape (n_bags,)
            Row of the instance and number of the weight vector.
        values : ndarray of shape (n_bags,)
        """
        rows = np.empty(self.n_bags, dtype=np.intp)
        vectors = np.empty(self.n_bags, dtype=np.intp)
        values = np.empty(self.n_bags)
        for first, last in bag_ranges(self.offsets, self.limit):
            if last - first == 1:
                rows[first], vectors[first], values[first] = self._best_of_one(weights, first)
                continue
            start, bags = self.offsets[first], slice(first, last)
            scores = self._block_scores(weights, start, self.offsets[last])
            top, vectors[bags] = _highest(scores, self.offsets[first : last + 1] - start)
            rows[bags], values[bags] = start + top, scores[vectors[bags], top]
        return rows, vectors, values

    def _best_of_one(self, weights: np.ndarray, bag: int) -> tuple[int, int, float]:
        found = (-1, -1, -np.inf)
        for start in range(self.offsets[bag], self.offsets[bag + 1], self.limit):
            scores = self._block_scores(
                weights, start, min(start + self.limit, self.offsets[bag + 1])
            )
            top, vector = (
                int(each[0]) for each in _highest(scores, np.array([0, scores.shape[1]]))
            )
            value = float(scores[vector, top])
            if value > found[2] or (value == found[2] and vector < found[1]):
                found = start + top, vector, value
        return found

    def bag_maxima(self, weights: np.ndarray) -> np.ndarray:
        """Highest score of each bag for each weight vector, shape (n_bags, n_vectors)."""
        values = np.empty((self.n_bags, len(weights)))
        for first, last in bag_ranges(self.offsets, self.limit):
            offsets = self.offsets[first : last + 1]
            if last - first == 1:
                parts = range(offsets[0], offsets[1], self.limit)
                values[first] = np.max(
                    [
                        self._block_scores(weights, start, min(start + self.limit, offsets[1])).max(
                            axis=1
                        )
                        for start in parts
                    ],
                    axis=0,
                )
            else:
                scores = self._block_scores(weights, offsets[0], offsets[-1])
                values[first:last] = np.maximum.reduceat(
                    scores, offsets[:-1] - offsets[0], axis=1
                ).T
        return values

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """Score of each instance for each weight vector, shape (n_instances, n_vectors)."""
        n_instances = self.offsets[-1]
        values = np.empty((n_instances, len(weights)))
        for start in range(0, n_instances, self.limit):
            stop = min(start + self.limit, n_instances)
            values[start:stop] = self._block_scores(weights, start, stop).T
        return values

    def _block_scores(self, weights: np.ndarray, start: int, stop: int) -> np.ndarray:
        block = self.instances[start:stop]
        if sparse.issparse(block):
            return np.ascontiguousarray((block @ weights.T).T, dtype=np.float64)
        # Digits of float64 whatever the type: the choice is then the same for all of them.
        return weights @ np.asarray(block, dtype=np.float64).T

    def means(self, dtype: Any) -> Any:
        """Mean instance of each bag in the given type, shape (n_bags, n_features)."""
        pooling = pooling_matrix(self.offsets, dtype=dtype)
        if self.instances.dtype == dtype and not self.in_file:
            return pooling @ self.instances
        means = np.zeros((self.n_bags, self.n_features), dtype=dtype)
        for first, last in bag_ranges(self.offsets, self.limit):
            stop = self.offsets[last]
            for row in range(self.offsets[first], stop, self.limit):
                end = min(row + self.limit, stop)
                block = np.asarray(self.instances[row:end], dtype=dtype)
                means[first:last] += pooling[first:last, row:end] @ block
        return means

    def sum_of_means(self) -> np.ndarray:
        """m, the sum over bags of their mean instance, shape (n_features,).

        Entries that rounding alone explains are zero.
        """
        total, size = np.zeros(self.n_features), np.zeros(self.n_features)
        for first, last in bag_ranges(self.offsets, self.limit):
            sizes = np.diff(self.offsets[first : last + 1])
            weights = np.repeat(1.0 / sizes, sizes)
            start, stop = self.offsets[first], self.offsets[last]
            for row in range(start, stop, self.limit):
                end = min(row + self.limit, stop)
                block, weight = self.instances[row:end], weights[row - start : end - start]
                if not sparse.issparse(block):
                    block = np.asarray(block, dtype=np.float64)
                total += weight @ block
                size += weight @ abs(block)
        return np.where(np.abs(total) > _ROUNDING * size, total, 0.0)

    def gather(self, rows: np.ndarray) -> Any:
        """The given instances, in float64 where that is not too large, and never in float16."""
        taken = self.instances[rows]
        if sparse.issparse(taken) or 8 * taken.size <= _GATHERED_BYTES:
            return taken.astype(np.float64, copy=False)
        return taken.astype(np.float32) if taken.dtype == np.float16 else taken


def _highest(scores: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column of the highest entry of each segment of columns, and its row (the weight vector)."""
    best = scores.max(axis=0)
    hits = np.flatnonzero(best == np.repeat(segment_max(best, offsets), np.diff(offsets)))
    vectors = scores[:, hits].argmax(axis=0)
    if len(hits) == len(offsets) - 1:
        return hits, vectors
    bags = np.searchsorted(offsets, hits, side="right") - 1
    order = np.lexsort((hits, vectors, bags))
    chosen = order[np.searchsorted(bags, np.arange(len(offsets) - 1))]
    return hits[chosen], vectors[chosen]
