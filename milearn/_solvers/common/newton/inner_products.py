"""Inner products between the rows of a problem that have had curvature, for all its directions.

The rows with curvature hardly change between steps of Newton's method. With many features their
inner products take longer than the solution of the system.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["InnerProducts"]


class InnerProducts:
    """Some dense rows in float64, and their inner products.

    Parameters
    ----------
    X : ndarray or RowStack of shape (n_rows, n_columns)
    most : int, default=2048
        Maximum number of rows that are held. If there is no room for new rows, all others are
        dropped.
    """

    def __init__(self, X: Any, most: int = 2048) -> None:
        self.X, self.most = X, most
        self._place = np.full(X.shape[0], -1, dtype=np.intp)
        self._held = np.empty(0, dtype=np.intp)
        self._rows = np.empty((0, X.shape[1]))
        self._kernel = np.empty((0, 0))

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Places of rows, at most ``most`` of them, among those that are held from now on."""
        new = rows[self._place[rows] < 0]
        if len(new):
            if len(self._held) + len(new) > self.most:
                self._place[self._held] = -1
                self._held, new = self._held[:0], rows
            self._add(new)
        return np.asarray(self._place[rows])

    def kernel(self, places: np.ndarray) -> np.ndarray:
        """A copy of the inner products between held rows."""
        return np.asarray(self._kernel[np.ix_(places, places)])

    def scores(self, places: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """Inner products of held rows with a vector."""
        return np.asarray((self._rows[: len(self._held)] @ vector)[places])

    def weighted_sum(self, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The weighted sum of held rows."""
        spread = np.zeros(len(self._held))
        spread[places] = weights
        return np.asarray(spread @ self._rows[: len(self._held)])

    def _add(self, new: np.ndarray) -> None:
        first, last = len(self._held), len(self._held) + len(new)
        if last > len(self._rows):
            room = min(self.most, max(last, 2 * len(self._rows)))
            rows, kernel = np.empty((room, self.X.shape[1])), np.empty((room, room))
            rows[:first], kernel[:first, :first] = self._rows[:first], self._kernel[:first, :first]
            self._rows, self._kernel = rows, kernel
        self._rows[first:last] = self.X[new]
        found = self._rows[first:last] @ self._rows[:last].T
        self._kernel[first:last, :last] = found
        self._kernel[:first, first:last] = found[:, :first].T
        self._held = np.r_[self._held, new]
        self._place[new] = np.arange(first, last)
