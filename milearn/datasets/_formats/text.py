"""Texts, numbers and names of the text formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._bags.canonical import is_missing
from .._errors import ContentError

# Words for a missing value in a cell of a table.
MISSING = ("", "?")


def is_gap(cell: Any) -> bool:
    """Whether a cell of a table has no value."""
    return is_missing(cell) or str(cell).strip() in MISSING


def number_text(value: Any) -> str:
    """The shortest text that is read as the same float64."""
    return repr(float(value)).removesuffix(".0")


def quoted_names(names: Sequence[str]) -> str:
    """Names for a message, at most eight of them."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


def check_column(name: Any, part: str, columns: Sequence[str], advice: str = "") -> None:
    if name not in columns:
        raise ContentError(
            f"there is no column {name!r} for {part}= among {quoted_names(columns)}{advice}."
        )


def check_values(values: np.ndarray, missing: str, place: Callable[[int], str]) -> None:
    """Raise an error for an infinite value and, unless ``missing="nan"``, for a missing one.

    ``place(at)`` is the place of the value with the number ``at`` in the file.
    """
    wrong = ~np.isfinite(values) if missing == "error" else np.isinf(values)
    for at in np.flatnonzero(wrong)[:1].tolist():
        raise ContentError(
            f"{place(at)}: the value is missing or not finite; fill it in, or pass missing='nan' "
            "and impute before fitting."
        )
