"""Base classes of the support vector machines of bags, and constraints of their parameters."""

from __future__ import annotations

import numpy as np

from .._bags import Bags
from .._compat import CallbackSupport, StrOptions
from .._constraints import NOT_NEGATIVE, Constraints
from .._kernels.bag import BAG_KERNELS
from .._kernels.instance import KERNELS
from ..base import BagClassifier, BagRegressor
from ._functions import BagFunction

LOSSES = ("l1", "l2", "epsilon_insensitive")

# For estimators that also take a precomputed kernel between instances.
INSTANCE_KERNELS = [StrOptions({*KERNELS, "precomputed"}), callable]
COUPLED_CONSTRAINTS = {
    "bag_kernel": [StrOptions(set(BAG_KERNELS))],
    "loss": [StrOptions(set(LOSSES))],
    "coupling": [NOT_NEGATIVE],
    "epsilon": [NOT_NEGATIVE],
}


class BaseMISVC(CallbackSupport, BagClassifier):
    """Base of the support vector classifiers of bags: scores of the fitted function."""

    _parameter_constraints = Constraints(kernel=[StrOptions(set(KERNELS)), callable])

    _function: BagFunction

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return _flat(self._function.instance_scores(bags))

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._bag_score_is_max:
            return super()._bag_scores(bags)
        return _flat(self._function.bag_scores(bags))


class BaseMISVR(CallbackSupport, BagRegressor):
    """Base of the support vector regressors of bags."""

    _parameter_constraints = Constraints(kernel=[StrOptions(set(KERNELS)), callable])

    _function: BagFunction

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._function.instance_scores(bags)[:, 0]

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._bag_score_is_max:
            return super()._bag_scores(bags)
        return self._function.bag_scores(bags)[:, 0]


def _flat(values: np.ndarray) -> np.ndarray:
    return values[:, 0] if values.shape[1] == 1 else values
