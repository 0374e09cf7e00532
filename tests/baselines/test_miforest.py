"""MIForest: what it finds, probabilities, and the temperatures."""

from __future__ import annotations

import numpy as np
import pytest

from milearn.baselines import MIForest
from tests.toys import two_level_bags


def test_it_scores_new_bags_and_finds_what_was_moved():
    bags, y = two_level_bags(n_bags=80, shift=4.0)
    model = MIForest(30, random_state=0).fit(bags, y)
    assert model.score(*two_level_bags(n_bags=80, shift=4.0, seed=1)) > 0.85
    positive = np.flatnonzero(y == 1)
    assert (model.witness(bags)[positive] == bags.offsets[positive]).mean() > 0.9
    assert np.argmax(model.feature_importances_) == 0
    p = model.predict_proba(bags)[:, 1]
    np.testing.assert_allclose(model.decision_function(bags), p - 0.5, atol=1e-12)


def test_temperatures_fall_by_a_constant_factor():
    bags, y = two_level_bags()
    model = MIForest(2, n_epochs=3, random_state=0).fit(bags, y)
    np.testing.assert_allclose(model.temperatures_, [1.0, 10**-0.5, 0.1])
    with pytest.raises(ValueError, match="min_temperature=2 is above max_temperature=1"):
        MIForest(min_temperature=2).fit(bags, y)


def test_trees_of_many_instances_see_some_of_them():
    X = np.random.default_rng(0).normal(size=(8194, 1))
    y = np.arange(8194) % 2
    for n, least, most in ((8192, 5000, 5400), (8194, 3000, 3500)):
        model = MIForest(1, n_epochs=0, max_depth=1, random_state=0).fit(X[:n], y[:n])
        assert least < model.estimators_[0].tree_.n_node_samples[0] < most
