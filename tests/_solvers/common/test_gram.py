"""Kernel rows on demand against the whole matrix."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel, sigmoid_kernel

from milearn._solvers.common.gram import KernelGram, LinearGram, clipped_gram
from tests.bags import indefinite_kernel


@pytest.fixture
def instances():
    return np.random.default_rng(0).normal(size=(40, 5))


def check(gram, matrix, rows):
    block = matrix[np.ix_(rows, rows)]
    assert gram.inner(rows, rows) == pytest.approx(block)
    assert gram.inner(rows[:2], rows) == pytest.approx(block[:2])
    coef = combination(rows, [1.0, -2.0, 0.0, 3.0])
    assert gram.scores(coef) == pytest.approx(coef @ matrix)


def combination(rows, coef, n=40):
    return np.bincount(rows, coef, minlength=n)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("cache_rows", [0, 10, 40])
def test_kernel_gram_equals_the_whole_matrix(instances, cache_rows, as_sparse):
    matrix = rbf_kernel(instances)
    given = sparse.csr_array(instances) if as_sparse else instances
    gram = KernelGram(given, rbf_kernel, cache_rows * 8 * 40)
    for rows in (np.array([3, 1, 7, 3]), np.array([30, 2, 8, 9]), np.arange(36, 40)):
        check(gram, matrix, rows)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_linear_gram_equals_the_whole_matrix(instances, as_sparse):
    matrix = instances @ instances.T
    gram = LinearGram(sparse.csr_array(instances) if as_sparse else instances)
    check(gram, matrix, np.array([3, 1, 7, 3]))


def test_each_row_is_computed_once(instances):
    counted = []

    def kernel(left, right):
        counted.append(len(left))
        return rbf_kernel(left, right)

    gram = KernelGram(instances, kernel, 10**6)
    for rows in (np.array([1, 2, 3]), np.array([2, 3, 4])):
        gram.inner(rows, rows)
    gram.scores(combination([4, 1], np.ones(2)))
    assert sum(counted) == 4


def test_the_cache_keeps_within_its_share(instances):
    gram = KernelGram(instances, rbf_kernel, 12 * 8 * 40)
    for first in range(0, 40, 5):
        gram.scores(combination(np.arange(first, first + 5), np.ones(5)))
    assert gram._rows.nbytes <= 12 * 8 * 40


def test_a_semidefinite_matrix_is_left_as_it_is(instances):
    gram = KernelGram(instances, rbf_kernel, 10**6)
    assert clipped_gram(gram) is gram
    # Several workers have a share of its cache each.
    assert clipped_gram(gram, n_workers=3).capacity == 13


def test_an_indefinite_matrix_loses_its_negative_part(instances):
    matrix = indefinite_kernel(instances, instances)
    values, vectors = np.linalg.eigh(matrix)
    assert values[0] < -1e-3
    nearest = (vectors * np.maximum(values, 0)) @ vectors.T
    share = f"{values[0] / np.abs(values).max():.1e}"
    with pytest.warns(UserWarning, match=rf"instances is indefinite .* is {share} of the largest"):
        gram = clipped_gram(KernelGram(instances, indefinite_kernel, 10**6))
    everything = np.arange(40)
    assert gram.inner(everything, everything) == pytest.approx(nearest, abs=1e-9)
    # The expansion reproduces the clipped scores through the kernel as it is.
    coef = combination([1, 8], [1.0, -0.5])
    assert matrix @ gram.expansion(coef) == pytest.approx(gram.scores(coef), abs=1e-9)


def test_workers_share_a_matrix_without_its_negative_part(instances):
    with pytest.warns(UserWarning, match="indefinite"):
        gram = clipped_gram(KernelGram(instances, indefinite_kernel, 10**6))
    arrays = []
    data = pickle.dumps(gram, protocol=5, buffer_callback=arrays.append)
    found = pickle.loads(data, buffers=[memoryview(each.raw()).toreadonly() for each in arrays])
    assert np.shares_memory(found._rows, gram._rows)
    check(found, gram._rows, np.array([3, 1, 7, 3]))
    coef = combination([1, 8], [1.0, -0.5])
    np.testing.assert_array_equal(found.expansion(coef), gram.expansion(coef))


def test_an_indefinite_matrix_too_large_for_the_cache_says_so(instances):
    gram = KernelGram(instances, sigmoid_kernel, 8 * 40 * 10)
    with pytest.raises(MemoryError, match=r"needs its whole matrix of 40 x 40 numbers .* raise"):
        clipped_gram(gram)


def test_threads_share_a_cache():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 6))
    matrix = rbf_kernel(X)
    n_threads = 8

    def slow_kernel(left, right):
        # Long enough for another thread to come in between.
        time.sleep(1e-3)
        return rbf_kernel(left, right)

    gram = KernelGram(X, slow_kernel, 10**8)
    barrier = threading.Barrier(n_threads)

    def ask(seed):
        mine = np.random.default_rng(seed)
        barrier.wait()
        worst = 0.0
        for _ in range(30):
            rows = mine.integers(0, 400, size=7)
            coef = combination(rows, mine.normal(size=7), 400)
            block = gram.inner(rows, rows)
            worst = max(worst, np.abs(block - matrix[np.ix_(rows, rows)]).max())
            worst = max(worst, np.abs(gram.scores(coef) - coef @ matrix).max())
        return worst

    with ThreadPoolExecutor(n_threads) as pool:
        assert max(pool.map(ask, range(n_threads))) < 1e-12


def test_scores_do_not_depend_on_what_else_the_cache_holds(instances):
    coef = combination([3, 8, 30], [0.3, -1.7, 2.9])
    alone = KernelGram(instances, rbf_kernel, 10**6)
    full = KernelGram(instances, rbf_kernel, 10**6)
    first = alone.scores(coef)
    assert np.array_equal(full.scores(coef), first)
    full.inner(np.arange(40), np.arange(40))
    assert np.array_equal(full.scores(coef), first)
