"""Passes over all instances: scores, highest instances, means, gathered rows, and samples.

A pass maps a function over the blocks of a source and combines the results. The source may be an
array, a file, or bags on the workers of a cluster; see :mod:`milearn._bags.blocks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import ArraySource, Block, PassSource, stacked
from ..._bags.segments import (
    gather_rows,
    offsets_of,
    pooling_matrix,
    segment_argmax,
    segment_index,
    segment_max,
    segment_mean,
)
from .cccp import RELATIVE_TIE

Matrix = Any  # an ndarray or a CSR matrix
Scores = Callable[[Block, np.ndarray], np.ndarray]

# Bytes of a block in float64 that fits into the cache of a core.
STREAM_BYTES = 2**21
# Sums up to this fraction of the sum of absolute values count as rounding.
_ROUNDING = 1e-12


def block_scores(block: Block, weights: np.ndarray) -> np.ndarray:
    """Products of the weight vectors with the rows of a block, shape (n_vectors, n_rows)."""
    if sparse.issparse(block.stored):
        return np.ascontiguousarray((block.stored @ weights.T).T, dtype=np.float64)
    # In float64, so that the highest instance does not depend on the type.
    return np.ascontiguousarray(block.scores(weights.T, precise=True).T)


def highest(
    source: PassSource, weights: np.ndarray, scores: Scores = block_scores
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The highest score of each bag over all weight vectors, its instance and its weight vector.

    Ties are broken in favour of the first weight vector, then of the first instance.

    Parameters
    ----------
    source : PassSource
    weights : ndarray of shape (n_vectors, n_features)
    scores : callable, default=block_scores
        Scores of shape (n_vectors, n_rows) of a block for the weights. It has to be a function of a
        module, which a worker can import.

    Returns
    -------
    rows, vectors : ndarray of int of shape (n_bags,)
        Row of the instance and number of the weight vector.
    values : ndarray of shape (n_bags,)
    """
    rows = np.empty(source.n_bags, dtype=np.intp)
    vectors = np.empty(source.n_bags, dtype=np.intp)
    values = np.empty(source.n_bags)
    done = 0
    for first, first_row, top, vector, value in source.map(
        _highest, weights, scores, in_parts=True
    ):
        bags = slice(first, first + len(top))
        if first < done and not (
            value[0] > values[first] or (value[0] == values[first] and vector[0] < vectors[first])
        ):
            continue
        rows[bags], vectors[bags], values[bags] = first_row + top, vector, value
        done = bags.stop
    return rows, vectors, values


def _highest(
    block: Block, weights: np.ndarray, of_block: Scores
) -> tuple[int, int, np.ndarray, np.ndarray, np.ndarray]:
    scores, offsets = of_block(block, weights), block.offsets
    best = scores.max(axis=0)
    top = np.flatnonzero(best == np.repeat(segment_max(best, offsets), np.diff(offsets)))
    vectors = scores[:, top].argmax(axis=0)
    if len(top) > len(offsets) - 1:
        bags = np.searchsorted(offsets, top, side="right") - 1
        order = np.lexsort((top, vectors, bags))
        chosen = order[np.searchsorted(bags, np.arange(len(offsets) - 1))]
        top, vectors = top[chosen], vectors[chosen]
    # In half of the bytes, because a worker may have to send it.
    narrow = top.astype(np.int32) if offsets[-1] < 2**31 else top
    return block.first_bag, block.first_row, narrow, vectors.astype(np.int32), scores[vectors, top]


def bag_maxima(
    source: PassSource, weights: np.ndarray, scores: Scores = block_scores
) -> np.ndarray:
    """Highest score of each bag for each weight vector, shape (n_bags, n_vectors)."""
    values = np.full((source.n_bags, len(weights)), -np.inf)
    for bags, found in source.map(_maxima, weights, scores, in_parts=True):
        np.maximum(values[bags], found, out=values[bags])
    return values


def _maxima(block: Block, weights: np.ndarray, scores: Scores) -> tuple[slice, np.ndarray]:
    found = scores(block, weights)
    return block.bags, np.maximum.reduceat(found, block.offsets[:-1], axis=1).T


def instance_scores(
    source: PassSource, weights: np.ndarray, scores: Scores = block_scores
) -> np.ndarray:
    """Score all instances by any fitted estimator, high for the positive class."""
    values = np.empty((source.n_instances, len(weights)))
    for rows, found in source.map(_scores_of, weights, scores, in_parts=True):
        values[rows] = found.T
    return values


def _scores_of(block: Block, weights: np.ndarray, scores: Scores) -> tuple[slice, np.ndarray]:
    return block.rows, scores(block, weights)


def bag_means(source: PassSource, dtype: Any) -> Matrix:
    """Mean instance of each bag in the given type, shape (n_bags, n_features)."""
    places, parts = zip(*source.map(_means, np.dtype(dtype), in_parts=True), strict=True)
    means = stacked(parts)
    if means.shape[0] == source.n_bags:
        return means
    # Add the sums of bags that are divided between blocks.
    owner = np.concatenate([np.arange(bags.start, bags.stop) for bags in places])
    offsets = np.searchsorted(owner, np.arange(source.n_bags + 1))
    return pooling_matrix(offsets, 1.0, dtype=dtype) @ means


