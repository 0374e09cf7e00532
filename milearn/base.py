"""Base classes of the estimators: prediction on two levels."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ._bags import Bags
from ._bags.remote import over_blocks
from ._bags.segments import segment_argmax, segment_max
from ._fit.shared_docs import with_shared_docs
from ._fit.validation import validate_bags

__all__ = [
    "BagClassifier",
    "BagClusterer",
    "BagEstimator",
    "BagRegressor",
]

# Scores of classes that differ by less, as a share of the largest of a row, are equal: constant
# functions and bags on the margin score -1 up to rounding.
_EQUAL = 1e-7


class BagEstimator(BaseEstimator):
    """Base of all estimators: input of bags, and a fitted state that is replaced as a whole.

    ``fit`` computes first and stores last: it calls :meth:`_validate_fit`, which sets nothing,
    and ends with :meth:`_replace_fitted`. A fit that fails leaves the estimator as it was, and
    nothing of an earlier fit outlives a later one.
    """

    n_features_in_: int
    _fitted_names: tuple[str, ...] = ()
    # Instances of other types are converted to the first of these.
    _dtypes: Any = np.float64

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = with_shared_docs(cls.__doc__)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self._fitted_names)

    def _validate_fit(
        self, X: Any, *, dtype: Any = None, **options: Any
    ) -> tuple[Bags, dict[str, Any]]:
        """Bags to fit on, and what ``fit`` has to store of them.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
        dtype : type or tuple of types, default=None
            Types of instances that are taken as they are; those of the class when None.
        **options
            For :func:`milearn.utils.validation.validate_bags`.
        """
        # scikit-learn's validation stores the features on the estimator: here on a copy.
        stand_in = copy(self)
        stand_in.__dict__.pop("feature_names_in_", None)
        # The class's types: those on the instance are of an earlier fit.
        kinds = type(self)._dtypes if dtype is None else dtype
        bags = validate_bags(stand_in, X, dtype=kinds, **options)
        names = ("n_features_in_", "feature_names_in_")
        noted = {name: vars(stand_in)[name] for name in names if name in vars(stand_in)}
        return bags, noted

    def _takes_remote_bags(self) -> bool:
        """Whether ``fit``, with these parameters, passes over bags wherever they are."""
        return False

    def _replace_fitted(self, fitted: dict[str, Any]) -> None:
        """Store all fitted attributes at once, and delete those of an earlier fit."""
        for name in self._fitted_names:
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted)
        self._fitted_names = tuple(fitted)

    def _checked(self, X: Any) -> Bags:
        """Bags to predict on."""
        check_is_fitted(self)
        return validate_bags(self, X, reset=False, dtype=self._dtypes)


class _TwoLevels(BagEstimator):
    """Base of the estimators that score bags and instances.

    A subclass implements ``_instance_scores(bags)``, and a bag takes the highest score of its
    instances; or ``_bag_scores(bags)`` with ``_bag_score_is_max`` false, and an instance is scored
    as a bag of one; or both.
    """

    # 1, or -1 where the lowest score of its instances is that of a bag.
    _positive_sign: int = 1
    # Whether a bag scores as its highest instance does, which the estimator checks enforce.
    _bag_score_is_max: bool = True

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._bag_scores(Bags.singletons(bags.instances))

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        scores = self._instance_scores(bags)
        return self._positive_sign * segment_max(self._positive_sign * scores, bags.offsets)

    @over_blocks(gives_rows=True)
    def witness(self, X: Any) -> np.ndarray:
        """Row of the instance that decides each bag.

        It is the row in ``X.instances`` of the instance with the highest score for the positive
        class; with three or more classes, for the class that is predicted; under a regressor, of
        the instance with the highest value. The first of several equal ones is returned.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Positions in ``X.instances``.
        """
        return deciding_rows(self, self._checked(X))


class BagClassifier(ClassifierMixin, _TwoLevels):
    """Base of the classifiers that score instances and take a bag's highest score.

    A subclass stores, with the rest of its fitted state, ``classes_`` and ``_positive_sign`` (1,
    or -1 when the positive class is ``classes_[0]``). It implements ``_instance_scores(bags)`` of
    shape (n_instances,) for two classes and (n_instances, n_classes) for more, in scikit-learn's
    sign: positive values indicate ``classes_[1]``.
    """

    classes_: np.ndarray

    @over_blocks()
    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each bag; positive values indicate ``classes_[1]``.

        A bag scores as its highest instance does, where the positive class is ``classes_[1]``
        (or, with three or more classes, the class of the column). Where ``pos_label`` made
        ``classes_[0]`` the positive class the sign is turned, as scikit-learn's scorers expect,
        and the bag scores as its lowest instance does.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_classes) for three or more classes
            Scores of the bags.
        """
        return self._bag_scores(self._checked(X))

    @over_blocks()
    def instance_decision_function(self, X: Any) -> np.ndarray:
        """Score of each instance, in the order of ``X.instances``.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags whose instances to score.

        Returns
        -------
        ndarray of shape (n_instances,), or (n_instances, n_classes) for three or more classes
            Scores of the instances.
        """
        return self._instance_scores(self._checked(X))

    @over_blocks()
    def predict(self, X: Any) -> np.ndarray:
        """Class of each bag.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Values of ``classes_``.
        """
        return self._decide(self.decision_function(X))

    @over_blocks()
    def predict_instances(self, X: Any) -> np.ndarray:
        """Class of each instance, in the order of ``X.instances``.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags whose instances to classify.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``.
        """
        return self._decide(self.instance_decision_function(X))

    def _decide(self, scores: np.ndarray) -> np.ndarray:
        return decided(scores, self.classes_)


