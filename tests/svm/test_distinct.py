"""Fingerprints of bags, the merging of equal ones, and what counts as text."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from milearn import Bags
from milearn.svm._distinct import bag_fingerprints, distinct_rows, is_text, merge_bags


def some_bags(seed=0, n_bags=30, dtype=np.float64):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_bags)
    instances = rng.normal(size=(sizes.sum(), 4)).astype(dtype)
    instances[rng.random(instances.shape) < 0.3] = 0.0
    return Bags(instances, np.r_[0, np.cumsum(sizes)])


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


def test_distinct_rows_are_the_first_of_their_kind_in_order():
    first, inverse = distinct_rows(np.array([7, 3, 7, 9, 3], dtype=np.uint64))
    np.testing.assert_array_equal(first, [0, 1, 3])
    np.testing.assert_array_equal(inverse, [0, 1, 0, 2, 1])


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


def test_equal_bags_with_other_labels_or_groups_stay_apart():
    bags = some_bags(n_bags=3)[[0, 0, 1, 1, 2]]
    targets = np.array([0, 1, 1, 1, 0])
    merged = merge_bags(bags, targets, np.ones(5))
    assert len(merged.bags) == 4
    assert len(merged.first) == 3
    assert len(merged.distinct) == 3
    expected = bag_fingerprints(merged.bags)
    np.testing.assert_array_equal(bag_fingerprints(merged.distinct)[merged.inverse], expected)
    grouped = merge_bags(bags, targets, np.ones(5), groups=list("aabca"))
    assert len(grouped.bags) == 5
    assert len(np.unique(grouped.groups)) == 3


def test_texts_are_told_by_their_zeros_whatever_the_storage():
    rng = np.random.default_rng(0)
    words = sparse.random(200, 100, density=0.04, random_state=rng, format="csr")
    dense = rng.normal(size=(200, 100))
    for matrix, expected in ((words, True), (dense, False), (np.zeros((200, 100)), False)):
        for stored in (sparse.csr_array(matrix), np.asarray(sparse.csr_array(matrix).toarray())):
            assert is_text(Bags.singletons(stored)) is expected
