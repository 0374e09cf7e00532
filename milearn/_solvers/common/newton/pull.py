"""Proximal regularisation of Newton's method for badly scaled features.

For rows x with a cost C the losses are as steep as C |x|, and 1/2 |w|^2 has a curvature of one.
Features of size 10^8 make C |x|^2 so large that this curvature is lost in double precision: the
problem is a linear program up to rounding. Newton's direction is then far too long wherever no row
has a curvature, and a line search along it makes no progress. A round therefore minimises

    J(w) + 1/2 sum_k r_k (w_k - m_k)^2

with m the point where the round began and r_k a share of C times the largest x_k^2, so that the
units of features do not matter. With the proximal point method on the dual that the rounds are
already, this is the proximal method of multipliers: the minima of its rounds converge to that of
J, whatever the r_k. The share falls while rounds are finished; it stays above what would leave
directions to rounding.

References
----------
R. T. Rockafellar. Augmented Lagrangians and applications of the proximal point algorithm in convex
programming. Mathematics of Operations Research 1(2), 1976.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["Pull"]

Matrix = Any  # an ndarray, a CSR matrix or a RowStack

# All costs times the square of the largest entry above which rounds are regularised.
_LARGE = 1e13
# The first r_k as a share of the costs times the square of the largest entry of a column.
_FIRST_SHARE = 0.01
# Factors on them after a round that was finished and one that was not, and the smallest share.
_LOWERED, _RAISED, _LEAST = 0.1, 10.0, 1e-6
_MAX_ROUNDS = 40
# Smoothing, in units of the margin, below which proportions would be rounding of scores.
_LEAST_SMOOTHING = 1e-3
# Rounding of a sum as a share of its terms.
_ROUNDING = 2e-15


@dataclass(frozen=True)
class Pull:
    """The r_k and the m of a round; empty for problems that do not need it.

    Attributes
    ----------
    first : ndarray of shape (n_columns,) or None
        The r_k of the first round; None without regularisation.
    middle : ndarray of shape (n_columns,), m
    largest : ndarray of shape (n_columns,)
        Largest entry of each column.
    share : float
        Of the first r_k, those of this round.
    n_rounds : int
    """

    first: np.ndarray | None
    middle: np.ndarray
    largest: np.ndarray
    share: float = 1.0
    n_rounds: int = 0

    @classmethod
    def towards(cls, w: np.ndarray, rows: Matrix, cost: float) -> Pull:
        """The pull of the first round, which begins at w.

        Parameters
        ----------
        w : ndarray of shape (n_columns,)
        rows : ndarray, CSR or RowStack of shape (n_rows, n_columns)
        cost : float
            The sum of all costs.
        """
        largest = _largest_entries(rows)
        if cost * float(largest.max(initial=0.0)) ** 2 <= _LARGE:
            return cls(None, w, largest)
        return cls(_FIRST_SHARE * cost * largest**2, w, largest)

    def __bool__(self) -> bool:
        return self.first is not None

    @property
    def exhausted(self) -> bool:
        """Whether more rounds would not help."""
        return self.n_rounds >= _MAX_ROUNDS

    def ridge(self, n: int) -> np.ndarray:
        """Second derivative of the squared norm and the pull."""
        return np.ones(n) if self.first is None else 1.0 + self.share * self.first

    def value(self, w: np.ndarray) -> float:
        """Half the squared norm and the pull."""
        return 0.5 * float(w @ w) + self.added(w)

    def added(self, w: np.ndarray) -> float:
        """The pull alone."""
        if self.first is None:
            return 0.0
        moved = w - self.middle
        return 0.5 * self.share * float(self.first @ (moved * moved))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Gradient of the squared norm and the pull."""
        return w if self.first is None else w + self.share * self.first * (w - self.middle)

    def is_rounding(self, gradient: np.ndarray, alpha: np.ndarray) -> bool:
        """Whether a gradient is what rounding leaves of the sum of all rows times ``alpha``."""
        if self.first is None:
            return False
        terms = self.largest * float(np.abs(alpha).sum())
        return bool((np.abs(gradient) <= _ROUNDING * terms).all())

    def smoothing(self, h: float) -> float:
        """The smoothing of the next round, given what it would be without a pull."""
        return h if self.first is None else max(h, _LEAST_SMOOTHING)

    def after(self, w: np.ndarray, finished: bool) -> Pull:
        """The pull of the round after one that ended at w."""
        if self.first is None:
            return self
        share = self.share * (_LOWERED if finished else _RAISED)
        return replace(
            self, middle=w, share=min(1.0, max(_LEAST, share)), n_rounds=self.n_rounds + 1
        )


def _largest_entries(rows: Matrix) -> np.ndarray:
    if not min(rows.shape):
        return np.zeros(rows.shape[1])
    parts = [part for part in getattr(rows, "parts", [rows]) if part.shape[0]]
    ends = [side for part in parts for side in (part.max(axis=0), part.min(axis=0))]
    dense = [np.ravel(each.toarray() if sparse.issparse(each) else each) for each in ends]
    return np.asarray(np.max(np.abs(np.array(dense, dtype=np.float64)), axis=0))
