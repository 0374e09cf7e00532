"""Labels with missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from .._fit.validation import in_order, partial_labels
from ..model_selection._splitters import labelled_bags


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
        labelled, known = labelled_bags(partial_labels(y), self._unlabeled)
        weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        found = self.predict(X)[labelled]
        return float(accuracy_score(known, found, sample_weight=weight))
