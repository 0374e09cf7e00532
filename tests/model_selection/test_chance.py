"""Random labels give chance accuracy under every splitter, and a planted leak is seen."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from milearn import Bags
from milearn.model_selection import BagShuffleSplit, RepeatedStratifiedBagKFold, StratifiedBagKFold
from milearn.preprocessing import BagStatistics, InstanceTransformer

N_DRAWS, N_SOURCES, N_COPIES = 8, 60, 3

SPLITTERS = [
    StratifiedBagKFold(5),
    StratifiedBagKFold(5, shuffle=True, random_state=0),
    RepeatedStratifiedBagKFold(3, n_repeats=2, random_state=0),
    BagShuffleSplit(5, test_size=0.2, random_state=0),
    BagShuffleSplit(5, train_size=1 / 3, random_state=0),
]


@cache
def copied_bags(seed: int, n_copies: int):
    """Bags without any signal, each there n_copies times but for some noise; labels random."""
    rng = np.random.default_rng(seed)
    blocks, groups = [], []
    for source in range(N_SOURCES):
        block = rng.normal(size=(rng.integers(2, 9), 5))
        for _ in range(n_copies):
            blocks.append(block + 0.05 * rng.normal(size=block.shape))
            groups.append(source)
    y = rng.permutation(np.arange(N_SOURCES) % 2)
    return Bags.from_list(blocks), y[groups], np.array(groups)


def accuracy(cv, n_copies: int, grouped: bool) -> float:
    scores = []
    for seed in range(N_DRAWS):
        bags, y, groups = copied_bags(seed, n_copies)
        model = make_pipeline(
            InstanceTransformer(StandardScaler()),
            BagStatistics(("min", "max", "mean", "count")),
            SVC(C=10),
        )
        out = cross_validate(model, bags, y, groups=groups if grouped else None, cv=cv)
        scores.append(out["test_score"].mean())
    return float(np.mean(scores))


# A bag and its copies are one observation, so that the draws hold this many independent ones.
# Four standard deviations of a fair coin leave one false alarm in 16 000.
BAND = 4 * np.sqrt(0.25 / (N_DRAWS * N_SOURCES))


@pytest.mark.parametrize("cv", SPLITTERS, ids=repr)
def test_random_labels_give_chance(cv):
    assert abs(accuracy(cv, n_copies=1, grouped=False) - 0.5) < BAND


@pytest.mark.parametrize("cv", SPLITTERS, ids=repr)
def test_groups_keep_a_leak_shut(cv):
    assert abs(accuracy(cv, n_copies=N_COPIES, grouped=True) - 0.5) < BAND


@pytest.mark.parametrize("cv", SPLITTERS, ids=repr)
def test_the_same_test_sees_a_leak(cv):
    assert accuracy(cv, n_copies=N_COPIES, grouped=False) - 0.5 > 2 * BAND
