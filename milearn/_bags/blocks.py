"""Blocks of whole bags, and functions that are mapped over them.

Everything that an algorithm for many instances asks of the data is a function of a block. What
blocks return is combined in their order, so that a sum does not depend on who computed it. This is
the one place that knows how instances are stored: float64, float32 or float16, dense or CSR, in
memory or in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from .canonical import row_range
from .rows_on_disk import LazyRows, computed_in, pieces_of
from .rows_on_disk import stacked as stacked
from .segments import bag_ranges
from .threads import in_threads, one_blas_thread, working_threads
from .types import Matrix

# Bytes of a block of instances in float64.
BLOCK_BYTES = 32 * 2**20


# Rows that are values, and not sparse or computed.
_DENSE = (np.ndarray, LazyRows)


@dataclass
class Block:
    """Consecutive whole bags, or a part of a bag.

    Its methods read and convert rows piece by piece. ``instances`` reads and converts all of them.
    """

    # Of shape (n_rows, n_features).
    stored: Matrix
    # Of shape (n_bags + 1,), from zero.
    offsets: np.ndarray
    # First bag and first row of the block among all.
    first_bag: int
    first_row: int
    # Number of instances of the bag of which the block is a part.
    whole_size: int | None = None

    def __post_init__(self) -> None:
        # Type of the rows and their width; the bags and the instances of the block among all.
        self.dtype: np.dtype[Any] = np.dtype(self.stored.dtype)
        self.width = width_of(self.stored)
        self.bags = slice(self.first_bag, self.first_bag + len(self.offsets) - 1)
        self.rows = slice(self.first_row, self.first_row + int(self.offsets[-1]))

    @cached_property
    def instances(self) -> Matrix:
        """All rows in the type of the block, shape (n_rows, n_features)."""
        return self.stored[:] if isinstance(self.stored, LazyRows) else self.stored

    @property
    def bag_sizes(self) -> np.ndarray:
        """Number of instances of each bag, including those in other blocks."""
        if self.whole_size is not None:
            return np.array([self.whole_size])
        return np.diff(self.offsets)

    def scores(self, w: np.ndarray, *, precise: bool = False) -> np.ndarray:
        """Inner products of all rows with weight vectors, (n_rows,) or (n_rows, k), in float64.

        Rows in single precision are multiplied in single precision, unless ``precise``.
        """
        if not isinstance(self.stored, _DENSE):
            if precise and self.dtype != np.float64:
                return np.asarray(self.stored.astype(np.float64) @ w)
            return np.asarray(self.stored @ w, dtype=np.float64)
        single = self.dtype == np.float32 and not precise
        w = w.astype(np.float32 if single else np.float64, copy=False)
        found, first = np.empty((self.stored.shape[0], *w.shape[1:])), 0
        for piece in pieces_of(self.stored, w.dtype):
            found[first : first + len(piece)] = piece @ w
            first += len(piece)
        return found

    def take(self, rows: np.ndarray, dtype: Any = np.float64) -> Matrix:
        """A copy of rows of the block in a type."""
        return self.stored[rows].astype(dtype, copy=False)

    def weighted_sum(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The weighted sum of rows of the block, shape (n_features,)."""
        n_rows, n_features = self.stored.shape
        if len(rows) == 0:
            return np.zeros(n_features)
        if 2 * len(rows) < n_rows:
            return np.asarray(self.stored[rows].T @ weights, dtype=np.float64)
        spread = np.bincount(rows, weights=weights, minlength=n_rows)
        if not isinstance(self.stored, _DENSE):
            return np.asarray(spread @ self.stored, dtype=np.float64)
        total, first = np.zeros(n_features), 0
        for piece in pieces_of(self.stored, np.float64):
            total += spread[first : first + len(piece)] @ piece
            first += len(piece)
        return total


class PassSource(Protocol):
    """Interface of bags for passes over their instances.

    Attributes
    ----------
    n_bags, n_instances, n_features : int
    offsets : ndarray of shape (n_bags + 1,)
    dtype : numpy.dtype of the stored instances
    """

    n_bags: int
    n_instances: int
    n_features: int
    offsets: np.ndarray
    dtype: np.dtype[Any]

    def map(
        self, function: Callable[..., Any], *arguments: Any, in_parts: bool = False
    ) -> list[Any]:
        """``function(block, *arguments)`` for every block, in their order.

        With ``in_parts`` a bag that is larger than a block is divided into several blocks.
        """
        ...

    def fold(self, function: Callable[..., Any], state: Any, *arguments: Any) -> Any:
        """The last ``state = function(state, block, *arguments)``; large bags come in parts."""
        ...

    def gather(self, rows: np.ndarray) -> Matrix:
        """The given instances, in the type of computations."""
        ...


