"""Rows that stay where they are against the matrix that they stand for."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import sparse

from milearn._bags.threads import working_threads
from milearn._solvers.common.row_stack import RowStack, stack_rows

SIGNS = [-1.0, 1.0, 1.0]


def parts_and_matrix(dtypes, *, ordered):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 5)).astype(t) for n, t in zip((30, 0, 47), dtypes, strict=True)]
    matrix = np.concatenate([s * p.astype(float) for s, p in zip(SIGNS, parts, strict=True)])
    order = rng.permutation(len(matrix)) if ordered else None
    return parts, order, matrix if order is None else matrix[order]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("dtypes", [["f4"] * 3, ["f8"] * 3, ["f4", "f8", "f4"]], ids=str)
def test_a_stack_is_the_matrix_with_all_digits(dtypes, ordered):
    parts, order, matrix = parts_and_matrix(dtypes, ordered=ordered)
    stack, rng = RowStack(parts, SIGNS, order, converted_numbers=5 * 7), np.random.default_rng(1)
    assert stack.shape == matrix.shape
    w, alpha = rng.normal(size=5), rng.normal(size=len(matrix))
    np.testing.assert_allclose(stack @ w, matrix @ w, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(stack.T @ alpha, matrix.T @ alpha, rtol=1e-12)
    rows = np.array([3, 70, 0, 3, 41])
    np.testing.assert_array_equal(stack[rows], matrix[rows])
    assert stack[rows].dtype == np.result_type(*dtypes)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("single_numbers", [100, 1000])
@pytest.mark.parametrize("dtypes", [["f8"] * 3, ["f4", "f8", "f4"]], ids=str)
def test_threads_share_the_pieces_of_a_stack(dtypes, single_numbers, ordered):
    parts, order, matrix = parts_and_matrix(dtypes, ordered=ordered)
    limits = {"converted_numbers": 10, "shared_numbers": 40, "single_numbers": single_numbers}
    rng = np.random.default_rng(1)
    w, alpha = rng.normal(size=5), rng.normal(size=len(matrix))
    results, threads = [], set()
    for n_jobs in (1, 3):
        stack = RowStack(parts, SIGNS, order, **limits)
        chunks = stack.chunks

        def looked(piece, chunks=chunks):
            threads.add(threading.get_ident())
            return chunks(piece)

        stack.chunks = looked
        with working_threads(n_jobs):
            found = stack @ w, stack.T @ alpha, stack.squared_norms, stack.largest_entries
        results.append(found)
    assert len(threads) > 1
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(one, several)
    np.testing.assert_allclose(results[0][2], (matrix**2).sum(axis=1), rtol=1e-13)
    np.testing.assert_array_equal(results[0][3], np.abs(matrix).max(axis=0))


def test_a_stack_without_rows_has_sums_of_nothing():
    stack = RowStack([np.zeros((0, 3))])
    np.testing.assert_array_equal(stack.T @ np.zeros(0), np.zeros(3))
    np.testing.assert_array_equal(stack.largest_entries, np.zeros(3))
    assert (stack @ np.zeros(3)).shape == stack.squared_norms.shape == (0,)


@pytest.mark.parametrize("limit", [0, 2**23])
def test_stacks_of_stacks_and_small_ones_are_the_same_rows(limit):
    parts, order, matrix = parts_and_matrix(["f4"] * 3, ordered=True)
    inner = stack_rows(parts, SIGNS, order, one_array_bytes=limit)
    assert isinstance(inner, RowStack) == (limit == 0)
    turned = np.arange(2 * len(matrix))[::-1]
    outer = stack_rows([inner, inner], [1.0, -1.0], turned, one_array_bytes=limit)
    expected = np.concatenate([matrix, -matrix])[turned]
    w = np.arange(5.0)
    np.testing.assert_allclose(outer @ w, expected @ w, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(outer[np.arange(len(expected))], expected)
    if limit == 0:
        # Nothing was copied.
        assert [part is parts[i % 3] for i, part in enumerate(outer.parts)] == [True] * 6
        assert stack_rows([outer]) is outer


def test_sparse_rows_are_stacked():
    parts = [
        sparse.random_array((4, 6), density=0.5, format="csr", random_state=i) for i in range(2)
    ]
    found = stack_rows(parts, [-1.0, 1.0], np.array([7, 0, 3]))
    expected = np.concatenate([-parts[0].toarray(), parts[1].toarray()])[[7, 0, 3]]
    np.testing.assert_array_equal(found.toarray(), expected)


@pytest.mark.parametrize("ordered", [False, True])
def test_large_stacks_have_products_in_single_precision(ordered):
    parts, order, matrix = parts_and_matrix(["f4", "f8", "f4"], ordered=ordered)
    stack, rng = RowStack(parts, SIGNS, order, single_numbers=100), np.random.default_rng(1)
    w, alpha = rng.normal(size=5), rng.normal(size=len(matrix))
    scores, sums = stack @ w, stack.T @ alpha
    assert scores.dtype == sums.dtype == np.float64
    np.testing.assert_allclose(scores, matrix @ w, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sums, matrix.T @ alpha, rtol=1e-5, atol=1e-5)
    # Rows in float64 have all digits.
    exact = RowStack([parts[2].astype(float)], [1.0], single_numbers=1)
    np.testing.assert_allclose(exact @ w, parts[2].astype(float) @ w, rtol=1e-13)
