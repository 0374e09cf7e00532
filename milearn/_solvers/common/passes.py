"""Sources of passes: whole bags in blocks, and functions that are mapped over them.

Everything that a solver for many instances asks of the data is a function of a block. What blocks
return is combined in their order, so that a sum does not depend on who computed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

__all__ = ["ArraySource", "Block", "PassSource"]

Matrix = Any  # an ndarray or a CSR matrix

_BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Block:
    """Consecutive whole bags.

    Attributes
    ----------
    instances : ndarray or CSR of shape (n_rows, n_features)
    offsets : ndarray of shape (n_bags + 1,), from zero
    first_bag, first_row : int
        Where the block begins among all bags and instances.
    """

    instances: Matrix
    offsets: np.ndarray
    first_bag: int
    first_row: int

    @property
    def bags(self) -> slice:
        """The bags of the block among all."""
        return slice(self.first_bag, self.first_bag + len(self.offsets) - 1)

    @property
    def rows(self) -> slice:
        """The instances of the block among all."""
        return slice(self.first_row, self.first_row + int(self.offsets[-1]))

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Inner products of all rows with a weight vector, in float64."""
        if self.instances.dtype == np.float32:
            w = w.astype(np.float32)
        return np.asarray(self.instances @ w, dtype=np.float64)

    def take(self, rows: np.ndarray) -> Matrix:
        """A float64 copy of rows of the block."""
        return self.instances[rows].astype(np.float64)

    def weighted_sum(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The weighted sum of rows of the block, shape (n_features,)."""
        if len(rows) == 0:
            return np.zeros(self.instances.shape[1])
        if 2 * len(rows) < self.instances.shape[0]:
            return np.asarray(self.instances[rows].T @ weights, dtype=np.float64)
        spread = np.bincount(rows, weights=weights, minlength=self.instances.shape[0])
        return np.asarray(self.instances.T @ spread, dtype=np.float64)


class PassSource(Protocol):
    """Bags that can be passed over.

    Attributes
    ----------
    n_bags, n_instances, n_features : int
    """

    n_bags: int
    n_instances: int
    n_features: int

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """``function(block, *arguments)`` for every block, in their order."""
        ...


class ArraySource:
    """Blocks of an array, a memory map or a CSR matrix; only what is looked at is copied.

    Parameters
    ----------
    instances : ndarray (also a memory map) or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    block_bytes : int
        Size of a block in float64. A bag is never cut.
    """

    def __init__(
        self, instances: Matrix, offsets: np.ndarray, block_bytes: int = _BLOCK_BYTES
    ) -> None:
        self.instances, self.offsets = instances, offsets
        self.n_instances, self.n_features = (int(size) for size in instances.shape)
        self.n_bags = len(offsets) - 1
        width = self.n_features
        if sparse.issparse(instances):
            width = max(1, 2 * instances.nnz // max(1, self.n_instances))
        limit = max(1, block_bytes // (8 * width))
        self._starts = [0]
        while self._starts[-1] < self.n_bags:
            first = self._starts[-1]
            last = int(np.searchsorted(offsets, offsets[first] + limit, side="right")) - 1
            self._starts.append(min(self.n_bags, max(last, first + 1)))

    @property
    def sizes(self) -> np.ndarray:
        """Number of instances of each bag."""
        return np.diff(self.offsets)

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """``function(block, *arguments)`` for every block, in their order."""
        found = []
        for first, last in zip(self._starts[:-1], self._starts[1:], strict=True):
            start, stop = int(self.offsets[first]), int(self.offsets[last])
            offsets = self.offsets[first : last + 1] - start
            found.append(
                function(Block(self.instances[start:stop], offsets, first, start), *arguments)
            )
        return found
