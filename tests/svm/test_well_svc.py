"""WellSVC: bounds from the fitted attributes, compared with SDPMIL, and its stop."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from milearn import Bags
from milearn._solvers.svm.mixture import mix_selections
from milearn.datasets import make_bags
from milearn.svm import SDPMIL, WellSVC, _well_svc
from tests.bags import labelled_bags
from tests.oracles import selection_optimum
from tests.toys import two_level_bags


def first_problem(model, bags, y, C):
    """Value of the problem of one selection at f, the highest instances selected."""
    if model.kernel == "linear":
        value = 0.5 * float(model.coef_[0] @ model.coef_[0])
    else:
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
    assert model.lower_bound_ <= model.relaxation_value_ <= model.upper_bound_
    assert 0 <= model.mixture_gap_ <= 1e-3 * model.relaxation_value_
    other = SDPMIL(C=2.0, relaxation="tight").fit(bags, y)
    # Both bound one problem from both sides.
    assert model.lower_bound_ <= other.objective_
    assert other.lower_bound_ <= model.upper_bound_
    assert other.lower_bound_ <= model.relaxation_value_ * (1 + 2e-3)
    assert model.mixture_.sum() == pytest.approx(1.0)
    assert len(model.mixture_) == model.n_iter_


def test_a_mixture_that_is_not_found_to_tol_is_not_converged(monkeypatch):
    monkeypatch.setattr(_well_svc, "mix_selections", partial(mix_selections, max_mixtures=0))
    bags, y = two_level_bags(n_bags=24, shift=1.0)
    with pytest.warns(ConvergenceWarning, match="found to a relative duality gap of") as caught:
        model = WellSVC().fit(bags, y)
    assert not any("max_iter" in str(each.message) for each in caught)
    assert model.mixture_gap_ > model.tol * model.relaxation_value_
    assert not model.converged_


@pytest.mark.parametrize("seed", range(6))
def test_a_mixture_that_vanishes_is_no_function(seed):
    """Without a direction that separates, rounding is not scaled up to one."""
    Z = np.random.default_rng(seed).normal(size=(18, 2))
    offsets, y = np.arange(7) * 3, np.array([0, 1] * 3)
    dense = WellSVC(kernel="linear").fit(Bags(Z, offsets), y)
    csr = WellSVC(kernel="linear").fit(Bags(sparse.csr_array(Z), offsets), y)
    for model in (dense, csr):
        value = first_problem(model, Bags(Z, offsets), y, 10.0)
        assert model.upper_bound_ == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(
        dense.decision_function(Bags(Z, offsets)),
        csr.decision_function(Bags(Z, offsets)),
        atol=1e-5,
    )


def test_the_upper_bound_is_not_below_the_optimum():
    for seed in range(6):
        bags, y = labelled_bags(seed, n_positive=3, n_negative=3, d=2)
        model = WellSVC(kernel="linear").fit(bags, y)
        best = selection_optimum(bags.instances @ bags.instances.T, bags, y, 10.0)
        assert model.lower_bound_ * (1 - 1e-7) <= best <= model.upper_bound_ * (1 + 1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("offset", [1e7, 1e8])
def test_instances_far_from_zero_are_those_near_it(kernel, offset):
    bags, y = two_level_bags(n_bags=24, shift=2.0)
    moved = bags.with_instances(bags.instances + offset)
    # The digits that are lost in the data themselves are not there to begin with.
    near = moved.with_instances(moved.instances - offset)
    one, other = (WellSVC(kernel=kernel, gamma=0.3).fit(each, y) for each in (near, moved))
    assert other.upper_bound_ == pytest.approx(one.upper_bound_, rel=1e-5)
    np.testing.assert_allclose(
        other.decision_function(moved), one.decision_function(near), atol=1e-3
    )


@pytest.mark.parametrize("kernel", ["sigmoid", "additive_chi2"])
def test_an_indefinite_kernel_loses_its_negative_part(kernel):
    bags, y = two_level_bags(n_bags=24, shift=2.0)
    bags = bags.with_instances(np.abs(bags.instances))
    with pytest.warns(UserWarning, match="negative part was dropped"):
        model = WellSVC(kernel=kernel).fit(bags, y)
    assert model.lower_bound_ <= model.upper_bound_
    assert model.score(bags, y) > 0.6


def test_constant_features_give_a_constant():
    bags = Bags(np.zeros((49, 1)), np.arange(0, 50, 7))
    model = WellSVC(kernel="linear").fit(bags, np.arange(7) % 2)
    assert np.ptp(model.decision_function(bags)) == 0
    assert model.lower_bound_ <= model.upper_bound_


def test_matrices_beyond_the_working_memory_are_refused_with_a_remedy():
    bags, y = make_bags(n_bags=20, random_state=0)
    said = (
        rf"matrices of {bags.n_instances} instances take \d+ MiB"
        r".*: take MISVC\(slack='instance'\) or SDPMIL"
    )
    with config_context(working_memory=0.1), pytest.raises(MemoryError, match=said):
        WellSVC().fit(bags, y)
