"""Base classes of the estimators: prediction on two levels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ._bags import Bags
from ._bags.segments import segment_argmax, segment_max
from .utils.validation import validate_bags

__all__ = ["BagClassifier", "BagClusterer", "BagRegressor"]


class BagClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers that score instances and take a bag's highest score.

    A subclass sets ``_orientation`` (1, or -1 when the positive class is ``classes_[0]``) and, at
    the end of ``fit``, ``classes_``, which is what makes it fitted. It implements
    ``_instance_scores(bags)`` of shape (n_instances,) for two classes and (n_instances,
    n_classes) for more, in scikit-learn's sign: above zero speaks for ``classes_[1]``.
    """

    classes_: np.ndarray
    _orientation: int = 1
    # Whether a bag scores as its highest instance does: a promise that the bag checks hold one to.
    _highest_decides: bool = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        # n_features_in_ is there before labels are refused.
        return hasattr(self, "classes_")

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        raise NotImplementedError

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        scores = self._instance_scores(bags)
        return self._orientation * segment_max(self._orientation * scores, bags.offsets)

    def _checked(self, X: Any) -> Bags:
        check_is_fitted(self)
        return validate_bags(self, X, reset=False, dtype=np.float64)

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each bag; above zero speaks for ``classes_[1]``.

        A bag scores as its highest instance does, where the positive class is ``classes_[1]``
        (or, with three or more classes, the class of the column). Where ``pos_label`` made
        ``classes_[0]`` the positive class the sign is turned, as scikit-learn's scorers expect,
        and the bag scores as its lowest instance does.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_classes) for three or more classes
        """
        return self._bag_scores(self._checked(X))

    def instance_decision_function(self, X: Any) -> np.ndarray:
        """Score of each instance, in the order of ``X.instances``.

        Returns
        -------
        ndarray of shape (n_instances,), or (n_instances, n_classes) for three or more classes
        """
        return self._instance_scores(self._checked(X))

    def predict(self, X: Any) -> np.ndarray:
        """Class of each bag, shape (n_bags,)."""
        return self._decide(self.decision_function(X))

    def predict_instances(self, X: Any) -> np.ndarray:
        """Class of each instance, shape (n_instances,), in the order of ``X.instances``."""
        return self._decide(self.instance_decision_function(X))

    def witness(self, X: Any) -> np.ndarray:
        """Row of the instance that decides each bag, shape (n_bags,).

        It is the row in ``X.instances`` of the instance with the highest score for the positive
        class; with three or more classes, for the class that is predicted. The first of several
        equal ones is returned.
        """
        bags = self._checked(X)
        scores = self._instance_scores(bags)
        if scores.ndim == 1:
            return segment_argmax(self._orientation * scores, bags.offsets)
        predicted = np.argmax(self._bag_scores(bags), axis=1)
        return segment_argmax(scores, bags.offsets)[np.arange(len(bags)), predicted]

    def _decide(self, scores: np.ndarray) -> np.ndarray:
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(np.intp)]
        return self.classes_[np.argmax(scores, axis=1)]


class BagRegressor(RegressorMixin, BaseEstimator):
    """Base of the regressors that value instances and take a bag's highest value.

    A subclass implements ``_instance_scores(bags)`` of shape (n_instances,) and, where a bag's
    value is not its highest instance's, ``_bag_scores(bags)`` of shape (n_bags,) with
    ``_highest_decides`` false.
    """

    _highest_decides: bool = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        raise NotImplementedError

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return segment_max(self._instance_scores(bags), bags.offsets)

    def _checked(self, X: Any) -> Bags:
        check_is_fitted(self)
        return validate_bags(self, X, reset=False, dtype=np.float64)

    def predict(self, X: Any) -> np.ndarray:
        """Value of each bag.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`

        Returns
        -------
        ndarray of shape (n_bags,)
        """
        return self._bag_scores(self._checked(X))

    def predict_instances(self, X: Any) -> np.ndarray:
        """Value of each instance, shape (n_instances,), in the order of ``X.instances``."""
        return self._instance_scores(self._checked(X))

    def witness(self, X: Any) -> np.ndarray:
        """Row in ``X.instances`` of the instance with the highest value of each bag.

        The first of several equal ones is returned.
        """
        bags = self._checked(X)
        return segment_argmax(self._instance_scores(bags), bags.offsets)


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
