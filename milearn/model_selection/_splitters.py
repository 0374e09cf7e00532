"""Splitters of bags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.model_selection import BaseCrossValidator, KFold
from sklearn.utils import check_consistent_length, check_random_state, check_scalar
from sklearn.utils.multiclass import type_of_target

from .._bags.kinds import columns_of
from .._bags.merge import grouped
from .._compat import split_counts
from .._fit.outcomes import events_and_times, has_outcomes
from .._fit.validation import as_bags, check_order, missing_labels, partial_labels
from .._fit.warn import warn_user
from .._solvers.model_selection.group_folds import exchanged

_EVENT, _CENSORED = "event", "censored"
# Folds of more groups are nearly equal, and exchanges take the square of their number.
_MOST_EXCHANGED = 200
# Weight of the instances beside that of the bags of all classes.
_OF_INSTANCES = 0.25


class BagSplitter(BaseCrossValidator):
    """Base class of the splitters: requests ``groups`` and implements ``split``."""

    # Requested as in the group splitters of scikit-learn, so that params={"groups": ...} works
    # without further settings.
    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True}

    n_splits: int
    unlabeled: Any

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of splits.

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
            ``n_splits``.
        """
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generate the indices of the training and test bags of each split.

        Parameters
        ----------
        X : bags, or any data of shape (n_bags, ...)
            Only the numbers of instances are used; a row of a matrix is one instance.
        y : array-like of shape (n_bags,)
            Class of each bag. Missing values (NaN, None) and the value named by ``unlabeled``
            mark unlabelled bags. Of outcomes of survival analysis, bags with an event and
            censored bags are the classes, see :func:`milearn.survival.survival_outcomes`.
        groups : array-like of shape (n_bags,) or (n_bags, n_columns), default=None
            Bags of one group, such as those of a patient, stay on one side. With several columns,
            such as site and patient, bags with the same entry in any of them stay together.

        Yields
        ------
        train : ndarray of shape (n_train,), sorted
        test : ndarray of shape (n_test,), sorted

        Raises
        ------
        ValueError
            If there is no split in which both training and test bags contain every class.
        """
        yield from self._split_sizes(_sizes(X, y=y, groups=groups), y, groups)

    def _split_sizes(
        self, sizes: np.ndarray, y: Any, groups: Any
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As ``split``, for bags of these numbers of instances."""
        problem = _read_problem(type(self).__name__, sizes, y, groups, self.unlabeled)
        for test, train in self._masks(problem):
            problem.include_unlabelled(test, train)
            yield np.flatnonzero(train), np.flatnonzero(test)

    def _masks(self, problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Masks of the labelled test and training bags of each split, over all bags."""
        raise NotImplementedError


@dataclass(frozen=True)
class Problem:
    """Labelled bags with their sizes and classes, in indivisible units."""

    # Including unlabelled bags.
    n_bags: int
    # Of shape (n_classes,).
    classes: np.ndarray
    # Of shape (n_classes,). Whether a class has to be on both sides of every split.
    needed: np.ndarray
    # Of shape (n_labelled,). Positions of the labelled bags.
    labelled: np.ndarray
    # Of shape (n_labelled,). Class numbers.
    codes: np.ndarray
    # Of shape (n_labelled,). Numbers of instances.
    sizes: np.ndarray
    # Number of the group of each labelled bag, consecutive from 0. Without groups, each bag is a
    # separate unit.
    units: np.ndarray
    # Whether any group contains two or more labelled bags.
    grouped: bool
    # Of shape (n_bags,). Codes of the groups of all bags.
    groups: np.ndarray | None

    def unit_table(self, values: np.ndarray | None = None) -> np.ndarray:
        """Sum of ``values`` (default: bags) over units and classes, (n_units, n_classes)."""
        shape = int(self.units.max()) + 1, len(self.classes)
        cells = self.units * shape[1] + self.codes
        return np.bincount(cells, weights=values, minlength=shape[0] * shape[1]).reshape(shape)

    def mask(self, chosen: np.ndarray) -> np.ndarray:
        """Convert a mask over the labelled bags to a mask over all bags."""
        mask = np.zeros(self.n_bags, dtype=bool)
        mask[self.labelled[chosen]] = True
        return mask

    def include_unlabelled(self, test: np.ndarray, train: np.ndarray) -> None:
        """Add unlabelled bags to the training mask, except for those of a tested group."""
        unlabelled = np.ones(self.n_bags, dtype=bool)
        unlabelled[self.labelled] = False
        if self.groups is not None:
            unlabelled &= ~np.isin(self.groups, self.groups[test])
        train |= unlabelled


def _read_problem(name: str, sizes: np.ndarray, y: Any, groups: Any, unlabeled: Any) -> Problem:
    """Validate the input of the splitter ``name``."""
    if y is None:
        raise ValueError(f"{name} needs y: pass the class of each bag.")
    check_consistent_length(sizes, y, groups)
    if has_outcomes(y):
        events, _ = events_and_times(y)
        if not events.any():
            raise ValueError(
                "y holds no event: every bag is censored, and every split needs events on both "
                "sides."
            )
        labelled, known = np.arange(len(y)), np.where(events, _EVENT, _CENSORED)
    else:
        labelled, known = labelled_bags(partial_labels(y), unlabeled)
        kind = type_of_target(known)
        if kind not in ("binary", "multiclass"):
            raise ValueError(
                f"{name} needs classes in y, got {kind} values: for regression use scikit-learn's "
                "KFold, GroupKFold or ShuffleSplit, which also accept bags."
            )
        first, *others = np.unique(known).tolist()
        if not others:
            raise ValueError(
                f"y contains only one class ({first!r}): every split needs bags of at least two "
                "classes on both sides."
            )
    classes, codes = np.unique(known, return_inverse=True)
    units, grouped, codes_of_groups = np.arange(len(labelled)), False, None
    if groups is not None:
        codes_of_groups = linked_groups(groups)
        present, units = np.unique(codes_of_groups[labelled], return_inverse=True)
        grouped = len(present) < len(labelled)
    return Problem(
        n_bags=len(sizes),
        classes=classes,
        needed=classes != _CENSORED if has_outcomes(y) else np.ones(len(classes), dtype=bool),
        labelled=labelled,
        codes=codes,
        sizes=sizes[labelled],
        units=units,
        grouped=grouped,
        groups=codes_of_groups,
    )


def labelled_bags(y: np.ndarray, unlabeled: Any) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the labelled bags, and their labels."""
    labelled = np.flatnonzero(~missing_labels(y, unlabeled))
    if len(labelled) == 0:
        raise ValueError("y contains no labels: every bag is unlabelled.")
    known = y[labelled]
    # Back to the type of the labels: the array has dtype object because of None.
    return labelled, np.array(known.tolist()) if known.dtype == object else known


def _sizes(X: Any, **of_bags: Any) -> np.ndarray:
    bags = as_bags(X)
    if bags is not None:
        check_order(bags, **of_bags)
        if of_bags.get("groups") is not None:
            linked_groups(of_bags["groups"], bags)
        return bags.sizes
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    return np.ones(n_rows, dtype=np.intp)


def group_codes(groups: Any, bags: Any = None) -> np.ndarray:
    """Numbers of the groups of bags, in order of appearance."""
    column = np.ravel(groups) if getattr(groups, "ndim", 1) == 2 else groups
    return grouped(column, len(column), bags)[1]


def linked_groups(groups: Any, bags: Any = None) -> np.ndarray:
    """Numbers of the groups of bags that are linked by equal entries in any of the columns."""
    columns = columns_of(groups)
    if len(columns) == 1:
        return group_codes(columns[0], bags)
    n_bags, n_columns = len(columns[0]), len(columns)
    # Nodes are the bags, and then the entries of each column, of which there may be as many.
    entries = [n_bags * (1 + at) + group_codes(each, bags) for at, each in enumerate(columns)]
    pairs = np.tile(np.arange(n_bags), n_columns), np.concatenate(entries)
    n_nodes = n_bags * (1 + n_columns)
    links = sparse.coo_array((np.ones(len(pairs[0])), pairs), shape=(n_nodes, n_nodes))
    return sparse.csgraph.connected_components(links, directed=False)[1][:n_bags]


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
    codes = linked_groups(groups)
    shared = [len(np.intersect1d(codes[train], codes[test])) for train, test in splits]
    if not any(shared):
        return
    warn_user(
        f"{what} has groups, but {sum(count > 0 for count in shared)} of {len(splits)} splits have "
        f"bags of one group on both sides (up to {max(shared)} groups), so that scores may be too "
        "high: use a splitter that takes groups, such as StratifiedBagKFold or GroupKFold.",
        UserWarning,
    )


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
    end, a group that is not needed in another fold is moved there. Up to 200 groups are then moved
    and exchanged until no move of a group and no exchange of two lowers

    .. math:: \frac{1}{C} \sum_{c=1}^{C} \frac{1}{2 N_c} \sum_{f=1}^{K} | n_{fc} - N_c / K |
              + \frac{1}{8 M} \sum_{f=1}^{K} | m_f - M / K |,

    where :math:`n_{fc}` of the :math:`N_c` bags of class :math:`c`, and :math:`m_f` of all
    :math:`M` instances, are in fold :math:`f`. The folds of more groups are nearly equal without.

    Groups may also be the sites of the bags. If a model can recognise the hospital, scanner or
    laboratory instead of the disease, its score is too high where bags of one site are on both
    sides of a split [1]_.

    Read more in the :ref:`User Guide <guide_cross_validation>`.

    .. versionadded:: 0.1.0

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
        At construction, if ``n_splits`` is no integer from 2, or ``random_state`` is set without
        ``shuffle``. In ``split``, if all labels have the same class, the length of labels or groups
        is not the number of bags, or a fold would not contain all classes, because a class has
        fewer bags (or groups) than folds or the groups cannot be distributed.

    See Also
    --------
    BagShuffleSplit : Random splits with a given fraction of training bags.

    Notes
    -----
    Unlabelled bags are always in the training set and not in the test set, with one
    exception: if groups are given, unlabelled bags of a test group are excluded from the split to
    avoid leakage. :func:`~sklearn.model_selection.cross_val_predict` cannot be used with unlabelled
    bags, because not every bag is tested.

    Every class occurs in each test fold and in each training set. If this is not possible,
    ``split`` raises an error. So there are no folds without a positive bag.

    References
    ----------
    .. [1] F. M. Howard et al. The impact of site-specific digital histology signatures on deep
       learning model accuracy and bias. Nature Communications 12, 4423, 2021.

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
        KFold(n_splits, shuffle=shuffle, random_state=random_state)  # checks them
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabeled = unlabeled

    def _masks(self, problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        _check_classes(problem, self.n_splits, problem.needed)
        rng = check_random_state(self.random_state) if self.shuffle else None
        if problem.grouped:
            folds = _place_groups(problem, self.n_splits, rng)
        else:
            folds = _assign_folds(problem, self.n_splits, rng)
        for fold in range(self.n_splits):
            yield problem.mask(folds == fold), problem.mask(folds != fold)


# -- feasibility -------------------------------------------------------------------------------


def _check_classes(problem: Problem, least: int, needed: np.ndarray) -> None:
    """Raise an error for a class with fewer bags or groups than have to be on other sides."""
    for code, count in enumerate((problem.unit_table() > 0).sum(axis=0)):
        if count < least and needed[code]:
            what = "group(s)" if problem.grouped else "labelled bag(s)"
            remedy = f"use n_splits={count}, " if count >= 2 else ""
            raise ValueError(
                f"Class {problem.classes.tolist()[code]!r} is in {count} {what} and needs {least}, "
                f"one for every fold: {remedy}add bags of this class or leave it out."
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


def _place_groups(problem: Problem, k: int, rng: Any) -> np.ndarray:
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
    if len(folds) <= _MOST_EXCHANGED:
        n_classes = bags.shape[1]
        weights = np.append(np.full(n_classes, 1 / n_classes), _OF_INSTANCES)
        totals = np.column_stack([bags, instances.sum(axis=1)])
        folds = exchanged(totals, weights, folds, np.append(problem.needed, False))
    return folds[problem.units]


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


# Each attempt uses a new random order of the groups. If groups contain several classes, an order
# may not lead to a valid split. After this number of failures, valid orders are very unlikely.
_ATTEMPTS = 100

_UNUSED, _TEST, _TRAIN = 0, 1, 2


class BagShuffleSplit(BagSplitter):
    """Stratified random splits with a given fraction of training bags.

    Some papers use this protocol to train on, for example, a third of the positive and a third of
    the negative bags, and to repeat this with different samples [1]_ [2]_. All splits have the same
    number of bags of each class, as close to the proportions of the classes as possible, and at
    least one bag of each class on both sides.

    With groups, whole groups are added in random order if this brings the number of bags of each
    class closer to the target. The numbers then only match approximately.

    Read more in the :ref:`User Guide <guide_cross_validation>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size : float or int, default=None
        Fraction or number of the labelled bags in the test set. By default, the complement of
        ``train_size``, or 0.1 if ``train_size`` is also None. Fractions are rounded as in
        :class:`~sklearn.model_selection.ShuffleSplit`: up, and down for ``train_size``.
    train_size : float or int, default=None
        Fraction or number of the labelled bags in the training set. By default, the complement of
        ``test_size``.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same splits at every call.
    unlabeled : label, default=None
        A value of ``y`` that marks unlabelled bags, in addition to NaN and None. Unlabelled bags
        are treated as in :class:`StratifiedBagKFold`.

    Raises
    ------
    ValueError
        At construction, if ``n_splits`` is below 1. In ``split``, if sizes are invalid or sum to
        more than all bags, all labels have the same class, the length of labels or groups is not
        the number of bags, or a side would not contain all classes.

    See Also
    --------
    StratifiedBagKFold : Folds, in which every bag is tested once.

    References
    ----------
    .. [1] Y. Guo. Max-margin multiple-instance learning via semidefinite programming. ACML 2009.
    .. [2] D. Zhang, Y. Liu, L. Si, J. Zhang, R. D. Lawrence. Multiple instance learning on
       structured data. NIPS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.model_selection import BagShuffleSplit
    >>> cv = BagShuffleSplit(n_splits=2, train_size=1 / 3, random_state=0)
    >>> y = np.array([1, 1, 1, 0, 0, 0, 0, 0, 0])
    >>> for train, test in cv.split(np.zeros((9, 1)), y):
    ...     print(y[train], y[test])
    [1 0 0] [1 1 0 0 0 0]
    [1 0 0] [1 1 0 0 0 0]
    """

    def __init__(
        self,
        n_splits: int = 10,
        *,
        test_size: Any = None,
        train_size: Any = None,
        random_state: Any = None,
        unlabeled: Any = None,
    ) -> None:
        self.n_splits = check_scalar(n_splits, "n_splits", Integral, min_val=1)
        self.test_size = test_size
        self.train_size = train_size
        self.random_state = random_state
        self.unlabeled = unlabeled

    def _masks(self, problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        n_train, n_test = split_counts(
            len(problem.codes), self.test_size, self.train_size, default_test_size=0.1
        )
        n_classes = len(problem.classes)
        for side, number in (("test", n_test), ("training", n_train)):
            if number < n_classes:
                raise ValueError(
                    f"{number} {side} bag(s) cannot hold {n_classes} classes: raise the share of "
                    f"{side} bags."
                )
        _check_classes(problem, 2, np.ones_like(problem.needed))
        counts = np.bincount(problem.codes, minlength=n_classes)
        wanted_test = _allot(n_test, counts, counts - 1)
        rest = counts - wanted_test
        wanted_train = _allot(n_train, rest, rest)
        rng = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            if problem.grouped:
                side = _draw_groups(problem, wanted_test, wanted_train, rng)[problem.units]
            else:
                side = _draw(problem, wanted_test, wanted_train, rng)
            yield problem.mask(side == _TEST), problem.mask(side == _TRAIN)


# -- numbers -----------------------------------------------------------------------------------


def _allot(total: int, counts: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Integers close to ``total * counts / counts.sum()``, from 1 to ``most``, with this sum."""
    ideal = total * counts / counts.sum()
    allotted = np.clip(np.floor(ideal).astype(np.intp), 1, most)
    while (difference := total - int(allotted.sum())) != 0:
        step = 1 if difference > 0 else -1
        room = allotted < most if step > 0 else allotted > 1
        if not room.any():
            break
        gain = np.where(room, step * (ideal - allotted), -np.inf)
        allotted[np.argmax(gain)] += step
    return allotted


# -- draws -------------------------------------------------------------------------------------


def _draw(problem: Problem, wanted_test: np.ndarray, wanted_train: np.ndarray, rng: Any) -> Any:
    """Side of each labelled bag."""
    side = np.full(len(problem.codes), _UNUSED)
    for code in range(len(problem.classes)):
        members = rng.permutation(np.flatnonzero(problem.codes == code))
        stop = wanted_test[code]
        side[members[:stop]] = _TEST
        side[members[stop : stop + wanted_train[code]]] = _TRAIN
    return side


def _draw_groups(
    problem: Problem, wanted_test: np.ndarray, wanted_train: np.ndarray, rng: Any
) -> np.ndarray:
    """Side of each group."""
    table = problem.unit_table()
    complete = bool((wanted_test + wanted_train == table.sum(axis=0)).all())
    for _ in range(_ATTEMPTS):
        side = np.full(len(table), _UNUSED)
        order = rng.permutation(len(table))
        if not _reserve(table, side, order):
            continue
        _fill(table, side, order, _TEST, wanted_test)
        if complete:
            side[side == _UNUSED] = _TRAIN
        else:
            _fill(table, side, order, _TRAIN, wanted_train)
        return side
    raise ValueError(
        f"The groups were drawn {_ATTEMPTS} times and always left a class out of the training or "
        "the test bags: use smaller groups."
    )


def _reserve(table: np.ndarray, side: np.ndarray, order: np.ndarray) -> bool:
    """Assign one group of each class to both sides, rarest class first; False if impossible."""
    holds = table > 0
    for code in np.argsort(holds.sum(axis=0), kind="stable"):
        for target in (_TEST, _TRAIN):
            if (holds[:, code] & (side == target)).any():
                continue
            free = order[holds[order, code] & (side[order] == _UNUSED)]
            if len(free) == 0:
                return False
            side[free[0]] = target
    return True


def _fill(
    table: np.ndarray, side: np.ndarray, order: np.ndarray, target: int, wanted: np.ndarray
) -> None:
    """Add free groups in turn if this brings the numbers of bags closer to the target."""
    missing = (wanted - table[side == target].sum(axis=0)) / wanted
    for unit in order[side[order] == _UNUSED]:
        after = missing - table[unit] / wanted
        if after @ after < missing @ missing:
            side[unit] = target
            missing = after


# Gaps below this value are rounding.
# Random starts after the greedy folds.
