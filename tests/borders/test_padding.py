"""Padded arrays become bags without their padding, or are refused with the remedy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags
from milearn.svm import MISVC

SIZES = np.array([3, 1, 4, 2])


@pytest.fixture
def blocks():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, 2)) for size in SIZES]


def padded(blocks, value, *, before=False):
    X = np.full((len(blocks), 4, 2), value)
    for row, block in zip(X, blocks, strict=True):
        row[slice(-len(block), None) if before else slice(len(block))] = block
    return X


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_lengths_and_masks(blocks, value):
    X, valid = padded(blocks, value), np.arange(4) < SIZES[:, None]
    masked = np.ma.array(X, mask=np.repeat(~valid[..., None], 2, axis=2))
    for found in (
        Bags.from_padded(X, lengths=SIZES.tolist()),
        Bags.from_padded(X, mask=valid),
        Bags.from_padded(X, mask=valid.astype(int).tolist()),
        Bags.from_padded(padded(blocks, value, before=True), mask=valid[:, ::-1]),
        Bags.from_padded(masked),
    ):
        assert found.equals(Bags.from_list(blocks))


def test_names_columns_and_data_are_kept(blocks):
    coords = np.arange(32).reshape(4, 4, 2)
    X = Bags.from_padded(
        padded(blocks, np.nan),
        lengths=SIZES,
        names=["d", "b", "c", "a"],
        feature_names=["u", "v"],
        bag_data={"age": [1, 2, 3, 4]},
        instance_data={"coords": coords},
    )
    assert X.names.tolist() == ["d", "b", "c", "a"]
    assert X[1:2].instance_data.to_numpy().tolist() == [[8, 9]]
    assert X[[3]].bag_data["age"].tolist() == [4]
    assert X.feature_names.tolist() == ["u", "v"]


def test_masked_values_within_instances_are_missing(blocks):
    X = np.ma.masked_invalid(padded(blocks, np.nan))
    X[0, 1, 0] = np.ma.masked
    bags = Bags.from_padded(X)
    assert bags.sizes.tolist() == SIZES.tolist()
    assert np.isnan(bags.instances).tolist() == [[at == 1, False] for at in range(10)]


@pytest.mark.parametrize(("given", "message"), [
    ({}, "Pass either lengths=.*mask=~np.isnan"),
    ({"lengths": SIZES, "mask": np.ones((4, 4))}, "Pass either"),
    ({"lengths": SIZES[:3]}, "lengths must hold a whole number up to 4 for each of 4 bags"),
    ({"lengths": SIZES + 1}, "lengths must hold a whole number up to 4"),
    ({"lengths": SIZES - 1}, "Bag 1 is nothing but padding"),
    ({"lengths": SIZES - 1, "names": ["a", "b", "c", "d"]}, "Bag 'b' is nothing but padding"),
    ({"mask": np.ones((4, 4, 2))}, r"mask must have shape \(4, 4\), True for instances"),
    ({"mask": np.arange(4) >= SIZES[:, None]}, "Bag 2 is nothing but padding.*pass ~mask"),
    ({"lengths": SIZES, "instance_data": {"row": np.arange(10)}}, r"pad it as X, to \(4, 4\)"),
])  # fmt: skip
def test_refused(blocks, given, message):
    with pytest.raises(ValueError, match=message):
        Bags.from_padded(padded(blocks, 0.0), **given)
    with pytest.raises(ValueError, match=r"X has 2 dimension\(s\)"):
        Bags.from_padded(np.ones((3, 4)), lengths=[1, 2, 3])


def test_masked_arrays_are_refused_everywhere(blocks):
    X = np.ma.masked_invalid(padded(blocks, np.nan))
    fitted = MISVC().fit(Bags.from_padded(X), [0, 1, 0, 1])
    for call in (
        lambda: MISVC().fit(X, [0, 1, 0, 1]),
        lambda: fitted.predict([*X]),
        lambda: Bags.from_list(dict(zip("abcd", X, strict=True))),
        lambda: Bags.from_ids(X[0], [1, 1, 2, 2]),
        lambda: Bags.singletons(X[0]),
        lambda: fitted.instance_decision_function(X),
        lambda: Bags.from_padded(X).with_instance_data(row=np.ma.masked_less(np.arange(10), 3)),
    ):
        with pytest.raises(TypeError, match=r"masked array, whose mask would be ignored.*from_pad"):
            call()
    nothing = np.ma.array(np.ones((2, 3, 2)))
    assert MISVC().fit(nothing, [0, 1]).predict(nothing).shape == (2,)


def test_nan_of_padding_and_of_measurements(blocks):
    X = padded(blocks, np.nan)
    with pytest.raises(ValueError, match=r"^Bag 0 contains NaN \(instance row 3\).*from_padded"):
        MISVC().fit(X, [0, 1, 0, 1])
    bags = Bags.from_list(dict(zip("abcd", X, strict=True)))
    with pytest.raises(ValueError, match=r"^Bag 'a' contains NaN.*select_instances.*Otherwise imp"):
        MISVC().fit(bags, [0, 1, 0, 1])
    left = bags.select_instances(~np.isnan(bags.instances).all(axis=1))  # the remedy
    assert left.sizes.tolist() == SIZES.tolist()
    one = Bags.from_list(blocks).with_instances(np.where(np.eye(10, 2, -6), np.nan, 1.0))
    with pytest.raises(ValueError, match=r"^Bag 2 contains NaN \(instance row 6\): impute it"):
        MISVC().fit(one, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="NaN"):
        MISVC().fit(Bags.from_list([sparse.csr_array([[np.nan]]), np.ones((1, 1))]), [0, 1])


def test_padding_of_zeros_is_named(blocks):
    with pytest.warns(UserWarning, match="6 of 16 instances consist of zeros, the first in bag 0"):
        MISVC().fit(padded(blocks, 0.0), [0, 1, 0, 1])
