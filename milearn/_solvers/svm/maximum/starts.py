"""The starts of MI-SVM, which belong to the model and not to its solver.

The procedure starts from the mean of each positive bag, and from the highest instances under the
directions of :mod:`..common.screen`. The first start is followed to its end. The others are
followed for one step, and the best of them to its end. The lower objective is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.segments import gather_rows
from ...common.newton import GroupProblem, solve_groups
from ...common.passes import ArraySource, PassSource, rows_of_block, stacked
from ...common.screen import ScreenLimits, highest_rows, screened, targets_of
from ..losses import Hinge

__all__ = [
    "SampleLimits",
    "rough_svm",
    "sample_of",
    "sampled_source",
    "screened_rows",
    "screened_witnesses",
    "svm_problem",
]

Matrix = Any  # an ndarray, a CSR matrix or a RowStack


def screened_witnesses(
    source: PassSource, loss: Hinge, limits: ScreenLimits | None = None
) -> np.ndarray:
    """Witnesses of the positive bags under each screened direction, (n_starts, n_positive)."""
    positive = loss.signs > 0
    if np.diff(source.offsets)[positive].max() == 1:
        return np.zeros((0, int(positive.sum())), dtype=np.intp)
    targets = targets_of(loss.signs, loss.weights)
    return screened(source, targets, loss.weights, limits).rows[:, positive]


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


def screened_rows(
    source: PassSource,
    targets: np.ndarray,
    weights: np.ndarray,
    limits: SampleLimits | None = None,
) -> np.ndarray:
    """Highest instance of each bag under the best direction of a screen on a sample of the bags.

    ``targets`` are numbers, with which the highest score should grow.
    """
    limits = SampleLimits.of_whole_bags() if limits is None else limits
    if limits.holds_all(source.n_instances, source.n_features):
        return np.asarray(screened(source, targets_of(targets, weights), weights).rows[0])
    sample, bags = sampled_source(source, np.ones(source.n_bags), limits)
    own = targets_of(targets[bags], weights[bags])
    found = screened(sample, own, weights[bags])
    return np.asarray(highest_rows(source, found.directions[:1])[0])


def svm_problem(rows: Matrix, labels: np.ndarray, costs: np.ndarray) -> GroupProblem:
    """A support vector machine between rows."""
    if sparse.issparse(rows):
        signed = (sparse.diags_array(-labels) @ rows).tocsr()
    else:
        signed = rows * -labels[:, None]
    return GroupProblem(signed, -labels[:, None], np.arange(len(labels) + 1), costs)


def rough_svm(
    rows: Matrix, labels: np.ndarray, costs: np.ndarray, gap_tol: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """The function of a support vector machine between rows."""
    problem = svm_problem(rows, labels, costs)
    found = solve_groups(problem, np.zeros(rows.shape[1]), np.zeros(1), gap_tol=gap_tol)
    return found.w, found.v
