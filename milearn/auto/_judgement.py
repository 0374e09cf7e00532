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
from ._candidates import CandidateName, ScoreFunction, Training

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
    candidate: CandidateName
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


Folds = list[tuple[np.ndarray, np.ndarray]]
Scored = dict[CandidateName, list[np.ndarray]]
# ``judge(name, scores, bags, n)`` calibrates by all bags and measures on the first ``n`` of them.
Judge = Callable[[CandidateName, np.ndarray, np.ndarray, int], Judged]


def class_judge(training: Training, scoring: str) -> Judge:
    """The judge of classifiers, by the sum of ``scoring`` and the AUC."""

    def judge(candidate: CandidateName, values: np.ndarray, rows: np.ndarray, n: int) -> Judged:
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
        return Judged(criterion, error, measures, calibration, float(likelihood), candidate)

    return judge


def value_judge(training: Training) -> Judge:
    """The judge of regressors, by the mean squared error of calibrated values."""

    def judge(candidate: CandidateName, values: np.ndarray, rows: np.ndarray, n: int) -> Judged:
        targets, weights = training.targets[rows], training.weights[rows]
        calibration = calibrate_values(values, targets, weights)
        squares = (calibration.calibrated(values[:n])[:, 0] - targets[:n]) ** 2
        weights = weights[:n] / weights[:n].sum()
        mean = float(weights @ squares)
        error = float(np.sqrt(weights**2 @ (squares - mean) ** 2))
        return Judged(-mean, error, {"mean_squared_error": mean}, calibration, 0.0, candidate)

    return judge


def judge_candidates(
    scored: Scored, folds: Folds, judge: Judge, dropped: AbstractSet[CandidateName] = frozenset()
) -> dict[str, Judged]:
    """Evaluate each model in its better orientation, and the combination as the last one.

    Parameters
    ----------
    scored : dict of list of ndarray
        Scores of the test bags of each fold; models can have different numbers of folds.
    folds : list of (train, test)
    judge : callable
    dropped : set of CandidateName
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
    for candidate, scores in scored.items():
        values = np.concatenate(scores)
        n_measured = len(values) if candidate in dropped else n
        found = judge(candidate, values, rows[: len(values)], n_measured)
        found = replace(found, dropped=candidate in dropped)
        if candidate.name not in judged or found.key > judged[candidate.name].key:
            judged[candidate.name] = found
    candidates = members(judged)
    if len(candidates) > 1:
        common = [np.concatenate(scored[each.candidate][:n_common]) for each in candidates]
        calibrations = [each.calibration for each in candidates]
        together = mean_calibrated(common, calibrations, weights_of(candidates))
        judged[COMBINED] = judge(CandidateName(COMBINED), together, rows[:n], n)
    return judged


def clearly_worse(
    scored: Scored, folds: Folds, judge: Judge, dropped: AbstractSet[CandidateName] = frozenset()
) -> set[CandidateName]:
    """Models, or orientations, that are clearly worse than the best one on their first folds.

    They would not be combined. Others are scored on the remaining folds.
    """
    n_common = _n_common(scored, dropped)
    rows = np.concatenate([np.arange(0), *(test for _, test in folds[:n_common])])
    if n_common in (0, len(folds)) or len(rows) < _FEWEST_TEST_BAGS:
        return set()
    judged = {
        candidate: judge(candidate, np.concatenate(scores[:n_common]), rows, len(rows))
        for candidate, scores in scored.items()
        if candidate not in dropped
    }
    near = {each.candidate for each in _near_the_best(list(judged.values()))}
    return {
        candidate
        for candidate in judged
        if candidate not in near and len(scored[candidate]) == n_common
    }


def _n_common(scored: Scored, dropped: AbstractSet[CandidateName]) -> int:
    return min(
        (len(scores) for candidate, scores in scored.items() if candidate not in dropped), default=0
    )


def positive_class(judged: dict[str, Judged], otherwise: int) -> int:
    """The class of which one instance suffices in the best model that has such a class."""
    oriented = [each for each in judged.values() if each.candidate.positive is not None]
    best = max(oriented, key=lambda each: each.key, default=None)
    return otherwise if best is None or best.candidate.positive is None else best.candidate.positive


def class_without(judged: dict[str, Judged], names: Sequence[str]) -> int | None:
    """The class without instances that decide in the best model of these names, if any."""
    named = [each for each in judged.values() if each.candidate.name in names]
    best = max(named, key=lambda each: each.key, default=None)
    return None if best is None else best.candidate.without


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


def chosen_model(judged: dict[str, Judged]) -> str:
    """The combination, or the only model that it would have."""
    return COMBINED if COMBINED in judged else members(judged)[0].candidate.name


def function_of(
    name: str, judged: dict[str, Judged], fitted: Callable[[CandidateName], ScoreFunction]
) -> ScoreFunction:
    """The model, or the models of the combination, fitted on all training bags."""
    if name != COMBINED:
        return fitted(judged[name].candidate)
    parts = members(judged)
    functions = [fitted(each.candidate) for each in parts]
    return CombinedFunction(functions, [each.calibration for each in parts], weights_of(parts))
