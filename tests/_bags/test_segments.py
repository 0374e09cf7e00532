"""Reductions over bags against loops that cannot be wrong."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from milearn._bags.segments import (
    pooling_matrix,
    segment_argmax,
    segment_max,
    segment_mean,
    segment_min,
    segment_rank,
    segment_sum,
)

REDUCTIONS = {
    segment_max: np.max,
    segment_min: np.min,
    segment_sum: np.sum,
    segment_mean: np.mean,
}


def _case(seed: int, columns: int | None, dtype=np.float64, largest: int = 6):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=rng.integers(1, 30))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shape = offsets[-1] if columns is None else (offsets[-1], columns)
    # Few distinct values: ties in almost every case.
    return rng.integers(-3, 4, size=shape).astype(dtype), offsets


def _bags(values, offsets):
    return [values[start:stop] for start, stop in pairwise(offsets)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("columns", [None, 1, 3, 40])
@pytest.mark.parametrize("function", REDUCTIONS, ids=["max", "min", "sum", "mean"])
def test_reduction_equals_a_loop(function, columns, dtype):
    for seed in range(10):
        # Extremes of large and wide bags are computed bag by bag.
        values, offsets = _case(seed, columns, dtype, largest=40 if columns == 40 else 6)
        blocks = _bags(values, offsets)
        expected = np.stack([REDUCTIONS[function](block, axis=0) for block in blocks])
        result = function(values, offsets)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_argmax_equals_a_loop_and_the_first_row_wins_a_tie(columns):
    for seed in range(20):
        values, offsets = _case(seed, columns)
        expected = np.stack(
            [
                start + np.argmax(block, axis=0)
                for start, block in zip(offsets[:-1], _bags(values, offsets), strict=True)
            ]
        )
        np.testing.assert_array_equal(segment_argmax(values, offsets), expected)


def test_special_values():
    # A value that is no number wins inside its own bag; sums of small types do not overflow.
    values = np.array([1.0, np.nan, 3.0, 4.0])
    np.testing.assert_array_equal(segment_argmax(values, np.array([0, 2, 4])), [1, 3])
    np.testing.assert_array_equal(segment_sum(np.full(4, 100, np.int8), np.array([0, 4])), [400])
    halves = np.full((4, 2), 40_000, np.float16)
    np.testing.assert_array_equal(segment_mean(halves, np.array([0, 4])), [[40_000.0] * 2])
    assert segment_mean(np.ones(3, dtype=np.float32), np.array([0, 1, 3])).dtype == np.float32
    values = np.array([2.0, 5.0, 3.0, 7.0, 1.0, 4.0])
    np.testing.assert_array_equal(segment_rank(values, np.array([0, 3, 4, 6])), [2, 0, 1, 0, 1, 0])


@pytest.mark.parametrize("seed", range(5))
def test_pooling_matrix_is_the_reduction(seed):
    values, offsets = _case(seed, 3)
    weights = np.random.default_rng(seed).random(len(values))
    mean, whole = segment_mean(values, offsets), sparse.csr_array(values)
    for found, expected in (
        (pooling_matrix(offsets) @ values, mean),
        (pooling_matrix(offsets, 1.0) @ values, segment_sum(values, offsets)),
        (
            pooling_matrix(offsets, weights) @ values,
            segment_sum(weights[:, None] * values, offsets),
        ),
        ((pooling_matrix(offsets) @ whole).toarray(), mean),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-14)
    # 64-bit indices would make those of every product with it 64-bit.
    assert pooling_matrix(offsets, dtype=np.float32).indices.dtype == np.int32
