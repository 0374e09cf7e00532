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

    @property
    def instance_signs(self) -> np.ndarray:
        """Sign of each instance's bag, shape (n_instances,)."""
        return np.asarray(self.signs[segment_index(self.offsets)])


def suits_rows(
    size: tuple[int, int, int],
    n_slacks: int,
    *,
    few_slacks: int = 150,
    many_bags: int = 500,
    many_instances: int = 5_000,
    too_many_instances: int = 20_000,
) -> bool:
    """Whether a linear problem is solved over rows and not in the dual over kernel values.

    The dual has a variable for each slack, the problem over rows one for each feature. The problem
    is solved over rows if there are more than two bags per feature and more than ``few_slacks``
    slacks, or more than ``many_instances`` instances in more than ``many_bags`` bags, or more than
    ``too_many_instances`` instances.

    Parameters
    ----------
    size : tuple of int
        Numbers of bags, instances and features.
    n_slacks : int
        Number of bags, or of instances if each of them has a slack.
    few_slacks, many_bags, many_instances, too_many_instances : int
    """
    n_bags, n_instances, n_features = size
    many = n_bags > many_bags and n_instances > many_instances
    tall = n_bags > 2 * n_features and n_slacks > few_slacks
    return many or tall or n_instances > too_many_instances
