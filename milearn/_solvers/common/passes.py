"""Passes over all instances: scores, highest instances, means, and gathered rows.

A pass maps a function over the blocks of a source and combines the results. The source may be an
array, a file, or bags on the workers of a cluster; see :mod:`milearn._bags.blocks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import Block, PassSource, stacked
from ..._bags.segments import pooling_matrix, segment_max

Matrix = Any  # an ndarray or a CSR matrix
Scores = Callable[[Block, np.ndarray], np.ndarray]

# Bytes of a block in float64 that fits into the cache of a core.
STREAM_BYTES = 2**21
# Sums up to this fraction of the sum of absolute values count as rounding.
_ROUNDING = 1e-12


def block_scores(block: Block, weights: np.ndarray) -> np.ndarray:
    """Products of the weight vectors with the rows of a block, shape (n_vectors, n_rows)."""
    if sparse.issparse(block.stored):
        return np.ascontiguousarray((block.stored @ weights.T).T, dtype=np.float64)
    # In float64, so that the highest instance does not depend on the type.
    return np.ascontiguousarray(block.scores(weights.T, precise=True).T)


def highest(
    source: PassSource, weights: np.ndarray, scores: Scores = block_scores
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The highest score of each bag over all weight vectors, its instance and its weight vector.

    Ties are broken in favour of the first weight vector, then of the first instance.

    Parameters
    ----------
    source : PassSource
    weights : ndarray of shape (n_vectors, n_features)
    scores : callable, default=block_scores
        Scores of shape (n_vectors, n_rows) of a block for the weights. It has to be a function of a
        module, which a worker can import.

    Returns
    -------
    rows, vectors : ndarray of int of shape (n_bags,)
        Row of the instance and number of the weight vector.
    values : ndarray of shape (n_bags,)
    """
    rows = np.empty(source.n_bags, dtype=np.intp)
    vectors = np.empty(source.n_bags, dtype=np.intp)
    values = np.empty(source.n_bags)
    done = 0
    for first, first_row, top, vector, value in source.map(
        _highest, weights, scores, in_parts=True
    ):
        bags = slice(first, first + len(top))
        if first < done and not (
            value[0] > values[first] or (value[0] == values[first] and vector[0] < vectors[first])
        ):
            continue
        rows[bags], vectors[bags], values[bags] = first_row + top, vector, value
        done = bags.stop
    return rows, vectors, values


def _highest(
    block: Block, weights: np.ndarray, of_block: Scores
) -> tuple[int, int, np.ndarray, np.ndarray, np.ndarray]:
    scores = of_block(block, weights)
    top, vectors = _first_of_highest(scores, block.offsets)
    # In half of the bytes, because a worker may have to send it.
    narrow = top.astype(np.int32) if block.offsets[-1] < 2**31 else top
    return block.first_bag, block.first_row, narrow, vectors.astype(np.int32), scores[vectors, top]


def _first_of_highest(scores: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def bag_maxima(
    source: PassSource, weights: np.ndarray, scores: Scores = block_scores
) -> np.ndarray:
    """Highest score of each bag for each weight vector, shape (n_bags, n_vectors)."""
    values = np.full((source.n_bags, len(weights)), -np.inf)
    for bags, found in source.map(_maxima, weights, scores, in_parts=True):
        np.maximum(values[bags], found, out=values[bags])
    return values


def _maxima(block: Block, weights: np.ndarray, scores: Scores) -> tuple[slice, np.ndarray]:
    found = scores(block, weights)
    return block.bags, np.maximum.reduceat(found, block.offsets[:-1], axis=1).T


def instance_scores(
    source: PassSource, weights: np.ndarray, scores: Scores = block_scores
) -> np.ndarray:
    """Score of each instance for each weight vector, shape (n_instances, n_vectors)."""
    values = np.empty((source.n_instances, len(weights)))
    for rows, found in source.map(_scores_of, weights, scores, in_parts=True):
        values[rows] = found.T
    return values


def _scores_of(block: Block, weights: np.ndarray, scores: Scores) -> tuple[slice, np.ndarray]:
    return block.rows, scores(block, weights)


def bag_means(source: PassSource, dtype: Any) -> Matrix:
    """Mean instance of each bag in the given type, shape (n_bags, n_features)."""
    parts = source.map(_means, np.dtype(dtype), in_parts=True)
    means = stacked([part for _, part in parts])
    owner = np.concatenate([np.arange(bags.start, bags.stop) for bags, _ in parts])
    if len(owner) == source.n_bags:
        return means
    # Add the sums of bags that are divided between blocks.
    offsets = np.searchsorted(owner, np.arange(source.n_bags + 1))
    return pooling_matrix(offsets, 1.0, dtype=dtype) @ means


def _means(block: Block, dtype: np.dtype[Any]) -> tuple[slice, Matrix]:
    weights = np.repeat(1.0 / block.bag_sizes, np.diff(block.offsets))
    pooling = pooling_matrix(block.offsets, weights, dtype=dtype)
    instances = block.instances
    if not sparse.issparse(instances):
        instances = np.asarray(instances, dtype=dtype)
    return block.bags, pooling @ instances


def sum_of_means(source: PassSource) -> np.ndarray:
    """m, the sum over bags of their mean instance, shape (n_features,).

    Entries that are zero up to rounding are set to zero.
    """
    total, size = np.zeros(source.n_features), np.zeros(source.n_features)
    for part, part_size in source.map(_sum_of_means, in_parts=True):
        total += part
        size += part_size
    return np.where(np.abs(total) > _ROUNDING * size, total, 0.0)


def _sum_of_means(block: Block) -> tuple[np.ndarray, np.ndarray]:
    weights, instances = np.repeat(1.0 / block.bag_sizes, np.diff(block.offsets)), block.instances
    if not sparse.issparse(instances):
        instances = np.asarray(instances, dtype=np.float64)
    return weights @ instances, weights @ abs(instances)


def gather(source: PassSource, rows: np.ndarray, *, float64_bytes: int = 2**27) -> Matrix:
    """The given instances, in float64 up to ``float64_bytes``, and never in float16."""
    taken = source.gather(rows)
    if sparse.issparse(taken) or 8 * taken.size <= float64_bytes:
        return taken.astype(np.float64, copy=False)
    return taken


def rows_of_block(block: Block, rows: np.ndarray, dtype: Any = np.float64) -> Matrix:
    """The instances of a block among the given rows of all instances."""
    mine = rows[(rows >= block.rows.start) & (rows < block.rows.stop)]
    return block.take(mine - block.first_row, dtype)
