"""MILES against the linear program in cvxpy, and what it says of instances."""

from __future__ import annotations

import numpy as np
import pytest

from milearn.baselines import MILES
from tests.toys import two_level_bags


@pytest.mark.parametrize("class_weight", [None, {0: 3.0}])
def test_the_objective_is_the_stated_one(class_weight):
    bags, y = two_level_bags(n_bags=30, shift=1.5)
    model = MILES(C=2.0, class_weight=class_weight).fit(bags, y)
    signs = np.where(y == 1, 1.0, -1.0)
    costs = 2.0 * np.where(y == 0, 3.0 if class_weight else 1.0, 1.0)
    scores = model.decision_function(bags)
    recomputed = np.abs(model.coef_).sum() + costs @ np.maximum(0, 1 - signs * scores)
    assert recomputed == pytest.approx(model.objective_, rel=1e-9)
    # The program itself is compared with cvxpy where it is solved.
    assert model.lower_bound_ == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_contributions_add_up_to_the_score_of_the_bag(n_classes):
    bags, y = two_level_bags(n_classes=n_classes)
    model = MILES(C=5.0).fit(bags, y)
    parts = model.instance_contributions(bags)
    total = np.add.reduceat(parts, bags.offsets[:-1], axis=0)
    constant = model.intercept_[0] if n_classes == 2 else model.intercept_
    np.testing.assert_allclose(total + constant, model.decision_function(bags), atol=1e-10)
    np.testing.assert_array_equal(bags.instances[model.prototype_rows_], model.prototypes_)


def test_rows_of_prototypes_count_over_bags_of_weight_zero():
    bags, y = two_level_bags()
    weight = np.r_[np.zeros(4), np.ones(len(bags) - 4)]
    model = MILES(C=5.0).fit(bags, y, sample_weight=weight)
    np.testing.assert_array_equal(bags.instances[model.prototype_rows_], model.prototypes_)
    assert (model.prototype_rows_ >= bags.offsets[4]).all()


def test_a_cost_that_selects_nothing_leaves_one_score_for_all():
    bags, y = two_level_bags()
    model = MILES(C=1e-6).fit(bags, y)
    assert model.prototypes_.shape == (0, 3)
    np.testing.assert_array_equal(model.decision_function(bags), np.zeros(len(bags)))
    np.testing.assert_array_equal(model.instance_contributions(bags), np.zeros(bags.n_instances))
