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
from ..common.passes import SampleLimits, instance_scores, sampled_source
from ..common.screen import (
    ScreenLimits,
    contrasts_of,
    descending,
    inherited_difference,
    instance_landmarks,
    products,
    proportions_of,
    rank_correlations,
    single_directions,
    targets_of,
    transformed_source,
    whitened,
)
from .superquantile import Metric, ascend, counts_of, superquantiles

# Shares that are compared; of those with equal counts in every bag only the first one is.
GRID = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
# Multiples of a share over which the scores of a bag are pooled.
_POOLINGS = (1 / 3, 1.0, 3.0)
_LIMITS = ScreenLimits(candidates=400)
# Of more instances, some bags are searched, and the last steps are made on all.
_SAMPLE = SampleLimits(instances=20_000, per_feature=10_000, numbers=2**25)
# Superquantiles of candidates that are in memory.
_VALUES = 2**25
# Cuts that are compared.
_CUTS = 64
# Best candidates of each share that are followed, and the steps of all of them. The best one of
# each share goes on to the last step.
_STARTS, _FIRST_STEPS, _STEPS = 4, 2, 6


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
    """The best direction of each share, J, and the number of passes of its steps."""

    directions: np.ndarray
    objectives: np.ndarray
    n_passes: int


@dataclass(frozen=True)
class ShareSolution:
    """A function of instances, whose pooled values have mean zero and deviation one.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
    intercept : float
    choice : Choice
    objective : float
        J of the direction.
    n_passes : int
    bags : ndarray of shape (n_searched,)
        Bags of the search.
    scores : ndarray of shape (n_searched,)
        Their scores of the models of inner folds.
    shares : ndarray of shape (n_shares,)
        Shares that were compared.
    share_scores : ndarray of shape (n_shares, n_searched)
        Scores as above of the best choice of each share.
    """

    coef: np.ndarray
    intercept: float
    choice: Choice
    objective: float
    n_passes: int
    bags: np.ndarray
    scores: np.ndarray
    shares: np.ndarray
    share_scores: np.ndarray


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
    """

    def __init__(
        self,
        source: PassSource,
        weights: np.ndarray,
        shares: np.ndarray,
    ) -> None:
        self.source, self.shares = source, shares
        self.along, mean, factor = whitened(source, weights, _LIMITS)
        self.whitening = mean, factor
        self.metric = Metric(mean, np.tril(factor[0]))
        # Of each bag as many as of any other one.
        each = weights / np.diff(source.offsets)
        count = _LIMITS.n_candidates(source.n_instances, source.n_features)
        count = max(_STARTS, min(count, _VALUES // (len(shares) * source.n_bags)))
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
        centred, numbers = targets_of(targets, weights), np.asarray(numbers)
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
            starts.append(tried[descending(_worth(values, targets, weights))[:_STARTS]])
        directions, n_passes = np.concatenate(starts), 0
        of = np.repeat(np.arange(len(numbers)), len(starts[0]))
        for n_steps in (_FIRST_STEPS, _STEPS - _FIRST_STEPS):
            shares = self.shares[numbers[of]]
            found = ascend(
                self.source, self.metric, directions, shares, proportions_of(pull), n_steps
            )
            pooled = superquantiles(self.source, found.directions, self.shares[numbers])
            values = _worth(pooled[of, :, np.arange(len(of))], targets, weights)
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

    def best(self, values: np.ndarray) -> int:
        """Number of the choice with the highest value; of equal ones, that of fewest instances."""
        poolings = np.array([choice.pooling for choice in self.choices])
        return int(np.lexsort((poolings, -np.round(values, 9)))[0])


def solve_shares(
    source: PassSource,
    targets: np.ndarray,
    weights: np.ndarray,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    share: float | None = None,
    limits: SampleLimits = _SAMPLE,
) -> list[ShareSolution]:
    """The best model of each of several targets.

    Parameters
    ----------
    source : PassSource
    targets : ndarray of shape (n_targets, n_bags)
        What the scores should grow with. Several are one-vs-rest.
    weights : ndarray of shape (n_bags,), above zero
    folds : sequence of (train, test)
        Without folds, shares and orientations are compared on the training bags.
    share : float, default=None
        None compares several.
    limits : SampleLimits
        Above its size, the direction is found on a sample of the bags and improved on all.
    """
    searched, bags = source, np.arange(source.n_bags)
    if not limits.holds_all(source.n_instances, source.n_features):
        classes = targets.argmax(axis=0)
        if len(targets) == 1:
            classes = targets_of(targets[0], weights) > 0
        searched, bags = sampled_source(source, classes, limits)
    features, own, improved = None, weights[bags], searched is not source
    if source.n_features > _LIMITS.features:
        features = instance_landmarks(searched, products, own)
        searched, improved = transformed_source(searched, features), False
    search = ShareSearch(searched, own, compared_shares(np.diff(source.offsets), share))
    numbers = np.array([choice.number for choice in search.choices])
    place = np.full(source.n_bags, -1)
    place[bags] = np.arange(len(bags))
    own_folds = [(_without_missing(place[a]), _without_missing(place[b])) for a, b in folds]
    solutions = []
    for target in targets:
        held_out = search.held_out(target[bags], own, own_folds)
        values = _worth(held_out, target[bags], own)
        chosen = search.best(values)
        choice = search.choices[chosen]
        found = search.followed(choice.sign * target[bags], own, [choice.number])
        direction, objective = found.directions[0], found.objectives[0]
        n_passes = found.n_passes
        if features is not None:
            direction = np.asarray(features.landmarks.T @ (features.factor @ direction))
        if improved:
            pull = proportions_of(choice.sign * targets_of(target, weights) * weights)
            start = direction[None], np.array([choice.share])
            last = ascend(source, search.metric, *start, pull, _STEPS)
            direction, objective = last.directions[0], last.values[0]
            n_passes = last.n_passes
        scores = superquantiles(source, direction[None], [choice.pooling])[0, :, 0]
        centre, scale = _centre_and_scale(scores, weights)
        best = [
            search.best(np.where(numbers == number, values, -np.inf))
            for number in range(len(search.shares))
        ]
        solutions.append(
            ShareSolution(
                coef=choice.sign * direction / scale,
                intercept=-choice.sign * centre / scale,
                choice=choice,
                objective=float(objective),
                n_passes=n_passes + 1,
                bags=bags,
                scores=held_out[chosen],
                shares=search.shares,
                share_scores=held_out[best],
            )
        )
    return solutions


def _without_missing(places: np.ndarray) -> np.ndarray:
    return places[places >= 0]


def _worth(scores: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Correlation of the targets with the ranks in each row of the scores of bags."""
    used = weights > 0
    centred = targets_of(targets[used], weights[used])
    return rank_correlations(scores[:, used], centred, weights[used])


