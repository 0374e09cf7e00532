"""Clipped scalings of instances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm
from sklearn.base import clone

from milearn import Bags
from milearn.preprocessing import ClippedScaler
from tests.common.common_checks import SCIKIT_LEARN_OF_SETTINGS, with_scikit_learn_checks

SCALINGS = ("standard", "minmax", "quantile")

SETTINGS = [ClippedScaler("minmax"), ClippedScaler("quantile"), ClippedScaler(with_mean=False)]


# The defaults run in tests/common.
@with_scikit_learn_checks(SETTINGS, only=SCIKIT_LEARN_OF_SETTINGS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def random_bags(seed=0, n_bags=40, d=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=n_bags)
    instances = rng.gamma(2.0, size=(sizes.sum(), d)) + np.arange(d)
    return Bags(instances, np.r_[0, np.cumsum(sizes)])


def memory_mapped(bags, folder):
    np.save(folder / "instances.npy", bags.instances)
    return Bags(np.load(folder / "instances.npy", mmap_mode="r"), bags.offsets)


def by_hand(scaling, train, new, clip):
    if scaling == "standard":
        return np.clip((new - train.mean(axis=0)) / train.std(axis=0), -clip, clip)
    if scaling == "minmax":
        low, high = train.min(axis=0), train.max(axis=0)
        return np.clip((new - low) / (high - low), 0.0, 1.0)
    # Ranks among the training instances, linear in between; at its ends the range of the normal
    # distribution is cut.
    out = np.empty_like(new)
    for j in range(new.shape[1]):
        ranks = np.interp(new[:, j], np.sort(train[:, j]), np.linspace(0, 1, len(train)))
        out[:, j] = np.clip(norm.ppf(ranks), -clip, clip)
    return out


@pytest.mark.parametrize("clip", [1.5, 3.0])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_equals_the_formula(scaling, clip):
    train, new = random_bags(), random_bags(1)
    new = new.with_instances(np.r_[new.instances[:-2], [[50.0] * 3, [-50.0] * 3]])
    scaler = ClippedScaler(scaling, clip=clip).fit(train)
    expected = by_hand(scaling, train.instances, new.instances, clip)
    scaled = scaler.transform(new)
    np.testing.assert_allclose(scaled.instances, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(scaled.offsets, new.offsets)
    np.testing.assert_array_equal(scaler.transform(new.instances), scaled.instances)
    bounds = (0.0, 1.0) if scaling == "minmax" else (-clip, clip)
    assert scaler.clip_ == bounds
    np.testing.assert_array_equal(scaled.instances[-2:], [[bounds[1]] * 3, [bounds[0]] * 3])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("unit", [2.0**-20, 2.0**-30, 2.0**-60])
def test_quantiles_do_not_depend_on_the_unit(unit, dtype):
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(dtype)
    model = ClippedScaler("quantile", n_quantiles=20)
    expected, scaled = model.fit_transform(X), X * np.array([1.0, unit, 1.0], dtype=dtype)
    found = model.fit_transform(scaled)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_constant_features_and_nan(scaling):
    train = random_bags()
    values = train.instances.copy()
    values[:, 1] = 0.1
    values[3, 0] = np.nan
    scaler = ClippedScaler(scaling).fit(train.with_instances(values))
    np.testing.assert_array_equal(scaler.constant_, [False, True, False])
    new = scaler.transform(np.array([[np.nan, 7.0, 3.0], [2.0, 0.1, 3.0]]))
    np.testing.assert_array_equal(np.isnan(new), [[True, False, False], [False, False, False]])
    np.testing.assert_array_equal(new[:, 1], 0.0)
    # A feature whose variance happens to be one is none.
    assert not ClippedScaler(scaling).fit([[-1.0], [1.0]]).constant_.any()


def test_sparse_instances_stay_sparse_and_are_not_centred():
    train = random_bags()
    values = train.instances * (np.random.default_rng(0).random(train.instances.shape) < 0.3)
    values[:, 2] = 0.0
    values[0, 0] = 1000.0
    bags = train.with_instances(sparse.csr_array(values))
    scaler = ClippedScaler(with_mean=False).fit(bags)
    scaled = scaler.transform(bags)
    deviation = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    assert scaled.instances.nnz == np.count_nonzero(values)
    np.testing.assert_allclose(scaled.instances.toarray(), np.clip(values / deviation, -3, 3))
    # A feature without an entry in training comes out as zero.
    new = scaler.transform(sparse.csr_matrix([[1.0, 0.0, 5.0]]))
    assert new.nnz == 1
    for scaling in SCALINGS:
        with pytest.raises(TypeError, match=r'choose ClippedScaler\("standard", with_mean=False\)'):
            ClippedScaler(scaling).fit(bags)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_memory_maps_and_types(scaling, dtype, tmp_path):
    bags = random_bags(2, n_bags=300)
    bags = bags.with_instances(bags.instances.astype(dtype))
    mapped = memory_mapped(bags, tmp_path)
    exact = bags.instances.astype(np.float64)
    expected = ClippedScaler(scaling).fit_transform(exact)
    scaled = ClippedScaler(scaling).fit_transform(mapped)
    assert scaled.dtype == (np.float32 if dtype == np.float16 else dtype)
    np.testing.assert_allclose(
        scaled.instances, expected, atol=1e-12 if dtype == np.float64 else 1e-4
    )


def test_the_subsample_of_quantiles(tmp_path):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(5000, 2))
    bags = Bags(values, np.arange(0, 5001, 5))
    mapped = memory_mapped(bags, tmp_path)
    for kind in (bags, mapped):
        scaler = ClippedScaler("quantile", subsample=500, n_quantiles=2000, random_state=0)
        scaled = scaler.fit_transform(kind).instances
        assert scaler.transformer_.quantiles_.shape == (500, 2)
        # The values are normal: they come out as they are, up to the sample.
        assert np.median(abs(scaled - values)) < 0.1
        np.testing.assert_array_equal(clone(scaler).fit_transform(kind).instances, scaled)


def test_the_subsample_of_quantiles_does_not_depend_on_the_order(tmp_path):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2000, 2))
    values[::7, 0] = np.nan
    bags = Bags(values, np.arange(0, 2001, 5))
    scaler = ClippedScaler("quantile", subsample=300, random_state=0)
    expected = scaler.fit(bags).transformer_.quantiles_
    permuted = Bags(values[rng.permutation(2000)], bags.offsets)
    for kind in (permuted, memory_mapped(permuted, tmp_path)):
        np.testing.assert_array_equal(scaler.fit(kind).transformer_.quantiles_, expected)


def test_errors():
    X = random_bags()
    for clip in (0, -1.0, "3", True, np.nan):
        with pytest.raises(ValueError, match="is not a positive number"):
            ClippedScaler(clip=clip).fit(X)
    assert not hasattr(ClippedScaler().fit(X), "inverse_transform")
