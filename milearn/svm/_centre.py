"""Centring of dense instances, for linear problems that do not depend on the origin.

If the intercept is not penalised, the problem for the instances x - c has the same w for every
centre c, and the intercept b + <w, c>.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._bags import Bags
from .._kernels.centring import centre_of, subtracted
from ._formulations import TrainingBags
from ._functions import BagFunction, InstanceFunction, LinearExpansion


@dataclass(frozen=True)
class Centre:
    """Point that is subtracted from the instances of a fit, or None."""

    point: np.ndarray | None = None

    @classmethod
    def of(cls, training: TrainingBags) -> Centre:
        """The centre of bags with features far from zero, if they are dense and in memory."""
        return cls(None if training.is_remote else centre_of(training.stored))

    def subtracted(self, training: TrainingBags) -> TrainingBags:
        """The bags of a fit with the centre as origin."""
        if self.point is None:
            return training
        instances = subtracted(training.stored, self.point)
        return replace(training, selected=training.selected.with_instances(instances))

    def restored(
        self, bags: Bags, function: BagFunction, attributes: dict[str, Any]
    ) -> tuple[BagFunction, dict[str, Any]]:
        """The function of the original instances, and its attributes."""
        if self.point is None:
            return function, attributes
        coef = attributes["coef_"]
        found = {**attributes, "intercept_": attributes["intercept_"] - coef @ self.point}
        if "support_" in found:
            # In float64, as for data that are not centred.
            rows = bags.instances[found["support_"]]
            found["support_vectors_"] = np.asarray(rows, dtype=np.float64)
        return InstanceFunction(LinearExpansion(coef), found["intercept_"]), found
