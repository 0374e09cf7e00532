"""SparseMISVC: what is stored, how sbMIL labels, and the witnesses of sparse bags."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

from milearn import Bags
from milearn.baselines import SparseMISVC, _sparse_misvc
from tests.toys import OFTEN_CONSTANT, two_level_bags

VARIANTS = pytest.mark.parametrize("variant", ["smil", "stmil", "sbmil"])


def sparse_bags(seed=0, n_bags=40):
    """One instance of six to twelve makes a bag positive."""
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(6, 13, n_bags))]
    X = rng.normal(size=(offsets[-1], 4))
    y = np.arange(n_bags) % 2
    X[offsets[:-1][y == 1], 0] += 5.0
    return Bags(X, offsets), y


@VARIANTS
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_follow_from_the_stored_coefficients(variant, n_classes):
    bags, y = two_level_bags(n_classes=n_classes)
    model = SparseMISVC(variant=variant, gamma=0.4).fit(bags, y)
    D = ((bags.instances[:, None] - model.support_vectors_) ** 2).sum(axis=2)
    scores = np.exp(-0.4 * D) @ model.dual_coef_.T + model.intercept_
    expected = scores[:, 0] if n_classes == 2 else scores
    np.testing.assert_allclose(model.instance_decision_function(bags), expected, atol=1e-10)
    np.testing.assert_array_equal(bags.instances[model.support_], model.support_vectors_)


@VARIANTS
def test_the_one_instance_is_found_in_sparse_bags(variant):
    bags, y = sparse_bags()
    model = SparseMISVC(variant=variant, kernel="linear").fit(bags, y)
    positive = np.flatnonzero(y == 1)
    found = (model.witness(bags)[positive] == bags.offsets[:-1][positive]).mean()
    fresh, truth = sparse_bags(seed=1)
    assert found > 0.9
    assert roc_auc_score(truth, model.decision_function(fresh)) > 0.9


@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0])
def test_sbmil_is_the_svm_on_labels_by_the_scores_of_smil(eta):
    bags, y = sparse_bags(n_bags=20)
    first = (
        SparseMISVC(variant="smil", kernel="linear").fit(bags, y).instance_decision_function(bags)
    )
    inside = y[bags.bag_index] == 1
    ranked = np.sort(first[inside])[::-1]
    cut = ranked[int(np.ceil(eta * len(ranked))) - 1] if eta else np.inf
    labels = np.where(inside & (first >= cut), 1, -1)
    for bag in np.flatnonzero(y == 1):
        rows = np.arange(bags.offsets[bag], bags.offsets[bag + 1])
        labels[rows[np.argmax(first[rows])]] = 1
    model = SparseMISVC(variant="sbmil", eta=eta, kernel="linear").fit(bags, y)
    costs = np.where(labels > 0, 100 / (labels > 0).sum(), 100 / (labels < 0).sum())
    svm = SVC(kernel="linear", C=1, tol=1e-8).fit(bags.instances, labels, sample_weight=costs)
    np.testing.assert_allclose(
        model.instance_decision_function(bags),
        svm.decision_function(bags.instances),
        atol=2e-3,
    )
    assert model.dual_gap_ <= 1e-3 * model.objective_


@VARIANTS
@OFTEN_CONSTANT
def test_features_far_from_zero_lose_no_digits(variant):
    bags, y = sparse_bags(n_bags=20)
    far = bags.with_instances(bags.instances + 1e6)
    model = SparseMISVC(variant=variant, kernel="linear").fit(bags, y)
    moved = SparseMISVC(variant=variant, kernel="linear").fit(far, y)
    assert moved.objective_ == pytest.approx(model.objective_, rel=1e-6)
    # Scores and the intercept are sums of kernel values of 4e12, which are known to 5e-4 each.
    rounding = 2 * 5e-4 * np.abs(moved.dual_coef_).sum()
    np.testing.assert_allclose(
        moved.instance_decision_function(far),
        model.instance_decision_function(bags),
        atol=rounding,
    )


def test_features_of_any_size_have_one_minimum():
    # Overlapping bags of large features are a linear program, whatever the size.
    bags, y = two_level_bags(n_bags=16, shift=0.5)
    objectives = []
    for size in (1e5, 1e8):
        large = bags.with_instances(size * bags.instances)
        model = SparseMISVC(variant="smil", kernel="linear").fit(large, y)
        assert model.dual_gap_ <= 1e-6 * model.objective_
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(
            again.decision_function(large), model.decision_function(large)
        )
        objectives.append(model.objective_)
    assert objectives[0] > 1.0
    assert objectives[1] == pytest.approx(objectives[0], rel=1e-6)


@pytest.mark.parametrize("seed", [12, 27, 33])
def test_stmil_takes_weights_for_repetitions_where_scores_are_zero(seed):
    """Instances on a grid: of some the score is zero, and rounding would choose their sign."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, 24)
    offsets = np.r_[0, np.cumsum(sizes)]
    y = rng.permutation(np.arange(24) % (2 + seed % 2))
    X = np.round(rng.normal(size=(offsets[-1], 2)) * 1.5) + np.repeat(y, sizes)[:, None] * (
        seed % 3
    )
    bags, weights = Bags(sparse.csr_array(X), offsets), rng.integers(1, 4, 24)
    repeated = rng.permutation(np.repeat(np.arange(24), weights))
    for C in (1.0, 100.0):
        model = SparseMISVC(C, variant="stmil")
        expected = model.fit(bags, y, sample_weight=weights.astype(float))
        objective, scores = expected.objective_, expected.instance_decision_function(bags)
        again = model.fit(bags[repeated], y[repeated])
        np.testing.assert_allclose(again.objective_, objective, rtol=1e-6)
        # Of a bag whose highest score is zero, rounding chooses the predicted class.
        np.testing.assert_allclose(again.instance_decision_function(bags), scores, atol=1e-9)


def test_a_gap_that_is_missed_is_told(monkeypatch):
    monkeypatch.setattr(_sparse_misvc, "_GAP_TOL", -1.0)
    with pytest.warns(ConvergenceWarning, match="was solved to a relative duality gap of"):
        model = SparseMISVC(variant="smil").fit(*sparse_bags())
    assert model.dual_gap_ >= 0


def test_an_indefinite_kernel_loses_its_negative_part():
    bags, y = two_level_bags(n_bags=16)
    model = SparseMISVC(kernel="sigmoid", gamma=0.5)
    with pytest.warns(UserWarning, match="kernel matrix of the training instances is indefinite"):
        model.fit(bags, y)
    assert model.dual_gap_ <= 1e-4 * model.objective_
