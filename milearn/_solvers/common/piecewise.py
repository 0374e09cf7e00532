"""Minimum of a convex, piecewise linear function of one variable."""

from __future__ import annotations

import numpy as np

# Slopes up to this fraction of the sum of all changes count as zero.
_FLAT = 1e-12


def lowest_point(breaks: np.ndarray, changes: np.ndarray, fall: float) -> float:
    """Minimiser of a convex, piecewise linear function, or the middle of all minimisers.

    The slope is ``-fall`` to the left of all ``breaks`` and increases by ``changes``, which are not
    negative, at each break.
    """
    order = np.argsort(breaks, kind="stable")
    breaks, slope = breaks[order], np.cumsum(changes[order])
    flat = _FLAT * slope[-1]
    # The slope is zero between these breaks.
    ends = np.searchsorted(slope, [fall - flat, fall + flat], side="left")
    first, last = breaks[np.minimum(ends, len(breaks) - 1)]
    return float(0.5 * (first + last))


def optimal_intercept(scores: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> float:
    """The b that minimises sum_g c_g [1 - s_g (score_g + b)]_+, or the middle of all minimisers.

    The middle does not depend on the order or on duplicates of groups.
    """
    # The slope to the left of all breaks is minus the positive weight.
    return lowest_point(signs - scores, weights, float(weights[signs > 0].sum()))