def _correlations(values: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted correlation of each column of values with the targets, which have mean zero."""
    away = values - np.average(values, axis=0, weights=weights)
    norms = np.sqrt((weights @ away**2) * float(weights @ targets**2))
    sums = (weights * targets) @ away
    return np.asarray(np.divide(sums, norms, out=np.zeros(len(sums)), where=norms > 0))


def best_cut(
    source: PassSource, coef: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> float:
    """The cut for which the share of the instances with higher scores agrees best with the targets.

    It is compared by the correlation with the targets at quantiles of the scores of all instances.
    """
    scores = instance_scores(source, coef[None])[:, 0]
    owner = np.repeat(np.arange(source.n_bags), np.diff(source.offsets))
    tails = np.geomspace(1.0 / len(scores), 0.5, min(_CUTS, len(scores)))
    cuts = np.unique(np.quantile(scores, 1.0 - tails))
    n_places = len(cuts) + 1
    places = owner * n_places + np.searchsorted(cuts, scores, side="left")
    counts = np.bincount(places, minlength=source.n_bags * n_places).reshape(-1, n_places)
    above = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:] / np.diff(source.offsets)[:, None]
    values = _correlations(above, targets_of(targets, weights), weights)
    return float(cuts[len(values) - 1 - np.argmax(np.round(values[::-1], 9))])


def _centre_and_scale(scores: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Weighted mean and standard deviation; one, if scores do not differ."""
    centre = np.average(scores, weights=weights)
    scale = np.sqrt(np.average((scores - centre) ** 2, weights=weights))
    return float(centre), float(scale) if scale > 1e-12 * abs(centre) else 1.0
