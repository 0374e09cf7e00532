"""The balance constraint of maximum margin clustering: an interval of given width.

    |(w_p - w_q)'m| <= balance  for all p < q

With y_p = w_p'm / |m| this is max y - min y <= balance / |m|: the scores lie in an interval of
given width and arbitrary position. The remaining part of the weights is orthogonal to m. The
cutting planes treat the scores as separate entries, constrained to a convex set. Projecting onto
this set costs k log k. Constraints for the k (k - 1) pairs would have multipliers that are not
unique.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class IntervalOfWidth:
    """Vectors whose entries differ by no more than a width."""

    size: int  # number of entries
    width: float

    def centre(self, z: np.ndarray) -> float:
        """The middle of the interval into which the projection clips.

        It is the centre for which the amounts clipped above and below sum to zero. This sum is
        piecewise linear in the centre, with kinks half the width above and below each entry.
        """
        half = 0.5 * self.width
        ordered = np.sort(z)
        before = np.concatenate([[0.0], np.cumsum(ordered)])
        kinks = np.sort(np.concatenate([ordered - half, ordered + half]))
        above = np.searchsorted(ordered, kinks + half, side="right")
        below = np.searchsorted(ordered, kinks - half, side="left")
        cut = before[-1] - before[above] - (self.size - above) * (kinks + half)
        cut -= below * (kinks - half) - before[below]
        # The sum decreases from kink to kink and changes its sign in between.
        last = min(int(np.searchsorted(-cut, 0.0, side="right")), len(kinks) - 1)
        first = max(last - 1, 0)
        fall = cut[first] - cut[last]
        share = cut[first] / fall if fall > 0 else 0.0
        return float(kinks[first] + share * (kinks[last] - kinks[first]))

    def project(self, z: np.ndarray) -> np.ndarray:
        """The nearest point of the set."""
        if np.ptp(z) <= self.width:
            return z
        centre = self.centre(z)
        clipped: np.ndarray = np.clip(z, centre - 0.5 * self.width, centre + 0.5 * self.width)
        return clipped

    def derivative(self, z: np.ndarray) -> np.ndarray:
        """A generalised derivative; clipped entries only move with the interval."""
        derivative = np.eye(self.size)
        if np.ptp(z) <= self.width:
            return derivative
        cut = np.abs(z - self.centre(z)) > 0.5 * self.width
        derivative[np.ix_(cut, cut)] = 1.0 / cut.sum()
        return derivative


@dataclass(frozen=True)
class Balance:
    """The balance constraint on the weights of k clusters."""

    # Direction of m, of shape (n_features,); None without a constraint.
    normal: np.ndarray | None = None
    # Set of the scores along this direction. It is also None if all scores must be zero: weights
    # that sum to zero and have equal scores are orthogonal to m.
    held: IntervalOfWidth | None = None

    @classmethod
    def of(cls, mean_sum: np.ndarray | None, balance: float | None, k: int) -> Balance:
        """The constraint for m, the balance, and the number of clusters."""
        if mean_sum is None or balance is None or np.isinf(balance) or k == 1:
            return cls()
        length = float(np.linalg.norm(mean_sum))
        if length == 0:
            return cls()
        normal = mean_sum / length
        return cls(normal, IntervalOfWidth(k, balance / length) if balance > 0 else None)

    def dim(self, k: int, d: int) -> int:
        """Length of the vectors of :meth:`split`."""
        return k * d if self.held is None else k * d + k

    def split(self, weights: np.ndarray) -> np.ndarray:
        """Weights of shape (k, n_features) as the cutting planes see them: a vector."""
        if self.normal is None:
            return weights.ravel()
        scores = weights @ self.normal
        loose = weights - np.outer(scores, self.normal)
        return loose.ravel() if self.held is None else np.concatenate([loose.ravel(), scores])

    def join(self, w: np.ndarray, k: int) -> np.ndarray:
        """The weights of a vector of the cutting planes."""
        if self.held is None:
            return w.reshape(k, -1)
        assert self.normal is not None
        weights: np.ndarray = w[:-k].reshape(k, -1) + np.outer(w[-k:], self.normal)
        return weights
