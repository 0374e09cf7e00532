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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..._bags.blocks import ArraySource, PassSource
from ..._bags.segments import gather_rows, segment_mean
from ..common.cccp import RELATIVE_TIE
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
from .superquantile import Ascent, ascend, counts_of, superquantiles

# Shares that are compared; of those with equal counts in every bag only the first one is.
GRID = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_SIGNS = (1, -1)
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
_STARTS, _FIRST_STEPS, _STEPS = 2, 1, 4
# Of directions that separate the bags alike, the ratio of J from which it decides between them.
_CLEARLY = 1.2
# Likelihood ratio above which directions of parts have nearly equal weights.
_CERTAIN = 1e4


@dataclass(frozen=True)
class Choice:
    """How a score is made of a direction: ``sign`` times the superquantile of ``pooling``."""

    sign: int
    # Place of the share among those that are compared.
    number: int
    share: float
    pooling: float


@dataclass(frozen=True)
class Found:
    """What a part of the bags has found.

    Attributes
    ----------
    directions : ndarray of shape (n_choices, n_features)
        Of the searched instances.
    scores : ndarray of shape (n_choices, n_bags)
        With mean zero and deviation one on the part.
    tested : ndarray of bool, shape (n_bags,)
        Bags that tell what the directions are worth.
    """

    directions: np.ndarray
    scores: np.ndarray
    tested: np.ndarray


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
    """

    coef: np.ndarray
    intercept: float
    choice: Choice
    objective: float
    n_passes: int


class ShareSearch:
    """Screened directions of a source, from which models of several targets are found.

    Parameters
    ----------
    source : PassSource
    targets : ndarray of shape (n_targets, n_bags)
        What the scores should grow with. Several are one-vs-rest.
    weights : ndarray of shape (n_bags,), above zero
    share : float, default=None
        None compares several.
    limits : SampleLimits
        Above its size, directions are found on a sample of the bags, and the last one is improved
        on all.
    """

    def __init__(
        self,
        source: PassSource,
        targets: np.ndarray,
        weights: np.ndarray,
        *,
        share: float | None = None,
        limits: SampleLimits = _SAMPLE,
    ) -> None:
        self.source, self.targets, self.weights = source, targets, weights
        # The given share, or those of the grid with different counts of instances.
        kept: dict[bytes, float] = {}
        for one in GRID if share is None else (share,):
            kept.setdefault(counts_of(np.diff(source.offsets), one).tobytes(), one)
        self.shares = np.array([*kept.values()])
        searched, self.bags = source, np.arange(source.n_bags)
        if not limits.holds_all(source.n_instances, source.n_features):
            classes = targets.argmax(axis=0)
            if len(targets) == 1:
                classes = targets_of(targets[0], weights) > 0
            searched, self.bags = sampled_source(source, classes, limits)
        self.features, own = None, weights[self.bags]
        self._improved = searched is not source and source.n_features <= _LIMITS.features
        if source.n_features > _LIMITS.features:
            self.features = instance_landmarks(searched, products, own)
            searched = transformed_source(searched, self.features)
        self.searched = searched
        self.along, self.metric = whitened(searched, own, _LIMITS)
        # Of each bag as many as of any other one.
        each = own / np.diff(searched.offsets)
        count = _LIMITS.n_candidates(searched.n_instances, searched.n_features)
        count = max(_STARTS, min(count, _VALUES // (len(self.shares) * searched.n_bags)))
        single = single_directions(searched, self.along, each, self.metric, count)
        self.screened = self.metric.normalised(single)
        self.values = superquantiles(searched, self.screened, self.shares)
        # The first of the choices that tie is taken. Of two classes it must not depend on names.
        pull = targets_of(targets[0, self.bags], own) * own
        first = 1 if pull @ segment_mean(self.along, searched.offsets) >= 0 else -1
        signs = (first, -first) if len(targets) == 1 else (1, -1)
        self.choices = [
            Choice(sign, number, share, pooling)
            for number, share in enumerate(self.shares.tolist())
            for sign in signs
            for pooling in ([min(1.0, k * share) for k in _POOLINGS] if share else [0.0])
        ]

    def _followed(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The best direction for each sign and share, shape (2, n_shares, n_features).

        Parameters
        ----------
        targets, weights : ndarray of shape (n_searched,)
            Bags of weight zero take no part.
        """
        used = np.flatnonzero(weights > 0)
        source, along = self._part(used)
        targets, weights = targets[used], weights[used]
        centred = targets_of(targets, weights)
        tried = [self.metric.solved(inherited_difference(source, centred * weights)[None])]
        tried.append(contrasts_of(source, along, (centred, weights), self.metric, _LIMITS, _SIGNS))
        more = self.metric.normalised(np.concatenate(tried))
        more = np.concatenate([more, -more])
        of_more = superquantiles(source, more, self.shares)
        every = np.concatenate([self.screened, more])
        values = [
            worth(np.concatenate([first[used], then], axis=1).T, targets, weights)
            for first, then in zip(self.values, of_more, strict=True)
        ]
        starts = [descending(sign * each)[:_STARTS] for sign in _SIGNS for each in values]
        directions, own = every[np.concatenate(starts)], len(starts[0])
        signs, numbers = np.repeat(_SIGNS, len(values)), np.tile(np.arange(len(values)), 2)
        pull = np.array([proportions_of(sign * centred * weights) for sign in signs])
        for n_steps in (_FIRST_STEPS, _STEPS - _FIRST_STEPS):
            of = np.repeat(np.arange(len(signs)), own)
            shares = self.shares[numbers[of]]
            ends = ascend(source, self.metric, directions, shares, pull[of], n_steps)
            found = ends.directions
            pooled = superquantiles(source, found, self.shares)[numbers[of], :, np.arange(len(of))]
            reached = signs[of] * worth(pooled, targets, weights)
            reached = np.round(reached.reshape(-1, own), 9)
            # With more features than bags, all may separate the bags. The best one of the start is
            # then kept, unless J is clearly larger in another.
            equal = reached == reached.max(axis=1, keepdims=True)
            value = np.where(equal, ends.values.reshape(-1, own), -np.inf)
            rows, first, best = np.arange(len(value)), equal.argmax(axis=1), value.argmax(axis=1)
            clear = value[rows, best] > _CLEARLY * value[rows, first]
            directions, own = found[np.where(clear, best, first) + own * rows], 1
        return np.asarray(directions.reshape(2, len(values), -1))

    def _part(self, bags: np.ndarray) -> tuple[ArraySource, np.ndarray]:
        """Some of the searched bags in float64, and their instances along the first direction."""
        rows, offsets = gather_rows(self.searched.offsets, bags)
        instances = self.searched.gather(rows).astype(np.float64, copy=False)
        return ArraySource(instances, offsets), self.along[rows]

    def _of_instances(self, directions: np.ndarray) -> np.ndarray:
        """Directions of the instances for those of the searched ones."""
        if self.features is None:
            return directions
        return np.asarray(directions @ self.features.factor.T @ self.features.landmarks)

    def _found(self, number: int, train: np.ndarray, test: np.ndarray) -> Found:
        """What the bags ``train`` find for a target, and the bags ``test`` judge."""
        targets, own = self.targets[number], np.zeros(self.source.n_bags)
        own[train] = self.weights[train]
        found = dict(zip(_SIGNS, self._followed(targets[self.bags], own[self.bags]), strict=True))
        poolings = sorted({choice.pooling for choice in self.choices})
        pooled = {
            sign: superquantiles(self.source, self._of_instances(directions), poolings)
            for sign, directions in found.items()
        }
        scores = np.zeros((len(self.choices), len(own)))
        for row, choice in zip(scores, self.choices, strict=True):
            each = pooled[choice.sign][poolings.index(choice.pooling), :, choice.number]
            centre, scale = _centre_and_scale(each, own)
            row[:] = choice.sign * (each - centre) / scale
        tested = np.zeros(len(own), dtype=bool)
        tested[test] = True
        directions = np.array([found[choice.sign][choice.number] for choice in self.choices])
        return Found(directions, scores, tested)

    def best(self, values: np.ndarray) -> int:
        """Number of the choice with the highest value; of equal ones, that of fewest instances."""
        poolings = np.array([choice.pooling for choice in self.choices])
        return int(np.lexsort((poolings, -np.round(values, 9)))[0])

    def best_of_shares(self, values: np.ndarray) -> list[int]:
        """Number of the best choice of each share."""
        numbers = np.array([choice.number for choice in self.choices])
        each = range(len(self.shares))
        return [self.best(np.where(numbers == share, values, -np.inf)) for share in each]

    def validated(
        self,
        number: int,
        folds: Sequence[tuple[np.ndarray, np.ndarray]],
        parts: Iterable[tuple[np.ndarray, np.ndarray]],
    ) -> tuple[ShareSolution, np.ndarray, np.ndarray]:
        """The model of a target, from what parts of the bags have found.

        If all fits find the right maximum, held-out scores of folds choose best. If few do, only
        those of parts choose well, since they are weighted. The scores that tell more choose. Last
        steps on all bags start from the weighted mean direction of the parts.

        Parameters
        ----------
        number : int
        folds : sequence of (train, test)
            If there are none, nothing is held out.
        parts : iterable of (train, test)
            If there are none, folds are the parts.

        Returns
        -------
        solution : ShareSolution
        scores : ndarray of shape (n_bags,)
            Those of each bag by what has not seen it, and by a choice that has not. Bags that no
            fold tests have zeros.
        of_shares : ndarray of shape (n_shares, n_bags)
            Such scores by each share.
        """
        everything = np.arange(self.source.n_bags)
        tasks = folds or [(everything, everything)]
        found = [self._found(number, *each) for each in tasks]
        tested = np.any([each.tested for each in found], axis=0)
        given = self.targets[number, tested], self.weights[tested]
        held_out = _of_tested(found)
        values = worth(held_out[:, tested], *given)
        place = self.best(values)
        of_folds = self._nested(number, found, tested), held_out[self.best_of_shares(values)]
        further = [self._found(number, *each) for each in parts]
        if not further:
            return self._of_parts(number, found, place), *of_folds
        found += further
        of_parts = self._held_out_of_parts(number, found)
        # It does not depend on rounding.
        if worth(of_parts[0][None, tested], *given)[0] > values[place] + 1e-9:
            return self._of_parts(number, found, None), *of_parts
        return self._of_parts(number, found, place), *of_folds

    def _nested(self, number: int, found: list[Found], tested: np.ndarray) -> np.ndarray:
        """Scores of the bags of each fold by the choice that is best on those of the others."""
        scores, held_out = np.zeros(len(self.weights)), _of_tested(found)
        for each in found:
            others = tested & ~each.tested
            judges = others if others.any() else each.tested
            given = self.targets[number, judges], self.weights[judges]
            place = self.best(worth(held_out[:, judges], *given))
            scores[each.tested] = each.scores[place, each.tested]
        return scores

    def _held_out_of_parts(self, number: int, found: list[Found]) -> tuple[np.ndarray, np.ndarray]:
        """Scores of each bag by the parts that lack it, if the others judge them.

        Those of shares are means of the scores of these parts.
        """
        scores = np.zeros(len(self.weights))
        of_shares = np.zeros((len(self.shares), len(self.weights)))
        tested = np.array([each.tested for each in found]).T
        lefts, choices, directions = [], [], []
        for pattern in np.unique(tested, axis=0):
            left = (tested == pattern).all(axis=1)
            without = [each for each, is_by in zip(found, pattern, strict=True) if is_by]
            without = [each for each in without if (each.tested & ~left).any()]
            if without:
                choice, direction, means = self._agreed(number, without, left)
                of_shares[:, left] = means[:, left]
                lefts.append(left)
                choices.append(choice)
                directions.append(direction)
        if lefts:
            own = np.where(lefts, 0.0, self.weights)
            last = self._last_steps(number, choices, np.array(directions), own)
            poolings = np.unique([choice.pooling for choice in choices])
            pooled = superquantiles(self.source, self._of_instances(last.directions), poolings)
            for place, (left, choice) in enumerate(zip(lefts, choices, strict=True)):
                each = pooled[np.searchsorted(poolings, choice.pooling), :, place]
                centre, scale = _centre_and_scale(each, own[place])
                scores[left] = choice.sign * (each[left] - centre) / scale
        return scores, of_shares

    def _agreed(
        self, number: int, found: list[Found], left: np.ndarray, place: int | None = None
    ) -> tuple[Choice, np.ndarray, np.ndarray]:
        """The choice, its weighted mean direction and scores of each share, without some bags.

        What a part has found is weighted by what it is worth on the bags that it has not seen.
        Without a ``place`` of the choice, it is the one whose weighted means tell most of these
        bags.
        """
        targets = self.targets[number]
        odds = np.zeros((len(found), len(self.choices)))
        means, total = np.zeros((2, len(self.choices), len(targets)))
        for part, each in zip(found, odds, strict=True):
            judges = part.tested & ~left
            given = targets[judges], self.weights[judges]
            each[:] = odds_of(worth(part.scores[:, judges], *given), self.weights[judges])
            means[:, judges] += each[:, None] * part.scores[:, judges]
            total[:, judges] += each[:, None]
        judged = total[0] > 0
        means, given = means[:, judged] / total[:, judged], (targets[judged], self.weights[judged])
        values = worth(means, *given)
        place = self.best(values) if place is None else place
        shares = self.best_of_shares(values)
        direction = odds[:, place] @ np.array([each.directions[place] for each in found])
        scores_of = np.array([each.scores[shares] for each in found])
        of_shares = np.einsum(
            "ms,msb->sb", odds[:, shares] / odds[:, shares].sum(axis=0), scores_of
        )
        return self.choices[place], direction, of_shares

    def _of_parts(self, number: int, found: list[Found], place: int | None) -> ShareSolution:
        """The model of what all parts have found, after last steps on all bags."""
        none = np.zeros(len(self.weights), dtype=bool)
        choice, direction, _ = self._agreed(number, found, none, place)
        last = self._last_steps(number, [choice], direction[None], self.weights[None])
        return self._solution(number, choice, last)

    def _last_steps(
        self,
        number: int,
        choices: list[Choice],
        directions: np.ndarray,
        weights: np.ndarray,
        *,
        on_all: bool = False,
    ) -> Ascent:
        """Steps of each direction, with its weights of the bags, on those that are searched."""
        bags = np.arange(self.source.n_bags) if on_all else self.bags
        targets = self.targets[number, bags]
        pull = [
            proportions_of(choice.sign * targets_of(targets, own) * own)
            for choice, own in zip(choices, weights[:, bags], strict=True)
        ]
        shares = np.array([choice.share for choice in choices])
        source = self.source if on_all else self.searched
        return ascend(source, self.metric, directions, shares, np.array(pull), _STEPS)

    def _solution(self, number: int, choice: Choice, last: Ascent) -> ShareSolution:
        """The model of a direction; if only a sample was searched, it is improved on all bags."""
        if self._improved:
            given = [choice], last.directions, self.weights[None]
            last = self._last_steps(number, *given, on_all=True)
        direction = self._of_instances(last.directions)
        pooled = superquantiles(self.source, direction, [choice.pooling])[0, :, 0]
        centre, scale = _centre_and_scale(pooled, self.weights)
        return ShareSolution(
            coef=choice.sign * direction[0] / scale,
            intercept=-choice.sign * centre / scale,
            choice=choice,
            objective=float(last.values[0]),
            n_passes=last.n_passes + 1,
        )


