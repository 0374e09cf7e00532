"""Calibration and evaluation of models on inner folds, and the regression that combines them."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from .._bags import Bags
from .._solvers.discriminant.search import odds_of, worth
from .._solvers.model_selection.combination import stacked
from ..base import highest_class
from ..model_selection._inner import Folds
from ._candidates import CandidateName, FitData, FittedShares, FoldModels

# Models that are worse than the best one by more standard errors have no further folds.
_WORSE_BY = 2.0
# Fewer test bags do not drop a model.
FEWEST_TEST_BAGS = 20
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
        target = platt_targets(codes == (1 if n_columns == 1 else column), weights)
        slope[column], constant[column] = _platt(scores[:, column], target, weights)
        if balanced:
            shift[column] = float(logit(np.average(target, weights=weights)))
    return Calibration(slope, constant, shift)


def platt_targets(is_class: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probabilities that are fitted: (n_1 + 1) / (n_1 + 2) of the class, else 1 / (n_0 + 2)."""
    n_positive, n_negative = weights[is_class].sum(), weights[~is_class].sum()
    return np.where(is_class, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))


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


Scored = dict[CandidateName, list[np.ndarray]]
# ``judge(name, scores, bags, calibration)``; without a calibration, scores are calibrated.
Judge = Callable[..., Judged]


def class_judge(data: FitData, scoring: str) -> Judge:
    """The judge of classifiers, by the sum of ``scoring`` and the AUC."""

    def judge(
        candidate: CandidateName,
        values: np.ndarray,
        rows: np.ndarray,
        calibration: Calibration | None = None,
    ) -> Judged:
        codes, weights = data.targets[rows], data.weights[rows]
        given = calibration or calibrate(values, codes, weights, scoring == "balanced_accuracy")
        measures = class_measures(given.decisions(values), codes, weights)
        n_equal = np.sum(weights) ** 2 / np.sum(weights**2)
        # One success and one failure are added, so that the error of few bags is not zero.
        share = (measures["accuracy"] * n_equal + 1) / (n_equal + 2)
        error = 2 * float(np.sqrt(share * (1 - share) / n_equal))
        criterion = measures[scoring] + measures["roc_auc"]
        stated = probabilities(given.calibrated(values))[np.arange(len(rows)), codes]
        likelihood = float(np.average(np.log(np.maximum(stated, 1e-300)), weights=weights))
        return Judged(criterion, error, measures, given, likelihood, candidate)

    return judge


def value_judge(data: FitData) -> Judge:
    """The judge of regressors, by the mean squared error of calibrated values."""

    def judge(
        candidate: CandidateName,
        values: np.ndarray,
        rows: np.ndarray,
        calibration: Calibration | None = None,
    ) -> Judged:
        targets, weights = data.targets[rows], data.weights[rows]
        given = calibration or calibrate_values(values, targets, weights)
        squares = (given.calibrated(values)[:, 0] - targets) ** 2
        weights = weights / weights.sum()
        mean = float(weights @ squares)
        error = float(np.sqrt(weights**2 @ (squares - mean) ** 2))
        return Judged(-mean, error, {"mean_squared_error": mean}, given, 0.0, candidate)

    return judge


def bags_tested(folds: Folds, n_folds: int | None = None) -> np.ndarray:
    """The test bags of the first folds."""
    return np.concatenate([np.arange(0), *(test for _, test in folds[:n_folds])])


def judge_candidates(
    scored: Scored, folds: Folds, judge: Judge, dropped: AbstractSet[CandidateName] = frozenset()
) -> dict[str, Judged]:
    """Evaluate each model in its better orientation; one that is ``dropped`` on its first folds."""
    judged: dict[str, Judged] = {}
    for candidate, scores in scored.items():
        found = judge(candidate, np.concatenate(scores), bags_tested(folds, len(scores)))
        found = replace(found, dropped=candidate in dropped)
        if candidate.name not in judged or found.key > judged[candidate.name].key:
            judged[candidate.name] = found
    return judged


def clearly_worse(
    scored: Scored, folds: Folds, judge: Judge, dropped: AbstractSet[CandidateName] = frozenset()
) -> set[CandidateName]:
    """Models, or orientations, that are clearly worse than the best one on their first folds."""
    left = {candidate: len(scores) for candidate, scores in scored.items()}
    left = {candidate: n for candidate, n in left.items() if candidate not in dropped}
    n_common = min(left.values(), default=0)
    rows = bags_tested(folds, n_common)
    if n_common == len(folds) or len(rows) < FEWEST_TEST_BAGS:
        return set()
    judged = [judge(each, np.concatenate(scored[each][:n_common]), rows) for each in left]
    best = max(judged, key=lambda each: each.criterion)
    lowest = best.criterion - _WORSE_BY * best.error
    worse = {each.candidate for each in judged if each.criterion < lowest}
    return {candidate for candidate in worse if left[candidate] == n_common}


# -- combination -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CombinedFunction:
    """Log odds of the classes, or values: a weighted sum of the scores of models.

    A model that is uninformative has the same log odds for all bags and little effect.
    """

    functions: list[FoldModels | FittedShares]
    # Of shape (n_functions, n_columns): products of the slopes of calibrations with ``weights``.
    slopes: np.ndarray
    # Of shape (n_columns,).
    constant: np.ndarray
    # Coefficients of the calibrated scores, shape (n_functions, n_columns).
    weights: np.ndarray

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Log odds or values of shape (n_bags, n_columns)."""
        return self.of_scores([function.bag_scores(bags) for function in self.functions])

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Log odds or values of shape (n_instances, n_columns)."""
        return self.of_scores([function.instance_scores(bags) for function in self.functions])

    def of_scores(self, scores: list[np.ndarray]) -> np.ndarray:
        """The weighted sum of the scores of each model."""
        return np.asarray(np.einsum("mc,mnc->nc", self.slopes, scores) + self.constant)


def regression_of_models(
    parts: list[Judged], scored: Scored, folds: Folds, data: FitData
) -> tuple[np.ndarray, np.ndarray]:
    """Regress the targets on the calibrated out-of-fold scores of models, for each column.

    Returns
    -------
    coef : ndarray of shape (n_parts, n_columns), not negative
    constant : ndarray of shape (n_columns,)
    """
    rows, found = bags_tested(folds), []
    stated = np.array(
        [each.calibration.calibrated(np.concatenate(scored[each.candidate])) for each in parts]
    )
    for number in range(data.n_columns):
        targets, weights = data.column(number)[rows], data.weights[rows]
        if not data.regression:
            targets = platt_targets(targets > 0, weights)
        found.append(stacked(stated[:, :, number].T, targets, weights, not data.regression))
    return np.array([coef for coef, _ in found]).T, np.array([constant for _, constant in found])


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
