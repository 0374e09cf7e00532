"""Base classes of the estimators: prediction on two levels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, ClusterMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ._bags import Bags
from ._bags.segments import segment_argmax, segment_max
from ._bags.threads import inner_matrices
from ._fit.validation import (
    in_order,
    validate_bags,
    values_of,
)
from ._version import VersionedEstimator

__all__ = [
    "BagClassifier",
    "BagClusterer",
    "BagEstimator",
    "BagRegressor",
    "BagValues",
]

# Scores of classes that differ by less, as a share of the largest of a row, are equal: constant
# functions and bags on the margin score -1 up to rounding.
_EQUAL = 1e-7


class BagEstimator(VersionedEstimator):
    """Base class of all estimators.

    ``fit`` calls :meth:`_validate_fit`, which sets no attributes, and ends with
    :meth:`_replace_fitted`. A failed fit does not change the estimator, and a successful fit
    removes all attributes of earlier fits.

    .. versionadded:: 0.1.0

    See Also
    --------
    BagClassifier : Base class of classifiers.
    BagRegressor : Base class of regressors.
    BagClusterer : Base class of clusterers.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.base import BagEstimator
    >>> class BagSizes(BagEstimator):
    ...     def fit(self, X, y=None):
    ...         bags, fitted = self._validate_fit(X)
    ...         self._replace_fitted(fitted | {"mean_size_": float(np.mean(bags.sizes))})
    ...         return self
    >>> BagSizes().fit(Bags.from_list([[[0.0], [1.0]], [[2.0]]])).mean_size_
    1.5
    """

    n_features_in_: int
    _fitted_names: tuple[str, ...] = ()
    # Instances of other types are converted to the first of these.
    _dtypes: Any = np.float64

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
        """Validated bags, and fitted attributes that describe the input.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
        dtype : type or tuple of types, default=None
            Types of instances that are not converted; by default, those of the class.
        **options
            Passed to :func:`milearn.utils.validation.validate_bags`.
        """
        # scikit-learn's validation stores the features on the estimator. Use a copy.
        stand_in = object.__new__(type(self))
        vars(stand_in).update(vars(self))
        vars(stand_in).pop("feature_names_in_", None)
        # Use the types of the class: those of the instance are from an earlier fit.
        kinds = type(self)._dtypes if dtype is None else dtype
        bags = validate_bags(stand_in, X, dtype=kinds, **options)
        noted = {"n_features_in_": bags.shape[1]}
        if hasattr(stand_in, "feature_names_in_"):
            noted["feature_names_in_"] = stand_in.feature_names_in_
        return bags, noted

    def _replace_fitted(self, fitted: dict[str, Any]) -> None:
        """Store all fitted attributes at once, and delete those of earlier fits."""
        for name in self._fitted_names:
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted)
        self._fitted_names = tuple(fitted)

    def _checked(self, X: Any) -> Bags:
        """Validated bags for prediction."""
        check_is_fitted(self)
        return self._validated(X)

    def _validated(self, X: Any) -> Bags:
        return validate_bags(self, X, reset=False, dtype=self._dtypes)

    def _of_bags(self, X: Any, method: Callable[[Bags], Any], *, gives_rows: bool = False) -> Any:
        """``method(bags)`` for validated bags, computed where their instances are.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
        method : callable
            It returns one result per bag, or one per instance.
        gives_rows : bool, default=False
            Whether results are rows of instances.
        """
        check_is_fitted(self)
        given = self, method
        if isinstance(X, Bags):
            return X._mapped(_predicted, given, gives_rows=gives_rows)
        return _predicted(X, given)


class _TwoLevels(BagEstimator):
    """Base class of estimators that score bags and instances.

    A subclass implements ``_instance_scores(bags)``, ``_bag_scores(bags)`` or both. By default, the
    score of a bag is the highest score of its instances, and the score of an instance is that of a
    bag with only this instance. If it implements ``_bag_scores``, it sets ``_bag_score_is_max`` to
    False.
    """

    # 1, or -1 if the user named ``classes_[0]``: scores and witnesses are those of this class, and
    # the score of a bag is the lowest score of its instances.
    _positive_sign: int = 1
    # Whether bag scores are the highest instance scores. This is enforced by the estimator checks.
    _bag_score_is_max: bool = True

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._bag_scores(Bags.singletons(bags.instances))

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        scores = self._instance_scores(bags)
        return self._positive_sign * segment_max(self._positive_sign * scores, bags.offsets)

    def witness(self, X: Any) -> np.ndarray:
        """Row of the instance with the highest score of each bag.

        Scores are those of ``classes_[1]``, or of ``pos_label`` if it was set, or of the predicted
        class with three or more classes, or values of a regressor. They are the scores of
        :func:`milearn.inspection.instance_scores`. Ties are broken in favour of the first instance.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,)
            Positions in ``X.instances``.
        """
        return self._of_bags(X, partial(deciding_rows, self), gives_rows=True)


class BagClassifier(ClassifierMixin, _TwoLevels):
    """Base class of classifiers whose bag scores are the highest instance scores.

    The fitted attributes of a subclass must include ``classes_`` and ``_positive_sign`` (1, or -1
    if the user named ``classes_[0]`` as the positive class). It implements
    ``_instance_scores(bags)`` of shape (n_instances,) for two classes and (n_instances, n_classes)
    for more, with scikit-learn's sign convention: positive values indicate ``classes_[1]``.

    .. versionadded:: 0.1.0

    See Also
    --------
    BagEstimator : Base class of all estimators.
    BagValues : Base class of estimators of values.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.base import BagClassifier
    >>> from milearn.datasets import make_bags
    >>> class FirstFeature(BagClassifier):
    ...     def fit(self, X, y):
    ...         bags, fitted = self._validate_fit(X)
    ...         self._replace_fitted(fitted | {"classes_": np.unique(y), "_positive_sign": 1})
    ...         return self
    ...
    ...     def _instance_scores(self, bags):
    ...         return bags.instances[:, 0]
    >>> X, y = make_bags(n_bags=20, random_state=0)
    >>> model = FirstFeature().fit(X, y)
    >>> model.predict(X).shape, model.witness(X).shape
    ((20,), (20,))
    """

    classes_: np.ndarray
    score = in_order(ClassifierMixin.score)

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each bag; positive values indicate ``classes_[1]``.

        The score of a bag is the highest score of its instances if the positive class is
        ``classes_[1]`` (or, with three or more classes, for each column). If ``pos_label`` is
        ``classes_[0]``, signs are reversed, as expected by scikit-learn's scorers, and the score of
        a bag is the lowest score of its instances.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_classes) for three or more classes
            Scores of the bags.
        """
        return self._of_bags(X, self._bag_scores)

    def instance_decision_function(self, X: Any) -> np.ndarray:
        """Score of each instance, in the order of ``X.instances``.

        Positive values indicate ``classes_[1]``, also if ``pos_label`` is ``classes_[0]``.
        :func:`milearn.inspection.instance_scores` are high for ``pos_label`` if it was set.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags whose instances to score.

        Returns
        -------
        ndarray of shape (n_instances,), or (n_instances, n_classes) for three or more classes
            Scores of the instances.
        """
        return self._of_bags(X, self._instance_scores)

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

    def predict_instances(self, X: Any) -> np.ndarray:
        """Class of each instance, in the order of ``X.instances``.

        It is what :meth:`predict` returns for a bag of this instance alone.

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


class BagValues(_TwoLevels):
    """Base class of estimators whose bag values are the highest instance values.

    A subclass implements ``_instance_scores(bags)`` of shape (n_instances,). If bag values are not
    the highest instance values, it also implements ``_bag_scores(bags)`` of shape (n_bags,) and
    sets ``_bag_score_is_max`` to False.

    .. versionadded:: 0.2.0

    See Also
    --------
    BagRegressor : Base class of regressors.
    BagClassifier : Base class of classifiers.

    Examples
    --------
    >>> from milearn.base import BagValues
    >>> from milearn.datasets import make_affinity
    >>> class FirstFeature(BagValues):
    ...     def fit(self, X, y=None):
    ...         self._replace_fitted(self._validate_fit(X)[1])
    ...         return self
    ...
    ...     def _instance_scores(self, bags):
    ...         return bags.instances[:, 0]
    >>> X, y = make_affinity(n_bags=20, random_state=0)
    >>> FirstFeature().fit(X).predict(X).shape
    (20,)
    """

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
        return self._of_bags(X, self._bag_scores)

    def predict_instances(self, X: Any) -> np.ndarray:
        """Value of each instance, in the order of ``X.instances``.

        It is what :meth:`predict` returns for a bag of this instance alone.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags whose instances to evaluate.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of the instances.
        """
        return self._of_bags(X, self._instance_scores)


class BagRegressor(RegressorMixin, BagValues):
    """Base class of regressors whose bag values are the highest instance values.

    .. versionadded:: 0.1.0

    See Also
    --------
    BagValues : The methods, without those of a regressor.

    Examples
    --------
    >>> from milearn.base import BagRegressor
    >>> from milearn.datasets import make_affinity
    >>> class FirstFeature(BagRegressor):
    ...     def fit(self, X, y):
    ...         self._replace_fitted(self._validate_fit(X)[1])
    ...         return self
    ...
    ...     def _instance_scores(self, bags):
    ...         return bags.instances[:, 0]
    >>> X, y = make_affinity(n_bags=20, random_state=0)
    >>> FirstFeature().fit(X, y).score(X, y) < 1.0
    True
    """

    @in_order
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination of the values of the bags.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.
        y : array-like of shape (n_bags,)
            Values of the bags, durations in days.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags; by default, all equal.

        Returns
        -------
        float
            :math:`R^2`.
        """
        return float(super().score(X, values_of(y), sample_weight))


