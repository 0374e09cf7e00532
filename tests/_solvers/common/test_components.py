"""The rule of ``n_components="auto"``: exact on few instances, otherwise landmarks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from inspect import signature

import numpy as np
import pytest
from sklearn.base import clone, is_regressor

from milearn._solvers.common import features as components
from milearn._solvers.common.features import (
    BAG_LIMITS,
    RELAXATION_LIMITS,
    STORED_LIMITS,
    ComponentLimits,
    auto_components,
)
from milearn.baselines import SparseMISVC
from milearn.datasets import make_bags
from milearn.svm import (
    MISVC,
    MISVR,
    SDPMIL,
    BagSVC,
    BagSVR,
    CoupledMISVC,
    CoupledMISVR,
    InstanceMISVC,
)
from milearn.utils import all_estimators
from tests.toys import OFTEN_CONSTANT

# More landmarks than instances: nothing is approximated.
EVERY = 10**6
FIXED = {"gamma": 0.1, "C": 2.0}
ESTIMATORS = [
    MISVC(init="mean", **FIXED),
    InstanceMISVC(init="mean", **FIXED),
    MISVR(init="mean", **FIXED),
    CoupledMISVC(init="mean", **FIXED),
    CoupledMISVR(init="mean", **FIXED),
]


def fit(estimator, n_components, bags, y):
    model = clone(estimator).set_params(n_components=n_components)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model.fit(bags, y.astype(float) if is_regressor(model) else y)


@pytest.fixture
def limited(monkeypatch):
    """A function that sets the sizes of the rule."""

    def limit(**limits):
        monkeypatch.setattr(components, "ComponentLimits", partial(ComponentLimits, **limits))

    return limit


@pytest.mark.parametrize(
    ("n_bags", "n_instances", "expected"),
    [(5, 40, None), (6, 40, 7), (5, 41, 7)],
)
def test_both_sizes_count(n_bags, n_instances, expected):
    limits = ComponentLimits(instances=40, bags=5, landmarks=7)
    assert auto_components("auto", n_bags, n_instances, limits) == expected
    assert auto_components(None, n_bags, n_instances, limits) is None
    assert auto_components(3, n_bags, n_instances, limits) == 3


def test_features_in_memory_have_fewer_landmarks():
    limits = ComponentLimits(instances=40, entries=4100, landmarks=50, fewest=30)
    found = [auto_components("auto", 5, n, limits) for n in (41, 82, 100, 200)]
    assert found == [50, 50, 41, 30]


def test_it_is_the_default_of_all_estimators_with_landmarks():
    found = {
        name: signature(estimator).parameters["n_components"].default
        for name, estimator in all_estimators()
        if "n_components" in signature(estimator).parameters
    }
    counted = {name for name, value in found.items() if isinstance(value, int)}
    assert counted == {"FisherVector", "LinkContentMF"}  # numbers of other things
    assert all(found[name] == "auto" for name in found.keys() - counted)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_each_side_of_the_rule_is_the_forced_one(estimator, limited):
    bags, y = make_bags(24, 3, bag_size=(1, 4), concept_distance=2.0, random_state=1)
    small = fit(estimator, "auto", bags, y)
    assert small.n_components_ is None
    exact = fit(estimator, None, bags, y)
    assert small.objective_ == exact.objective_
    np.testing.assert_array_equal(small.dual_coef_, exact.dual_coef_)
    limited(instances=bags.n_instances - 1, landmarks=10)
    large, known = fit(estimator, "auto", bags, y), fit(estimator, 10, bags, y)
    assert large.n_components_ == len(large.support_vectors_) == 10
    assert large.objective_ == known.objective_
    limited(instances=bags.n_instances - 1, landmarks=EVERY)
    every = fit(estimator, "auto", bags, y)
    assert every.n_components_ == bags.n_instances
    assert every.objective_ == pytest.approx(exact.objective_, rel=1e-5)


def test_a_relaxation_over_all_landmarks_is_the_exact_one(monkeypatch):
    bags, y = make_bags(24, 3, bag_size=(1, 4), concept_distance=2.0, random_state=1)
    exact = SDPMIL(**FIXED, polish=True).fit(bags, y)
    limits = replace(RELAXATION_LIMITS, instances=bags.n_instances - 1, landmarks=EVERY)
    monkeypatch.setattr("milearn.svm._sdpmil.RELAXATION_LIMITS", limits)
    every = SDPMIL(**FIXED, polish=True).fit(bags, y)
    assert (exact.n_components_, every.n_components_) == (None, bags.n_instances)
    assert every.relaxation_value_ == pytest.approx(exact.relaxation_value_, rel=1e-6)
    assert every.objective_ == pytest.approx(exact.objective_, rel=1e-5)
    assert (every.selected_ == exact.selected_).all()
    np.testing.assert_allclose(
        every.decision_function(bags), exact.decision_function(bags), atol=1e-2
    )
    limits = replace(RELAXATION_LIMITS, instances=bags.n_instances - 1, landmarks=9)
    monkeypatch.setattr("milearn.svm._sdpmil.RELAXATION_LIMITS", limits)
    few = SDPMIL(**FIXED).fit(bags, y)
    assert few.n_components_ == len(few.support_vectors_) == 9
    assert (SDPMIL(**FIXED).fit(bags, y).dual_coef_ == few.dual_coef_).all()


@pytest.mark.parametrize("estimator", [BagSVC(scaling=None), BagSVR(scaling=None)], ids=str)
def test_bag_kernels_take_landmarks_by_both_sizes(estimator, monkeypatch):
    bags, y = make_bags(30, 3, bag_size=4, random_state=1)
    exact = fit(estimator, "auto", bags, y)
    assert exact.n_components_ is None
    np.testing.assert_array_equal(exact.dual_coef_, fit(estimator, None, bags, y).dual_coef_)

    def components(model=estimator, **sizes):
        limits = replace(BAG_LIMITS, landmarks=20, fewest=3, **sizes)
        monkeypatch.setattr("milearn.svm._bag_svm.BAG_LIMITS", limits)
        return fit(model, "auto", bags, y).n_components_

    known = fit(estimator, 20, bags, y)
    assert components(bags=29) == known.n_components_ == len(known.landmarks_) == 20
    assert components(instances=119) == 20
    assert components(instances=119, pairs=120 * 4 * 7) == 7
    assert components(instances=119, pairs=1) == 3
    # One vector for each bag: the number of instances does not matter.
    vectors = clone(estimator).set_params(bag_kernel="mean")
    assert components(vectors, instances=119, pairs=1) is None
    assert components(vectors, bags=29, pairs=1) == 20


@pytest.mark.parametrize("variant", ["smil", "stmil", "sbmil"])
@OFTEN_CONSTANT
def test_sparse_bags_over_all_landmarks_are_the_exact_ones(variant, monkeypatch):
    bags, y = make_bags(24, 3, bag_size=(1, 4), concept_distance=2.0, random_state=1)
    y = y + (np.arange(24) % 3 == 0)  # three classes
    model = SparseMISVC(variant=variant, **FIXED)
    exact = clone(model).fit(bags, y)
    assert exact.n_components_ is None
    limits = replace(STORED_LIMITS, instances=bags.n_instances - 1, landmarks=EVERY)
    monkeypatch.setattr("milearn.baselines._sparse_misvc.STORED_LIMITS", limits)
    every = clone(model).fit(bags, y)
    assert every.n_components_ == bags.n_instances
    np.testing.assert_allclose(every.objective_, exact.objective_, rtol=1e-5)
    found, expected = every.decision_function(bags), exact.decision_function(bags)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    few = clone(model).set_params(n_components=8).fit(bags, y)
    assert few.dual_coef_.shape == (3, 8)
    np.testing.assert_array_equal(few.support_vectors_, bags.instances[few.support_])
