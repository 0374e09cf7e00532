"""Kernels learnt on training bags against the loops of their definitions."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest
from joblib import parallel_config
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.preprocessing import FunctionTransformer

from milearn import Bags
from milearn._kernels import memory
from milearn._kernels.bag import (
    l1_distances,
    median_of_pairs,
    median_of_rows,
    squared_distances,
)
from milearn._kernels.learned import (
    LEARNED_KERNELS,
    ScaledKernels,
    average_kernel,
    learn_bag_kernel,
    learn_bag_kernels,
)

VECTORS = ("mean", "unit_mean", "minmax_laplacian", "statistics")


def random_bags(seed, n_bags=9, d=4, largest=5):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=n_bags)
    instances = rng.normal(size=(sizes.sum(), d)) + rng.normal(size=d)
    instances[rng.random(instances.shape) < 0.3] = 0.0
    return Bags(instances, np.r_[0, np.cumsum(sizes)])


def emptied(bags, rows):
    """The bags with some instances of zeros, which have no direction."""
    instances = bags.instances.copy()
    instances[rows] = 0.0
    return bags.with_instances(instances)


# -- the definitions -------------------------------------------------------------------------------


def unit(A):
    lengths = np.sqrt((A**2).sum(axis=1, keepdims=True))
    return np.divide(A, lengths, out=np.zeros_like(A), where=lengths > 0)


def directions(A):
    """Unit rows; those of zeros have a direction of their own."""
    return np.c_[unit(A), (A == 0).all(axis=1)]


def vector(name, A, cosine):
    if name == "mean":
        return A.mean(axis=0)
    if name == "unit_mean":
        return unit(A).mean(axis=0)
    A = unit(A) if cosine else A
    if name == "minmax_laplacian":
        return np.r_[A.min(axis=0), A.max(axis=0)]
    # In another order than the code's: distances and cosines do not depend on it.
    return np.r_[A.min(axis=0), A.mean(axis=0), A.max(axis=0), A.std(axis=0)]


def middle(values):
    return float(np.median(values))


def mover_program(A, B):
    """The earth mover's distance as a linear program."""
    costs = cdist(A, B)
    n, m = costs.shape
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    right = np.r_[np.full(n, 1 / n), np.full(m, 1 / m)]
    return linprog(costs.ravel(), A_eq=np.r_[rows, columns], b_eq=right).fun


def one_sided(A, B):
    return np.mean([min(((a - b) ** 2).sum() for b in B) for a in A])


