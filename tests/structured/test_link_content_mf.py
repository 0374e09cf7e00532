"""LinkContentMF: the factorisation it states, its optimality, and what links add."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from milearn import Bags
from milearn._solvers.structured import factorisation
from milearn._solvers.structured.factorisation import FactorOptions, factorise
from milearn.datasets import make_bags
from milearn.model_selection import transductive_cross_val_score
from milearn.structured import LinkContentMF


def parts(seed, n=25, d=8, linked=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    A = (rng.random((n, n)) < 0.15) * rng.uniform(0.5, 2.0, size=(n, n)) * linked
    return sparse.csr_array(A / max(np.linalg.norm(A), 1.0)), X / np.linalg.norm(X)


def stated_objective(A, X, Z, U, V, content, ridge):
    A = A.toarray()
    return (
        np.sum((A - Z @ U @ Z.T) ** 2)
        + content * np.sum((X - Z @ V.T) ** 2)
        + ridge * (np.sum(U**2) + np.sum(V**2) + np.sum(Z**2))
    )


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("content", [0.3, 2.0])
def test_objective_is_the_stated_one_and_all_gradients_vanish(content, storage):
    for seed in range(3):
        A, X = parts(seed)
        options = FactorOptions(4, content, ridge=1e-2, tol=1e-9, max_iter=5000)
        given = sparse.csr_array(X) if storage == "csr" else X
        found = factorise(A, given, options)
        Z, U, V = found.Z, found.U, found.V
        assert found.objective == pytest.approx(
            stated_objective(A, X, Z, U, V, content, 1e-2), rel=1e-10
        )
        rest = A.toarray() - Z @ U @ Z.T
        left = X - Z @ V.T
        of_U = -2 * Z.T @ rest @ Z + 2e-2 * U
        of_V = -2 * content * left.T @ Z + 2e-2 * V
        of_Z = -2 * (rest @ Z @ U.T + rest.T @ Z @ U) - 2 * content * left @ V + 2e-2 * Z
        for gradient, bound in ((of_U, 1e-12), (of_V, 1e-12), (of_Z, 1e-5)):
            assert np.abs(gradient).max() < bound


def test_it_is_as_good_as_a_search_over_all_factors():
    A, X = parts(0, n=7, d=3)
    found = factorise(A, X, FactorOptions(2, 1.0, ridge=1e-2, tol=1e-9, max_iter=5000))

    def value(flat):
        Z, U, V = np.split(flat, [14, 18])
        return stated_objective(A, X, Z.reshape(7, 2), U.reshape(2, 2), V.reshape(3, 2), 1.0, 1e-2)

    at = np.concatenate([found.Z.ravel(), found.U.ravel(), found.V.ravel()])
    assert minimize(value, at, method="BFGS").fun >= found.objective - 1e-7
    rng = np.random.default_rng(0)
    starts = [minimize(value, rng.normal(size=at.shape), method="BFGS").fun for _ in range(3)]
    assert found.objective <= min(starts) + 1e-6


def test_without_links_it_is_the_shrunk_singular_value_decomposition():
    A, X = parts(1, linked=False)
    found = factorise(A, X, FactorOptions(3, 1.0, ridge=0.02, tol=1e-10, max_iter=500))
    left, values, right = np.linalg.svd(X, full_matrices=False)
    shrunk = np.maximum(values[:3] - 0.02, 0.0)
    np.testing.assert_allclose(found.Z @ found.V.T, left[:, :3] * shrunk @ right[:3], atol=1e-9)


def test_start_by_iteration_is_that_of_the_decomposition():
    A, X = parts(2, n=40, d=30)
    options = FactorOptions(5, 0.7, ridge=1e-3, tol=1e-5, max_iter=500)
    dense = factorisation._start(A, X, options)
    iterated = factorisation._start(A, sparse.csr_array(X), options, dense_max_rows=0)
    np.testing.assert_allclose(dense @ dense.T, iterated @ iterated.T, atol=1e-10)


def linked_bags(seed=0, n_bags=60):
    """Links tell the class better than the content does."""
    rng = np.random.default_rng(seed)
    bags, y = make_bags(n_bags=n_bags, concept_distance=1.0, random_state=seed)
    graph = (y[:, None] == y) & (rng.random((n_bags, n_bags)) < 0.3)
    return Bags(bags.instances, bags.offsets, bag_graph=graph.astype(float)), y


def test_links_help_where_they_join_one_class():
    linked, y = linked_bags()
    bare = Bags(linked.instances, linked.offsets)
    with_links = transductive_cross_val_score(LinkContentMF(5), linked, y, cv=4).mean()
    without = transductive_cross_val_score(LinkContentMF(5), bare, y, cv=4).mean()
    assert with_links > 0.95
    assert with_links > without + 0.1


def test_the_classifier_is_that_of_scikit_learn_on_the_factors():
    X, y = linked_bags()
    known = np.where(np.arange(60) % 3 == 0, np.nan, y)
    model = LinkContentMF(6, C=3.0).fit(X, known)
    labelled = ~np.isnan(known)
    svm = SVC(C=3.0, kernel="linear", tol=1e-6).fit(model.factors_[labelled], y[labelled])
    np.testing.assert_array_equal(model.transduction_, svm.predict(model.factors_))
    assert np.sum(model.factors_**2) / 60 == pytest.approx(1.0)
    assert model.score(X, known) == np.mean(model.predict(X)[labelled] == y[labelled])


def test_factors_are_in_the_units_of_the_data():
    X, y = linked_bags()
    model = LinkContentMF(8, ridge=1e-8).fit(X, y)
    means = np.array([block.mean(axis=0) for block in X])
    rebuilt = model.factors_ @ model.content_factors_.T
    other = LinkContentMF(8, ridge=1e-8).fit(X.with_instances(10.0 * X.instances), y)
    np.testing.assert_allclose(other.content_factors_, 10.0 * model.content_factors_, rtol=1e-6)
    assert np.linalg.norm(means - rebuilt) < 0.8 * np.linalg.norm(means)
    links = model.factors_ @ model.link_factors_ @ model.factors_.T
    graph = X.bag_graph.toarray()
    assert np.linalg.norm(graph - links) < 0.9 * np.linalg.norm(graph)


def test_new_bags_are_placed_by_their_content():
    X, y = linked_bags()
    bare = Bags(X.instances, X.offsets)
    model = LinkContentMF(4).fit(bare, y)
    np.testing.assert_array_equal(model.predict(bare), model.transduction_)
    linked = LinkContentMF(4).fit(X, y)
    np.testing.assert_array_equal(linked.predict(X), linked.predict(bare))


def test_three_classes_and_missing_labels():
    X, _ = linked_bags()
    y = np.array(["a", "b", "c"] * 20, dtype=object)
    y[::4] = None
    model = LinkContentMF(4).fit(X, y)
    assert model.coef_.shape == (3, X.shape[1])
    assert set(model.transduction_) <= {"a", "b", "c"}
    graph = X.bag_graph.toarray()
    graph[0, 1] = -1.0
    with pytest.raises(ValueError, match="must be finite and not negative"):
        LinkContentMF().fit(Bags(X.instances, X.offsets, bag_graph=graph), y)


def test_a_classifier_cut_short_warns(monkeypatch):
    monkeypatch.setattr("milearn.structured._link_content_mf.LIBSVM_STEPS", 10_000)
    rng = np.random.default_rng(0)
    X = Bags(rng.normal(size=(24, 4)), np.arange(25))
    with pytest.warns(ConvergenceWarning, match="terminated early"):
        model = LinkContentMF(C=1e8).fit(X, np.arange(24) % 2)
    assert not model.converged_
    assert np.isfinite(model.coef_).all()
