"""WellSVC: bounds from the fitted attributes, beside SDPMIL, and its stop."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from milearn._solvers.svm import label_generation
from milearn.exceptions import SolverError
from milearn.svm import SDPMIL, WellSVC
from tests.toys import two_level_bags


def first_problem(model, bags, y, C):
    """Value of the problem of one selection at f, the highest instances selected."""
    K = rbf_kernel(model.support_vectors_, gamma=model.gamma_)
    value = 0.5 * (model.dual_coef_ @ K @ model.dual_coef_.T).item()
    scores = model.instance_decision_function(bags)
    for first, last, label in zip(bags.offsets[:-1], bags.offsets[1:], y, strict=True):
        if label:
            value += C * max(0.0, 1.0 - scores[first:last].max())
        else:
            value += C * np.maximum(0.0, 1.0 + scores[first:last]).sum()
    return value


def test_bounds_are_those_of_the_fitted_function_and_of_sdpmil():
    bags, y = two_level_bags(n_bags=24, shift=2.0)
    model = WellSVC(C=2.0).fit(bags, y)
    assert model.upper_bound_ == pytest.approx(first_problem(model, bags, y, 2.0), rel=1e-8)
    assert model.lower_bound_ <= model.objective_ <= model.upper_bound_
    other = SDPMIL(C=2.0, relaxation="tight").fit(bags, y)
    # Both bound one problem from both sides.
    assert model.lower_bound_ <= other.objective_
    assert other.lower_bound_ <= model.upper_bound_
    assert other.lower_bound_ <= model.objective_ * (1 + 2e-3)
    assert model.mixture_.sum() == pytest.approx(1.0)
    assert len(model.mixture_) == model.n_iter_


def test_it_scores_new_bags_and_finds_what_was_moved():
    bags, y = two_level_bags(n_bags=60, shift=4.0)
    model = WellSVC().fit(bags, y)
    assert model.score(*two_level_bags(n_bags=60, shift=4.0, seed=1)) > 0.85
    positive = np.flatnonzero(y == 1)
    assert (model.witness(bags)[positive] == bags.offsets[positive]).mean() > 0.9


def test_three_classes_have_a_mixture_each():
    bags, y = two_level_bags(n_bags=45, n_classes=3, shift=4.0)
    model = WellSVC().fit(bags, y)
    assert model.dual_coef_.shape == (3, len(model.support_vectors_))
    assert len(model.mixture_) == len(model.upper_bound_) == 3


def test_a_limit_that_is_reached_is_reported():
    bags, y = two_level_bags(n_bags=24, shift=1.0)
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1 before convergence in 1 of"):
        model = WellSVC(max_iter=1).fit(bags, y)
    assert not model.converged_


def test_a_mixture_that_is_not_found_to_tol_is_not_converged(monkeypatch):
    def not_solved(*args):
        raise SolverError("not solved")

    monkeypatch.setattr(label_generation, "_model_minimum", not_solved)
    bags, y = two_level_bags(n_bags=24, shift=1.0)
    with pytest.warns(ConvergenceWarning, match="found to a relative duality gap of") as caught:
        model = WellSVC().fit(bags, y)
    assert not any("max_iter" in str(each.message) for each in caught)
    assert model.dual_gap_ > model.tol * model.objective_
    assert not model.converged_