def _of_tested(found: list[Found]) -> np.ndarray:
    """Scores of bags that one of what is found is tested by, or zeros."""
    return np.asarray(sum(np.where(each.tested, each.scores, 0.0) for each in found))


def worth(scores: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Correlation of the targets with the ranks in each row of the scores of bags."""
    used = weights > 0
    centred = targets_of(targets[used], weights[used])
    return rank_correlations(scores[:, used], centred, weights[used])


def odds_of(correlations: np.ndarray, weights: np.ndarray, certain: float = _CERTAIN) -> np.ndarray:
    """Weights of what was found by its correlations with the targets of bags not seen.

    They are likelihood ratios of the correlation and of none, less one, so that what is worth
    nothing has no weight. Those far above ``certain`` are equal.
    """
    n = weights.sum() ** 2 / (weights @ weights)
    squares = 0.5 * np.maximum(correlations, 0.0) ** 2 * max(0.0, n - 1.0)
    ratios = np.expm1(np.minimum(squares, 500.0))
    # Of those that are all worth nothing, each has the same weight.
    return np.asarray(ratios / (1.0 + ratios / certain) + 1e-9)


def _correlations(values: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted correlation of each column of values with the targets, which have mean zero."""
    away = values - np.average(values, axis=0, weights=weights)
    norms = np.sqrt((weights @ away**2) * float(weights @ targets**2))
    sums = (weights * targets) @ away
    return np.asarray(np.divide(sums, norms, out=np.zeros(len(sums)), where=norms > 0))


def best_cut(
    source: PassSource, coef: np.ndarray, sign: int, targets: np.ndarray, weights: np.ndarray
) -> float:
    """The cut for which the share of the instances beyond it agrees best with the targets.

    Instances beyond it have higher scores, or lower ones for the sign -1. It is compared by the
    correlation with the targets at quantiles of the scores of all instances, and lies midway
    between two scores, so that rounding does not decide on which side an instance is.
    """
    scores, targets = instance_scores(source, sign * coef[None])[:, 0], sign * targets
    owner = np.repeat(np.arange(source.n_bags), np.diff(source.offsets))
    cuts = _cuts_between(np.sort(scores))
    n_places = len(cuts) + 1
    places = owner * n_places + np.searchsorted(cuts, scores, side="left")
    counts = np.bincount(places, minlength=source.n_bags * n_places).reshape(-1, n_places)
    above = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:] / np.diff(source.offsets)[:, None]
    values = _correlations(above, targets_of(targets, weights), weights)
    return sign * float(cuts[len(values) - 1 - np.argmax(np.round(values[::-1], 9))])


def _cuts_between(ordered: np.ndarray) -> np.ndarray:
    """Cuts midway between scores that differ by more than rounding, at quantiles from the median.

    If none differ, the only cut is above all.
    """
    largest = np.abs(ordered[[0, -1]]).max()
    ends = np.flatnonzero(np.diff(ordered) > RELATIVE_TIE * largest)
    if len(ends) == 0:
        return np.array([ordered[-1] + largest])
    tails = np.geomspace(1.0 / len(ordered), 0.5, min(_CUTS, len(ordered)))
    places = np.searchsorted(ends, np.floor((1.0 - tails) * (len(ordered) - 1)))
    below = np.unique(ends[np.minimum(places, len(ends) - 1)])
    return np.asarray(0.5 * (ordered[below] + ordered[below + 1]))


def _centre_and_scale(scores: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Weighted mean and standard deviation; one, if scores do not differ."""
    centre = np.average(scores, weights=weights)
    scale = np.sqrt(np.average((scores - centre) ** 2, weights=weights))
    return float(centre), float(scale) if scale > 1e-12 * abs(centre) else 1.0
