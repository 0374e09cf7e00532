"""Hashes of instances and bags, and the merging of equal ones."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn import config_context

from milearn import Bags
from milearn._bags.distinct import (
    bag_fingerprints,
    distinct_points,
    merge_bags,
    row_ranks,
)
from tests.bags import random_bags


def some_bags(n_bags=30, dtype=np.float64):
    bags = random_bags(0, n_bags, 4, 5, zeros=0.3)
    return bags.with_instances(bags.instances.astype(dtype))


def test_the_fingerprint_is_of_the_set_of_instances():
    bags = some_bags(dtype=np.float32)
    marks = bag_fingerprints(bags)
    assert len(set(marks.tolist())) == len(bags)
    double = bags.with_instances(bags.instances.astype(np.float64))
    csr = bags.with_instances(sparse.csr_array(bags.instances))
    backwards = Bags.from_list([np.asarray(bag)[::-1] for bag in bags])
    for other in (double, csr, backwards):
        np.testing.assert_array_equal(bag_fingerprints(other), marks)
    np.testing.assert_array_equal(bag_fingerprints(bags[::-1]), marks[::-1])


def test_one_entry_in_another_column_or_one_instance_more_is_another_bag():
    rows = [[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0]], [[0.0, 0.0]]]
    marks = bag_fingerprints(Bags.from_list(rows))
    assert len(set(marks.tolist())) == len(rows)
    # A zero has no sign, and a stored zero is no entry.
    signed = bag_fingerprints(Bags.from_list([[[1.0, -0.0]]]))
    stored = sparse.csr_array((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 2])), (1, 2))
    assert signed[0] == marks[0]
    assert bag_fingerprints(Bags(stored, [0, 1]))[0] == marks[0]


def test_fingerprints_do_not_meet_by_chance():
    grid = np.array([[i, j] for i in range(120) for j in range(120)], dtype=float)
    marks = bag_fingerprints(Bags.singletons(grid))
    assert len(np.unique(marks)) == len(grid)


def test_merging_sums_weights_and_does_not_depend_on_the_order():
    bags = some_bags(n_bags=8)
    targets = np.array([0, 0, 1, 1, 0, 1, 0, 1])
    weights = np.array([1.0, 2.0, 0.0, 1.0, 3.0, 1.0, 1.0, 2.0])
    repeated = np.repeat(np.arange(8), weights.astype(int))
    shuffled = np.random.default_rng(0).permutation(repeated)
    merged = merge_bags(bags, targets, weights)
    copies = merge_bags(bags[shuffled], targets[shuffled], np.ones(len(shuffled)))
    np.testing.assert_array_equal(merged.bags.instances, copies.bags.instances)
    np.testing.assert_array_equal(merged.weights, copies.weights)
    assert 2 not in merged.positions
    assert len(merged.bags) == 7
    assert merged.weights.sum() == weights.sum()


def test_many_entries_stay_in_their_order_and_name_the_order_by_content():
    bags, targets = some_bags(n_bags=9), np.arange(9) % 2
    weights = np.arange(9) + 0.5
    entries = bags.n_instances * bags.shape[1]
    by_content = merge_bags(bags, targets, weights, most_sorted=entries)
    np.testing.assert_array_equal(by_content.order, np.arange(9))
    assert (np.diff(by_content.positions) < 0).any()
    kept = merge_bags(bags, targets, weights, most_sorted=entries - 1)
    assert kept.bags is bags
    np.testing.assert_array_equal(kept.positions, np.arange(9))
    np.testing.assert_array_equal(kept.weights, weights)
    np.testing.assert_array_equal(kept.positions[kept.order], by_content.positions)


def test_equal_bags_with_other_labels_or_groups_stay_apart():
    bags = some_bags(n_bags=3)[[0, 0, 1, 1, 2]]
    targets = np.array([0, 1, 1, 1, 0])
    merged = merge_bags(bags, targets, np.ones(5))
    assert len(merged.bags) == 4
    assert len(merged.distinct_positions) == 3
    assert len(merged.distinct) == 3
    expected = bag_fingerprints(merged.bags)
    np.testing.assert_array_equal(bag_fingerprints(merged.distinct)[merged.inverse], expected)
    grouped = merge_bags(bags, targets, np.ones(5), groups=np.array([0, 0, 1, 2, 0]))
    assert len(grouped.bags) == 5
    assert len(np.unique(grouped.groups)) == 3


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
    with config_context(working_memory=1e-3):
        blocks = distinct_points(X)
    assert (blocks[0] == rows).all()
    assert (blocks[1] == point_of).all()


def test_ranks_do_not_follow_rounding_or_the_order_of_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) + 100.0
    ranks = row_ranks(X)
    assert len(np.unique(ranks)) == len(X)
    order = rng.permutation(len(X))
    np.testing.assert_array_equal(row_ranks(X[order]), ranks[order])
    np.testing.assert_array_equal(row_ranks(sparse.csr_array(X)).argsort(), ranks.argsort())
    noisy = row_ranks(X * (1.0 + 1e-15 * rng.normal(size=X.shape)))
    np.testing.assert_array_equal(noisy.argsort(), ranks.argsort())
