"""Warnings that point at the line of the user who called the estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.distinct import instance_ranks
from .._bags.warn import warn_user as warn_user
from .._solvers.common.cccp import RELATIVE_TIE

# Bags of which two with different scores are usually enough.
_FEW_BAGS = 8
# Features of which nearly all may be in one bag only, and the share that is nearly all.
_MANY_FEATURES, _NEARLY_ALL = 1_000, 0.9
# Settings of estimators with which fits seldom end in a constant.
_AGAINST_CONSTANTS = {
    "class_weight": "balanced",
    "init": "auto",
    "variant": "sbmil",
    "kernel": "rbf",
}


def warn_of_limit(estimator: Any, n_limited: int, n: int, what: str = "problem(s)") -> None:
    """Warn if runs stopped at ``max_iter``."""
    if n_limited:
        warn_user(
            f"{type(estimator).__name__} stopped at max_iter={estimator.max_iter} before "
            f"convergence in {n_limited} of {n} {what}: raise max_iter or tol.",
            ConvergenceWarning,
        )


def warn_of_private_features(bags: Bags) -> None:
    """Warn if nearly all of many sparse features are in one bag only, as those of receptors are.

    No other bag tells what such a feature is worth.
    """
    if not bags.is_sparse or bags.shape[1] < _MANY_FEATURES:
        return
    places = zip(*bags.source().map(_first_and_last_bags), strict=True)
    first, last = np.min(next(places), axis=0), np.max(next(places), axis=0)
    n_private, n_used = int((first == last).sum()), int((last >= 0).sum())
    if n_used >= _MANY_FEATURES and n_private >= _NEARLY_ALL * n_used:
        warn_user(
            f"{n_private:,} of {n_used:,} features are in one bag only, and tell nothing about "
            "others. For receptors, take SequenceAbundanceClassifier, which counts those that "
            "several bags have, or features of k-mers.",
            UserWarning,
        )


def _first_and_last_bags(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the first and the last bag that has each feature; infinity and -1 if none has."""
    rows = block.instances
    bags = np.repeat(np.r_[block.bags], np.diff(rows.indptr[block.offsets]))
    first, last = np.full(rows.shape[1], np.inf), np.full(rows.shape[1], -1.0)
    # Of several values for one place, the last one is stored.
    first[rows.indices[::-1]], last[rows.indices] = bags[::-1], bags
    return first, last


def warn_of_constants(
    estimator: Any, bags: Bags, targets: np.ndarray, score: Callable[..., np.ndarray], *given: Any
) -> None:
    """Warn if ``score(bags, *given)``, one column per problem, is the same for all training bags.

    It has to be if their targets or instances are the same. Estimators with ``_may_be_constant``
    belong to others that leave constants out.
    """
    varied = float(np.ptp(targets))
    if varied == 0.0 or getattr(estimator, "_may_be_constant", False):
        return
    for some in (bags[:_FEW_BAGS], bags):
        scores = some._mapped(score, *given).reshape(len(some), -1)
        # Scores that should be zero are rounding: compare them with a margin, or with values.
        size = np.maximum(np.abs(scores).max(axis=0), varied)
        n_constant = int((np.ptp(scores, axis=0) <= RELATIVE_TIE * size).sum())
        if not n_constant:
            return
    if np.ptp(instance_ranks(bags)) > 0.0:
        warn_user(
            f"{type(estimator).__name__} found a constant, which gives all bags the same score, "
            f"in {n_constant} of {scores.shape[1]} problem(s): {_remedy_for(estimator, targets)}.",
            UserWarning,
        )


def _remedy_for(estimator: Any, targets: np.ndarray) -> str:
    """What makes a constant cost more: at those of rare classes or values, C is a mere factor."""
    given = estimator.get_params(deep=False)
    if given.get("class_weight") is None and np.ptp(np.unique(targets, return_counts=True)[1]) == 0:
        given.pop("class_weight", None)
    found = [
        f'{name}="{value}"'
        for name, value in _AGAINST_CONSTANTS.items()
        if name in given and not (isinstance(given[name], str) and given[name] == value)
    ]
    if found:
        return f"try {' or '.join(found)}"
    return f"raise C or take MI{'Regressor' if is_regressor(estimator) else 'Classifier'}"
