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
from joblib import Parallel, delayed

__all__ = [
    "AnnealedForest",
    "ForestProblem",
    "anneal_forest",
    "label_distribution",
    "positive_votes",
    "random_labels",
]

# Votes added for both labels, so that a label on which all trees agree is not certain.
_PRIOR = 0.5
_EXPONENT = 500.0


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


@dataclass
class AnnealedForest:
    """A forest and its votes for the training instances."""

    trees: list[Any]
    # Mean vote of the trees, with an additional half vote for each label, of shape (n_instances,).
    probabilities: np.ndarray


def label_distribution(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """q of the module for each instance, from probabilities above 0 and below 1."""
    logs = np.log(probabilities) - np.log1p(-probabilities)
    scaled = np.clip(logs / temperature, -_EXPONENT, _EXPONENT)
    q: np.ndarray = 1.0 / (1.0 + np.exp(-scaled))
    return q


def random_labels(q: np.ndarray, problem: ForestProblem, rng: np.random.RandomState) -> np.ndarray:
    """Random labels 0 and 1, at least one 1 in each positive bag and none in negative bags."""
    labels = (rng.random_sample(len(q)) < q) & problem.inside
    starts = problem.offsets[:-1]
    tops = np.lexsort((-q, np.repeat(np.arange(len(starts)), np.diff(problem.offsets))))[starts]
    labels[tops[problem.positive]] = True
    out: np.ndarray = labels.astype(np.intp)
    return out


def anneal_forest(
    problem: ForestProblem,
    make_tree: Callable[[int], Any],
    seeds: Sequence[int],
    temperatures: np.ndarray,
    n_jobs: int | None = None,
) -> AnnealedForest:
    """Fit a forest to the labels of the bags, then to labels drawn at falling temperatures.

    Parameters
    ----------
    problem : ForestProblem
    make_tree : callable
        ``make_tree(seed)`` returns an unfitted tree.
    seeds : sequence of int
        One for each tree, which determines the bags (with replacement, as many of each class as
        there are), the labels and the random choices of the tree.
    temperatures : ndarray of shape (n_epochs,)
    n_jobs : int, default=None
        Number of threads.
    """
    streams = [np.random.RandomState(seed) for seed in seeds]
    counts = [_bootstrap(problem.positive, stream) for stream in streams]
    bag_of = np.repeat(np.arange(len(problem.positive)), np.diff(problem.offsets))
    weights = [(count * problem.costs)[bag_of] for count in counts]

    def grown(number: int, q: np.ndarray | None) -> tuple[Any, np.ndarray]:
        stream = streams[number]
        labels = problem.inside.astype(np.intp) if q is None else random_labels(q, problem, stream)
        used = np.flatnonzero(weights[number] > 0)
        tree = make_tree(stream.randint(2**31 - 1))
        tree.fit(problem.instances[used], labels[used], sample_weight=weights[number][used])
        return tree, positive_votes(tree, problem.instances)

    def forest(q: np.ndarray | None) -> AnnealedForest:
        found = Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(
            delayed(grown)(number, q) for number in range(len(seeds))
        )
        total = np.sum([votes for _, votes in found], axis=0)
        return AnnealedForest(
            [tree for tree, _ in found], (total + _PRIOR) / (len(seeds) + 2 * _PRIOR)
        )

    present = forest(None)
    for temperature in temperatures:
        present = forest(label_distribution(present.probabilities, temperature))
    return present


def positive_votes(tree: Any, instances: Any) -> np.ndarray:
    """Probability of the label 1 for each instance by a fitted tree."""
    votes: np.ndarray = tree.predict_proba(instances)[:, list(tree.classes_).index(1)]
    return votes


def _bootstrap(positive: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Random counts of bags, drawn with replacement within each class."""
    counts = np.zeros(len(positive))
    for side in (positive, ~positive):
        members = np.flatnonzero(side)
        drawn = rng.randint(0, len(members), len(members))
        counts[members] = np.bincount(drawn, minlength=len(members))
    return counts
