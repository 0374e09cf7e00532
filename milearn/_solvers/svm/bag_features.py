"""Bags and their instances as vectors of explicit features, of which few are kept.

Bags, mixtures of instances and a few instances are kept as vectors; the scores of all instances
are made in blocks.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..common.gram import Matrix
from ..common.nystroem import FeatureMap

__all__ = ["BagFeatures", "feature_bytes"]


class BagFeatures:
    """Bags and instances as feature vectors.

    Parameters
    ----------
    features : FeatureMap
    rows : ndarray or CSR of shape (n_instances, n_columns)
    offsets : ndarray of shape (n_bags + 1,)
    bag_scale, instance_scale : ndarray, of the bag kernel
    whole : ndarray, default=None
        Rows that stand for bags, where a bag is not the sum of its instances.

    Attributes
    ----------
    bags : ndarray or CSR of shape (n_bags, dim)
    dim : int
    """

    def __init__(
        self,
        features: FeatureMap,
        rows: Matrix,
        offsets: np.ndarray,
        bag_scale: np.ndarray,
        instance_scale: np.ndarray,
        whole: Matrix = None,
    ) -> None:
        self.features, self.rows, self.offsets = features, rows, offsets
        self.instance_scale = instance_scale
        self.n_bags, self.n_instances = len(offsets) - 1, int(offsets[-1])
        self.dim = features.dim
        if whole is None:
            spread = np.repeat(bag_scale, np.diff(offsets))
            self.bags = features.sums(rows, spread, offsets)
        else:
            self.bags = features.transform(whole)

    def scores(self, w: np.ndarray) -> np.ndarray:
        """Scores of all instances without the intercept."""
        return np.asarray(self.features.scores(self.rows, w) * self.instance_scale)

    def instances(self, rows: np.ndarray) -> Matrix:
        """Vectors of the given instances."""
        scale = self.instance_scale[rows]
        found = self.features.transform(self.rows[rows])
        return (
            sparse.diags_array(scale) @ found if sparse.issparse(found) else found * scale[:, None]
        )

    def mixtures(self, subgradient: np.ndarray) -> Matrix:
        """Vectors of sum_j beta_ij z_ij, one per bag, for weights beta of all instances."""
        used = np.flatnonzero(subgradient)
        starts = np.searchsorted(used, self.offsets)
        weights = subgradient[used] * self.instance_scale[used]
        return self.features.sums(self.rows[used], weights, starts)


def feature_bytes(rows: Matrix, n_bags: int, dim: int) -> int:
    """Memory that bags, mixtures and the working set of as many instances may take."""
    # The working set counts twice: while more instances are appended.
    copies = 6
    if sparse.issparse(rows):
        return copies * 12 * int(rows.nnz)
    return copies * 8 * n_bags * dim + 8 * int(rows.shape[0])
