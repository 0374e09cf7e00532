"""Warnings that point at the line of the user who called the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.warn import warn_user as warn_user

# Features of which nearly all may be in one bag only, and the share that is nearly all.
_MANY_FEATURES, _NEARLY_ALL = 1_000, 0.9


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
    places = np.full(bags.shape[1], len(bags)), np.full(bags.shape[1], -1)
    first, last = bags.source().fold(_with_bags, places)
    n_private, n_used = int((first == last).sum()), int((last >= 0).sum())
    if n_used >= _MANY_FEATURES and n_private >= _NEARLY_ALL * n_used:
        warn_user(
            f"{n_private:,} of {n_used:,} features are in one bag only, and tell nothing about "
            "others. For receptors, take SequenceAbundanceClassifier, which counts those that "
            "several bags have, or features of k-mers.",
            UserWarning,
        )


def _with_bags(
    places: tuple[np.ndarray, np.ndarray], block: Block
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the first and the last bag that has each feature; others stay as they are."""
    rows = block.instances
    bags = np.repeat(np.r_[block.bags], np.diff(rows.indptr[block.offsets]))
    np.minimum.at(places[0], rows.indices, bags)
    np.maximum.at(places[1], rows.indices, bags)
    return places
