"""Data and objective of the relaxation of instance selection (Guo 2009)."""

from __future__ import annotations

import numpy as np

from ..._bags.segments import gather_rows, segment_index

__all__ = ["RelaxationProblem"]


class RelaxationProblem:
    """Problem in the order of the relaxation: instances of positive bags, then the others.

    Parameters
    ----------
    features : ndarray of shape (n_instances, r)
        Vectors with the inner products of the kernel.
    offsets : ndarray of shape (n_bags + 1,)
    signs : ndarray of shape (n_bags,), +1.0 or -1.0
    weights : ndarray of shape (n_bags,), the costs, above zero
    slack_bound : float, above zero
    exactly_one : bool
        Whether the e_i of a bag sum to one, or to one at least.
    """

    def __init__(
        self,
        features: np.ndarray,
        offsets: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        *,
        slack_bound: float,
        exactly_one: bool,
    ) -> None:
        positive = np.flatnonzero(signs > 0)
        self.positive_rows, self.bag_offsets = gather_rows(offsets, positive)
        self.negative_rows, _ = gather_rows(offsets, np.flatnonzero(signs < 0))
        self.rows = np.concatenate([self.positive_rows, self.negative_rows])
        self.n_positive = len(self.positive_rows)
        self.features = features[self.rows]
        self.signs = np.where(np.arange(len(self.rows)) < self.n_positive, 1.0, -1.0)
        self.costs = weights[segment_index(offsets)][self.rows]
        self.slack_bound = float(slack_bound)
        self.exactly_one = exactly_one

    def value(self, w: np.ndarray, slacks: np.ndarray, eta: np.ndarray) -> float:
        """The objective of :mod:`.guo_relaxation`."""
        p = self.n_positive
        above, costs = slacks[:p], self.costs[:p]
        bags = 0.5 * (above + eta) ** 2 - 0.5 * self.slack_bound * above - 0.5 * eta
        return float(0.5 * w @ w + costs @ bags + self.costs[p:] @ slacks[p:])
