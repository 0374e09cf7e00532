"""Instances and bags that represent the training bags, all of them or a sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .container import Bags
from .distinct import bag_fingerprints, distinct_points


@dataclass(frozen=True)
class PrototypeLimits:
    """Sizes up to which "auto" uses all instances, or all bags."""

    # Number of instances.
    n_points: int = 10_000
    # Number of similarities between bags and instances, unless there are few instances.
    n_entries: int = 2**25
    n_few_points: int = 1000
    # Number of pairs of a training instance and an instance of a prototype bag, or of two instances
    # of a sample.
    n_pairs: int = 2**33

    def points(self, n_points: int, n_bags: int) -> int:
        """Number of the distinct instances that are used."""
        by_entries = max(self.n_few_points, self.n_entries // n_bags)
        return min(n_points, self.n_points, by_entries)

    def bags(self, bags: Bags, most: int) -> int:
        """Number of the bags that are used, at most ``most``."""
        by_pairs = int(len(bags) * self.n_pairs / bags.n_instances**2)
        return max(1, min(len(bags), most, by_pairs))

    def sample(self, bags: Bags, most: int) -> int:
        """Number of the bags that are compared with each other, at most ``most``."""
        by_pairs = int(len(bags) * self.n_pairs**0.5 / bags.n_instances)
        return max(1, min(len(bags), most, by_pairs))


def drawn_points(
    bags: Bags,
    n_points: int | str | None,
    rng: np.random.RandomState,
    limits: PrototypeLimits | None = None,
) -> np.ndarray:
    """One row for each of some distinct instances, in the order of their hashes.

    Parameters
    ----------
    bags : Bags
    n_points : int, "auto" or None
        Maximum number; None for all.
    rng : RandomState
        Determines the sample, regardless of the order of the bags.
    limits : PrototypeLimits, default=None
        Limits for "auto".
    """
    rows, _ = distinct_points(bags.instances)
    if n_points == "auto":
        n_points = (limits or PrototypeLimits()).points(len(rows), len(bags))
    if n_points is None or int(n_points) >= len(rows):
        return rows
    return np.asarray(rows[np.sort(rng.choice(len(rows), int(n_points), replace=False))])


def drawn_bags(bags: Bags, n_bags: int, rng: np.random.RandomState) -> np.ndarray:
    """Positions of at most ``n_bags`` bags, ascending.

    Which bags are drawn does not depend on their order.
    """
    if n_bags >= len(bags):
        return np.arange(len(bags))
    order = np.argsort(bag_fingerprints(bags), kind="stable")
    return np.sort(order[rng.choice(len(bags), n_bags, replace=False)])
