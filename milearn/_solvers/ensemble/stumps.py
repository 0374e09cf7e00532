"""All decision stumps of a matrix, scored in one pass over sorted columns.

A stump is 1 above a threshold and -1 up to it, or vice versa. Only its values at the training
points matter, so one threshold between two consecutive values of a column is enough. Every distinct
value of every column is a *bin*. The cut at a bin is the stump with the value 1 in this bin of the
column and above. A point of weight w contributes w to cuts up to its bin and -w to cuts beyond it,
so the scores of all cuts are cumulative sums of weights along the bins. The maximum of a stump over
several points is its value at one point, which has their last bin in every column, or their first.

With a limit on the number of bins, the values of a column with more distinct ones are divided into
bins with about equal numbers of points, as in histogram gradient boosting.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..._bags.segments import gather_rows, offsets_of
from ..._bags.types import Matrix
from .problem import DualPrices, Unions

# Relative difference up to which scores count as equal, because they may be sums of the same
# numbers in a different order.
_SAME_SCORE = 1e-9


class BinnedFeatures:
    """The bin of every point in every column.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_points, n_features)
    merge : float, default=0.0
        Consecutive values with at most this difference share a bin.
    max_bins : int, default=None
        Maximum number of bins of a column; None for no limit.

    Attributes
    ----------
    starts : ndarray of shape (n_features + 1,)
        Bins of each feature: ``starts[f]:starts[f + 1]``, by increasing value.
    low, high : ndarray of shape (n_bins,)
        Smallest and largest value in each bin.
    zero : ndarray of shape (n_features,)
        The bin of zeros, which are not stored; the first bin of a feature without zeros.
    stored : CSR of shape (n_bins, n_points)
        Ones for the other points in each bin.
    """

    def __init__(self, X: Matrix, merge: float = 0.0, max_bins: int | None = None) -> None:
        self.n_points, self.n_features = X.shape
        columns = sparse.csc_array(X) if sparse.issparse(X) else X
        starts, low, high, zero, bins, points = [0], [], [], [], [], []
        for feature in range(self.n_features):
            column = sparse.csc_array(columns[:, [feature]].astype(np.float64))
            column.eliminate_zeros()
            rows, n_zeros = column.indices, self.n_points - column.nnz
            values = np.r_[column.data, 0.0] if n_zeros else column.data
            ranks, first, last = _ranked(values, merge, max_bins, n_zeros)
            zero.append(starts[-1] + (ranks[-1] if n_zeros else 0))
            bins.append(starts[-1] + ranks[: len(rows)])
            points.append(rows)
            starts.append(starts[-1] + len(first))
            low.append(first)
            high.append(last)
        self.starts, self.zero = np.array(starts), np.array(zero)
        self.low, self.high = np.concatenate(low), np.concatenate(high)
        places = np.concatenate(bins), np.concatenate(points)
        shape = (starts[-1], self.n_points)
        self.stored = sparse.csr_array((np.ones(len(places[0])), places), shape=shape)
        self._edges: tuple[Unions, dict[int, Matrix]] | None = None

    def edges(self, unions: Unions, sign: int) -> Matrix:
        """The last bin (sign 1) or the first bin (-1) with a point of each set, in every feature.

        They are ones in a matrix of shape (n_bins, n_sets). Those of the last sets are kept.
        """
        kept = self._edges  # of one moment: problems in several threads share the features
        if kept is None or kept[0] is not unions:
            sizes = np.diff(np.append(unions.firsts, len(unions.members)))
            by_point = self.stored.T.tocsr()
            entries, ends = gather_rows(by_point.indptr, unions.members)
            bins = by_point.indices[entries].astype(np.intp)
            owner = np.repeat(np.repeat(np.arange(len(sizes)), sizes), np.diff(ends))
            keys = owner * self.n_features + np.searchsorted(self.starts, bins, side="right") - 1
            keys, where, counts = np.unique(keys, return_inverse=True, return_counts=True)
            owner, feature = np.divmod(keys, self.n_features)
            # In some points the feature may be zero.
            zero, missing = self.zero[feature], counts < sizes[owner]
            last, first = np.where(missing, zero, -1), np.where(missing, zero, self.starts[-1])
            np.maximum.at(last, where, bins)
            np.minimum.at(first, where, bins)
            ones, shape = np.ones(len(keys)), (self.starts[-1], len(sizes))
            both = [sparse.csr_array((ones, (at, owner)), shape=shape) for at in (last, first)]
            kept = self._edges = (unions, dict(zip((1, -1), both, strict=True)))
        return kept[1][sign]

    def parts(self, per_feature: int) -> np.ndarray:
        """The first bin of each part of a feature, for about equal parts, and ``n_bins``."""
        sizes = np.diff(self.starts)
        counts = np.minimum(max(1, per_feature), sizes)
        ends = offsets_of(counts)
        place = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
        inside = place * np.repeat(sizes, counts) // np.repeat(counts, counts)
        return np.append(np.repeat(self.starts[:-1], counts) + inside, self.starts[-1])

    def threshold(self, cut: int) -> float:
        """A number between the values in a bin and in the previous bin."""
        below, above = float(self.high[cut - 1]), float(self.low[cut])
        middle = below / 2 + above / 2
        return middle if below <= middle < above else below

    def column(self, feature: int, cut: int, sign: int) -> np.ndarray:
        """Values of the stump that cuts at a bin of a feature, for all points, int8."""
        starts = self.stored.indptr
        # The stored points on the other side than zeros.
        above = self.zero[feature] >= cut
        first, stop = (self.starts[feature], cut) if above else (cut, self.starts[feature + 1])
        column = np.full(self.n_points, sign if above else -sign, dtype=np.int8)
        column[self.stored.indices[starts[first] : starts[stop]]] *= -1
        return column


def _ranked(
    values: np.ndarray, merge: float, max_bins: int | None, n_last: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bin of each value, and the smallest and largest value of each bin.

    Each distinct value has a bin, except for values that are merged. The last value counts as
    ``n_last`` points if this is not zero.
    """
    distinct, ranks, counts = np.unique(values, return_inverse=True, return_counts=True)
    fresh = np.r_[True, np.diff(distinct) > merge] if merge > 0 else np.ones(len(distinct), bool)
    if max_bins is not None and fresh.sum() > max_bins:
        counts[ranks[-1]] += max(0, n_last - 1)
        below = np.cumsum(counts) - counts
        # A bin begins where the values before fill a further share of the points.
        share = below * max_bins // counts.sum()
        fresh &= np.r_[True, np.diff(share) > 0]
    merged = np.cumsum(fresh) - 1
    first = np.flatnonzero(fresh)
    last = np.r_[first[1:] - 1, len(distinct) - 1]
    return merged[ranks], distinct[first], distinct[last]


