"""Properties that hold for all bags: of the container, the splitters, the kernels and the files.

Hypothesis draws the bags: bags of one, repeated instances, zeros of both signs, values of huge and
tiny scales, dense and CSR.
"""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import sparse

from milearn import Bags
from milearn.datasets import load_bags, save_bags
from milearn.metrics import bag_distances, bag_kernel
from milearn.model_selection import BagShuffleSplit, StratifiedBagKFold

# The draws are the same in every run: a failure is a change of the code.
few = hypothesis.settings(max_examples=15, deadline=None, derandomize=True, database=None)
VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 7.25, -3e5, 1e-7, 2.0**40])
TAME = st.sampled_from([0.0, 1.0, -1.0, 0.1, 1 / 3, 2.5])

EITHER = st.booleans()


@st.composite
def bags(draw, min_bags=1, values=VALUES, csr=EITHER):
    sizes = draw(st.lists(st.integers(1, 5), min_size=min_bags, max_size=9))
    width = draw(st.integers(1, 4))
    rows = draw(st.lists(values, min_size=sum(sizes) * width, max_size=sum(sizes) * width))
    matrix = np.array(rows).reshape(-1, width)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(sparse.csr_array(matrix) if draw(csr) else matrix, offsets)


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def listed(some):
    return [dense(block).tolist() for block in some]


# -- container -------------------------------------------------------------------------------------


@few
@hypothesis.given(some=bags(), data=st.data())
def test_indexing_is_that_of_a_list_of_bags(some, data):
    expected = listed(some)
    positions = data.draw(st.lists(st.integers(-len(some), len(some) - 1), min_size=1, max_size=6))
    assert listed(some[positions]) == [expected[at] for at in positions]
    again = data.draw(st.lists(st.integers(0, len(positions) - 1), min_size=1, max_size=4))
    assert listed(some[positions][again]) == listed(some[np.array(positions)[again]])
    part = data.draw(st.slices(len(some)))
    if expected[part]:
        assert listed(some[part]) == expected[part]
    taken = np.array(data.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some))))
    if taken.any():
        assert listed(some[taken]) == [expected[at] for at in np.flatnonzero(taken)]


@few
@hypothesis.given(some=bags(), data=st.data())
def test_parts_put_together_and_copies_are_the_whole(some, data):
    cut = data.draw(st.integers(0, len(some)))
    parts = (
        [part for part in (some[:cut], some[cut:]) if len(part)] if 0 < cut < len(some) else [some]
    )
    for same in (
        Bags.concatenate(parts),
        pickle.loads(pickle.dumps(some)),
        Bags.from_list(some.to_list()),
        Bags.from_ids(some.instances, some.bag_index),
    ):
        assert listed(same) == listed(some)
        assert same.is_sparse == some.is_sparse


@few
@hypothesis.given(some=bags(), n_bytes=st.integers(1, 400))
def test_blocks_of_a_source_hold_whole_bags_in_order(some, n_bytes):
    blocks = list(some.source(block_bytes=n_bytes).blocks())
    starts = {int(start) for start in some.offsets}
    found = np.concatenate([dense(block.instances) for block in blocks])
    np.testing.assert_array_equal(found, dense(some.instances))
    assert all(block.rows.start in starts and block.rows.stop in starts for block in blocks)


# -- splitters -------------------------------------------------------------------------------------


@few
@hypothesis.given(
    labels=st.lists(st.integers(0, 2), min_size=12, max_size=40),
    n_splits=st.integers(2, 4),
    seed=st.integers(0, 5),
)
def test_folds_are_a_partition_with_every_class_spread_evenly(labels, n_splits, seed):
    y = np.array(labels)
    counts = np.bincount(y)
    counts = counts[counts > 0]
    hypothesis.assume(len(counts) > 1 and counts.min() >= n_splits)
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 6, len(y)))])
    some = Bags(rng.normal(size=(offsets[-1], 2)), offsets)
    tests = []
    for train, test in StratifiedBagKFold(n_splits, shuffle=True, random_state=seed).split(some, y):
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(y)
        held = np.array([np.sum(y[test] == label) for label in np.unique(y)])
        assert (np.abs(held - counts / n_splits) < 1).all()
        tests.extend(test)
    assert sorted(tests) == list(range(len(y)))


