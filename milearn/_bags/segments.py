"""Reductions over bags: values of all instances in, one value a bag out.

Every function takes ``values`` of shape (n_instances,) or (n_instances, k) and ``offsets`` of
shape (n_bags + 1,), where bag ``i`` owns the rows ``offsets[i]:offsets[i + 1]``. No bag may be
empty: ``np.maximum.reduceat`` silently returns a neighbour's value there, so
:class:`milearn.Bags` refuses empty bags before anything gets here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = [
    "bag_ranges",
    "gather_rows",
    "segment_argmax",
    "segment_index",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_sum",
]


def segment_max(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Maximum over each bag, shape (n_bags,) or (n_bags, k)."""
    return np.maximum.reduceat(values, offsets[:-1], axis=0)


def segment_min(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Minimum over each bag, shape (n_bags,) or (n_bags, k)."""
    return np.minimum.reduceat(values, offsets[:-1], axis=0)


def segment_sum(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum over each bag, shape (n_bags,) or (n_bags, k)."""
    return np.add.reduceat(values, offsets[:-1], axis=0)


def segment_mean(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Mean over each bag, shape (n_bags,) or (n_bags, k)."""
    sizes = np.diff(offsets).astype(np.result_type(values, np.float32))
    return segment_sum(values, offsets) / sizes.reshape((-1,) + (1,) * (values.ndim - 1))


def segment_index(offsets: np.ndarray) -> np.ndarray:
    """Number of the bag that each row belongs to, shape (n_instances,)."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.intp), np.diff(offsets))


def segment_argmax(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Row of the maximum of each bag; the first row wins a tie, and NaN wins over numbers.

    Rows count over all instances, so ``values[segment_argmax(values, offsets)]`` equals
    ``segment_max(values, offsets)`` for one-dimensional values.
    """
    if values.ndim == 2:
        columns = [segment_argmax(column, offsets) for column in values.T]
        return np.stack(columns, axis=1)
    top = np.repeat(segment_max(values, offsets), np.diff(offsets))
    # A NaN counts as the maximum, as in np.argmax: without it the row of another bag came out.
    hits = np.flatnonzero((values == top) | (values != values))
    return hits[np.searchsorted(hits, offsets[:-1])]


def gather_rows(offsets: np.ndarray, bags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the given bags in their order, and the offsets of the gathered bags."""
    sizes = np.diff(offsets)[bags]
    gathered = np.zeros(len(bags) + 1, dtype=np.intp)
    np.cumsum(sizes, out=gathered[1:])
    rows = np.arange(gathered[-1], dtype=np.intp)
    rows += np.repeat(offsets[:-1][bags] - gathered[:-1], sizes)
    return rows, gathered


def bag_ranges(offsets: np.ndarray, limit: int) -> Iterator[tuple[int, int]]:
    """Ranges (first, last) of bags, in order, with at most ``limit`` instances or with one bag."""
    first, n_bags = 0, len(offsets) - 1
    while first < n_bags:
        last = int(np.searchsorted(offsets, offsets[first] + limit, side="right")) - 1
        last = min(max(last, first + 1), n_bags)
        yield first, last
        first = last
