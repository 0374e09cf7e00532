"""Screened starts for the highest instance: many directions are tried, the best are refined.

The highest score of a bag is not convex in the positive bags, and a procedure that starts from the
means of bags stops at a bad minimum where few instances decide. A candidate direction is

    w_k = S^-1 (x_k - m),

with an instance x_k of a bag with a positive target, the mean m of the instances and their
covariance S plus ``ridge`` times its mean variance. Its value is the correlation of the targets
with the ranks of the highest scores of the bags; for two classes that is the area under the ROC
curve up to scale. The best ones are refined: with the highest instances h_i of the bags,

    w <- S^-1 (mean of h_i over positive targets - (m + mean of h_i over negative targets) / 2),

where both means are weighted by the absolute targets. Two kinds of directions that use all
instances are refined together with them: that of Fisher's discriminant between instances with the
targets of their bags, and both signs of the eigenvectors w with the largest eigenvalues of

    (S_+ - S_-) w = lambda S w,

where S_+ and S_- are the covariances around m of the instances of bags with positive and negative
targets. A proportion p of instances at a distance r adds about p r^2 to the variance along r. With
many features a single instance hardly points along r, but many bags together show this variance.
The last direction is that of Fisher's discriminant as it is.

The scores of all candidates are one matrix product in single precision. Everything is weighted by
the bags, so that a weight of two is a bag that is there twice. No choice depends on the order of
bags or instances: instances are chosen at equal distances along their projections on a random
direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg, sparse

from ..._bags.blocks import ArraySource, Block, PassSource
from ..._bags.segments import segment_argmax
from ..._bags.threads import in_threads
from .cccp import RELATIVE_TIE
from .features import FeatureMap, whitening
from .passes import bag_maxima, weighted_sum

# Candidates whose scores are computed at once.
_AT_ONCE = 256
# Relative difference of scores in single precision that is rounding.
_SINGLE_TIE = 2e-6
_TINY = np.finfo(float).tiny
# Covariances of more bytes are in single precision; their eigenvalues up to the second are zero.
_FLOAT64_BYTES, _ZERO = 2**27, 1e-9


@dataclass(frozen=True)
class ScreenLimits:
    """Extent of a screen.

    Attributes
    ----------
    candidates, per_feature : int
        Candidates at most, and at most per feature.
    products : float
        Multiplications of candidates with instances, at the most.
    refined, rounds : int
        Candidates that are refined, and how often.
    kept : int
        Refined directions that are returned, at the most.
    ridge : float
        Share of the mean variance that is added to the covariance.
    covariance_rows : int
        Instances for the covariance, at the most. Of more, they are chosen at equal distances.
    contrasts : int
        Eigenvectors of the difference of covariances, at the most.
    contrast_products : float
        Multiplications for this difference, at the most; of more instances, some are chosen.
    features : int
        Features above which landmarks stand for them.
    """

    candidates: int = 2_000
    per_feature: int = 50
    products: float = 5e10
    refined: int = 24
    rounds: int = 3
    kept: int = 3
    ridge: float = 0.05
    covariance_rows: int = 20_000
    contrasts: int = 3
    contrast_products: float = 2e11
    features: int = 1_500

    def n_candidates(self, n_instances: int, n_features: int) -> int:
        """Number of candidates for data of this size."""
        affordable = int(self.products / (n_instances * n_features))
        wanted = min(self.candidates, self.per_feature * n_features)
        return max(self.refined, min(wanted, affordable))


@dataclass(frozen=True)
class Screened:
    """Directions of shape (n_directions, n_features), the refined ones first and best first.

    ``rows`` of shape (n_directions, n_bags) are the highest instances of the bags.
    """

    directions: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Metric:
    """Mean of the instances, and the lower Cholesky factor of S."""

    mean: np.ndarray
    factor: np.ndarray

    def normalised(self, directions: np.ndarray) -> np.ndarray:
        """Multiples of directions with w' S w = 1; those of length zero stay zero."""
        lengths = np.linalg.norm(directions @ self.factor, axis=1)
        return directions / np.where(lengths > 0, lengths, 1.0)[:, None]

    def solved(self, gradients: np.ndarray) -> np.ndarray:
        """The direction S^-1 g of each gradient."""
        return np.asarray(linalg.cho_solve((self.factor, True), gradients.T).T)


