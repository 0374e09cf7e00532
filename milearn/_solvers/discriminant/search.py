"""The search for a direction, a share and an orientation that separate bags.

Directions of single instances, S^-1 (x - m), are screened for all shares at once: the
superquantiles of all bags under them do not depend on the targets, so that inner folds and both
orientations use the same ones. A direction is worth the correlation of the targets with the ranks
of its superquantiles. The best ones of each share, Fisher's discriminant of the instances and
eigenvectors of the difference of covariances (see :mod:`..common.screen`) are followed by the steps
of :mod:`.superquantile`.

The orientation -1 has the targets with the other sign: the bags with low targets have more
instances with high scores. Each orientation and share has several poolings, which are shares over
which the scores of new bags are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._bags.blocks import PassSource
from ..common.screen import (
    ScreenLimits,
    contrasts_of,
    descending,
    inherited_difference,
    rank_correlations,
    single_directions,
    targets_of,
    whitened,
)
from .superquantile import Metric, ascend, counts_of, pull_of, superquantiles

# Shares that are compared; of those with equal counts in every bag only the first one is.
GRID = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# Multiples of a share over which the scores of a bag are pooled.
_POOLINGS = (1 / 3, 1.0, 3.0)
_LIMITS = ScreenLimits(candidates=400)
# Best candidates of each share that are followed, and the steps of all of them. The best one of
# each share goes on.
_STARTS, _FIRST_STEPS = 4, 2


@dataclass(frozen=True)
class Choice:
    """How a score is made of a direction: ``sign`` times the superquantile of ``pooling``."""

    sign: int
    # Place of the share among those that are compared.
    number: int
    share: float
    pooling: float


@dataclass(frozen=True)
class Followed:
    """The best direction of each share, J, and the number of passes."""

    directions: np.ndarray
    objectives: np.ndarray
    n_passes: int


@dataclass(frozen=True)
class ShareModel:
    """A direction whose pooled scores have the mean ``centre`` and deviation ``scale``."""

    direction: np.ndarray
    choice: Choice
    objective: float
    centre: float
    scale: float
    n_passes: int

    @property
    def coef(self) -> np.ndarray:
        """w, so that scores have a deviation of one."""
        return self.choice.sign * self.direction / self.scale

    @property
    def intercept(self) -> float:
        return -self.choice.sign * self.centre / self.scale


def compared_shares(sizes: np.ndarray, share: Any) -> np.ndarray:
    """The given share, or those of the grid with different counts of instances."""
    kept: dict[bytes, float] = {}
    for each in GRID if share is None else (float(share),):
        kept.setdefault(counts_of(sizes, each).tobytes(), each)
    return np.array([*kept.values()])


class ShareSearch:
    """Screened directions of a source, from which models of targets are found.

    Parameters
    ----------
    source : PassSource
    weights : ndarray of shape (n_bags,), above zero
    shares : ndarray of shape (n_shares,)
    max_iter : int
        Steps from a start.
    negative_weight : float
        h of :mod:`.superquantile`.
    """

    def __init__(
        self,
        source: PassSource,
        weights: np.ndarray,
        shares: np.ndarray,
        *,
        max_iter: int = 6,
        negative_weight: float = 0.5,
    ) -> None:
        self.source, self.shares = source, shares
        self.max_iter, self.negative_weight = max_iter, negative_weight
        self.along, mean, factor = whitened(source, weights, _LIMITS)
        self.whitening = mean, factor
        self.metric = Metric(mean, np.tril(factor[0]))
        # Of each bag as many as of any other one.
        each = weights / np.diff(source.offsets)
        count = _LIMITS.n_candidates(source.n_instances, source.n_features)
        single = single_directions(source, self.along, each, self.whitening, count)
        self.screened = self.metric.normalised(single)
        self.values = superquantiles(source, self.screened, shares)
        self.choices = [
            Choice(sign, number, share, pooling)
            for number, share in enumerate(shares.tolist())
            for sign in (1, -1)
            for pooling in ([min(1.0, k * share) for k in _POOLINGS] if share else [0.0])
        ]

    def followed(self, targets: np.ndarray, weights: np.ndarray, numbers: Any) -> Followed:
        """The best directions for the shares with these numbers.

        Parameters
        ----------
        targets, weights : ndarray of shape (n_bags,)
            Bags of weight zero take no part.
        numbers : sequence of int
        """
        used = weights > 0
        centred = targets_of(targets, weights)
        numbers = np.asarray(numbers)

        def worth(values: np.ndarray) -> np.ndarray:
            return rank_correlations(values[:, used], centred[used], weights[used])

        pull = centred * weights
        inherited = self.metric.solved(inherited_difference(self.source, pull)[None])
        contrasts = contrasts_of(
            self.source, self.along, (centred, weights), self.whitening, _LIMITS
        )
        more = self.metric.normalised(np.concatenate([inherited, contrasts, -contrasts]))
        of_more = superquantiles(self.source, more, self.shares[numbers])
        tried, starts = np.concatenate([self.screened, more]), []
        for number, values in zip(numbers, of_more, strict=True):
            values = np.concatenate([self.values[number], values], axis=1).T
            starts.append(tried[descending(worth(values))[:_STARTS]])
        directions, of = np.concatenate(starts), np.repeat(np.arange(len(numbers)), _STARTS)
        pull, n_passes = pull_of(centred, weights, self.negative_weight), 1
        first = min(_FIRST_STEPS, self.max_iter)
        for n_steps in (first, self.max_iter - first):
            shares = self.shares[numbers[of]]
            found = ascend(self.source, self.metric, directions, shares, pull, n_steps)
            pooled = superquantiles(self.source, found.directions, self.shares[numbers])
            values = worth(pooled[of, :, np.arange(len(of))])
            members = [np.flatnonzero(of == number) for number in range(len(numbers))]
            best = [each[descending(values[each])[0]] for each in members]
            directions, of = found.directions[best], of[best]
            n_passes += found.n_passes + 1
        return Followed(directions, found.values[best], n_passes)

    def held_out(
        self,
        targets: np.ndarray,
        weights: np.ndarray,
        folds: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> np.ndarray:
        """Scores of each choice on the bags of each fold, shape (n_choices, n_bags).

        Those of a fold have mean zero and deviation one on its training bags. Without folds, they
        are those of the training bags.
        """
        everything = np.arange(len(targets))
        found = np.zeros((len(self.choices), len(targets)))
        poolings = sorted({choice.pooling for choice in self.choices})
        for train, test in folds or [(everything, everything)]:
            own = np.zeros(len(targets))
            own[train] = weights[train]
            for sign in (1, -1):
                followed = self.followed(sign * targets, own, range(len(self.shares)))
                pooled = superquantiles(self.source, followed.directions, poolings)
                for place, choice in enumerate(self.choices):
                    if choice.sign == sign:
                        scores = pooled[poolings.index(choice.pooling), :, choice.number]
                        centre, scale = _centre_and_scale(scores, own)
                        found[place, test] = sign * (scores[test] - centre) / scale
        return found

    def best(self, scores: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> int:
        """Number of the choice whose scores agree best with the targets.

        Of equal ones it is the one with the fewest instances.
        """
        used = weights > 0
        centred = targets_of(targets[used], weights[used])
        values = rank_correlations(scores[:, used], centred, weights[used])
        poolings = [choice.pooling for choice in self.choices]
        return int(np.lexsort((poolings, -np.round(values, 9)))[0])

    def model(self, choice: Choice, targets: np.ndarray, weights: np.ndarray) -> ShareModel:
        """The model of a choice on bags with weights above zero."""
        found = self.followed(choice.sign * targets, weights, [choice.number])
        return model_of(self.source, found, choice, weights)


def model_of(
    source: PassSource, found: Followed, choice: Choice, weights: np.ndarray
) -> ShareModel:
    """The model of the first direction, scaled by the bags of a source."""
    scores = superquantiles(source, found.directions[:1], [choice.pooling])[0, :, 0]
    centre, scale = _centre_and_scale(scores, weights)
    direction, objective = found.directions[0], float(found.objectives[0])
    return ShareModel(direction, choice, objective, centre, scale, found.n_passes + 1)


def _centre_and_scale(scores: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Weighted mean and standard deviation; one, if scores do not differ."""
    centre = np.average(scores, weights=weights)
    scale = np.sqrt(np.average((scores - centre) ** 2, weights=weights))
    return float(centre), float(scale) if scale > 1e-12 * abs(centre) else 1.0
