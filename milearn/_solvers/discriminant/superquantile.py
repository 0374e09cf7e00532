"""Discriminants of superquantiles: the mean of the highest scores of a bag separates the classes.

With the scores w . x_ij of the n_i instances of bag i, and k_i = max(1, ceil(q n_i)), the
superquantile S_q(w; i) is the mean of the k_i highest scores. It is convex and positively
homogeneous in w, and the mean T_i(w) of the instances that have these scores is a subgradient. The
problem is

    maximise  J(w) = sum_i c_i S_q(w; i)   subject to   w' S w = 1,

where c_i > 0 sums to one over the bags with positive targets, c_i < 0 sums to -h over the others,
the instances are centred at their mean, and S is their covariance plus 0.05 times its mean
variance. A step is

    v = S^-1 sum_i c_i T_i(w),  v' S v = 1,

and w is replaced by v, or by the best of three points between both where v has a lower J.

* For q = 1 the T_i are the means of the bags, and the first step is the maximum: with h = 1,
  Fisher's discriminant.
* For h = 0, J is convex and v never has a lower J.
* For h > 0, J is a difference of convex functions. Where it is differentiable, moving from w
  towards v raises J at first, unless w = v. A step that lowers J is not taken.

A few steps need not reach a local maximum, and the result depends on the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from ..._bags.blocks import Block, PassSource
from ..common.screen import Metric

# Directions whose scores are computed at once.
_AT_ONCE = 16
# Instances whose scores are compared at once.
_ROWS_AT_ONCE = 2**14
# Bags of sizes up to this ratio are compared at once.
_SIMILAR = 1.25
# Points between the last direction and the next one that are tried if the next one is lower.
_SHORTER = (0.5, 0.25, 0.1)
# Rounding of q n before it is rounded up.
_ROUNDING = 1e-9


def counts_of(sizes: Any, shares: Any) -> np.ndarray:
    """Number of highest instances, max(1, ceil(q n)), shape (n_shares, n_bags)."""
    wanted = np.ceil(np.multiply.outer(np.asarray(shares, dtype=float), sizes) - _ROUNDING)
    return np.asarray(np.maximum(1, wanted), dtype=np.intp)


def _of_similar_size(offsets: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Bags of similar sizes, rows of shape (n_bags, largest size), and which are of the bag.

    The last row of a smaller bag is repeated.
    """
    sizes = np.diff(offsets)
    order = np.argsort(sizes, kind="stable")
    ordered, first = sizes[order], 0
    while first < len(order):
        last = int(np.searchsorted(ordered, _SIMILAR * ordered[first], side="right"))
        last = min(last, first + max(1, int(_ROWS_AT_ONCE / (_SIMILAR * ordered[first]))))
        bags, places = order[first:last], np.arange(ordered[last - 1])
        inside = places < sizes[bags][:, None]
        yield (
            bags,
            np.minimum(offsets[bags][:, None] + places, offsets[bags + 1][:, None] - 1),
            inside,
        )
        first = last


def superquantiles(source: PassSource, directions: np.ndarray, shares: Any) -> np.ndarray:
    """Superquantiles of the scores of each bag, shape (n_shares, n_bags, n_directions).

    Parameters
    ----------
    source : PassSource
    directions : ndarray of shape (n_directions, n_features)
    shares : array-like of shape (n_shares,)
        Numbers from 0, for the highest instance, to 1, for the mean.
    """
    parts = source.map(_superquantiles, directions, np.asarray(shares, dtype=float))
    return np.concatenate(parts, axis=1)


def _superquantiles(block: Block, directions: np.ndarray, shares: np.ndarray) -> np.ndarray:
    found = np.empty((len(shares), len(block.offsets) - 1, len(directions)))
    for some in gen_batches(len(directions), _AT_ONCE):
        scores = _scores(block, directions[some])
        found[:, :, some] = means_of_highest(scores, block.offsets, shares)
    return found


def _scores(block: Block, directions: np.ndarray) -> np.ndarray:
    """Scores of the instances of a block, shape (n_directions, n_instances)."""
    return np.ascontiguousarray(block.scores(directions.T, precise=True).T)


def means_of_highest(scores: np.ndarray, offsets: np.ndarray, shares: Any) -> np.ndarray:
    """Superquantiles of the bags, shape (n_shares, n_bags, n_directions).

    Parameters
    ----------
    scores : ndarray of shape (n_directions, n_instances)
    offsets : ndarray of shape (n_bags + 1,)
    shares : array-like of shape (n_shares,)
    """
    found = np.empty((len(shares), len(offsets) - 1, len(scores)))
    for bags, rows, inside in _of_similar_size(offsets):
        counts = counts_of(np.diff(offsets)[bags], shares)
        lowered, most = np.where(inside, -scores[:, rows], np.inf), counts.max()
        if most < rows.shape[1]:
            lowered = np.partition(lowered, most - 1)[..., :most]
        # In their order the sum does not depend on the order of the rows.
        sums = np.cumsum(np.sort(lowered), axis=-1, dtype=np.float64)
        means = -sums[:, np.arange(len(bags)), counts - 1] / counts
        found[:, bags] = np.moveaxis(means, 0, -1)
    return found


