"""Minimum of a convex, piecewise linear function of one variable."""

from __future__ import annotations

import numpy as np

__all__ = ["lowest_point"]


def lowest_point(breaks: np.ndarray, changes: np.ndarray, fall: float) -> float:
    """Where a convex, piecewise linear function of one variable is lowest.

    Left of all ``breaks`` its slope is ``-fall``; at each break it grows by ``changes``, above
    zero. The middle is returned where an interval minimises it.
    """
    order = np.argsort(breaks, kind="stable")
    breaks, slope = breaks[order], np.cumsum(changes[order])
    rounding = 1e-12 * slope[-1]
    first = int(np.searchsorted(slope, fall - rounding))
    first = min(first, len(breaks) - 1)
    if abs(slope[first] - fall) <= rounding and first + 1 < len(breaks):
        return float(0.5 * (breaks[first] + breaks[first + 1]))
    return float(breaks[first])
