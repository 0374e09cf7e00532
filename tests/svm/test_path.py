"""The path over costs: objectives beside single fits, bad minima, and costs that mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from milearn import MISVC, Bags
from milearn.datasets import make_bags
from milearn.svm import misvc_path
from tests._solvers.common.test_screen import needles


def few_decide(seed=3):
    X, offsets, y, _ = needles(seed, n_bags=60, size=20)
    return Bags(X, offsets), y


def test_objectives_are_not_above_those_of_single_fits():
    bags, y = few_decide()
    Cs, models = misvc_path(bags, y, Cs=4)
    for C, model in zip(Cs, models, strict=True):
        single = MISVC(C=C, kernel="linear").fit(bags, y)
        assert model.objective_ <= single.objective_ * (1 + 1e-6)
        assert model.get_params() == single.get_params()


@pytest.mark.parametrize("seed", [0, 2])
def test_no_model_has_a_lower_objective_for_the_cost_of_another(seed):
    bags, y = make_bags(n_bags=50, flip_y=0.1, random_state=seed)
    Cs, models = misvc_path(bags, y)
    norms = np.array([0.5 * np.sum(model.coef_**2) for model in models])
    objectives = np.array([model.objective_ for model in models])
    losses = (objectives - norms) / Cs
    for objective, C in zip(objectives, Cs, strict=True):
        assert np.min(norms + C * losses) >= objective * (1 - 1e-6)


def test_a_bad_minimum_is_left_for_that_of_another_cost():
    bags, y = few_decide()
    # For high costs, the start from the means stops at bad minima.
    Cs, models = misvc_path(bags, y, Cs=3, estimator=MISVC(kernel="linear", init="mean"))
    alone = [MISVC(C=C, kernel="linear", init="mean").fit(bags, y).objective_ for C in Cs]
    assert models[0].objective_ < 0.5 * alone[0]
    for model, objective in zip(models, alone, strict=True):
        assert model.objective_ <= objective * (1 + 1e-6)


def test_costs_mean_the_same_for_any_number_and_unit_of_features():
    bags, y = make_bags(n_bags=30, random_state=0)
    Cs, models = misvc_path(bags, y, Cs=3)
    wide = bags.with_instances(np.repeat(bags.instances, 5, axis=1) * 7.0)
    wide_Cs, wide_models = misvc_path(wide, y, Cs=3)
    np.testing.assert_allclose(wide_Cs, Cs / (5 * 49))
    for model, other in zip(models, wide_models, strict=True):
        np.testing.assert_allclose(
            other.decision_function(wide), model.decision_function(bags), rtol=1e-3, atol=1e-3
        )
    given, fitted = misvc_path(bags, y, Cs=[0.1, 1.0])
    np.testing.assert_array_equal(given, [1.0, 0.1])
    assert [model.C for model in fitted] == [1.0, 0.1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"Cs": 0}, "Cs=0: pass a positive number"),
        ({"Cs": [1.0, -1.0]}, "Cs holds -1: costs must be positive"),
        ({"eps": 2.0}, "eps=2.0: pass a ratio"),
        ({"estimator": MISVC()}, "kernel='rbf': a path needs kernel='linear'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    bags, y = make_bags(n_bags=10, random_state=0)
    with pytest.raises(ValueError, match=message):
        misvc_path(bags, y, **settings)
    with pytest.raises(ValueError, match="three or more classes"):
        misvc_path(bags, y=np.arange(10) % 3)
