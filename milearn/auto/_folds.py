"""Inner folds that depend on the bags and not on their order, and the merging of equal bags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold

from .._bags import Bags
from ..model_selection import StratifiedBagKFold
from ..svm._distinct import bag_fingerprints
from ..utils._warn import warn_user

__all__ = ["MergedBags", "class_folds", "merge_bags", "value_folds"]

Folds = list[tuple[np.ndarray, np.ndarray]]

_FOLDS, _FEW_BAGS, _FOLDS_OF_FEW = 5, 40, 3


@dataclass(frozen=True)
class MergedBags:
    """Training bags of which none is there twice with the same target.

    Attributes
    ----------
    positions : ndarray of shape (n_merged,)
        The first training bag of each kind.
    weights : ndarray of shape (n_merged,)
        Sums of sample weights.
    order : ndarray of shape (n_merged,)
        Positions among the merged bags, in an order that depends on their contents alone.
    groups : ndarray of shape (n_merged,) or None
    """

    positions: np.ndarray
    weights: np.ndarray
    order: np.ndarray
    groups: np.ndarray | None


def merge_bags(bags: Bags, targets: np.ndarray, weights: np.ndarray, groups: Any) -> MergedBags:
    """Merge bags with equal contents, target and group; leave out those of weight zero.

    A bag that is there twice would otherwise stand on both sides of an inner fold, and weigh other
    than one of weight two.
    """
    used = np.flatnonzero(weights > 0)
    group_codes = np.zeros(len(used), dtype=np.intp)
    if groups is not None:
        group_codes = np.unique(np.asarray(groups)[used], return_inverse=True)[1]
    _, target_codes = np.unique(targets[used], return_inverse=True)
    marks = bag_fingerprints(bags)[used]
    keys = np.rec.fromarrays([marks, target_codes, group_codes])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    summed = np.bincount(inverse.ravel(), weights=weights[used])
    kept = np.argsort(first)
    first, summed = first[kept], summed[kept]
    return MergedBags(
        positions=used[first],
        weights=summed,
        order=np.lexsort((target_codes[first], marks[first])),
        groups=None if groups is None else group_codes[first],
    )


def class_folds(merged: MergedBags, codes: np.ndarray, sizes: np.ndarray, rng: Any) -> Folds:
    """Stratified folds of merged bags; none where a class has a single bag or group.

    Parameters
    ----------
    merged : MergedBags
    codes : ndarray of shape (n_merged,), class numbers
    sizes : ndarray of shape (n_merged,), numbers of instances
    rng : RandomState
    """
    order = merged.order
    offsets = np.concatenate([[0], np.cumsum(sizes[order])])
    shapes = Bags(np.zeros((offsets[-1], 1), dtype=np.float16), offsets)
    groups = None if merged.groups is None else merged.groups[order]
    most = _most_folds(len(codes))
    fewest = min(_spread(codes == code, merged.groups) for code in np.unique(codes))
    seed = rng.randint(2**31 - 1)
    for n_splits in range(min(most, fewest), 1, -1):
        splitter = StratifiedBagKFold(n_splits, shuffle=True, random_state=seed)
        try:
            found = list(splitter.split(shapes, codes[order], groups))
        except ValueError:
            # Groups that cannot be spread over so many folds may do over fewer.
            if groups is None:
                raise
            continue
        return [(order[train], order[test]) for train, test in found]
    if groups is not None:
        warn_user(
            "The groups leave no two inner folds with bags of every class: nothing was compared "
            "or calibrated. Pass smaller groups, or none.",
            UserWarning,
        )
    return []


def value_folds(merged: MergedBags, rng: Any) -> Folds:
    """Folds of merged bags for regression; none for fewer than two bags or groups."""
    order, groups = merged.order, merged.groups
    units = len(order) if groups is None else len(np.unique(groups))
    n_splits = min(_most_folds(len(order)), units)
    if n_splits < 2:
        return []
    shuffled = order[rng.permutation(len(order))]
    if groups is None:
        found = KFold(n_splits).split(shuffled)
    else:
        found = GroupKFold(n_splits).split(shuffled, groups=groups[shuffled])
    return [(shuffled[train], shuffled[test]) for train, test in found]


def _most_folds(n_bags: int) -> int:
    return _FOLDS if n_bags >= _FEW_BAGS else _FOLDS_OF_FEW


def _spread(members: np.ndarray, groups: np.ndarray | None) -> int:
    return int(members.sum()) if groups is None else len(np.unique(groups[members]))
