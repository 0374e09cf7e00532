"""Scores: of clusters, of the risks of censored times, and of groups of bags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .._bags.canonical import check_choice, check_columns, first_text
from .._bags.kinds import numbers
from .._bags.merge import LABEL_RULES, group_labels, grouped
from .._bags.names import check_index, check_rows
from .._bags.segments import segment_max, segment_mean, segment_min, segment_sum
from .._fit.outcomes import events_and_times
from .._fit.validation import as_bags
from .._solvers.common.cccp import RELATIVE_TIE

_HOW = ("max", "mean", "min", "noisy_or")


def clustering_accuracy(y_true: Any, y_pred: Any) -> float:
    """Compute the fraction of samples whose cluster is matched to their class.

    Every cluster is matched with at most one class and every class with at most one cluster, such
    that the number of correct samples is maximal. If there are more clusters than classes, the
    samples of unmatched clusters count as wrong.

    Read more in the :ref:`User Guide <methods_clustering>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes.
    y_pred : array-like of shape (n_samples,)
        Cluster labels, of any type.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the input is empty, or ``y_true`` and ``y_pred`` differ in length.

    See Also
    --------
    sklearn.metrics.adjusted_rand_score : Agreement of pairs, corrected for chance.

    Notes
    -----
    A single cluster of all samples reaches the fraction of the largest class. Compare with this
    baseline, not with one over the number of classes. The best matching is found by solving an
    assignment problem [1]_.

    References
    ----------
    .. [1] Y. Yang, D. Xu, F. Nie, S. Yan, Y. Zhuang. Image clustering using local discriminant
       models and global integration. IEEE Transactions on Image Processing 19(10), 2010.

    Examples
    --------
    >>> from milearn.metrics import clustering_accuracy
    >>> clustering_accuracy(["fox", "fox", "tiger", "tiger"], [1, 1, 0, 1])
    0.75
    """
    y_true, y_pred = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(y_true, y_pred)
    if len(y_true) == 0:
        raise ValueError("y_true and y_pred are empty: the accuracy is undefined for empty input.")
    table = contingency_matrix(y_true, y_pred)
    classes, clusters = linear_sum_assignment(table, maximize=True)
    return float(table[classes, clusters].sum() / table.sum())


def concordance_index(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Compute the fraction of pairs whose order of events agrees with their risks.

    Two samples are comparable if one of them has an event and the other one leaves later, or is
    censored at the same time. Pairs with equal risks count one half. This is Harrell's c [1]_.

    Read more in the :ref:`User Guide <tutorial_survival>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    y_true : structured array of shape (n_samples,)
        Events and times, see :func:`milearn.survival.survival_outcomes`.
    y_score : array-like of shape (n_samples,)
        Predicted risks: the higher, the earlier the event.
    sample_weight : array-like of shape (n_samples,), default=None
        A pair counts with the product of both weights.

    Returns
    -------
    float
        Between 0 and 1; 0.5 for risks that tell nothing.

    Raises
    ------
    ValueError
        If no two samples are comparable, or for other targets.

    See Also
    --------
    milearn.survival.MICoxPH : Its ``score`` is this index.

    Notes
    -----
    Risks that differ by less than 1e-9 of their own size, or 1e-13 of the largest, count as equal:
    this is rounding, also where one risk is much larger than all others. As a scorer of model
    selection: ``make_scorer(concordance_index)``.

    References
    ----------
    .. [1] F. E. Harrell, R. M. Califf, D. B. Pryor, K. L. Lee, R. A. Rosati. Evaluating the yield
       of medical tests. JAMA 247(18), 1982.

    Examples
    --------
    >>> from milearn.metrics import concordance_index
    >>> from milearn.survival import survival_outcomes
    >>> y = survival_outcomes([True, True, False], [2.0, 5.0, 9.0])
    >>> concordance_index(y, [1.0, 3.0, 0.0])
    0.6666666666666666
    """
    for given, what in ((y_score, "y_score"), (sample_weight, "sample_weight")):
        check_rows(given, y_true, what, "y_true")
    events, times = events_and_times(y_true)
    risks = _finite(y_score, "y_score")
    weights = np.ones(len(risks))
    if sample_weight is not None:
        weights = _finite(sample_weight, "sample_weight")
    check_consistent_length(times, risks, weights)
    # Latest first, and of one time the censored first: an event is compared with all before it,
    # other events of its time excepted.
    order = np.lexsort((events, -times))
    events, times, weights = events[order], times[order], weights[order]
    ranks = _ranks(risks)[order]
    new = np.r_[True, (np.diff(times) != 0) | (np.diff(events) != 0)]
    group = np.cumsum(new) - 1
    before = _sums_before(weights, group)
    comparable = float((events * weights) @ before)
    if comparable <= 0:
        raise ValueError(
            "No two samples are comparable: concordance needs an event and a sample that leaves "
            "later."
        )
    # Within a group the highest ranks come first: none of them has lower ones before it.
    sorted_inside = np.lexsort((-ranks, group))
    lower = np.empty(len(ranks))
    lower[sorted_inside] = _weights_of_lower(ranks[sorted_inside], weights[sorted_inside])
    by_rank = np.lexsort((group, ranks))
    equal = np.empty(len(ranks))
    pairs = ranks[by_rank] * (group[-1] + 1) + group[by_rank]
    equal[by_rank] = _sums_before(weights[by_rank], pairs, ranks[by_rank])
    return float((events * weights) @ (lower + 0.5 * equal)) / comparable


def _finite(values: Any, what: str) -> np.ndarray:
    flat = values if np.ndim(values) == 1 else column_or_1d(values)
    found = numbers(flat, what, place="sample {}".format)
    return check_array(found, ensure_2d=False, input_name=what)


def _ranks(risks: np.ndarray, *, of_largest: float = 1e-13) -> np.ndarray:
    """Numbers from zero in the order of the risks, the same for equal ones."""
    order = np.argsort(risks, kind="stable")
    ordered, sizes = risks[order], np.abs(risks[order])
    own = RELATIVE_TIE * np.maximum(sizes[1:], sizes[:-1])
    ties = np.maximum(own, of_largest * sizes.max(initial=0.0))
    ranks = np.empty(len(risks), dtype=np.intp)
    ranks[order] = np.cumsum(np.r_[0, ordered[1:] - ordered[:-1] > ties])
    return ranks


def _sums_before(
    weights: np.ndarray, groups: np.ndarray, within: np.ndarray | None = None
) -> np.ndarray:
    """Sum of the weights before the first of the own group, within runs of equal numbers."""
    before = np.cumsum(weights) - weights
    found = before[_first_of_run(groups)]
    return found if within is None else found - before[_first_of_run(within)]


def _first_of_run(numbers: np.ndarray) -> np.ndarray:
    new = np.r_[True, np.diff(numbers) != 0]
    return np.flatnonzero(new)[np.cumsum(new) - 1]


def _weights_of_lower(ranks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum of the weights before each entry that have a lower rank, by merging halves."""
    n, found = len(ranks), np.zeros(len(ranks))
    place, n_ranks, width = np.arange(n), int(ranks.max()) + 1, 1
    while width < n:
        pair, right = place // (2 * width), (place // width) % 2
        # Of equal ranks the right half comes first: it is not higher than the left one.
        order = np.argsort((pair * n_ranks + ranks) * 2 + 1 - right, kind="stable")
        left_weights = np.where(right == 1, 0.0, weights)[order]
        sums = np.cumsum(left_weights)
        sums -= (sums - left_weights)[_first_of_run(pair[order])]
        found[order] += np.where(right[order] == 1, sums, 0.0)
        width *= 2
    return found


