"""Step functions of time, as hazards and survival functions are estimated."""

from __future__ import annotations

from typing import Any

import numpy as np


class StepFunction:
    """A function that is constant between increasing points and takes its new value at a point.

    Read more in the :ref:`User Guide <tutorial_survival>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        The points, increasing.
    y : ndarray of shape (n_points,)
        Value at each point and up to the next one.
    start : float
        Value before the first point.

    Raises
    ------
    ValueError
        At a call, for a point beyond the last one.

    See Also
    --------
    MICoxPH : Survival model, which predicts such functions.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.survival import StepFunction
    >>> survival = StepFunction(np.array([1.0, 4.0]), np.array([0.8, 0.5]), start=1.0)
    >>> survival([0.5, 1.0, 3.0])
    array([1. , 0.8, 0.8])
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, *, start: float) -> None:
        self.x, self.y, self.start = x, y, start

    def __call__(self, x: Any) -> Any:
        """Values at points, which may not be beyond the last one.

        Parameters
        ----------
        x : float or array-like of float
            Where to evaluate.

        Returns
        -------
        float or ndarray
            The values, in the shape of ``x``; NaN where ``x`` is NaN.

        Raises
        ------
        ValueError
            For a point beyond the last one: nothing was observed there.
        """
        points = np.asarray(x, dtype=np.float64)
        if (points > self.x[-1]).any():
            raise ValueError(
                f"x holds {points.max():g}, which is after the last time that was observed, "
                f"{self.x[-1]:g}."
            )
        place = np.searchsorted(self.x, points, side="right")
        found = np.where(np.isnan(points), np.nan, np.append(self.start, self.y)[place])
        return float(found) if found.ndim == 0 else found

    def __repr__(self) -> str:
        return f"StepFunction(n_points={len(self.x)}, start={self.start:g}, end={self.y[-1]:g})"
