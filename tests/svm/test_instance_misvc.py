"""InstanceMISVC: latent labels against enumeration."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from sklearn.svm import SVC

from milearn import Bags
from milearn._solvers.svm.objectives import InstanceLabels
from milearn.datasets import make_bags
from milearn.svm import InstanceMISVC
from tests.bags import false_frequency
from tests.common.objectives import stated_objective


def small_bags(seed):
    rng = np.random.default_rng(seed)
    sizes = np.array([2, 3, 2, 1, 2, 3])
    bags = Bags(rng.normal(size=(sizes.sum(), 2)), np.r_[0, np.cumsum(sizes)])
    return bags, np.array([1, 1, 1, 0, 0, 0])


def optimum(bags, y, C):
    """The least value over all labels of instances that the bags allow."""
    n_positive = int(bags.sizes[y == 1].sum())
    w, b, full = cp.Variable(bags.shape[1]), cp.Variable(), cp.Parameter(bags.n_instances)
    hinge = cp.pos(1 - cp.multiply(full, bags.instances @ w + b))
    stated = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * cp.sum(hinge)))
    best = np.inf
    for labels in itertools.product([-1.0, 1.0], repeat=n_positive):
        full.value = np.r_[labels, -np.ones(bags.n_instances - n_positive)]
        tops = np.maximum.reduceat(full.value, bags.offsets[:-1])
        if (tops[y == 1] < 0).any():
            continue
        best = min(best, stated.solve(solver=cp.CLARABEL))
    return best


@pytest.mark.parametrize("seed", range(2))
def test_best_of_some_starts_is_the_optimum(seed):
    bags, y = small_bags(seed)
    model = InstanceMISVC(C=2.0, kernel="linear", n_init=10, random_state=0).fit(bags, y)
    assert model.objective_ == pytest.approx(optimum(bags, y, 2.0), rel=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_objective_is_the_stated_one_and_never_rises(C, kernel):
    bags, y = make_bags(n_bags=30, concept_distance=2.0, random_state=1)
    model = InstanceMISVC(C=C, kernel=kernel).fit(bags, y)
    value, rounding = stated_objective(model, bags, y)
    assert model.objective_ == pytest.approx(value, rel=1e-8, abs=rounding)
    assert model.converged_
    assert (np.diff(model.objective_history_) <= 0).all()


def test_best_labels_against_every_choice():
    rng = np.random.default_rng(0)
    offsets, signs = np.array([0, 3, 5, 7]), np.array([1.0, 1.0, -1.0])
    for _ in range(50):
        scores = rng.normal(size=7) - 0.5
        labels = InstanceLabels(offsets, signs, np.ones(len(signs))).linearised(scores, 0.0)
        losses = []
        for choice in itertools.product([-1.0, 1.0], repeat=5):
            full = np.r_[choice, -1.0, -1.0]
            if max(full[:3]) > 0 and max(full[3:5]) > 0:
                losses.append(np.maximum(0, 1 - full * scores).sum())
        assert np.maximum(0, 1 - labels * scores).sum() == pytest.approx(min(losses))


def test_singletons_are_the_svm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = (X[:, 0] + rng.normal(size=50) > 0).astype(int)
    model = InstanceMISVC(C=0.5, gamma=0.3).fit(X, y)
    reference = SVC(C=0.5, gamma=0.3, tol=1e-8).fit(X, y)
    # One positive label at least is forced, which here is every label of a positive row.
    assert model.decision_function(X) == pytest.approx(reference.decision_function(X), abs=1e-4)


def test_the_published_start_can_be_stuck_and_the_default_is_not():
    # With all instances of positive bags positive the model is w = 0, and stays there.
    bags, y, _, _ = false_frequency(40)
    with pytest.warns(UserWarning, match='found a constant, .*: try init="auto" or kernel="rbf"'):
        published = InstanceMISVC(kernel="linear", init="bag").fit(bags, y)
    default = InstanceMISVC(kernel="linear").fit(bags, y)
    assert default.objective_ < 0.5 * published.objective_