class BagClusterer(ClusterMixin, BagEstimator):
    """Base class of clusterers.

    .. versionadded:: 0.1.0

    See Also
    --------
    BagEstimator : Base class of all estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.base import BagClusterer
    >>> class BySize(BagClusterer):
    ...     def __init__(self, n_clusters=2):
    ...         self.n_clusters = n_clusters
    ...
    ...     def fit(self, X, y=None):
    ...         bags, fitted = self._validate_clusters(X)
    ...         order = np.argsort(np.argsort(bags.sizes, kind="stable"))
    ...         labels = order * self.n_clusters // len(bags)
    ...         self._replace_fitted(fitted | {"labels_": labels})
    ...         return self
    >>> BySize().fit_predict(Bags.from_list([[[0.0]] * 3, [[1.0]]]))
    array([1, 0])
    """

    labels_: np.ndarray
    n_clusters: int
    _dtypes: Any = (np.float64, np.float32)

    def _validate_clusters(self, X: Any) -> tuple[Bags, dict[str, Any]]:
        """Like :meth:`_validate_fit`; requires at least as many bags as clusters."""
        bags, noted = self._validate_fit(X)
        if self.n_clusters > len(bags):
            raise ValueError(
                f"n_clusters={self.n_clusters} but there are {len(bags)} bags: use at most as "
                "many clusters as bags."
            )
        return bags, noted


