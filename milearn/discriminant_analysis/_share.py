"""Discriminants of the mean of the highest scores: a share of the instances decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score

from .._bags import Bags
from .._bags.distinct import MergedBags, merge_bags
from .._bags.segments import segment_mean
from .._compat import Interval, StrOptions
from .._constraints import Constraints
from .._fit.threads import fit_context
from .._fit.validation import STORED_FLOATS, validate_labels, validate_sample_weight
from .._solvers.common.passes import instance_scores
from .._solvers.discriminant.search import ShareSearch, ShareSolution, best_cut, worth
from .._solvers.discriminant.superquantile import pooled_scores, rows_of_highest
from ..base import BagClassifier, BagRegressor, _TwoLevels, highest_class
from ..model_selection._inner import (
    Folds,
    checked_groups,
    class_folds,
    merged_classes,
    parts_of,
    value_folds,
)

# Factor of held-out scores in a calibration: scores that do not agree do not change their order.
_SMALLEST_SLOPE = 1e-6


class _ShareModel(_TwoLevels):
    """Scores of bags as means of the highest, or lowest, scores of their instances."""

    _parameter_constraints = Constraints(
        share=[StrOptions({"auto"}), Interval(Real, 0, 1, closed="both")],
        n_parts=[StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
    )
    _dtypes = STORED_FLOATS

    coef_: np.ndarray
    intercept_: Any
    share_: Any
    pooling_: Any
    orientation_: Any
    cut_: Any

    def __init__(self, *, share: float | str = "auto", n_parts: int | str = "auto") -> None:
        self.share = share
        self.n_parts = n_parts

    def _solved(
        self, merged: MergedBags, targets: np.ndarray, folds_of: Callable[[], Folds]
    ) -> tuple[list[tuple[ShareSolution, np.ndarray, np.ndarray]], dict[str, Any]]:
        """What is selected for each row of targets, and attributes that do not need scales."""
        share = None if self.share == "auto" else float(self.share)
        search = ShareSearch(merged.bags.source(), targets, merged.weights, share=share)
        folds = folds_of()
        parts = parts_of(folds, folds_of, merged.bags, self.n_parts)
        found = [search.validated(number, folds, parts) for number in range(len(targets))]
        choices = [each.choice for each, *_ in found]
        fitted = {
            "share_": stacked_columns([each.share for each in choices]),
            "pooling_": stacked_columns([each.pooling for each in choices]),
            "orientation_": stacked_columns([each.sign for each in choices]),
            "objective_": stacked_columns([each.objective for each, *_ in found]),
            "n_passes_": max(each.n_passes for each, *_ in found),
            "shares_": search.shares,
            "_bag_score_is_max": all(each.pooling == 0 and each.sign == 1 for each in choices),
        }
        return found, fitted

    def _scaled(
        self,
        merged: MergedBags,
        targets: np.ndarray,
        found: Iterable[ShareSolution],
        lines: Sequence[tuple[float, float]],
    ) -> dict[str, Any]:
        """Fitted functions after the slope and the intercept of each line, and their cuts."""
        fitted: dict[str, list[Any]] = {"coef_": [], "intercept_": [], "cut_": []}
        for each, target, (slope, shift) in zip(found, targets, lines, strict=True):
            sign, coef = each.choice.sign, slope * each.coef
            intercept = slope * each.intercept + shift
            cut = best_cut(merged.bags.source(), coef, sign, target, merged.weights)
            fitted["coef_"].append(coef)
            fitted["intercept_"].append(intercept)
            fitted["cut_"].append(cut + intercept)
        return {name: stacked_columns(values) for name, values in fitted.items()}

    def _columns(self, scores: np.ndarray) -> np.ndarray:
        """Scores with the sign for which the highest are pooled, (n_instances, n_columns)."""
        return np.asarray(scores.reshape(len(scores), -1) * np.atleast_1d(self.orientation_))

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        scores = instance_scores(bags.source(), np.atleast_2d(self.coef_)) + self.intercept_
        return scores[:, 0] if self.coef_.ndim == 1 else scores

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        scores, signs = self._instance_scores(bags), np.atleast_1d(self.orientation_)
        columns = scores.reshape(len(scores), -1)
        pooled = pooled_scores(columns, bags.offsets, signs, np.atleast_1d(self.pooling_))
        return pooled[:, 0] if np.ndim(self.orientation_) == 0 else pooled

    def selected_share(self, X: Any) -> np.ndarray:
        """Share of the instances of each bag whose scores are above ``cut_``.

        It is below ``cut_`` if ``orientation_`` is -1.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to describe.

        Returns
        -------
        ndarray of shape (n_bags,), or (n_bags, n_classes) for three or more classes
            Numbers from 0 to 1.
        """
        return self._of_bags(X, self._selected_share)

    def _selected_share(self, bags: Bags) -> np.ndarray:
        scores = self._columns(self._instance_scores(bags))
        selected = scores > np.atleast_1d(self.orientation_) * np.atleast_1d(self.cut_)
        shares = segment_mean(selected.astype(np.float64), bags.offsets)
        return shares[:, 0] if np.ndim(self.orientation_) == 0 else shares

    def witness_mask(self, X: Any) -> np.ndarray:
        """Instances whose scores are averaged to the score of their bag.

        They are those with the highest scores, or the lowest if ``orientation_`` is -1, of the
        share ``pooling_``. With three or more classes, they are those of the predicted class.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to explain.

        Returns
        -------
        ndarray of bool of shape (n_instances,)
            In the order of ``X.instances``.
        """
        return self._of_bags(X, self._witness_mask)

    def _witness_mask(self, bags: Bags) -> np.ndarray:
        scores = self._columns(self._instance_scores(bags))
        masks = [
            rows_of_highest(column, bags.offsets, pooling)
            for column, pooling in zip(scores.T, np.atleast_1d(self.pooling_), strict=True)
        ]
        if len(masks) == 1:
            return masks[0]
        predicted = highest_class(self._bag_scores(bags))
        return np.stack(masks)[predicted[bags.bag_index], np.arange(bags.n_instances)]


def stacked_columns(values: Any) -> Any:
    """The only value, or an array of all."""
    return values[0] if len(values) == 1 else np.array(values)


class ShareDiscriminant(_ShareModel, BagClassifier):
    r"""Bag classifier by the mean score of a share of the instances.

    Often both classes contain changed instances, and one class has more of them, such as 5 % of the
    cells of a patient compared with 0.5 %. The score of a bag is the mean of its
    :math:`\max(1, \lceil q n_i \rceil)` highest instance scores :math:`w^T x_{ij}`, the
    superquantile :math:`S_q(w; i)` [1]_ of the share q. For q = 0 it is the highest score, for q =
    1 the mean. The direction w solves

    .. math::

        \max_w \; \sum_{i: y_i = 1} \frac{c_i}{c_+} S_q(w; i)
        - \frac{1}{2} \sum_{i: y_i = -1} \frac{c_i}{c_-} S_q(w; i)
        \quad \text{subject to} \quad w^T \Sigma w = 1,

    where :math:`c_i` are the sample weights, :math:`c_\pm` their sums over the classes, and
    :math:`\Sigma` is the regularised covariance of the instances. By default, the model finds the
    share, and which class has more of the instances. Three or more classes are each compared with
    the others.

    Read more in the :ref:`User Guide <methods_shares>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    share : "auto" or float, default="auto"
        The share q, from 0 to 1. "auto" compares 0, 0.003, 0.01, 0.03, 0.1, 0.3 and 1 on bags
        that were not seen by the area under the ROC curve.
    n_parts : "auto" or int, default="auto"
        Number of parts on which directions are found. "auto" is 400,000 / n_bags**2, at most 40
        and ``n_features``, and fewer above 6 million values. With few bags, more parts find rarer
        instances. With 0, inner folds are the parts.

        .. versionadded:: 0.4.0

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        Weights of the features, scaled so that the score of a bag is the log odds of
        ``classes_[1]``, or of each class.
    intercept_ : float or ndarray of shape (n_classes,)
        Constant in the score of an instance.
    share_ : float or ndarray of shape (n_classes,)
        The share q.
    pooling_ : float or ndarray of shape (n_classes,)
        Share whose scores are averaged in predictions: ``share_``, a third of it, or three times as
        much.
    orientation_ : int or ndarray of shape (n_classes,)
        1 if bags of ``classes_[1]`` (or of the class) have more of the selected instances, -1 if
        they have fewer.
    cut_ : float or ndarray of shape (n_classes,)
        Score above which (below which if ``orientation_`` is -1) :meth:`selected_share` counts an
        instance.
    shares_ : ndarray of shape (n_shares,)
        Shares that were compared.
    share_scores_ : ndarray of shape (n_shares,) or (n_classes, n_shares)
        Area under the ROC curve for each of them, on bags that were not seen.
    objective_ : float or ndarray of shape (n_classes,)
        Value of the problem above.
    n_passes_ : int
        Number of passes over the instances.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        If bags, labels, weights or groups are invalid, or there are fewer than two classes.

    See Also
    --------
    ShareRegressor : The corresponding regressor.
    milearn.svm.MISVC : The highest instance decides, with kernels.

    Notes
    -----
    The problem is not convex, and with few bags wrong local maxima are higher than the right one.
    Therefore directions are found on inner folds and on ``n_parts`` parts of the bags, each of
    which lacks two of five folds: instances are screened as directions, and the best ones are
    improved by a few steps. A direction is weighted by the likelihood ratio of its rank correlation
    r with the targets of the n bags that it has not seen, :math:`\exp((n - 1) r^2 / 2) - 1` up to a
    limit. A few steps on all bags start from the weighted mean direction.

    The share and the orientation are those of the best scores of unseen bags in one of two ways. In
    the first, they are those of the inner folds; the bags of a fold are scored by the choice of the
    others. In the second, each bag has the score of the procedure above without it.
    The way with the higher rank correlation of scores and targets is used, and calibrated by
    logistic regression.

    Instances can be a memory map or distributed. For large data, the share and the first directions
    are found on a sample of the bags. The result does not depend on the order of bags and
    instances. Folds depend on the contents of the bags: other units, another order or another type
    of the features can change the share.

    References
    ----------
    .. [1] R. T. Rockafellar, S. Uryasev. Optimization of conditional value-at-risk. Journal of
       Risk 2(3), 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.discriminant_analysis import ShareDiscriminant
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> changed = [rng.random(200) < (0.1 if label else 0.02) for label in y]
    >>> bags = Bags.from_list([rng.normal(size=(200, 5)) + 3.0 * each[:, None] for each in changed])
    >>> model = ShareDiscriminant().fit(bags[:40], y[:40])
    >>> model.score(bags[40:], y[40:])
    0.95
    >>> model.selected_share(bags[:4]).shape
    (4,)
    """

    share_scores_: np.ndarray

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> ShareDiscriminant:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag. A weight of two is equivalent to duplicating the bag.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group, such as those of a patient, stay in one inner fold.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_fit(X)
        labels = validate_labels(self, y, bags)
        weights = validate_sample_weight(sample_weight, bags)
        merged, codes, classes, _ = merged_classes(bags, labels, weights, groups)
        rng = np.random.RandomState(0)
        tasks = [1] if len(classes) == 2 else list(range(len(classes)))
        positive = np.array([codes == task for task in tasks])
        targets = 2.0 * positive - 1.0
        found, fitted = self._solved(merged, targets, lambda: class_folds(merged, codes, rng))
        lines, scores = [], []
        given = merged.weights
        for (_, held_out, of_shares), own in zip(found, positive, strict=True):
            model = LogisticRegression().fit(held_out[:, None], own, sample_weight=given)
            lines.append((max(_SMALLEST_SLOPE, model.coef_[0, 0]), model.intercept_[0]))
            scores.append([roc_auc_score(own, row, sample_weight=given) for row in of_shares])
        self._replace_fitted(
            {
                **noted,
                **fitted,
                **self._scaled(merged, targets, [each for each, *_ in found], lines),
                "classes_": classes,
                "share_scores_": np.array(scores[0] if len(scores) == 1 else scores),
            }
        )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to predict.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Calibrated on bags that were not seen; for three or more classes, those of each class
            against the others are divided by their sum.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        values = expit(scores)
        return np.asarray(values / values.sum(axis=1, keepdims=True))


class ShareRegressor(_ShareModel, BagRegressor):
    r"""Bag regressor on the mean score of a share of the instances.

    With the superquantiles :math:`S_q(w; i)` of :class:`ShareDiscriminant`, the direction solves

    .. math::

        \max_w \; \sum_{i: y_i > m} \frac{c_i (y_i - m)}{C} S_q(w; i)
        - \frac{1}{2} \sum_{i: y_i < m} \frac{c_i (m - y_i)}{C} S_q(w; i)
        \quad \text{subject to} \quad w^T \Sigma w = 1,

    where m is the weighted mean of the values and C the sum of the weighted deviations above m.

    Read more in the :ref:`User Guide <methods_shares>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    share : "auto" or float, default="auto"
        The share q, from 0 to 1. "auto" compares 0, 0.003, 0.01, 0.03, 0.1, 0.3 and 1 on bags
        that were not seen by the correlation of the values with the ranks of the scores.
    n_parts : "auto" or int, default="auto"
        As for :class:`ShareDiscriminant`.

        .. versionadded:: 0.4.0

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features in the value of an instance, in units of the target.
    intercept_ : float
        Constant in the value of an instance.
    share_ : float
        The share q.
    pooling_ : float
        Share of the instances of a bag whose values are averaged in predictions.
    orientation_ : int
        1 if bags of high values have more of the selected instances, -1 if bags of low values do.
    cut_ : float
        Instances of a higher value (lower if ``orientation_`` is -1) are counted by
        :meth:`selected_share`.
    shares_ : ndarray of shape (n_shares,)
        Shares that were compared.
    share_scores_ : ndarray of shape (n_shares,)
        Correlation of the values with the ranks of the scores for each of them, on bags that were
        not seen.
    objective_ : float
        Value of the objective above.
    n_passes_ : int
        Passes over the instances for the last steps, without those of the screen and of parts.
    n_features_in_ : int
        Number of features of an instance.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if any.

    Raises
    ------
    ValueError
        If bags, values, weights or groups are invalid.

    See Also
    --------
    ShareDiscriminant : The corresponding classifier, with notes on the algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.discriminant_analysis import ShareRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(60)
    >>> changed = [rng.random(200) < 0.2 * value for value in y]
    >>> bags = Bags.from_list([rng.normal(size=(200, 5)) + 3.0 * each[:, None] for each in changed])
    >>> model = ShareRegressor().fit(bags[:40], y[:40])
    >>> model.score(bags[40:], y[40:]) > 0.7
    True
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> ShareRegressor:
        """Fit on bags and their values.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Rows of a plain matrix are bags of one instance.
        y : array-like of shape (n_bags,)
            Value of each bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag. A weight of two is equivalent to duplicating the bag.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group, such as those of a patient, stay in one inner fold.

        Returns
        -------
        self
            The fitted estimator.
        """
        bags, noted = self._validate_fit(X)
        targets = validate_labels(self, y, bags, numeric=True)
        weights = validate_sample_weight(sample_weight, bags)
        merged = merge_bags(bags, targets, weights, checked_groups(groups, bags))
        values = targets[merged.positions]
        rng = np.random.RandomState(0)
        found, fitted = self._solved(merged, values[None], lambda: value_folds(merged, rng))
        solution, held_out, of_shares = found[0]
        given = merged.weights
        line = LinearRegression().fit(held_out[:, None], values, sample_weight=given)
        lines = [(max(0.0, float(line.coef_[0])), float(line.intercept_))]
        self._replace_fitted(
            {
                **noted,
                **fitted,
                **self._scaled(merged, values[None], [solution], lines),
                "share_scores_": worth(of_shares, values, given),
            }
        )
        return self
