"""All decision stumps of a matrix, scored in one pass over sorted columns.

A stump is 1 above a threshold and -1 up to it, or vice versa. Only its values at the training
points matter, so one threshold between two consecutive values of a column is enough. Every distinct
value of every column is a *bin*. The cut at a bin is the stump with the value 1 in this bin of the
column and above. A point of weight w contributes w to cuts up to its bin and -w to cuts beyond it,
so the scores of all cuts are cumulative sums of jumps along the bins.

With a limit on the number of bins, the values of a column with more distinct ones are divided into
bins with about equal numbers of points, as in histogram gradient boosting.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from ..._bags.segments import gather_rows, offsets_of
from .learners import Matrix
from .problem import BagPrices, DualPrices, WholeBags

# Relative difference up to which scores count as equal, because they may be sums of the same
# numbers in a different order.
_SAME_SCORE = 1e-9
_MAX_INT32 = np.iinfo(np.int32).max
# Up to this number of entries the points of each bin are listed, with 12 bytes per entry.
_LISTED_ENTRIES = 2**22
_BAGS_AT_ONCE = 1024
# Entries whose weights are added at once, unless there are more bins.
_BLOCK_ENTRIES = 2**18


class BinnedFeatures:
    """The bin of every point in every column.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_points, n_features)
        Entries that are not stored are zeros.
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
    """

    def __init__(self, X: Matrix, merge: float = 0.0, max_bins: int | None = None) -> None:
        self.n_points, self.n_features = X.shape
        self._max_bins = max_bins
        self.sparse = sparse.issparse(X)
        self._outermost_of_bags: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        build = self._from_csr if self.sparse else self._from_dense
        build(X, merge)

    def _from_dense(self, X: np.ndarray, merge: float) -> None:
        ranks = np.empty(X.shape, dtype=_index_dtype(self.n_points))
        starts, low, high = [0], [], []
        for feature in range(self.n_features):
            column = np.ascontiguousarray(X[:, feature])
            ranks[:, feature], first, last = _ranked(column, merge, self._max_bins)
            starts.append(starts[-1] + len(first))
            low.append(first)
            high.append(last)
        self._finish(starts, low, high)
        self._bins = ranks.astype(_index_dtype(self.n_bins), copy=False)
        self._bins += self.starts[:-1]

    def _from_csr(self, X: Matrix, merge: float) -> None:
        columns = sparse.csc_array(X)
        columns.sum_duplicates()
        columns.eliminate_zeros()
        places = np.empty(columns.nnz, dtype=np.int64)
        starts, low, high = [0], [], []
        self._zero = np.zeros(self.n_features, dtype=np.int64)
        for feature in range(self.n_features):
            part = slice(columns.indptr[feature], columns.indptr[feature + 1])
            values = columns.data[part]
            implicit = len(values) < self.n_points
            n_zeros = self.n_points - len(values)
            values = np.r_[values, 0.0] if implicit else values
            ranks, first, last = _ranked(values, merge, self._max_bins, n_zeros)
            places[part] = ranks[: len(ranks) - implicit] + starts[-1]
            # Without an implicit zero nothing is added to this bin.
            self._zero[feature] = starts[-1] + (ranks[-1] if implicit else 0)
            starts.append(starts[-1] + len(first))
            low.append(first)
            high.append(last)
        shape = (self.n_points, self.n_features)
        # Shifted by one, so that bin 0 is stored.
        self._csr = sparse.csr_array(
            sparse.csc_array((places + 1, columns.indices, columns.indptr), shape=shape)
        )
        self._csr.sort_indices()
        self._finish(starts, low, high)

    def _finish(self, starts: list[int], low: list[np.ndarray], high: list[np.ndarray]) -> None:
        self.starts = np.array(starts)
        self.low, self.high = np.concatenate(low), np.concatenate(high)

    @property
    def n_bins(self) -> int:
        return int(self.starts[-1])

    def bins_of(self, points: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Bins of some points, in the features where at least one of them is not an implicit zero.

        Returns
        -------
        features : ndarray of shape (n_touched,), or None for all
        bins : ndarray of shape (len(points), n_touched)
        """
        if not self.sparse:
            return None, self._bins[points]
        csr = self._csr
        entries, offsets = gather_rows(csr.indptr, points)
        touched, place = np.unique(csr.indices[entries], return_inverse=True)
        places = np.tile(self._zero[touched], (len(points), 1))
        rows = np.repeat(np.arange(len(points)), np.diff(offsets))
        places[rows, place] = csr.data[entries] - 1
        return touched, places

    def outermost_of_bags(self, bags: WholeBags, sign: int) -> np.ndarray:
        """The last bin (sign 1) or first bin (-1) with a point of each bag, in every feature.

        Of shape (n_bags, n_features); that of the last bags is kept.

        Only for dense features.
        """
        known = self._outermost_of_bags.get(sign)
        if known is None or known[0] is not bags.members:
            ufunc = np.maximum if sign > 0 else np.minimum
            parts = [np.empty((0, self.n_features), dtype=self._bins.dtype)]
            stops = np.append(bags.firsts[1:], len(bags.members))
            for part in gen_batches(len(bags.firsts), _BAGS_AT_ONCE):
                first, stop = bags.firsts[part][0], stops[part][-1]
                rows = self._bins[bags.members[first:stop]]
                parts.append(ufunc.reduceat(rows, bags.firsts[part] - first, axis=0))
            known = bags.members, np.concatenate(parts)
            self._outermost_of_bags[sign] = known
        return known[1]

    def weight_per_bin(self, weights: np.ndarray) -> np.ndarray:
        """Sum of the weights of the points in each bin, shape (n_bins,).

        It may be zero in the only bin of a constant feature, which has no cuts.
        """
        used = np.flatnonzero(weights)
        if not len(used):
            return np.zeros(self.n_bins)
        if not self.sparse:
            if self._bins.size <= _LISTED_ENTRIES and 4 * len(used) > len(weights):
                return np.asarray(self._points_by_bin @ weights)
            return self._counted(used, weights)
        csr = self._csr
        entries, offsets = gather_rows(csr.indptr, used)
        spread = np.repeat(weights[used], np.diff(offsets))
        sums = np.bincount(csr.data[entries] - 1, weights=spread, minlength=self.n_bins)
        sums = sums.astype(np.float64)  # bincount of an empty array has integers
        stored = np.bincount(csr.indices[entries], weights=spread, minlength=self.n_features)
        sums[self._zero] += weights.sum() - stored
        return sums

    def _counted(self, used: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sums over some points; in blocks, if there are fewer bins than entries of a block."""
        rows = max(1, max(_BLOCK_ENTRIES, 4 * self.n_bins) // max(1, self.n_features))
        sums = np.zeros(self.n_bins)
        for part in gen_batches(len(used), rows):
            mine = used[part]
            spread = np.repeat(weights[mine], self.n_features)
            places = self._bins[mine].ravel()
            sums += np.bincount(places, weights=spread, minlength=self.n_bins)
        return sums

    def add_to_zero_bins(
        self, total: np.ndarray, value: float, features: np.ndarray | None
    ) -> None:
        """Add a value to the bin of zero of every feature except the given ones."""
        if features is None or value == 0.0:
            return
        rest = np.ones(self.n_features, dtype=bool)
        rest[features] = False
        total[self._zero[rest]] += value

    def parts(self, per_feature: int) -> np.ndarray:
        """The first bin of each part of a feature, for about equal parts, and ``n_bins``."""
        if per_feature < 2:
            return self.starts
        ends = [
            np.linspace(first, stop, min(per_feature, stop - first), endpoint=False, dtype=int)
            for first, stop in itertools.pairwise(self.starts.tolist())
        ]
        return np.concatenate([*ends, [self.n_bins]])

    def feature_of(self, cut: int) -> int:
        return int(np.searchsorted(self.starts, cut, side="right")) - 1

    def threshold(self, cut: int) -> float:
        """A number between the values in a bin and in the previous bin."""
        below, above = float(self.high[cut - 1]), float(self.low[cut])
        middle = below / 2 + above / 2
        return middle if below <= middle < above else below

    def column(self, cut: int, sign: int) -> np.ndarray:
        """Values of the stump that cuts at a bin, for all points, int8."""
        feature = self.feature_of(cut)
        if not self.sparse:
            above = self._bins[:, feature] >= cut
        else:
            above = np.full(self.n_points, self._zero[feature] >= cut)
            part = slice(self._csc.indptr[feature], self._csc.indptr[feature + 1])
            above[self._csc.indices[part]] = self._csc.data[part] > cut
        return np.where(above, sign, -sign).astype(np.int8)

    @cached_property
    def _points_by_bin(self) -> Matrix:
        """Matrix (n_bins, n_points) with ones for points in bins of nonconstant features."""
        varying = np.flatnonzero(np.diff(self.starts) > 1)
        points = np.repeat(np.arange(self.n_points, dtype=np.int32), len(varying))
        places = (self._bins[:, varying].ravel(), points)
        shape = (self.n_bins, self.n_points)
        listed = sparse.csr_array((np.ones(len(points)), places), shape=shape)
        listed.sort_indices()
        return listed

    @cached_property
    def _csc(self) -> Matrix:
        return sparse.csc_array(self._csr)


def _index_dtype(n: int) -> type[np.integer[Any]]:
    """The smaller integer type for numbers up to n."""
    return np.int32 if n <= _MAX_INT32 else np.int64


def _ranked(
    values: np.ndarray, merge: float, max_bins: int | None, n_last: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bin of each value, and the smallest and largest value of each bin.

    Each distinct value has a bin, except for values that are merged. The last value counts as
    ``n_last`` points.
    """
    distinct, ranks, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = ranks.ravel()
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
    bins: BinnedFeatures, prices: DualPrices, sign: int, per_bin: np.ndarray
) -> tuple[np.ndarray, float]:
    """Score of every cut, and of the constant learner ``sign``.

    Parameters
    ----------
    bins : BinnedFeatures
    prices : DualPrices
        The result of :meth:`.problem.DualPrices.without_rounding`.
    sign : {1, -1}
        1 for stumps that are 1 above their threshold, -1 for stumps that are 1 below it.
    per_bin : ndarray of shape (n_bins,)
        Weights of the points with a sign by bin, which do not depend on ``sign``.

    Returns
    -------
    scores : ndarray of shape (n_bins,)
        The first bin of a feature has the score of the constant.
    constant : float
    """
    base = sign * float(prices.linear.sum())
    jumps = (-2.0 * sign) * per_bin
    if len(prices.whole.u) and not bins.sparse:
        used = np.flatnonzero(prices.whole.u)
        tops = bins.outermost_of_bags(prices.whole, sign)[used]
        u = sign * prices.whole.u[used]
        spread = np.repeat(-2.0 * u, tops.shape[1])
        jumps += np.bincount(tops.ravel(), weights=spread, minlength=bins.n_bins)
        base += float(u.sum())
    for bag in [*prices.bags, *prices.whole.each()] if bins.sparse else prices.bags:
        base += _bag_jumps(bins, bag, sign, jumps)
    # Points in the bin of a cut are above it, so jumps count from the next bin on. After the last
    # bin of a feature the sum is exactly zero again.
    last = bins.starts[1:] - 1
    jumps[last] -= np.add.reduceat(jumps, bins.starts[:-1]) if bins.n_features else 0.0
    sums = np.cumsum(jumps)
    sums -= jumps
    sums += base
    return sums, base


