"""Texts, numbers and names of the text formats."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..._bags.kinds import is_missing
from .._errors import ContentError


def is_gap(cell: Any) -> bool:
    """Whether a cell of a table has no value.

    The words of :data:`milearn._bags.canonical.MISSING` have been replaced; in a frame of pandas
    the user has decided what they mean.
    """
    return is_missing(cell) or (isinstance(cell, str) and cell.strip() in ("", "?"))


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
            + header_advice(columns)
        )


def plain_name(column: str) -> str:
    """The name of a column in lower case, with _ for spaces, dots and the like."""
    return re.sub(r"\W+", "_", column.strip()).lower()


def known_column(names: Sequence[str], columns: Sequence[str], part: str) -> str | None:
    """The column of the first of the names, exactly, or else as :func:`plain_name` writes it."""
    if exact := [name for name in names if name in columns]:
        return exact[0]
    for name in names:
        found = [column for column in columns if plain_name(column) == name]
        if len(found) > 1:
            raise ContentError(f"{quoted_names(found)} may be {name!r}; choose one with {part}=.")
        if found:
            return found[0]
    return None


def header_advice(columns: Sequence[str]) -> str:
    """What may be wrong with the header of a table without an expected column."""
    if mark := next((mark for mark in ";\t|" if any(mark in str(name) for name in columns)), None):
        return (
            f" The columns are divided by {mark!r}: pass delimiter={mark!r} to load_bags, or the "
            f"frame of pandas.read_csv(path, sep={mark!r}), with decimal=',' if it is Excel's."
        )
    if any(re.fullmatch(r"-?\d*\.?\d+(e[+-]?\d+)?(\.\d+)?", str(name)) for name in columns):
        return " The first line seems to hold values: put a line of names of columns above it."
    return ""


# What two names of a bag may differ in, and what is equal then.
_DIFFERENCES: dict[str, Callable[[str], str]] = {
    "leading zeros, which are lost in numbers: read the column as text, with dtype=str": (
        lambda name: re.sub(r"(?<!\d)0+(?=\d)", "", name)
    ),
    "upper and lower case": str.casefold,
    "spaces, punctuation or the encoding of accents": (
        lambda name: re.sub(r"[\W_]+", "", unicodedata.normalize("NFKD", name.casefold()))
    ),
}


def likely_cause(names: Sequence[str], others: Sequence[str]) -> str:
    """In which way a name and one of the others differ, if it is a usual one, as a sentence."""
    for what, key in _DIFFERENCES.items():
        known = {key(other): other for other in others}
        for name in names:
            if key(name) in known:
                return f"{name!r} and {known[key(name)]!r} differ only in {what}"
    for one, other in product(names, others):
        short, long = sorted((one, other), key=len)
        whole = len(short) > 2 and re.search(rf"(?<![^\W_]){re.escape(short)}(?![^\W_])", long)
        if whole or (len(short) > 7 and long.startswith(short)):
            return f"{short!r} is a part of {long!r}: give both the whole name"
    return ""


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