def stump_scores(
    bins: BinnedFeatures, prices: DualPrices, sign: int, linear: np.ndarray
) -> tuple[np.ndarray, float]:
    """Score of every cut, and of the constant learner ``sign``.

    Parameters
    ----------
    bins : BinnedFeatures
    prices : DualPrices
        The result of :meth:`.problem.DualPrices.without_rounding`.
    sign : {1, -1}
        1 for stumps that are 1 above their threshold, -1 for stumps that are 1 below it.
    linear : ndarray of shape (n_bins,)
        ``bins.stored @ prices.linear``, which does not depend on ``sign``.

    Returns
    -------
    scores : ndarray of shape (n_bins,)
        The first bin of a feature has the score of the constant.
    constant : float
    """
    disjuncts, total, sums = prices.disjuncts, prices.linear.sum(), linear.copy()
    if len(prices.u):
        edges = bins.edges(disjuncts, sign)
        u = np.where(disjuncts.several, 0.0, prices.u)
        sums += edges @ u
        total += u.sum()
    below = _below(sums, total, bins.starts, bins.zero)
    scores, constant = sign * (total - 2.0 * below), sign * total
    if prices.weights is not None:
        several = np.flatnonzero(disjuncts.several)
        weights, u = prices.weights[several], prices.u[several]
        by_bin = sparse.csr_array(bins.stored @ weights.T + edges[:, several] * u)
        # Values change at few bins: of these, and of the first and the last one of each feature.
        few = np.diff(by_bin.indptr) > 0
        few[np.r_[bins.zero, bins.starts[:-1], bins.starts[1:] - 1]] = True
        place, totals = np.cumsum(few) - few, weights.sum(axis=1) + u
        starts = np.append(place[bins.starts[:-1]], few.sum())
        below = _below(by_bin[few].toarray(), totals, starts, place[bins.zero])
        groups = np.flatnonzero(np.diff(disjuncts.bag[several], prepend=-1))
        values = np.maximum.reduceat(sign * (totals - 2.0 * below), groups, axis=1)
        scores += values.sum(axis=1)[place]
        constant += np.maximum.reduceat(sign * totals, groups).sum()
    return scores, float(constant)


