"""Scores of groups: equal to their definitions, in the order of merged bags."""

from __future__ import annotations

import numpy as np
import pytest

from milearn import Bags
from milearn.metrics import group_scores

GROUPS = np.array(["b", "a", "b", "c", "a", "b"])
RULES = {
    "max": lambda part: part.max(axis=0),
    "mean": lambda part: part.mean(axis=0),
    "min": lambda part: part.min(axis=0),
    "noisy_or": lambda part: 1 - np.prod(1 - part, axis=0),
}


@pytest.mark.parametrize("shape", [(6,), (6, 3)])
@pytest.mark.parametrize("how", RULES)
def test_by_definition(how, shape):
    scores = np.random.default_rng(0).random(shape)
    scores[2] = 1.0
    found, names = group_scores(scores, GROUPS, how=how)
    assert names.tolist() == ["b", "a", "c"]
    expected = [RULES[how](scores[name == GROUPS]) for name in names]
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_the_order_is_that_of_merged_bags():
    bags = Bags.singletons(np.arange(6.0)[:, None])
    merged, groups = bags.merge(GROUPS, return_groups=True)
    found, names = group_scores(np.arange(6), GROUPS)
    assert names.tolist() == groups.tolist()
    assert found.tolist() == [block.max() for block in merged]


def test_what_is_refused():
    with pytest.raises(ValueError, match="how='sum' is unknown; choose one of max, mean, min"):
        group_scores([1.0], ["a"], how="sum")
    with pytest.raises(ValueError, match="the score of bag 1 is not between 0 and 1"):
        group_scores([1.0, 1.5], ["a", "a"], how="noisy_or")
    with pytest.raises(ValueError, match="groups is missing for bag 1"):
        group_scores([1.0, 1.5], ["a", None])
    with pytest.raises(ValueError, match="scores contains NaN"):
        group_scores([1.0, np.nan], ["a", "a"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        group_scores([1.0, 2.0], ["a"])
