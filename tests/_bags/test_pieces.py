"""Rows in pieces, from memory and from files, against the whole array."""

from __future__ import annotations

import os
import pickle
from itertools import pairwise

import numpy as np
import pytest

from milearn import Bags
from milearn._bags.blocks import ArraySource
from milearn._bags.pieces import Buffer, StoredRows, from_halves, pieces_of

TYPES = [np.float16, np.float32, np.float64]


def all_finite_halves():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    return halves[np.isfinite(halves)]


def some_rows(dtype, n=150, d=3):
    return np.random.default_rng(0).normal(size=(n, d)).astype(dtype)


def as_map(path, matrix, *, every=1):
    """Rows of a memory map as a container gives them; of bags of ten, every second if asked."""
    np.save(path, matrix)
    bags = Bags(np.load(path, mmap_mode="r"), np.arange(0, len(matrix) + 1, 10))[::every]
    return bags.instance_rows


def test_halves_become_the_same_numbers_in_single_precision():
    halves = all_finite_halves()
    out = from_halves(halves, np.empty(len(halves), np.float32))
    expected = halves.astype(np.float32)
    np.testing.assert_array_equal(out.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("asked", TYPES[1:])
@pytest.mark.parametrize("stored", TYPES)
@pytest.mark.parametrize("every", [1, 2])
def test_pieces_are_the_rows(tmp_path, stored, asked, every):
    whole = some_rows(stored)
    chosen = whole.reshape(15, 10, 3)[::every].reshape(-1, 3)
    buffer = Buffer()
    for rows in (chosen, as_map(tmp_path / "x.npy", whole, every=every)):
        for start, stop in pairwise([0, 1, 70, len(chosen)]):
            part = StoredRows(rows, start, stop, np.dtype(asked), buffer)
            expected = chosen[start:stop].astype(asked)
            for piece_bytes in (1, 2**20):
                found = [piece.copy() for piece in part.pieces(asked, piece_bytes)]
                np.testing.assert_array_equal(np.concatenate(found), expected)
            some = np.arange(stop - start)[::-2]
            np.testing.assert_array_equal(part.take(some), expected[some])
            np.testing.assert_array_equal(part.take(some[:1]), expected[some[:1]])
            np.testing.assert_array_equal(part.whole, expected)
            assert part.whole.dtype == part.take(some).dtype == asked
    assert next(len(piece) for piece in pieces_of(rows, stored, 1)) == 64


@pytest.mark.parametrize("stored", TYPES)
def test_a_block_may_be_used_after_the_next_one(tmp_path, stored):
    whole = some_rows(stored)
    rows = as_map(tmp_path / "x.npy", whole)
    source = ArraySource(rows, np.arange(0, 151, 10), block_bytes=8 * 3 * 50)
    blocks, w = list(source.blocks()), np.array([1.0, -2.0, 0.5])
    assert len(blocks) == 3
    expected = whole.astype(float) @ w
    for block in (blocks[0], blocks[2], blocks[0], blocks[1]):
        # The rows of another block are in the memory for one block by now.
        scores = block.scores(w, precise=True)
        np.testing.assert_allclose(scores, expected[block.rows], rtol=1e-14, atol=1e-14)
        some = np.array([7, 30, 2])
        np.testing.assert_array_equal(block.take(some), whole[block.rows][some].astype(float))
        held = block.instances
        list(blocks[1].stored.pieces(np.float64, 1))
        np.testing.assert_array_equal(held, whole[block.rows])
        np.testing.assert_array_equal(block.instances, whole[block.rows])


def test_pieces_of_two_blocks_in_turn(tmp_path):
    whole = some_rows(np.float32, n=300)
    rows = as_map(tmp_path / "x.npy", whole)
    buffer = Buffer()
    one, other = (StoredRows(rows, *place, rows.dtype, buffer) for place in ((0, 150), (150, 300)))
    pieces = one.pieces(np.float32, 1)
    next(pieces)
    next(other.pieces(np.float32, 1))
    next(pieces)
    # The first piece was lost with the memory.
    everything = np.arange(150)
    np.testing.assert_array_equal(one.take(everything), whole[:150])
    np.testing.assert_array_equal(other.take(everything), whole[150:])


@pytest.mark.parametrize("stored", TYPES)
@pytest.mark.parametrize("precise", [False, True])
def test_scores_and_sums_of_a_map_are_those_of_the_array(tmp_path, stored, precise):
    whole, rng = some_rows(stored, n=5_000, d=40), np.random.default_rng(1)
    offsets = np.arange(0, 5_001, 10)
    w, weights = rng.normal(size=40), rng.normal(size=5_000)
    rows = as_map(tmp_path / "x.npy", whole)
    results = []
    for made in (whole, rows):
        (block,) = ArraySource(made, offsets).blocks()
        assert block.dtype == (np.float64 if stored == np.float64 else np.float32)
        scores = block.scores(w, precise=precise)
        several = block.scores(np.stack([w, -w], axis=1), precise=precise)
        np.testing.assert_allclose(several, np.stack([scores, -scores], axis=1), atol=1e-5)
        results.append((scores, block.weighted_sum(np.arange(5_000), weights)))
    exact = whole.astype(np.float64)
    for scores, total in results:
        tol = 1e-12 if precise or stored == np.float64 else 1e-5
        np.testing.assert_allclose(scores, exact @ w, rtol=tol, atol=10 * tol)
        np.testing.assert_allclose(total, exact.T @ weights, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(results[0][0], results[1][0])


@pytest.mark.parametrize("changed", ["removed", "replaced"])
def test_a_file_that_is_gone_is_read_from_its_map(tmp_path, changed):
    path, whole = tmp_path / "x.npy", some_rows(np.float32)
    rows = as_map(path, whole)
    if changed == "removed":
        os.remove(path)
    else:
        np.save(tmp_path / "other.npy", whole + 1)
        os.replace(tmp_path / "other.npy", path)
    np.testing.assert_array_equal(rows.read(3, 90, np.float64), whole[3:90])
    np.testing.assert_array_equal(np.concatenate([*pieces_of(rows, np.float32)]), whole)


def test_a_file_that_became_shorter_is_an_error(tmp_path):
    path, whole = tmp_path / "x.npy", some_rows(np.float32)
    rows = as_map(path, whole)
    os.truncate(path, path.stat().st_size - 100)
    with pytest.raises(OSError, match="shorter"):
        rows.read(100, 150, np.float32)


def test_a_pickled_source_has_memory_of_its_own():
    source = ArraySource(some_rows(np.float32), np.array([0, 150]))
    again = pickle.loads(pickle.dumps(source))
    assert again.map(len_of) == [150]


def len_of(block):
    return len(block.scores(np.ones(3)))
