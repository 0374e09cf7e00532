"""CoupledMISVC and CoupledMISVR without coupling: one SVM on a bag kernel."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context

from milearn import Bags
from milearn._kernels.bag import BAG_KERNELS, symmetric_row_sums
from milearn._kernels.instance import instance_kernel
from milearn.datasets import make_affinity, make_bags
from milearn.svm import CoupledMISVC, CoupledMISVR
from milearn.svm import _coupled as module


def data(task, seed=3):
    if task == "classification":
        return make_bags(n_bags=24, bag_size=(1, 6), concept_distance=2.0, random_state=seed)
    return make_affinity(24, 6, n_relevant=4, bag_size=(1, 5), random_state=seed)


def fresh(task, **parameters):
    options = {"coupling": 0.0, "C": 2.0, "gamma": 0.1, **parameters}
    return CoupledMISVC(**options) if task == "classification" else CoupledMISVR(**options)


def without_shortcut(monkeypatch):
    monkeypatch.setattr(module.CoupledSettings, "uncoupled", property(lambda self: False))


def scores(fitted, bags):
    if isinstance(fitted, CoupledMISVC):
        return fitted.decision_function(bags), fitted.instance_decision_function(bags)
    return fitted.predict(bags), fitted.predict_instances(bags)


@pytest.mark.parametrize(
    ("kernel", "store"),
    [("rbf", np.asarray), ("linear", sparse.csr_array), ("laplacian", np.asarray)],
)
@pytest.mark.parametrize("name", BAG_KERNELS)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_it_is_the_model_of_the_general_solver(monkeypatch, task, name, kernel, store):
    bags, y = data(task)
    bags = bags.with_instances(store(bags.instances))
    ours = fresh(task, bag_kernel=name, kernel=kernel).fit(bags, y)
    without_shortcut(monkeypatch)
    general = fresh(task, bag_kernel=name, kernel=kernel).fit(bags, y)
    assert ours.objective_ == pytest.approx(general.objective_, rel=1e-7, abs=1e-9)
    assert abs(ours.dual_gap_) <= 1e-7 * max(1.0, ours.objective_)
    for mine, other in zip(scores(ours, bags), scores(general, bags), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5 * np.abs(other).max())


@pytest.mark.parametrize("name", BAG_KERNELS)
def test_room_for_the_values_between_bags_and_instances_changes_nothing(name, monkeypatch):
    bags, y = make_bags(n_bags=30, bag_size=(20, 60), random_state=0)
    y[20:] = 2
    ample = fresh("classification", bag_kernel=name).fit(bags, y)
    summed = []
    monkeypatch.setattr(
        module,
        "symmetric_row_sums",
        lambda *given: summed.append(given) or symmetric_row_sums(*given),
    )
    # 30 bags of some 40 instances: .06 MiB between bags, .3 MiB between bags and instances.
    with config_context(working_memory=0.2):
        tight = fresh("classification", bag_kernel=name).fit(bags, y)
    assert not summed
    np.testing.assert_allclose(tight.objective_, ample.objective_, rtol=1e-9)
    np.testing.assert_array_equal(tight.witnesses_, ample.witnesses_)
    with config_context(working_memory=0.2), pytest.raises(MemoryError, match="raise it by"):
        fresh("classification", bag_kernel=name, coupling=0.1).fit(bags, y)
    with config_context(working_memory=0.05), pytest.raises(MemoryError, match="30 bags"):
        fresh("classification", bag_kernel=name).fit(bags, y)


def test_witnesses_are_those_of_predictions_where_instances_tie():
    bags, y = data("classification")
    doubled = np.repeat(bags.instances, 2, axis=0)
    bags = Bags(np.asfortranarray(doubled), 2 * bags.offsets)
    weights = np.ones(len(bags))
    for left_out in ([], [0, 7]):
        weights[left_out] = 0.0
        fitted = fresh("classification").fit(bags, y, sample_weight=weights)
        np.testing.assert_array_equal(fitted.witnesses_, fitted.witness(bags))
        # The first of a pair of equal rows wins.
        assert (fitted.witnesses_ % 2 == 0).all()
    targets = data("regression")[1]
    fitted = fresh("regression").fit(bags, targets)
    highest = fitted.predict_instances(bags)
    np.testing.assert_allclose(
        highest[fitted.witnesses_], np.maximum.reduceat(highest, bags.offsets[:-1])
    )


def test_an_indefinite_kernel_goes_the_general_way():
    bags, y = data("classification")
    with pytest.warns(UserWarning, match="negative part was dropped"):
        fitted = fresh("classification", kernel="sigmoid", bag_kernel="set", gamma=1.0).fit(bags, y)
    assert abs(fitted.dual_gap_) <= 1e-6 * fitted.objective_


@pytest.mark.parametrize(
    ("rows", "store"), [(3, np.asarray), (7, sparse.csr_array), (1000, np.asarray)]
)
def test_sums_by_symmetry_are_those_of_a_loop(rows, store):
    bags, _ = make_bags(n_bags=7, bag_size=(1, 6), random_state=3)
    kernel, _ = instance_kernel("rbf", gamma=0.2)
    sums, own = symmetric_row_sums(store(bags.instances), bags.offsets, kernel, rows_at_once=rows)
    for number, bag in enumerate(bags):
        for column, z in enumerate(bags.instances):
            direct = sum(np.exp(-0.2 * np.sum((x - z) ** 2)) for x in bag)
            assert sums[number, column] == pytest.approx(direct, rel=1e-12)
    np.testing.assert_allclose(own, 1.0, rtol=1e-12)
