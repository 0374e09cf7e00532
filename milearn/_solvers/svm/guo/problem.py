"""Data and objective of the relaxation of instance selection (Guo 2009)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ...._bags.segments import gather_rows, segment_index
from .systems import FeatureGeometry, Geometry, KernelGeometry, SparseGeometry

__all__ = ["RelaxationProblem"]


class RelaxationProblem:
    """Relaxation of a problem, with instances of positive bags first.

    Parameters
    ----------
    features : ndarray or CSR of shape (n_instances, r)
        Vectors whose inner products are kernel values; with ``is_kernel`` the kernel matrix.
    offsets : ndarray of shape (n_bags + 1,)
    signs : ndarray of shape (n_bags,), +1.0 or -1.0
    weights : ndarray of shape (n_bags,), the costs, above zero
    slack_bound : float, above zero
    exactly_one : bool
        Whether the e_i of a bag sum to one, or to at least one.
    is_kernel : bool, default=False
        Whether ``features`` is a kernel matrix, shape (n_instances, n_instances). Then w is given
        by coefficients of the instances, in the order of the relaxation.
    max_bytes : float
        Maximum size of a matrix between instances, for sparse ``features``.
    """

    def __init__(
        self,
        features: Any,
        offsets: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        *,
        slack_bound: float,
        exactly_one: bool,
        is_kernel: bool = False,
        max_bytes: float = np.inf,
    ) -> None:
        positive = np.flatnonzero(signs > 0)
        self.positive_rows, self.bag_offsets = gather_rows(offsets, positive)
        self.negative_rows, _ = gather_rows(offsets, np.flatnonzero(signs < 0))
        self.rows = np.concatenate([self.positive_rows, self.negative_rows])
        self.n_positive = len(self.positive_rows)
        self.is_kernel = is_kernel
        self.max_bytes = max_bytes
        self.is_sparse = sparse.issparse(features)
        self.features = features[self.rows][:, self.rows] if is_kernel else features[self.rows]
        self.signs = np.where(np.arange(len(self.rows)) < self.n_positive, 1.0, -1.0)
        self.costs = weights[segment_index(offsets)][self.rows]
        self.slack_bound = float(slack_bound)
        self.exactly_one = exactly_one

    def geometry(self, unit: float) -> Geometry:
        """Products with the signed instances, with inner products multiplied by ``unit``."""
        if self.is_sparse:
            return SparseGeometry(self.features, self.signs, unit, self.max_bytes)
        build = KernelGeometry if self.is_kernel else FeatureGeometry
        return build(self.features, self.signs, unit)

    def intercept(self, w: np.ndarray, b: float) -> float:
        """The intercept for the given features; :class:`SparseGeometry` centres them."""
        if not self.is_sparse:
            return b
        return b - float(np.asarray(self.features.mean(axis=0)).ravel() @ w)

    def value(self, w: np.ndarray, slacks: np.ndarray, eta: np.ndarray) -> float:
        """The objective of :mod:`.relaxation`."""
        p = self.n_positive
        above, costs = slacks[:p], self.costs[:p]
        bags = 0.5 * (above + eta) ** 2 - 0.5 * self.slack_bound * above - 0.5 * eta
        square = w @ self.features @ w if self.is_kernel else w @ w
        return float(0.5 * square + costs @ bags + self.costs[p:] @ slacks[p:])
