"""Platt's calibration of out-of-fold scores, and the measures by which candidates are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from ..base import highest_class

# Out-of-fold scores with a smaller slope are considered uninformative.
_SMALLEST_SLOPE = 1e-6
_LARGEST_C = 1e6


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


def not_calibrated(n_columns: int) -> Calibration:
    """The scores themselves."""
    zeros = np.zeros(n_columns)
    return Calibration(np.ones(n_columns), zeros, zeros)


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
    slope, constant, shift = (np.zeros(n_columns) for _ in range(3))
    for column in range(n_columns):
        is_class = codes == (1 if n_columns == 1 else column)
        target = _smoothed(is_class, weights)
        slope[column], constant[column] = _platt(scores[:, column], target, weights)
        if balanced:
            shift[column] = _mean_log_odds(target, weights)
    return Calibration(slope, constant, shift)


def _smoothed(positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
    n_positive, n_negative = weights[positive].sum(), weights[~positive].sum()
    return np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))


def _mean_log_odds(target: np.ndarray, weights: np.ndarray) -> float:
    return float(logit(np.average(target, weights=weights)))


def _platt(scores: np.ndarray, target: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    unit = float(np.sqrt(np.average(scores**2, weights=weights))) or 1.0
    # A bag with a target between 0 and 1 occurs in both classes, weighted by its target.
    model = LogisticRegression(C=_LARGEST_C, tol=1e-8, max_iter=1000, solver="newton-cholesky")
    model.fit(
        np.concatenate([scores, scores])[:, None] / unit,
        np.repeat([1, 0], len(scores)),
        sample_weight=np.concatenate([weights * target, weights * (1 - target)]),
    )
    slope = float(model.coef_[0, 0]) / unit
    if slope < _SMALLEST_SLOPE / unit:
        return _SMALLEST_SLOPE / unit, _mean_log_odds(target, weights)
    return slope, float(model.intercept_[0])


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
