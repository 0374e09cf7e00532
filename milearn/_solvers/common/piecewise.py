"""Minimum of a convex, piecewise linear function of one variable."""

from __future__ import annotations

import numpy as np

__all__ = ["lowest_point", "optimal_intercept"]


# Slopes that rounding alone keeps from zero, as a share of the sum of all changes.
_FLAT = 1e-12


def lowest_point(breaks: np.ndarray, changes: np.ndarray, fall: float) -> float:
    """Where a convex, piecewise linear function of one variable is lowest.

    Left of all ``breaks`` its slope is ``-fall``; at each break it grows by ``changes``, not below
    zero. The middle is returned where an interval minimises it.
    """
    order = np.argsort(breaks, kind="stable")
    breaks, slope = breaks[order], np.cumsum(changes[order])
    flat = _FLAT * slope[-1]
    # The slope is no longer negative from the first of these breaks on, and positive from the last.
    ends = np.searchsorted(slope, [fall - flat, fall + flat], side="left")
    first, last = breaks[np.minimum(ends, len(breaks) - 1)]
    return float(0.5 * (first + last))


def optimal_intercept(scores: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> float:
    """The b that minimises sum_g c_g [1 - s_g (score_g + b)]_+, the middle of several.

    The middle does not depend on order or repetition, as a vertex of the simplex method does.
    """
    # Left of all breaks the slope is minus the positive weight; each break adds its weight.
    return lowest_point(signs - scores, weights, float(weights[signs > 0].sum()))
