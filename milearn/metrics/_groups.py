"""Scores of groups from the scores of their bags, such as patients from slides."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array

from .._bags.coerce import id_array, is_missing
from .._bags.segments import group_by_id, segment_max, segment_mean, segment_min, segment_sum

__all__ = ["group_scores"]

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
        For an unknown ``how``, scores that are not finite, not between 0 and 1 for "noisy_or", or
        not one per bag, or a missing group.

    See Also
    --------
    milearn.Bags.merge : The bags of a group as one bag.

    Notes
    -----
    To score groups without leakage, the bags of a group must be in one fold: pass ``groups`` to the
    splitter too.

    Examples
    --------
    >>> from milearn.metrics import group_scores
    >>> patients, names = group_scores([0.5, 0.1, 0.5], ["b", "a", "b"], how="noisy_or")
    >>> patients, names
    (array([0.75, 0.1 ]), array(['b', 'a'], dtype='<U1'))
    """
    if how not in _HOW:
        raise ValueError(f"how={how!r} is unknown; choose one of {', '.join(_HOW)}.")
    check_consistent_length(scores, groups)
    values = np.asarray(scores)
    values = check_array(
        values, ensure_2d=False, dtype="numeric", ensure_min_samples=1, input_name="scores"
    )
    keys = np.asarray(groups).tolist()
    missing = next((bag for bag, key in enumerate(keys) if is_missing(key)), None)
    if missing is not None:
        raise ValueError(f"groups is missing for bag {missing}: give every bag its group.")
    names, _, order, ends = group_by_id(keys)
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
