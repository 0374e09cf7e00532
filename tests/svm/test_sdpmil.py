"""SDPMIL: the problem it states, by enumeration; rounding, polish, and what a user asks of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn import clone, config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from milearn import SDPMIL, Bags
from milearn._bags.segments import segment_sum
from milearn._solvers.svm import selection as _selection
from milearn.datasets import make_bags
from milearn.svm import MISVC
from tests.bags import labelled_bags
from tests.cases import every_pair
from tests.common.objectives import stated_objective
from tests.oracles import selection_optimum


def kernel_matrix(model, bags):
    instances = bags.instances
    if model.kernel == "linear":
        return instances @ instances.T
    return rbf_kernel(instances, gamma=model.gamma_)


def positive_slacks(model, bags, y):
    scores = model.instance_decision_function(bags)
    return np.maximum(0, 1 - scores)[y[bags.bag_index] == 1]


@pytest.mark.parametrize(
    ("C", "kernel", "polish"), every_pair([0.01, 1.0, 100.0], ["linear", "rbf"], [False, True])
)
def test_objective_is_the_stated_one_and_never_rises(C, kernel, polish):
    bags, y = make_bags(n_bags=40, witness_rate=0.2, concept_distance=2.0, random_state=1)
    model = SDPMIL(C=C, kernel=kernel, polish=polish).fit(bags, y)
    assert model.objective_ == pytest.approx(stated_objective(model, bags, y)[0], rel=1e-6)
    assert model.objective_history_[-1] == model.objective_
    assert len(model.objective_history_) == model.n_iter_
    assert (np.diff(model.objective_history_) <= 0).all()
    assert abs(model.dual_gap_) <= 1e-6 * model.objective_


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("seed", range(5))
def test_no_solution_lies_below_the_enumerated_optimum(seed, kernel):
    bags, y = labelled_bags(seed)
    rounded = SDPMIL(C=2.0, kernel=kernel).fit(bags, y)
    polished = SDPMIL(C=2.0, kernel=kernel, polish=True).fit(bags, y)
    best = selection_optimum(kernel_matrix(rounded, bags), bags, y, 2.0)
    assert best * (1 - 1e-6) <= polished.objective_ <= rounded.objective_


def test_the_selection_is_the_best_one_where_bags_are_clear():
    found = 0
    for seed in range(5):
        bags, y = labelled_bags(seed, shift=4.0)
        model = SDPMIL(C=1.0, kernel="linear").fit(bags, y)
        best = selection_optimum(kernel_matrix(model, bags), bags, y, 1.0)
        found += model.objective_ <= best * (1 + 1e-6)
    assert found == 5


def test_the_relaxation_is_a_bound_where_the_slacks_respect_theirs():
    held = 0
    for seed in range(6):
        bags, y = labelled_bags(seed, shift=1.0)
        for bound in (2.0, 4.0):
            for selection in ("one", "at_least_one"):
                model = SDPMIL(C=1.0, kernel="linear", slack_bound=bound, selection=selection).fit(
                    bags, y
                )
                if positive_slacks(model, bags, y).max() <= bound:
                    held += 1
                    assert model.relaxation_value_ <= model.objective_
    assert held >= 6


def test_the_bound_fails_where_they_do_not():
    # An instance that must lie far on the other side: the relaxation pays for it, (3) does not.
    instances = np.array([[4.0], [-40.0], [-4.0], [-5.0]])
    bags, y = Bags(instances, np.array([0, 2, 3, 4])), np.array([1, 0, 0])
    model = SDPMIL(C=10.0, kernel="linear").fit(bags, y)
    assert positive_slacks(model, bags, y).max() > model.slack_bound
    assert model.relaxation_value_ > model.objective_
    assert SDPMIL(C=10.0, kernel="linear", slack_bound=20.0).fit(bags, y).relaxation_value_ < (
        model.objective_
    )


@pytest.mark.parametrize("seed", range(2))
def test_attributes_tell_what_was_selected(seed):
    bags, y = labelled_bags(seed, n_positive=5, n_negative=5)
    model = SDPMIL(C=1.0, kernel="linear").fit(bags, y)
    assert model.eta_.shape == (bags.n_instances,)
    assert segment_sum(model.eta_, bags.offsets)[y == 1] == pytest.approx(1.0)
    assert (model.eta_[y[bags.bag_index] == 0] == 1.0).all()
    assert (model.selected_[y == 0] == -1).all()
    chosen = model.selected_[y == 1]
    assert (bags.bag_index[chosen] == np.flatnonzero(y)).all()
    assert (model.witness(bags) == model.witnesses_).all()


@pytest.mark.parametrize("seed", range(2))
def test_polish_ends_in_a_fixed_point_of_misvc(seed):
    bags, y = labelled_bags(seed, n_positive=6, n_negative=6)
    model = SDPMIL(C=1.0, kernel="linear", polish=True).fit(bags, y)
    assert model.converged_
    assert (model.selected_[y == 1] == model.witnesses_[y == 1]).all()
    again = MISVC(C=1.0, kernel="linear", slack="instance", init=model.witnesses_).fit(bags, y)
    assert again.objective_ == pytest.approx(model.objective_, rel=1e-6)


def test_polish_starts_from_the_selection():
    lower = 0
    for seed in range(3):
        bags, y = labelled_bags(seed, n_positive=6, n_negative=6)
        rounded = SDPMIL(C=1.0, kernel="linear").fit(bags, y)
        start = np.where(y == 1, rounded.selected_, bags.offsets[:-1])
        descent = MISVC(C=1.0, kernel="linear", slack="instance", init=start).fit(bags, y)
        polished = SDPMIL(C=1.0, kernel="linear", polish=True).fit(bags, y)
        # A screened start may be lower still.
        assert polished.objective_ <= descent.objective_ * (1 + 1e-6)
        assert polished.relaxation_value_ == rounded.relaxation_value_
        same = polished.objective_ == pytest.approx(descent.objective_, rel=1e-6)
        assert not same or polished.objective_history_[0] == pytest.approx(rounded.objective_)
        lower += polished.objective_ < rounded.objective_ * (1 - 1e-6)
    assert lower > 0


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights_are_costs(kernel):
    bags, y = labelled_bags(1, n_positive=6, n_negative=6, shift=1.0)
    weights = np.where(y == 1, 2.0, 1.0)
    options = {"kernel": kernel, "gamma": 0.3, "polish": True}
    weighted = SDPMIL(**options).fit(bags, y, sample_weight=weights)
    by_class = SDPMIL(**options, class_weight={1: 2.0}).fit(bags, y)
    assert by_class.relaxation_value_ == pytest.approx(weighted.relaxation_value_, rel=1e-6)
    value, _ = stated_objective(weighted, bags, y, weights)
    assert by_class.objective_ == pytest.approx(value, rel=1e-6)
    assert weighted.objective_ == pytest.approx(value, rel=1e-6)


def test_a_factor_of_the_kernel_gives_nearly_the_same_relaxation():
    bags, y = make_bags(n_bags=30, n_features=3, random_state=0)
    plain = SDPMIL(gamma=0.05).fit(bags, y)
    other = SDPMIL(gamma=0.05, n_components=80).fit(bags, y)
    assert bags.n_instances > 80
    assert other.relaxation_value_ == pytest.approx(plain.relaxation_value_, rel=1e-3)
    assert (other.selected_ == plain.selected_).all()
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-6)


def test_wide_sparse_bags_are_the_dense_ones():
    rng, n_features = np.random.default_rng(0), 2000
    dense = rng.normal(size=(90, n_features)) * (rng.random((90, n_features)) < 0.1)
    offsets, y = np.arange(0, 91, 3), np.arange(30) % 2
    options = {"kernel": "linear", "polish": True}
    one = SDPMIL(**options).fit(Bags(dense, offsets), y)
    other = SDPMIL(**options).fit(Bags(sparse.csr_array(dense), offsets), y)
    assert (one.selected_ == other.selected_).all()
    assert other.relaxation_value_ == pytest.approx(one.relaxation_value_, rel=1e-8)
    assert other.coef_ == pytest.approx(one.coef_, abs=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("offset", [1e7, 1e8])
def test_instances_far_from_zero_are_those_near_it(kernel, offset):
    bags, y = make_bags(n_bags=30, n_features=3, random_state=0)
    moved = bags.with_instances(bags.instances + offset)
    # The digits that are lost in the data themselves are not there to begin with.
    near = moved.with_instances(moved.instances - offset)
    model = SDPMIL(kernel=kernel, gamma=0.3)
    one, other = (clone(model).fit(each, y) for each in (near, moved))
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-5)
    assert other.relaxation_value_ == pytest.approx(one.relaxation_value_, rel=1e-5)
    np.testing.assert_array_equal(other.selected_, one.selected_)


def test_equal_instances_leave_a_constant():
    X, y = Bags(np.ones((65, 4)), np.r_[0:65:3, 65]), np.arange(22) % 3 == 0
    model = SDPMIL().fit(X, y)
    # Eight bags with y = +1 against 14: f = -1, with a slack of two for each of the eight.
    assert model.objective_ == pytest.approx(2 * 8 * model.C)
    np.testing.assert_allclose(model.decision_function(X), -1.0, atol=1e-6)


def test_inexact_programs_warn(monkeypatch):
    bags, y = make_bags(n_bags=20, random_state=2)
    solve = _selection.solve_relaxation
    monkeypatch.setattr(
        _selection,
        "solve_relaxation",
        lambda *args, **options: replace(solve(*args, **options), primal_residual=0.01, error=0.01),
    )
    with pytest.warns(ConvergenceWarning, match=r"residuals of 1.0e-02 and .* raise tol"):
        model = SDPMIL().fit(bags, y)
    assert not model.converged_


def test_a_matrix_that_does_not_fit_is_refused_with_a_remedy():
    bags, y = make_bags(n_bags=10, random_state=0)
    with config_context(working_memory=1e-4), pytest.raises(MemoryError, match="set n_components"):
        SDPMIL().fit(bags, y)
