"""Projections of groups of values onto the simplex."""

from __future__ import annotations

import numpy as np


def runs(group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of runs of equal numbers, for at least one number."""
    first = np.empty(len(group), dtype=bool)
    first[0] = True
    np.not_equal(group[1:], group[:-1], out=first[1:])
    starts = first.nonzero()[0]
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = len(group) - starts[-1]
    return starts, lengths


def project(
    u: np.ndarray, group: np.ndarray, h: float, *, bounded: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Project u / h onto a >= 0 with group sums of at most one, for positive values u.

    Parameters
    ----------
    u : ndarray of shape (n_values,), above zero
    group : ndarray of int of shape (n_values,), sorted
    h : float
    bounded : bool
        Whether sums may be below one; otherwise each sum is exactly one.

    Returns
    -------
    a : ndarray of shape (n_values,)
    starts : ndarray of int of shape (n_groups,)
    full : ndarray of bool of shape (n_groups,)
        Whether the sum is one.
    """
    a = u / h
    starts, lengths = runs(group)
    full = np.add.reduceat(a, starts) >= 1.0 if bounded else np.ones(len(starts), dtype=bool)
    a[starts[full & (lengths == 1)]] = 1.0
    several = full & (lengths > 1)
    rows = np.flatnonzero(np.repeat(several, lengths))
    if len(rows) == 0:
        return a, starts, full
    order = rows[np.lexsort((-u[rows], group[rows]))]
    lengths = lengths[several]
    firsts = np.cumsum(lengths) - lengths
    rank = np.arange(len(order)) - np.repeat(firsts, lengths) + 1
    ordered = u[order]
    total = np.cumsum(ordered)
    before = np.repeat(total[firsts] - ordered[firsts], lengths)
    threshold = (total - before - h) / rank
    # The last row above its threshold determines the threshold of its group.
    counts = np.add.reduceat(ordered > threshold, firsts, dtype=np.intp)
    chosen = threshold[firsts + np.maximum(counts, 1) - 1]
    a[order] = np.maximum(0.0, ordered - np.repeat(chosen, lengths)) / h
    return a, starts, full
