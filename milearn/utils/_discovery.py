"""Finding the public estimators of the package."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClusterMixin,
    RegressorMixin,
    TransformerMixin,
)

from .._bags.canonical import check_choice

_MIXINS = {
    "classifier": ClassifierMixin,
    "regressor": RegressorMixin,
    "cluster": ClusterMixin,
    "transformer": TransformerMixin,
}
_PACKAGE = __name__.partition(".")[0]


def all_estimators(
    type_filter: str | Sequence[str] | None = None,
) -> list[tuple[str, type[BaseEstimator]]]:
    """List the public estimators of the package.

    Every public sub-package is searched for the classes that it exports; private modules, base
    classes and classes of other packages are ignored.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    type_filter : {"classifier", "regressor", "cluster", "transformer"} or list, default=None
        Kinds of estimators; with a list, estimators of any of these kinds. By default, all.

    Returns
    -------
    list of (name, class)
        Sorted by name.

    Raises
    ------
    ValueError
        For an unknown kind.

    See Also
    --------
    milearn.utils.estimator_checks.parametrize_with_bag_checks : Test estimators.

    Examples
    --------
    >>> from milearn.utils import all_estimators
    >>> found = all_estimators(type_filter="classifier")
    >>> all(hasattr(estimator, "fit") for name, estimator in found)
    True
    """
    kinds = [type_filter] if isinstance(type_filter, str) else list(type_filter or _MIXINS)
    for kind in kinds:
        check_choice("type_filter", kind, _MIXINS)
    wanted = BaseEstimator if type_filter is None else tuple(_MIXINS[kind] for kind in kinds)
    found = {}
    for module in map(import_module, _public_packages()):
        for name in getattr(module, "__all__", []):
            # What a module imports when it is used may need an extra, and is no estimator.
            candidate: Any = vars(module).get(name)
            if _is_estimator(candidate) and issubclass(candidate, wanted):
                found[name] = candidate
    return sorted(found.items())


def _public_packages() -> list[str]:
    root = import_module(_PACKAGE)
    names = [_PACKAGE]
    for info in pkgutil.walk_packages(root.__path__, prefix=f"{_PACKAGE}."):
        if info.ispkg and not any(part.startswith("_") for part in info.name.split(".")):
            names.append(info.name)
    return names


def _is_estimator(candidate: object) -> bool:
    return (
        inspect.isclass(candidate)
        and issubclass(candidate, BaseEstimator)
        and candidate.__module__.startswith(f"{_PACKAGE}.")
        and not candidate.__name__.startswith("_")
        and not inspect.isabstract(candidate)
    )
