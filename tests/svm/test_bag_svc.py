"""BagSVC and BagSVR against scikit-learn's SVMs on the same kernel, and averages by hand."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVR

from milearn import Bags
from milearn._kernels.learned import learn_bag_kernel, learn_bag_kernels
from milearn.datasets import make_affinity, make_bags
from milearn.svm import BagSVC, BagSVR
from milearn.svm._kernel_average import DENSE_KERNELS, TEXT_KERNELS, default_scalings

TIGHT = {"tol": 1e-9}


@pytest.fixture(scope="module")
def problem():
    bags, y = make_bags(n_bags=50, n_features=4, flip_y=0.1, random_state=0)
    return bags[:36], y[:36], bags[36:], y[36:]


def text_problem():
    rng = np.random.default_rng(1)
    y = np.arange(40) % 2
    sizes = rng.integers(2, 5, 40)
    words = sparse.random(sizes.sum(), 60, density=0.02, random_state=rng, format="lil")
    for row, label in enumerate(np.repeat(y, sizes)):
        words[row, 2 * rng.integers(0, 5) + label] = 1.0
    return Bags(sparse.csr_array(words), np.r_[0, np.cumsum(sizes)]), y


# -- one kernel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mean", "set_median", "mind_rows"])
def test_one_kernel_is_an_svc_on_its_matrix(problem, name):
    X, y, new, _ = problem
    fitted, matrix = learn_bag_kernel(name, X.instances, X.offsets)
    known = SVC(C=3.0, kernel="precomputed", **TIGHT).fit(matrix, y)
    model = BagSVC(C=3.0, bag_kernel=name, scaling=None, **TIGHT).fit(X, y)
    expected = known.decision_function(fitted.matrix(new.instances, new.offsets))
    np.testing.assert_allclose(model.decision_function(new), expected, rtol=1e-6, atol=1e-7)
    alone = np.arange(new.n_instances + 1)
    expected = known.decision_function(fitted.matrix(new.instances, alone))
    found = model.instance_decision_function(new)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    assert set(model.support_) == set(known.support_)


def test_a_matrix_that_is_given_is_handed_to_svc_as_it_is(problem):
    X, y, _, _ = problem
    fitted, matrix = learn_bag_kernel("statistics", X.instances, X.offsets)
    new = problem[2]
    rows = fitted.matrix(new.instances, new.offsets)
    known = SVC(C=3.0, kernel="precomputed").fit(matrix, y)
    model = BagSVC(C=3.0, bag_kernel="precomputed").fit(matrix, y)
    np.testing.assert_array_equal(model.decision_function(rows), known.decision_function(rows))
    np.testing.assert_array_equal(model.dual_coef_, known.dual_coef_)
    np.testing.assert_array_equal(model.support_, known.support_)
    with pytest.raises(ValueError, match="Instances have no scores"):
        model.instance_decision_function(rows)
    with pytest.raises(ValueError, match="needs the square matrix"):
        model.fit(X, y)
    weights = np.ones(len(y))
    weights[:4] = 0.0
    fewer = SVC(C=3.0, kernel="precomputed", **TIGHT).fit(matrix[4:, 4:], y[4:])
    model = BagSVC(C=3.0, bag_kernel="precomputed", **TIGHT).fit(matrix, y, sample_weight=weights)
    np.testing.assert_allclose(
        model.decision_function(rows), fewer.decision_function(rows[:, 4:]), rtol=1e-7
    )


def test_a_search_takes_parts_of_a_matrix_that_is_given(problem):
    X, y, _, _ = problem
    _, matrix = learn_bag_kernel("mean", X.instances, X.offsets)
    grid, cv = {"C": [0.1, 1.0, 10.0]}, StratifiedKFold(3)
    found = GridSearchCV(BagSVC(bag_kernel="precomputed"), grid, cv=cv).fit(matrix, y)
    known = GridSearchCV(SVC(kernel="precomputed"), grid, cv=cv).fit(matrix, y)
    np.testing.assert_array_equal(
        found.cv_results_["mean_test_score"], known.cv_results_["mean_test_score"]
    )


def test_a_callable_sees_bags(problem):
    X, y, new, _ = problem

    def linear(left, right):
        means = [np.array([bag.mean(axis=0) for bag in side]) for side in (left, right)]
        return means[0] @ means[1].T

    model = BagSVC(bag_kernel=linear, scaling=None, **TIGHT).fit(X, y)
    known = SVC(C=10.0, kernel="precomputed", **TIGHT).fit(linear(X, X), y)
    np.testing.assert_allclose(
        model.decision_function(new), known.decision_function(linear(new, X)), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ValueError, match=r"returned shape \(2,\)"):
        BagSVC(bag_kernel=lambda left, right: np.zeros(2)).fit(X, y)


# -- averages --------------------------------------------------------------------------------------


def test_the_average_is_that_of_centred_matrices_of_trace_n(problem):
    X, y, new, _ = problem
    terms = [("mean", 1.0), ("set_median", 3.0)]
    scalings = [StandardScaler(), None]
    model = BagSVC(C=2.0, bag_kernel=terms, scaling=scalings, **TIGHT).fit(X, y)
    n = len(X)
    H = np.eye(n) - 1.0 / n
    K, R = np.zeros((n, n)), np.zeros((len(new), n))
    for scaling in scalings:
        inside, outside = X.instances, new.instances
        if scaling is not None:
            scaling.fit(inside)
            inside, outside = scaling.transform(inside), scaling.transform(outside)
        for name, weight in terms:
            fitted, matrix = learn_bag_kernel(name, inside, X.offsets)
            rows = fitted.matrix(outside, new.offsets)
            factor = weight * n / np.trace(H @ matrix @ H)
            K += factor * H @ matrix @ H
            R += factor * (rows - matrix.mean(axis=0)) @ H
    known = SVC(C=2.0, kernel="precomputed", **TIGHT).fit(K / 8.0, y)
    np.testing.assert_allclose(
        model.decision_function(new), known.decision_function(R / 8.0), rtol=1e-5, atol=1e-6
    )
    assert [(kernel, weight) for kernel, _, weight in model.kernels_] == terms * 2


def test_average_names_the_kernels_that_the_documentation_lists(problem):
    X, y, new, _ = problem
    default = BagSVC().fit(X, y)
    listed = BagSVC(bag_kernel=list(DENSE_KERNELS), scaling=list(default_scalings())).fit(X, y)
    np.testing.assert_array_equal(default.decision_function(new), listed.decision_function(new))
    for name in DENSE_KERNELS:
        assert f'"{name}"' in BagSVC.__doc__
    text = str(list(TEXT_KERNELS)).replace("'", '"')
    assert text in " ".join(BagSVC.__doc__.split())


def test_texts_are_compared_by_cosines_in_either_storage():
    X, y = text_problem()
    model = BagSVC(C=1.0, **TIGHT).fit(X, y)
    assert [kernel for kernel, _, _ in model.kernels_] == list(TEXT_KERNELS)
    dense = X.with_instances(X.instances.toarray())
    other = BagSVC(C=1.0, **TIGHT).fit(dense, y)
    found = other.decision_function(X)
    np.testing.assert_allclose(model.decision_function(dense), found, rtol=1e-6, atol=1e-7)
    # Lengths of rows play no part but in the mean.
    kernels = ["minmax_laplacian", "miles_rows", "set_median"]
    longer = X.with_instances(5.0 * X.instances)
    first, second = (BagSVC(bag_kernel=kernels, **TIGHT).fit(each, y) for each in (X, longer))
    np.testing.assert_allclose(
        first.decision_function(X), second.decision_function(longer), rtol=1e-5, atol=1e-6
    )


def test_a_new_bag_far_from_all_others_is_not_lost(problem):
    X, y, new, _ = problem
    far = new.with_instances(new.instances * np.array([1.0, 1.0, 1.0, 1e6]))
    clipped = BagSVC().fit(X, y).decision_function(far)
    plain = BagSVC(scaling=[StandardScaler()], bag_kernel=["mean", "set_median"]).fit(X, y)
    assert np.ptp(plain.decision_function(far)) < 1e-6
    assert np.ptp(clipped) > 0.1


# -- landmarks, memory, classes, weights -----------------------------------------------------------


def test_landmarks_give_the_features_of_nystroem(problem):
    X, y, new, _ = problem
    model = BagSVC(bag_kernel="mean", scaling=None, n_components=12, random_state=0).fit(X, y)
    landmarks = X[model.landmarks_]
    assert len(landmarks) == 12
    fitted, matrix = learn_bag_kernel("mean", landmarks.instances, landmarks.offsets)
    rows = fitted.matrix(X.instances, X.offsets)
    values, vectors = np.linalg.eigh(matrix)
    features = rows @ vectors / np.sqrt(values)
    known = LinearSVC(C=10.0, dual=False, max_iter=10_000).fit(features, y)
    expected = known.decision_function(
        fitted.matrix(new.instances, new.offsets) @ vectors / np.sqrt(values)
    )
    np.testing.assert_allclose(model.decision_function(new), expected, rtol=1e-2, atol=1e-2)
    exact = BagSVC(bag_kernel="mean", n_components=100).fit(X, y)
    assert not hasattr(exact, "landmarks_")


def test_a_search_over_C_learns_a_kernel_once_per_fold(problem, tmp_path, monkeypatch):
    X, y, _, _ = problem
    calls = []

    def counted(*args, **kwargs):
        calls.append(args[0])
        return learn_bag_kernels(*args, **kwargs)

    monkeypatch.setattr("milearn.svm._kernel_average.learn_bag_kernels", counted)
    memory = joblib.Memory(tmp_path, verbose=0)
    model = BagSVC(bag_kernel="mean", scaling=None, memory=memory)
    search = GridSearchCV(model, {"C": [0.1, 1.0, 10.0]}, cv=3, refit=False).fit(X, y)
    assert len(calls) == 3
    without = GridSearchCV(
        BagSVC(bag_kernel="mean", scaling=None), {"C": [0.1, 1.0, 10.0]}, cv=3, refit=False
    ).fit(X, y)
    assert len(calls) == 3 + 9
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], without.cv_results_["mean_test_score"]
    )


def test_three_classes_are_those_of_svc():
    bags, _ = make_bags(n_bags=60, n_features=3, random_state=1)
    y = np.digitize([bag.mean() for bag in bags], [0.0, 0.4])
    _, matrix = learn_bag_kernel("mean", bags.instances, bags.offsets)
    model = BagSVC(bag_kernel="mean", scaling=None, **TIGHT).fit(bags, y)
    known = SVC(C=10.0, kernel="precomputed", break_ties=True, **TIGHT).fit(matrix, y)
    np.testing.assert_allclose(
        model.decision_function(bags), known.decision_function(matrix), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(model.predict(bags), known.predict(matrix))


def test_class_weights_are_factors_on_C(problem):
    X, y, new, _ = problem
    fitted, matrix = learn_bag_kernel("mean", X.instances, X.offsets)
    rows = fitted.matrix(new.instances, new.offsets)
    for weight in ("balanced", {0: 1.0, 1: 5.0}):
        model = BagSVC(bag_kernel="mean", scaling=None, class_weight=weight, C=0.5, **TIGHT)
        known = SVC(C=0.5, kernel="precomputed", class_weight=weight, **TIGHT).fit(matrix, y)
        np.testing.assert_allclose(
            model.fit(X, y).decision_function(new), known.decision_function(rows), rtol=1e-5
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bag_kernel": "emdd"}, "'bag_kernel' parameter of BagSVC must be a str among"),
        ({"bag_kernel": ["emdd"]}, "bag_kernel='emdd' is unknown: choose from 'average'"),
        ({"bag_kernel": []}, "empty list: name at least one kernel"),
        ({"bag_kernel": [("mean", -1.0)]}, "weights must be positive"),
        ({"bag_kernel": [("mean", 1.0, 2)]}, "is unknown"),
        ({"scaling": []}, "scaling is an empty list"),
    ],
)
def test_bad_parameters_are_named(problem, parameters, message):
    X, y, _, _ = problem
    with pytest.raises(ValueError, match=message):
        BagSVC(**parameters).fit(X, y)


# -- regression ------------------------------------------------------------------------------------


def test_regression_is_nu_svr_on_the_matrix():
    X, y = make_affinity(n_bags=50, random_state=0)
    fitted, matrix = learn_bag_kernel("minmax_laplacian", X[:40].instances, X[:40].offsets)
    rows = fitted.matrix(X[40:].instances, X[40:].offsets)
    model = BagSVR(C=2.0, nu=0.4, bag_kernel="minmax_laplacian", scaling=None, **TIGHT)
    known = NuSVR(C=2.0, nu=0.4, kernel="precomputed", **TIGHT).fit(matrix, y[:40])
    found = model.fit(X[:40], y[:40]).predict(X[40:])
    np.testing.assert_allclose(found, known.predict(rows), rtol=1e-6)
    given = BagSVR(C=2.0, nu=0.4, bag_kernel="precomputed", **TIGHT).fit(matrix, y[:40])
    np.testing.assert_array_equal(given.predict(rows), known.predict(rows))


def test_regression_with_landmarks_is_ridge_regression():
    X, y = make_affinity(n_bags=60, random_state=0)
    model = BagSVR(C=2.0, bag_kernel="mean", scaling=None, n_components=15, random_state=0)
    model.fit(X, y)
    rows, _ = learn_bag_kernel("mean", X[model.landmarks_].instances, X[model.landmarks_].offsets)
    values = rows.matrix(X.instances, X.offsets)
    landmarks = rows.matrix(X[model.landmarks_].instances, X[model.landmarks_].offsets)
    eigenvalues, vectors = np.linalg.eigh(landmarks)
    projection = vectors / np.sqrt(eigenvalues)
    known = Ridge(alpha=0.25).fit(values @ projection, y)
    np.testing.assert_allclose(model.predict(X), known.predict(values @ projection), rtol=1e-6)