def group_scores(scores: Any, groups: Any, *, how: str = "max") -> tuple[np.ndarray, np.ndarray]:
    """Pool the scores of bags into scores of groups, such as patients.

    Read more in the :ref:`User Guide <guide_cross_validation>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    scores : array-like of shape (n_bags,) or (n_bags, n_outputs)
        Decision values, probabilities or predictions of the bags; columns are combined separately.
    groups : array-like of shape (n_bags,)
        Group of each bag.
    how : {"max", "mean", "min", "noisy_or"}, default="max"
        The highest, mean or lowest score of the bags of a group, or the probability that at least
        one bag is positive if the probabilities ``scores`` are independent, 1 - prod(1 - p).

    Returns
    -------
    group_scores : ndarray of shape (n_groups,) or (n_groups, n_outputs)
        Score of each group.
    names : ndarray of shape (n_groups,)
        The groups, in the order in which they appear first, as in :meth:`milearn.Bags.merge`.

    Raises
    ------
    ValueError
        For an unknown ``how``, scores that are not finite numbers, not between 0 and 1 for
        "noisy_or", or not one per bag, or a missing group.

    See Also
    --------
    milearn.Bags.merge : The bags of a group as one bag.

    Notes
    -----
    To score groups without leakage, the bags of a group must be in one fold: pass ``groups`` to the
    splitter too. Decision values are high for ``classes_[1]``. If the positive class of the model
    is ``classes_[0]``, one low score of a bag decides for it: use ``how="min"``.

    Examples
    --------
    >>> from milearn.metrics import group_scores
    >>> patients, names = group_scores([0.5, 0.1, 0.5], ["b", "a", "b"], how="noisy_or")
    >>> patients, names
    (array([0.75, 0.1 ]), array(['b', 'a'], dtype=object))
    """
    check_choice("how", how, _HOW)
    check_consistent_length(scores, groups)
    check_rows(scores, groups, "scores", "groups")
    values = np.asarray(scores)
    text = first_text(values)
    if text is not None:
        raise ValueError(
            f"scores holds {text!r}: combine decision values, probabilities or other numbers, and "
            "decide on the class of a group afterwards."
        )
    if values.ndim == 1:
        values = numbers(scores, "scores", place="bag {}".format)
    values = check_array(values, ensure_2d=False, input_name="scores")
    names, _, order, ends = grouped(groups, len(values))
    values = values[order]
    if how != "noisy_or":
        pool = {"max": segment_max, "mean": segment_mean, "min": segment_min}[how]
        return pool(values, ends), names
    outside = ((values < 0) | (values > 1)).reshape(len(values), -1).any(axis=1)
    if outside.any():
        bag = order[np.flatnonzero(outside)[0]]
        raise ValueError(
            f"how='noisy_or' needs probabilities: the score of bag {bag} is not between 0 and 1."
        )
    with np.errstate(divide="ignore"):
        logarithms = np.log1p(-values.astype(np.float64))
    return -np.expm1(segment_sum(logarithms, ends)), names


