"""Distances between bags equal the definition, pair by pair."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn import config_context

from milearn import Bags
from milearn._kernels import memory, pairs
from milearn.cluster import BAMIC
from milearn.metrics import bag_distances
from tests._bags.kinds import refuses
from tests.bags import random_bags as bags_of

METRICS = ("min", "max", "mean", "mind", "emd")
HAUSDORFF = ("min", "max", "mean", "mind")


def random_bags(n_bags=30, largest=9, seed=0, centre=0.0):
    return bags_of(seed, n_bags, 4, largest, centre=centre, zeros=0.3)


def transport(A, B):
    """The least cost of moving equal weights, as a linear program of HiGHS."""
    costs = cdist(A, B)
    n, m = costs.shape
    sums = np.r_[np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))]
    right = np.r_[np.full(n, 1 / n), np.full(m, 1 / m)]
    return linprog(costs.ravel(), A_eq=sums, b_eq=right).fun


def by_definition(A, B, metric):
    pairs = cdist(A, B)
    there, back = pairs.min(axis=1), pairs.min(axis=0)
    if metric == "min":
        return pairs.min()
    if metric == "mind":
        return (there.mean() + back.mean()) / 2
    if metric == "emd":
        return transport(A, B)
    if metric == "max":
        return max(there.max(), back.max())
    return (there.sum() + back.sum()) / (len(A) + len(B))


def all_pairs(X, Y, metric):
    return np.array([[by_definition(A, B, metric) for B in Y] for A in X])


@pytest.mark.parametrize("metric", HAUSDORFF)
@pytest.mark.parametrize("blocks", [(256, 1024), (7, 11), (1, 1), (4, 3)])
def test_equals_the_definition(metric, blocks, monkeypatch):
    monkeypatch.setattr(pairs, "block_shape", lambda: blocks)
    # With a block for each pair of instances fewer bags have as many blocks.
    few = blocks == (1, 1)
    X, Y = random_bags(9 if few else 30), random_bags(7 if few else 17, seed=1)
    np.testing.assert_allclose(
        bag_distances(X, Y, metric=metric), all_pairs(X, Y, metric), rtol=1e-10
    )
    np.testing.assert_allclose(bag_distances(X, metric=metric), all_pairs(X, X, metric), rtol=1e-10)


@pytest.mark.parametrize("metric", METRICS)
def test_symmetric_with_a_diagonal_of_zeros(metric):
    X = random_bags(60, centre=1e3)
    distances = bag_distances(X, metric=metric)
    assert (distances == distances.T).all()
    assert (np.diagonal(distances) == 0).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_bags_far_from_the_origin_and_near_to_each_other_keep_their_digits(metric, form):
    rng = np.random.default_rng(0)
    near = 1e4 + 1e-3 * rng.normal(size=(40, 3))
    near[::7] = near[0]  # instances that coincide
    near[3] = -1e4  # an outlier moves the mean away from the rest
    X = Bags(form(near), np.arange(0, 41, 4))
    expected = all_pairs(list(Bags(near, X.offsets)), list(Bags(near, X.offsets)), metric)
    np.testing.assert_allclose(bag_distances(X, metric=metric), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_kinds_of_input_agree(metric):
    X = random_bags()
    expected = bag_distances(X, metric=metric)
    csr = X.with_instances(sparse.csr_array(X.instances))
    np.testing.assert_allclose(bag_distances(csr, metric=metric), expected, rtol=1e-10)
    np.testing.assert_allclose(bag_distances(X, csr, metric=metric), expected, rtol=1e-10)
    np.testing.assert_array_equal(bag_distances(list(X), metric=metric), expected)
    np.testing.assert_allclose(bag_distances(X, X, metric=metric), expected, rtol=1e-10)
    np.testing.assert_allclose(bag_distances(X, metric=metric, n_jobs=2), expected, rtol=0)
    single = X.with_instances(X.instances.astype(np.float32))
    double = X.with_instances(single.instances.astype(np.float64))
    np.testing.assert_allclose(
        bag_distances(single, metric=metric), bag_distances(double, metric=metric), rtol=1e-12
    )
    # Features that are constant on each side but differ count.
    X, Y = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[0.0, 4.0], [1.0, 4.0]])
    np.testing.assert_allclose(bag_distances(X, Y, metric=metric), cdist(X, Y))
    np.testing.assert_array_equal(bag_distances(np.ones((3, 2)), metric=metric), np.zeros((3, 3)))


def test_what_is_refused():
    X = random_bags(3)
    blocks = [np.array(block) for block in X]
    blocks[1][0, 0] = np.nan
    mind, emd = 'directed and squared require metric="mind"', 'max_instances requires metric="emd"'
    for given, options, message in (
        ((X,), {"metric": "hausdorff"}, "metric='hausdorff' is unknown; choose one of"),
        ((X, X[:, [0, 1]]), {}, "X has 4 features but Y has 2: bags of both"),
        ((blocks,), {}, "Bag 1 contains NaN"),
        ((X, blocks), {}, "Bag 1 contains NaN"),
        ((X,), {"directed": True}, mind),
        ((X,), {"squared": True}, mind),
        ((X,), {"max_instances": 3}, f"{emd}, got metric='mean'"),
    ):
        refuses(lambda g=given, o=options: bag_distances(*g, **o), message)
    with pytest.raises(ValueError, match="max_instances == 0, must be >= 1"):
        bag_distances(X, metric="emd", max_instances=0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("thin", [False, True])
def test_bags_that_are_copied_in_blocks(metric, thin):
    if metric == "emd":
        pytest.importorskip("ot", reason="the extra emd is not installed")
    X, Y = random_bags(20, largest=15), random_bags(5, seed=1)
    if thin:
        X, Y = (bags.with_instances(sparse.csr_array(bags.instances)) for bags in (X, Y))
    expected = bag_distances(X, Y, metric=metric)
    with config_context(working_memory=0.001):  # ten dense instances
        found = bag_distances(X, Y, metric=metric)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_the_copy_of_many_bags_is_bounded(monkeypatch):
    X = Bags.singletons(np.random.default_rng(0).normal(size=(40_000, 20)))
    monkeypatch.setattr(memory, "available_memory", lambda: 1e7)
    with config_context(working_memory=1.0):
        tracemalloc.start()
        try:
            found = bag_distances(X, X[:2], metric="min")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 1e7  # a copy of all instances takes 7 MB, and their two forms 14 MB
    np.testing.assert_allclose(found, cdist(X.instances, X.instances[:2]), atol=1e-12)


def test_a_matrix_that_does_not_fit_is_refused_with_a_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)
    message = r"^The matrix of distances between 25 x 25 bags takes 32 MiB and 1 MiB are available"
    with pytest.raises(MemoryError, match=message + ": compute it for fewer bags at a time; a clu"):
        bag_distances(random_bags(25))
    with pytest.raises(MemoryError, match=message):
        BAMIC().fit(random_bags(25))


# -- mean minimum distances and the earth mover's --------------------------------------------------


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_forms_of_the_mean_minimum_distance(directed, squared):
    X, Y = random_bags(12), random_bags(7, seed=1)

    def one_sided(A, B):
        return (cdist(A, B).min(axis=1) ** (2 if squared else 1)).mean()

    def expected(X, Y):
        there = np.array([[one_sided(A, B) for B in Y] for A in X])
        back = np.array([[one_sided(B, A) for B in Y] for A in X])
        return there if directed else (there + back) / 2

    options = {"metric": "mind", "directed": directed, "squared": squared}
    np.testing.assert_allclose(bag_distances(X, Y, **options), expected(X, Y), rtol=1e-10)
    own = bag_distances(X, **options)
    np.testing.assert_allclose(own, expected(X, X), rtol=1e-10)
    assert (own == own.T).all() != directed
    assert (np.diagonal(own) == 0).all()


@pytest.mark.parametrize("blocks", [(256, 1024), (3, 5)])
def test_the_earth_movers_distance_equals_the_linear_program(blocks, monkeypatch):
    monkeypatch.setattr(pairs, "block_shape", lambda: blocks)
    # Bags of one, of equal and of different sizes.
    X, Y = random_bags(7, largest=5), random_bags(4, seed=1, largest=5)
    expected = all_pairs(X, Y, "emd")
    for n_jobs in (None, 2):
        found = bag_distances(X, Y, metric="emd", n_jobs=n_jobs)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    # A metric: symmetric, zero for the bag itself, and no way round is shorter.
    whole = bag_distances(X, metric="emd")
    assert (np.diagonal(whole) == 0).all()
    assert (whole == whole.T).all()
    assert (whole[:, None, :] <= whole[:, :, None] + whole[None] + 1e-12).all()
    # A bag is at distance zero from another one with the same instances in another order.
    back = X.with_instances(np.concatenate([block[::-1] for block in X]))
    np.testing.assert_allclose(np.diagonal(bag_distances(X, back, metric="emd")), 0, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_distances_scale_with_the_unit(metric):
    if metric == "emd":
        pytest.importorskip("ot", reason="the extra emd is not installed")
    X = random_bags(8, largest=5)
    expected = bag_distances(X, metric=metric)
    for unit in (2.0**-60, 2.0**60):
        scaled = bag_distances(X.with_instances(X.instances * unit), metric=metric)
        np.testing.assert_allclose(scaled / unit, expected, rtol=1e-10)


def test_samples_of_large_bags():
    rng = np.random.default_rng(0)
    X = Bags(rng.normal(size=(230, 3)), [0, 100, 103, 230])
    exact = bag_distances(X, metric="emd")
    sampled = bag_distances(X, metric="emd", max_instances=60, random_state=0)
    again = bag_distances(X, metric="emd", max_instances=60, random_state=0)
    np.testing.assert_array_equal(sampled, again)
    assert (np.diagonal(sampled) == 0).all()
    # Samples of one distribution: too far from each other, by less than a bag is wide.
    assert exact[0, 2] < sampled[0, 2] < exact[0, 2] + 0.3
    whole = bag_distances(X, metric="emd", max_instances=127)
    np.testing.assert_array_equal(whole, exact)


def test_without_pot(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r"pip install 'milearn\[emd\]'"):
        bag_distances(random_bags(3), metric="emd")
    assert bag_distances(random_bags(3), metric="mind").shape == (3, 3)


def test_bags_whose_pair_does_not_fit(monkeypatch):
    X = random_bags(3)
    monkeypatch.setattr("milearn.metrics._bag_kernels.require_memory", lambda *args: None)
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)
    with pytest.raises(MemoryError, match="earth mover's distance between bags of up to"):
        bag_distances(X, metric="emd")
