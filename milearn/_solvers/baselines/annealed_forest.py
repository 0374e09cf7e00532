r"""A random forest on instances whose labels in positive bags are annealed (MIForest).

With p(x) the forest's probability that an instance is positive, and the loss -log p of its label,
the distribution q of a label that minimises

    q (-log p) + (1 - q) (-log(1 - p)) - T H(q)

at temperature T (H is the entropy) is q = p^(1/T) / (p^(1/T) + (1 - p)^(1/T)). Instances of
positive bags have labels that are drawn from it separately for each tree, and the most likely one
of each such bag has the label 1. Then the forest is fitted again at a lower temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import delayed
from scipy.special import expit, logit
from sklearn.utils import gen_batches

from ..._bags.threads import Parallel

# Votes added for both labels, so that a label on which all trees agree is not certain.
_PRIOR = 0.5
# Trees whose votes are in memory at once.
_TREES_AT_ONCE = 16


@dataclass(frozen=True)
class ForestProblem:
    """Bags of instances, positive and negative, with their costs."""

    # Of shape (n_instances, n_features).
    instances: Any
    # Of shape (n_bags + 1,).
    offsets: np.ndarray
    positive: np.ndarray
    # Of shape (n_bags,).
    costs: np.ndarray

    @property
    def inside(self) -> np.ndarray:
        """Mask of the instances in positive bags."""
        return np.repeat(self.positive, np.diff(self.offsets))


def label_distribution(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """q of the module for each instance, from probabilities above 0 and below 1."""
    return np.asarray(expit(logit(probabilities) / temperature))


def likeliest(q: np.ndarray, problem: ForestProblem) -> np.ndarray:
    """The first of the most likely instances of each positive bag."""
    bag_of = np.repeat(np.arange(len(problem.positive)), np.diff(problem.offsets))
    tops = np.lexsort((-q, bag_of))[problem.offsets[:-1]]
    return np.asarray(tops[problem.positive])


def random_labels(
    q: np.ndarray, tops: np.ndarray, problem: ForestProblem, rng: np.random.RandomState
) -> np.ndarray:
    """Random labels 0 and 1, with 1 for ``tops`` and 0 in negative bags."""
    labels = (rng.random_sample(len(q)) < q) & problem.inside
    labels[tops] = True
    return np.asarray(labels, dtype=np.intp)


def anneal_forest(
    problem: ForestProblem,
    make_tree: Callable[[int], Any],
    seeds: Sequence[int],
    temperatures: np.ndarray,
    n_jobs: int | None = None,
    *,
    share: float = 1.0,
) -> list[Any]:
    """Fit a forest to the labels of the bags, then to labels drawn at falling temperatures.

    Parameters
    ----------
    problem : ForestProblem
    make_tree : callable
        ``make_tree(seed)`` returns an unfitted tree.
    seeds : sequence of int
        One for each tree, which determines the bags (with replacement, ``share`` times as many of
        each class as there are), the labels and the random choices of the tree.
    temperatures : ndarray of shape (n_epochs,)
    n_jobs : int, default=None
        Number of threads.
    share : float, default=1.0

    Returns
    -------
    list of trees
    """
    streams = [np.random.RandomState(seed) for seed in seeds]
    counts = [_bootstrap(problem.positive, stream, share) for stream in streams]
    bag_of = np.repeat(np.arange(len(problem.positive)), np.diff(problem.offsets))
    inside = np.flatnonzero(problem.inside)
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")

    def grown(number: int, q: np.ndarray | None, tops: np.ndarray) -> Any:
        stream = streams[number]
        if q is None:
            labels = problem.inside.astype(np.intp)
        else:
            labels = random_labels(q, tops, problem, stream)
        weights = (counts[number] * problem.costs)[bag_of]
        used = np.flatnonzero(weights > 0)
        tree = make_tree(stream.randint(2**31 - 1))
        return tree.fit(problem.instances[used], labels[used], sample_weight=weights[used])

    def forest(q: np.ndarray | None) -> list[Any]:
        tops = inside[:0] if q is None else likeliest(q, problem)
        return list(parallel(delayed(grown)(number, q, tops) for number in range(len(seeds))))

    def probabilities(trees: list[Any]) -> np.ndarray:
        """Mean vote, with a half vote for each label; zero in negative bags, which need none."""
        instances = problem.instances[inside]
        found = np.full(len(bag_of), _PRIOR)
        for part in gen_batches(len(trees), _TREES_AT_ONCE):
            votes = parallel(delayed(positive_votes)(tree, instances) for tree in trees[part])
            found[inside] += np.sum(votes, axis=0)
        return found / (len(seeds) + 2 * _PRIOR)

    trees = forest(None)
    for temperature in temperatures:
        trees = forest(label_distribution(probabilities(trees), temperature))
    return trees


def positive_votes(tree: Any, instances: Any) -> np.ndarray:
    """Probability of the label 1 for each instance by a fitted tree."""
    return np.asarray(tree.predict_proba(instances)[:, list(tree.classes_).index(1)])


def _bootstrap(positive: np.ndarray, rng: np.random.RandomState, share: float) -> np.ndarray:
    """Random counts of bags, drawn with replacement within each class."""
    counts = np.zeros(len(positive))
    for side in (positive, ~positive):
        members = np.flatnonzero(side)
        n_drawn = min(len(members), max(1, round(share * len(members))))
        drawn = rng.randint(0, len(members), n_drawn)
        counts[members] = np.bincount(drawn, minlength=len(members))
    return counts