def _bag_jumps(bins: BinnedFeatures, bag: BagPrices, sign: int, jumps: np.ndarray) -> float:
    """Add the jumps of one bag, and return its score for the constant learner ``sign``."""
    firsts = offsets_of([len(block) for block in bag.members])
    features, places = bins.bins_of(np.concatenate([*bag.members, bag.points]).astype(np.intp))
    # Only the outermost member of a disjunct counts, because the maximum changes there.
    outermost = np.maximum if sign > 0 else np.minimum
    tops = outermost.reduceat(places[: firsts[-1]], firsts[:-1], axis=0)
    places = np.concatenate([tops, places[firsts[-1] :]])
    weights = sign * np.concatenate([np.diag(bag.u), bag.weights], axis=1)
    totals = weights.sum(axis=1)
    first, last = float(totals.max()), float((-totals).max())
    if len(weights) == 1:
        changes = -2.0 * np.repeat(weights[0], places.shape[1])
        np.add.at(jumps, places.ravel(), changes)
    else:
        order = np.argsort(places, axis=0, kind="stable")
        level = totals[:, None, None] - 2.0 * np.cumsum(weights[:, order], axis=1)
        best = level.max(axis=0)
        steps = np.diff(best, axis=0, prepend=first)
        np.add.at(jumps, np.take_along_axis(places, order, axis=0).ravel(), steps.ravel())
    bins.add_to_zero_bins(jumps, last - first, features)
    return first


