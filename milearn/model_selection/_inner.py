"""Inner folds of estimators: they depend on the contents of bags, but not on their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_consistent_length

from .._bags import Bags
from .._bags.distinct import MergedBags, merge_bags
from .._bags.merge import grouped
from .._fit.validation import encode_classes
from .._fit.warn import warn_of_private_features, warn_user
from ._splitters import StratifiedBagKFold, group_codes

Folds = list[tuple[np.ndarray, np.ndarray]]

N_FOLDS = 5
_FEW_BAGS, _FOLDS_OF_FEW = 40, 3
# Parts of the bags: their number times that of the bags squared, or of all values, and most. With
# few bags a single part in many finds the direction, of many bags nearly every one. In a few
# dimensions, most parts find the same one.
_PARTS_BY_BAGS, _PARTS_BY_VALUES, _MOST_PARTS = 400_000, 2**28, 40


def checked_groups(groups: Any, bags: Bags) -> np.ndarray | None:
    """Validated group numbers of bags, in the order of the group names."""
    if groups is None:
        return None
    check_consistent_length(bags, groups)
    names, codes, _, _ = grouped(groups, len(bags), bags)
    return np.asarray(np.argsort(np.argsort(names))[codes])


def merged_classes(
    bags: Bags, labels: np.ndarray, weights: np.ndarray, groups: Any, pos_label: Any = None
) -> tuple[MergedBags, np.ndarray, np.ndarray, int]:
    """Bags with equal contents, class and group are merged; those of weight zero are left out.

    Returns
    -------
    merged : MergedBags
    codes : ndarray of shape (n_merged,)
        Positions of their classes.
    classes : ndarray of shape (n_classes,)
    positive : int
        As of :func:`.._fit.validation.encode_classes`.
    """
    used = weights > 0
    classes, own, positive = encode_classes(labels[used], pos_label)
    codes = np.zeros(len(bags), dtype=np.intp)
    codes[used] = own
    merged = merge_bags(bags, codes, weights, checked_groups(groups, bags))
    warn_of_private_features(merged.bags)
    return merged, codes[merged.positions], classes, positive


def class_folds(
    merged: MergedBags, codes: np.ndarray, rng: Any, test_bags: int | None = None
) -> Folds:
    """Stratified folds of merged bags; empty if a class has a single bag or group.

    Parameters
    ----------
    merged : MergedBags
    codes : ndarray of shape (n_merged,), class numbers
    rng : RandomState
    test_bags : int, default=None
        Bags, or groups, that are sufficient to test, if no class has a smaller share of them than
        another. Of many, there are more folds than five.
    """
    order = merged.order
    sizes = merged.bags.sizes[order]
    groups = None if merged.groups is None else merged.groups[order]
    units = np.arange(len(codes)) if merged.groups is None else merged.groups
    fewest = min(len(np.unique(units[codes == code])) for code in np.unique(codes))
    seed = rng.randint(2**31 - 1)
    # Numbered by their first bags, so that folds do not depend on the names of the classes.
    classes = group_codes(codes[order])
    most = _n_folds(len(codes), fewest * len(np.unique(codes)), test_bags)
    for n_splits in range(min(most, fewest), 1, -1):
        splitter = StratifiedBagKFold(n_splits, shuffle=True, random_state=seed)
        try:
            found = list(splitter._split_sizes(sizes, classes, groups))
        except ValueError:
            # Groups that cannot be split into this number of folds may be split into fewer.
            if groups is None:
                raise
            continue
        return [(order[train], order[test]) for train, test in found]
    if groups is None and len(codes) < _FEW_BAGS:
        return []
    cause, remedy = "A class has a single bag, which leaves", "Pass more bags of it."
    if groups is not None:
        cause, remedy = "The groups leave", "Pass smaller groups, or none."
    warn_user(
        f"{cause} no two inner folds with bags of every class: nothing was compared or "
        f"calibrated. {remedy}",
        UserWarning,
    )
    return []


def value_folds(merged: MergedBags, rng: Any, test_bags: int | None = None) -> Folds:
    """Folds of merged bags for regression; empty for fewer than three bags or two groups.

    ``test_bags`` is as for :func:`class_folds`.
    """
    order, groups = merged.order, merged.groups
    units = len(order) if groups is None else len(np.unique(groups))
    n_splits = min(_n_folds(len(order), units, test_bags), units)
    if n_splits < 2 or len(order) < 3:
        return []
    shuffled = order[rng.permutation(len(order))]
    splitter = KFold(n_splits) if groups is None else GroupKFold(n_splits)
    # As above, folds do not depend on the names of the groups.
    found = splitter.split(
        shuffled, groups=None if groups is None else group_codes(groups[shuffled])
    )
    return [(shuffled[train], shuffled[test]) for train, test in found]


def parts_of(
    folds: Folds, folds_of: Callable[[], Folds], bags: Bags, n_parts: int | str = "auto"
) -> Folds:
    """At least this many parts of the bags, and the bags that they lack, from repeated folds.

    A part lacks two of five folds: more test bags tell better whether it has found something. Of
    fewer folds it lacks one. Every bag is lacked by the same number of parts. The first parts lack
    two of the given folds, the others those of new ones.
    """
    parts: Folds = []
    if n_parts == "auto":
        n_features = bags.shape[1]
        of_values = _PARTS_BY_VALUES // (bags.n_instances * n_features)
        n_parts = min(_PARTS_BY_BAGS // len(bags) ** 2, of_values, n_features, _MOST_PARTS)
        n_parts -= n_parts % N_FOLDS
    n_parts = int(n_parts)
    while folds and len(parts) < n_parts:
        if parts or len(folds) < N_FOLDS:
            folds = folds_of()
        tests = [test for _, test in folds]
        for step in (1, 2) if len(tests) == N_FOLDS else (0,):
            for first in range(len(tests) if len(parts) < n_parts else 0):
                test = np.union1d(tests[first], tests[(first + step) % len(tests)])
                parts.append((np.setdiff1d(np.concatenate(tests), test), test))
    return parts


def _n_folds(n_bags: int, n_units: int, test_bags: int | None) -> int:
    least = N_FOLDS if n_bags >= _FEW_BAGS else _FOLDS_OF_FEW
    return least if test_bags is None else max(least, n_units // test_bags)
