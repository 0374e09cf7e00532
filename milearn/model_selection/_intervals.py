"""Intervals of cross-validated scores, from what each bag or group adds to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from scipy.stats import t
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

# The time is that of so many scores of each fold.
_MOST_UNITS = 200


class KnownPredictions(BaseEstimator):
    """A fitted estimator for scorers: its predictions for some of the bags, computed once."""

    def __init__(self, estimator: Any, X: Any, test: np.ndarray) -> None:
        self.estimator = estimator
        self.X = X
        self.test = test
        self.known: dict[str, np.ndarray] = {}

    def fit(self, X: Any, y: Any) -> KnownPredictions:
        """Not called; scorers require an estimator with ``fit``."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    @property
    def classes_(self) -> np.ndarray:
        return self.estimator.classes_

    def _response(self, name: str) -> np.ndarray:
        if name not in self.known:
            self.known[name] = np.asarray(getattr(self.estimator, name)(self.X))
        return self.known[name][self.test]

    def predict(self, X: Any) -> np.ndarray:
        return self._response("predict")

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        return self._response("decision_function")

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        return self._response("predict_proba")

    def score(self, X: Any, y: Any, **params: Any) -> float:
        """The score of the innermost model, whose predictions are those of this estimator."""
        model = self.estimator
        while hasattr(model, "steps") or hasattr(model, "best_estimator_"):
            if hasattr(getattr(model, "scorer_", None), "_score_func"):
                return float(model.scorer_(self, X, y, **params))
            model = model[-1] if hasattr(model, "steps") else model.best_estimator_
        model = copy(model)
        model.predict = self.predict
        return float(model.score(X, y, **params))


def influences(
    scorer: Callable[..., float], view: KnownPredictions, y: Any, units: np.ndarray, score: float
) -> dict[int, float] | None:
    """Deviation of a score by each unit: the jackknife, whose squares sum to the variance.

    Parameters
    ----------
    scorer : callable ``scorer(view, X, y)``
    view : KnownPredictions
    y : ndarray of shape (n_tested,)
    units : ndarray of int of shape (n_tested,)
        Bags of one unit are left out together.
    score : float
        The score of all tested bags.

    Returns
    -------
    dict of float or None
        By unit, where units beyond ``_MOST_UNITS`` are left out together with others. None if the
        score is not one of the predictions, or is not defined without one of the units.
    """
    blocks, test, without = units % _MOST_UNITS, view.test, []
    present = np.unique(blocks)
    kept = [np.flatnonzero(blocks != block) for block in present]
    try:
        classes = y if is_classifier(view) else np.zeros(len(y))
        n_classes = [len(np.unique(classes[each])) for each in (blocks >= 0, *kept)]
        if len(present) < 3 or min(n_classes) < n_classes[0]:
            return None
        for each in (np.arange(len(test)), *kept):
            view.test = test[each]
            without.append(float(scorer(view, view.test, y[each])))
            if without[0] != score:
                return None
    except Exception:  # a score of one's own, which needs more than predictions
        return None
    finally:
        view.test = test
    deviations = np.mean(without[1:]) - np.array(without[1:])
    if not np.isfinite(deviations).all():
        return None
    found = np.sqrt(1 - 1 / len(present)) * deviations
    return dict(zip(present.tolist(), found.tolist(), strict=True))


def interval(scores: Any, found: Sequence[dict[int, float] | None]) -> tuple[float, float]:
    """The 95 % interval of the mean of the scores of folds, see :meth:`Comparison.intervals`."""
    total: Counter[int] = Counter()
    scores = np.asarray(scores, dtype=np.float64)
    mean, n = float(scores.mean()), len(scores)
    error = float(scores.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    if all(found):
        for each in found:
            total.update(each)
        error, n = float(np.linalg.norm([*total.values()])) / n, len(total)
    quantile = float(t.ppf(0.975, max(n - 1, 1)))
    if not (scores.min() >= 0 and scores.max() <= 1 and error >= 0):
        return mean - quantile * error, mean + quantile * error
    # Wilson's interval of as many trials as have this error. Where all are right, these are units.
    trials = (mean * (1 - mean) / error**2 if error > 1e-9 else n) / quantile**2
    middle = (mean * trials + 0.5) / (trials + 1)
    half = np.sqrt(mean * (1 - mean) * trials + 0.25) / (trials + 1)
    return float(middle - half), float(middle + half)
