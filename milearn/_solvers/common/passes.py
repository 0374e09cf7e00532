"""A source of passes: whole bags in blocks, and functions that are mapped over them.

Everything that a solver for many instances asks of the data is a function of a block. What the
blocks return is combined in their order, so that a sum does not depend on who computed it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

__all__ = ["ArraySource", "Block", "PassSource"]

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

    instances: Any
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
        """Inner products with a weight vector, in float64."""
        w = w.astype(np.float32) if self.instances.dtype == np.float32 else w
        return np.asarray(self.instances @ w, dtype=np.float64)


class PassSource(Protocol):
    """Bags that can be passed over."""

    n_bags: int
    n_instances: int
    n_features: int
    sizes: np.ndarray

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """``function(block, *arguments)`` for every block, in their order."""
        ...


class ArraySource:
    """Blocks of an array, a memory map or a CSR matrix; nothing is copied but what is looked at."""

    def __init__(self, instances: Any, offsets: np.ndarray, block_bytes: int = _BLOCK_BYTES) -> None:
        self.instances, self.offsets = instances, offsets
        self.n_instances, self.n_features = instances.shape
        self.n_bags = len(offsets) - 1
        self.sizes = np.diff(offsets)
        width = self.n_features
        if sparse.issparse(instances):
            width = max(1, 2 * instances.nnz // max(1, self.n_instances))
        limit = max(1, block_bytes // (8 * width))
        starts = [0]
        while starts[-1] < self.n_bags:
            end = int(np.searchsorted(offsets, offsets[starts[-1]] + limit, side="right")) - 1
            starts.append(min(self.n_bags, max(end, starts[-1] + 1)))
        self._starts: Sequence[int] = starts

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """``function(block, *arguments)`` for every block, in their order."""
        found = []
        for first, last in zip(self._starts[:-1], self._starts[1:], strict=True):
            a, b = int(self.offsets[first]), int(self.offsets[last])
            block = Block(self.instances[a:b], self.offsets[first : last + 1] - a, first, a)
            found.append(function(block, *arguments))
        return found
