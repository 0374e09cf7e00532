"""What the clusterers of bags share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from .._bags import Bags
from ..base import validate_bags

__all__ = ["BagClusterer"]


class BagClusterer(ClusterMixin, BaseEstimator):
    """Base of the clusterers: tags, the number of clusters, and what makes one fitted."""

    labels_: np.ndarray
    n_clusters: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        # n_features_in_ is there before too few bags are refused.
        return hasattr(self, "labels_")

    def _validated(self, X: Any) -> Bags:
        bags = validate_bags(self, X)
        if self.n_clusters > len(bags):
            raise ValueError(
                f"n_clusters={self.n_clusters} but there are {len(bags)} bags: ask for at most as "
                "many clusters as bags."
            )
        return bags

    def _checked(self, X: Any) -> Bags:
        check_is_fitted(self)
        return validate_bags(self, X, reset=False)