def _means(block: Block, dtype: np.dtype[Any]) -> tuple[slice, Matrix]:
    weights = np.repeat(1.0 / block.bag_sizes, np.diff(block.offsets))
    pooling = pooling_matrix(block.offsets, weights, dtype=dtype)
    instances = block.instances
    if not sparse.issparse(instances):
        instances = np.asarray(instances, dtype=dtype)
    return block.bags, pooling @ instances


def sum_of_means(source: PassSource) -> np.ndarray:
    """m, the sum over bags of their mean instance, shape (n_features,).

    Entries that are zero up to rounding are set to zero.
    """
    total, size = np.zeros(source.n_features), np.zeros(source.n_features)
    for part, part_size in source.map(_sum_of_means, in_parts=True):
        total += part
        size += part_size
    return np.where(np.abs(total) > _ROUNDING * size, total, 0.0)


def _sum_of_means(block: Block) -> tuple[np.ndarray, np.ndarray]:
    weights, instances = np.repeat(1.0 / block.bag_sizes, np.diff(block.offsets)), block.instances
    if not sparse.issparse(instances):
        instances = np.asarray(instances, dtype=np.float64)
    return weights @ instances, weights @ abs(instances)


def weighted_sum(source: PassSource, weights: np.ndarray) -> np.ndarray:
    """The sum of all instances, each times the weight of its bag, shape (n_features,)."""
    return np.asarray(np.sum(source.map(_weighted_sum, weights), axis=0))


def _weighted_sum(block: Block, weights: np.ndarray) -> np.ndarray:
    each = np.repeat(weights[block.bags], np.diff(block.offsets))
    return block.weighted_sum(np.arange(len(each)), each)


def gather(source: PassSource, rows: np.ndarray, *, float64_bytes: int = 2**27) -> Matrix:
    """The given instances, in float64 up to ``float64_bytes``, and never in float16."""
    taken = source.gather(rows)
    if sparse.issparse(taken) or 8 * taken.size <= float64_bytes:
        return taken.astype(np.float64, copy=False)
    return taken


def rows_of_block(block: Block, rows: np.ndarray, dtype: Any = np.float64) -> Matrix:
    """The instances of a block among the given rows of all instances."""
    mine = rows[(rows >= block.rows.start) & (rows < block.rows.stop)]
    return block.take(mine - block.first_row, dtype)


# -- ties ------------------------------------------------------------------------------------------
#
# Instances tie exactly if a weight vector vanishes on all their differences, for example at w = 0.
# Any of them linearises the maximum, so ties are broken by a second score.


class HighestInstances:
    """The highest instance of each of some bags, with a second score to break ties.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
    bags : ndarray of int
        Positions of these bags.
    second_scores : callable
        ``second_scores()`` returns a score of each of all instances. It is called once, and only if
        instances tie.
    tie : float, default=RELATIVE_TIE
        Difference up to which scores tie, as a fraction of the largest absolute score or of 1.
    """

    def __init__(
        self,
        offsets: np.ndarray,
        bags: np.ndarray,
        second_scores: Callable[[], np.ndarray],
        tie: float = RELATIVE_TIE,
    ) -> None:
        self.bags, self.second_scores, self.tie = bags, second_scores, tie
        self.rows, self.offsets = gather_rows(offsets, bags)

    @cached_property
    def second(self) -> np.ndarray:
        """The second scores of the instances of these bags."""
        return np.asarray(self.second_scores()[self.rows])

    def of(self, scores: np.ndarray, *, constant: bool = False) -> np.ndarray:
        """Row of the highest instance of each bag, from the scores of all instances.

        If the function is ``constant`` up to the precision of its solver, all instances tie.
        """
        if len(self.bags) == 0:
            return np.zeros(0, dtype=np.intp)
        tied, several = self.tied(scores, constant)
        ranking = np.where(tied, self.second if several else 0.0, -np.inf)
        rows: np.ndarray = self.rows[segment_argmax(ranking, self.offsets)]
        return rows

    def tied(self, scores: np.ndarray, constant: bool) -> tuple[np.ndarray, bool]:
        """The instances that tie with the highest of their bag, and whether a bag has several."""
        own, sizes = scores[self.rows], np.diff(self.offsets)
        near = np.inf if constant else self.tie * max(1.0, float(np.abs(own).max()))
        tied = own >= np.repeat(segment_max(own, self.offsets) - near, sizes)
        return tied, bool(np.count_nonzero(tied) > len(sizes))


@dataclass(frozen=True)
class TieRule:
    """How a pass breaks ties: by a second weight vector; all instances tie if ``constant``."""

    second: np.ndarray | None = None
    constant: bool = False

    def highest(
        self, block: Block, scores: np.ndarray, bags: np.ndarray
    ) -> tuple[np.ndarray, bool]:
        """Rows of the highest instances of bags of a block, and whether ties were left open."""
        rule = HighestInstances(
            block.offsets, bags, lambda: block.scores(np.asarray(self.second), precise=True)
        )
        if self.second is None:
            open_ties = len(bags) > 0 and rule.tied(scores, constant=False)[1]
            return segment_argmax(scores, block.offsets)[bags], open_ties
        return rule.of(scores, constant=self.constant), False


