"""Warnings that point at the line of the user who called the estimator."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import ConvergenceWarning

from .._bags.warn import is_inside as is_inside
from .._bags.warn import warn_user as warn_user


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
