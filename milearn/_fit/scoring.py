"""The scorer of an estimator."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import check_scoring


def single_scorer(estimator: Any, scoring: Any) -> Any:
    """The callable ``scorer(estimator, X, y)`` of one score, or an error.

    Parameters
    ----------
    estimator : estimator instance
    scoring : str, callable or None
        None for the ``score`` of the estimator.

    Raises
    ------
    TypeError
        For several scores.
    ValueError
        For an unknown score, or a metric in place of a scorer.
    """
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise TypeError(
            f"scoring is a {type(scoring).__name__}: pass the name of one score or a callable, and "
            "call the function once for each of several scores."
        )
    return check_scoring(estimator, scoring)
