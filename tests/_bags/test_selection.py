"""Selection of bags and features from the container."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags
from tests._bags.kinds import (
    KINDS,
    assert_canonical,
    assert_same,
    assert_selected,
    blocks_of,
    dense,
)

# -- selection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 3, -1, -4, np.int32(2), np.array(1)])
def test_integer_gives_a_block(bags, position):
    block = bags[position]
    assert not isinstance(block, Bags)
    assert block.ndim == 2
    np.testing.assert_array_equal(dense(block), blocks_of(bags)[int(position)])


@pytest.mark.parametrize(
    "key",
    [
        slice(1, 3),
        slice(-2, None),
        slice(0, 0),
        slice(4, 9),
        slice(None, None, 2),
        slice(3, 0, -2),
        [2, 0],
        [1, 1, 3],
        [-1, -4, 2],
        [],
        np.array([3, 1], dtype=np.int8),
        np.array([3, 1], dtype=np.uint64),
        (np.array([2, 0]), Ellipsis),
        ([2, 0], slice(None)),
        range(1, 3),
        [True, False, False, True],
        (np.array([True, False, False, True]), Ellipsis),
        np.zeros(4, dtype=bool),
    ],
    ids=str,
)
def test_selections(bags, key):
    rows = key[0] if isinstance(key, tuple) else key
    if not isinstance(rows, slice):
        rows = np.array(rows) if len(rows) else np.array([], dtype=int)
    assert_selected(bags[key], bags, np.arange(4)[rows].tolist())


def test_slice_is_a_view():
    bags = KINDS["graphs"]()
    assert np.shares_memory(bags[1:3].instances, bags.instances)
    assert np.shares_memory(bags[1], bags.instances)
    assert bags[:] is bags[...] is bags[..., :] is bags
    assert not np.shares_memory(bags[::2].instances, bags.instances)
    csr = Bags.singletons(sparse.csr_array(np.arange(1.0, 31.0).reshape(10, 3)))
    assert np.shares_memory(csr[1:9].instances.data, csr.instances.data)
    assert_selected(csr[1:9], csr, list(range(1, 9)))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (4, "Bag 4 is out of range for 4 bags."),
        (-5, "Bag -5 is out of range for 4 bags."),
        ([0, 4], "Bags are selected by integers or a mask: index 4 is out of bounds"),
        ([0, -5], "Bags are selected by integers or a mask: index -5 is out of bounds"),
        ([True, False], "Bags are selected by integers or a mask: boolean index did not match"),
        ([0.0, 1.0], "Bags are selected by integers or a mask: arrays used as indices must be"),
        (["a"], "Bags are selected by integers or a mask: arrays used as indices must be"),
        ([[0]], "Bags are selected by an integer, a slice or a 1-D index."),
        (True, "Bags are selected by an integer, a slice or a 1-D index."),
        (None, "Bags are selected by an integer, a slice or a 1-D index."),
        (1.0, "Bags are selected by an integer, a slice or a 1-D index."),
        ((0, 1, 2), "Bags take one index for bags and one for features."),
    ],
    ids=str,
)
def test_wrong_index(bags, key, message):
    with pytest.raises(IndexError, match=f"^{re.escape(message)}"):
        bags[key]


@pytest.mark.parametrize(
    "columns",
    [
        [0, 2],
        [2, 0, 0],
        np.array([True, False, True]),
        [True, False, True],
        slice(1, None),
        slice(None, None, -1),
        [-1],
        [],
    ],
    ids=str,
)
def test_columns(bags, columns):
    picked = bags[:, columns]
    index = columns if isinstance(columns, slice) or len(columns) else np.empty(0, int)
    expected = dense(bags.instances)[:, index]
    np.testing.assert_array_equal(dense(picked.instances), expected)
    assert picked.shape == (4, expected.shape[1])
    np.testing.assert_array_equal(picked.offsets, bags.offsets)
    assert_canonical(picked)
    if bags.feature_names is not None:
        assert picked.feature_names.tolist() == bags.feature_names[index].tolist()
    if bags.bag_graph is not None:
        np.testing.assert_array_equal(picked.bag_graph.toarray(), bags.bag_graph.toarray())
        assert picked.instance_graph is not None


def test_bags_and_columns_together(bags):
    assert_same(bags[[2, 0], [1]], bags[[2, 0]][:, [1]])
    assert_same(bags[1:3, :2], bags[1:3][:, :2])
    np.testing.assert_array_equal(dense(bags[2, [0, 1]]), blocks_of(bags)[2][:, [0, 1]])
    assert bags[:, 1].shape == (4, 1)
    for columns in (5, [3], [True, False]):
        with pytest.raises(IndexError):
            bags[:, columns]


def test_columns_by_name():
    bags = KINDS["named"]()
    picked = bags[:, ["c", "a"]]
    assert picked.feature_names.tolist() == ["c", "a"]
    np.testing.assert_array_equal(picked.instances, bags.instances[:, [2, 0]])
    assert bags[:, "b"].feature_names.tolist() == ["b"]
    with pytest.raises(IndexError, match=r"^The bags have no feature named 'z', 'y'\.$"):
        bags[:, ["z", "a", "y"]]
    with pytest.raises(IndexError, match=r"^The bags have no feature named 'a'\.$"):
        KINDS["dense"]()[:, ["a"]]
