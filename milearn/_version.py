"""The version of the package, which pickles of its estimators hold."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from importlib.abc import MetaPathFinder
from pickle import UnpicklingError
from typing import Any, NoReturn

from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

__version__ = "0.5.0"


class VersionedEstimator(BaseEstimator):
    """An estimator that tells if another version of milearn has saved it, and refuses minor ones.

    scikit-learn does the same for its own estimators only.
    """

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_milearn_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        saved = state.pop("_milearn_version", "pre-0.4")
        if saved.split(".")[:2] != __version__.split(".")[:2]:
            refuse_saved(type(self).__name__, saved)
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


def refuse_saved(name: str, saved: str) -> NoReturn:
    """Raise an error for what another minor version has pickled: attributes have changed."""
    raise UnpicklingError(
        f"This {name} was saved by milearn {saved}, which milearn {__version__} does not read: "
        "load it with that version, or fit it again."
    )


# -- what earlier versions had ---------------------------------------------------------------------

_RECIPE = "write it as on the page Recipes of the user guide"
# Names and keywords of earlier versions, and what to do instead.
_REMOVED = {
    "Bags.from_images": _RECIPE,
    "Bags.from_series": _RECIPE,
    "Bags.from_documents": f"pass lists of texts to Bags.from_list, or {_RECIPE}",
    "Bags.from_arrow": "use Bags.from_frame(table.to_pandas(), bag)",
    "Bags.to_arrow": "use pyarrow.Table.from_pandas(X.to_frame())",
    "from_anndata.sample_key": "pass bag=",
    "from_anndata.label_key": "pass label=",
    "from_anndata.covariates": "pass bag_data=",
    "load_bags.delimiter": "pass sep=",
    "load_bags.format": "the suffix says it",
    "load_bags.instance": "pass instance_data=",
    "load_bags.instance_label": "pass instance_data=",
    "load_bags.n_features": _RECIPE,
    "load_bags.zero_based": _RECIPE,
    "svm.WellSVC": "use MISVC(slack='instance')",
}


def removed(owner: str, names: Iterable[str], error: type[Exception] = TypeError) -> None:
    """Raise an error for the first of the names that an earlier version had."""
    for name in names:
        if remedy := _REMOVED.get(f"{owner}.{name}"):
            raise error(f"There is no {name!r} of {owner} since milearn 0.5: {remedy}.")


def _advice(what: str) -> str:
    return (
        f"There is no {what} in milearn {__version__}. If a saved model refers to it, another "
        "version of milearn has saved the model: load it with that version, or fit it again."
    )


# Modules of 0.2 to 0.4 that hold classes of saved models.
_GONE = {
    f"milearn.{package}._{module}"
    for package, modules in {
        "embedding": "concepts dissimilarity miles",
        "preprocessing": "clipped",
        "survival": "functions",
        "svm": "bag_svc bag_svr coupled_misvc coupled_misvr data instance_misvc mi_svm misvr "
        "well_svc",
    }.items()
    for module in modules.split()
}


class _MissingModules(MetaPathFinder):
    """The last finder: it explains why a module of the package is missing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in _GONE:
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
