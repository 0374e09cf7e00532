"""Bags without structure, for tests in which the data do not matter."""

from __future__ import annotations

import numpy as np

from milearn import Bags


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
