"""Warnings that point at the line of the user who called the estimator."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import ConvergenceWarning

from .._bags.warn import warn_user as warn_user


def warn_of_limit(estimator: Any, n_limited: int, n: int, what: str = "problem(s)") -> None:
    """Warn if runs stopped at ``max_iter``."""
    if n_limited:
        warn_user(
            f"{type(estimator).__name__} stopped at max_iter={estimator.max_iter} before "
            f"convergence in {n_limited} of {n} {what}: raise max_iter or tol.",
            ConvergenceWarning,
        )
