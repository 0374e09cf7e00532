"""Folds with balanced classes and instance counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from ._problem import BagSplitter, Problem, check_count

# With shuffle, bags whose sizes differ by less than this factor may be swapped in the order of
# assignment. On most data all sizes are within this factor, so the order is random, while bags that
# are far larger than the others still come first and can be compensated for.
_SHUFFLE_FACTOR = 8.0


class StratifiedBagKFold(BagSplitter):
    r"""K folds with balanced classes and numbers of instances.

    Bags differ in size, and both the cost of training and the information in a fold depend on the
    number of instances, so the numbers of bags and of instances are balanced. Without groups, the
    bags of each class are assigned in rounds of ``n_splits``, from the largest to the smallest: the
    largest bag of a round is assigned to the fold with the fewest instances of the class, and so
    on. The parts of the classes are then combined such that large parts meet small ones. Therefore

    * the numbers of bags of each class differ by at most one between folds,
    * the numbers of bags differ by at most one between folds,
    * the numbers of instances of a class differ between folds by at most the size of the largest
      bag of the class.

    Outcomes of survival analysis have two classes, bags with an event and censored bags, of which
    only the first one has to be in every fold.

    With groups, whole groups are assigned, starting with the rarest class and with large groups.
    Each group is assigned to the fold with the smallest proportions of bags and instances of its
    classes, where folds without the class are preferred. If a fold does not contain a class at the
    end, a group that is not needed in another fold is moved there.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Assign bags of similar size, up to a factor of eight, in random order. Otherwise the folds
        are deterministic.
    random_state : int, RandomState instance or None, default=None
        Only with ``shuffle=True``. Pass an int for the same folds at every call.
    unlabeled : label, default=None
        A value of ``y`` that marks unlabelled bags, in addition to NaN and None.

    Raises
    ------
    TypeError
        At construction, if ``shuffle`` is not a bool.
    ValueError
        At construction, if ``n_splits`` is below 2, or ``random_state`` is set without ``shuffle``.
        In ``split``, if all labels have the same class, the length of labels or groups is not the
        number of bags, or a fold would not contain all classes, because a class has fewer bags (or
        groups) than folds or the groups cannot be distributed.

    See Also
    --------
    RepeatedStratifiedBagKFold : Several repetitions with different folds.
    BagShuffleSplit : Random splits with a given fraction of training bags.

    Notes
    -----
    Unlabelled bags are always in the training set and not in the test set, with one exception: if
    groups are given, unlabelled bags of a test group are excluded from the split to avoid leakage.
    ``cross_val_predict`` cannot be used with unlabelled bags, because not every bag is tested.

    Every class occurs in each test fold and in each training set. If this is not possible,
    ``split`` raises an error. So there are no folds without a positive bag.

    References
    ----------
    R. L. Graham. Bounds on multiprocessing timing anomalies. SIAM Journal on Applied Mathematics
    17(2), 1969 (largest first).

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.model_selection import StratifiedBagKFold
    >>> sizes = [9, 1, 1, 5, 2, 4]
    >>> bags = Bags.from_list([np.zeros((size, 1)) for size in sizes])
    >>> y = [1, 1, 1, 0, 0, 0]
    >>> for train, test in StratifiedBagKFold(n_splits=3).split(bags, y):
    ...     print(test, bags[test].n_instances)
    [2 3] 6
    [1 5] 5
    [0 4] 11
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        unlabeled: Any = None,
    ) -> None:
        self.n_splits = check_count("n_splits", n_splits, 2)
        if not isinstance(shuffle, (bool, np.bool_)):
            raise TypeError(f"shuffle must be True or False, got {shuffle!r}.")
        if not shuffle and random_state is not None:
            raise ValueError(
                "random_state has no effect without shuffle: set shuffle=True or leave "
                "random_state out."
            )
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabeled = unlabeled

    def _masks(self, problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        check_feasible(problem, self.n_splits)
        rng = check_random_state(self.random_state) if self.shuffle else None
        if problem.grouped:
            folds = place_groups(problem, self.n_splits, rng)[problem.units]
        else:
            folds = _assign_folds(problem, self.n_splits, rng)
        for fold in range(self.n_splits):
            yield problem.mask(folds == fold), problem.mask(folds != fold)


class RepeatedStratifiedBagKFold(BaseCrossValidator):
    """:class:`StratifiedBagKFold` repeated several times, reshuffled each time.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    n_repeats : int, default=10
        Number of repeats.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same folds at every call.
    unlabeled : label, default=None
        A value of ``y`` that marks unlabelled bags, in addition to NaN and None.

    Raises
    ------
    ValueError
        At construction, if ``n_splits`` is below 2 or ``n_repeats`` is below 1. In ``split``, as in
        :class:`StratifiedBagKFold`.

    See Also
    --------
    StratifiedBagKFold : The folds of one repeat.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.model_selection import RepeatedStratifiedBagKFold
    >>> cv = RepeatedStratifiedBagKFold(n_splits=2, n_repeats=3, random_state=0)
    >>> cv.get_n_splits()
    6
    >>> len(list(cv.split(np.zeros((8, 1)), [0, 1] * 4)))
    6
    """

    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    def __init__(
        self,
        n_splits: int = 5,
        *,
        n_repeats: int = 10,
        random_state: Any = None,
        unlabeled: Any = None,
    ) -> None:
        self.n_splits = check_count("n_splits", n_splits, 2)
        self.n_repeats = check_count("n_repeats", n_repeats, 1)
        self.random_state = random_state
        self.unlabeled = unlabeled

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds times number of repeats.

        Parameters
        ----------
        X : ignored
            Not used, present for consistency with scikit-learn's splitters.
        y : ignored
            Not used, as ``X``.
        groups : ignored
            Not used, as ``X``.

        Returns
        -------
        int
            ``n_splits * n_repeats``.
        """
        return self.n_splits * self.n_repeats

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generate the training and test bags of each fold, see ``StratifiedBagKFold.split``.

        Parameters
        ----------
        X : bags, see :class:`milearn.Bags`
            Bags to split; only their sizes are used.
        y : array-like of shape (n_bags,)
            Class or outcome of each bag. Bags without a class are in every training set.
        groups : array-like of shape (n_bags,), default=None
            Group of each bag; no group is on both sides of a split.

        Yields
        ------
        train, test : ndarray
            Positions of the training bags and of the test bags of a fold.
        """
        rng = check_random_state(self.random_state)
        for _ in range(self.n_repeats):
            yield from StratifiedBagKFold(
                self.n_splits, shuffle=True, random_state=rng, unlabeled=self.unlabeled
            ).split(X, y, groups)


# -- feasibility -------------------------------------------------------------------------------


def check_feasible(problem: Problem, n_splits: int) -> None:
    holds = problem.unit_table() > 0
    for code, count in enumerate(holds.sum(axis=0)):
        if count >= n_splits or not problem.needed[code]:
            continue
        what = "group(s)" if problem.grouped else "labelled bag(s)"
        remedy = f"use n_splits={count}" if count >= 2 else "add bags of this class or leave it out"
        raise ValueError(
            f"Class {problem.classes.tolist()[code]!r} is in {count} {what} but "
            f"n_splits={n_splits}: every fold needs one; {remedy}."
        )


# -- without groups ------------------------------------------------------------------------------


def _assignment_order(sizes: np.ndarray, rng: Any) -> np.ndarray:
    keys = np.log(np.maximum(sizes, 1))
    if rng is not None:
        keys = keys + rng.uniform(0, np.log(_SHUFFLE_FACTOR), size=len(keys))
    return np.argsort(-keys, kind="stable")


def _ascending(rng: Any, *keys: np.ndarray) -> np.ndarray:
    """Positions sorted by the keys, primary key first; ties are random or keep their order."""
    n = len(keys[0])
    ties = np.arange(n) if rng is None else rng.permutation(n)
    return np.lexsort((ties, *keys[::-1]))


def _assign_folds(problem: Problem, k: int, rng: Any) -> np.ndarray:
    """Fold of each labelled bag."""
    folds = np.empty(len(problem.codes), dtype=np.intp)
    bags, instances = np.zeros(k, dtype=np.intp), np.zeros(k, dtype=np.intp)
    for code in range(len(problem.classes)):
        members = np.flatnonzero(problem.codes == code)
        parts, counts, loads = _assign_class(problem.sizes[members], k, rng)
        # Combine folds with few bags with parts with many bags, then light folds with heavy parts.
        # In opposite order, the spread of the sums does not exceed the larger of both spreads.
        fold_of_part = np.empty(k, dtype=np.intp)
        fold_of_part[_ascending(rng, -counts, -loads)] = _ascending(rng, bags, instances)
        folds[members] = fold_of_part[parts]
        np.add.at(bags, fold_of_part, counts)
        np.add.at(instances, fold_of_part, loads)
    return folds


def _assign_class(sizes: np.ndarray, k: int, rng: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Part of each bag of one class, and the bags and instances of each part."""
    parts = np.empty(len(sizes), dtype=np.intp)
    loads = np.zeros(k, dtype=np.intp)
    order = _assignment_order(sizes, rng)
    for start in range(0, len(order), k):
        round_members = order[start : start + k]
        round_members = round_members[np.argsort(-sizes[round_members], kind="stable")]
        target_folds = _ascending(rng, loads)[: len(round_members)]
        parts[round_members] = target_folds
        loads[target_folds] += sizes[round_members]
    return parts, np.bincount(parts, minlength=k), loads


# -- with groups ---------------------------------------------------------------------------------


def place_groups(problem: Problem, k: int, rng: Any) -> np.ndarray:
    """Fold of each group."""
    bags = problem.unit_table()
    instances = problem.unit_table(problem.sizes)
    # Bags and instances of a class have equal weights, and so have all classes.
    weights = np.hstack([bags / bags.sum(axis=0), instances / instances.sum(axis=0)])
    holds = bags > 0
    folds = np.full(len(bags), -1, dtype=np.intp)
    proportions = np.zeros((k, weights.shape[1]))
    covered = np.zeros((k, holds.shape[1]), dtype=bool)
    for code in np.argsort(holds.sum(axis=0), kind="stable"):
        members = np.flatnonzero(holds[:, code] & (folds < 0))
        covered[folds[holds[:, code] & (folds >= 0)], code] = True
        for unit in members[_assignment_order(instances[members].sum(axis=1), rng)]:
            # The sum of squared proportions increases least if this product is smallest.
            growth = proportions @ weights[unit]
            fold = _ascending(rng, covered[:, code], growth, proportions.sum(axis=1))[0]
            folds[unit] = fold
            proportions[fold] += weights[unit]
            covered[fold] |= holds[unit]
    _repair(problem, folds, holds, weights, k)
    return folds


def _repair(
    problem: Problem, folds: np.ndarray, holds: np.ndarray, weights: np.ndarray, k: int
) -> None:
    """Move groups until every fold contains every class; each move adds one class to a fold."""
    while True:
        covers = np.zeros((k, holds.shape[1]), dtype=np.intp)
        np.add.at(covers, folds, holds)
        lacking = np.argwhere((covers == 0) & problem.needed)
        if len(lacking) == 0:
            return
        # A unit can be moved if each of its classes is also in another unit of its fold.
        spare = (~holds | ~problem.needed | (covers[folds] > 1)).all(axis=1)
        for fold, code in lacking:
            candidates = np.flatnonzero(spare & holds[:, code])
            if len(candidates):
                smallest = np.argmin(weights[candidates].sum(axis=1))
                folds[candidates[smallest]] = fold
                break
        else:
            label = problem.classes.tolist()[lacking[0][1]]
            raise ValueError(
                f"The groups leave a fold without a bag of class {label!r}: use fewer than "
                f"n_splits={k} folds, or smaller groups."
            )
