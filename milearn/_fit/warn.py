"""Warnings that point at the line of the user who called the estimator."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import sklearn
from sklearn.exceptions import ConvergenceWarning

# Files whose frames are between the user's line and the warning: decorators of scikit-learn and of
# contexts, meta-estimators and pipelines, joblib's loops.
_INSIDE = tuple(
    f"{Path(path).parent}{sep}"
    for path in (sklearn.__file__, joblib.__file__, Path(__file__).parents[1] / "__init__.py")
    for sep in ("/", "\\")
) + (contextlib.__file__,)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the innermost frame that belongs to neither scikit-learn, joblib nor this package."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def warn_of_limit(estimator: Any, n_limited: int, n: int, what: str = "problem(s)") -> None:
    """Warn if runs stopped at ``max_iter``."""
    if n_limited:
        warn_user(
            f"{type(estimator).__name__} stopped at max_iter={estimator.max_iter} before "
            f"convergence in {n_limited} of {n} {what}: raise max_iter or tol.",
            ConvergenceWarning,
        )


def warn_of_indefinite(smallest: float, rows: str) -> None:
    """Warn that a kernel matrix has a negative eigenvalue, given as a fraction of the largest."""
    warn_user(
        f"The kernel matrix of the {rows} is indefinite (its smallest eigenvalue is "
        f"{smallest:.1e} of the largest): its negative part was dropped.",
        UserWarning,
    )
