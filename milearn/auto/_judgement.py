"""Evaluation of models on inner folds, and the combination of the better ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    "Judged",
    "Scored",
    "chosen_way",
    "function_of",
    "judge_classes",
    "judge_values",
    "mean_calibrated",
    "members",
    "positive_class",
]

COMBINED = "combined"
# Models are combined if they are worse than the best one by at most this number of standard errors.
_WITHIN = 2.0


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

    @property
    def key(self) -> tuple[float, float]:
        """Orientations are compared by it: the order of the labels must not decide a tie."""
        return self.criterion, self.likelihood


@dataclass(frozen=True)
class CombinedFunction:
    """The mean of the log odds, or of the calibrated values, of several models.

    An uninformative model predicts the same log odds for all bags and has little effect, unlike in
    a mean of scores or of kernels.
    """

    functions: list[ScoreFunction]
    calibrations: list[Calibration]

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, n_columns)."""
        scores = [function.bag_scores(bags) for function in self.functions]
        return mean_calibrated(scores, self.calibrations)

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, n_columns)."""
        scores = [function.instance_scores(bags) for function in self.functions]
        return mean_calibrated(scores, self.calibrations)


def mean_calibrated(scores: list[np.ndarray], calibrations: list[Calibration]) -> np.ndarray:
    """Mean of the log odds or values of the models, shape (n, n_columns)."""
    stated = [each.calibrated(values) for each, values in zip(calibrations, scores, strict=True)]
    return np.mean(stated, axis=0)


Scored = dict[Way, list[np.ndarray]]


def judge_classes(
    scored: Scored, folds: Folds, training: Training, scoring: str
) -> dict[str, Judged]:
    """Evaluate each classifier in its better orientation, and the combination as the last one.

    Parameters
    ----------
    scored : dict of list of ndarray
        Scores of the test bags of each fold; models can have different numbers of folds.
    folds : list of (train, test)
    training : Training
    scoring : {"accuracy", "balanced_accuracy", "roc_auc"}

    Returns
    -------
    dict of Judged
        Measures use the folds that all models have; calibrations use all folds of a model.
    """

    def judge(way: Way, values: np.ndarray, rows: np.ndarray, n: int) -> Judged:
        codes, weights = training.targets[rows], training.weights[rows]
        calibration = calibrate(values, codes, weights, scoring == "balanced_accuracy")
        decisions = calibration.decisions(values[:n])
        measures = class_measures(decisions, codes[:n], weights[:n])
        share = measures["accuracy"]
        spread = np.sum(weights[:n] ** 2) / np.sum(weights[:n]) ** 2
        error = 2 * float(np.sqrt(share * (1 - share) * spread))
        criterion = measures[scoring] + measures["roc_auc"]
        stated = probabilities(calibration.calibrated(values[:n]))[np.arange(n), codes[:n]]
        likelihood = np.average(np.log(np.maximum(stated, 1e-300)), weights=weights[:n])
        return Judged(criterion, error, measures, calibration, float(likelihood), way)

    return _with_combination(scored, folds, judge)


def judge_values(scored: Scored, folds: Folds, training: Training) -> dict[str, Judged]:
    """The same for regressors, by the mean squared error of calibrated values."""

    def judge(way: Way, values: np.ndarray, rows: np.ndarray, n: int) -> Judged:
        targets, weights = training.targets[rows], training.weights[rows]
        calibration = calibrate_values(values, targets, weights)
        squares = (calibration.calibrated(values[:n])[:, 0] - targets[:n]) ** 2
        weights = weights[:n] / weights[:n].sum()
        mean = float(weights @ squares)
        error = float(np.sqrt(weights**2 @ (squares - mean) ** 2))
        return Judged(-mean, error, {"mean_squared_error": mean}, calibration, 0.0, way)

    return _with_combination(scored, folds, judge)


def _with_combination(
    scored: Scored,
    folds: Folds,
    judge: Callable[[Way, np.ndarray, np.ndarray, int], Judged],
) -> dict[str, Judged]:
    """``judge(way, scores, bags, n)`` measures on the first ``n`` of the bags."""
    n_common = min(map(len, scored.values()), default=0)
    n = sum(len(test) for _, test in folds[:n_common])
    rows = np.concatenate([test for _, test in folds])
    judged: dict[str, Judged] = {}
    for way, scores in scored.items():
        values = np.concatenate(scores)
        found = judge(way, values, rows[: len(values)], n)
        if way.name not in judged or found.key > judged[way.name].key:
            judged[way.name] = found
    ways = members(judged)
    if len(ways) > 1:
        common = [np.concatenate(scored[each.way][:n_common]) for each in ways]
        together = mean_calibrated(common, [each.calibration for each in ways])
        judged[COMBINED] = judge(Way(COMBINED), together, rows[:n], n)
    return judged


def positive_class(judged: dict[str, Judged], otherwise: int) -> int:
    """The class of which one instance suffices in the best model that has such a class."""
    oriented = [each for each in judged.values() if each.way.positive is not None]
    best = max(oriented, key=lambda each: each.key, default=None)
    return otherwise if best is None or best.way.positive is None else best.way.positive


def members(judged: dict[str, Judged]) -> list[Judged]:
    """The models that are combined: the best one, and those that may be as good.

    With a hundred bags, the best of a few models is often best by chance, and a mean of several
    models has a smaller variance. A model that is clearly worse only adds noise.
    """
    alone = [each for name, each in judged.items() if name != COMBINED]
    best = max(alone, key=lambda each: each.criterion)
    lowest = best.criterion - _WITHIN * best.error
    return [each for each in alone if each.criterion >= lowest]


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
    return CombinedFunction(functions, [each.calibration for each in parts])
