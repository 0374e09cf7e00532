"""The balance constraint of maximum margin clustering: an interval of given width.

    |(w_p - w_q)'m| <= balance  for all p < q

With y_p = w_p'm / |m| this is max y - min y <= balance / |m|: the scores lie in an interval of
given width and arbitrary position. The remaining part of the weights is orthogonal to m. The
cutting planes treat the scores as separate entries, see :mod:`.cutting_plane`. Constraints for the
k (k - 1) pairs would have multipliers that are not unique.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Balance:
    """The balance constraint on the weights of k clusters."""

    # Direction of m, of shape (n_features,); None without a constraint.
    normal: np.ndarray | None = None
    # Number of scores along this direction that are held in an interval, and its width. None are if
    # all must be zero: weights that sum to zero and have equal scores are orthogonal to m.
    n_held: int = 0
    width: float = 0.0

    @classmethod
    def of(cls, mean_sum: np.ndarray | None, balance: float | None, k: int) -> Balance:
        """The constraint for m, the balance, and the number of clusters."""
        if mean_sum is None or balance is None or np.isinf(balance) or k == 1:
            return cls()
        length = float(np.linalg.norm(mean_sum))
        if length == 0:
            return cls()
        return cls(mean_sum / length, k if balance > 0 else 0, balance / length)

    def split(self, weights: np.ndarray) -> np.ndarray:
        """Weights of shape (k, n_features) as the cutting planes see them: a vector."""
        if self.normal is None:
            return weights.ravel()
        scores = weights @ self.normal
        loose = weights - np.outer(scores, self.normal)
        return np.concatenate([loose.ravel(), scores[: self.n_held]])

    def join(self, w: np.ndarray, k: int) -> np.ndarray:
        """The weights of a vector of the cutting planes."""
        if self.normal is None or not self.n_held:
            return w.reshape(k, -1)
        return np.asarray(w[:-k].reshape(k, -1) + np.outer(w[-k:], self.normal))
