"""Columns of a table that are no features: numbers of the rows, and labels or ids of the bags."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .canonical import frame_names
from .kinds import listed
from .warn import warn_user

# Names that readers and reset_index give to a column without a name. R's read.csv gives "X".
_NO_NAME = re.compile(
    r"|Unnamed: [\d.]+|\.\.\.1|index|level_0|__index_level_0__|row_?names?|row_nr"
)
_CHUNK = 4096  # rows, most features differ within the bags of the first ones
_CHANCE = 1e-3  # for a false warning of any feature


def without_index(names: Sequence[Any], column: Callable[[Any], Any]) -> list[Any]:
    """The names of features without those of columns that number the rows; a warning tells."""
    found = [name for name in names if _numbers_rows(name, column)]
    if found:
        warn_user(
            f"Column {found[0]!r} numbers the rows, as pandas and R write them into files: it is "
            "left out of the features. Write tables without it (index=False, row.names=FALSE), or "
            "name the columns that are features.",
            UserWarning,
        )
    return [name for name in names if name not in found]


def frame_without_index(df: Any) -> Any:
    """A data frame without the columns that number its rows; anything else as it is."""
    names = frame_names(df) or []
    kept = without_index(names, lambda name: df[name])
    return df if len(kept) == len(names) else df[kept]


def _numbers_rows(name: Any, column: Callable[[Any], Any]) -> bool:
    """Whether a column without a name counts the rows, also of some rows or of joined tables."""
    if not isinstance(name, str) or not (name == "X" or _NO_NAME.fullmatch(name)):
        return False
    values = np.asarray(column(name))
    if values.ndim != 1 or not len(values):
        return False
    if values.dtype.kind not in "biuf":  # the names of rows in R, or texts of numbers
        texts = [*map(str, values.tolist())]
        if not all(text.isdecimal() for text in texts):
            return name != "X" and len({*texts}) == len(texts)
        values = np.array(texts)
    values = values.astype(float)
    if not (values == np.rint(values)).all():
        return False
    steps, first = np.diff(values), values[0]
    if name == "X":  # of R, but also a name for a feature, which may count few rows
        return bool(len(values) > 9 and first in (0, 1) and (steps == 1).all())
    restarts = first in (0, 1) and ((steps == 1) | (values[1:] == first)).all()
    return bool(restarts or (first >= 0 and len(np.unique(values)) == len(values)))


def warn_of_constants(bags: Any) -> Any:
    """The bags; warns of features with one value in every bag that differs between bags.

    In few bags, or with few other values, a feature may be constant by chance.
    """
    rows, names = bags.instance_rows, bags.feature_names
    if names is None or not isinstance(rows, np.ndarray) or rows.dtype.kind != "f":
        return bags
    begins = np.zeros(bags.n_instances + 1, dtype=bool)
    begins[bags.offsets] = True
    left = np.arange(len(names))
    for start in range(0, bags.n_instances - 1, _CHUNK):
        part = rows[start : start + _CHUNK + 1, left]
        one, other = part[:-1], part[1:]
        same = (one == other) | ((one != one) & (other != other))
        same |= begins[start + 1 : start + len(part), np.newaxis]
        left = left[same.all(axis=0)]
        if not len(left):
            return bags
    pairs = bags.n_instances - len(bags)
    found = [
        str(names[at])
        for at in left
        if 0 < (alike := _alike(rows[:, at])) < 0.9
        and pairs * np.log(alike) < np.log(_CHANCE / len(names))
    ]
    if found:
        warn_user(
            f"Feature {listed(found, 3)} has one value in every bag and differs between bags, as a "
            "label or an id does. Leave it out, name it as label=, bag= or bag_data=, or pass "
            "features=.",
            UserWarning,
        )
    return bags


def bag_ids_in(bags: Any, y: np.ndarray) -> str | None:
    """The feature of rows of a frame that may name their bags: ``y`` is constant within each."""
    rows, names = bags.instance_rows, bags.feature_names
    if names is None or len(bags) < bags.n_instances or not isinstance(rows, np.ndarray):
        return None
    labels = np.unique(y, return_inverse=True)[1]
    needed = np.log(_CHANCE / len(names)) / np.log(_alike(labels)) if labels.any() else np.inf
    for at, name in enumerate(names.tolist()):
        values = rows[:, at]
        if not (values[:_CHUNK] == np.rint(values[:_CHUNK])).all():
            continue
        ids, first, codes = np.unique(values, return_index=True, return_inverse=True)
        repeated = labels.max() + 1 < len(ids) <= len(values) - needed
        if repeated and (labels == labels[first][codes]).all() and (ids == np.rint(ids)).all():
            return str(name)
    return None


def _alike(values: np.ndarray) -> float:
    """Probability that two random entries are equal."""
    counts = np.unique(values, return_counts=True)[1]
    return float(((counts / len(values)) ** 2).sum())
