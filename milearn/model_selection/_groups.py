"""Groups of bags that are on both sides of a split."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._problem import group_codes

__all__ = ["warn_of_shared_groups"]


def warn_of_shared_groups(
    groups: Any, splits: Sequence[tuple[np.ndarray, np.ndarray]], what: str
) -> None:
    """Warn of splits whose test bags have a group of which bags are in the training part.

    Parameters
    ----------
    groups : array-like of shape (n_bags,) or None
    splits : sequence of (train, test)
        Positions of bags.
    what : str
        The beginning of the message, which has the groups.

    Warns
    -----
    UserWarning
        If any split has such a group.
    """
    if groups is None:
        return
    codes = group_codes(groups)
    shared = [len(np.intersect1d(codes[train], codes[test])) for train, test in splits]
    if not any(shared):
        return
    warnings.warn(
        f"{what} has groups, but {sum(count > 0 for count in shared)} of {len(splits)} splits have "
        f"bags of one group on both sides (up to {max(shared)} groups), so that scores may be too "
        "high: use a splitter that takes groups, such as StratifiedBagKFold or GroupKFold.",
        UserWarning,
        stacklevel=4,
    )
