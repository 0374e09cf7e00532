"""Kernels between bags against the double loop of their definitions."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, sigmoid_kernel

from milearn import Bags
from milearn._kernels import memory
from milearn._kernels.bag import BAG_KERNELS, bag_scales, instance_scales, minmax_vectors
from milearn._kernels.instance import instance_kernel
from milearn._kernels.learned import learn_bag_kernel
from milearn.metrics import bag_kernel
from tests.bags import random_bags

KERNELS = [
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "linear"},
    {"kernel": "poly", "gamma": 0.5},
    {"kernel": laplacian_kernel},
]


def between_instances(left, right, kernel, gamma=None):
    if callable(kernel):
        return kernel(left, right)
    known = {"gamma": gamma, "degree": 3, "coef0": 0.0}
    return pairwise_kernels(left, right, metric=kernel, filter_params=True, **known)


def naive(X, Y, name, params):
    """One pair of bags at a time."""

    def s(A, B):
        return between_instances(A, B, **params).sum()

    def statistics(B):
        return np.r_[B.min(axis=0), B.max(axis=0)][None]

    out = np.zeros((len(X), len(Y)))
    for i, A in enumerate(X):
        for j, B in enumerate(Y):
            if name == "set":
                out[i, j] = s(A, B)
            elif name == "mean_set":
                out[i, j] = s(A, B) / (len(A) * len(B))
            elif name == "normalized_set":
                out[i, j] = s(A, B) / np.sqrt(s(A, A) * s(B, B))
            else:
                out[i, j] = between_instances(statistics(A), statistics(B), **params)[0, 0]
    return out


@pytest.mark.parametrize("params", KERNELS, ids=lambda p: str(p["kernel"])[:12])
@pytest.mark.parametrize("name", BAG_KERNELS)
def test_equals_the_double_loop(name, params):
    X, Y = random_bags(0), random_bags(1, n_bags=5)
    assert bag_kernel(X, bag_kernel=name, **params) == pytest.approx(naive(X, X, name, params))
    assert bag_kernel(X, Y, bag_kernel=name, **params) == pytest.approx(naive(X, Y, name, params))


@pytest.mark.parametrize("params", KERNELS[:3], ids=lambda p: p["kernel"])
@pytest.mark.parametrize("name", BAG_KERNELS)
def test_kinds_of_input_agree(name, params):
    X = random_bags(2)
    expected = bag_kernel(X, bag_kernel=name, **params)
    as_sparse = X.with_instances(sparse.csr_array(X.instances))
    single = X.with_instances(X.instances.astype(np.float32))
    assert bag_kernel(as_sparse, bag_kernel=name, **params) == pytest.approx(expected)
    assert bag_kernel(list(X), bag_kernel=name, **params) == pytest.approx(expected)
    assert bag_kernel(single, bag_kernel=name, **params) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("shape", "largest"), [((1, 1), 1), ((1, 1), 6), ((3, 5), 6), ((6, 6), 20), ((90, 90), 20)]
)
def test_blocks_of_any_size_give_the_same_sums(shape, largest, monkeypatch):
    monkeypatch.setattr("milearn._kernels.pairs.block_shape", lambda: shape)
    X, Y = random_bags(3, largest=largest), random_bags(4, n_bags=6, largest=largest)
    kernel, _ = instance_kernel("rbf", gamma=0.2)
    whole = kernel(X.instances, Y.instances)
    by_row = np.add.reduceat(whole, X.offsets[:-1], axis=0)
    by_pair = np.add.reduceat(by_row, Y.offsets[:-1], axis=1)
    pairs = bag_kernel(X, Y, bag_kernel="set", gamma=0.2)
    assert pairs == pytest.approx(by_pair)
    own = kernel(X.instances, X.instances)
    own = np.add.reduceat(np.add.reduceat(own, X.offsets[:-1], axis=0), X.offsets[:-1], axis=1)
    same = bag_kernel(X, bag_kernel="set", gamma=0.2)
    assert same == pytest.approx(own)
    threads = bag_kernel(X, bag_kernel="set", gamma=0.2, n_jobs=2)
    np.testing.assert_array_equal(threads, same)
    scales = bag_scales("normalized_set", X.instances, X.offsets, kernel)
    assert scales == pytest.approx(np.diagonal(own) ** -0.5)


def test_the_matrix_of_all_instances_is_never_made():
    rng = np.random.default_rng(0)
    X = Bags(rng.normal(size=(6000, 5)), np.arange(0, 6001, 200))
    tracemalloc.start()
    try:
        bag_kernel(X, gamma=0.1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * 8 * 6000**2


def test_an_instance_is_a_bag_of_one():
    X = random_bags(6)
    alone = Bags.singletons(X.instances)
    for params in KERNELS:
        matrix = bag_kernel(alone, bag_kernel="normalized_set", **params)
        assert np.diagonal(matrix) == pytest.approx(1.0)
        assert bag_kernel(X.instances, **params) == pytest.approx(matrix)
    kernel, _ = instance_kernel("linear", gamma=1.0)
    scales = instance_scales("normalized_set", X.instances, kernel)
    assert scales == pytest.approx(1.0 / np.linalg.norm(X.instances, axis=1))


def test_a_bag_without_an_image_has_similarity_zero():
    X = Bags(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), [0, 1, 3])
    matrix = bag_kernel(X, kernel="linear")
    assert matrix == pytest.approx(np.array([[0.0, 0.0], [0.0, 1.0]]))


def test_errors_name_the_remedy(monkeypatch):
    X = random_bags(7)
    with pytest.raises(ValueError, match="bag_kernel='nosuch' is unknown; choose one of norm"):
        bag_kernel(X, bag_kernel="nosuch")
    with pytest.raises(ValueError, match="X has 4 features but Y has 3: bags of both"):
        bag_kernel(X, X[:, [0, 1, 2]])
    with pytest.raises(ValueError, match=r"Bag \d has the similarity -.* with itself"):
        bag_kernel(X, kernel=partial(sigmoid_kernel, coef0=-5.0))
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)
    with pytest.raises(
        MemoryError, match=r"9 x 9 bags takes 32 MiB and 1 MiB are available: .*n_comp"
    ):
        bag_kernel(X)


# -- minima and maxima ---------------------------------------------------------------------------


def extremes(X):
    return np.array([np.r_[block.min(axis=0), block.max(axis=0)] for block in X])


@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sign", [-1, 1, 0])
def test_extremes_of_sparse_bags(density, sign):
    # Features of one sign, so that the zeros decide; sign 0 has both.
    rng = np.random.default_rng(3)
    X = random_bags(8)
    values = X.instances if sign == 0 else sign * np.abs(X.instances)
    values = np.where(rng.random(values.shape) < density, values, 0.0)
    dense = X.with_instances(values)
    as_sparse = X.with_instances(sparse.csr_array(values))
    expected = extremes(dense)
    np.testing.assert_array_equal(minmax_vectors(values, X.offsets), expected)
    kept = minmax_vectors(as_sparse.instances, X.offsets, keep_sparse=True)
    assert kept.format == "csr"
    assert kept.nnz == np.count_nonzero(expected)
    np.testing.assert_array_equal(kept.toarray(), expected)
    np.testing.assert_array_equal(minmax_vectors(as_sparse.instances, X.offsets), expected)


def wide_bags():
    """Text: few words of many in each instance."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 66_000, size=(60, 20))
    rows = np.repeat(np.arange(60), 20)
    instances = sparse.csr_array((np.ones(1200), (rows, columns.ravel())), shape=(60, 66_000))
    return Bags(instances, np.arange(0, 61, 3))


