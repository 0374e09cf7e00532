"""Repeated random splits, class by class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ._problem import BagSplitter, Problem, check_count

# Each attempt uses a new random order of the groups. If groups contain several classes, an order
# may not lead to a valid split. After this number of failures, valid orders are very unlikely.
_ATTEMPTS = 100

# Products within this distance of an integer are rounded to it: 0.7 of 10 bags are 7, not 6.
_ROUNDING = 1e-9

_UNUSED, _TEST, _TRAIN = 0, 1, 2


class BagShuffleSplit(BagSplitter):
    """Stratified random splits with a given fraction of training bags.

    Some papers use this protocol to train on, for example, a third of the positive and a third of
    the negative bags, and to repeat this with different samples [1]_ [2]_. All splits have the same
    number of bags of each class, as close to the proportions of the classes as possible, and at
    least one bag of each class on both sides.

    With groups, whole groups are added in random order if this brings the number of bags of each
    class closer to the target. The numbers then only match approximately.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size : float or int, default=None
        Fraction or number of the labelled bags in the test set. By default, the complement of
        ``train_size``, or 0.1 if ``train_size`` is also None.
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
        At construction, if ``n_splits`` is below 1, or sizes are invalid or sum to more than all
        bags. In ``split``, if all labels have the same class, the length of labels or groups is not
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
        self.n_splits = check_count("n_splits", n_splits, 1)
        _check_share("test_size", test_size)
        _check_share("train_size", train_size)
        if _is_share(test_size) and _is_share(train_size) and test_size + train_size > 1:
            raise ValueError(
                f"test_size={test_size} and train_size={train_size} are more than all bags: "
                "their sum must not exceed 1."
            )
        self.test_size = test_size
        self.train_size = train_size
        self.random_state = random_state
        self.unlabeled = unlabeled

    def _masks(self, problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        n_test, n_train = _numbers(len(problem.codes), self.test_size, self.train_size)
        _check_feasible(problem, n_test, n_train)
        counts = np.bincount(problem.codes, minlength=len(problem.classes))
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


def _is_share(size: Any) -> bool:
    return isinstance(size, (float, np.floating))


def _check_share(name: str, size: Any) -> None:
    if size is None or (_is_share(size) and 0 < size < 1):
        return
    whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if not whole or size < 1:
        raise ValueError(
            f"{name}={size!r} is neither a share between 0 and 1 nor a number of bags of at "
            "least 1."
        )


def _numbers(n: int, test_size: Any, train_size: Any) -> tuple[int, int]:
    """Numbers of test and training bags among n labelled ones."""
    if test_size is None and train_size is None:
        test_size = 0.1
    test = _count(test_size, math.ceil, n, -_ROUNDING)
    train = _count(train_size, math.floor, n, _ROUNDING)
    test = n - train if test is None else test
    train = n - test if train is None else train
    if test < 1 or train < 1 or test + train > n:
        raise ValueError(
            f"test_size={test_size} and train_size={train_size} ask for {test} test and {train} "
            f"training bags of {n} labelled ones: leave at least one for each side."
        )
    return test, train


def _count(size: Any, rounded: Callable[[float], int], n: int, tolerance: float) -> Any:
    """Number of bags for a fraction of n or a number; None for None."""
    return rounded(size * n + tolerance) if _is_share(size) else size


def _check_feasible(problem: Problem, n_test: int, n_train: int) -> None:
    n_classes = len(problem.classes)
    for side, number in (("test", n_test), ("training", n_train)):
        if number < n_classes:
            raise ValueError(
                f"{number} {side} bag(s) cannot hold {n_classes} classes: raise the share of "
                f"{side} bags."
            )
    for code, count in enumerate((problem.unit_table() > 0).sum(axis=0)):
        if count < 2:
            what = "group" if problem.grouped else "labelled bag"
            raise ValueError(
                f"Class {problem.classes.tolist()[code]!r} is in one {what} only: it needs two, "
                "one to train on and one to test on; add bags of this class or leave it out."
            )


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
