"""Samples of bags in memory, on which starts are compared where there are many instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import ArraySource, PassSource, stacked
from ..._bags.segments import gather_rows, offsets_of, segment_index, segment_mean
from .passes import instance_scores, rows_of_block

Matrix = Any  # an ndarray or a CSR matrix


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
    source: PassSource, signs: np.ndarray, limits: SampleLimits
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bags of both classes, rows of their instances, and how many of each bag there are.

    Bags and instances are drawn, and returned, in the order of their projections on a random
    direction. The sample therefore depends on their contents, but not on their order. If it is not
    all instances, this takes a pass.
    """
    n_instances, wanted = source.n_instances, limits.wanted(source.n_features)
    if n_instances <= wanted:
        return np.arange(len(signs)), np.arange(n_instances), np.diff(source.offsets)
    rng = np.random.RandomState(0)
    line = rng.standard_normal((1, source.n_features))
    along = instance_scores(source, line)[:, 0]
    # Unlike a sum, a mean has the same order for every origin of the instances.
    means, parts = segment_mean(along, source.offsets), []
    for sign in (1.0, -1.0):
        members = np.flatnonzero(signs == sign)
        members = members[np.argsort(means[members], kind="stable")]
        count = max(limits.bags, int(np.ceil(wanted / n_instances * len(members))))
        if count < len(members):
            members = members[np.sort(rng.choice(len(members), count, replace=False))]
        parts.append(members)
    bags = np.concatenate(parts)
    rows, own = gather_rows(source.offsets, bags)
    rows = rows[np.lexsort((along[rows], segment_index(own)))]
    # Of a large bag instances at equal distances.
    most = max(wanted // (2 * limits.bags), limits.numbers // (2 * limits.bags * source.n_features))
    most = max(1, min(most, wanted // (2 * limits.large_bags)))
    sizes = np.diff(own)
    steps = np.maximum(1, -(-sizes // most))
    kept = (np.arange(len(rows)) - np.repeat(own[:-1], sizes)) % np.repeat(steps, sizes) == 0
    return bags, rows[kept], np.add.reduceat(kept, own[:-1], dtype=np.intp)


def sampled_source(
    source: PassSource, signs: np.ndarray, limits: SampleLimits
) -> tuple[ArraySource, np.ndarray]:
    """A sample of the bags in memory, and the numbers of its bags."""
    bags, rows, sizes = sample_of(source, signs, limits)
    return ArraySource(_in_order(source, rows), offsets_of(sizes)), bags


def _in_order(source: PassSource, rows: np.ndarray) -> Matrix:
    """The given instances in float64, in their order."""
    order = np.argsort(rows, kind="stable")
    parts = source.map(rows_of_block, rows[order])
    if sparse.issparse(parts[0]):
        return stacked(parts)[np.argsort(order)]
    taken, first = np.empty((len(rows), source.n_features)), 0
    for number, part in enumerate(parts):
        taken[order[first : first + len(part)]] = part
        first += len(part)
        parts[number] = None
    return taken
