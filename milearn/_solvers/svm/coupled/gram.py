"""Inner products of bags and instances as points of the same feature space.

A bag is the point B_i = t_i sum_j phi(x_ij), and an instance, as a bag of one, is the point
z_r = d_r phi(x_r). The scales t and d depend on the bag kernel. With the min-max kernel every point
is a row of minima and maxima. A solver needs inner products of bags with all points (n x N numbers,
which are stored), of mixtures of instances with all points, and of single instances as they become
active.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ...._bags.segments import segment_index, segment_sum
from ...common.gram import KERNEL_BLOCK_BYTES, Gram


def uncoupled_bytes(n_bags: int) -> int:
    """Memory for the inner products of bags and their dual problem."""
    return 8 * 8 * n_bags**2


def exact_bytes(n_bags: int, n_instances: int) -> int:
    """Memory for the inner products of all bags and their witnesses with all points."""
    # Bags and mixtures with instances, active instances with instances, dual problems.
    return 8 * 3 * n_bags * n_instances + uncoupled_bytes(n_bags)


class BagGram:
    """Base class of the inner products of bags and instances.

    Attributes
    ----------
    offsets : ndarray of shape (n_bags + 1,)
    bags : ndarray of shape (n_bags, n_bags), bags with bags
    cross : ndarray of shape (n_bags, n_instances), bags with instances
    """

    offsets: np.ndarray
    bags: np.ndarray
    cross: np.ndarray

    def instances(self, rows: np.ndarray) -> np.ndarray:
        """Inner products of the given instances with all instances, (len(rows), n_instances)."""
        raise NotImplementedError

    def means(self) -> np.ndarray:
        """Inner products of each bag's mean of instances with all instances."""
        raise NotImplementedError

    def expansion(self, of_bags: np.ndarray, of_instances: np.ndarray) -> np.ndarray:
        """Coefficients over rows of the kernel, from coefficients over bags and instances."""
        raise NotImplementedError

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.offsets) - 1

    @property
    def n_instances(self) -> int:
        """Number of instances."""
        return int(self.offsets[-1])

    def mixtures(self, subgradient: np.ndarray) -> np.ndarray:
        """Inner products of W_i = sum_j beta_ij z_ij, one for each bag, with all instances.

        Parameters
        ----------
        subgradient : ndarray of shape (n_instances,)
            The beta_ij, whose sum over each bag is one.
        """
        used = np.flatnonzero(subgradient)
        if len(used) == self.n_bags:
            return self.instances(used)
        sizes = np.diff(self.offsets)
        if np.array_equal(subgradient, np.repeat(1.0 / sizes, sizes)):
            return self.means()
        products = np.zeros((self.n_bags, self.n_instances))
        owner = segment_index(self.offsets)[used]
        step = max(1, KERNEL_BLOCK_BYTES // (8 * self.n_instances))
        for first in range(0, len(used), step):
            part = slice(first, first + step)
            places = (subgradient[used[part]], (owner[part], np.arange(len(used[part]))))
            weights = sparse.csr_array(places, shape=(self.n_bags, len(used[part])))
            products += weights @ self.instances(used[part])
        return products

    def mix(self, subgradient: np.ndarray) -> sparse.csr_array:
        """The matrix that maps values of instances to values of the mixtures."""
        used = np.flatnonzero(subgradient)
        starts = np.searchsorted(used, self.offsets)
        places = (subgradient[used], used, starts)
        return sparse.csr_array(places, shape=(self.n_bags, self.n_instances))


class SetKernelGram(BagGram):
    """Inner products of the set kernels, from the Gram matrix of the instances.

    Parameters
    ----------
    gram : Gram, of all instances
    offsets : ndarray of shape (n_bags + 1,)
    bag_scale, instance_scale : ndarray, t and d
    """

    def __init__(
        self, gram: Gram, offsets: np.ndarray, bag_scale: np.ndarray, instance_scale: np.ndarray
    ) -> None:
        self.gram = gram
        self.offsets = offsets
        self.bag_scale = bag_scale
        self.instance_scale = instance_scale
        sums = np.zeros((self.n_bags, self.n_instances))
        self._fill(sums, np.ones(self.n_instances))
        self.bags = segment_sum((sums * bag_scale[:, None]).T, offsets).T * bag_scale
        self.bags = 0.5 * (self.bags + self.bags.T)
        sums *= bag_scale[:, None]
        sums *= instance_scale
        self.cross = sums

    def _fill(self, sums: np.ndarray, weights: np.ndarray) -> None:
        """Weighted sums over each bag's rows of the Gram matrix, in blocks."""
        vectors = self.gram.vectors()
        if vectors is not None:
            product = self.mix(weights) @ vectors @ vectors.T
            sums += product.toarray() if sparse.issparse(product) else product
            return
        everything = (np.arange(self.n_instances), None)
        step = max(1, KERNEL_BLOCK_BYTES // (8 * self.n_instances))
        for first in range(0, self.n_instances, step):
            last = min(first + step, self.n_instances)
            bags = slice(
                int(np.searchsorted(self.offsets, first, side="right")) - 1,
                int(np.searchsorted(self.offsets, last, side="left")),
            )
            starts = np.maximum(self.offsets[bags], first) - first
            block = self.gram.inner((np.arange(first, last), None), everything)
            sums[bags] += np.add.reduceat(block * weights[first:last, None], starts, axis=0)

    def instances(self, rows: np.ndarray) -> np.ndarray:
        everything = (np.arange(self.n_instances), None)
        product = self.gram.inner((rows, None), everything)
        return np.asarray(product * self.instance_scale[rows][:, None] * self.instance_scale)

    def means(self) -> np.ndarray:
        scale = self.instance_scale
        sizes = np.diff(self.offsets)
        if (scale == scale[0]).all():
            # The mean of the instances is a multiple of the bag.
            factor = np.zeros(self.n_bags)
            np.divide(scale[0], sizes * self.bag_scale, out=factor, where=self.bag_scale > 0)
            return self.cross * factor[:, None]
        sums = np.zeros((self.n_bags, self.n_instances))
        self._fill(sums, scale)
        return np.asarray(sums * scale / sizes[:, None])

    def expansion(self, of_bags: np.ndarray, of_instances: np.ndarray) -> np.ndarray:
        spread = np.repeat(of_bags * self.bag_scale, np.diff(self.offsets))
        rows, coef = self.gram.expansion(
            np.arange(self.n_instances), spread + of_instances * self.instance_scale
        )
        return np.bincount(rows, weights=coef, minlength=self.n_instances)


class PrecomputedGram(BagGram):
    """Inner products of bags and instances that are rows of one Gram matrix.

    Parameters
    ----------
    gram : Gram, of all instances first, then of all bags
    offsets : ndarray of shape (n_bags + 1,)
    """

    def __init__(self, gram: Gram, offsets: np.ndarray) -> None:
        self.gram = gram
        self.offsets = offsets
        n = self.n_instances
        bags, rows = np.arange(n, n + self.n_bags), np.arange(n)
        self.bags = gram.inner((bags, None), (bags, None))
        self.cross = gram.inner((bags, None), (rows, None))

    def instances(self, rows: np.ndarray) -> np.ndarray:
        return self.gram.inner((rows, None), (np.arange(self.n_instances), None))

    def means(self) -> np.ndarray:
        everything = (np.arange(self.n_instances), None)
        return self.gram.inner((everything[0], self.offsets), everything)

    def expansion(self, of_bags: np.ndarray, of_instances: np.ndarray) -> np.ndarray:
        rows, coef = self.gram.expansion(np.arange(self.gram.n), np.r_[of_instances, of_bags])
        return np.bincount(rows, weights=coef, minlength=self.gram.n)


class UncoupledGram(BagGram):
    """Inner products of uncoupled bags: each bag is its only instance.

    Parameters
    ----------
    products : ndarray of shape (n_bags, n_bags)
        Inner products of the bags.
    """

    def __init__(self, products: np.ndarray) -> None:
        self.offsets = np.arange(len(products) + 1)
        self.bags = self.cross = products

    def instances(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.bags[rows])

    def means(self) -> np.ndarray:
        return self.bags

    def expansion(self, of_bags: np.ndarray, of_instances: np.ndarray) -> np.ndarray:
        return np.asarray(of_bags + of_instances)
