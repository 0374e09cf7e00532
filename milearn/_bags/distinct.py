"""Equal instances and bags are found by hashes and merged, and their weights are added.

A fit must not depend on the order of bags and instances, and a weight of two must be the same as a
repetition. Medians, scalings and centres are therefore learnt on the distinct bags, and methods
that depend on rounding or the order of rows (linear programs, trees) use distinct points in the
order of their hashes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils import gen_batches

from .blocks import Block
from .container import Bags
from .types import Matrix

# Significant digits by which rows are ranked.
_RANK_DIGITS = 10

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def rows_per_block(bytes_per_row: int) -> int:
    """Number of rows that fit into scikit-learn's ``working_memory``, at least one."""
    return max(1, int(get_config()["working_memory"] * 2**20 // max(1, bytes_per_row)))


# -- instances -------------------------------------------------------------------------------------


def row_hashes(X: Matrix) -> np.ndarray:
    """A 64-bit hash of each row, which is the same for float32 and float64, dense and CSR."""
    n, width = X.shape
    if sparse.issparse(X):
        values = _entry_hashes(X.data, X.indices)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
        # Sums wrap around, and so do their differences.
        return np.asarray(sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    out = np.zeros(n, dtype=np.uint64)
    # The values, their bits and three temporary arrays.
    for rows in gen_batches(n, rows_per_block(5 * 8 * width)):
        part = X[rows]
        values = _entry_hashes(part.ravel(), np.tile(np.arange(width), len(part)))
        out[rows] = values.reshape(part.shape).sum(axis=1, dtype=np.uint64)
    return out


def _entry_hashes(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Hashes of entries by value and column; zero for an entry that is zero, stored or not."""
    bits: np.ndarray = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    hashes = _mixed(bits + (columns.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    hashes[np.asarray(values) == 0] = 0
    return hashes


def _mixed(z: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014): each bit depends on every bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def distinct_points(X: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of a matrix, in the order of their hashes.

    The probability that two of n different rows are taken for one is about n^2 / 2^65.

    Returns
    -------
    rows : ndarray of shape (n_points,)
        A row of X for each point.
    point_of : ndarray of shape (n_rows,)
    """
    _, rows, point_of = np.unique(row_hashes(X), return_index=True, return_inverse=True)
    return rows, point_of.ravel()


def row_ranks(X: Matrix) -> np.ndarray:
    """A number for each row to sort by, which is equal for rows that differ by rounding.

    Unlike a hash it does not depend on rounding in the scaling of instances.
    """
    return _rounded(_projections(X))


def instance_ranks(bags: Bags) -> np.ndarray:
    """The ranks of the instances of bags, which may be remote."""
    return _rounded(np.concatenate(bags.source().map(_block_projections, in_parts=True)))


def _projections(X: Matrix) -> np.ndarray:
    direction = np.cos(np.arange(1.0, X.shape[1] + 1.0))
    if sparse.issparse(X):
        return np.asarray(X.multiply(direction).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,j->i", np.nan_to_num(X), direction))


def _block_projections(block: Block) -> np.ndarray:
    return _projections(block.instances)


def _rounded(keys: np.ndarray) -> np.ndarray:
    size = float(np.abs(keys).max(initial=0.0))
    return np.round(keys / size, _RANK_DIGITS) if size > 0 else keys


# -- bags ------------------------------------------------------------------------------------------


def bag_fingerprints(bags: Bags) -> np.ndarray:
    """A 64-bit number per bag, equal for bags with the same instances in any order.

    The probability that different bags have the same number is about n_bags^2 / 2^65.
    """
    found = np.zeros(len(bags), dtype=np.uint64)
    parts = bags.source(dtype=bags.dtype).map(_block_fingerprints, in_parts=True)
    for places, sums in parts:
        # Sums wrap around. A bag may be in several blocks.
        found[places] += sums
    return found


def _block_fingerprints(block: Block) -> tuple[slice, np.ndarray]:
    rows = block.instances
    hashes = row_hashes(sparse.csr_array(rows) if sparse.issparse(rows) else rows)
    return block.bags, np.add.reduceat(_mixed(hashes + _GOLDEN), block.offsets[:-1])


@dataclass(frozen=True)
class MergedBags:
    """Training bags that differ in their contents, target or group."""

    # In an order that depends only on their contents, except for very many instances.
    bags: Bags
    # The first training bag of each, of shape (n_merged,).
    positions: np.ndarray
    # Sums of sample weights, of shape (n_merged,).
    weights: np.ndarray
    # Positions among the merged bags, in an order that depends only on their contents, of shape
    # (n_merged,).
    order: np.ndarray
    # Positions among the merged bags of those that differ in their instances, of shape
    # (n_distinct,).
    distinct_positions: np.ndarray
    # The distinct bag of each merged bag, of shape (n_merged,).
    inverse: np.ndarray
    # Of shape (n_merged,), or None.
    groups: np.ndarray | None

    @property
    def distinct(self) -> Bags:
        """Bags that differ in their instances."""
        return self.bags[self.distinct_positions]


def merge_bags(
    bags: Bags,
    targets: np.ndarray,
    weights: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    most_sorted: int = 2**24,
) -> MergedBags:
    """Merge bags with equal contents, target and group, and remove bags of weight zero.

    Otherwise duplicates could be in the training and the test part of an inner fold, and medians
    would count duplicates differently from a bag of weight two. Bags with up to ``most_sorted``
    entries are sorted by content, which requires a copy; others stay in their order.
    """
    used = np.flatnonzero(weights > 0)
    group_codes = np.zeros(len(used), dtype=np.intp)
    if groups is not None:
        group_codes = np.unique(groups[used], return_inverse=True)[1]
    target_codes = np.unique(targets[used], return_inverse=True)[1]
    marks = bag_fingerprints(bags)[used]
    keys = np.rec.fromarrays([marks, target_codes, group_codes])
    _, kept, inverse = np.unique(keys, return_index=True, return_inverse=True)
    summed = np.bincount(inverse.ravel(), weights=weights[used])
    # np.unique sorts by content.
    order = np.arange(len(kept))
    if bags.n_instances * bags.shape[1] > most_sorted:
        back = np.argsort(kept)
        kept, summed, order = kept[back], summed[back], np.argsort(back)
    positions = used[kept]
    _, first, inverse = np.unique(marks[kept], return_index=True, return_inverse=True)
    by_first = np.argsort(first)
    return MergedBags(
        bags=bags[positions],
        positions=positions,
        weights=summed,
        order=order,
        distinct_positions=first[by_first],
        inverse=np.argsort(by_first)[inverse],
        groups=None if groups is None else group_codes[kept],
    )


@dataclass(frozen=True)
class PointBags:
    """Bags as sorted lists of distinct points, equal bags of a class merged.

    Descents and trees depend on rounding and the order of rows. In this order a fit does not depend
    on the order of the bags, and a weight of two is exactly equivalent to duplicating a bag.
    """

    # A row of the instances of the training bags for each point, of shape (n_points,).
    kept: np.ndarray
    # The point of each instance of the merged bags, of shape (n_instances,).
    point_of: np.ndarray
    # Of shape (n_bags + 1,).
    offsets: np.ndarray
    # Of shape (n_bags,). Weights are sums over equal bags.
    codes: np.ndarray
    weights: np.ndarray
    sample_weights: np.ndarray

    @classmethod
    def of(
        cls,
        bags: Bags,
        codes: np.ndarray,
        weights: np.ndarray,
        sample_weights: np.ndarray,
        *,
        mirrored: bool = False,
    ) -> PointBags:
        """Merge bags by their contents and class codes, and add their weights.

        ``mirrored`` tells whether the first of two classes is positive.
        """
        kept, point_of = distinct_points(bags.instances)
        merged: dict[tuple[int, ...], np.ndarray] = {}
        both = np.column_stack([weights, sample_weights])
        for bag in range(len(bags)):
            points = np.sort(point_of[bags.offsets[bag] : bags.offsets[bag + 1]])
            key = (int(codes[bag]) ^ mirrored, *points.tolist())
            merged[key] = merged.get(key, 0.0) + both[bag]
        keys = sorted(merged)
        weights, sample_weights = np.transpose([merged[key] for key in keys]).copy()
        return cls(
            kept=kept,
            point_of=np.concatenate([key[1:] for key in keys]).astype(np.intp),
            offsets=np.cumsum([0, *(len(key) - 1 for key in keys)]),
            codes=np.array([key[0] ^ mirrored for key in keys]),
            weights=weights,
            sample_weights=sample_weights,
        )

    @property
    def instance_weights(self) -> np.ndarray:
        """The sample weight of its bag for each instance."""
        return np.repeat(self.sample_weights, np.diff(self.offsets))


# -- prototypes ------------------------------------------------------------------------------------


def most_points(
    n_points: int,
    n_bags: int,
    *,
    n_most: int = 10_000,
    n_entries: int = 2**25,
    n_few: int = 1000,
) -> int:
    """Number of distinct instances that are prototypes: all, or those of a sample.

    There are at most ``n_entries`` similarities between bags and instances, unless there are few
    instances.
    """
    return min(n_points, n_most, max(n_few, n_entries // n_bags))


def most_bags(bags: Bags, most: int, *, with_each_other: bool = False, n_pairs: int = 2**33) -> int:
    """Number of bags that are prototypes, or of a sample whose bags are compared with each other.

    There are at most ``n_pairs`` pairs of a training instance and an instance of a prototype, or
    of two instances of a sample.
    """
    instances = n_pairs**0.5 if with_each_other else n_pairs / bags.n_instances
    return max(1, min(len(bags), most, int(len(bags) * instances / bags.n_instances)))


def drawn_points(
    bags: Bags,
    n_points: int | str | None,
    rng: np.random.RandomState,
) -> np.ndarray:
    """One row for each of some distinct instances, in the order of their hashes.

    Parameters
    ----------
    bags : Bags
    n_points : int, "auto" or None
        Maximum number; None for all.
    rng : RandomState
        Determines the sample, regardless of the order of the bags.
    """
    rows, _ = distinct_points(bags.instances)
    if n_points == "auto":
        n_points = most_points(len(rows), len(bags))
    if n_points is None or int(n_points) >= len(rows):
        return rows
    return np.asarray(rows[np.sort(rng.choice(len(rows), int(n_points), replace=False))])


def drawn_bags(bags: Bags, n_bags: int, rng: np.random.RandomState) -> np.ndarray:
    """Positions of at most ``n_bags`` bags, ascending.

    Which bags are drawn does not depend on their order.
    """
    if n_bags >= len(bags):
        return np.arange(len(bags))
    order = np.argsort(bag_fingerprints(bags), kind="stable")
    return np.sort(order[rng.choice(len(bags), n_bags, replace=False)])
