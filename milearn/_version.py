"""The version of the package, which pickles of its estimators hold."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pickle import UnpicklingError
from typing import Any, NoReturn

from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

__version__ = "0.4.0"


class VersionedEstimator(BaseEstimator):
    """An estimator that tells if another version of milearn has saved it.

    scikit-learn does the same for its own estimators only.
    """

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_milearn_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        saved = state.pop("_milearn_version", "pre-0.4")
        if saved != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=f"{type(self).__name__} of milearn",
                    current_sklearn_version=__version__,
                    original_sklearn_version=saved,
                ),
                stacklevel=2,
            )
        super().__setstate__(state)


# -- what models of older versions refer to --------------------------------------------------------


def _advice(what: str) -> str:
    return (
        f"There is no {what} in milearn {__version__}. If a saved model refers to it, another "
        "version of milearn has saved the model: load it with that version, or fit it again."
    )


class _MissingModules(MetaPathFinder):
    """The last finder: it explains why a module of the package is missing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.startswith("milearn."):
            raise ModuleNotFoundError(_advice(f"module {name}"), name=name)


sys.meta_path.append(_MissingModules())


def refuse_old(module: str, *names: str) -> Callable[[str], NoReturn]:
    """``__getattr__`` of a module that explains why classes of older versions are missing."""

    def of_module(name: str) -> NoReturn:
        if name in names:
            # Pickle replaces an AttributeError by one without the reason.
            raise UnpicklingError(_advice(f"{module}.{name}"))
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return of_module
