"""Base classes of the support vector machines of bags, and constraints of their parameters."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from .._bags import Bags
from .._compat import CallbackSupport, Interval, StrOptions
from .._fit.components import AUTO
from .._kernels.bag import BAG_KERNELS
from .._kernels.instance import KERNELS
from ..base import BagClassifier, BagRegressor
from ._functions import BagFunction

LOSSES = ("l1", "l2", "epsilon_insensitive")

# Constraints that several estimators share.
KERNEL_CONSTRAINTS: dict[str, Any] = {
    "C": [Interval(Real, 0.0, None, closed="neither")],
    "kernel": [StrOptions(set(KERNELS)), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}
START_CONSTRAINTS: dict[str, Any] = {
    "n_init": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}
# For estimators that also take a precomputed kernel between instances.
INSTANCE_KERNELS = [StrOptions({*KERNELS, "precomputed"}), callable]
COMPONENTS = [Interval(Integral, 1, None, closed="left"), StrOptions({AUTO}), None]
COUPLED_CONSTRAINTS: dict[str, Any] = {
    "random_state": ["random_state"],
    "bag_kernel": [StrOptions(set(BAG_KERNELS))],
    "loss": [StrOptions(set(LOSSES))],
    "coupling": [Interval(Real, 0.0, None, closed="left")],
    "epsilon": [Interval(Real, 0.0, None, closed="left")],
    "n_components": COMPONENTS,
    "init": [StrOptions({"auto", "mean", "random"}), "array-like"],
}


class BaseMISVC(CallbackSupport, BagClassifier):
    """Base of the support vector classifiers of bags: scores of the fitted function."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KERNEL_CONSTRAINTS,
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "pos_label": "no_validation",
    }

    _function: BagFunction

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return _flat(self._function.instance_scores(bags))

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._bag_score_is_max:
            return super()._bag_scores(bags)
        return _flat(self._function.bag_scores(bags))


class BaseMISVR(CallbackSupport, BagRegressor):
    """Base of the support vector regressors of bags."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
        **KERNEL_CONSTRAINTS,
    }

    _function: BagFunction

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._function.instance_scores(bags)[:, 0]

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if self._bag_score_is_max:
            return super()._bag_scores(bags)
        return self._function.bag_scores(bags)[:, 0]


def _flat(values: np.ndarray) -> np.ndarray:
    return values[:, 0] if values.shape[1] == 1 else values
