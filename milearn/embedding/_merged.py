"""Bags in an order that depends on their contents alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._kernels.memory import require_memory
from .._solvers.ensemble.points import distinct_points

__all__ = ["MergedBags"]


@dataclass(frozen=True)
class MergedBags:
    """Bags as sets of distinct points in an order of their own, equal ones of a class merged.

    What is learnt by descent or from trees follows rounding and the order of rows: in this order a
    fit does not depend on that of the bags, and a weight of two is a repetition to the last digit.

    Attributes
    ----------
    kept : ndarray of shape (n_points,)
        A row of the instances of the training bags for each point.
    point_of : ndarray of shape (n_instances,)
        The point of each instance of the merged bags.
    offsets : ndarray of shape (n_bags + 1,)
    codes, weights, sample_weights : ndarray of shape (n_bags,)
        Those of equal bags added.
    """

    kept: np.ndarray
    point_of: np.ndarray
    offsets: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    sample_weights: np.ndarray

    @classmethod
    def of(
        cls,
        bags: Bags,
        codes: np.ndarray,
        weights: np.ndarray,
        sample_weights: np.ndarray,
        *,
        mirrored: bool = False,
    ) -> MergedBags:
        """Merge bags with the numbers of their classes and their weights.

        ``mirrored`` says that of two classes the first is positive: the negative one comes first.
        """
        kept, point_of = distinct_points(bags.instances)
        merged: dict[tuple[int, ...], np.ndarray] = {}
        both = np.column_stack([weights, sample_weights])
        for bag in range(len(bags)):
            points = np.sort(point_of[bags.offsets[bag] : bags.offsets[bag + 1]])
            key = (int(codes[bag]) ^ mirrored, *points.tolist())
            merged[key] = merged.get(key, 0.0) + both[bag]
        keys = sorted(merged)
        return cls(
            kept=kept,
            point_of=np.concatenate([key[1:] for key in keys]).astype(np.intp),
            offsets=np.cumsum([0, *(len(key) - 1 for key in keys)]),
            codes=np.array([key[0] ^ mirrored for key in keys]),
            weights=np.array([merged[key][0] for key in keys]),
            sample_weights=np.array([merged[key][1] for key in keys]),
        )

    @property
    def instance_weights(self) -> np.ndarray:
        """The sample weight of its bag for each instance."""
        return np.repeat(self.sample_weights, np.diff(self.offsets))

    def centred(self, instances: Any) -> tuple[np.ndarray, np.ndarray]:
        """Dense instances less the mean of the distinct ones, and that mean.

        Parameters
        ----------
        instances : ndarray or CSR
            Those of the bags that were merged.

        Raises
        ------
        MemoryError
            For CSR instances whose dense copy does not fit.
        """
        if sparse.issparse(instances):
            require_memory(
                16.0 * len(self.point_of) * instances.shape[1],
                f"A dense copy of {len(self.point_of)} x {instances.shape[1]} instances",
                "reduce the features first, by InstanceTransformer(TruncatedSVD(100))",
            )
        distinct = instances[self.kept]
        if sparse.issparse(distinct):
            distinct = distinct.toarray()
        centre = distinct.mean(axis=0)
        return (distinct - centre)[self.point_of], centre
