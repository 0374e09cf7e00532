"""Concordance of predicted risks with censored times."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .._fit.outcomes import events_and_times
from .._solvers.common.rounding import RELATIVE_TIE

__all__ = ["concordance_index"]


def concordance_index(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Fraction of comparable pairs in which the sample with the earlier event has the higher risk.

    Two samples are comparable if one of them has an event and the other one leaves later, or is
    censored at the same time. Pairs with equal risks count one half. This is Harrell's c [1]_.

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
    events, times = events_and_times(y_true)
    options: dict[str, Any] = {"ensure_2d": False, "dtype": np.float64}
    risks = check_array(column_or_1d(y_score), input_name="y_score", **options)
    weights = np.ones(len(risks)) if sample_weight is None else sample_weight
    weights = check_array(column_or_1d(weights), input_name="sample_weight", **options)
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
