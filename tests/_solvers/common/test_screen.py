"""Screened directions: values by definition, invariances, and needles that the means miss."""

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from milearn import Bags
from milearn._bags.blocks import ArraySource
from milearn._bags.segments import segment_argmax, segment_max
from milearn._solvers.common.screen import (
    ScreenLimits,
    rank_correlations,
    screened,
    targets_of,
)
from milearn.svm import MISVC, InstanceMISVC
from tests.bags import tissues


def needles(seed, n_bags=60, size=60, d=30, distance=7.0):
    """Bags of two classes; one instance of a positive bag lies at a common place."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n_bags * size, d)) + np.repeat(rng.normal(size=(n_bags, d)), size, axis=0)
    offsets, place = np.arange(0, len(X) + 1, size), rng.normal(size=d)
    y = np.arange(n_bags) % 2
    rows = offsets[:-1][y == 1] + rng.randint(size, size=n_bags // 2)
    X[rows] += distance * place / np.linalg.norm(place)
    return X, offsets, y, rows


def screen(X, offsets, y, weights=None, **limits):
    weights = np.ones(len(y)) if weights is None else weights
    targets = targets_of(2.0 * y - 1.0, weights)
    return screened(ArraySource(X, offsets), targets, weights, ScreenLimits(**limits))


def test_directions_are_in_the_order_of_the_area_under_the_curve():
    X, offsets, y, _ = needles(0)
    # Rounded scores tie.
    X = np.round(X)
    found = screen(X, offsets, y)
    areas = []
    for w, rows in zip(found.directions, found.rows, strict=True):
        scores = X @ w
        highest = segment_max(scores, offsets)
        np.testing.assert_allclose(scores[rows], highest, rtol=1e-5, atol=1e-6)
        areas.append(roc_auc_score(y, highest))
    refined = areas[:-1]
    assert refined == sorted(refined, reverse=True)


def test_values_of_weighted_bags_with_and_without_equal_scores():
    """An integer weight is a bag that is there as many times."""
    rng = np.random.RandomState(0)
    weights = rng.randint(1, 4, size=40)
    targets = targets_of(rng.normal(size=40), weights)
    scores = rng.normal(size=(6, 40))
    scores[3:] = np.round(scores[3:])
    times = np.repeat(np.arange(40), weights)
    expected = [np.corrcoef(rankdata(row[times]), targets[times])[0, 1] for row in scores]
    np.testing.assert_allclose(rank_correlations(scores, targets, weights), expected, rtol=1e-12)


def test_scores_that_differ_by_rounding_share_a_rank():
    rng = np.random.RandomState(0)
    targets = targets_of(rng.normal(size=40), np.ones(40))
    scores = rng.randint(-3, 4, size=(5, 40)).astype(float)
    shaken = scores + 1e-13 * rng.normal(size=scores.shape)
    found = rank_correlations(shaken, targets, np.ones(40))
    np.testing.assert_allclose(found, rank_correlations(scores, targets, np.ones(40)), rtol=1e-12)


def test_many_small_differences_in_a_row_are_no_ties():
    scores = 1e4 + np.linspace(0.0, 1.0, 1_000)[None]
    targets = targets_of(scores[0], np.ones(1_000))
    found = rank_correlations(scores, targets, np.ones(1_000), tie=1e-6)
    assert found[0] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("model", [MISVC(C=10.0), InstanceMISVC(C=10.0)])
def test_a_weight_of_two_is_a_bag_twice_where_scores_tie(model):
    rng = np.random.RandomState(308)
    n, d = rng.randint(8, 25), rng.randint(1, 9)
    sizes = rng.randint(1, 7, n)
    bags = Bags(rng.normal(size=(sizes.sum(), d)), np.r_[0, np.cumsum(sizes)])
    y, weights = rng.permutation(np.arange(n) % 2), rng.randint(0, 3, n)
    times = np.repeat(np.arange(n), weights)
    expected = clone(model).fit(bags[times], y[times]).objective_
    assert model.fit(bags, y, sample_weight=weights).objective_ == pytest.approx(expected, rel=1e-4)


def test_targets_can_be_numbers():
    X, offsets, y, _ = needles(1)
    values = y * np.random.RandomState(0).uniform(1.0, 2.0, len(y))
    found = screened(ArraySource(X, offsets), targets_of(values, np.ones(len(y))), np.ones(len(y)))
    highest = segment_max(X @ found.directions[0], offsets)
    expected = np.corrcoef(values, rankdata(highest))[0, 1]
    assert expected > 0.8


def test_deciding_instances_are_found_where_the_means_miss_them():
    hits, rises = [], []
    for seed in range(2):
        X, offsets, y, rows = needles(seed)
        found = screen(X, offsets, y)
        hits.append(np.mean(found.rows[0, y == 1] == rows))
        bags = Bags(X, offsets)
        means = MISVC(C=0.1, kernel="linear", init="mean").fit(bags, y)
        auto = MISVC(C=0.1, kernel="linear").fit(bags, y)
        assert auto.objective_ <= means.objective_ * (1 + 1e-9)
        rises.append(means.objective_ / auto.objective_)
    assert min(hits) > 0.9
    # From the means one of the two ends in the right minimum.
    assert sum(rise > 1.5 for rise in rises) == 1


def test_single_precision_and_blocks_make_no_difference():
    X, offsets, y, _ = needles(4)
    single = X.astype(np.float32)
    found, weights = screen(single.astype(np.float64), offsets, y), np.ones(len(y))
    source = ArraySource(single, offsets, 8 * 30 * 200)
    other = screened(source, targets_of(2.0 * y - 1.0, weights), weights)
    np.testing.assert_array_equal(other.rows, found.rows)


def test_landmarks_take_the_place_of_many_features():
    X, offsets, y, rows = needles(5)
    found = screen(X, offsets, y, features=10)
    for w, highest in zip(found.directions, found.rows, strict=True):
        np.testing.assert_array_equal(segment_argmax(X @ w, offsets), highest)
    assert np.mean(found.rows[0, y == 1] == rows) > 0.9


def test_bags_that_do_not_differ():
    X, offsets = np.ones((12, 3)), np.array([0, 4, 8, 12])
    found = screen(X, offsets, np.array([1, 0, 1]))
    assert np.isfinite(found.directions).all()


def test_many_features_where_an_instance_hardly_shows_the_direction():
    X, offsets, y, moved = tissues(0, 60, d=300)
    found, without = (screen(X, offsets, y, contrasts=count).rows[0, y == 1] for count in (3, 0))
    assert moved[found].mean() > 0.9
    assert moved[without].mean() < 0.3
