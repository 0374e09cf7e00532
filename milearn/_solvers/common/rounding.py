"""Differences and objectives that are due to rounding."""

from __future__ import annotations

import numpy as np

# Relative difference up to which two values (scores, objectives, distances) count as equal.
RELATIVE_TIE = 1e-9


def rounding_scale(weights: np.ndarray, largest: float = 1.0) -> float:
    """Objective below which a relative duality gap would be dominated by rounding in the losses.

    Parameters
    ----------
    weights : ndarray, of the terms
    largest : float, default=1.0
        Largest target.
    """
    return 1e-8 * float(weights.sum()) * max(1.0, largest)