def is_constant(value: float, at_zero: float, rounding: float = 1e-12, above: float = 1e-2) -> bool:
    """Whether the solution of a convex step is a constant function, as far as its value tells.

    A solution w other than 0 has a value below that of w = 0, however small the difference. A value
    that is ``above`` it by more than the precision of a step does not belong to a solution.
    """
    return (1.0 - rounding) * at_zero <= value <= (1.0 + above) * at_zero


def mean_difference(offsets: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of the instances in the difference of the means of both classes.

    The weighted mean of the means of positive bags, minus that of negative bags. Bags of sign zero
    are ignored.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
    signs : ndarray of shape (n_bags,), 1.0, -1.0 or 0.0
    weights : ndarray of shape (n_bags,)

    Returns
    -------
    ndarray of shape (n_instances,)
    """
    total = np.where(signs > 0, weights[signs > 0].sum(), weights[signs < 0].sum())
    sizes = np.diff(offsets)
    coefs = np.zeros(len(sizes))
    # The mean of a class without weight is not defined.
    np.divide(signs * weights, total * sizes, out=coefs, where=total > 0)
    return np.repeat(coefs, sizes)


# -- samples of bags, on which starts are compared where there are many instances ------------------


@dataclass(frozen=True)
class SampleLimits:
    """Size of a sample, and how far starts are followed on one that leaves bags out.

    Attributes
    ----------
    instances, per_feature : int
        Instances at least, and per feature.
    numbers : int
        Numbers in its instances, at the most.
    bags, large_bags : int
        Bags of a class at least, and large bags, of which it takes some instances.
    tol : float
    max_passes : int
    """

    instances: int = 4_000
    per_feature: int = 100
    numbers: int = 2**23
    bags: int = 50
    large_bags: int = 4
    tol: float = 5e-2
    max_passes: int = 6

    def wanted(self, n_features: int) -> int:
        """Number of instances."""
        many = max(self.instances, self.per_feature * n_features)
        return min(many, max(self.instances, self.numbers // n_features))

    def holds_all(self, n_instances: int, n_features: int) -> bool:
        """Whether the sample is all instances."""
        return n_instances <= self.wanted(n_features)


def sampled_source(
    source: PassSource, signs: np.ndarray, limits: SampleLimits
) -> tuple[ArraySource, np.ndarray]:
    """A sample of the bags of all classes in memory, and the numbers of its bags.

    Bags and instances are drawn, and returned, in the order of their projections on a random
    direction. The sample therefore depends on their contents, but not on their order. If it is not
    all instances, this takes a pass.
    """
    n_instances, wanted = source.n_instances, limits.wanted(source.n_features)
    if n_instances <= wanted:
        everything = _in_order(source, np.arange(n_instances))
        return ArraySource(everything, source.offsets), np.arange(len(signs))
    rng = np.random.RandomState(0)
    line = rng.standard_normal((1, source.n_features))
    along = instance_scores(source, line)[:, 0]
    # Unlike a sum, a mean has the same order for every origin of the instances.
    means, parts = segment_mean(along, source.offsets), []
    for sign in np.unique(signs)[::-1]:
        members = np.flatnonzero(signs == sign)
        members = members[np.argsort(means[members], kind="stable")]
        count = max(limits.bags, int(np.ceil(wanted / n_instances * len(members))))
        if count < len(members):
            members = members[np.sort(rng.choice(len(members), count, replace=False))]
        parts.append(members)
    bags = np.concatenate(parts)
    rows, own = gather_rows(source.offsets, bags)
    rows = rows[np.lexsort((along[rows], segment_index(own)))]
    # Of a large bag instances at equal distances.
    most = max(wanted // (2 * limits.bags), limits.numbers // (2 * limits.bags * source.n_features))
    most = max(1, min(most, wanted // (2 * limits.large_bags)))
    sizes = np.diff(own)
    steps = np.maximum(1, -(-sizes // most))
    kept = (np.arange(len(rows)) - np.repeat(own[:-1], sizes)) % np.repeat(steps, sizes) == 0
    sizes = np.add.reduceat(kept, own[:-1], dtype=np.intp)
    return ArraySource(_in_order(source, rows[kept]), offsets_of(sizes)), bags


def _in_order(source: PassSource, rows: np.ndarray) -> Matrix:
    """The given instances in float64, in their order."""
    order = np.argsort(rows, kind="stable")
    parts = source.map(rows_of_block, rows[order])
    if sparse.issparse(parts[0]):
        return stacked(parts)[np.argsort(order)]
    taken, first = np.empty((len(rows), source.n_features)), 0
    for number, part in enumerate(parts):
        taken[order[first : first + len(part)]] = part
        first += len(part)
        parts[number] = None
    return taken
