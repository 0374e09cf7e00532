"""Scores of groups from the scores of their bags, such as patients from slides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array

from .._bags.coerce import first_text, id_array
from .._bags.merge import LABEL_RULES, group_labels, grouped
from .._bags.segments import segment_max, segment_mean, segment_min, segment_sum
from .._fit.validation import as_bags

__all__ = ["group_scores", "make_group_scorer"]

_HOW = ("max", "mean", "min", "noisy_or")


def group_scores(scores: Any, groups: Any, *, how: str = "max") -> tuple[np.ndarray, np.ndarray]:
    """Scores of groups from the scores of their bags, such as patients from slides.

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
    (array([0.75, 0.1 ]), array(['b', 'a'], dtype='<U1'))
    """
    _check_rule("how", how, _HOW)
    check_consistent_length(scores, groups)
    values = np.asarray(scores)
    text = first_text(values)
    if text is not None:
        raise ValueError(
            f"scores holds {text!r}: combine decision values, probabilities or other numbers, and "
            "decide on the class of a group afterwards."
        )
    values = check_array(
        values, ensure_2d=False, dtype="numeric", ensure_min_samples=1, input_name="scores"
    )
    names, _, order, ends = grouped(groups, len(values))
    values = values[order]
    if how != "noisy_or":
        pool = {"max": segment_max, "mean": segment_mean, "min": segment_min}[how]
        return pool(values, ends), id_array(names)
    outside = ((values < 0) | (values > 1)).reshape(len(values), -1).any(axis=1)
    if outside.any():
        bag = order[np.flatnonzero(outside)[0]]
        raise ValueError(
            f"how='noisy_or' needs probabilities: the score of bag {bag} is not between 0 and 1."
        )
    with np.errstate(divide="ignore"):
        logarithms = np.log1p(-values.astype(np.float64))
    return -np.expm1(segment_sum(logarithms, ends)), id_array(names)


def make_group_scorer(
    score_func: Callable[..., float],
    column: str,
    *,
    how: str = "max",
    labels: str = "equal",
    response_method: Any = ("decision_function", "predict_proba"),
    greater_is_better: bool = True,
) -> Callable[..., float]:
    """Scorer of groups for ``cross_validate`` and searches, such as the AUC of patients.

    The scores of the test bags are combined to scores of groups, which are named by a column of
    ``bag_data``. Pass the same groups to the splitter, so that they are not cut.

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
    _check_rule("how", how, _HOW)
    _check_rule("labels", labels, LABEL_RULES)
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
        found = getattr(as_bags(X), "bag_data", {})
        if self.column not in found:
            raise ValueError(
                f"The groups are in bag_data[{self.column!r}], which the bags do not have; their "
                f"columns are: {', '.join(map(repr, found)) or 'none'}."
            )
        method = next((name for name in self.methods if hasattr(estimator, name)), None)
        if method is None:
            raise TypeError(f"{type(estimator).__name__} has no {' or '.join(self.methods)}.")
        scores = np.asarray(getattr(estimator, method)(X))
        if method == "predict_proba" and scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1]
        groups = found[self.column]
        by_group = grouped(groups, len(groups))
        truth = group_labels(np.asarray(y), self.labels, by_group, rule="labels")
        values, _ = group_scores(scores, groups, how=self.how)
        return self.sign * float(self.score_func(truth, values))


def _check_rule(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(known)}.")