def _below(
    sums: np.ndarray, total: np.ndarray | float, starts: np.ndarray, zero: np.ndarray
) -> np.ndarray:
    """Sum of the weights in the bins of the same feature below each bin.

    Parameters
    ----------
    sums : ndarray of shape (n_bins,) or (n_bins, k)
        Sums of the weights of stored points, which are overwritten.
    total : float or ndarray of shape (k,)
        Sum of all weights.
    starts, zero : ndarray
        See :class:`BinnedFeatures`.
    """
    sums[zero] += total - np.add.reduceat(sums, starts[:-1], axis=0)
    # After the last bin of a feature the sum is exactly zero again.
    sums[starts[1:] - 1] -= total
    return np.asarray(np.cumsum(sums, axis=0) - sums)


def best_cuts(
    bins: BinnedFeatures, prices: DualPrices, limit: float, max_cuts: int
) -> tuple[float, list[tuple[int, int, int]]]:
    """The best score of all stumps, and the best cuts above a limit.

    There is at most one per feature and sign, or, with few features, per part of a feature.

    Returns
    -------
    best : float
        The highest score, including the constants.
    cuts : list of (feature, cut, sign)
        By decreasing score, then by feature; the feature -1 is the constant ``sign``.
    """
    found: list[tuple[float, int, int, int]] = []
    best = -np.inf
    prices = prices.without_rounding()
    linear = bins.stored @ prices.linear
    parts = bins.parts(max_cuts // max(1, 2 * bins.n_features))
    for sign in (1, -1):
        scores, constant = stump_scores(bins, prices, sign, linear)
        best = max(best, constant)
        if constant > limit:
            found.append((constant, -1, -1, sign))
        tops = np.maximum.reduceat(scores, parts[:-1])
        best = max(best, float(tops.max(initial=-np.inf)))
        tie = _SAME_SCORE * max(1.0, float(np.abs(tops).max(initial=0.0)))
        above = np.flatnonzero(tops > limit)
        if len(above) > max_cuts > 0:
            # Other parts cannot be among the best.
            above = above[tops[above] >= np.partition(tops[above], -max_cuts)[-max_cuts] - tie]
        for part in above.tolist():
            first, stop = parts[part], parts[part + 1]
            near = np.flatnonzero(scores[first:stop] >= tops[part] - tie)
            # Cuts between points without a dual variable have equal scores. The middle one of a run
            # is far from the points with a dual variable.
            run = near[near - near[0] == np.arange(len(near))]
            cut = int(first + run[len(run) // 2])
            feature = int(np.searchsorted(bins.starts, cut, side="right")) - 1
            if cut > bins.starts[feature]:
                found.append((float(tops[part]), feature, cut, sign))
    unit = _SAME_SCORE * max(1.0, max((abs(each[0]) for each in found), default=1.0))
    found.sort(key=lambda each: (-np.round(each[0] / unit), each[1], each[2], -each[3]))
    return best, [each[1:] for each in found[:max_cuts]]