def naive(name, train, new, cosine, width):
    """The kernel of the new bags with the training bags, one pair at a time."""
    if name in VECTORS:
        left = np.array([vector(name, A, cosine) for A in new])
        right = np.array([vector(name, A, cosine) for A in train])
        if cosine:
            return unit(left) @ unit(right).T
        metric = "cityblock" if name in ("minmax_laplacian", "statistics") else "sqeuclidean"
        if name == "statistics":
            left, right = left / right.std(axis=0), right / right.std(axis=0)
        scale = middle([cdist(a[None], b[None], metric)[0, 0] for a, b in combinations(right, 2)])
        return np.exp(-cdist(left, right, metric) / (width * scale))
    if cosine:
        train, new = [directions(A) for A in train], [directions(A) for A in new]
    instances = np.concatenate(train)
    inner = middle([((a - b) ** 2).sum() for a, b in combinations(instances, 2)])
    inner = 0.5 if cosine else inner

    if name == "set_median":

        def s(A, B):
            return sum(np.exp(-((a - b) ** 2).sum() / (width * inner)) for a in A for b in B)

        return np.array([[s(A, B) / np.sqrt(s(A, A) * s(B, B)) for B in train] for A in new])
    if name == "graph":
        scale = width * inner

        def weights(A):
            pairs = [np.sqrt(((a - b) ** 2).sum()) for a, b in combinations(A, 2)]
            mean = np.mean(pairs) * (1 + 1e-6) if pairs else 0.0
            return [1 / sum(np.sqrt(((a - b) ** 2).sum()) <= mean for b in A) for a in A]

        def weighted(A, B):
            V, W = weights(A), weights(B)
            total = 0.0
            for v, a in zip(V, A, strict=True):
                for w, b in zip(W, B, strict=True):
                    total += v * w * np.exp(-((a - b) ** 2).sum() / scale)
            return total / (sum(V) * sum(W))

        return np.array([[weighted(A, B) for B in train] for A in new])
    if name in ("mind", "emd"):

        def distance(A, B):
            if name == "mind":
                return (one_sided(A, B) + one_sided(B, A)) / 2
            return mover_program(A, B)

        scale = middle([distance(A, B) for A, B in combinations(train, 2)])
        found = [[distance(A, B) for B in train] for A in new]
        return np.exp(-np.array(found) / (width * scale))

    def row(A):
        if name == "mind_rows":
            return [one_sided(A, B) for B in train]
        if cosine:
            return [max(a @ b for a in A) for b in instances]
        return [max(np.exp(-((a - b) ** 2).sum() / inner) for a in A) for b in instances]

    left, right = np.array([row(A) for A in new]), np.array([row(A) for A in train])
    mean, deviation = right.mean(axis=0), right.std(axis=0)
    if cosine and name == "miles_rows":
        deviation = 1.0
    bound = 3.0 if name == "mind_rows" else np.inf
    left, right = (np.clip((rows - mean) / deviation, -bound, bound) for rows in (left, right))
    scale = middle([((a - b) ** 2).sum() for a, b in combinations(right, 2)])
    return np.exp(-cdist(left, right, "sqeuclidean") / (width * scale))


# -- kernels against them --------------------------------------------------------------------------


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("name", LEARNED_KERNELS)
def test_equals_the_loop(name, cosine):
    X = emptied(random_bags(0, n_bags=6), [2, 9])
    Y = emptied(random_bags(1, n_bags=3), [3])
    width = 0.7
    expected = naive(name, list(X), list(X), cosine, width)
    expected_new = naive(name, list(X), list(Y), cosine, width)
    for kind in (np.asarray, sparse.csr_array, sparse.csr_matrix):
        fitted, train = learn_bag_kernel(
            name, kind(X.instances), X.offsets, width=width, cosine=cosine, random_state=0
        )
        np.testing.assert_allclose(train, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(train, train.T)
        if name not in ("mind", "emd"):
            assert np.linalg.eigvalsh(train)[0] > -1e-10
        new = fitted.matrix(kind(Y.instances), Y.offsets)
        np.testing.assert_allclose(new, expected_new, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LEARNED_KERNELS)
def test_pickle_order_and_threads(name):
    X, Y = random_bags(3), random_bags(4)
    fitted, train = learn_bag_kernel(name, X.instances, X.offsets)
    new = fitted.matrix(Y.instances, Y.offsets)
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.matrix(Y.instances, Y.offsets), new)
    # Instances in reverse order within each bag.
    back = [np.concatenate([block[::-1] for block in bags]) for bags in (X, Y)]
    other, other_train = learn_bag_kernel(name, back[0], X.offsets, n_jobs=2)
    np.testing.assert_allclose(other_train, train, rtol=1e-10)
    np.testing.assert_allclose(other.matrix(back[1], Y.offsets), new, rtol=1e-10)


