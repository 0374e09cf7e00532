"""Instances far from zero, for linear problems that do not depend on where zero is.

A maximum of scores with an intercept without a penalty has the same w for the instances less any
centre c, and the intercept b + <w, c>. A million away from zero their inner products have a dozen
digits more than their differences, and double precision keeps none of these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._bags import Bags
from ._formulations import TrainingBags
from ._functions import BagFunction, InstanceFunction, LinearExpansion

__all__ = ["Centre"]

# Distance from zero, in standard deviations, above which a centre is subtracted.
_MOST_DEVIATIONS = 1e3
# Instances that the centre is the mean of: any one near them all will do.
_MOST_ROWS = 1000


@dataclass(frozen=True)
class Centre:
    """What is subtracted from the instances of a fit.

    Attributes
    ----------
    point : ndarray of shape (n_features,) or None
        None for nothing.
    """

    point: np.ndarray | None = None

    @classmethod
    def of(cls, training: TrainingBags) -> Centre:
        """That of bags far from zero, if their instances are dense and in memory."""
        stored = training.stored if not training.is_remote else None
        if not isinstance(stored, np.ndarray) or isinstance(stored, np.memmap):
            return cls()
        rows = stored[:: -(-len(stored) // _MOST_ROWS)].astype(np.float64)
        point = rows.mean(axis=0)
        spread = np.sqrt(np.sum((rows - point) ** 2) / len(rows))
        return cls(point) if np.linalg.norm(point) > _MOST_DEVIATIONS * spread else cls()

    def subtracted(self, training: TrainingBags) -> TrainingBags:
        """The bags of a fit about the centre."""
        if self.point is None:
            return training
        selected = training.selected.with_instances(training.instances - self.point)
        return replace(training, selected=selected)

    def restored(
        self, bags: Bags, function: BagFunction, attributes: dict[str, Any]
    ) -> tuple[BagFunction, dict[str, Any]]:
        """The function of the instances as they were given in ``bags``, and its attributes."""
        if self.point is None:
            return function, attributes
        coef = attributes["coef_"]
        found = {**attributes, "intercept_": attributes["intercept_"] - coef @ self.point}
        if "support_" in found:
            # In float64, as without a centre.
            rows = bags.instances[found["support_"]]
            found["support_vectors_"] = np.asarray(rows, dtype=np.float64)
        return InstanceFunction(LinearExpansion(coef), found["intercept_"]), found