@few
@hypothesis.given(
    groups=st.lists(st.integers(0, 7), min_size=20, max_size=40), seed=st.integers(0, 5)
)
def test_groups_are_never_on_both_sides(groups, seed):
    groups = np.array(groups)
    y = groups % 2
    hypothesis.assume(min(len(set(groups[y == c])) for c in (0, 1)) >= 3)
    some = Bags.singletons(np.arange(len(y), dtype=float)[:, None])
    splitters = (
        StratifiedBagKFold(3, shuffle=True, random_state=seed),
        BagShuffleSplit(3, test_size=0.3, random_state=seed),
    )
    for splitter in splitters:
        for train, test in splitter.split(some, y, groups):
            assert len(train)
            assert len(test)
            assert not set(groups[train]) & set(groups[test])


# -- kernels and distances -------------------------------------------------------------------------


@few
@hypothesis.given(
    some=bags(values=TAME),
    name=st.sampled_from(["set", "mean_set", "normalized_set", "minmax"]),
    seed=st.integers(0, 5),
)
def test_kernels_are_symmetric_positive_and_blind_to_order(some, name, seed):
    matrix = bag_kernel(some, bag_kernel=name, gamma=0.5)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9 * np.abs(matrix).max()
    rng = np.random.default_rng(seed)
    shuffled = [block[rng.permutation(block.shape[0])] for block in some.to_list()]
    np.testing.assert_allclose(
        bag_kernel(Bags.from_list(shuffled), bag_kernel=name, gamma=0.5),
        matrix,
        rtol=1e-9,
        atol=1e-9,
    )
    if name == "normalized_set":
        np.testing.assert_allclose(np.diag(matrix), 1.0, rtol=1e-12)
    order = rng.permutation(len(some))
    np.testing.assert_allclose(
        bag_kernel(some[order], some, bag_kernel=name, gamma=0.5),
        matrix[order],
        rtol=1e-9,
        atol=1e-9,
    )


@few
@hypothesis.given(
    some=bags(min_bags=2, values=TAME, csr=st.just(False)),
    name=st.sampled_from(["min", "max", "mean", "mind"]),
)
def test_distances_vanish_on_equal_bags_and_ignore_repetition(some, name):
    matrix = bag_distances(some, metric=name)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diag(matrix), 0.0)
    assert (matrix >= 0).all()
    doubled = Bags.from_list([np.concatenate([block, block]) for block in some.to_list()])
    np.testing.assert_allclose(bag_distances(doubled, metric=name), matrix, atol=1e-7)


# -- files -----------------------------------------------------------------------------------------


@few
@hypothesis.given(
    some=bags(),
    form=st.sampled_from(["npz", "csv", "tsv", "parquet", "arff", "mat", "svmlight"]),
    data=st.data(),
)
def test_a_file_gives_back_what_was_saved(some, form, data):
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    if form not in ("npz", "arff", "svmlight"):
        some = Bags(dense(some.instances), some.offsets)
    y = data.draw(st.lists(st.integers(-3, 3), min_size=len(some), max_size=len(some)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.bags"
        save_bags(path, some, np.array(y), format=form)
        again = load_bags(path, format=form)
    np.testing.assert_array_equal(again.data.offsets, some.offsets)
    found = dense(again.data.instances)
    # A file of pairs of positions and values knows no columns behind the last value.
    expected = dense(some.instances)[:, : found.shape[1]]
    assert form == "svmlight" or found.shape[1] == some.shape[1]
    assert not dense(some.instances)[:, found.shape[1] :].any()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(again.target, y)
