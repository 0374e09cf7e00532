"""Windows of time series as instances, against loops; the advice where series are given as bags."""

from __future__ import annotations

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from milearn import Bags
from milearn.svm import MISVC


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(
    channels=st.integers(1, 3),
    times=st.lists(st.integers(4, 15), min_size=1, max_size=4),
    length=st.integers(1, 4),
    step=st.sampled_from([None, 1, 2, 5, 20]),
    dtype=st.sampled_from([np.float64, np.float32, np.int16]),
)
def test_equals_a_loop_over_windows(channels, times, length, step, dtype):
    rng = np.random.default_rng(0)
    series = [rng.integers(-99, 99, size=(channels, time)).astype(dtype) for time in times]
    bags = Bags.from_series(series, length, step)
    jump = length if step is None else step
    for bag, values in zip(bags, series, strict=True):
        expected = []
        start = 0
        while start + length <= values.shape[1]:
            expected.append([values[c, start + t] for c in range(channels) for t in range(length)])
            start += jump
        np.testing.assert_array_equal(bag, expected)
    starts = [jump * at for bag in bags for at in range(len(bag))]
    np.testing.assert_array_equal(bags.instance_data["start"], starts)
    assert bags.dtype == (np.float32 if dtype == np.float32 else np.float64)


@pytest.mark.parametrize(
    ("X", "arguments", "error", "match"),
    [
        ([], (2,), ValueError, "No series"),
        ([1.0, 2.0], (2,), ValueError, r"Series 0 has the shape \(\): .* \(time,\) or \(channels,"),
        ([np.ones((9, 2))], (4,), ValueError, r"2 time points.*pass channels_last=True\.$"),
        ([np.ones((1, 5)), np.ones((2, 5))], (2,), ValueError, "Series 1 has 2 channels but"),
        ([[[1, 2], [1]]], (1,), ValueError, "Series 0 has rows of different lengths"),
        ([[["a", "b"]]], (1,), ValueError, "Series 0 holds"),
        (np.ones((2, 1, 5)), (0,), ValueError, "length == 0, must be >= 1"),
        (np.ones((2, 1, 5)), (2, 0), ValueError, "step == 0, must be >= 1"),
    ],
)
def test_refuses(X, arguments, error, match):
    with pytest.raises(error, match=match):
        Bags.from_series(X, *arguments)


def test_one_channel_and_channels_last():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(2, time)) for time in (7, 4, 9)]
    expected = Bags.from_series(series, 3, 2)
    turned = [pd.DataFrame(values.T, columns=["a", "b"]) for values in series]
    one = Bags.from_series([values[:1] for values in series], 3, 2)
    for bags, other in [
        (Bags.from_series(turned, 3, 2, channels_last=True), expected),
        (Bags.from_series([values[0] for values in series], 3, 2), one),
        (Bags.from_series([values[0].tolist() for values in series], 3, 2), one),
        (Bags.from_series([values[0] for values in series], 3, 2, channels_last=True), one),
    ]:
        np.testing.assert_array_equal(bags.instances, other.instances)
        np.testing.assert_array_equal(bags.offsets, other.offsets)
    whole = rng.normal(size=(5, 2, 10))  # as aeon and sktime hold series
    bags = Bags.from_series(whole, 5)
    assert bags.sizes.tolist() == [2] * 5
    np.testing.assert_array_equal(bags[3][1], whole[3, :, 5:].ravel())
    X = rng.normal(size=(4, 6))
    np.testing.assert_array_equal(Bags.from_series(X, 3).instances, X.reshape(8, 3))
    with pytest.raises(ValueError, match=r"Series 0 has the shape \(\): .* \(time, channels\)"):
        Bags.from_series([1.0], 1, channels_last=True)


def test_series_of_different_lengths_given_as_bags_are_refused_with_the_remedy():
    series = [np.ones((2, time)) for time in (10, 12, 9)]
    for take in (Bags.from_list, lambda X: MISVC().fit(X, [0, 1, 0])):
        with pytest.raises(ValueError, match=r"12 features but .*2 row.*Bags\.from_series"):
            take(series)
