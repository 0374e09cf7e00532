"""Instances and bags drawn as prototypes: all below the limits, a sample above them."""

from __future__ import annotations

import numpy as np
import pytest

from milearn import Bags
from milearn._bags.distinct import drawn_points, most_bags, most_points


def bags_of(n_bags, size, seed=0):
    rng = np.random.default_rng(seed)
    return Bags(rng.normal(size=(n_bags * size, 2)), np.arange(n_bags + 1) * size)


@pytest.mark.parametrize(
    ("n_points", "n_bags", "expected"),
    [(9, 3, 9), (10, 3, 10), (11, 3, 10), (9, 8, 5), (9, 100, 2), (1, 100, 1)],
)
def test_all_points_up_to_the_limits(n_points, n_bags, expected):
    assert most_points(n_points, n_bags, n_most=10, n_entries=40, n_few=2) == expected


@pytest.mark.parametrize(("with_each_other", "below"), [(False, 100**2 // 2), (True, 50**2)])
def test_all_bags_up_to_the_limits(with_each_other, below):
    bags = bags_of(20, 5)  # 100 instances
    for n_pairs, most, expected in (
        (100**2, 1000, 20),
        (100**2, 7, 7),
        (below, 1000, 10),
        (1, 1000, 1),
    ):
        options = {"with_each_other": with_each_other, "n_pairs": n_pairs}
        assert most_bags(bags, most, **options) == expected


def test_drawn_points_are_distinct_and_do_not_depend_on_the_order_of_bags():
    bags = bags_of(20, 3)
    twice = bags[np.r_[np.arange(20), np.arange(20)]]
    order = np.random.default_rng(1).permutation(20)
    drawn = [
        each.instances[drawn_points(each, 7, np.random.RandomState(3))]
        for each in (bags, twice, bags[order])
    ]
    assert len(np.unique(drawn[0], axis=0)) == 7
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])
