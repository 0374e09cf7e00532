r"""Groups assigned to folds with a small deviation of their counts, by exchanges.

The groups :math:`s` have counts :math:`T_{sj} \ge 0` in the columns :math:`j` (for example bags of
class :math:`j`), with the sums :math:`N_j`. With :math:`n_{fj}` the sum of column :math:`j` over
the groups of fold :math:`f` of :math:`k`, the deviation is

.. math:: \sum_j \frac{w_j}{2 N_j} \sum_f | n_{fj} - N_j / k | .

For one column of weight 1 it is the share of the counts that would have to change fold for equal
folds.
"""

from __future__ import annotations

import numpy as np

# Deviations that differ by less are equal.
_EQUAL = 1e-9


def exchanged(
    table: np.ndarray, weights: np.ndarray, start: np.ndarray, required: np.ndarray
) -> np.ndarray:
    """The assignment after moves and exchanges of groups, each of which lowers the deviation.

    Parameters
    ----------
    table : ndarray of int of shape (n_groups, n_columns)
        Counts, with a positive sum in every column.
    weights : ndarray of shape (n_columns,)
        Nonnegative weights of the columns.
    start : ndarray of shape (n_groups,)
        Fold of each group in a feasible assignment to all folds.
    required : ndarray of bool of shape (n_columns,)
        Columns of which every fold needs a positive sum.

    Returns
    -------
    ndarray of shape (n_groups,)
        Fold of each group. No move of a group and no exchange of two lowers its deviation.
    """
    n_groups, n_folds = len(table), int(start.max()) + 1
    totals = table.sum(axis=0)
    scale, target = weights / (2 * totals), totals / n_folds
    folds = start.copy()
    counts = np.zeros((n_folds, table.shape[1]))
    np.add.at(counts, folds, table)
    # The last rows are moves: partners without counts, one for each fold.
    partners = np.vstack([table, np.zeros((n_folds, table.shape[1]), dtype=table.dtype)])
    failures, group = 0, 0
    while failures < n_groups:
        here = folds[group]
        there = np.concatenate([folds, np.arange(n_folds)])
        moved = table[group] - partners
        left, right = counts[here] - moved, counts[there] + moved
        before = np.abs(counts - target) @ scale
        gain = before[here] + before[there]
        gain -= np.abs(left - target) @ scale + np.abs(right - target) @ scale
        allowed = (there != here) & ((left > 0) & (right > 0) | ~required).all(axis=1)
        gain[~allowed] = -np.inf
        best = int(np.argmax(gain))
        if gain[best] > _EQUAL:
            counts[here], counts[there[best]] = left[best], right[best]
            folds[group] = there[best]
            if best < n_groups:
                folds[best] = here
            failures = 0
        else:
            failures += 1
        group = (group + 1) % n_groups
    return folds
