"""Distinct points: order, format, and rows of one hash."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context

from milearn._solvers.ensemble import points
from milearn._solvers.ensemble.points import distinct_points


def test_distinct_points_do_not_depend_on_order_or_format():
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(300, 3)).astype(float)
    rows, point_of = distinct_points(X)
    assert len(rows) == len(np.unique(X, axis=0))
    assert (X[rows[point_of]] == X).all()
    shuffled = rng.permutation(300)
    moved, _ = distinct_points(X[shuffled])
    assert (X[shuffled][moved] == X[rows]).all()
    sparse_rows, sparse_points = distinct_points(sparse.csr_array(X))
    assert (point_of == sparse_points).all()
    assert (rows == sparse_rows).all()
    assert (distinct_points(np.where(X == 0, -0.0, X))[1] == point_of).all()


def unmixed(z):
    """The bits that the finaliser of SplitMix64 maps to z."""

    def unshifted(z, shift):
        return z ^ (z >> shift) ^ (z >> 2 * shift)

    z = unshifted(z, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    z = unshifted(z, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return unshifted(z, 30)


def rows_of_one_hash(n):
    """Different finite rows of two features whose hashes are equal."""
    golden = int(points._GOLDEN)
    wanted = int(points._hashes(np.array([[1.0, 2.0]]))[0])
    rows = [[1.0, 2.0]]
    first = 3.0
    while len(rows) < n:
        part = int(points._hashes(np.array([[first, 0.0]]))[0])
        bits = (unmixed((wanted - part) % 2**64) - 2 * golden) % 2**64
        second = float(np.array([bits], dtype=np.uint64).view(np.float64)[0])
        if np.isfinite(second) and second != 0.0:
            rows.append([first, second])
        first += 1.0
    return np.array(rows)


@pytest.mark.parametrize("build", [np.asarray, sparse.csr_array])
def test_rows_of_one_hash_are_told_apart_by_their_values(build):
    same = rows_of_one_hash(3)
    assert len(np.unique(points._hashes(same))) == 1
    X = np.concatenate([same, [[5.0, 6.0]], same[::-1]])
    rows, point_of = distinct_points(build(X))
    assert len(rows) == 4
    assert (X[rows[point_of]] == X).all()
    shuffled = np.random.default_rng(0).permutation(len(X))
    moved, _ = distinct_points(build(X[shuffled]))
    assert (X[shuffled][moved] == X[rows]).all()


def test_blocks_do_not_change_the_points():
    X = np.random.default_rng(0).integers(-2, 3, size=(300, 3)).astype(float)
    X[17:20] = rows_of_one_hash(3)[:, [0, 1, 1]] * [1.0, 1.0, 0.0]
    whole = distinct_points(X)
    with config_context(working_memory=1e-3):
        blocks = distinct_points(X)
    for one, other in zip(whole, blocks, strict=True):
        assert (one == other).all()
