"""Calibration and evaluation of models on inner folds, and the combination of the better ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from .._bags import Bags
from .._solvers.discriminant.search import odds_of, worth
from ..base import highest_class
from ..model_selection._inner import Folds
from ._candidates import CandidateName, FitData, FittedShares, FoldModels

COMBINED = "combined"
# Models are combined if they are worse than the best one by at most this number of standard errors.
_WITHIN = 2.0
# Fewer test bags do not drop a model.
_FEWEST_TEST_BAGS = 20
# Out-of-fold scores with a smaller slope are considered uninformative.
_SMALLEST_SLOPE = 1e-6
_LARGEST_C = 1e6
# Scores whose range is a smaller part of their size are equal up to rounding.
_SAME = 1e-12


# -- calibration -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Calibration:
    """Log odds of each class, or values, as an affine function of the scores."""

    # Of shape (n_columns,).
    slope: np.ndarray
    constant: np.ndarray
    # Subtracted from the log odds for decisions: zero to predict the most likely class, or the log
    # odds of the class in the training bags if classes are weighted equally.
    shift: np.ndarray

    def calibrated(self, scores: np.ndarray) -> np.ndarray:
        """Log odds or values for scores of shape (n, n_columns)."""
        return scores * self.slope + self.constant

    def decisions(self, scores: np.ndarray) -> np.ndarray:
        """Log odds minus the shift; the sign or the highest value determines the class."""
        return self.calibrated(scores) - self.shift


def calibrate_values(
    predicted: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> Calibration:
    """Regress the targets on out-of-fold predictions by weighted least squares.

    A slope below 1 shrinks predictions of a model that overfits. It is not negative: predictions
    that are uninformative are replaced by the mean of the targets.

    Parameters
    ----------
    predicted : ndarray of shape (n_bags, 1)
    targets, weights : ndarray of shape (n_bags,)
    """
    mean = np.average(predicted[:, 0], weights=weights)
    centred, middle = predicted[:, 0] - mean, np.average(targets, weights=weights)
    variance = np.average(centred**2, weights=weights)
    covariance = np.average(centred * (targets - middle), weights=weights)
    slope = max(0.0, covariance / variance) if variance > 0 else 0.0
    return Calibration(np.array([slope]), np.array([middle - slope * mean]), np.zeros(1))


def calibrate(
    scores: np.ndarray, codes: np.ndarray, weights: np.ndarray, balanced: bool
) -> Calibration:
    """Fit a sigmoid to the scores of each class against the rest.

    The targets are (n_1 + 1) / (n_1 + 2) and 1 / (n_0 + 2), as proposed by Platt, so slopes are
    finite even if scores separate the classes.

    Parameters
    ----------
    scores : ndarray of shape (n_bags, n_columns)
        Out-of-fold scores of bags, for class 1 of two classes or for each of more classes.
    codes : ndarray of shape (n_bags,)
        Class numbers.
    weights : ndarray of shape (n_bags,)
    balanced : bool
        Whether classes are weighted equally in decisions.
    """
    n_columns = scores.shape[1]
    slope, constant, shift = np.zeros((3, n_columns))
    for column in range(n_columns):
        is_class = codes == (1 if n_columns == 1 else column)
        n_positive, n_negative = weights[is_class].sum(), weights[~is_class].sum()
        target = np.where(is_class, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
        slope[column], constant[column] = _platt(scores[:, column], target, weights)
        if balanced:
            shift[column] = float(logit(np.average(target, weights=weights)))
    return Calibration(slope, constant, shift)


def _platt(scores: np.ndarray, target: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    unit = float(np.sqrt(np.average(scores**2, weights=weights))) or 1.0
    without = _SMALLEST_SLOPE / unit, float(logit(np.average(target, weights=weights)))
    if np.ptp(scores) <= _SAME * unit:
        return without
    # A bag with a target between 0 and 1 occurs in both classes, weighted by its target.
    model = LogisticRegression(C=_LARGEST_C, tol=1e-8, max_iter=1000, solver="newton-cholesky")
    model.fit(
        np.concatenate([scores, scores])[:, None] / unit,
        np.repeat([1, 0], len(scores)),
        sample_weight=np.concatenate([weights * target, weights * (1 - target)]),
    )
    slope = float(model.coef_[0, 0]) / unit
    return without if slope < without[0] else (slope, float(model.intercept_[0]))


def probabilities(log_odds: np.ndarray) -> np.ndarray:
    """Probabilities of the classes, normalised to a sum of 1 for three or more classes."""
    given = expit(log_odds)
    if log_odds.shape[1] == 1:
        return np.hstack([1 - given, given])
    total = given.sum(axis=1, keepdims=True)
    return np.divide(given, total, out=np.full_like(given, 1 / given.shape[1]), where=total > 0)


def class_measures(
    decisions: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> dict[str, float]:
    """Accuracy, balanced accuracy and AUC (one-vs-rest mean) of decisions."""
    if decisions.shape[1] == 1:
        predicted = (decisions[:, 0] > 0).astype(np.intp)
        columns = [(codes == 1, decisions[:, 0])]
    else:
        predicted = highest_class(decisions)
        columns = [(codes == code, decisions[:, code]) for code in range(decisions.shape[1])]
    areas = [
        roc_auc_score(truth, scores, sample_weight=weights)
        for truth, scores in columns
        if truth.any() and not truth.all()
    ]
    return {
        "accuracy": float(np.average(predicted == codes, weights=weights)),
        "balanced_accuracy": float(
            balanced_accuracy_score(codes, predicted, sample_weight=weights)
        ),
        "roc_auc": float(np.mean(areas)) if areas else 0.5,
    }


# -- evaluation ------------------------------------------------------------------------------------


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

    functions: list[FoldModels | FittedShares]
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


Scored = dict[CandidateName, list[np.ndarray]]
# ``judge(name, scores, bags, n)`` calibrates by all bags and measures on the first ``n`` of them.
Judge = Callable[[CandidateName, np.ndarray, np.ndarray, int], Judged]


def class_judge(data: FitData, scoring: str) -> Judge:
    """The judge of classifiers, by the sum of ``scoring`` and the AUC."""

    def judge(candidate: CandidateName, values: np.ndarray, rows: np.ndarray, n: int) -> Judged:
        codes, weights = data.targets[rows], data.weights[rows]
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


def value_judge(data: FitData) -> Judge:
    """The judge of regressors, by the mean squared error of calibrated values."""

    def judge(candidate: CandidateName, values: np.ndarray, rows: np.ndarray, n: int) -> Judged:
        targets, weights = data.targets[rows], data.weights[rows]
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
    worse = judged.keys() - {each.candidate for each in members(judged)}
    return {candidate for candidate in worse if len(scored[candidate]) == n_common}


def _n_common(scored: Scored, dropped: AbstractSet[CandidateName]) -> int:
    return min(
        (len(scores) for candidate, scores in scored.items() if candidate not in dropped), default=0
    )


def members(judged: Mapping[Any, Judged]) -> list[Judged]:
    """The models that are combined: the best one, and those that may be as good.

    With a hundred bags, the best of a few models is often best by chance, and a mean of several
    models has a smaller variance. A model that is clearly worse only adds noise.
    """
    alone = [each for name, each in judged.items() if name != COMBINED and not each.dropped]
    best = max(alone, key=lambda each: each.criterion, default=None)
    if best is None:
        return []
    lowest = best.criterion - _WITHIN * best.error
    return [each for each in alone if each.criterion >= lowest]


def weights_of(judged: list[Judged]) -> np.ndarray:
    """Weights in the combination: exp(-d) for a model that is worse by d standard errors."""
    best = max(judged, key=lambda each: each.criterion)
    below = np.array([best.criterion - each.criterion for each in judged])
    if best.error <= 0.0:
        return (below <= 0.0).astype(np.float64)
    return np.exp(-below / best.error)


def weights_of_folds(scores: list[np.ndarray], folds: Folds, data: FitData) -> np.ndarray:
    """Weights of the models of folds by the bags that they have not seen, (n_folds, n_columns).

    A weight is 1 - exp(-(n - 1) r^2 / 2) by the correlation r of the targets and the ranks of the
    scores of n bags: models that have found something have nearly equal weights. A fold whose bags
    are of one class tells nothing, and has the mean of the others.
    """
    found = np.full((len(scores), data.n_columns), np.nan)
    for row, values, (_, test) in zip(found, scores, folds, strict=False):
        for number in range(data.n_columns):
            targets, own = data.column(number)[test], data.weights[test]
            if np.ptp(targets) > 0:
                row[number] = odds_of(worth(values[None, :, number], targets, own), own, 1.0)[0]
    known = np.isfinite(found)
    sums, counts = np.where(known, found, 0.0).sum(axis=0), known.sum(axis=0)
    means = np.divide(sums, counts, out=np.ones(data.n_columns), where=counts > 0)
    weights = np.where(known, found, means)
    return np.asarray(weights / weights.sum(axis=0))
