"""Calibration and evaluation of models on inner folds, and the regression that combines them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from .._bags import Bags
from .._solvers.discriminant.search import odds_of, worth
from .._solvers.model_selection.combination import PENALTY, stacked
from .._version import refuse_old
from ..base import highest_class
from ..model_selection._inner import Folds
from ._candidates import CandidateName, FitData, FittedShares, FoldModels

# Of pickles of 0.4, which end with this reason and not with "Can't get attribute".
__getattr__ = refuse_old(__name__, "Calibration")

# Models that are worse than the best one by more standard errors have no further folds.
_WORSE_BY = 2.0
# Fewer test bags do not drop a model.
FEWEST_TEST_BAGS = 20
# Of scores with a deviation of one: those that know nothing keep their order.
_SMALLEST_SLOPE = 1e-9
# Penalty of calibrations, which is there for scores that are constant.
_NO_PENALTY = 1e-10
# Scores whose range is a smaller part of their size are equal up to rounding.
_SAME = 1e-12


# -- calibration -----------------------------------------------------------------------------------


def regressed(
    scores: list[np.ndarray], rows: np.ndarray, data: FitData, penalty: float = PENALTY
) -> tuple[np.ndarray, np.ndarray]:
    """Regress the targets of bags on their scores by models, for each column.

    Log odds of classes are fitted to (n_1 + 1) / (n_1 + 2) and 1 / (n_0 + 2), as proposed by Platt,
    so that coefficients are finite even if scores separate the classes.

    Parameters
    ----------
    scores : list of ndarray of shape (n_rows, n_columns)
        Out-of-fold scores of each model.
    rows : ndarray of shape (n_rows,)
        The bags.
    data : FitData
    penalty : float

    Returns
    -------
    coef : ndarray of shape (n_models, n_columns), not negative
    constant : ndarray of shape (n_columns,)
    """
    found, weights = [], data.weights[rows]
    for number, columns in enumerate(np.transpose(scores, (2, 1, 0))):
        targets = data.column(number)[rows]
        if not data.regression:
            targets = platt_targets(targets > 0, weights)
        found.append(stacked(columns, targets, weights, not data.regression, penalty))
    return np.array([coef for coef, _ in found]).T, np.array([constant for _, constant in found])


def calibrated(
    scores: np.ndarray, rows: np.ndarray, data: FitData
) -> tuple[np.ndarray, np.ndarray]:
    """Slope and constant of the log odds, or values, of each column of out-of-fold scores.

    Scores that are uninformative keep their order, with hardly any slope.
    """
    weights = data.weights[rows]
    mean = np.average(scores, axis=0, weights=weights)
    scale = np.sqrt(np.average((scores - mean) ** 2, axis=0, weights=weights))
    scale[scale <= _SAME * np.abs(scores).max(axis=0)] = np.inf
    coef, constant = regressed([(scores - mean) / scale], rows, data, _NO_PENALTY)
    slope = np.maximum(coef[0], _SMALLEST_SLOPE) / scale
    return slope, constant - slope * mean


def platt_targets(is_class: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probabilities that are fitted: (n_1 + 1) / (n_1 + 2) of the class, else 1 / (n_0 + 2)."""
    n_positive, n_negative = weights[is_class].sum(), weights[~is_class].sum()
    return np.where(is_class, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))


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

    candidate: CandidateName
    # Log odds of each class, or values, as a function of its scores, of shape (n_columns,).
    slope: np.ndarray
    constant: np.ndarray
    measures: dict[str, float] = field(default_factory=dict)
    # The higher, the better: the sum of a measure and the AUC, or minus the mean squared error.
    criterion: float = 0.0
    # Its standard error; at most, where it is a sum of two measures.
    error: float = 0.0
    # Mean log likelihood, by which orientations of equal criteria are compared; 0 for values.
    likelihood: float = 0.0
    # Whether it was dropped after its first folds, because others were clearly better.
    dropped: bool = False

    @property
    def key(self) -> tuple[bool, float, float]:
        """Orientations are compared by it: the order of the labels must not decide a tie."""
        return not self.dropped, self.criterion, self.likelihood


