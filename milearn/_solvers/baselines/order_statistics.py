"""The k-th highest value of a feature in a bag, without a look at its other instances."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

# Values that are sorted at once.
_SORTED_AT_ONCE = 2**22


class OrderStatistics(Protocol):
    """Values of each feature in each bag by their rank.

    Attributes
    ----------
    sizes : ndarray of shape (n_bags,)
    n_features : int
    """

    sizes: np.ndarray
    n_features: int

    def at(self, bags: np.ndarray, features: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Values of the features in the bags; rank 0 is the highest value of the bag.

        ``ranks`` has one axis more, the last, than ``bags`` and ``features`` together.
        """
        ...


def order_statistics(instances: Any, offsets: np.ndarray) -> OrderStatistics:
    """Sort the values of each feature within each bag.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    """
    if sparse.issparse(instances):
        return _SparseStatistics(instances, offsets)
    return _DenseStatistics(instances, offsets)


class _DenseStatistics:
    """A sorted copy of the instances, feature by feature."""

    def __init__(self, instances: np.ndarray, offsets: np.ndarray) -> None:
        self.sizes = np.diff(offsets)
        n_instances, self.n_features = instances.shape
        self._width, self._last = n_instances, offsets[1:] - 1
        # The values of a feature in a bag are neighbours: the rules at a node read them together.
        values = np.empty((self.n_features, n_instances), dtype=instances.dtype)
        for size in np.unique(self.sizes).tolist():
            bags = np.flatnonzero(self.sizes == size)
            for part in gen_batches(len(bags), _at_once(size * self.n_features)):
                rows = (offsets[bags[part]][:, None] + np.arange(size)).ravel()
                block = np.ascontiguousarray(instances[rows].T)
                block.reshape(self.n_features, -1, size).sort(axis=-1)
                values[:, rows] = block
        self._values = values.ravel()

    def at(self, bags: np.ndarray, features: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        last = features * self._width + self._last[bags]
        found: np.ndarray = self._values.take(last[..., None] - ranks)
        return found


class _SparseStatistics:
    """Sorted entries of each feature in each bag; the values between them are zeros."""

    def __init__(self, instances: Any, offsets: np.ndarray) -> None:
        self.sizes = np.diff(offsets)
        self.n_features = int(instances.shape[1])
        n_bags = len(self.sizes)
        bag_of_entry = np.repeat(np.arange(n_bags), np.diff(instances.indptr[offsets]))
        keys = instances.indices.astype(np.int64) * n_bags + bag_of_entry
        order = np.lexsort((instances.data, keys))
        self._values = instances.data[order]
        self._keys, self._first, counts = np.unique(
            keys[order], return_index=True, return_counts=True
        )
        if not len(self._keys):  # so that every search has a neighbour
            self._keys, self._first, counts = np.array([-1]), np.array([0]), np.array([0])
            self._values = np.zeros(1, dtype=instances.dtype)
        group = np.repeat(np.arange(len(self._keys)), counts)
        self._below = np.bincount(group[self._values[: len(group)] < 0], minlength=len(self._keys))
        self._above = counts - self._below

    def at(self, bags: np.ndarray, features: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        keys = features * np.int64(len(self.sizes)) + bags
        group = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        stored = self._keys[group] == keys
        below = np.where(stored, self._below[group], 0)[..., None]
        above = np.where(stored, self._above[group], 0)[..., None]
        first = self._first[group][..., None]
        zeros = self.sizes[bags][..., None] - below - above
        position = below + zeros + above - 1 - ranks
        is_zero = (position >= below) & (ranks >= above)
        # Entries follow each other without the zeros between them.
        entry = first + position - np.where(position < below, 0, zeros)
        found: np.ndarray = np.where(is_zero, 0, self._values[np.where(is_zero, 0, entry)])
        return found


def _at_once(values: int) -> int:
    return max(1, _SORTED_AT_ONCE // values)