class ArraySource:
    """Blocks of an array, a memory map or a CSR matrix, copied only when they are used.

    Parameters
    ----------
    instances : ndarray (also a memory map), CSR or ``Bags.instance_rows``
        Shape (n_instances, n_features), of float64, float32 or float16; read by slices and by
        arrays of rows.
    offsets : ndarray of shape (n_bags + 1,)
    block_bytes : int
        Size of a block in float64. A bag is cut only for functions that take parts.
    dtype : dtype, default=None
        Type of the blocks; by default, the type of the instances, float32 for float16.
    n_jobs : int, default=1
        Number of threads, each of which has one block in memory. Results do not depend on it.
    """

    def __init__(
        self,
        instances: Matrix,
        offsets: np.ndarray,
        block_bytes: int = BLOCK_BYTES,
        *,
        dtype: Any = None,
        n_jobs: int = 1,
    ) -> None:
        self.instances, self.offsets, self.n_jobs = instances, offsets, n_jobs
        self.n_instances, self.n_features = map(int, instances.shape)
        self.n_bags, self.dtype = len(offsets) - 1, instances.dtype
        self.block_dtype = computed_in(instances.dtype) if dtype is None else np.dtype(dtype)
        self.limit = max(1, block_bytes // (8 * max(1, int(width_of(instances)))))

    def blocks(self, *, in_parts: bool = False) -> Iterator[Block]:
        """Iterate over the blocks."""
        return map(self._block, self._places(in_parts))

    def map(
        self, function: Callable[..., Any], *arguments: Any, in_parts: bool = False
    ) -> list[Any]:
        """``function(block, *arguments)`` for every block, in their order."""
        places = self._places(in_parts)
        with one_blas_thread():
            if len(places) == 1:
                return [function(self._block(places[0]), *arguments)]
            with working_threads(self.n_jobs):
                return in_threads(lambda place: function(self._block(place), *arguments), places)

    def fold(self, function: Callable[..., Any], state: Any, *arguments: Any) -> Any:
        """The last ``state = function(state, block, *arguments)``; large bags come in parts."""
        for place in self._places(in_parts=True):
            state = function(state, self._block(place), *arguments)
        return state

    def gather(self, rows: np.ndarray) -> Matrix:
        """The given instances, in the type of computations."""
        taken = self.instances[rows]
        return taken.astype(computed_in(taken.dtype), copy=False)

    def _places(self, in_parts: bool) -> list[tuple[int, int, int, int]]:
        """First and last bag, and first and last row, of each block."""
        if 0 < self.n_instances <= self.limit:
            return [(0, self.n_bags, 0, self.n_instances)]
        found = []
        for first, last in bag_ranges(self.offsets, self.limit):
            start, stop = int(self.offsets[first]), int(self.offsets[last])
            step = self.limit if in_parts else stop - start
            found += [(first, last, row, min(row + step, stop)) for row in range(start, stop, step)]
        return found

    def _block(self, place: tuple[int, int, int, int]) -> Block:
        first, last, start, stop = place
        offsets = np.clip(self.offsets[first : last + 1], start, stop) - start
        size = int(self.offsets[last] - self.offsets[first])
        rows, dtype = self.instances, self.block_dtype
        if isinstance(rows, np.ndarray) and rows.dtype != dtype:
            rows = LazyRows(rows, np.zeros(1, np.intp), np.array([0, len(rows)]), dtype=dtype)
        if isinstance(rows, LazyRows):
            rows = rows.within(start, stop, dtype)
        elif isinstance(rows, np.ndarray):
            rows = rows[start:stop]
        else:
            rows = row_range(rows, start, stop).astype(dtype, copy=False)
        return Block(rows, offsets, first, start, size if stop - start < size else None)


def width_of(instances: Any) -> float:
    """Mean number of values of an instance: its features, or values and indices of its entries."""
    if sparse.issparse(instances):
        return max(1.0, 2.0 * float(instances.nnz) / max(1, int(instances.shape[0])))
    return float(instances.shape[1])


def product(rows: Matrix, w: np.ndarray) -> np.ndarray:
    """Scores of rows in double precision; other types are converted a block at a time."""
    if sparse.issparse(rows) or rows.dtype == w.dtype:
        return np.asarray(rows @ w)
    step = max(1, BLOCK_BYTES // max(1, w.nbytes))
    starts = range(0, max(1, len(rows)), step)
    return np.concatenate([rows[start : start + step] @ w for start in starts])
