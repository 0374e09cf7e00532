"""M3IC as users meet it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from milearn import M3IC, Bags
from milearn._solvers.cluster import max_margin as _max_margin
from milearn._solvers.common import passes as _passes
from milearn.cluster import _m3ic
from milearn.metrics import clustering_accuracy


def concept_bags(n_bags=60, k=3, seed=0, size=5, distance=4.0):
    """Background instances around zero, and in each bag one of its cluster's concept."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % k
    instances = rng.normal(scale=0.5, size=(n_bags * size, 4))
    instances[np.arange(n_bags) * size + rng.integers(size, size=n_bags), y] += distance
    return Bags(instances, np.arange(0, n_bags * size + 1, size)), y


def test_concepts_are_found_and_witnessed():
    X, y = concept_bags()
    new, y_new = concept_bags(seed=1)
    for seed, n_init in enumerate((1, 1, 5)):
        model = M3IC(3, C=100.0, n_init=n_init, random_state=seed).fit(X)
        assert clustering_accuracy(y, model.labels_) == 1.0
        assert (X.instances[model.witnesses_].argmax(axis=1) == y).all()
        assert clustering_accuracy(y_new, model.predict(new)) == 1.0
    # Most random starts end in other minima, which are not lower but by the precision of a fit.
    assert model.objective_ >= model.start_objectives_.min() >= 0.99 * model.start_objectives_[0]


def one_of_many(n_bags, k, size, seed, length):
    """Bags in which one instance, the first, is at a distance of the origin in a direction of k."""
    rng, y, places = np.random.default_rng(seed), np.arange(n_bags) % k, size * np.arange(n_bags)
    instances, kinds = rng.normal(size=(n_bags * size, 10)), rng.normal(size=(k, 10))
    instances[places] += length * (kinds / np.linalg.norm(kinds, axis=1)[:, None])[y]
    return Bags(instances, np.arange(0, n_bags * size + 1, size)), y


@pytest.mark.parametrize("seed", [4, 6])
def test_one_of_twenty_instances_decides(seed):
    # Means of the bags hardly differ: starts from them end at accuracies of .7. They come second.
    X, y = one_of_many(80, 4, 20, seed, 6.0)
    model = M3IC(4, n_init=1, random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) > 0.9
    assert (model.witnesses_ == X.offsets[:-1]).mean() > 0.9


def test_a_run_with_an_empty_cluster_loses():
    # Three of four clusters serve all bags at a lower objective, which once decided alone.
    X, y = one_of_many(80, 4, 20, 9, 8.0)
    model = M3IC(4, random_state=0).fit(X)
    assert model.start_objectives_.shape == (20,)
    assert model.objective_ > 1.05 * model.start_objectives_.min()
    assert clustering_accuracy(y, model.labels_) > 0.9


def test_what_is_fitted_fits_together():
    X, _ = concept_bags(seed=2, distance=1.5)
    model = M3IC(3, C=10.0, random_state=0).fit(X)
    scores = model.instance_decision_function(X)
    own = X.instances @ (model.coef_ - model.coef_.mean(axis=0)).T * 1.5
    np.testing.assert_allclose(scores, own, atol=1e-12)
    decided = model.decision_function(X)
    by_bag = scores.reshape(60, 5, 3)
    np.testing.assert_array_equal(decided, by_bag.max(axis=1))
    np.testing.assert_array_equal(model.labels_, decided.argmax(axis=1))
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    np.testing.assert_array_equal(model.witnesses_, model.witness(X))
    np.testing.assert_array_equal(model.predict_instances(X), scores.argmax(axis=1))
    hinges = np.maximum(0, 1 - decided.max(axis=1))
    value = 0.5 * np.sum(model.coef_**2) + 10.0 * hinges.mean()
    assert model.objective_ == pytest.approx(value, rel=1e-10)
    assert len(model.objective_history_) == model.n_iter_
    assert model.objective_history_[-1] == model.objective_
    assert np.diff(model.objective_history_).max(initial=0.0) <= 0
    assert model.dual_gap_ <= 0.01 * model.objective_
    assert model.converged_
    m = X.instances.reshape(60, 5, 4).mean(axis=1).sum(axis=0)
    assert np.abs((model.coef_[:, None] - model.coef_[None]) @ m).max() <= 1.0 + 1e-6


@pytest.mark.parametrize("options", [{"n_init": 3}, {"n_init": 2, "min_cluster_size": 25}])
def test_a_memory_map_of_float32_gives_what_the_memory_gives(tmp_path, monkeypatch, options):
    X, _ = concept_bags(n_bags=90, distance=1.5)
    single = X.instances.astype(np.float32)
    np.save(tmp_path / "x.npy", single)
    mapped = Bags(np.load(tmp_path / "x.npy", mmap_mode="r"), X.offsets)
    expected = M3IC(3, random_state=0, **options).fit(X.with_instances(single.astype(float)))
    # Small blocks, and witnesses kept as float32, as with large data.
    small = partial(_max_margin.LinearisedRisk, block_bytes=256)
    monkeypatch.setattr(_max_margin, "LinearisedRisk", small)
    monkeypatch.setattr(_max_margin, "gather", partial(_passes.gather, float64_bytes=0))
    monkeypatch.setattr(_m3ic, "_source", partial(_m3ic._source, block_bytes=256))
    model = M3IC(3, random_state=0, **options).fit(mapped)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-6)


