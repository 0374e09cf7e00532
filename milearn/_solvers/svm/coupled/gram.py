"""Inner products of bags and instances as points of the same feature space.

A bag is a point B_i = sum_r t_ir phi(x_r) over rows of a kernel, and an instance, as a bag of one,
is the point z_r = d_r phi(x_r). For the set kernels B_i is the scaled sum of the instances of a
bag. For the min-max kernel B_i and z_r are rows of minima and maxima, those of bags after those of
instances. A solver needs inner products of bags with all points (n x N numbers, which are stored),
of mixtures of instances with all points, and of single instances as they become active.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ...common.gram import KERNEL_BLOCK_BYTES, Gram


class BagGram:
    """Inner products of bags and instances.

    Parameters
    ----------
    gram : Gram
        Of all instances; other rows may follow them.
    offsets : ndarray of shape (n_bags + 1,)
    weights : csr_array of shape (n_bags, gram.n), the t above
        For a hard maximum, which has no bags as points, the means of the instances of each bag.
    scales : ndarray of shape (n_instances,), the d above

    Attributes
    ----------
    bags : ndarray of shape (n_bags, n_bags), bags with bags
    cross : ndarray of shape (n_bags, n_instances), bags with instances
    """

    def __init__(
        self, gram: Gram, offsets: np.ndarray, weights: sparse.csr_array, scales: np.ndarray
    ) -> None:
        self.gram, self.offsets, self.weights, self.scales = gram, offsets, weights, scales
        self.n_bags, self.n_instances = len(offsets) - 1, int(offsets[-1])
        products = self._products(weights)
        bags = np.asarray(weights @ products.T)
        self.bags = 0.5 * (bags + bags.T)
        self.cross = products[:, : self.n_instances] * scales

    @property
    def instances(self) -> Any:
        """The rows of the kernel."""
        return self.gram.instances

    def _products(self, weights: sparse.csr_array) -> np.ndarray:
        """Products of weighted sums over rows of the kernel with all its rows."""
        found, everything = np.zeros((weights.shape[0], self.gram.n)), np.arange(self.gram.n)
        used = np.unique(weights.indices)
        step = max(1, KERNEL_BLOCK_BYTES // (8 * self.gram.n))
        for first in range(0, len(used), step):
            rows = used[first : first + step]
            found += weights[:, rows] @ self.gram.inner(rows, everything)
        return found

    def inner(self, rows: np.ndarray) -> np.ndarray:
        """Inner products of the given instances with all instances, (len(rows), n_instances)."""
        products = self.gram.inner(rows, np.arange(self.n_instances))
        return np.asarray(products * self.scales[rows][:, None] * self.scales)

    def mixtures(self, subgradient: np.ndarray) -> np.ndarray:
        """Inner products of W_i = sum_j beta_ij z_ij, one for each bag, with all instances.

        Parameters
        ----------
        subgradient : ndarray of shape (n_instances,)
            The beta_ij, whose sum over each bag is one.
        """
        products = self._products(self.mix(subgradient * self.scales))
        return np.asarray(products[:, : self.n_instances] * self.scales)

    def mix(self, subgradient: np.ndarray) -> sparse.csr_array:
        """The matrix that maps values of instances to values of the mixtures."""
        used = np.flatnonzero(subgradient)
        starts = np.searchsorted(used, self.offsets)
        places = (subgradient[used], used, starts)
        return sparse.csr_array(places, shape=(self.n_bags, self.n_instances))

    def expansion(self, of_bags: np.ndarray, of_instances: np.ndarray) -> np.ndarray:
        """Coefficients over rows of the kernel, from coefficients over bags and instances."""
        coef = self.weights.T @ of_bags
        coef[: self.n_instances] += of_instances * self.scales
        return self.gram.expansion(coef)