Scored = dict[CandidateName, list[np.ndarray]]


@dataclass(frozen=True)
class Judge:
    """The judge of classifiers, by the sum of ``scoring`` and the AUC, and of regressors."""

    data: FitData
    scoring: str = ""

    @cached_property
    def shift(self) -> np.ndarray:
        """Subtracted from log odds for decisions, of shape (n_columns,).

        It is zero to predict the most likely class, or the log odds of the class in the training
        bags if classes are weighted equally.
        """
        numbers, weights = range(self.data.n_columns), self.data.weights
        if self.scoring != "balanced_accuracy":
            return np.zeros(len(numbers))
        targets = [platt_targets(self.data.column(number) > 0, weights) for number in numbers]
        return np.asarray(logit(np.average(targets, axis=1, weights=weights)))

    def __call__(
        self, candidate: CandidateName, scores: np.ndarray, rows: np.ndarray, line: Any = None
    ) -> Judged:
        """Evaluate out-of-fold scores of bags; without slopes and constants they are calibrated."""
        slope, constant = line or calibrated(scores, rows, self.data)
        values, weights = scores * slope + constant, self.data.weights[rows]
        targets, found = self.data.targets[rows], Judged(candidate, slope, constant)
        if self.data.regression:
            squares, weights = (values[:, 0] - targets) ** 2, weights / weights.sum()
            mean = float(weights @ squares)
            error = float(np.sqrt(weights**2 @ (squares - mean) ** 2))
            return replace(
                found, measures={"mean_squared_error": mean}, criterion=-mean, error=error
            )
        measures = class_measures(values - self.shift, targets, weights)
        n_equal = np.sum(weights) ** 2 / np.sum(weights**2)
        # One success and one failure are added, so that the error of few bags is not zero.
        share = (measures["accuracy"] * n_equal + 1) / (n_equal + 2)
        stated = np.maximum(probabilities(values)[np.arange(len(rows)), targets], 1e-300)
        return replace(
            found,
            measures=measures,
            criterion=measures[self.scoring] + measures["roc_auc"],
            error=2 * float(np.sqrt(share * (1 - share) / n_equal)),
            likelihood=float(np.average(np.log(stated), weights=weights)),
        )


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
    # Of shape (n_functions, n_columns): products of the slopes of each with ``weights``.
    slopes: np.ndarray
    # Of shape (n_columns,).
    constant: np.ndarray
    # Coefficients of the calibrated scores, shape (n_functions, n_columns).
    weights: np.ndarray

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Log odds or values of shape (n_bags, n_columns)."""
        return self._sum([function.bag_scores(bags) for function in self.functions])

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Log odds or values of shape (n_instances, n_columns)."""
        return self._sum([function.instance_scores(bags) for function in self.functions])

    def _sum(self, scores: list[np.ndarray]) -> np.ndarray:
        return np.asarray(np.einsum("mc,mnc->nc", self.slopes, scores) + self.constant)


def weights_of_folds(scores: list[np.ndarray], folds: Folds, data: FitData) -> np.ndarray:
    """Weights of the models of folds by the bags that they have not seen, (n_folds, n_columns).

    A weight is 1 - exp(-(n - 1) r^2 / 2) by the correlation r of the targets and the ranks of the
    scores of n bags: models that have found something have nearly equal weights.
    """
    found = np.zeros((len(scores), data.n_columns))
    for row, values, (_, test) in zip(found, scores, folds, strict=False):
        for number in range(data.n_columns):
            own = data.weights[test]
            correlation = worth(values[None, :, number], data.column(number)[test], own)
            row[number] = odds_of(correlation, own, 1.0)[0]
    return np.asarray(found / found.sum(axis=0))