def best_cuts(
    bins: BinnedFeatures, prices: DualPrices, limit: float, max_cuts: int
) -> tuple[float, list[tuple[float, int, int]]]:
    """The best score of all stumps, and the best cuts above a limit.

    There is at most one per feature and sign, or, with few features, per part of a feature.

    Returns
    -------
    best : float
        The highest score, including the constants.
    cuts : list of (score, cut, sign)
        By decreasing score, then by feature; the bin -1 is the constant ``sign``.
    """
    found: list[tuple[float, int, int, int]] = []
    best = -np.inf
    prices = prices.without_rounding()
    per_bin = bins.weight_per_bin(prices.linear)
    parts = bins.parts(max_cuts // max(1, 2 * bins.n_features))
    scores, constant = stump_scores(bins, prices, 1, per_bin)
    for sign in (1, -1):
        if sign < 0 and (prices.bags or len(prices.whole.u)):
            scores, constant = stump_scores(bins, prices, -1, per_bin)
        elif sign < 0:
            # Without a maximum over a bag the scores of the other sign are the negative ones.
            scores, constant = -scores, -constant
        best = max(best, constant)
        if constant > limit:
            found.append((constant, -1, -1, sign))
        if not len(scores):
            continue
        tops = np.maximum.reduceat(scores, parts[:-1])
        best = max(best, float(tops.max()))
        tie = _SAME_SCORE * max(1.0, float(np.abs(tops).max()))
        above = np.flatnonzero(tops > limit)
        if len(above) > max_cuts > 0:
            # Other parts cannot be among the best.
            above = above[tops[above] >= np.partition(tops[above], -max_cuts)[-max_cuts] - tie]
        for part in above.tolist():
            first, stop = parts[part], parts[part + 1]
            near = np.flatnonzero(scores[first:stop] >= tops[part] - tie)
            # Cuts between points without a dual variable have equal scores. The middle one of a run
            # is far from the points with a dual variable.
            gap = np.flatnonzero(np.diff(near) > 1)
            run = near[: gap[0] + 1] if len(gap) else near
            cut = int(first + run[len(run) // 2])
            feature = bins.feature_of(cut)
            if cut > bins.starts[feature]:
                found.append((float(tops[part]), feature, cut, sign))
    if not found:
        return best, []
    unit = _SAME_SCORE * max(1.0, max(abs(each[0]) for each in found))
    found.sort(key=lambda each: (-np.round(each[0] / unit), each[1], each[2], -each[3]))
    return best, [(score, cut, sign) for score, _, cut, sign in found[:max_cuts]]
