"""Weak learners: what they compute, and the pools that price them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import has_fit_parameter

from .problem import Prices, score_columns
from .stumps import SlotTable, best_cuts

__all__ = [
    "Ball",
    "Fitted",
    "Stump",
    "check_learner",
    "make_pool",
    "weak_scores",
]

# Squared distances closer than this, relative to the largest, are taken as equal.
_SAME_DISTANCE = 1e-9
_BLOCK = 2**24


@dataclass(frozen=True)
class Stump:
    """``sign`` where a feature is above the threshold, else ``-sign``.

    The feature -1 stands for none: the learner is ``sign`` everywhere.
    """

    feature: int
    threshold: float
    sign: int


@dataclass(frozen=True)
class Ball:
    """``sign`` where the squared distance from the centre is above a threshold, else ``-sign``."""

    number: int
    center: np.ndarray = field(compare=False)
    threshold: float
    sign: int


@dataclass(frozen=True)
class Fitted:
    """A fitted classifier of -1 and 1."""

    estimator: Any


def weak_scores(learners: Sequence[Any], weights: np.ndarray, X: Any) -> np.ndarray:
    """The weighted sum of what learners say of each row, shape (n_rows,).

    Added one learner after the other, so that a row's score does not depend on other rows.
    """
    total = np.zeros(X.shape[0])
    for scores in staged_scores(learners, weights, X):
        total = scores
    return total


def staged_scores(learners: Sequence[Any], weights: np.ndarray, X: Any) -> Any:
    """The sum after each learner, as a generator of arrays of shape (n_rows,)."""
    total = np.zeros(X.shape[0])
    for learner, weight in zip(learners, weights, strict=True):
        total = total + weight * _says(learner, X)
        yield total


def _says(learner: Any, X: Any) -> np.ndarray:
    if isinstance(learner, Fitted):
        return learner.estimator.predict(X).astype(np.float64)
    if learner.threshold == -np.inf:
        return np.full(X.shape[0], float(learner.sign))
    if isinstance(learner, Ball):
        values = _squared_distances(X, learner.center[None, :])[:, 0]
    elif sparse.issparse(X):
        values = X[:, [learner.feature]].toarray()[:, 0]
    else:
        values = X[:, learner.feature]
    return np.where(values > learner.threshold, float(learner.sign), -float(learner.sign))


def _squared_distances(X: Any, centers: np.ndarray) -> np.ndarray:
    if sparse.issparse(X):
        centers = sparse.csr_array(centers)
    return euclidean_distances(X, centers, squared=True)


class _CutPool:
    """Pool of the stumps of a table; a subclass says what a cut is."""

    exact = True
    table: SlotTable

    def price(self, prices: Prices, limit: float, most: int) -> tuple[float, list[Any], np.ndarray]:
        best, cuts = best_cuts(self.table, prices, limit, most)
        learners, columns = [], np.empty((len(cuts), self.table.n_points), dtype=np.int8)
        for k, (_, slot, sign) in enumerate(cuts):
            if slot < 0:
                learners.append(Stump(-1, -np.inf, sign))
                columns[k] = sign
            else:
                learners.append(self._learner(slot, sign))
                columns[k] = self.table.column(slot, sign)
        return best, learners, columns

    def _learner(self, slot: int, sign: int) -> Any:
        raise NotImplementedError


class StumpPool(_CutPool):
    """All stumps on the features of the points, and the two constants."""

    def __init__(self, X: Any) -> None:
        self.table = SlotTable(X)

    def _learner(self, slot: int, sign: int) -> Stump:
        return Stump(self.table.feature_of(slot), self.table.threshold(slot), sign)


class BallPool(_CutPool):
    """All balls around centres with any radius, inside and outside, and the two constants."""

    def __init__(self, X: Any, n_centers: int) -> None:
        n = X.shape[0]
        # Points come in an order that has nothing to do with what they look like.
        chosen = np.arange(n) if n <= n_centers else np.arange(n_centers)
        rows = X[chosen]
        self.centers = rows.toarray() if sparse.issparse(rows) else np.array(rows)
        distances = np.empty((n, len(chosen)))
        step = max(1, _BLOCK // max(1, len(chosen)))
        for first in range(0, n, step):
            part = slice(first, min(n, first + step))
            distances[part] = _squared_distances(X[part], self.centers)
        self.table = SlotTable(distances, merge=_SAME_DISTANCE * float(distances.max(initial=0.0)))

    def _learner(self, slot: int, sign: int) -> Ball:
        number = self.table.feature_of(slot)
        return Ball(number, self.centers[number], self.table.threshold(slot), sign)


class EstimatorPool:
    """Classifiers fitted to the present dual variables.

    The dual variable of a disjunct goes to its highest points, equally; of the disjuncts of a bag
    each counts as far as it is used. The score of what comes out is exact, but there may be
    better learners.
    """

    exact = False

    def __init__(self, X: Any, learner: Any) -> None:
        self.X = X
        self.learner = learner

    def price(self, prices: Prices, limit: float, most: int) -> tuple[float, list[Any], np.ndarray]:
        weights = prices.linear.copy()
        for group in prices.groups:
            total = float(group.shares.sum())
            shares = group.shares / total if total > 0 else group.shares + 1 / len(group.shares)
            if len(group.points):
                np.add.at(weights, group.points, shares @ group.weights)
            for block, u, owner in zip(group.members, group.u, group.owners, strict=True):
                scores = prices.scores[block]
                top = block[scores >= scores.max() - 1e-9]
                weights[top] += u * shares[owner] / len(top)
        used = np.flatnonzero(np.abs(weights) > 1e-12)
        signs = np.sign(weights[used])
        n = self.X.shape[0]
        if not len(used) or (signs == signs[0]).all():
            sign = int(signs[0]) if len(used) else 1
            learner: Any = Stump(-1, -np.inf, sign)
            column = np.full((1, n), sign, dtype=np.int8)
        else:
            fitted = clone(self.learner)
            fitted.fit(self.X[used], signs.astype(int), sample_weight=np.abs(weights[used]))
            learner = Fitted(fitted)
            column = fitted.predict(self.X).astype(np.int8)[None, :]
        score = float(score_columns(prices, column)[0])
        if score <= limit:
            return score, [], column[:0]
        return score, [learner], column


def check_learner(learner: Any) -> None:
    """Refuse what is neither a name nor a classifier that takes weights."""
    if isinstance(learner, str):
        return
    estimator = hasattr(learner, "__sklearn_tags__") and not isinstance(learner, type)
    if not estimator or not is_classifier(learner):
        raise TypeError(
            f"learner={learner!r} is not a classifier: use 'stump', 'rbf', or an instance of a "
            "scikit-learn classifier."
        )
    if not has_fit_parameter(learner, "sample_weight"):
        raise TypeError(
            f"learner={learner!r} takes no sample_weight in fit, by which boosting tells it what "
            "to learn: use another classifier, such as DecisionTreeClassifier(max_depth=2)."
        )


def make_pool(learner: Any, X: Any, n_centers: int) -> Any:
    """The pool for a parameter ``learner`` over the rows of X."""
    if isinstance(learner, str):
        return StumpPool(X) if learner == "stump" else BallPool(X, n_centers)
    return EstimatorPool(X, learner)
