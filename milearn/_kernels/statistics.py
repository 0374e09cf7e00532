"""Extremes, sums, means and deviations of each feature over the instances of each bag."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._bags.segments import StoredRuns, segment_index, segment_max, segment_min, without_rounding


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


class SparseRuns(StoredRuns):
    """The stored entries of CSR instances."""

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