def test_extremes_of_text_stay_sparse():
    X = wide_bags()
    tracemalloc.start()
    try:
        values = bag_kernel(X, bag_kernel="minmax", kernel="rbf", gamma=0.01)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Densely they take 21 MB.
    assert peak < 2e6
    dense = extremes([block.toarray() for block in X])
    assert values == pytest.approx(pairwise_kernels(dense, metric="rbf", gamma=0.01))


def test_dense_extremes_count_in_the_guard(monkeypatch):
    X = wide_bags()
    monkeypatch.setattr(memory, "available_memory", lambda: 40e6)
    # The kernel matrix alone would fit, and does where the extremes stay sparse.
    assert bag_kernel(X, bag_kernel="minmax", kernel="linear").shape == (20, 20)
    with pytest.raises(MemoryError, match="20 x 20 bags takes 52 MiB and 38 MiB are available"):
        bag_kernel(X, bag_kernel="minmax", kernel="chi2")


# -- kernels learnt on training bags ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["mean", "statistics", "mind", "mind_rows", "miles_rows", "emd"])
def test_learnt_kernels_are_learnt_on_the_columns(name):
    X, Y = random_bags(20), random_bags(21, n_bags=6)
    options = {"width": 2.0, "random_state": 0}
    fitted, train = learn_bag_kernel(name, Y.instances, Y.offsets, **options)
    np.testing.assert_array_equal(bag_kernel(Y, bag_kernel=name, **options), train)
    found = bag_kernel(X, Y, bag_kernel=name, n_jobs=2, **options)
    np.testing.assert_allclose(found, fitted.matrix(X.instances, X.offsets), rtol=1e-12)
    cosine = bag_kernel(X, Y, bag_kernel=name, cosine=True, **options)
    assert abs(cosine - found).max() > 1e-3


@pytest.mark.parametrize("to", [np.asarray, sparse.csr_array])
def test_constant_features_do_not_count_in_statistics(to):
    X = random_bags(25)
    # The mean of .7 has a rounding error, and that of .5 has none.
    expected, found = (
        bag_kernel(
            Bags(to(np.insert(X.instances, 0, value, axis=1)), X.offsets), bag_kernel="statistics"
        )
        for value in (0.5, 0.7)
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_widths_by_the_median():
    X, Y = random_bags(22), random_bags(23, n_bags=6)
    for name, kernel, learnt in (
        ("normalized_set", "rbf", "set_median"),
        ("minmax", "laplacian", "minmax_laplacian"),
    ):
        fitted, train = learn_bag_kernel(learnt, Y.instances, Y.offsets, width=0.5)
        options = {"bag_kernel": name, "kernel": kernel, "gamma": "median", "width": 0.5}
        np.testing.assert_allclose(bag_kernel(Y, **options), train, rtol=1e-10)
        new = fitted.matrix(X.instances, X.offsets)
        np.testing.assert_allclose(bag_kernel(X, Y, **options), new, rtol=1e-10)


def test_parameters_of_the_other_kind_of_kernel():
    X = random_bags(24)
    with pytest.raises(ValueError, match=r"gamma=0\.1 is not used by bag_kernel='mind'"):
        bag_kernel(X, bag_kernel="mind", gamma=0.1)
    with pytest.raises(ValueError, match="cosine=True is not used by bag_kernel='normalized_set'"):
        bag_kernel(X, cosine=True)
    for options in ({"gamma": "scale"}, {"gamma": "median", "kernel": "poly"}):
        with pytest.raises(ValueError, match=r'pass a number, or gamma="median" with "rbf" or'):
            bag_kernel(X, **options)
