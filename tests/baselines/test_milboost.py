"""MILBoost: its objective from the fitted attributes, learners, probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from milearn import Bags
from milearn.baselines import MILBoost
from tests.toys import two_level_bags

LEARNERS = ["stump", "rbf", DecisionTreeClassifier(max_depth=2, random_state=0)]


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_the_objective_is_that_of_the_predicted_probabilities(learner):
    bags, y = two_level_bags()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = MILBoost(10, estimator=learner).fit(bags, y, sample_weight=weight)
    own = model.predict_proba(bags)[np.arange(len(y)), y]
    assert model.objective_ == pytest.approx(-weight @ np.log(own), rel=1e-8)
    F = model.intercept_ + sum(
        a * h.predict(bags.instances) for a, h in zip(model.alpha_, model.learners_, strict=True)
    )
    np.testing.assert_allclose(model.instance_decision_function(bags), F, rtol=1e-10)
    assert len(model.objective_history_) == model.n_iter_ + 1
    assert model.feature_importances_.shape == (3,)


def test_it_scores_new_bags_and_finds_what_was_moved():
    bags, y = two_level_bags(n_bags=80, shift=4.0)
    model = MILBoost(30).fit(bags, y)
    test, truth = two_level_bags(n_bags=80, shift=4.0, seed=1)
    assert model.score(test, truth) > 0.85
    positive = np.flatnonzero(y == 1)
    assert (model.witness(bags)[positive] == bags.offsets[positive]).mean() > 0.9
    assert np.argmax(model.feature_importances_) == 0


def test_many_small_probabilities_make_a_large_bag_positive():
    bags, y = two_level_bags()
    model = MILBoost(10).fit(bags, y)
    x = bags.instances[[np.argmin(model.instance_decision_function(bags))]]
    one, many = model.decision_function(Bags(np.repeat(x, 501, axis=0), [0, 1, 501]))
    assert one < many