def targets_of(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Values of the bags less their weighted mean."""
    return np.asarray(values - np.average(values, weights=weights))


def screened(
    source: PassSource,
    targets: np.ndarray,
    weights: np.ndarray,
    limits: ScreenLimits | None = None,
) -> Screened:
    """The best directions.

    Parameters
    ----------
    source : PassSource
    targets : ndarray of shape (n_bags,)
        What the highest score of a bag should grow with.
    weights : ndarray of shape (n_bags,), above zero
    limits : ScreenLimits, default=None

    Returns
    -------
    Screened
        Without directions if the bags above the lowest target have one instance each, or no
        features: their highest instances do not depend on a direction.
    """
    limits = ScreenLimits() if limits is None else limits
    sizes = np.diff(source.offsets)[targets > targets.min()]
    if source.n_features == 0 or sizes.max(initial=1) == 1:
        nothing = np.zeros((0, source.n_bags), dtype=np.intp)
        return Screened(np.zeros((0, source.n_features)), nothing)
    if source.n_features > limits.features:
        features = instance_landmarks(source, products, weights)
        within = replace(limits, features=features.dim)
        found = screened(transformed_source(source, features), targets, weights, within)
        back = features.landmarks.T @ (features.factor @ found.directions.T)
        return Screened(np.ascontiguousarray(back.T), found.rows)
    along, metric = whitened(source, weights, limits)
    targets = targets_of(targets, weights)
    pull = targets * weights
    count = limits.n_candidates(source.n_instances, source.n_features)
    single = single_directions(source, along, np.maximum(pull, 0.0), metric, count)

    def values_from(first: int) -> np.ndarray:
        some = single[first : first + _AT_ONCE].astype(np.float32)
        highest = bag_maxima(source, some, _scores).T
        return rank_correlations(highest, targets, weights, tie=_SINGLE_TIE)

    values = in_threads(values_from, range(0, len(single), _AT_ONCE))
    tried = single[descending(np.concatenate(values))[: limits.refined]]
    inherited = metric.solved(inherited_difference(source, pull)[None])
    contrasts = contrasts_of(source, along, (targets, weights), metric, limits)
    directions = np.concatenate([tried, inherited, contrasts, -contrasts])
    proportions = proportions_of(pull)
    for _ in range(limits.rounds):
        sums = np.sum(source.map(_sums_of_highest, directions, proportions), axis=0)
        directions = metric.solved(sums - 0.5 * metric.mean)
    refined = _best(source, directions, (targets, weights), limits.kept)
    last = _best(source, inherited, (targets, weights), 1)
    return Screened(
        np.concatenate([refined.directions, last.directions]),
        np.concatenate([refined.rows, last.rows]),
    )


def whitened(
    source: PassSource, weights: np.ndarray, limits: ScreenLimits
) -> tuple[np.ndarray, Metric]:
    """Projections of the instances, and the metric of S."""
    line = np.random.RandomState(0).standard_normal((1, source.n_features))
    along = np.concatenate(source.map(_scores, line), axis=1)[0]
    owner = np.repeat(np.arange(source.n_bags), np.diff(source.offsets))
    if source.n_instances <= limits.covariance_rows:
        # In this order, so that the order of bags has no effect on the sums.
        some = np.argsort(along, kind="stable")
        each = weights[owner[some]]
    else:
        some = _at_equal_distances(along, weights[owner], limits.covariance_rows)
        each = np.ones(len(some))
    rows = _dense(source.gather(some))
    mean = np.average(rows, axis=0, weights=each)
    scaled = (rows - mean) * np.sqrt(each / each.sum())[:, None]
    covariance = scaled.T @ scaled
    # Where instances do not differ any direction will do.
    ridge = limits.ridge * (np.trace(covariance) / len(mean) or 1.0)
    covariance[np.diag_indices(len(mean))] += ridge
    return along, Metric(mean, linalg.cholesky(covariance, lower=True, overwrite_a=True))


def single_directions(
    source: PassSource,
    along: np.ndarray,
    bag_weights: np.ndarray,
    metric: Metric,
    count: int,
) -> np.ndarray:
    """Directions S^-1 (x - m) of instances x at equal distances, shape (n, n_features)."""
    owner = np.repeat(np.arange(source.n_bags), np.diff(source.offsets))
    chosen = _at_equal_distances(along, bag_weights[owner], count)
    return metric.solved(_dense(source.gather(_distinct(chosen, along))) - metric.mean)


def proportions_of(pull: np.ndarray, negative_weight: float = 0.5) -> np.ndarray:
    """Proportional to pull; above zero they sum to one, below to minus ``negative_weight``."""
    up, down = np.maximum(pull, 0.0), np.maximum(-pull, 0.0)
    # Where targets do not differ there is nothing to sum.
    return np.asarray(up / (up.sum() or 1.0) - negative_weight * down / (down.sum() or 1.0))


def instance_landmarks(
    source: PassSource,
    values: Callable[[Any, Any], np.ndarray],
    weights: np.ndarray,
    count: int = 100,
) -> FeatureMap:
    """Features of the instances by Nystroem's method.

    Parameters
    ----------
    source : PassSource
    values : callable
        ``values(left, right)`` returns kernel values; a function that a worker can import.
    weights : ndarray of shape (n_bags,)
    count : int
        Landmarks, at the most.
    """
    line = np.random.RandomState(1).standard_normal((1, source.n_features))
    along = np.concatenate(source.map(_scores, line), axis=1)[0]
    each = np.repeat(weights, np.diff(source.offsets))
    rows = _distinct(_at_equal_distances(along, each, count), along)
    landmarks = source.gather(rows).astype(np.float64, copy=False)
    # Small eigenvalues and the signs of eigenvectors are rounding, which must not choose.
    factor, _ = whitening(np.asarray(values(landmarks, landmarks), dtype=np.float64), 1e-6)
    factor = factor @ (factor / np.maximum(np.linalg.norm(factor, axis=0), 1e-300)).T
    return FeatureMap(values, landmarks, factor, rows)


def transformed_source(source: PassSource, features: FeatureMap) -> ArraySource:
    """The features of all instances, in memory."""
    return ArraySource(np.concatenate(source.map(_transformed, features)), source.offsets)


def _transformed(block: Block, features: FeatureMap) -> np.ndarray:
    return np.asarray(features.transform(block.take(np.arange(block.offsets[-1]))))


def products(left: Any, right: Any) -> np.ndarray:
    return _dense(left @ right.T)


def _dense(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def _at_equal_distances(along: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray:
    """``count`` instances at equal distances of their cumulative weights, in order of ``along``."""
    used = np.flatnonzero(weights > 0)
    order = used[np.argsort(along[used], kind="stable")]
    ends = np.cumsum(weights[order])
    places = ends[-1] * (np.arange(count) + 0.5) / count
    return np.asarray(order[np.minimum(np.searchsorted(ends, places), len(order) - 1)])


def descending(values: np.ndarray, digits: int = 9) -> np.ndarray:
    """Order of values, highest first; those that differ by rounding keep their order."""
    return np.asarray(np.argsort(-np.round(values, digits), kind="stable"))


def _distinct(rows: np.ndarray, along: np.ndarray, tie: float = 1e-12) -> np.ndarray:
    """The rows, which are in order of ``along``, without those that equal the one before."""
    steps = np.diff(along[rows], prepend=-np.inf)
    return np.asarray(rows[steps > tie * np.abs(along).max()])


def contrasts_of(
    source: PassSource,
    along: np.ndarray,
    bags: tuple[np.ndarray, np.ndarray],
    metric: Metric,
    limits: ScreenLimits,
    signs: Sequence[int] = (1,),
) -> np.ndarray:
    """Eigenvectors of the difference of covariances, largest eigenvalue first, (n, n_features).

    Those of each sign of the difference are together.
    """
    (targets, weights), mean, lower = bags, metric.mean, metric.factor
    owner = np.repeat(np.arange(source.n_bags), np.diff(source.offsets))
    rows, pull = np.arange(source.n_instances), (weights * targets)[owner]
    count = min(len(rows), int(limits.contrast_products / len(mean) ** 2))
    if count < len(rows):
        rows = np.sort(_at_equal_distances(along, weights[owner], count))
        pull = targets[owner[rows]]
    if limits.contrasts == 0 or not pull.max() > 0 > pull.min():
        return np.zeros((0, len(mean)))
    dtype = np.float64 if 8 * count * len(mean) <= _FLOAT64_BYTES else np.float32
    proportions = proportions_of(pull, 1.0).astype(dtype)
    difference = np.zeros((len(mean), len(mean)))
    difference = source.fold(_with_moments, difference, mean.astype(dtype), rows, proportions)
    half = linalg.solve_triangular(lower, difference, lower=True)
    whitened = linalg.solve_triangular(lower, half.T, lower=True)
    symmetric, last = 0.5 * (whitened + whitened.T), len(mean) - 1
    found = []
    for sign in signs:
        subset = max(0, len(mean) - limits.contrasts), last
        values, vectors = linalg.eigh(sign * symmetric, subset_by_index=subset)
        directions = linalg.solve_triangular(lower, vectors, lower=True, trans="T").T
        found.append(directions[values > _ZERO][::-1])
    return np.concatenate(found)


def _with_moments(
    moments: np.ndarray, block: Block, mean: np.ndarray, rows: np.ndarray, proportions: np.ndarray
) -> np.ndarray:
    """Second moments around a mean, with those of the given rows of a block."""
    mine = (rows >= block.rows.start) & (rows < block.rows.stop)
    instances = block.take(rows[mine] - block.first_row, mean.dtype)
    if not sparse.issparse(instances):
        instances = instances - mean
        return np.asarray(moments + (instances.T * proportions[mine]) @ instances)
    weighted = instances.multiply(proportions[mine][:, None]).tocsr()
    sums = np.asarray(weighted.sum(axis=0)).ravel()
    cross = np.outer(sums - 0.5 * proportions[mine].sum() * mean, mean)
    return np.asarray(moments + (instances.T @ weighted).toarray() - cross - cross.T)


def _scores(block: Block, directions: np.ndarray) -> np.ndarray:
    instances = block.instances
    if isinstance(instances, np.ndarray):
        return np.asarray(directions @ instances.astype(directions.dtype, copy=False).T)
    return np.ascontiguousarray((instances @ directions.T).T)


def rank_correlations(
    highest: np.ndarray, targets: np.ndarray, weights: np.ndarray, tie: float = RELATIVE_TIE
) -> np.ndarray:
    """Correlation of the targets with the weighted ranks in each row; equal scores share a rank.

    Neighbours are equal up to ``tie``, as a fraction of the largest absolute score of the row.
    """
    order = np.argsort(highest, axis=1)
    mass = weights[order]
    ends = np.cumsum(mass, axis=1)
    ranks = ends - 0.5 * (mass + ends[:, -1:])
    sorted_scores = np.take_along_axis(highest, order, axis=1)
    near = tie * np.abs(highest).max(axis=1, keepdims=True)
    gaps = np.diff(sorted_scores, axis=1)
    new = gaps > near
    tied = np.flatnonzero(~new.all(axis=1))
    if len(tied):
        # Many small gaps in a row are not rounding: there, only what is the same is equal.
        starts = np.where(new[tied], sorted_scores[tied, 1:], sorted_scores[tied, :1])
        starts = np.maximum.accumulate(starts, axis=1)
        chained = sorted_scores[tied, 1:] - starts > near[tied]
        new = new[tied] | (chained & (gaps[tied] > 0))
        ranks[tied] = _shared_ranks(new, mass[tied], ends[tied])
    sums = np.einsum("ij,ij->i", (weights * targets)[order], ranks)
    norms = np.sqrt(np.einsum("ij,ij,ij->i", mass, ranks, ranks) * float(weights @ targets**2))
    return np.asarray(np.divide(sums, norms, out=np.zeros(len(sums)), where=norms > 0))


def _shared_ranks(new: np.ndarray, mass: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Centred ranks where a score, unless it is ``new``, equals the one before it."""
    edge = np.ones((len(new), 1), dtype=bool)
    first, last = np.concatenate([edge, new], axis=1), np.concatenate([new, edge], axis=1)
    below = np.maximum.accumulate(np.where(first, ends - mass, 0.0), axis=1)
    flipped = np.where(last, ends, np.inf)[:, ::-1]
    above = np.minimum.accumulate(flipped, axis=1)[:, ::-1]
    return np.asarray(0.5 * (below + above - ends[:, -1:]))


def _sums_of_highest(block: Block, directions: np.ndarray, proportions: np.ndarray) -> np.ndarray:
    highest = segment_argmax(np.ascontiguousarray(_scores(block, directions).T), block.offsets)
    found = np.empty(directions.shape)
    for k in range(len(directions)):
        found[k] = block.weighted_sum(highest[:, k], proportions[block.bags])
    return found


def inherited_difference(source: PassSource, pull: np.ndarray) -> np.ndarray:
    """Difference of the means of instances with the targets of their bags."""
    sizes = np.diff(source.offsets)
    sums = np.where(pull > 0, sizes @ np.maximum(pull, 0.0), sizes @ np.maximum(-pull, 0.0))
    # Targets that do not differ pull nowhere.
    return weighted_sum(source, pull / np.maximum(sums, _TINY))


def highest_rows(source: PassSource, directions: np.ndarray) -> np.ndarray:
    """Highest instance of each bag under each direction, (n_directions, n_bags)."""
    return np.concatenate([rows for rows, _ in source.map(_highest_of_block, directions)], axis=1)


def _best(
    source: PassSource,
    directions: np.ndarray,
    bags: tuple[np.ndarray, np.ndarray],
    count: int,
) -> Screened:
    """The best directions with different highest instances."""
    parts = zip(*source.map(_highest_of_block, directions), strict=True)
    rows, highest = map(partial(np.concatenate, axis=1), parts)
    values = rank_correlations(highest, *bags)
    kept: list[int] = []
    up = bags[0] > 0
    for k in descending(values):
        if (rows[kept][:, up] != rows[k, up]).any(axis=1).all():
            kept.append(int(k))
        if len(kept) == count:
            break
    return Screened(directions[kept], rows[kept])


def _highest_of_block(block: Block, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scores = np.ascontiguousarray(_scores(block, directions).T)
    rows = segment_argmax(scores, block.offsets)
    return rows.T + block.first_row, np.take_along_axis(scores, rows, axis=0).T
