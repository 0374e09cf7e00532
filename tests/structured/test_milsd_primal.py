"""MILSD with ``solver="primal"`` and ``graph="spatial"``: what a user asks of them."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from milearn import Bags
from milearn._solvers.structured import milsd_primal
from milearn.datasets import make_bags
from milearn.structured import MILSD, _milsd, knn_bag_graph, spatial_graph


@pytest.fixture(scope="module")
def linked():
    """Bags with both graphs, half of them without a label."""
    bags, y = make_bags(40, 5, bag_size=(1, 5), flip_y=0.1, random_state=0)
    rng = np.random.default_rng(0)
    graph = (y[:, None] == y) & (rng.random((40, 40)) < 0.2)
    n = bags.n_instances
    X = Bags(
        bags.instances,
        bags.offsets,
        bag_graph=graph.astype(float),
        instance_graph=sparse.random(n, n, density=0.03, random_state=0, format="csr"),
        instance_data={"coords": rng.integers(0, 4, size=(n, 2))},
    )
    return X, np.where(np.arange(40) % 2 == 0, y, np.nan)


def test_the_objective_is_the_stated_one(linked):
    X, y = linked
    model = MILSD(C=30.0, mu=3.0, mu_instance=2.0, solver="primal").fit(X, y)
    value = 0.5 * (model.coef_**2).sum() + np.array([30.0, 3.0, 2.0]) @ model.loss_terms_
    assert model.objective_ == pytest.approx(value, rel=1e-12)
    assert 0 <= model.dual_gap_ <= 1e-6 * model.objective_
    assert not model.violations_.any()
    dual = MILSD(C=30.0, mu=3.0, mu_instance=2.0, solver="dual").fit(X, y)
    assert model.objective_ <= dual.objective_ * (1 + 1e-5)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(model.fit(X, y).coef_, again.coef_)


def test_storage_makes_no_difference(linked):
    X, y = linked
    dense = MILSD(C=30.0, mu=3.0, solver="primal").fit(X, y)
    narrow = X.with_instances(sparse.csr_array(X.instances))
    found = MILSD(C=30.0, mu=3.0, solver="primal").fit(narrow, y)
    assert found.objective_ == pytest.approx(dense.objective_, rel=1e-5)


def test_classes_starts_weights_and_threads(linked):
    X, y = linked
    three = np.where(np.arange(40) % 5 == 0, 2.0, y)
    weights = {0.0: 1.0, 1.0: 2.0, 2.0: 0.5}
    settings = {"C": 20.0, "mu": 2.0, "solver": "primal"}
    one = MILSD(**settings, class_weight=weights).fit(X, three)
    assert one.coef_.shape == (3, 5)
    several = MILSD(**settings, class_weight=weights, n_init=2, random_state=0)
    with joblib.parallel_config("threading", n_jobs=2):
        several.fit(X, three)
    assert (several.objective_ <= one.objective_ * (1 + 1e-12)).all()
    assert (several.dual_gap_ <= 1e-6 * several.objective_).all()
    plain = MILSD(**settings, fit_intercept=False).fit(X, y)
    assert plain.intercept_.tolist() == [0.0]


def test_a_run_that_is_cut_short_warns(linked):
    X, y = linked
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1 before") as record:
        model = MILSD(solver="primal", max_iter=1, tol=1e-5).fit(X, y)
    assert len(record) == 1
    assert not model.converged_


def test_a_step_that_misses_its_precision_is_told(linked, monkeypatch):
    X, y = linked
    monkeypatch.setattr(milsd_primal, "_MAX_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="stopped short of its precision") as record:
        MILSD(solver="primal").fit(X, y)
    assert {warning.filename for warning in record} == {__file__}


def test_which_solver_is_taken(linked, monkeypatch):
    X, y = linked
    taken = []
    for name in ("solve_structured", "solve_structured_primal"):
        real = getattr(_milsd, name)
        monkeypatch.setattr(
            _milsd, name, lambda *args, name=name, real=real: taken.append(name) or real(*args)
        )
    for many, settings, expected in (
        (10**6, {}, "solve_structured"),
        (10, {}, "solve_structured_primal"),
        (10, {"solver": "dual"}, "solve_structured"),
        (10, {"hinge_tol": 1e-2}, "solve_structured"),
        (10, {"qp_solver": "piqp"}, "solve_structured"),
        (10**6, {"solver": "primal"}, "solve_structured_primal"),
    ):
        monkeypatch.setattr(milsd_primal, "_SIZE_LIMIT_OF_CUTS", many)
        MILSD(tol=0.1, **settings).fit(X, y)
        assert taken.pop() == expected
        assert not taken


def test_precisions_of_cutting_planes_are_refused(linked):
    with pytest.raises(ValueError, match="hinge_tol and graph_tol are precisions of cutting"):
        MILSD(solver="primal", graph_tol=1e-3).fit(*linked)


def test_without_links_the_solver_is_that_of_mi_svm():
    bags, y = make_bags(60, 5, bag_size=(1, 6), flip_y=0.1, random_state=0)
    dual, primal = (MILSD(C=60.0, solver=name).fit(bags, y) for name in ("dual", "primal"))
    # By passes there is a start of its own.
    assert primal.objective_ <= dual.objective_ * (1 + 1e-5)
    unlabelled = np.where(np.arange(60) < 40, y, np.nan)
    settings = {"C": 60.0, "fit_intercept": False}
    dual, primal = (
        MILSD(**settings, solver=name).fit(bags, unlabelled) for name in ("dual", "primal")
    )
    assert primal.objective_ == pytest.approx(dual.objective_, rel=1e-5)


def test_spatial_graph_of_the_positions(linked):
    X, y = linked
    model = MILSD(graph="spatial", n_neighbors=2, mu=4.0).fit(X, y)
    given = Bags(X.instances, X.offsets, instance_graph=spatial_graph(X, 2))
    expected = MILSD(graph="instance", mu=4.0).fit(given, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.loss_terms_[1] == 0
    assert model.loss_terms_[2] > 0
    near = MILSD(graph="knn", n_neighbors=2, mu=4.0).fit(X, y)
    given = Bags(X.instances, X.offsets, bag_graph=knn_bag_graph(X, 2))
    np.testing.assert_array_equal(near.coef_, MILSD(mu=4.0).fit(given, y).coef_)


def test_positions_that_are_missing_are_asked_for(linked):
    X, y = linked
    with pytest.raises(ValueError, match=r"instance_data\['coords'\]: give the positions"):
        MILSD(graph="spatial").fit(Bags(X.instances, X.offsets), y)


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_columns_of_zeros_take_no_part(linked, solver):
    X, y = linked
    places = [1, 2, 4, 7, 9]
    wide = np.zeros((X.n_instances, 12))
    wide[:, places] = X.instances
    found = MILSD(C=30.0, mu=3.0, solver=solver).fit(X.with_instances(wide), y)
    alone = MILSD(C=30.0, mu=3.0, solver=solver).fit(X, y)
    np.testing.assert_array_equal(found.coef_[0, places], alone.coef_[0])
    assert np.count_nonzero(found.coef_) == len(places)
    assert found.objective_ == alone.objective_


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_features_far_from_zero_are_those_near_it(linked, solver):
    X, y = linked
    near = MILSD(C=30.0, mu=3.0, solver=solver).fit(X, y)
    # Steps of 1/128 survive the shift as they are.
    steps = X.with_instances(np.round(X.instances * 128) / 128)
    exact = MILSD(C=30.0, mu=3.0, solver=solver).fit(steps, y)
    far = MILSD(C=30.0, mu=3.0, solver=solver).fit(
        X.with_instances(steps.instances + [1e6, 0.0, 1e6, -1e6, 1e6]), y
    )
    assert exact.objective_ == pytest.approx(near.objective_, rel=0.05)
    assert far.objective_ == pytest.approx(exact.objective_, rel=1e-4)
    np.testing.assert_allclose(far.coef_, exact.coef_, atol=0.01)
