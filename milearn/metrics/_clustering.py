"""Agreement of clusters with classes."""

from __future__ import annotations

from typing import Any

from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_consistent_length, column_or_1d

__all__ = ["clustering_accuracy"]


def clustering_accuracy(y_true: Any, y_pred: Any) -> float:
    """Share of samples whose cluster is matched to their class, under the best matching.

    Every cluster is matched with at most one class and every class with at most one cluster, so
    that as many samples as possible are right. Where there are more clusters than classes, the
    samples of the clusters left over count as wrong.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes.
    y_pred : array-like of shape (n_samples,)
        Clusters, by any names.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        For no samples, and for different numbers of classes and clusters.

    See Also
    --------
    sklearn.metrics.adjusted_rand_score : Agreement of pairs, corrected for chance.

    Notes
    -----
    One cluster for all samples reaches the share of the largest class: that, and not one over the
    number of classes, is the baseline. The best matching is found as an assignment problem [1]_.

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
        raise ValueError("There are no samples: the accuracy of nothing is not defined.")
    table = contingency_matrix(y_true, y_pred)
    classes, clusters = linear_sum_assignment(table, maximize=True)
    return float(table[classes, clusters].sum() / table.sum())
