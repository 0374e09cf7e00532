"""Constraints of the parameters of estimators."""

from __future__ import annotations

from inspect import signature
from numbers import Integral, Real
from typing import Any

from ._compat import Interval, StrOptions

AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0.0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0.0, None, closed="left")
AUTO_OR_POSITIVE = [StrOptions({"auto"}), POSITIVE]
# Above zero and at most one.
SHARE = Interval(Real, 0.0, 1.0, closed="right")

# Constraints of parameters that mean the same in most estimators.
_SHARED: dict[str, Any] = {
    "C": [POSITIVE],
    "batch_size": [AT_LEAST_ONE, None],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    # A class would make scikit-learn treat the owner as a meta-estimator.
    "estimator": "no_validation",
    "gamma": [StrOptions({"scale", "auto"}), POSITIVE],
    "init": [StrOptions({"auto", "mean", "random"}), "array-like"],
    "max_bins": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"}), None],
    "max_depth": [AT_LEAST_ONE, None],
    "max_features": [AT_LEAST_ONE, SHARE, StrOptions({"sqrt", "log2"}), None],
    "max_instances": [AT_LEAST_ONE, None],
    "max_iter": [AT_LEAST_ONE],
    "max_samples": [AT_LEAST_ONE, SHARE, StrOptions({"auto"}), None],
    "metric": [StrOptions({"min", "max", "mean"})],
    "min_weight_fraction_leaf": [Interval(Real, 0.0, 0.5, closed="both")],
    "n_clusters": [AT_LEAST_ONE],
    "n_components": [AT_LEAST_ONE, StrOptions({"auto"}), None],
    "n_estimators": [AT_LEAST_ONE],
    "n_init": [AT_LEAST_ONE],
    "n_jobs": [Integral, None],
    "n_prototypes": [AT_LEAST_ONE, StrOptions({"auto"}), None],
    "n_words": [AT_LEAST_ONE],
    "nu": [SHARE],
    "pos_label": "no_validation",
    "power": [SHARE],
    "random_state": ["random_state"],
    "time_limit": [POSITIVE, None],
    "tol": [POSITIVE],
    "unlabeled": "no_validation",
    "verbose": ["verbose"],
}


class Constraints(dict[str, Any]):
    """Constraints of all parameters of an estimator, as scikit-learn checks them in ``fit``.

    As an attribute of a class it has the given constraints. The other parameters of the constructor
    have those of the base class, or the shared ones.
    """

    def __set_name__(self, owner: Any, name: str) -> None:
        known = {**_SHARED, **getattr(super(owner, owner), name, {}), **self}
        parameters = signature(owner.__init__).parameters
        self.update({each: known[each] for each in parameters if each in known})
