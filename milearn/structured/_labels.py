"""Labels with missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._bags import Bags
from .._fit.validation import in_order, missing_labels, validate_labels


def known_labels(
    estimator: Any, y: Any, bags: Bags, unlabeled: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the labelled bags, and their labels."""
    labels = validate_labels(estimator, y, bags)
    labelled = np.flatnonzero(~missing_labels(labels, unlabeled))
    if len(labelled) == 0:
        raise ValueError("y contains no labels: every bag is unlabelled.")
    return labelled, _plain(labels[labelled])


def _plain(labels: np.ndarray) -> np.ndarray:
    # Convert back to the type of the labels: the array has dtype object because of None.
    return np.array(labels.tolist()) if labels.dtype == object else labels


class LabelledScore:
    """Mixin for the accuracy over labelled bags."""

    _unlabeled: Any
    predict: Callable[[Any], np.ndarray]

    @in_order
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled bags.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.
        y : array-like of shape (n_bags,)
            Bags without a label, as in ``fit``, are ignored.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags; by default, all equal.

        Returns
        -------
        float
            Weighted fraction of the labelled bags whose class is predicted.

        Raises
        ------
        ValueError
            If no bag has a label.
        """
        check_is_fitted(self)
        labels = column_or_1d(y)
        labelled = np.flatnonzero(~missing_labels(labels, self._unlabeled))
        if len(labelled) == 0:
            raise ValueError("y contains no labels: there is nothing to score.")
        weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        found = self.predict(X)[labelled]
        return float(accuracy_score(_plain(labels[labelled]), found, sample_weight=weight))
