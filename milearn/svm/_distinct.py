"""Bags that are the same up to the order of their instances, found by fingerprints.

What is learnt without labels (medians, scalings, centres) is learnt on the distinct bags, so that
a bag of weight two and a bag that is there twice give one and the same kernel.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.blocks import row_blocks

__all__ = ["bag_fingerprints", "distinct_rows", "is_text"]

# Instances whose entries are mostly zero are compared by their angles, like texts.
_TEXT_DENSITY = 0.05

_COLUMN = np.uint64(0x9E3779B97F4A7C15)
_STEPS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


def bag_fingerprints(bags: Bags) -> np.ndarray:
    """A number of 64 bits per bag; equal for bags that hold the same instances.

    The order of instances, their type (float32 or float64 of the same values) and their storage
    (dense or CSR) make no difference. Different bags share a number with a probability of about
    n_bags^2 / 2^65.

    Parameters
    ----------
    bags : Bags

    Returns
    -------
    ndarray of uint64 of shape (n_bags,)
    """
    rows = np.zeros(bags.n_instances, dtype=np.uint64)
    with np.errstate(over="ignore"):
        if sparse.issparse(bags.instance_rows):
            matrix = sparse.csr_array(bags.instances)
            marks = _marks(matrix.data, matrix.indices)
            owner = np.repeat(np.arange(bags.n_instances), np.diff(matrix.indptr))
            np.add.at(rows, owner, marks)
        else:
            columns = np.arange(bags.shape[1])
            for start, stop, block in row_blocks(bags):
                rows[start:stop] = _marks(block, columns).sum(axis=1, dtype=np.uint64)
        return np.add.reduceat(_mixed(rows + _COLUMN), bags.offsets[:-1])


def distinct_rows(fingerprints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the first bag of each kind, in order, and the number of the kind of each bag."""
    _, first, inverse = np.unique(fingerprints, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse]


def is_text(bags: Bags) -> bool:
    """Whether at most one entry in twenty is not zero, whatever the storage.

    Parameters
    ----------
    bags : Bags

    Returns
    -------
    bool
    """
    if sparse.issparse(bags.instance_rows):
        entries = np.count_nonzero(bags.instances.data)
    else:
        entries = sum(np.count_nonzero(block) for _, _, block in row_blocks(bags))
    return bool(0 < entries <= _TEXT_DENSITY * bags.n_instances * bags.shape[1])


def _marks(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Marks of entries by value and column; zero for an entry that is zero, stored or not."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    marks = _mixed(bits + (columns.astype(np.uint64) + np.uint64(1)) * _COLUMN)
    marks[np.asarray(values) == 0] = 0
    return marks


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every bit of the outcome depends on every bit given."""
    for shift, factor in _STEPS:
        values = (values ^ (values >> np.uint64(shift))) * factor
    return values ^ (values >> np.uint64(31))