@pytest.mark.parametrize(
    ("shape", "sparsely"), [((3, 5), False), ((3, 5), True), ((1, 1), False), ((6, 2), True)]
)
def test_blocks_change_nothing(shape, sparsely, monkeypatch):
    X, Y = random_bags(5, n_bags=7), random_bags(6, n_bags=4)
    kind = sparse.csr_array if sparsely else np.asarray
    fitted, train = learn_bag_kernels(LEARNED_KERNELS, kind(X.instances), X.offsets)
    new = fitted.matrices(kind(Y.instances), Y.offsets)
    for module in ("pairs", "bag"):
        monkeypatch.setattr(f"milearn._kernels.{module}.block_shape", lambda: shape)
    again, train_again = learn_bag_kernels(LEARNED_KERNELS, kind(X.instances), X.offsets, n_jobs=2)
    new_again = again.matrices(kind(Y.instances), Y.offsets, row_bytes=8 * 30)
    for before, after in zip([*train, *new], [*train_again, *new_again], strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_jobs_of_a_context_share_memory(backend, monkeypatch):
    # Workers of other processes would write into copies of the result.
    X = random_bags(17, n_bags=12)
    for module in ("pairs", "bag"):
        monkeypatch.setattr(f"milearn._kernels.{module}.block_shape", lambda: (5, 7))
    names = ["statistics", "mind", "emd"]
    expected = learn_bag_kernels(names, X.instances, X.offsets)[1]
    with parallel_config(backend, n_jobs=2):
        found = learn_bag_kernels(names, X.instances, X.offsets)[1]
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_kernels_together_equal_kernels_alone():
    X, Y = random_bags(7), random_bags(8)
    names, sizes = LEARNED_KERNELS, []
    fitted, train = learn_bag_kernels(names, X.instances, X.offsets, random_state=0)
    new = fitted.matrices(Y.instances, Y.offsets)
    for position, name in enumerate(names):
        alone, matrix = learn_bag_kernel(name, X.instances, X.offsets, random_state=0)
        np.testing.assert_allclose(train[position], matrix, rtol=1e-13)
        np.testing.assert_allclose(alone.matrix(Y.instances, Y.offsets), new[position], rtol=1e-13)
        sizes.append(len(pickle.dumps(alone)))
    # The training instances are stored once for all that compare instances.
    assert len(pickle.dumps(fitted)) < sum(sizes) / 1.5


# -- widths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEARNED_KERNELS)
def test_a_median_of_zero(name):
    # Nearly all bags are the same, one up to the order of its instances.
    block = np.array([[0.1, 0.7], [1 / 3, 2.0], [0.3, 0.9]])
    blocks = [block, block[[1, 0, 2]], block[[2, 1, 0]], block, block + 1.0, block - [2.0, 0.0]]
    bags = Bags.from_list(blocks)
    fitted, train = learn_bag_kernel(name, bags.instances, bags.offsets)
    assert np.isfinite(train).all()
    # "graph" divides by the weights of instances, not by the similarity of a bag with itself.
    own = train[0, 0] if name == "graph" else 1.0
    np.testing.assert_allclose(train[:4, :4], own, rtol=1e-12)
    assert (train[4:, :4] < 0.99).all()
    assert (train[4:, :4] > 1e-6).all()
    np.testing.assert_allclose(fitted.matrix(bags.instances, bags.offsets), train, rtol=1e-9)


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("name", LEARNED_KERNELS)
@pytest.mark.parametrize("n_bags", [1, 3])
def test_bags_that_are_all_equal(name, n_bags, cosine):
    bags = Bags.from_list([[[1.0, 2.0]]] * n_bags)
    fitted, train = learn_bag_kernel(name, bags.instances, bags.offsets, cosine=cosine)
    np.testing.assert_allclose(train, np.ones((n_bags, n_bags)), rtol=1e-12)
    new = fitted.matrix(np.array([[2.0, 2.0]]), np.array([0, 1]))
    assert np.isfinite(new).all()


@pytest.mark.parametrize("laplacian", [False, True])
def test_medians_of_many_are_of_a_sample(laplacian):
    rows = np.random.default_rng(9).normal(size=(600, 4))
    distances = l1_distances(rows, rows) if laplacian else squared_distances(rows, rows)
    exact = median_of_pairs(distances, None)
    assert exact == np.median(distances[np.triu_indices(600, 1)])
    for sampled in (
        median_of_rows(rows, laplacian, np.random.RandomState(0), sample=300),
        median_of_pairs(distances, np.random.RandomState(0), sample=300),
    ):
        assert sampled == pytest.approx(exact, rel=0.05)
        assert sampled != exact
    # The sample does not depend on the order of the rows.
    orders = rows, rows[::-1], rows[np.random.default_rng(0).permutation(600)]
    for storage in (np.asarray, sparse.csr_array):
        medians = [
            median_of_rows(storage(each), laplacian, np.random.RandomState(0), sample=50)
            for each in orders
        ]
        assert np.ptp(medians) < 1e-12


# -- types -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEARNED_KERNELS)
def test_float32_is_computed_in_float32(name):
    rng = np.random.default_rng(0)
    X = Bags((5.0 + rng.normal(size=(300, 20))).astype(np.float32), np.arange(0, 301, 5))
    double = X.instances.astype(np.float64)
    fitted, train = learn_bag_kernel(name, X.instances, X.offsets)
    expected, expected_train = learn_bag_kernel(name, double, X.offsets)
    np.testing.assert_allclose(train, expected_train, rtol=2e-5, atol=2e-6)
    new = X.instances[:35][::-1].copy(), X.offsets[:8]
    wanted = expected.matrix(new[0].astype(np.float64), new[1])
    np.testing.assert_allclose(fitted.matrix(*new), wanted, rtol=2e-5, atol=2e-6)
    # New bags are compared in the type of the training bags.
    np.testing.assert_array_equal(
        fitted.matrix(new[0].astype(np.float64), new[1]), fitted.matrix(*new)
    )
    if fitted.columns is not None:
        assert fitted.columns.factor.dtype == np.float32


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("name", LEARNED_KERNELS)
def test_new_bags_in_another_storage(name, cosine, tmp_path):
    X, Y = (bags.with_instances(bags.instances + 0.5) for bags in map(random_bags, (30, 31)))
    csr = sparse.csr_array(Y.instances)
    fitted, _ = learn_bag_kernel(name, X.instances, X.offsets, cosine=cosine)
    expected = fitted.matrix(Y.instances, Y.offsets)
    np.testing.assert_allclose(fitted.matrix(csr, Y.offsets), expected, rtol=1e-9)
    from_csr, _ = learn_bag_kernel(name, sparse.csr_array(X.instances), X.offsets, cosine=cosine)
    found = from_csr.matrix(Y.instances, Y.offsets)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # A read-only memory map of half precision.
    np.save(tmp_path / "half.npy", X.instances.astype(np.float16))
    half = np.load(tmp_path / "half.npy", mmap_mode="r")
    of_half, train = learn_bag_kernel(name, half, X.offsets, cosine=cosine)
    _, exact = learn_bag_kernel(name, half.astype(np.float64), X.offsets, cosine=cosine)
    np.testing.assert_allclose(train, exact, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(of_half.matrix(half, X.offsets), exact, rtol=1e-9, atol=1e-12)


# -- errors ----------------------------------------------------------------------------------------


def test_errors(monkeypatch):
    X, many = random_bags(10), random_bags(11, n_bags=400)
    with pytest.raises(ValueError, match="'means' is unknown; choose one of mean"):
        learn_bag_kernel("means", X.instances, X.offsets)
    with pytest.raises(ValueError, match="width=0 is not positive"):
        learn_bag_kernel("mean", X.instances, X.offsets, width=0)
    fitted, _ = learn_bag_kernel("mean", X.instances, X.offsets)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000.0)
    with pytest.raises(MemoryError, match="learn them on fewer bags"):
        learn_bag_kernel("miles_rows", many.instances, many.offsets)
    new = Bags(np.ones((20_000, 4)), np.arange(20_001))
    with pytest.raises(MemoryError, match="kernels mean of 20000 x 9 bags"):
        fitted.matrix(new.instances, new.offsets)


def test_text_is_not_made_dense(monkeypatch):
    # Of 200 instances with 300,000 features a dense matrix would take 480 MB.
    rng = np.random.default_rng(0)
    places = (np.repeat(np.arange(200), 30), rng.integers(0, 300_000, size=6000))
    matrix = sparse.csr_array((rng.random(6000), places), shape=(200, 300_000))
    offsets = np.arange(0, 201, 5)
    monkeypatch.setattr(memory, "available_memory", lambda: 2.0**28)
    monkeypatch.setattr(sparse.csr_array, "toarray", _only_small(sparse.csr_array.toarray))
    for cosine in (False, True):
        fitted, train = learn_bag_kernels(
            LEARNED_KERNELS, matrix, offsets, cosine=cosine, random_state=0
        )
        for again, values in zip(fitted.matrices(matrix, offsets), train, strict=True):
            np.testing.assert_allclose(again, values, rtol=1e-9, atol=1e-12)


def _only_small(toarray):
    def refused(self, *args, **kwargs):
        assert self.shape[0] * self.shape[1] < 10**6
        return toarray(self, *args, **kwargs)

    return refused


# -- averages --------------------------------------------------------------------------------------


def test_average_equals_its_formula():
    X, Y = random_bags(11), random_bags(12, n_bags=4)
    fitted, train = learn_bag_kernels(["mean", "set_median", "mind"], X.instances, X.offsets)
    twice, scaled = learn_bag_kernel("minmax_laplacian", X.instances**3, X.offsets)
    kernels = [fitted, ScaledKernels(FunctionTransformer(_cubes), twice)]
    weights = [1.0, 2.0, 0.5, 0.5]
    average, matrix = average_kernel(kernels, [*train, scaled], weights)
    new = [*fitted.matrices(Y.instances, Y.offsets), twice.matrix(Y.instances**3, Y.offsets)]
    own = [*train, scaled]
    n = len(X)
    expected, expected_new = np.zeros((n, n)), np.zeros((len(Y), n))
    for K, L, weight in zip(own, new, np.array(weights) / 4, strict=True):
        trace = sum(K[i, i] - 2 * K[i].mean() + K.mean() for i in range(n))
        for i in range(n):
            for j in range(n):
                centred = K[i, j] - K[i].mean() - K[j].mean() + K.mean()
                expected[i, j] += weight * centred * n / trace
        for i in range(len(Y)):
            for j in range(n):
                centred = L[i, j] - L[i].mean() - K[j].mean() + K.mean()
                expected_new[i, j] += weight * centred * n / trace
    np.testing.assert_allclose(matrix, expected, rtol=1e-9, atol=1e-12)
    assert np.trace(matrix) == pytest.approx(n)
    [found] = average.matrices(Y.instances, Y.offsets)
    np.testing.assert_allclose(found, expected_new, rtol=1e-9, atol=1e-12)
    # The training bags as new bags: the same average, for m is that of the training bags.
    np.testing.assert_allclose(average.matrices(X.instances, X.offsets)[0], matrix, atol=1e-12)
    restored = pickle.loads(pickle.dumps(average))
    np.testing.assert_array_equal(restored.matrices(Y.instances, Y.offsets)[0], found)


def _cubes(instances):
    return instances**3


def test_a_kernel_that_is_the_same_for_all_pairs_takes_no_part():
    X = random_bags(13)
    fitted, train = learn_bag_kernels(["mean", "set_median"], X.instances, X.offsets)
    half = average_kernel([fitted], [train[0], np.ones_like(train[0])], [1, 1])[1]
    whole = average_kernel([fitted], train[:1], [3])[1]
    np.testing.assert_allclose(2 * half, whole, atol=1e-12)
    with pytest.raises(ValueError, match="zip"):
        average_kernel([fitted], train, [1])
