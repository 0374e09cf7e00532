"""Bags without structure, for tests in which the data do not matter, and bags of tissues."""

from __future__ import annotations

import numpy as np

from milearn import Bags
from milearn._bags.segments import pooling_matrix
from milearn._solvers.svm.coupled.gram import BagGram


def random_bags(seed=0, n_bags=9, d=4, largest=6, *, centre=0.0, zeros=0.0):
    """Normal instances about a centre; ``zeros`` is the share of values that are zero."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=n_bags)
    instances = centre + rng.normal(size=(sizes.sum(), d))
    instances[rng.random(instances.shape) < zeros] = 0.0
    return Bags(instances, np.r_[0, np.cumsum(sizes)])


def labelled_bags(seed=0, *, n_positive=3, n_negative=4, d=3, largest=3, shift=0.0):
    """Random bags and labels, positive ones first; ``shift`` moves an instance of each of them."""
    bags = random_bags(seed, n_positive + n_negative, d, largest)
    instances = bags.instances.copy()
    instances[bags.offsets[:n_positive], 0] += shift
    return Bags(instances, bags.offsets), (np.arange(len(bags)) < n_positive).astype(int)


def bag_gram(gram, offsets, of_bags, of_instances):
    """Products of scaled sums of the instances of each bag, and of scaled instances."""
    weights = pooling_matrix(offsets, np.repeat(of_bags, np.diff(offsets)))
    return BagGram(gram, offsets, weights, of_instances)


def tissues(seed, n_bags=60, size=100, d=300):
    """Instances of a few tissues far from each other; a twentieth of a positive bag is moved.

    Returns the instances, offsets, labels, and which instances are moved.
    """
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n_bags * size, d))
    X += 3.0 * rng.normal(size=(6, d))[rng.randint(6, size=len(X))]
    offsets, y = np.arange(0, len(X) + 1, size), np.arange(n_bags) % 2
    place = rng.normal(size=d) / np.sqrt(d)
    moved = (np.arange(len(X)) % size < 0.05 * size) & (np.repeat(y, size) == 1)
    X[moved] += 4.0 * place
    return X, offsets, y, moved
