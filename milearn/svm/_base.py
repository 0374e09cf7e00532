"""Base classes of the support vector machines of bags, and constraints of their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._bags import Bags
from .._compat import CallbackSupport, StrOptions
from .._constraints import AUTO_OR_POSITIVE, NOT_NEGATIVE, Constraints
from .._kernels.bag import BAG_KERNELS
from .._kernels.instance import KERNELS
from ..base import _TwoLevels
from ._fit import is_linear
from ._functions import BagFunction

LOSSES = ("l1", "l2", "epsilon_insensitive")


class BaseMISVM(CallbackSupport, _TwoLevels):
    """Base of the support vector machines of bags: scores of the fitted function."""

    _parameter_constraints = Constraints(
        kernel=[StrOptions(set(KERNELS)), callable],
        bag_kernel=[StrOptions(set(BAG_KERNELS))],
        loss=[StrOptions(set(LOSSES))],
        coupling=[NOT_NEGATIVE],
        epsilon=[NOT_NEGATIVE],
        tol=AUTO_OR_POSITIVE,
    )

    kernel: Any
    _function: BagFunction

    def _takes_remote_bags(self) -> bool:
        return is_linear(self) and getattr(self, "bag_kernel", None) != "minmax"

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return _flat(self._function.instance_scores(bags))

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._bag_score_is_max:
            return super()._bag_scores(bags)
        return _flat(self._function.bag_scores(bags))


def _flat(values: np.ndarray) -> np.ndarray:
    return values[:, 0] if values.shape[1] == 1 else values