@inner_matrices()
def _predicted(X: Any, given: tuple[Any, Callable[[Bags], Any]]) -> Any:
    estimator, method = given
    return method(estimator._validated(X))


def class_scores(columns: list[np.ndarray], sign: int) -> np.ndarray:
    """Scores with scikit-learn's sign convention; several columns become a matrix."""
    return sign * columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def decided(scores: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Classes by scores of shape (n,), positive for ``classes[1]``, or (n, n_classes)."""
    if scores.ndim == 1:
        return classes[(scores > 0).astype(np.intp)]
    return classes[highest_class(scores)]


def deciding_rows(classifier: Any, bags: Bags) -> np.ndarray:
    """Row of the highest instance of each bag, for the user's class or for the predicted one."""
    scores = classifier._instance_scores(bags)
    if scores.ndim == 1:
        return segment_argmax(classifier._positive_sign * scores, bags.offsets)
    predicted = highest_class(classifier._bag_scores(bags))
    return segment_argmax(scores, bags.offsets)[np.arange(len(bags)), predicted]


def highest_class(scores: np.ndarray) -> np.ndarray:
    """Column of the highest score of each row; the first one in case of ties up to rounding."""
    size = np.abs(np.nan_to_num(scores, posinf=0.0, neginf=0.0)).max(axis=1, keepdims=True)
    highest = scores.max(axis=1, keepdims=True)
    return np.argmax(scores >= highest - _EQUAL * size, axis=1)
