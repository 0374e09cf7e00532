"""Pools of weak learners, from which column generation selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.utils import gen_batches
from sklearn.utils.validation import has_fit_parameter

from ..._bags.distinct import rows_per_block
from ..._bags.types import Matrix
from .learners import Ball, FittedClassifier, Stump, WeakLearner, squared_distances
from .problem import DualPrices, comparable
from .stumps import BinnedFeatures, best_cuts

_AUTO_BINS = 256
# Relative difference up to which squared distances count as equal.
_SAME_DISTANCE = 1e-9
# Dual variables of points up to this size are ignored in the fit of a classifier.
_ZERO_WEIGHT = 1e-12
# Difference from the highest score of a bag up to which a score counts as equal.
_SAME_SCORE = 1e-9

Priced = tuple[float, list[WeakLearner], np.ndarray]


class LearnerPool(Protocol):
    """A set of learners to select from."""

    exact: bool
    """Whether ``price`` finds the highest score of all learners."""

    def price(self, prices: DualPrices, limit: float, max_learners: int) -> Priced:
        """The highest score, and learners above a limit with their columns (k, n_points)."""
        ...


class CutPool:
    """All cuts of binned features and the two constants.

    Parameters
    ----------
    bins : BinnedFeatures
    make : callable
        ``make(feature, threshold, sign)`` returns the learner of a cut.
    """

    exact = True

    def __init__(self, bins: BinnedFeatures, make: Callable[..., WeakLearner]) -> None:
        self.bins, self.make = bins, make

    def price(self, prices: DualPrices, limit: float, max_learners: int) -> Priced:
        best, cuts = best_cuts(self.bins, prices, limit, max_learners)
        columns = np.empty((len(cuts), self.bins.n_points), dtype=np.int8)
        learners: list[WeakLearner] = []
        for k, (feature, cut, sign) in enumerate(cuts):
            if feature < 0:
                learners.append(Stump(-1, -np.inf, sign))
                columns[k] = sign
            else:
                learners.append(self.make(feature, self.bins.threshold(cut), sign))
                columns[k] = self.bins.column(feature, cut, sign)
        return best, learners, columns


class ClassifierPool:
    """Classifiers fitted to the current dual variables.

    The dual variable of a bag is divided equally among its highest points. The score of the fitted
    classifier is exact, but other classifiers may have a higher score.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_points, n_features)
    learner : classifier
    """

    exact = False

    def __init__(self, X: Matrix, learner: Any) -> None:
        self.X, self.learner = X, learner

    def price(self, prices: DualPrices, limit: float, max_learners: int) -> Priced:
        weights = _point_weights(prices)
        used = np.flatnonzero(np.abs(weights) > _ZERO_WEIGHT)
        signs = np.sign(weights[used])
        if not len(used) or (signs == signs[0]).all():
            sign = int(signs[0]) if len(used) else 1
            learner: WeakLearner = Stump(-1, -np.inf, sign)
            column = np.full((1, self.X.shape[0]), sign, dtype=np.int8)
        else:
            fitted = clone(self.learner)
            fitted.fit(self.X[used], signs.astype(int), sample_weight=np.abs(weights[used]))
            learner = FittedClassifier(fitted)
            column = learner.predict(self.X).astype(np.int8)[None, :]
        score = float(prices.score(column)[0])
        return (score, [learner], column) if score > limit else (score, [], column[:0])


class GeneratedPool:
    """The learners that another pool has returned; it returns no others once ``exact`` is set.

    Parameters
    ----------
    pool : LearnerPool
    """

    def __init__(self, pool: LearnerPool) -> None:
        self.exact, self._pool = False, pool
        self._found: dict[bytes, tuple[WeakLearner, np.ndarray]] = {}

    def price(self, prices: DualPrices, limit: float, max_learners: int) -> Priced:
        if not self.exact:
            best, learners, columns = self._pool.price(prices, limit, max_learners)
            for learner, column in zip(learners, columns, strict=True):
                self._found.setdefault(column.tobytes(), (learner, column))
            return best, learners, columns
        found = [*self._found.values()]
        H = np.stack([column for _, column in found])
        scores = prices.score(H)
        order = np.argsort(-comparable(scores), kind="stable")[:max_learners]
        order = order[scores[order] > limit]
        return float(scores.max()), [found[k][0] for k in order], H[order]


def _point_weights(prices: DualPrices) -> np.ndarray:
    """Signed weight of each point, shape (n_points,)."""
    weights, scores, bags = prices.linear.copy(), prices.scores, prices.disjuncts
    if scores is not None:
        sizes = np.diff(np.append(bags.firsts, len(bags.members)))
        highest = np.repeat(bags.highest(scores), sizes) - _SAME_SCORE
        top = (scores[bags.members] >= highest).astype(np.float64)
        if len(sizes):
            top *= np.repeat(prices.u / np.add.reduceat(top, bags.firsts), sizes)
        np.add.at(weights, bags.members, top)
    return weights


def check_learner(learner: Any) -> None:
    """Raise an error unless this is a known name or a classifier that supports sample weights."""
    named = isinstance(learner, str)
    instance = hasattr(learner, "__sklearn_tags__") and not isinstance(learner, type)
    fits = instance and is_classifier(learner) and has_fit_parameter(learner, "sample_weight")
    if not (learner in ("stump", "rbf") if named else fits):
        raise (ValueError if named else TypeError)(
            f"estimator={learner!r} is not 'stump', 'rbf', or an instance of a classifier whose "
            "fit takes sample_weight, such as DecisionTreeClassifier(max_depth=2)."
        )


def make_pool(
    learner: Any,
    X: Matrix,
    n_prototypes: int,
    max_bins: int | str | None = None,
    *,
    exact_points: int = 10_000,
) -> LearnerPool:
    """The pool for a parameter ``estimator`` over the rows of X.

    It has all stumps on the features of the points, or all balls around the first points with any
    radius, inside and outside, and the two constants; or classifiers.

    Parameters
    ----------
    learner : {"stump", "rbf"} or classifier
    X : ndarray or CSR of shape (n_points, n_features)
    n_prototypes : int
        Maximum number of centres of balls.
    max_bins : int, "auto" or None, default=None
        Maximum number of bins of a feature, or of the distances from a centre. "auto" is None up to
        ``exact_points`` points, and 256 above.
    exact_points : int, default=10_000
    """
    if not isinstance(learner, str):
        return ClassifierPool(X, learner)
    n = X.shape[0]
    limit: Any = max_bins
    if max_bins == "auto":
        limit = None if n <= exact_points else _AUTO_BINS
    if learner == "stump":
        return CutPool(BinnedFeatures(X, max_bins=limit), Stump)
    # Points are sorted by a hash, so that the first ones are a pseudo-random choice.
    chosen = X[:n_prototypes]
    centers = chosen.toarray() if sparse.issparse(chosen) else np.array(chosen)
    distances = np.empty((n, len(centers)))
    for part in gen_batches(n, rows_per_block(8 * len(centers))):
        distances[part] = squared_distances(X[part], centers)
    merge = _SAME_DISTANCE * float(distances.max(initial=0.0))
    # Copies, so that a ball does not keep the array of all centres in memory.
    bins = BinnedFeatures(distances, merge, limit)
    return CutPool(bins, lambda feature, *cut: Ball(centers[feature].copy(), *cut))
