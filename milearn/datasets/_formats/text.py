"""Lines, cells, numbers, and common checks of text formats."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import ContentError

MISSING = ("", "?")
NOTHING = "there is not a single instance in it; check the file."


def read_text(path: Path) -> str:
    """The file as UTF-8 text with ``\\n`` newlines; an empty file is an error."""
    raw = path.read_bytes()
    check_not_empty(raw.strip())
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ContentError(
            "this is not a text file in UTF-8; check the format, or pass format=."
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_not_empty(raw: Any) -> None:
    if not raw:
        raise ContentError("the file is empty; if a download was interrupted, fetch it again.")


def csv_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The number of the line and the cells of each row that is not empty, the header first."""
    n_rows = 0
    reader = csv.reader(io.StringIO(read_text(path)), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if "".join(cells).strip():
                n_rows += 1
                yield reader.line_num, cells
    except csv.Error as error:
        raise ContentError(
            f"line {reader.line_num} is not valid CSV ({error}); the line is damaged or the file "
            "truncated."
        ) from error
    if not n_rows:
        raise ContentError(
            "there is not a single name of a column in it; check the file and the delimiter "
            "(delimiter=)."
        )


def number_text(value: Any) -> str:
    """The shortest text that is read as the same float64."""
    return repr(float(value)).removesuffix(".0")


def parse_row(cells: list[str], columns: Sequence[str], missing: str, line: int) -> np.ndarray:
    """The numbers of a line of a table."""
    return parse_numbers(cells, missing, lambda at: f"line {line}, column {columns[at]!r}")


def parse_numbers(texts: list[str], missing: str, place: Callable[[int], str]) -> np.ndarray:
    """Numbers from texts; ``place(at)`` is the place of a text in the file."""
    try:
        values = np.array(texts, dtype=np.float64)
    except ValueError:
        values = np.array([_number(text) for text in texts])
    for at in np.flatnonzero(~np.isfinite(values)).tolist():
        text = texts[at].strip()
        if np.isinf(values[at]):
            raise ContentError(f"{place(at)}: {text!r} is not a finite number; correct it.")
        if text not in MISSING and text.lstrip("+-").lower() != "nan":
            raise ContentError(
                f"{place(at)}: {text!r} is not a number; correct it, or encode the column before "
                "reading."
            )
        if missing == "error":
            raise ContentError(
                f"{place(at)}: the value is missing ({text!r}); fill it in, or pass missing='nan' "
                "and impute before fitting."
            )
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


# -- checks --------------------------------------------------------------------------------------


def listed(names: Sequence[str]) -> str:
    """Names for a message, at most eight of them."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


def check_column(name: Any, part: str, columns: Sequence[str], advice: str = "") -> None:
    if name not in columns:
        raise ContentError(
            f"there is no column {name!r} for {part}= among {listed(columns)}{advice}."
        )


def check_width(cells: Sequence[str], width: int, place: str, wanted: str, hint: str = "") -> None:
    if len(cells) != width:
        raise ContentError(
            f"{place} has {len(cells)} {wanted} {width}; the line is damaged or the file "
            f"truncated{hint}."
        )


def check_distinct(names: Sequence[str], complaint: str) -> None:
    """Raise an error for a name that occurs twice, which replaces the braces in ``complaint``."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ContentError(complaint.format(name))
        seen.add(name)


def check_header(names: Sequence[str]) -> None:
    check_distinct(names, "two columns have the name {!r}; give the columns distinct names.")
