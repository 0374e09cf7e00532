"""Base class of the transformers that turn each bag into one row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._bags import Bags
from ..base import BagEstimator


class BagEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BagEstimator):
    """Base class of transformers whose columns depend on the training bags.

    A subclass stores its fitted attributes by ``_replace_fitted`` and implements ``_rows(bags)`` of
    shape (n_bags, n_columns) and the property ``_n_features_out``.
    """

    # For the names of the columns; stored by ``fit``.
    _n_features_out: int

    def _rows(self, bags: Bags) -> np.ndarray:
        raise NotImplementedError

    def transform(self, X: Any) -> np.ndarray:
        """One row per bag.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.

        Returns
        -------
        ndarray of shape (n_bags, n_columns)
            The rows, in the order of the bags.
        """
        return self._of_bags(X, self._rows)
