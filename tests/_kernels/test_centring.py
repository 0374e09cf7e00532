"""The point that is subtracted from features far from zero."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn._kernels.centring import centre_of


def features(*, shift, n=200):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)) * [1e-3, 1.0, 1e3] + shift


def test_each_feature_is_measured_by_its_own_standard_deviation():
    X = features(shift=100.0)
    centre = centre_of(X)
    assert centre == pytest.approx([100.0, 100.0, 0.0], abs=1.0)
    assert centre[2] == 0.0
    assert centre_of(X, deviations=1e3) == pytest.approx([100.0, 0.0, 0.0], abs=1.0)
    assert centre_of(features(shift=0.0)) is None


def test_a_constant_feature_is_far_from_zero():
    X = features(shift=0.0)
    X[:, 1] = 7.0
    np.testing.assert_array_equal(centre_of(X), [0.0, 7.0, 0.0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_differences_are_exact_in_the_type_of_the_instances(dtype):
    X = features(shift=1e3)[:, :2].astype(dtype)
    centre = centre_of(X)
    np.testing.assert_array_equal(X - centre.astype(dtype), X.astype(np.float64) - centre)


def test_sparse_and_mapped_and_empty_instances_stay_as_they_are(tmp_path):
    X = features(shift=1e5)
    assert centre_of(sparse.csr_array(X)) is None
    np.save(tmp_path / "X.npy", X)
    assert centre_of(np.load(tmp_path / "X.npy", mmap_mode="r")) is None
    assert centre_of(X[:0]) is None
