"""BLRT: what it learns, probabilities, weights and the order of the data."""

from __future__ import annotations

import numpy as np
import pytest

from milearn import Bags
from milearn.baselines import BLRT
from milearn.datasets import make_bags
from tests.toys import two_level_bags


def frequent(n_bags=120, n_classes=2, seed=0):
    """Bags whose class is how many of ten instances have a high first feature."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % n_classes
    X = rng.standard_normal((n_bags, 10, 3))
    X[..., 0] += 4.0 * (np.arange(10) < 3 + 3 * y[:, None])
    return Bags.from_list(list(X)), y


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_learns_proportions_that_no_single_instance_shows(n_classes):
    model = BLRT(60, random_state=0).fit(*frequent(n_classes=n_classes))
    bags, y = frequent(n_classes=n_classes, seed=1)
    assert model.score(bags, y) > 0.9
    assert np.argmax(model.feature_importances_) == 0
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    p = model.predict_proba(bags)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    expected = p[:, 1] - 0.5 if n_classes == 2 else p
    np.testing.assert_allclose(model.decision_function(bags), expected, atol=1e-12)


def test_a_longer_ensemble_begins_with_the_shorter_one():
    X, y = two_level_bags(n_bags=40)
    short, more, both = (BLRT(n, random_state=0).fit(X, y).predict_proba(X) for n in (1, 2, 2))
    np.testing.assert_array_equal(more, both)
    second = 2 * more - short
    assert second.min() > -1e-12
    assert second.max() < 1 + 1e-12


def test_constant_features_leave_a_single_leaf():
    X, y = np.ones((10, 3, 2)), np.array([0, 1] * 5)
    model = BLRT(5, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), 0.5)
    assert not model.feature_importances_.any()


def test_bags_are_drawn_for_each_tree_whatever_their_order():
    X, y = make_bags(40, 6, bag_size=(2, 9), flip_y=0.2, random_state=0)

    def votes(max_samples, bags=X, labels=y):
        return BLRT(20, max_samples=max_samples, random_state=3).fit(bags, labels).predict_proba(X)

    every = votes(None)
    for same in ("auto", 40, 100, 1.0):
        np.testing.assert_array_equal(votes(same), every)
    some = votes(10)
    assert (some != every).any()
    np.testing.assert_array_equal(votes(0.25), some)
    order = np.random.default_rng(1).permutation(40)
    np.testing.assert_allclose(votes(10, X[order], y[order]), some, atol=1e-12)
    # A tree of two bags has at most one rule.
    two = BLRT(20, max_samples=2, random_state=3).fit(X, y)
    assert (two._trees.feature >= 0).sum() <= 20


def test_automatic_samples_begin_above_two_thousand_bags():
    X = np.random.default_rng(0).normal(size=(2001, 1))
    y = np.arange(2001) % 2

    def roots(max_samples, n):
        return BLRT(1, max_samples=max_samples, max_depth=1, random_state=0).fit(X[:n], y[:n])

    for n, same in ((2000, None), (2001, 2000)):
        one, other = roots("auto", n)._trees, roots(same, n)._trees
        np.testing.assert_array_equal(one.values, other.values)
