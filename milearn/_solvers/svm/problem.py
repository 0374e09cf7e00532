"""Binary classification problem over bags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._bags.segments import segment_index
from ..common.gram import Gram


@dataclass(frozen=True)
class BinaryProblem:
    """Bags of two classes."""

    # Inner products of the instances; bag i has the instances ``offsets[i]:offsets[i + 1]``.
    gram: Gram
    offsets: np.ndarray
    # +1.0 or -1.0 for each bag, and the cost of its loss, above zero.
    signs: np.ndarray
    weights: np.ndarray

    @property
    def n_instances(self) -> int:
        """Number of instances in all bags."""
        return int(self.offsets[-1])

    @property
    def positive(self) -> np.ndarray:
        """Positions of the positive bags."""
        return np.flatnonzero(self.signs > 0)

    @property
    def negative(self) -> np.ndarray:
        """Positions of the negative bags."""
        return np.flatnonzero(self.signs < 0)

    @property
    def instance_weights(self) -> np.ndarray:
        """Weight of each instance's bag, shape (n_instances,)."""
        return np.asarray(self.weights[segment_index(self.offsets)])
