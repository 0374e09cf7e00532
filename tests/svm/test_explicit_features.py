"""Coupled bags over explicit features: against the exact models, and what is kept."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context

from milearn import Bags
from milearn._bags.segments import segment_max
from milearn._kernels.bag import BAG_KERNELS
from milearn._solvers.common import features
from milearn._solvers.svm.losses import Tube
from milearn.svm import CoupledMISVC
from tests.bags import indefinite_kernel
from tests.svm.test_coupled import data, model

EVERY = 10**6  # more landmarks than instances: nothing is approximated


def levels(fitted, bags):
    if isinstance(fitted, CoupledMISVC):
        return fitted.decision_function(bags), fitted.instance_decision_function(bags)
    return fitted.predict(bags), fitted.predict_instances(bags)


@pytest.mark.parametrize("name", BAG_KERNELS)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_few_landmarks_cost_and_their_function_is_one_of_the_space(task, name):
    bags, y = data(task)
    options = {"C": 3.0, "gamma": 0.05, "bag_kernel": name, "coupling": 0.2, "init": "mean"}
    exact = model(task, **options).fit(bags, y)
    # One linearisation for all, so that the local minimum is the same one.
    options["init"] = exact.witnesses_
    exact = model(task, **options).fit(bags, y)
    values = []
    for n_components in (5, EVERY):
        found = model(task, n_components=n_components, random_state=0, **options).fit(bags, y)
        values.append(found.objective_)
        assert found.dual_coef_.shape[1] == len(found.support_) <= n_components
        # J from the docstring: norm by the landmarks' kernel, losses from the scores.
        scores, own = levels(found, bags)
        rows = found.support_vectors_
        gram = np.exp(-found.gamma_ * ((rows[:, None] - rows[None]) ** 2).sum(axis=2))
        norm2 = float(found.dual_coef_[0] @ gram @ found.dual_coef_[0])
        gaps = np.abs(scores - segment_max(own, bags.offsets)).sum()
        if task == "classification":
            loss = np.maximum(0.0, 1.0 - np.where(y == 1, 1, -1) * scores).sum()
        else:
            tube = Tube(y, np.ones(len(y)), found.nu)
            loss = tube.value(scores, 0.0)
        stated = 0.5 * norm2 + found.C * (loss + found.coupling * gaps)
        assert found.objective_ == pytest.approx(stated, rel=1e-5)
    assert values == sorted(values, reverse=True)
    assert values[0] > 1.1 * values[-1]
    assert values[-1] == pytest.approx(exact.objective_, rel=1e-4)


def test_rows_need_no_memory_for_kernel_values():
    bags, y = data("classification", n_bags=60)
    expected = CoupledMISVC(kernel="linear").fit(bags, y).objective_
    with config_context(working_memory=0.01):
        assert CoupledMISVC(kernel="linear").fit(bags, y).objective_ == expected
        CoupledMISVC(n_components=50, random_state=0).fit(bags, y)


def test_landmarks_depend_on_values_alone():
    X = np.random.default_rng(0).normal(size=(50, 4))
    once, twice = (
        rows[features.choose_landmarks(rows, 8, np.random.RandomState(3))]
        for rows in (X, np.repeat(X[::-1], 2, axis=0))
    )
    np.testing.assert_array_equal(once, twice)
    assert len(features.choose_landmarks(X, 80, np.random.RandomState(0))) == 50
    # Rows that are all zero leave one landmark and no direction.
    zero = np.zeros((6, 3))
    assert len(features.choose_landmarks(zero, 4, np.random.RandomState(0))) == 1
    assert features.whitening(np.zeros((1, 1)))[0].shape == (1, 1)


def test_an_indefinite_kernel_of_landmarks_warns():
    bags, y = data("classification")

    fit = CoupledMISVC(kernel=indefinite_kernel, bag_kernel="mean_set", n_components=20).fit
    with pytest.warns(UserWarning, match="matrix of the landmarks is indefinite"):
        fit(bags, y)


def test_bags_of_one_have_nothing_to_couple():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = X[:, 0] > 0
    options = {"gamma": 0.2, "n_components": EVERY}
    tied = CoupledMISVC(coupling=10.0, **options).fit(Bags.singletons(X), y)
    free = CoupledMISVC(coupling=0.0, **options).fit(Bags.singletons(X), y)
    assert tied.objective_ == pytest.approx(free.objective_, rel=1e-9)
