"""Choice of the highest instances: loops, ties, and what is asked of the second score."""

from __future__ import annotations

import numpy as np
import pytest

from milearn._solvers.common.passes import (
    HighestInstances,
)

OFFSETS = np.array([0, 3, 4, 6, 10])


def test_without_ties_it_is_the_highest_and_the_second_score_is_not_asked():
    def refused(rows):
        raise AssertionError(rows)

    scores = np.random.default_rng(0).normal(size=10)
    bags = np.array([0, 2, 3])
    expected = [OFFSETS[bag] + scores[OFFSETS[bag] : OFFSETS[bag + 1]].argmax() for bag in bags]
    assert HighestInstances(OFFSETS, bags, refused).of(scores).tolist() == expected
    assert len(HighestInstances(OFFSETS, bags[:0], refused).of(scores)) == 0


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_the_second_score_decides_between_equal_ones_and_is_asked_once(noise):
    second, asked = np.arange(10.0)[::-1], []

    def second_scores(rows):
        asked.extend(rows.tolist())
        return second[rows]

    rule = HighestInstances(OFFSETS, np.arange(4), second_scores)
    scores = np.array([1.0, 1.0, 0.0, 5.0, 2.0, 1.0, 0.0, 3.0, 3.0, 3.0])
    for _ in range(2):
        shaken = scores + noise * np.arange(10.0)
        assert rule.of(shaken).tolist() == [0, 3, 4, 7]
    assert asked == [0, 1, 7, 8, 9]
