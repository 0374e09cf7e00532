"""Validation of the input of splitters: classes, sizes, groups and missing labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import indexable
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from .._fit.validation import as_bags, events_and_times, has_outcomes, missing_labels
from .._fit.warn import warn_user

_EVENT, _CENSORED = "event", "censored"


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
        X : Bags, 3-D array, sequence of 2-D blocks, or any data of n_bags rows
            Only the numbers of instances are used; a row of a matrix is one instance.
        y : array-like of shape (n_bags,)
            Class of each bag. Missing values (NaN, None) and the value named by ``unlabeled``
            mark unlabelled bags. Of outcomes of survival analysis, bags with an event and
            censored bags are the classes, see :func:`milearn.survival.survival_outcomes`.
        groups : array-like of shape (n_bags,), default=None
            Bags of one group, such as those of a patient, stay on one side.

        Yields
        ------
        train : ndarray of shape (n_train,), sorted
        test : ndarray of shape (n_test,), sorted

        Raises
        ------
        ValueError
            If there is no split in which both training and test bags contain every class.
        """
        problem = read_problem(type(self).__name__, X, y, groups, self.unlabeled)
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

    @property
    def n_units(self) -> int:
        return int(self.units.max()) + 1

    def unit_table(self, values: np.ndarray | None = None) -> np.ndarray:
        """Sum of ``values`` (default: bags) over units and classes, (n_units, n_classes)."""
        n_classes = len(self.classes)
        table = np.bincount(
            self.units * n_classes + self.codes, weights=values, minlength=self.n_units * n_classes
        )
        return table.reshape(self.n_units, n_classes)

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


def read_problem(name: str, X: Any, y: Any, groups: Any, unlabeled: Any) -> Problem:
    """Validate the input of the splitter ``name``."""
    if y is None:
        raise ValueError(f"{name} needs y: pass the class of each bag.")
    X, y, groups = indexable(X, y, groups)
    sizes = _sizes(X)
    if has_outcomes(y):
        labelled, known = np.arange(len(y)), _kinds_of_outcomes(y)
    else:
        labelled, known = _known_classes(name, y, unlabeled)
    classes, codes = np.unique(known, return_inverse=True)
    units, grouped, codes_of_groups = np.arange(len(labelled)), False, None
    if groups is not None:
        codes_of_groups = group_codes(groups)
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


def _known_classes(name: str, y: Any, unlabeled: Any) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the labelled bags, and their classes."""
    y = column_or_1d(np.asarray(y), warn=True)
    labelled = np.flatnonzero(~missing_labels(y, unlabeled))
    if len(labelled) == 0:
        raise ValueError("y contains no labels: every bag is unlabelled.")
    known = np.array(y[labelled].tolist())
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
    return labelled, known


def _kinds_of_outcomes(y: np.ndarray) -> np.ndarray:
    """A class for bags with an event and one for censored bags."""
    events, _ = events_and_times(y)
    if not events.any():
        raise ValueError(
            "y holds no event: every bag is censored, and every split needs events on both sides."
        )
    return np.where(events, _EVENT, _CENSORED)


def check_count(name: str, value: Any, least: int) -> int:
    """An integer number of splits or repeats, or scikit-learn's error."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def _sizes(X: Any) -> np.ndarray:
    bags = as_bags(X)
    if bags is not None:
        return bags.sizes
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    return np.ones(n_rows, dtype=np.intp)


def group_codes(groups: Any) -> np.ndarray:
    """Numbers of the groups of bags, in order of appearance."""
    keys = column_or_1d(np.asarray(groups), warn=True)
    missing = np.flatnonzero(missing_labels(keys))
    if len(missing):
        raise ValueError(f"groups is missing for bag {missing[0]}: give every bag its group.")
    codes: dict[Hashable, int] = {}
    return np.array([codes.setdefault(key, len(codes)) for key in keys.tolist()], dtype=np.intp)


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
    warn_user(
        f"{what} has groups, but {sum(count > 0 for count in shared)} of {len(splits)} splits have "
        f"bags of one group on both sides (up to {max(shared)} groups), so that scores may be too "
        "high: use a splitter that takes groups, such as StratifiedBagKFold or GroupKFold.",
        UserWarning,
    )
