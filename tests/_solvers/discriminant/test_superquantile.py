"""Superquantiles and their discriminants against definitions, closed forms and enumeration."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy import linalg
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from milearn._bags.blocks import ArraySource
from milearn._solvers.common.screen import proportions_of
from milearn._solvers.discriminant.superquantile import (
    Metric,
    ascend,
    counts_of,
    rows_of_highest,
    superquantiles,
)

SIZES = [3, 1, 4, 3, 5, 2]


def problem(seed, sizes=SIZES, d=2, ties=False):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], d))
    if ties:
        X = np.round(X)
    S = np.cov(X.T, bias=True) + 0.05 * np.eye(d)
    metric = Metric(X.mean(axis=0), linalg.cholesky(S, lower=True))
    return X, offsets, S, metric


def test_counts():
    np.testing.assert_array_equal(
        counts_of(np.array([1, 10, 100]), [0.0, 0.1, 0.11, 1.0]),
        [[1, 1, 1], [1, 1, 10], [1, 2, 11], [1, 10, 100]],
    )


@pytest.mark.parametrize("ties", [False, True])
def test_superquantiles_are_the_maximum_over_weights(ties):
    X, offsets, *_ = problem(0, ties=ties)
    W, shares = np.random.default_rng(1).normal(size=(70, 2)), [0.0, 0.3, 0.5, 1.0]
    found = superquantiles(ArraySource(X, offsets, block_bytes=200), W, shares)
    for number, share in enumerate(shares):
        for bag, (first, last) in enumerate(pairwise(offsets)):
            count = int(counts_of(last - first, share))
            scores = X[first:last] @ W.T
            means = [
                scores[list(rows)].mean(axis=0) for rows in combinations(range(last - first), count)
            ]
            np.testing.assert_allclose(found[number, bag], np.max(means, axis=0), atol=1e-12)
    mask = rows_of_highest(X @ W[0], offsets, 0.5)
    np.testing.assert_array_equal(
        np.add.reduceat(mask, offsets[:-1], dtype=int), [2, 1, 2, 2, 3, 1]
    )
    sums = np.add.reduceat(mask * (X @ W[0]), offsets[:-1]) / [2, 1, 2, 2, 3, 1]
    np.testing.assert_allclose(sums, found[2, :, 0], atol=1e-12)


@pytest.mark.parametrize("h", [0.5, 1.0])
def test_the_discriminant_of_means_is_fishers(h):
    X, offsets, S, metric = problem(2, sizes=[3] * 8, d=3)
    y = np.arange(8) % 2
    start = np.random.default_rng(0).normal(size=(1, 3))
    pull = proportions_of(2.0 * y - 1, h)
    found = ascend(ArraySource(X, offsets), metric, start, np.ones(1), pull, 1)

    class Fixed:
        def fit(self, X):
            self.covariance_ = S
            return self

    rows = np.repeat(y, 3)
    known = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=Fixed()).fit(X, rows)
    expected = metric.normalised(known.coef_)
    np.testing.assert_allclose(found.directions, expected, atol=1e-9)
    gap = X[rows == 1].mean(axis=0) - h * X[rows == 0].mean(axis=0) - (1 - h) * X.mean(axis=0)
    assert found.values[0] == pytest.approx(gap @ expected[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_without_negatives_it_is_the_best_selection(seed, share):
    # For h = 0, the maximum is the longest gradient over all selections.
    X, offsets, S, metric = problem(seed, ties=seed % 2 == 1)
    y = np.array([1, 0, 1, 1, 0, 1])
    pull = proportions_of(2.0 * y - 1, 0.0)
    inverse = linalg.inv(S)
    bags = [X[offsets[bag] : offsets[bag + 1]] for bag in np.flatnonzero(y)]
    choices = [
        [
            bag[list(rows)].mean(axis=0)
            for rows in combinations(range(len(bag)), int(counts_of(len(bag), share)))
        ]
        for bag in bags
    ]
    gradients = np.array([np.mean(each, axis=0) for each in product(*choices)]) - metric.mean
    expected = np.sqrt(np.einsum("ij,jk,ik->i", gradients, inverse, gradients).max())
    starts = np.random.default_rng(0).normal(size=(60, 2))
    found = ascend(ArraySource(X, offsets), metric, starts, np.full(60, share), pull, 30)
    assert found.values.max() == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_steps_do_not_lower_the_objective_and_end_in_a_local_maximum(share):
    circle = np.linspace(0, 2 * np.pi, 2_000, endpoint=False)
    attained = 0
    for seed in range(5):
        X, offsets, _, metric = problem(seed, sizes=SIZES * 2)
        source = ArraySource(X, offsets)
        pull = proportions_of(np.array([1.0, -1.0] * 6) * np.arange(1.0, 13.0))

        def values_of(directions, source=source, pull=pull, metric=metric):
            pooled = pull @ superquantiles(source, directions, [share])[0]
            return pooled - pull.sum() * directions @ metric.mean

        around = metric.normalised(np.stack([np.cos(circle), np.sin(circle)], axis=1))
        best = circle[values_of(around).argmax()] + circle[1] * np.linspace(-1, 1, 200)
        values = values_of(metric.normalised(np.stack([np.cos(best), np.sin(best)], axis=1)))
        starts, shares = around[::200], np.full(10, share)
        history = [ascend(source, metric, starts, shares, pull, n) for n in (0, 1, 2, 4, 40)]
        for before, after in pairwise(history):
            assert np.all(after.values >= before.values - 1e-12)
        last = history[-1]
        np.testing.assert_allclose(last.values, values_of(last.directions), atol=1e-10)
        np.testing.assert_allclose(
            np.sum((last.directions @ np.tril(metric.factor)) ** 2, axis=1), 1
        )
        assert last.values.max() <= values.max() + 1e-6
        attained += last.values.max() >= values.max() - 1e-4
    assert attained >= 4
