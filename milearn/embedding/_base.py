"""Base class of the transformers that turn each bag into one row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._bags import Bags
from .._solvers.ensemble.points import distinct_points
from ..base import BagEstimator

__all__ = ["BagEmbedding", "chosen_points"]


class BagEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BagEstimator):
    """Base of the transformers that learn of the training bags what the columns of a row mean.

    A subclass stores all it has learned by ``_replace_fitted`` and implements ``_rows(bags)`` of
    shape (n_bags, n_columns) and the property ``_n_features_out``.
    """

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
        return self._rows(self._checked(X))


def chosen_points(instances: Any, n_points: int | None, rng: np.random.RandomState) -> np.ndarray:
    """A row of each distinct instance, or of ``n_points`` of them that are drawn.

    They come in an order that does not depend on that of the instances.
    """
    rows, _ = distinct_points(instances)
    if n_points is None or n_points >= len(rows):
        return rows
    return rows[np.sort(rng.choice(len(rows), n_points, replace=False))]
