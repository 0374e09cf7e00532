"""The version of the package, which pickles of its estimators hold."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

__version__ = "0.3.0"


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
