"""Choice of the highest instances: loops, ties, and what is asked of the second score."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from milearn._bags.blocks import ArraySource
from milearn._solvers.common.passes import (
    HighestInstances,
    TieRule,
    is_constant,
    mean_difference,
)

OFFSETS = np.array([0, 3, 4, 6, 10])


def test_without_ties_it_is_the_highest_and_the_second_score_is_not_asked():
    def refused():
        raise AssertionError

    scores = np.random.default_rng(0).normal(size=10)
    bags = np.array([0, 2, 3])
    expected = [OFFSETS[bag] + scores[OFFSETS[bag] : OFFSETS[bag + 1]].argmax() for bag in bags]
    assert HighestInstances(OFFSETS, bags, refused).of(scores).tolist() == expected
    assert len(HighestInstances(OFFSETS, bags[:0], refused).of(scores)) == 0


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_the_second_score_decides_between_equal_ones_and_is_asked_once(noise):
    asked = []

    def second_scores():
        asked.append(True)
        return np.arange(10.0)[::-1]

    rule = HighestInstances(OFFSETS, np.arange(4), second_scores)
    scores = np.array([1.0, 1.0, 0.0, 5.0, 2.0, 1.0, 0.0, 3.0, 3.0, 3.0])
    for _ in range(2):
        shaken = scores + noise * np.arange(10.0)
        assert rule.of(shaken).tolist() == [0, 3, 4, 7]
    assert len(asked) == 1


def test_mean_difference_is_that_of_weighted_means_of_means():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(10, 3)), np.array([1.0, 2.0, 3.0, 4.0])
    means = np.array([X[a:b].mean(axis=0) for a, b in pairwise(OFFSETS)])
    signs = np.array([1.0, -1.0, 0.0, 1.0])
    expected = (means[0] + 4.0 * means[3]) / 5.0 - means[1]
    np.testing.assert_allclose(mean_difference(OFFSETS, signs, weights) @ X, expected)
    # A class without weight has no mean, and no division by its weight.
    alone = mean_difference(OFFSETS, signs, np.array([1.0, 0.0, 3.0, 4.0]))
    assert not alone[3:6].any()


def test_a_pass_breaks_ties_as_the_dual_does_and_tells_where_it_cannot():
    rng = np.random.default_rng(1)
    X, w, second = (
        rng.integers(0, 2, (10, 3)).astype(float),
        np.array([1.0, 0, 0]),
        rng.normal(size=3),
    )
    (block,) = ArraySource(X, OFFSETS).map(lambda block: block)
    bags = np.arange(4)
    rule = HighestInstances(OFFSETS, bags, lambda: X @ second)
    for constant in (False, True):
        rows, tied = TieRule(second, constant).highest(block, X @ w, bags)
        assert rows.tolist() == rule.of(X @ w, constant=constant).tolist()
        assert not tied
    assert TieRule().highest(block, X @ w, bags)[1]
    assert not TieRule().highest(block, rng.normal(size=10), bags)[1]


def test_only_a_value_of_that_of_zero_is_constant():
    assert is_constant(5.0, 5.0)
    assert is_constant(5.0 - 1e-13, 5.0)
    # Small costs give a small w, which lowers the value by little.
    assert not is_constant(5.0 - 1e-9, 5.0)
