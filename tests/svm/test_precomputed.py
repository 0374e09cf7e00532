"""``kernel="precomputed"``: the fit of the kernel itself, from its matrix."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel, sigmoid_kernel
from sklearn.model_selection import cross_val_score

from milearn import Bags
from milearn.datasets import make_bags
from milearn.svm import MISVC, MISVR, CoupledMISVC, InstanceMISVC

ESTIMATORS = [MISVC, MISVR, InstanceMISVC]
GAMMA = 0.1


@pytest.fixture(scope="module")
def data():
    """Bags to fit and to predict, and classes of the first."""
    bags, y = make_bags(n_bags=45, witness_rate=0.3, concept_distance=2.0, random_state=0)
    return bags[:30], bags[30:], y[:30]


def matrix_of(bags, training, kernel=rbf_kernel, **options):
    return Bags(kernel(bags.instances, training.instances, **options), bags.offsets)


def scores_of(model, bags):
    """Scores of bags and of instances."""
    if isinstance(model, MISVR):
        return model.predict(bags), model.predict_instances(bags)
    return model.decision_function(bags), model.instance_decision_function(bags)


def assert_same_model(given, named, training, new):
    """Fits over kernel values and over instances agree in attributes and in all scores."""
    np.testing.assert_array_equal(given.support_, named.support_)
    np.testing.assert_array_equal(given.n_iter_, named.n_iter_)
    for name in ("dual_coef_", "intercept_", "objective_"):
        np.testing.assert_allclose(getattr(given, name), getattr(named, name), rtol=1e-6, atol=1e-8)
    for bags in (training, new):
        matrix = matrix_of(bags, training, gamma=GAMMA)
        for mine, theirs in zip(scores_of(given, matrix), scores_of(named, bags), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-6)
        # Witnesses may differ where several support vectors are at the margin: equal by rounding.
        found = given.witness(matrix)
        np.testing.assert_array_equal(
            np.searchsorted(bags.offsets, found, "right"), np.arange(len(bags)) + 1
        )
        scores = scores_of(named, bags)[1].reshape(bags.n_instances, -1).max(axis=1)
        np.testing.assert_allclose(scores[found], scores[named.witness(bags)], atol=1e-6)
    scores = scores_of(named, training)[1].reshape(training.n_instances, -1)
    columns = np.arange(scores.shape[1])
    shape = (len(training), len(columns))
    highest = [scores[each.witnesses_.reshape(shape), columns] for each in (given, named)]
    np.testing.assert_allclose(*highest, atol=1e-6)


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_equals_the_kernel_by_name(estimator, store, data):
    training, new, y = data
    named = estimator(gamma=GAMMA).fit(training, y)
    matrix = matrix_of(training, training, gamma=GAMMA)
    given = estimator(kernel="precomputed").fit(matrix.with_instances(store(matrix.instances)), y)
    rows = matrix_of(new, training, gamma=GAMMA)
    rows = rows.with_instances(store(rows.instances))
    np.testing.assert_allclose(given.predict(rows), named.predict(new), atol=1e-6)
    assert_same_model(pickle.loads(pickle.dumps(given)), named, training, new)
    assert not hasattr(given, "support_vectors_")
    assert not hasattr(given, "gamma_")
    assert given.n_features_in_ == training.n_instances


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bags_of_weight_zero_take_no_part(estimator, data):
    training, new, y = data
    weights = np.where(np.arange(30) % 4 == 1, 0.0, 1.0 + np.arange(30) % 3)
    named = estimator(gamma=GAMMA, init="mean").fit(training, y, sample_weight=weights)
    matrix = matrix_of(training, training, gamma=GAMMA)
    given = estimator(kernel="precomputed", init="mean").fit(matrix, y, sample_weight=weights)
    assert_same_model(given, named, training, new)


@pytest.mark.parametrize("estimator", [MISVC, InstanceMISVC])
def test_three_classes(estimator, data):
    training, new, y = data
    y = y + (np.arange(30) % 3 == 0)
    # Kernel values alone have no screened start.
    named = estimator(gamma=GAMMA, init="mean", n_jobs=2).fit(training, y)
    matrix = matrix_of(training, training, gamma=GAMMA)
    given = estimator(kernel="precomputed", n_jobs=2).fit(matrix, y)
    assert given.dual_coef_.shape[0] == 3
    assert_same_model(given, named, training, new)


@pytest.mark.parametrize("init", ["random", "witnesses"])
def test_starts(init, data):
    training, new, y = data
    init = training.offsets[:-1] if init == "witnesses" else init
    options = {"init": init, "n_init": 2, "random_state": 0}
    named = MISVC(gamma=GAMMA, **options).fit(training, y)
    matrix = matrix_of(training, training, gamma=GAMMA)
    given = MISVC(kernel="precomputed", **options).fit(matrix, y)
    assert_same_model(given, named, training, new)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_negative_part_of_an_indefinite_matrix_is_dropped(estimator, data):
    training, new, y = data

    def kernel(left, right):
        return sigmoid_kernel(left, right, gamma=0.5, coef0=-1.0)

    with pytest.warns(UserWarning, match="is indefinite"):
        named = estimator(kernel=kernel).fit(training, y)
    with pytest.warns(UserWarning, match="is indefinite"):
        given = estimator(kernel="precomputed").fit(matrix_of(training, training, kernel), y)
    expected = scores_of(named, new)[1]
    scores = scores_of(given, matrix_of(new, training, kernel))[1]
    np.testing.assert_allclose(scores, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_errors_name_the_remedy(estimator, data):
    training, _, y = data
    matrix = matrix_of(training, training, gamma=GAMMA)
    model = estimator(kernel="precomputed")
    n, d = training.instances.shape
    with pytest.raises(ValueError, match=rf"shape \({n}, {d}\).*pass a callable kernel"):
        model.fit(training, y)
    with pytest.raises(ValueError, match=r"cross-validation cannot slice such a matrix"):
        cross_val_score(model, matrix, y, error_score="raise")
    with pytest.raises(ValueError, match=r"leave n_components=None"):
        estimator(kernel="precomputed", n_components=5).fit(matrix, y)
    with pytest.raises(ValueError, match=rf"expecting {n} features"):
        model.fit(matrix, y).predict(training)


def test_other_estimators_do_not_take_it(data):
    training, _, y = data
    with pytest.raises(ValueError, match="'kernel' parameter of CoupledMISVC must be"):
        CoupledMISVC(kernel="precomputed").fit(matrix_of(training, training), y)
