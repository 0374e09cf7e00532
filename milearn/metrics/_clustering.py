"""Agreement of clusters with classes."""

from __future__ import annotations

from typing import Any

from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_consistent_length, column_or_1d

__all__ = ["clustering_accuracy"]


def clustering_accuracy(y_true: Any, y_pred: Any) -> float:
    """Fraction of samples whose cluster is matched to their class, under the best matching.

    Every cluster is matched with at most one class and every class with at most one cluster, such
    that the number of correct samples is maximal. If there are more clusters than classes, the
    samples of unmatched clusters count as wrong.

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
