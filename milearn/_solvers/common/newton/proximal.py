"""Proximal regularisation of Newton's method for badly scaled features.

For rows x with a cost C the slope of the losses is up to C |x|, and 1/2 |w|^2 has a curvature of
one. With features of size 10^8, C |x|^2 is so large that this curvature is lost in double
precision, and the problem is a linear program up to rounding. Newton's direction is then far too
long where no row has curvature, and a line search along it makes no progress. A round therefore
minimises

    J(w) + 1/2 sum_k r_k (w_k - m_k)^2

with m the initial point of the round and r_k a fraction of C times the largest x_k^2, so the units
of features do not matter. Together with the proximal point method on the dual, this is the proximal
method of multipliers: the minima of its rounds converge to the minimum of J for any r_k. The
fraction is decreased after finished rounds, but not so far that directions are dominated by
rounding errors.

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

Matrix = Any  # an ndarray or a CSR matrix

# Rounds are regularised if the sum of costs times the squared largest entry exceeds this.
_LARGE = 1e13
# Initial r_k as a fraction of the costs times the squared largest entry of a column.
_FIRST_SHARE = 0.01
# Factors on r_k after a finished and an unfinished round, and the smallest fraction.
_LOWERED, _RAISED, _LEAST = 0.1, 10.0, 1e-6
_MAX_ROUNDS = 40
# Minimum smoothing in units of the margin. Below it, proportions are rounding errors of scores.
_LEAST_SMOOTHING = 1e-3
# Rounding error of a sum as a fraction of its terms.
_ROUNDING = 2e-15


@dataclass(frozen=True)
class ProximalTerm:
    """The proximal term of a round: r_k and m; false for problems that do not need it."""

    # Initial r_k of shape (n_columns,); None without regularisation.
    first: np.ndarray | None
    # m, of shape (n_columns,).
    middle: np.ndarray
    # Largest entry of each column.
    largest: np.ndarray
    # Factor on the initial r_k in this round.
    share: float = 1.0
    n_rounds: int = 0

    @classmethod
    def towards(cls, w: np.ndarray, rows: Matrix, cost: float) -> ProximalTerm:
        """The proximal term of the first round, which starts at w; ``cost`` sums all costs."""
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
        """Second derivative of half the squared norm plus the proximal term."""
        return np.ones(n) if self.first is None else 1.0 + self.share * self.first

    def value(self, w: np.ndarray) -> float:
        """Half the squared norm plus the proximal term."""
        return 0.5 * float(w @ w) + self.added(w)

    def added(self, w: np.ndarray) -> float:
        """The proximal term."""
        if self.first is None:
            return 0.0
        moved = w - self.middle
        return 0.5 * self.share * float(self.first @ (moved * moved))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Gradient of half the squared norm plus the proximal term."""
        return w if self.first is None else w + self.share * self.first * (w - self.middle)

    def is_rounding(self, gradient: np.ndarray, alpha: np.ndarray) -> bool:
        """Whether a gradient is zero up to rounding of the sum of all rows times ``alpha``."""
        if self.first is None:
            return False
        terms = self.largest * float(np.abs(alpha).sum())
        return bool((np.abs(gradient) <= _ROUNDING * terms).all())

    def smoothing(self, h: float) -> float:
        """The smoothing of the next round, from the value without a proximal term."""
        return h if self.first is None else max(h, _LEAST_SMOOTHING)

    def after(self, w: np.ndarray, finished: bool) -> ProximalTerm:
        """The proximal term of the next round, after one that ended at w."""
        if self.first is None:
            return self
        share = self.share * (_LOWERED if finished else _RAISED)
        return replace(
            self, middle=w, share=min(1.0, max(_LEAST, share)), n_rounds=self.n_rounds + 1
        )


def _largest_entries(rows: Matrix) -> np.ndarray:
    if not min(rows.shape):
        return np.zeros(rows.shape[1])
    ends = [rows.max(axis=0), rows.min(axis=0)]
    dense = [np.ravel(each.toarray() if sparse.issparse(each) else each) for each in ends]
    return np.asarray(np.max(np.abs(np.array(dense, dtype=np.float64)), axis=0))
