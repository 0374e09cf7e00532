"""Passes over the instances of a container that hold one block of them in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from .container import Bags
from .mapped import MappedRows
from .segments import bag_ranges

__all__ = [
    "BLOCK_BYTES",
    "bag_blocks",
    "compute_dtype",
    "converted",
    "in_memory",
    "is_read_in_blocks",
    "row_blocks",
]

# Bytes of a block in the type in which it is computed.
BLOCK_BYTES = 2**24


def is_read_in_blocks(bags: Bags) -> bool:
    """Whether the instances are too large or of too few digits to be used as they are stored."""
    return bags.dtype == np.float16 or isinstance(bags.instance_rows, MappedRows)


def compute_dtype(bags: Bags) -> np.dtype:
    """The type to compute in: that of the instances, float32 for float16."""
    return np.dtype(np.float32) if bags.dtype == np.float16 else bags.dtype


def row_blocks(
    bags: Bags, dtype: Any = None, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Dense instances ``start`` to ``stop``, block by block, in the given type or as stored."""
    dtype = np.dtype(bags.dtype if dtype is None else dtype)
    rows, n_features = bags.instance_rows, bags.shape[1]
    step = max(1, block_bytes // max(1, n_features * dtype.itemsize))
    for start in range(0, bags.n_instances, step):
        stop = min(start + step, bags.n_instances)
        yield start, stop, _read(rows, start, stop, dtype)


def _read(rows: Any, start: int, stop: int, dtype: Any) -> np.ndarray:
    if isinstance(rows, MappedRows):
        return rows.read(start, stop, dtype)
    return rows[start:stop].astype(dtype, copy=False)


def bag_blocks(
    bags: Bags, dtype: Any, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[int, int, Bags]]:
    """Bags ``first`` to ``last`` in memory, block by block, a large bag in a block of its own."""
    limit = max(1, block_bytes // max(1, bags.shape[1] * np.dtype(dtype).itemsize))
    for first, last in bag_ranges(bags.offsets, limit):
        start, stop = bags.offsets[first], bags.offsets[last]
        block = _read(bags.instance_rows, int(start), int(stop), dtype)
        yield first, last, Bags(block, bags.offsets[first : last + 1] - start)


def converted(bags: Bags, dtype: Any) -> Bags:
    """The bags over instances of another type, with no copy but that one."""
    if sparse.issparse(bags.instance_rows):
        instances = bags.instances.astype(dtype)
    else:
        instances = np.empty((bags.n_instances, bags.shape[1]), dtype=dtype)
        for start, stop, block in row_blocks(bags):
            instances[start:stop] = block
    return bags.with_instances(instances, feature_names=bags.feature_names)


def in_memory(bags: Bags) -> Bags:
    """The bags without reference to a file, for what outlives it."""
    if not isinstance(bags.instance_rows, MappedRows):
        return bags
    return converted(bags, bags.dtype)