def pooled_scores(scores: np.ndarray, offsets: np.ndarray, signs: Any, shares: Any) -> np.ndarray:
    """Scores of bags, each column by its share of the highest instances, or lowest for sign -1.

    Parameters
    ----------
    scores : ndarray of shape (n_instances, n_columns)
    offsets : ndarray of shape (n_bags + 1,)
    signs, shares : array-like of shape (n_columns,)
    """
    columns = [
        sign * means_of_highest(sign * column[None], offsets, [share])[0]
        for column, sign, share in zip(scores.T, signs, shares, strict=True)
    ]
    return np.hstack(columns)


def rows_of_highest(scores: np.ndarray, offsets: np.ndarray, share: float) -> np.ndarray:
    """Mask of the highest instances of each bag, shape (n_instances,); the first ones of equals."""
    mask = np.zeros(len(scores), dtype=bool)
    for bags, rows, inside in _of_similar_size(offsets):
        counts = counts_of(np.diff(offsets)[bags], share)
        order = np.argsort(np.where(inside, -scores[rows], np.inf), axis=1, kind="stable")
        highest = np.take_along_axis(rows, order, axis=1)
        mask[highest[np.arange(rows.shape[1]) < counts[:, None]]] = True
    return mask


def _selected(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Weights of the instances in T_i, for scores of shape (n_directions, n_bags, largest size).

    Instances with the lowest selected score share what is left. ``counts`` are those of each
    direction and bag. Rows that are not of the bag have a score of minus infinity.
    """
    ordered = np.sort(scores)
    lowest = np.take_along_axis(ordered, scores.shape[-1] - counts[..., None], axis=-1)
    above, tied = scores > lowest, scores == lowest
    left = counts[..., None] - np.count_nonzero(above, axis=-1, keepdims=True)
    shared = left / np.count_nonzero(tied, axis=-1, keepdims=True)
    return np.asarray((above + tied * shared) / counts[..., None])


def _step_of_block(
    block: Block, directions: np.ndarray, shares: np.ndarray, pull: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """sum_i c_i S_q(w; i) and sum_i c_i T_i(w) of the bags of a block, for each w, q and c."""
    values, sums = np.empty(len(directions)), np.empty(directions.shape)
    for some in gen_batches(len(directions), _AT_ONCE):
        scores, own = _scores(block, directions[some]), pull[some, block.bags]
        weights = np.zeros(scores.shape)
        for bags, rows, inside in _of_similar_size(block.offsets):
            counts = counts_of(np.diff(block.offsets)[bags], shares[some])
            factors = _selected(np.where(inside, scores[:, rows], -np.inf), counts)
            weights[:, rows[inside]] = (own[:, bags][..., None] * factors)[:, inside]
        values[some] = np.einsum("ij,ij->i", scores, weights)
        sums[some] = weights @ block.instances
    return values, sums


@dataclass(frozen=True)
class Ascent:
    """Directions of shape (n, n_features), their J, and the number of passes."""

    directions: np.ndarray
    values: np.ndarray
    n_passes: int


def ascend(
    source: PassSource,
    metric: Metric,
    directions: np.ndarray,
    shares: np.ndarray,
    pull: np.ndarray,
    max_iter: int,
) -> Ascent:
    """Steps from directions, each of which has its share.

    Parameters
    ----------
    source : PassSource
    metric : Metric
    directions : ndarray of shape (n, n_features)
    shares : ndarray of shape (n,)
    pull : ndarray of shape (n_bags,) or (n, n_bags)
        The factors c, see :func:`..common.screen.proportions_of`.
    max_iter : int
        Number of steps.
    """
    pull = np.broadcast_to(pull, (len(directions), source.n_bags))

    def evaluated(points: np.ndarray, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients at points, for the directions with these numbers."""
        parts = source.map(_step_of_block, points, shares[of], pull[of])
        values, sums = (np.sum(each, axis=0) for each in zip(*parts, strict=True))
        centres = np.outer(pull[of].sum(axis=1), metric.mean)
        return values - np.einsum("ij,ij->i", points, centres), sums - centres

    def enough(value: Any) -> Any:
        """Less than this is rounding."""
        return value + 1e-12 * np.abs(value)

    current = metric.normalised(directions)
    values, gradients = evaluated(current, np.arange(len(current)))
    n_passes, moving = 1, np.ones(len(current), dtype=bool)
    for _ in range(max_iter):
        target = metric.normalised(metric.solved(gradients))
        taken = np.flatnonzero(moving)
        found, at_target = evaluated(target[taken], taken)
        n_passes += 1
        higher = found > enough(values[taken])
        good, rest = taken[higher], taken[~higher]
        current[good], values[good], gradients[good] = (
            target[good],
            found[higher],
            at_target[higher],
        )
        moving[rest] = False
        if len(rest):
            # All shorter steps in one pass.
            between = np.concatenate([(1 - t) * current[rest] + t * target[rest] for t in _SHORTER])
            points = metric.normalised(between)
            tried, at_points = evaluated(points, np.tile(rest, len(_SHORTER)))
            n_passes += 1
            tried = tried.reshape(len(_SHORTER), -1)
            best = tried.argmax(axis=0)
            for number, row in enumerate(rest):
                if tried[best[number], number] > enough(values[row]):
                    place = best[number] * len(rest) + number
                    current[row], values[row] = points[place], tried[best[number], number]
                    gradients[row], moving[row] = at_points[place], True
        if not moving.any():
            break
    return Ascent(current, values, n_passes)