def test_init_by_weights_names_the_clusters():
    X, y = concept_bags()
    start = np.eye(3, 4)[[2, 0, 1]]
    model = M3IC(3, C=100.0, init=start, n_init=1).fit(X)
    np.testing.assert_array_equal(model.labels_, np.array([1, 2, 0])[y])


def test_one_cluster_holds_all_bags():
    X, _ = concept_bags()
    model = M3IC(1, C=3.0).fit(X)
    assert (model.labels_ == 0).all()
    assert (model.coef_ == 0).all()
    assert model.objective_ == 3.0


@pytest.mark.parametrize("balance", [None, 0.0, 1.0])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_identical_bags_share_a_cluster(balance, value):
    model = M3IC(2, C=10.0, balance=balance, random_state=0).fit([np.full((2, 3), value)] * 5)
    assert len(set(model.labels_)) == 1
    # Closed form: v = w_1 - w_2 is a multiple of m, with v'm no larger than the balance.
    length = 5 * value * np.sqrt(3)
    if length == 0 or balance == 0.0:
        expected = 10.0
    else:
        reach = 5.0 if balance is None else balance  # v'm at margin one, or at the balance
        expected = 0.25 * (reach / length) ** 2 + 10.0 * max(0.0, 1 - reach / 5)
    assert model.objective_ == pytest.approx(expected, rel=0.01)


def test_no_balance_constraint_and_one_that_never_binds_agree():
    X, _ = concept_bags(distance=1.5)
    free = M3IC(3, balance=None, random_state=0).fit(X)
    wide = M3IC(3, balance=1e6, random_state=0).fit(X)
    np.testing.assert_allclose(wide.coef_, free.coef_, atol=1e-6)


def test_a_balance_of_zero_makes_the_clusters_agree_on_the_mean():
    X, _ = concept_bags(distance=1.5)
    model = M3IC(3, balance=0.0, C=10.0, random_state=0).fit(X)
    m = X.instances.reshape(60, 5, 4).mean(axis=1).sum(axis=0)
    assert np.abs(model.coef_).max() > 0.1
    np.testing.assert_allclose(model.coef_ @ m, 0.0, atol=1e-9)


def test_csr_far_wider_than_long():
    X = sparse.csr_array(sparse.random(60, 5000, density=0.01, random_state=0))
    bags = Bags(X, np.arange(0, 61, 3))
    model = M3IC(3, C=10.0, random_state=0).fit(bags)
    dense = M3IC(3, C=10.0, random_state=0).fit(bags.with_instances(X.toarray()))
    assert model.objective_ == pytest.approx(dense.objective_, rel=1e-9)


def test_what_is_refused():
    X, _ = concept_bags(n_bags=6)
    with pytest.raises(ValueError, match=r"^n_clusters=7 but there are 6 bags: use at most"):
        M3IC(7).fit(X)
    with pytest.raises(ValueError, match=r"^min_cluster_size=4 in 2 clusters needs 8 bags but the"):
        M3IC(2, min_cluster_size=4).fit(X)
    with pytest.raises(ValueError, match=r"^init has shape \(2, 4\): give one row per cluster"):
        M3IC(3, init=np.ones((2, 4))).fit(X)
    assert M3IC(6, random_state=0).fit(X).labels_.shape == (6,)


def test_warnings_say_what_was_missed(monkeypatch):
    X, _ = concept_bags(distance=1.0)
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1 before convergence"):
        M3IC(3, C=100.0, tol=0.0, max_iter=1, n_init=1, random_state=0).fit(X)
    limited = partial(_max_margin.cutting_plane, max_iter=2)
    monkeypatch.setattr(_max_margin, "cutting_plane", limited)
    with pytest.warns(ConvergenceWarning, match="was solved to a relative duality gap of"):
        model = M3IC(3, C=100.0, random_state=0).fit(X)
    assert not model.converged_


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("tol", [0.01, 1e-6, 1e-10])
def test_tol_is_the_largest_relative_gap_of_a_fit(tol, C):
    # The precision of the convex steps once was C / 100 whatever the tolerance.
    X, _ = concept_bags(distance=1.5)
    model = M3IC(3, C=C, tol=tol, n_init=1, random_state=0).fit(X)
    assert model.converged_
    assert model.dual_gap_ <= tol * model.objective_


def test_rounding_does_not_decide_the_number_of_cuts():
    # The sums of a product depend on the order of the features, as they do on the processor. An
    # objective that was higher by rounding once led to a third step with three times the cuts.
    k, n_bags, n_features = 6, 60, 20
    rng = np.random.default_rng(4)
    instances = rng.normal(size=(4 * n_bags, n_features))
    places = 4 * np.arange(n_bags) + rng.integers(4, size=n_bags)
    instances[places] += rng.normal(size=(k, n_features))[np.arange(n_bags) % k]
    offsets, found = np.arange(0, 4 * n_bags + 1, 4), []
    for _ in range(4):
        shuffled = Bags(instances[:, rng.permutation(n_features)], offsets)
        model = M3IC(k, C=100.0, min_cluster_size=3, n_init=1, random_state=0).fit(shuffled)
        found.append((model.n_iter_, model.n_cuts_))
    assert len(set(found)) == 1, found


def test_verbose_prints_the_objective(capsys):
    X, _ = concept_bags()
    M3IC(3, n_init=2, random_state=0, verbose=True).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[M3IC] run 1/2, iteration 1: objective ")
    assert any(line.startswith("[M3IC] run 2/2") for line in lines)
