"""Bags that are the same up to the order of their instances, found by fingerprints.

What is learnt without labels (medians, scalings, centres) is learnt on the distinct bags, so that
a bag of weight two and a bag that is there twice give one and the same kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.blocks import row_blocks

__all__ = ["MergedBags", "bag_fingerprints", "distinct_rows", "is_text", "merge_bags"]

# Instances whose entries are mostly zero are compared by their angles, like texts.
_TEXT_DENSITY = 0.05

# Entries up to which bags are brought into an order of their own, at the price of a copy.
_ORDERED = 2**24

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


@dataclass(frozen=True)
class MergedBags:
    """Training bags of which none is there twice with the same target.

    Attributes
    ----------
    bags : Bags
        In an order that depends on their contents alone, but for very many instances.
    positions : ndarray of shape (n_merged,)
        The first training bag of each.
    weights : ndarray of shape (n_merged,)
        Sums of sample weights.
    order : ndarray of shape (n_merged,)
        Positions among the merged bags, in an order that depends on their contents alone.
    first : ndarray of shape (n_distinct,)
        Positions among the merged bags of those that differ in their instances.
    inverse : ndarray of shape (n_merged,)
        The distinct bag of each merged bag.
    groups : ndarray of shape (n_merged,) or None
    """

    bags: Bags
    positions: np.ndarray
    weights: np.ndarray
    order: np.ndarray
    first: np.ndarray
    inverse: np.ndarray
    groups: np.ndarray | None

    @property
    def distinct(self) -> Bags:
        """Bags that differ in their instances."""
        return self.bags if len(self.first) == len(self.bags) else self.bags[self.first]


def merge_bags(
    bags: Bags, targets: np.ndarray, weights: np.ndarray, groups: Any = None
) -> MergedBags:
    """Merge bags with equal contents, target and group; leave out those of weight zero.

    A bag that is there twice would otherwise stand on both sides of an inner fold, and count in
    medians otherwise than one of weight two.

    Parameters
    ----------
    bags : Bags
    targets : ndarray of shape (n_bags,)
    weights : ndarray of shape (n_bags,)
    groups : array-like of shape (n_bags,), default=None
    """
    used = np.flatnonzero(weights > 0)
    group_codes = np.zeros(len(used), dtype=np.intp)
    if groups is not None:
        group_codes = np.unique(np.asarray(groups)[used], return_inverse=True)[1]
    target_codes = np.unique(targets[used], return_inverse=True)[1]
    marks = bag_fingerprints(bags)[used]
    keys = np.rec.fromarrays([marks, target_codes, group_codes])
    _, kept, inverse = np.unique(keys, return_index=True, return_inverse=True)
    summed = np.bincount(inverse.ravel(), weights=weights[used])
    # np.unique sorts by content; very many instances stay where they are.
    order = np.arange(len(kept))
    if bags.n_instances * bags.shape[1] > _ORDERED:
        back = np.argsort(kept)
        kept, summed, order = kept[back], summed[back], np.argsort(back)
    positions = used[kept]
    whole = len(positions) == len(bags) and (np.diff(positions) == 1).all()
    first, inverse = distinct_rows(marks[kept])
    return MergedBags(
        bags=bags if whole else bags[positions],
        positions=positions,
        weights=summed,
        order=order,
        first=first,
        inverse=inverse,
        groups=None if groups is None else group_codes[kept],
    )


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
        entries = int(np.count_nonzero(bags.instances.data))
    else:
        entries = sum(int(np.count_nonzero(block)) for _, _, block in row_blocks(bags))
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
