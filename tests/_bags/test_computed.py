"""Rows that are computed when they are read."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest

from milearn import Bags
from milearn._bags.computed import computed_when_read, read_in_blocks
from milearn._bags.storage import is_read_in_blocks


def doubled(rows, by=2.0):
    rows *= by
    rows += 1.0


@pytest.fixture(params=["map", "memory"])
def stored(request, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float16)
    offsets = np.r_[0, np.cumsum(np.arange(1, 11)), 60]
    names = [f"f{column}" for column in range(5)]
    if request.param == "map":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    return Bags(X, offsets, feature_names=names)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("piece_bytes", [1, 100, 2**20])
def test_slices_rows_selections_and_blocks(stored, dtype, piece_bytes):
    bags = computed_when_read(stored, doubled, dtype, piece_bytes)
    expected = stored.instances.astype(dtype) * dtype(2.0) + dtype(1.0)
    assert bags.dtype == dtype
    assert bags.feature_names is None
    assert is_read_in_blocks(bags)
    np.testing.assert_array_equal(bags.instance_rows[7:31], expected[7:31])
    rows = np.array([40, 3, 3, 59])
    np.testing.assert_array_equal(bags.instance_rows[rows], expected[rows])
    np.testing.assert_array_equal(bags.instance_rows[4], expected[4])
    np.testing.assert_array_equal(bags[3], expected[6:10])
    order = np.array([9, 2, 5, 2])
    np.testing.assert_array_equal(
        bags[order].instances, np.concatenate([expected[stored.bag_index == bag] for bag in order])
    )
    merged = bags.merge(np.arange(11) % 2)
    half = np.r_[stored.bag_index % 2 == 0, stored.bag_index % 2 == 1]
    np.testing.assert_array_equal(merged.instances, np.tile(expected, (2, 1))[half])
    source = bags.source(block_bytes=8 * 5 * 7)
    blocks = [block.instances for block in source.blocks()]
    assert len(blocks) > 3
    np.testing.assert_array_equal(np.concatenate(blocks), expected)
    scores = source.map(type(next(source.blocks())).scores, np.ones(5), in_parts=True)
    np.testing.assert_allclose(np.concatenate(scores), expected.sum(axis=1), atol=1e-4)


def test_pickles_hold_the_file_and_the_function(stored):
    bags = computed_when_read(stored, partial(doubled, by=3.0), np.float32)
    for each in (bags, bags[[8, 1]]):
        data = pickle.dumps(each)
        np.testing.assert_array_equal(pickle.loads(data).instances, each.instances)
    assert computed_when_read(stored, doubled, np.float32).instance_rows.dtype == np.float32


def test_instances_in_memory_are_not_copied():
    bags = Bags(np.zeros((4, 2), dtype=np.float16), [0, 1, 4])
    held = read_in_blocks(bags)
    assert read_in_blocks(held) is held
    assert np.shares_memory(held.instance_rows.matrix, bags.instances)
    assert np.shares_memory(held[[1, 0]].instance_rows.matrix, bags.instances)
