"""Columns of a table that number its rows, and are no features."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .warn import warn_user

# Names that readers and reset_index give to a column without a name. R's read.csv gives "X".
_NO_NAME = re.compile(
    r"|Unnamed: [\d.]+|\.\.\.1|index|level_0|__index_level_0__|row_?names?|row_nr"
)


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


def _numbers_rows(name: Any, column: Callable[[Any], Any]) -> bool:
    """Whether a column without a name counts the rows, also of some rows or of joined tables."""
    if not isinstance(name, str) or not (name == "X" or _NO_NAME.fullmatch(name)):
        return False
    values = np.asarray(column(name))
    if values.dtype.kind not in "biuf":  # the names of rows in R, or texts of numbers
        texts = [*map(str, values.tolist())]
        if not all(text.isdecimal() for text in texts):
            return name != "X" and len({*texts}) == len(texts)
        values = np.array(texts)
    values = values.astype(float)
    if not len(values) or not (values == np.rint(values)).all():
        return False
    steps, first = np.diff(values), values[0]
    if name == "X":  # of R, but also a name for a feature, which may count few rows
        return bool(len(values) > 9 and first in (0, 1) and (steps == 1).all())
    restarts = first in (0, 1) and ((steps == 1) | (values[1:] == first)).all()
    return bool(restarts or (first >= 0 and len(np.unique(values)) == len(values)))
