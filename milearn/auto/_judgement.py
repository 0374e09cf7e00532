"""Evaluation of models on inner folds, selection of a model, and their combination."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._bags import Bags
from ._calibration import Calibration, calibrate, class_measures, probabilities
from ._candidates import ScoreFunction, Training, Way
from ._folds import Folds

__all__ = [
    "COMBINED",
    "CombinedFunction",
    "Judged",
    "chosen_way",
    "function_of",
    "judge_all",
    "positive_class",
]

COMBINED = "combined"


@dataclass(frozen=True)
class Judged:
    """Evaluation of a model by its out-of-fold scores."""

    # The selection criterion: the sum of a measure and the AUC.
    criterion: float
    # Standard error of the accuracy.
    error: float
    measures: dict[str, float]
    calibration: Calibration
    # Mean log likelihood, by which orientations of equal criteria are compared.
    likelihood: float
    way: Way

    @property
    def key(self) -> tuple[float, float]:
        """Orientations are compared by it: the order of the labels must not decide a tie."""
        return self.criterion, self.likelihood


@dataclass(frozen=True)
class CombinedFunction:
    """The mean of the log odds of several models.

    An uninformative model predicts the same log odds for all bags and has no effect, unlike in a
    mean of scores or of kernels.
    """

    functions: list[ScoreFunction]
    calibrations: list[Calibration]

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, n_columns)."""
        scores = [function.bag_scores(bags) for function in self.functions]
        return mean_log_odds(scores, self.calibrations)

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, n_columns)."""
        scores = [function.instance_scores(bags) for function in self.functions]
        return mean_log_odds(scores, self.calibrations)


def mean_log_odds(scores: list[np.ndarray], calibrations: list[Calibration]) -> np.ndarray:
    """Mean of the log odds of the models, shape (n, n_columns)."""
    stated = [each.log_odds(values) for each, values in zip(calibrations, scores, strict=True)]
    return np.mean(stated, axis=0)


def judge_all(
    scored: dict[Way, list[np.ndarray]], folds: Folds, training: Training, scoring: str
) -> dict[str, Judged]:
    """Evaluate each model in its better orientation, and their combination as the last one.

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
    n_common = min(map(len, scored.values()), default=0)

    def bags_of(n_folds: int) -> np.ndarray:
        return np.concatenate([test for _, test in folds[:n_folds]])

    def judge(way: Way, values: np.ndarray, rows: np.ndarray) -> Judged:
        n = sum(len(test) for _, test in folds[:n_common])
        codes, weights = training.targets[rows], training.weights[rows]
        calibration = calibrate(values, codes, weights, scoring == "balanced_accuracy")
        decisions = calibration.decisions(values[:n])
        measures = class_measures(decisions, codes[:n], weights[:n])
        share = measures["accuracy"]
        spread = np.sum(weights[:n] ** 2) / np.sum(weights[:n]) ** 2
        error = float(np.sqrt(share * (1 - share) * spread))
        criterion = measures[scoring] + measures["roc_auc"]
        stated = probabilities(calibration.log_odds(values[:n]))[np.arange(n), codes[:n]]
        likelihood = np.average(np.log(np.maximum(stated, 1e-300)), weights=weights[:n])
        return Judged(criterion, error, measures, calibration, float(likelihood), way)

    judged: dict[str, Judged] = {}
    for way, scores in scored.items():
        found = judge(way, np.concatenate(scores), bags_of(len(scores)))
        if way.name not in judged or found.key > judged[way.name].key:
            judged[way.name] = found
    if len(judged) > 1:
        ways = list(judged.values())
        common = [np.concatenate(scored[each.way][:n_common]) for each in ways]
        together = mean_log_odds(common, [each.calibration for each in ways])
        judged[COMBINED] = judge(Way(COMBINED), together, bags_of(n_common))
    return judged


def positive_class(judged: dict[str, Judged], otherwise: int) -> int:
    """The class of which one instance suffices in the best model that has such a class."""
    oriented = [each for each in judged.values() if each.way.positive is not None]
    best = max(oriented, key=lambda each: each.key, default=None)
    return otherwise if best is None or best.way.positive is None else best.way.positive


def chosen_way(judged: dict[str, Judged]) -> str:
    """The combination, unless a single model is better by more than a standard error. With a
    hundred bags, the best of a few models is often best by chance, and a mean of several models has
    a smaller variance.
    """
    alone = {name: each for name, each in judged.items() if name != COMBINED}
    best = max(alone, key=lambda name: alone[name].criterion)
    together = judged.get(COMBINED)
    if together is None or alone[best].criterion > together.criterion + alone[best].error:
        return best
    return COMBINED


def function_of(
    name: str, judged: dict[str, Judged], fitted: Callable[[Way], ScoreFunction]
) -> ScoreFunction:
    """The model, or all models of the combination, fitted on all training bags."""
    if name != COMBINED:
        return fitted(judged[name].way)
    parts = [each for part, each in judged.items() if part != COMBINED]
    functions = [fitted(each.way) for each in parts]
    return CombinedFunction(functions, [each.calibration for each in parts])
