"""Intervals of cross-validated scores, from what each bag or group adds to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from scipy.stats import t
from sklearn.base import is_classifier

# The time is that of so many scores of each fold.
_MOST_UNITS = 200


class KnownPredictions:
    """A fitted estimator for scorers: its predictions for some of the bags, computed once."""

    def __init__(self, estimator: Any, X: Any, test: np.ndarray) -> None:
        self.estimator = estimator
        self.X = X
        self.test = test
        self.known: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        method: Any = None if name in self.known else getattr(self.estimator, name)
        if name not in ("predict", "decision_function", "predict_proba"):
            return method

        def predictions(X: Any) -> np.ndarray:
            if name not in self.known:
                self.known[name] = np.asarray(method(self.X))
            return self.known[name][self.test]

        predictions.__name__ = name  # scorers look at it
        return predictions

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


def dealt(units: np.ndarray, n_parts: int = _MOST_UNITS) -> np.ndarray:
    """Part of each unit, of at most ``n_parts``; by chance, as y may follow the order of units."""
    return np.random.RandomState(0).permutation(units.max() + 1)[units] % n_parts


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
        Bags of one unit are left out together, see :func:`dealt`.
    score : float
        The score of all tested bags.

    Returns
    -------
    dict of float or None
        By unit. None if the score is not one of the predictions, or is not defined without one of
        the units.
    """
    test, without, present = view.test, [], np.unique(units)
    kept = [np.flatnonzero(units != unit) for unit in present]
    try:
        classes = y if is_classifier(view) else np.zeros(len(y))
        n_classes = [len(np.unique(classes[each])) for each in (units >= 0, *kept)]
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
    """The 95 % interval of the mean of the scores of folds, see :meth:`Comparison.intervals`.

    A fold without influences counts as a unit, and None as one that is not independent.
    """
    if None in found:
        return np.nan, np.nan
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
