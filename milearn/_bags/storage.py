"""Types of instances, reading in blocks, and conversion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .blocks import Matrix, computed_in
from .container import Bags
from .mapped import MappedRows

__all__ = [
    "compute_dtype",
    "converted",
    "in_memory",
    "is_read_in_blocks",
    "row_blocks",
    "without_names",
]


def compute_dtype(bags: Bags) -> np.dtype:
    """The type of computations: the type of the instances, float32 for float16."""
    return computed_in(bags.dtype)


def is_read_in_blocks(bags: Bags) -> bool:
    """Whether the instances have to be read in blocks: memory maps and float16."""
    return bags.is_remote or bags.dtype == np.float16 or isinstance(bags.instance_rows, MappedRows)


def row_blocks(bags: Bags, dtype: Any = None) -> Iterator[tuple[int, int, Matrix]]:
    """Instances ``start`` to ``stop``, block by block, in the given type or as stored."""
    source = bags.source(dtype=bags.dtype if dtype is None else dtype)
    for block in source.blocks(in_parts=True):
        yield block.rows.start, block.rows.stop, block.instances


def converted(bags: Any, dtype: Any) -> Any:
    """The bags with their instances converted to another type, with at most one copy."""
    if bags.is_remote:
        return bags.transformed(converted, dtype)
    if bags.is_sparse:
        instances = bags.instances.astype(dtype)
    else:
        instances = np.empty((bags.n_instances, bags.shape[1]), dtype=dtype)
        for start, stop, block in row_blocks(bags):
            instances[start:stop] = block
    return bags.with_instances(instances, feature_names=bags.feature_names)


def without_names(bags: Bags) -> Bags:
    """The same bags without the names of their features."""
    return bags if bags.feature_names is None else bags._changed(feature_names=None)


def in_memory(bags: Bags) -> Bags:
    """The bags in memory, without a reference to a file."""
    if not isinstance(bags.instance_rows, MappedRows):
        return bags
    return converted(bags, bags.dtype)
