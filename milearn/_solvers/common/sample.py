"""Samples of bags in memory, on which starts are compared where there are many instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._bags.segments import gather_rows
from .passes import ArraySource, PassSource, rows_of_block, stacked

__all__ = ["SampleLimits", "sample_of", "sampled_source"]


@dataclass(frozen=True)
class SampleLimits:
    """Size of a sample, and how far starts are followed on one that leaves bags out.

    Attributes
    ----------
    instances, per_feature : int
        Instances at least, and per feature.
    numbers : int
        Numbers in its instances, at the most.
    bags, large_bags : int
        Bags of a class at least, and large bags, of which it takes some instances.
    tol : float
    max_passes : int
    """

    instances: int = 4_000
    per_feature: int = 100
    numbers: int = 2**23
    bags: int = 50
    large_bags: int = 4
    tol: float = 5e-2
    max_passes: int = 6

    @classmethod
    def of_whole_bags(cls) -> SampleLimits:
        """A larger sample for the screen, which needs the few deciding instances of a bag."""
        return cls(instances=5_000, per_feature=100, numbers=2**26, bags=100)

    def wanted(self, n_features: int) -> int:
        """Number of instances."""
        many = max(self.instances, self.per_feature * n_features)
        return min(many, max(self.instances, self.numbers // n_features))

    def holds_all(self, n_instances: int, n_features: int) -> bool:
        """Whether the sample is all instances."""
        return n_instances <= self.wanted(n_features)


def sample_of(
    offsets: np.ndarray, signs: np.ndarray, n_features: int, limits: SampleLimits
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bags of both classes, rows of their instances, and how many of each bag there are."""
    n_instances, wanted = int(offsets[-1]), limits.wanted(n_features)
    if n_instances <= wanted:
        return np.arange(len(signs)), np.arange(n_instances), np.diff(offsets)
    rng, parts = np.random.RandomState(0), []
    for sign in (1.0, -1.0):
        members = np.flatnonzero(signs == sign)
        count = max(limits.bags, int(np.ceil(wanted / n_instances * len(members))))
        if count < len(members):
            members = rng.choice(members, count, replace=False)
        parts.append(members)
    bags = np.sort(np.concatenate(parts))
    rows, own = gather_rows(offsets, bags)
    # Of a large bag instances at equal distances.
    most = max(wanted // (2 * limits.bags), limits.numbers // (2 * limits.bags * n_features))
    most = max(1, min(most, wanted // (2 * limits.large_bags)))
    sizes = np.diff(own)
    steps = np.maximum(1, -(-sizes // most))
    kept = (np.arange(len(rows)) - np.repeat(own[:-1], sizes)) % np.repeat(steps, sizes) == 0
    return bags, rows[kept], np.add.reduceat(kept, own[:-1], dtype=np.intp)


def sampled_source(
    source: PassSource, signs: np.ndarray, limits: SampleLimits
) -> tuple[ArraySource, np.ndarray]:
    """A sample of the bags in memory, and the numbers of its bags."""
    bags, rows, sizes = sample_of(source.offsets, signs, source.n_features, limits)
    instances = stacked(source.map(rows_of_block, rows))
    return ArraySource(instances, np.r_[0, np.cumsum(sizes)]), bags
