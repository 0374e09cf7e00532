"""Evaluation of models on inner folds, and the combination of the better ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from .._bags import Bags
from ._calibration import (
    Calibration,
    calibrate,
    calibrate_values,
    class_measures,
    probabilities,
)
from ._candidates import ScoreFunction, Training, Way
from ._folds import Folds

__all__ = [
    "COMBINED",
    "CombinedFunction",
    "Judge",
    "Judged",
    "Scored",
    "chosen_way",
    "class_judge",
    "class_without",
    "clearly_worse",
    "function_of",
    "judge_classes",
    "judge_ways",
    "mean_calibrated",
    "members",
    "positive_class",
    "value_judge",
    "weights_of",
]

COMBINED = "combined"
# Models are combined if they are worse than the best one by at most this number of standard errors.
_WITHIN = 2.0
# Fewer test bags do not drop a model.
_FEWEST_TEST_BAGS = 20


@dataclass(frozen=True)
class Judged:
    """Evaluation of a model by its out-of-fold scores."""

    # The higher, the better: the sum of a measure and the AUC, or minus the mean squared error.
    criterion: float
    # Its standard error; at most, where it is a sum of two measures.
    error: float
    measures: dict[str, float]
    calibration: Calibration
    # Mean log likelihood, by which orientations of equal criteria are compared; 0 for values.
    likelihood: float
    way: Way
    # Whether it was dropped after its first folds, because others were clearly better.
    dropped: bool = False

    @property
    def key(self) -> tuple[bool, float, float]:
        """Orientations are compared by it: the order of the labels must not decide a tie."""
        return not self.dropped, self.criterion, self.likelihood


@dataclass(frozen=True)
class CombinedFunction:
    """The weighted mean of the log odds, or of the calibrated values, of several models.

    An uninformative model predicts the same log odds for all bags and has little effect, unlike in
    a mean of scores or of kernels.
    """

    functions: list[ScoreFunction]
    calibrations: list[Calibration]
    # Of shape (n_functions,).
    weights: np.ndarray

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, n_columns)."""
        scores = [function.bag_scores(bags) for function in self.functions]
        return mean_calibrated(scores, self.calibrations, self.weights)

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, n_columns)."""
        scores = [function.instance_scores(bags) for function in self.functions]
        return mean_calibrated(scores, self.calibrations, self.weights)


def mean_calibrated(
    scores: list[np.ndarray], calibrations: list[Calibration], weights: np.ndarray
) -> np.ndarray:
    """Weighted mean of the log odds or values of the models, shape (n, n_columns)."""
    stated = [each.calibrated(values) for each, values in zip(calibrations, scores, strict=True)]
    return np.average(stated, axis=0, weights=weights)


Scored = dict[Way, list[np.ndarray]]
# ``judge(way, scores, bags, n)`` calibrates by all bags and measures on the first ``n`` of them.
Judge = Callable[[Way, np.ndarray, np.ndarray, int], Judged]


def class_judge(training: Training, scoring: str) -> Judge:
    """The judge of classifiers, by the sum of ``scoring`` and the AUC."""

    def judge(way: Way, values: np.ndarray, rows: np.ndarray, n: int) -> Judged:
        codes, weights = training.targets[rows], training.weights[rows]
        calibration = calibrate(values, codes, weights, scoring == "balanced_accuracy")
        decisions = calibration.decisions(values[:n])
        measures = class_measures(decisions, codes[:n], weights[:n])
        n_equal = np.sum(weights[:n]) ** 2 / np.sum(weights[:n] ** 2)
        # One success and one failure are added, so that the error of few bags is not zero.
        share = (measures["accuracy"] * n_equal + 1) / (n_equal + 2)
        error = 2 * float(np.sqrt(share * (1 - share) / n_equal))
        criterion = measures[scoring] + measures["roc_auc"]
        stated = probabilities(calibration.calibrated(values[:n]))[np.arange(n), codes[:n]]
        likelihood = np.average(np.log(np.maximum(stated, 1e-300)), weights=weights[:n])
        return Judged(criterion, error, measures, calibration, float(likelihood), way)

    return judge


def value_judge(training: Training) -> Judge:
    """The judge of regressors, by the mean squared error of calibrated values."""

    def judge(way: Way, values: np.ndarray, rows: np.ndarray, n: int) -> Judged:
        targets, weights = training.targets[rows], training.weights[rows]
        calibration = calibrate_values(values, targets, weights)
        squares = (calibration.calibrated(values[:n])[:, 0] - targets[:n]) ** 2
        weights = weights[:n] / weights[:n].sum()
        mean = float(weights @ squares)
        error = float(np.sqrt(weights**2 @ (squares - mean) ** 2))
        return Judged(-mean, error, {"mean_squared_error": mean}, calibration, 0.0, way)

    return judge


def judge_classes(
    scored: Scored, folds: Folds, training: Training, scoring: str
) -> dict[str, Judged]:
    """Evaluate classifiers of which none was dropped, see :func:`judge_ways`."""
    return judge_ways(scored, folds, class_judge(training, scoring))


def judge_ways(
    scored: Scored, folds: Folds, judge: Judge, dropped: AbstractSet[Way] = frozenset()
) -> dict[str, Judged]:
    """Evaluate each model in its better orientation, and the combination as the last one.

    Parameters
    ----------
    scored : dict of list of ndarray
        Scores of the test bags of each fold; models can have different numbers of folds.
    folds : list of (train, test)
    judge : callable
    dropped : set of Way
        Models that are not combined. They are measured on all of their folds.

    Returns
    -------
    dict of Judged
        Measures use the folds that all other models have; calibrations use all folds of a model.
    """
    n_common = _n_common(scored, dropped)
    n = sum(len(test) for _, test in folds[:n_common])
    rows = np.concatenate([test for _, test in folds])
    judged: dict[str, Judged] = {}
    for way, scores in scored.items():
        values = np.concatenate(scores)
        n_measured = len(values) if way in dropped else n
        found = judge(way, values, rows[: len(values)], n_measured)
        found = replace(found, dropped=way in dropped)
        if way.name not in judged or found.key > judged[way.name].key:
            judged[way.name] = found
    ways = members(judged)
    if len(ways) > 1:
        common = [np.concatenate(scored[each.way][:n_common]) for each in ways]
        calibrations = [each.calibration for each in ways]
        together = mean_calibrated(common, calibrations, weights_of(ways))
        judged[COMBINED] = judge(Way(COMBINED), together, rows[:n], n)
    return judged


def clearly_worse(
    scored: Scored, folds: Folds, judge: Judge, dropped: AbstractSet[Way] = frozenset()
) -> set[Way]:
    """Models, or orientations, that are clearly worse than the best one on their first folds.

    They would not be combined. Others are scored on the remaining folds.
    """
    n_common = _n_common(scored, dropped)
    rows = np.concatenate([np.arange(0), *(test for _, test in folds[:n_common])])
    if n_common in (0, len(folds)) or len(rows) < _FEWEST_TEST_BAGS:
        return set()
    judged = {
        way: judge(way, np.concatenate(scores[:n_common]), rows, len(rows))
        for way, scores in scored.items()
        if way not in dropped
    }
    near = {each.way for each in _near_the_best(list(judged.values()))}
    return {way for way in judged if way not in near and len(scored[way]) == n_common}


def _n_common(scored: Scored, dropped: AbstractSet[Way]) -> int:
    return min((len(scores) for way, scores in scored.items() if way not in dropped), default=0)


def positive_class(judged: dict[str, Judged], otherwise: int) -> int:
    """The class of which one instance suffices in the best model that has such a class."""
    oriented = [each for each in judged.values() if each.way.positive is not None]
    best = max(oriented, key=lambda each: each.key, default=None)
    return otherwise if best is None or best.way.positive is None else best.way.positive


def class_without(judged: dict[str, Judged], names: Sequence[str]) -> int | None:
    """The class without instances that decide in the best model of these names, if any."""
    named = [each for each in judged.values() if each.way.name in names]
    best = max(named, key=lambda each: each.key, default=None)
    return None if best is None else best.way.without


def members(judged: dict[str, Judged]) -> list[Judged]:
    """The models that are combined: the best one, and those that may be as good.

    With a hundred bags, the best of a few models is often best by chance, and a mean of several
    models has a smaller variance. A model that is clearly worse only adds noise.
    """
    return _near_the_best(
        [each for name, each in judged.items() if name != COMBINED and not each.dropped]
    )


def weights_of(judged: list[Judged]) -> np.ndarray:
    """Weights in the combination: exp(-d) for a model that is worse by d standard errors."""
    best = max(judged, key=lambda each: each.criterion)
    below = np.array([best.criterion - each.criterion for each in judged])
    if best.error <= 0.0:
        return (below <= 0.0).astype(np.float64)
    return np.exp(-below / best.error)


def _near_the_best(judged: list[Judged]) -> list[Judged]:
    best = max(judged, key=lambda each: each.criterion, default=None)
    if best is None:
        return []
    lowest = best.criterion - _WITHIN * best.error
    return [each for each in judged if each.criterion >= lowest]


def chosen_way(judged: dict[str, Judged]) -> str:
    """The combination, or the only model that it would have."""
    return COMBINED if COMBINED in judged else members(judged)[0].way.name


def function_of(
    name: str, judged: dict[str, Judged], fitted: Callable[[Way], ScoreFunction]
) -> ScoreFunction:
    """The model, or the models of the combination, fitted on all training bags."""
    if name != COMBINED:
        return fitted(judged[name].way)
    parts = members(judged)
    functions = [fitted(each.way) for each in parts]
    return CombinedFunction(functions, [each.calibration for each in parts], weights_of(parts))
