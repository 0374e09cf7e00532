"""Extremes, sums, means and deviations of each feature over the instances of each bag."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._bags.segments import segment_index, segment_max, segment_min, without_rounding


class DenseRuns:
    """The dense instances of bags: a run is a bag and a feature."""

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self.values, self.offsets = values, offsets
        self.sizes, self.starts = np.diff(offsets)[:, np.newaxis], offsets[:-1]

    def extreme(self, name: str) -> np.ndarray:
        """The "min" or "max" of each run."""
        return (segment_min if name == "min" else segment_max)(self.values, self.offsets)

    def squares(self, means: np.ndarray) -> np.ndarray:
        """Sums of squared deviations from the means."""
        deviations = self.values - means[segment_index(self.offsets)]
        deviations *= deviations
        return sums_of(self, deviations)


class SparseRuns:
    """The stored entries of CSR instances in runs of one bag and one feature.

    Statistics are computed from the values of a run and its number of implicit zeros. If a bag and
    a feature do not have a run, the statistic is 0.
    """

    def __init__(self, csr: Any, offsets: np.ndarray) -> None:
        self.bag_sizes, self.dtype = np.diff(offsets), csr.dtype
        self.shape = len(self.bag_sizes), csr.shape[1]
        # With one row pointer per bag, the matrix has duplicate entries. Its transposition groups
        # them in linear time; the values are the positions of the entries.
        places = sparse.csr_array(
            (np.arange(csr.nnz), csr.indices, csr.indptr[offsets]), shape=self.shape
        ).tocsc()
        self.values = csr.data[places.data]
        rows = places.indices
        columns = np.repeat(np.arange(self.shape[1]), np.diff(places.indptr))
        new = np.ones(len(rows), dtype=bool)
        new[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        self.starts = np.flatnonzero(new)
        self.lengths = np.diff(np.append(self.starts, len(rows)))
        self.run = np.repeat(np.arange(len(self.starts)), self.lengths)
        self.bag = rows[self.starts]
        self.column = columns[self.starts]
        self.sizes = self.bag_sizes[self.bag]
        self.zeros = self.sizes - self.lengths

    def extreme(self, name: str) -> np.ndarray:
        """The "min" or "max" of each run."""
        best = np.minimum if name == "min" else np.maximum
        values = best.reduceat(self.values, self.starts)
        return np.where(self.zeros > 0, best(values, 0), values)

    def matrix(self, values: np.ndarray) -> sparse.csr_array:
        """The values of the runs as CSR of shape (n_bags, n_features)."""
        kept = values != 0
        entries = values[kept].astype(self.dtype), (self.bag[kept], self.column[kept])
        return sparse.csr_array(entries, shape=self.shape)

    def squares(self, means: np.ndarray) -> np.ndarray:
        """Sums of squared deviations from the means."""
        deviations = self.values - means[self.run]
        return sums_of(self, deviations * deviations) + self.zeros * means * means


def sums_of(runs: DenseRuns | SparseRuns, values: np.ndarray) -> Any:
    """Sums of values over runs, in double precision."""
    return np.add.reduceat(values, runs.starts, axis=0, dtype=np.float64)


def statistic_of(runs: DenseRuns | SparseRuns, name: str) -> np.ndarray:
    """The "min", "max", "sum", "mean" or "std" of each run."""
    if name in ("min", "max"):
        return runs.extreme(name)
    sums = sums_of(runs, runs.values)
    if name == "sum":
        return sums
    means = sums / runs.sizes
    if name == "mean":
        return means
    # Use two passes: the mean of squares minus the squared mean loses all digits of a feature that
    # varies little around a large value.
    return without_rounding(np.sqrt(runs.squares(means) / runs.sizes), means)
