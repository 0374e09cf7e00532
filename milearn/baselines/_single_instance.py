"""Single-instance learning: each instance inherits the label of its bag."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.svm import SVC
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if

from .._bags import Bags
from .._bags.canonical import check_choice
from .._bags.segments import segment_max, segment_mean
from .._bags.threads import inner_matrices
from .._fit.validation import (
    encode_classes,
    in_order,
    validate_bags,
    validate_labels,
    values_of,
    warn_of_unnamed_positive,
)
from ..base import BagEstimator, decided, deciding_rows
from ..preprocessing._instance_transformer import (
    copy_input_tags,
    finite_of,
    inner_has,
    inner_tags,
    routed_fit_params,
)


def _pools_by_max(self: Any) -> bool:
    chosen = self.pooling if self.threshold is None else "count"
    return bool(getattr(self, "_pooling", chosen) == "max")


class SingleInstance(BagEstimator):
    r"""Train a scikit-learn estimator on instances that inherit the label of their bag.

    The estimator is fitted on all pairs :math:`(x_{ij}, y_i)` of an instance and the label of
    its bag. The score of a bag is then :math:`f(B_i) = \max_j f(x_{ij})`, or the mean over its
    instances. This is the baseline known as SIL [1]_. It ignores that instances of a positive bag
    can be negative. Every multiple-instance method should be compared with it.

    Read more in the :ref:`User Guide <methods_classic>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    estimator : classifier or regressor, default=None
        It is cloned. By default, it is :class:`~sklearn.svm.SVC`, whose time is quadratic in the
        number of instances. A search as the inner estimator would divide bags between its folds.
        Apply the search to this estimator instead.
    pooling : {"max", "mean"}, default="max"
        How the scores of instances are combined to the score of a bag.
    threshold : float, default=None
        With ``pooling="max"``, a bag is positive if more than this fraction of its instances is
        positive. It must be in the interval [0, 1). The score of a bag of n instances is the
        (floor(threshold * n) + 1)-th highest. None and 0 use the maximum.
    pos_label : label, default=None
        The positive class of two. By default, it is ``classes_[1]``. With ``pooling="max"``, one
        positive instance, or more than the fraction ``threshold``, makes a bag positive.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone.
    classes_ : ndarray of shape (n_classes,)
        The class labels; only set for classifiers.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    See Also
    --------
    milearn.svm.InstanceMISVC : Learns the labels of the instances.
    milearn.preprocessing.BagStatistics : The other simple baseline, one row per bag.

    Notes
    -----
    Instances are scored by ``decision_function`` of the inner classifier. If it does not exist,
    ``predict_proba`` is used, and otherwise ``predict``. Predictions for bags are based on the
    pooled scores. With three or more classes, the scores of each class are pooled, and the class
    with the highest score is predicted.

    Arguments of ``fit`` with one entry per bag, such as ``sample_weight``, are repeated for the
    instances of the bag, so a weight of 2 is equivalent to duplicating the bag. With metadata
    routing they are passed on if the inner estimator requests them.

    A search over ``threshold`` by :class:`~sklearn.model_selection.GridSearchCV`, with an SVC, is
    SI-SVM-TH of [2]_. In the paper, instances of a bag can be in different inner folds.

    References
    ----------
    .. [1] S. Ray and M. Craven. Supervised versus multiple instance learning: an empirical
       comparison. ICML 2005.
    .. [2] M.-A. Carbonneau, V. Cheplygina, E. Granger, G. Gagnon. Multiple instance learning: A
       survey of problem characteristics and applications. Pattern Recognition 77, 2018.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from milearn import Bags
    >>> from milearn.baselines import SingleInstance
    >>> bags = Bags.from_list([[[0.0], [5.0]], [[0.5], [6.0]], [[0.0], [0.2]], [[0.4], [0.1]]])
    >>> model = SingleInstance(SVC(kernel="linear")).fit(bags, ["yes", "yes", "no", "no"])
    >>> model.predict(bags)
    array(['yes', 'yes', 'no', 'no'], dtype='<U3')
    >>> model.predict_instances(bags[:2])
    array(['no', 'yes', 'no', 'yes'], dtype='<U3')
    >>> model.witness(bags)
    array([1, 3, 5, 6])
    """

    estimator_: Any
    classes_: np.ndarray
    _dtypes = (np.float64, np.float32)

    def __init__(
        self,
        estimator: Any = None,
        *,
        pooling: str = "max",
        threshold: float | None = None,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.pooling = pooling
        self.threshold = threshold
        self.pos_label = pos_label

    @in_order
    @inner_matrices()
    def fit(self, X: Any, y: Any, **params: Any) -> SingleInstance:
        """Fit the estimator on all instances.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags to fit on; the rows of a matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class or target of each bag.
        **params : dict
            Further arguments for the ``fit`` of the inner estimator, those with one entry per bag
            repeated for its instances; ``sample_weight`` if the inner estimator supports it.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError
            If the inner estimator is neither a classifier nor a regressor, or does not accept
            ``sample_weight`` when it is given.
        ValueError
            If bags, labels or parameters are invalid.
        """
        inner = self._inner()
        kind = self._kind()
        if kind is None or isinstance(inner, type):
            raise TypeError(
                f"estimator={inner!r} is neither a classifier nor a regressor: pass an instance "
                "of one, such as SVC()."
            )
        check_choice("pooling", self.pooling, ("max", "mean"))
        self._check_threshold()
        if kind == "regressor" and self.pos_label is not None:
            raise ValueError(
                f"pos_label={self.pos_label!r} was given but {type(inner).__name__} is a "
                "regressor: remove it."
            )
        bags, fitted = self._validate_fit(X, ensure_all_finite=finite_of(self._inner()))
        y = validate_labels(self, y, bags, numeric=kind == "regressor")
        positive = 1
        if kind == "classifier":
            classes, codes, positive = encode_classes(y, self.pos_label)
            warn_of_unnamed_positive(self, classes)
            if len(classes) > 2:
                _refuse_pairwise_scores(inner)
            fitted["classes_"] = classes
        routed = routed_fit_params(self, "estimator", inner, params, bags)
        if kind == "classifier" and "sample_weight" in routed:
            _check_weighed_classes(classes, codes[bags.bag_index], routed["sample_weight"])
        fitted |= {
            "estimator_": clone(inner).fit(bags.instances, y[bags.bag_index], **routed),
            "_regresses": kind == "regressor",
            "_fitted_on_sparse": sparse.issparse(bags.instances),
            "_positive_sign": -1 if positive == 0 else 1,
            "_pooling": self.pooling if self.threshold is None else "count",
            "_threshold": self.threshold,
        }
        self._replace_fitted(fitted)
        return self

    # -- bags -----------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Class or value of each bag.

        With two classes, ``classes_[1]`` is predicted if the pooled score is above the threshold of
        the inner classifier. With more classes, the class with the highest pooled score is
        predicted. For a regressor, the value of a bag is the maximum or mean of its instances.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags; the rows of a matrix are bags of one instance.

        Returns
        -------
        ndarray of shape (n_bags,)
            Values of ``classes_``, or the values of a regressor.
        """
        scores = self._of_bags(X, self._bag_scores)
        return scores if self._regresses else decided(scores, self.classes_)

    @available_if(inner_has("estimator_", "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each bag: maximum or mean of the scores of its instances.

        Positive values indicate ``classes_[1]``. If ``pos_label`` is ``classes_[0]``, the maximum
        over instances becomes the minimum of these scores.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags; the rows of a matrix are bags of one instance.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_classes) for three or more classes
            Pooled scores.
        """
        return self._of_bags(X, self._bag_scores)

    @available_if(inner_has("estimator_", "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Pooled probabilities of the classes.

        For two classes, the probability of the positive class is pooled, and the other one is its
        complement. For three or more classes, the maxima are divided by their sum. The results rank
        bags, but are not calibrated probabilities.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags; the rows of a matrix are bags of one instance.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Rows sum to 1.
        """
        return self._of_bags(X, self._pooled_probabilities)

    def _pooled_probabilities(self, bags: Bags) -> np.ndarray:
        probabilities = self.estimator_.predict_proba(bags.instances)
        if len(self.classes_) == 2:
            pooled = self._pool(probabilities[:, 1], bags)
            return np.column_stack([1 - pooled, pooled])
        pooled = self._pool(probabilities, bags)
        return pooled / pooled.sum(axis=1, keepdims=True)

    @in_order
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier or coefficient of determination of a regressor, over bags.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags; the rows of a matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class or target of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weights of the bags; by default, all equal.

        Returns
        -------
        float
            Accuracy, or :math:`R^2`.
        """
        measure = r2_score if self._regresses else accuracy_score
        known = values_of(y) if self._regresses else y
        return measure(known, self.predict(X), sample_weight=sample_weight)

    # -- instances ------------------------------------------------------------------------

    @available_if(inner_has("estimator_", "decision_function"))
    def instance_decision_function(self, X: Any) -> np.ndarray:
        """Score of each instance, in the order of ``X.instances``.

        Positive values indicate ``classes_[1]``, also if ``pos_label`` is ``classes_[0]``.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags; the rows of a matrix are bags of one instance.

        Returns
        -------
        ndarray of shape (n_instances,), or (n_instances, n_classes) for three or more classes
            Scores of the instances.
        """
        return self._of_bags(X, self._instance_scores)

    @available_if(inner_has("estimator_", "predict_proba"))
    def predict_proba_instances(self, X: Any) -> np.ndarray:
        """Probabilities of the classes of each instance, in the order of ``X.instances``.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags; the rows of a matrix are bags of one instance.

        Returns
        -------
        ndarray of shape (n_instances, n_classes)
            Columns in the order of ``classes_``.
        """
        return self._of_bags(X, self._instance_probabilities)

    def _instance_probabilities(self, bags: Bags) -> np.ndarray:
        return self.estimator_.predict_proba(bags.instances)

    def predict_instances(self, X: Any) -> np.ndarray:
        """Class or value of each instance, in the order of ``X.instances``.

        It is what :meth:`predict` returns for a bag of this instance alone. With ``pooling="max"``
        and two classes, a bag is positive if and only if one of its instances is.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags; the rows of a matrix are bags of one instance.

        Returns
        -------
        ndarray of shape (n_instances,)
            Values of ``classes_``, or the values of a regressor.
        """
        scores = self._of_bags(X, self._instance_scores)
        return scores if self._regresses else decided(scores, self.classes_)

    @available_if(_pools_by_max)
    def witness(self, X: Any) -> np.ndarray:
        """Row of the instance with the highest score of each bag; only for ``pooling="max"``.

        Scores are those of ``classes_[1]``, or of ``pos_label`` if it was set, or of the predicted
        class with three or more classes, or values of a regressor. They are the scores of
        :func:`milearn.inspection.instance_scores`. Ties are broken in favour of the first instance.

        Parameters
        ----------
        X : bags, or matrix of shape (n_bags, n_features)
            Bags; the rows of a matrix are bags of one instance.

        Returns
        -------
        ndarray of shape (n_bags,)
            Positions in ``X.instances``.
        """
        return self._of_bags(X, partial(deciding_rows, self), gives_rows=True)

    # -- scikit-learn interface -------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Router that passes arguments of ``fit`` to the inner estimator.

        Returns
        -------
        MetadataRouter
            The requests of the inner estimator.
        """
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(
                estimator=self._inner(),
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = inner_tags(self._inner())
        if inner is None:
            return tags
        copy_input_tags(tags, inner)
        tags.target_tags.required = True
        tags.target_tags.multi_output = False
        tags.target_tags.single_output = True
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        tags.regressor_tags = inner.regressor_tags
        return tags

    # -- private --------------------------------------------------------------------------

    @property
    def _treats_classes_alike(self) -> bool:
        return self.pooling == "mean"

    def _inner(self) -> Any:
        return SVC() if self.estimator is None else self.estimator

    def _kind(self) -> str | None:
        tags = inner_tags(self._inner())
        kind = None if tags is None else tags.estimator_type
        return kind if kind in ("classifier", "regressor") else None

    def _validated(self, X: Any) -> Bags:
        bags = validate_bags(self, X, reset=False, ensure_all_finite=finite_of(self._inner()))
        if sparse.issparse(bags.instances) and not self._fitted_on_sparse:
            # scikit-learn's SVC refuses sparse input after a fit on dense input.
            bags = bags.with_instances(bags.instances.toarray(), feature_names=bags.feature_names)
        return bags

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores with scikit-learn's sign convention, or predicted values of a regressor."""
        inner, instances = self.estimator_, bags.instances
        if self._regresses:
            return np.ravel(inner.predict(instances))
        two = len(self.classes_) == 2
        if hasattr(inner, "decision_function"):
            scores = inner.decision_function(instances)
            return np.ravel(scores) if two else scores
        if hasattr(inner, "predict_proba"):
            probabilities = inner.predict_proba(instances)
            return probabilities[:, 1] - 0.5 if two else probabilities
        predicted = inner.predict(instances)
        if two:
            return (predicted == self.classes_[1]) - 0.5
        return (predicted[:, np.newaxis] == self.classes_).astype(np.float64)

    def _check_threshold(self) -> None:
        threshold = self.threshold
        if threshold is None:
            return
        if self.pooling != "max":
            raise ValueError(
                f"threshold={threshold!r} was given with pooling={self.pooling!r}: it requires "
                "pooling='max'."
            )
        if not (isinstance(threshold, Real) and 0 <= float(threshold) < 1):
            raise ValueError(f"threshold={threshold!r} must be a number from 0 to below 1.")

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return self._pool(self._instance_scores(bags), bags)

    def _pool(self, values: np.ndarray, bags: Bags) -> np.ndarray:
        if self._pooling == "mean":
            return segment_mean(values, bags.offsets)
        if self._pooling == "count":
            # The tolerance compensates for the rounding of, for example, 0.1 * 30.
            ranks = np.floor(self._threshold * bags.sizes + 1e-9).astype(np.intp)
            turned = -self._positive_sign * values
            columns = turned[:, None] if turned.ndim == 1 else turned
            rows = bags.offsets[:-1] + np.minimum(ranks, bags.sizes - 1)
            ranked = [column[np.lexsort((column, bags.bag_index))][rows] for column in columns.T]
            pooled = -self._positive_sign * np.stack(ranked, axis=1)
            return pooled[:, 0] if values.ndim == 1 else pooled
        return self._positive_sign * segment_max(self._positive_sign * values, bags.offsets)


def _check_weighed_classes(
    classes: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray
) -> None:
    weighed = classes[np.bincount(codes, weights=sample_weight, minlength=len(classes)) > 0]
    if len(weighed) < 2:
        held = ", ".join(repr(label) for label in weighed.tolist())
        raise ValueError(
            f"sample_weight leaves bags of {len(weighed)} class(es) ({held}): a classifier needs "
            "bags of at least two classes with a weight above zero."
        )


def _refuse_pairwise_scores(inner: Any) -> None:
    # With three classes these scores also have three columns, so the shape cannot be checked.
    for name, value in inner.get_params().items():
        if name.split("__")[-1] == "decision_function_shape" and value == "ovo":
            raise ValueError(
                f"{name}='ovo' scores pairs of classes, which cannot be pooled over a bag: use "
                "decision_function_shape='ovr'."
            )
