"""Scores of stumps, against those of every column by itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from milearn._solvers.ensemble import stumps
from milearn._solvers.ensemble.pools import make_pool
from milearn._solvers.ensemble.problem import DualPrices, Unions, weighted_sums
from milearn._solvers.ensemble.stumps import BinnedFeatures, best_cuts, stump_scores
from tests._solvers.ensemble.oracles import all_columns


def scores_of(bins, prices, sign):
    prices = prices.without_rounding()
    return stump_scores(bins, prices, sign, bins.stored @ prices.linear)


def random_prices(rng, n):
    """Bags of one to three disjuncts; those of one have no reductions."""
    sizes = [1, 2, 3, 1, 2]
    blocks = [rng.choice(n, rng.integers(1, 4), replace=False) for _ in range(sum(sizes))]
    disjuncts = Unions.of(blocks, np.repeat(np.arange(5), sizes))
    weights = rng.normal(size=(len(blocks), n)) * (rng.random((len(blocks), n)) < 0.3)
    weights[[0, 6]] = 0.0
    linear = rng.normal(size=n) * (rng.random(n) < 0.5)
    return DualPrices(linear, disjuncts, rng.random(len(blocks)), sparse.csr_array(weights))


def naive_score(prices, h):
    disjuncts, values = prices.disjuncts, {}
    blocks = np.split(disjuncts.members, disjuncts.firsts[1:])
    for bag, block, u, row in zip(
        disjuncts.bag, blocks, prices.u, prices.weights.toarray(), strict=True
    ):
        value = u * max(h[x] for x in block) + sum(row[x] * h[x] for x in range(len(h)))
        values[bag] = max(values.get(bag, -np.inf), value)
    return sum(prices.linear[x] * h[x] for x in range(len(h))) + sum(values.values())


@pytest.mark.parametrize("seed", range(4))
def test_stump_scores_equal_the_naive_ones(seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(20, 5)), 1)
    X[rng.random(X.shape) < 0.6] = 0.0
    X[:, 4] = rng.normal(size=20)  # no zero, so none implicit
    prices = random_prices(rng, 20)
    cuts = []
    for matrix in (X, sparse.csr_array(X)):
        bins = BinnedFeatures(matrix)
        for sign in (1, -1):
            scores, constant = scores_of(bins, prices, sign)
            features = np.repeat(np.arange(5), np.diff(bins.starts))
            H = np.stack([bins.column(f, cut, sign) for cut, f in enumerate(features)])
            np.testing.assert_allclose(scores, [naive_score(prices, h) for h in H], atol=1e-10)
            np.testing.assert_allclose(scores, prices.score(H), atol=1e-10)
            assert constant == pytest.approx(naive_score(prices, np.full(20, sign)))
            for cut, feature in enumerate(features):
                if cut > bins.starts[feature]:
                    above = X[:, feature] > bins.threshold(cut)
                    assert (np.where(above, sign, -sign) == H[cut]).all()
        cuts.append(best_cuts(bins, prices, 0.0, 5))
    assert cuts[0][1] == cuts[1][1]
    best = max(naive_score(prices, h) for h in all_columns(X))
    assert cuts[0][0] == pytest.approx(best)


@pytest.mark.parametrize("max_bins", [2, 5, 16])
@pytest.mark.parametrize("sparse_input", [False, True])
def test_bins_divide_the_points_into_about_equal_numbers(max_bins, sparse_input):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.exponential(size=200), rng.integers(0, 3, 200), rng.normal(size=200)])
    X[rng.random(200) < 0.3, 2] = 0.0
    bins = BinnedFeatures(sparse.csr_array(X) if sparse_input else X, max_bins=max_bins)
    counts = np.diff(bins.starts)
    assert (counts <= max_bins).all()
    assert counts[0] == max_bins
    assert counts[1] == min(3, max_bins)
    for feature in range(3):
        own = np.arange(bins.starts[feature], bins.starts[feature + 1])
        x = X[:, feature]
        inside = [(x >= bins.low[k]) & (x <= bins.high[k]) for k in own]
        np.testing.assert_array_equal(np.sum(inside, axis=0), 1)
        sizes = np.sum(inside, axis=1)
        if feature == 0:
            assert sizes.max() <= 200 / max_bins + 1
        for cut in own[1:]:
            above = bins.column(feature, cut, 1) > 0
            np.testing.assert_array_equal(above, x > bins.threshold(cut))


@pytest.mark.parametrize("learner", ["stump", "rbf"])
def test_automatic_bins_begin_above_the_exact_size(learner):
    X = np.random.default_rng(0).normal(size=(300, 2))
    counts = [
        np.diff(make_pool(learner, X, 2, "auto", exact_points=size).bins.starts)
        for size in (300, 299)
    ]
    assert (counts[0] > 256).all()
    assert (counts[1] <= 256).all()


def test_weighted_sums_in_blocks_are_those_of_all_columns():
    rng = np.random.default_rng(0)
    H, alpha = rng.choice([-1, 1], size=(5, 100)).astype(np.int8), rng.random(5)
    expected = alpha @ H
    np.testing.assert_allclose(weighted_sums(alpha, H, at_once=35), expected, atol=1e-14)


def test_problems_in_several_threads_share_the_features(monkeypatch):
    """Each has the edges of its own bags, whoever asks for others in between."""
    bins = BinnedFeatures(np.random.default_rng(0).normal(size=(12, 2)))
    one, other = (Unions.of([np.arange(4), np.arange(4, 12)][:n], np.arange(n)) for n in (1, 2))
    asks = iter([False, True])

    def csr_array(*given, **options):
        if next(asks, False):
            assert bins.edges(other, 1).shape[1] == 2
        return sparse.csr_array(*given, **options)

    monkeypatch.setattr(stumps, "sparse", SimpleNamespace(csr_array=csr_array))
    assert [bins.edges(one, sign).shape[1] for sign in (1, -1)] == [1, 1]
