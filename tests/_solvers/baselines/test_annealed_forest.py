"""The distribution of labels against a grid, what is drawn of it, and a naive forest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from milearn._solvers.baselines.annealed_forest import (
    ForestProblem,
    anneal_forest,
    label_distribution,
    positive_votes,
)


def problem(seed=0, n_bags=12, d=3):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 5, n_bags))]
    X = rng.normal(size=(offsets[-1], d)).astype(np.float32)
    return ForestProblem(X, offsets, np.arange(n_bags) % 2 == 0, rng.uniform(0.5, 2.0, n_bags))


def blocks(given):
    return zip(given.offsets[:-1], given.offsets[1:], given.positive, strict=True)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 3.0])
def test_the_distribution_minimises_the_free_energy(temperature):
    q = np.linspace(1e-5, 1 - 1e-5, 200_001)
    entropy = -q * np.log(q) - (1 - q) * np.log(1 - q)
    for p in (0.1, 0.45, 0.8):
        energy = -q * np.log(p) - (1 - q) * np.log(1 - p) - temperature * entropy
        found = label_distribution(np.array([p]), temperature)[0]
        assert found == pytest.approx(q[np.argmin(energy)], abs=2e-5)


def naive(given, seeds, temperatures):
    """The same forest, one bag and one tree at a time."""
    n_bags = len(given.positive)
    streams, rows, weights = [np.random.RandomState(seed) for seed in seeds], [], []
    for stream in streams:
        counts = np.zeros(n_bags)
        for side in (True, False):
            mine = [i for i in range(n_bags) if given.positive[i] == side]
            for k in stream.randint(0, len(mine), len(mine)):
                counts[mine[k]] += 1
        spread = [c * w for c, w in zip(counts, given.costs, strict=True)]
        weight = np.concatenate(
            [np.full(b - a, w) for (a, b, _), w in zip(blocks(given), spread, strict=True)]
        )
        rows.append(np.flatnonzero(weight > 0))
        weights.append(weight)
    q, votes = None, []
    for temperature in [None, *temperatures]:
        if temperature is not None:
            p = (np.sum(votes, axis=0) + 0.5) / (len(seeds) + 1)
            q = p ** (1 / temperature) / (p ** (1 / temperature) + (1 - p) ** (1 / temperature))
        votes = []
        for stream, used, weight in zip(streams, rows, weights, strict=True):
            draws = stream.random_sample(given.offsets[-1]) if q is not None else None
            labels = np.zeros(given.offsets[-1], dtype=int)
            for a, b, positive in blocks(given):
                if positive and q is None:
                    labels[a:b] = 1
                elif positive:
                    labels[a:b] = draws[a:b] < q[a:b]
                    labels[a + int(np.argmax(q[a:b]))] = 1
            tree = DecisionTreeClassifier(
                max_features="sqrt", random_state=stream.randint(2**31 - 1)
            )
            tree.fit(given.instances[used], labels[used], sample_weight=weight[used])
            votes.append(tree.predict_proba(given.instances)[:, 1])
    return (np.sum(votes, axis=0) + 0.5) / (len(seeds) + 1)


@pytest.mark.parametrize("temperatures", [[], [1.0, 0.3]])
def test_the_forest_is_that_of_the_loop(temperatures):
    given, seeds = problem(2), [3, 1, 4, 1, 5]
    trees = anneal_forest(
        given,
        lambda seed: DecisionTreeClassifier(max_features="sqrt", random_state=seed),
        seeds,
        np.array(temperatures),
        n_jobs=2,
    )
    expected = naive(given, seeds, temperatures)
    votes = sum(positive_votes(tree, given.instances) for tree in trees)
    np.testing.assert_allclose((votes + 0.5) / (len(seeds) + 1), expected, rtol=1e-12)


@pytest.mark.parametrize(("share", "n_drawn"), [(1.0, 20), (0.3, 6), (1e-9, 1)])
def test_a_share_of_the_bags_of_each_class_is_drawn(share, n_drawn):
    given = problem(n_bags=40)
    seen = []

    class Tree(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight):
            seen.append(sample_weight)
            return super().fit(X, y, sample_weight)

    alone = ForestProblem(
        given.instances[:40], np.arange(41), given.positive, np.ones(len(given.positive))
    )
    anneal_forest(alone, lambda seed: Tree(), [1, 2], np.array([1.0]), share=share)
    assert [weights.sum() for weights in seen] == [2 * n_drawn] * 4