def make_group_scorer(
    score_func: Callable[..., float],
    column: str,
    *,
    how: str = "max",
    labels: str = "equal",
    response_method: Any = ("decision_function", "predict_proba"),
    greater_is_better: bool = True,
) -> Callable[..., float]:
    """Make a scorer of groups, such as the AUC of patients, for cross-validation.

    The scores of the test bags are combined to scores of groups, which are named by a column of
    ``bag_data``. Pass the same groups to the splitter, so that they are not cut.

    Read more in the :ref:`User Guide <guide_cross_validation>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    score_func : callable
        A metric ``score_func(y_true, y_score)``, such as :func:`sklearn.metrics.roc_auc_score`.
    column : str
        Name of the column of ``bag_data`` with the group of each bag.
    how : {"max", "mean", "min", "noisy_or"}, default="max"
        How scores are combined, see :func:`group_scores`.
    labels : {"equal", "any", "max", "mean"}, default="equal"
        The label of a group, see :meth:`milearn.Bags.merge`.
    response_method : str or sequence of str, default=("decision_function", "predict_proba")
        Method of the estimator that returns scores; the first one that it has. Of probabilities of
        two classes the second column is used.
    greater_is_better : bool, default=True
        Whether a higher value of ``score_func`` is better; otherwise its sign is changed.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``.

    Raises
    ------
    ValueError
        For an unknown ``how`` or ``labels``. When called, if the bags do not have the column,
        labels differ within a group, or scores do not fit ``how``.
    TypeError
        When called, if the estimator has none of the methods.

    See Also
    --------
    group_scores : The scores of the groups.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import roc_auc_score
    >>> from sklearn.model_selection import cross_val_score
    >>> from milearn.datasets import make_bags
    >>> from milearn.metrics import make_group_scorer
    >>> from milearn.model_selection import StratifiedBagKFold
    >>> from milearn.svm import MISVC
    >>> X, y = make_bags(n_bags=60, random_state=0)
    >>> patient = np.arange(60) // 2
    >>> slides = X.with_bag_data({"patient": patient})
    >>> scorer = make_group_scorer(roc_auc_score, "patient", labels="any")
    >>> cv = StratifiedBagKFold(n_splits=3)
    >>> cross_val_score(MISVC(), slides, y, groups=patient, cv=cv, scoring=scorer).shape
    (3,)
    """
    check_choice("how", how, _HOW)
    check_choice("labels", labels, LABEL_RULES)
    methods = (response_method,) if isinstance(response_method, str) else tuple(response_method)
    return _GroupScorer(score_func, column, how, labels, methods, 1 if greater_is_better else -1)


@dataclass(frozen=True)
class _GroupScorer:
    score_func: Callable[..., float]
    column: str
    how: str
    labels: str
    methods: tuple[str, ...]
    sign: int

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        bags = as_bags(X)
        check_columns("bag_data", [self.column], [] if bags is None else list(bags.bag_data))
        check_index(y, None if bags is None else bags.names, "y")
        method = next((name for name in self.methods if hasattr(estimator, name)), None)
        if method is None:
            raise TypeError(f"{type(estimator).__name__} has no {' or '.join(self.methods)}.")
        scores = np.asarray(getattr(estimator, method)(X))
        if method == "predict_proba" and scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1]
        groups = bags.bag_data[self.column]
        by_group = grouped(groups, len(groups), bags)
        truth = group_labels(y, self.labels, by_group, rule="labels")
        values, _ = group_scores(scores, groups, how=self.how)
        return self.sign * float(self.score_func(truth, values))