class BagRegressor(RegressorMixin, _TwoLevels):
    """Base of the regressors that value instances and take a bag's highest value.

    A subclass implements ``_instance_scores(bags)`` of shape (n_instances,) and, where a bag's
    value is not its highest instance's, ``_bag_scores(bags)`` of shape (n_bags,) with
    ``_bag_score_is_max`` false.
    """

    @over_blocks()
    def predict(self, X: Any) -> np.ndarray:
        """Value of each bag.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Values of the bags.
        """
        return self._bag_scores(self._checked(X))

    @over_blocks()
    def predict_instances(self, X: Any) -> np.ndarray:
        """Value of each instance, in the order of ``X.instances``.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags whose instances to evaluate.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of the instances.
        """
        return self._instance_scores(self._checked(X))


class BagClusterer(ClusterMixin, BagEstimator):
    """Base of the clusterers: the number of clusters against that of bags."""

    labels_: np.ndarray
    n_clusters: int
    _dtypes: Any = (np.float64, np.float32)

    def _validate_clusters(self, X: Any) -> tuple[Bags, dict[str, Any]]:
        """As :meth:`_validate_fit`, for at least as many bags as clusters."""
        bags, noted = self._validate_fit(X)
        if self.n_clusters > len(bags):
            raise ValueError(
                f"n_clusters={self.n_clusters} but there are {len(bags)} bags: ask for at most as "
                "many clusters as bags."
            )
        return bags, noted


def class_scores(columns: list[np.ndarray], sign: int) -> np.ndarray:
    """Scores in scikit-learn's sign: one column as it is for two classes, several side by side."""
    return sign * columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def decided(scores: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Classes by scores of shape (n,), positive for ``classes[1]``, or (n, n_classes)."""
    if scores.ndim == 1:
        return classes[(scores > 0).astype(np.intp)]
    return classes[highest_class(scores)]


def deciding_rows(classifier: Any, bags: Bags) -> np.ndarray:
    """Row of the highest instance of each bag, for the positive class or for the predicted one."""
    scores = classifier._instance_scores(bags)
    if scores.ndim == 1:
        return segment_argmax(classifier._positive_sign * scores, bags.offsets)
    predicted = highest_class(classifier._bag_scores(bags))
    return segment_argmax(scores, bags.offsets)[np.arange(len(bags)), predicted]


def highest_class(scores: np.ndarray) -> np.ndarray:
    """Column of the highest score of each row, the first of those that are equal up to rounding."""
    size = np.abs(np.nan_to_num(scores, posinf=0.0, neginf=0.0)).max(axis=1, keepdims=True)
    highest = scores.max(axis=1, keepdims=True)
    return np.argmax(scores >= highest - _EQUAL * size, axis=1)
