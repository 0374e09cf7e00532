"""Tables in files, which pandas reads, and the names of their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from ..._compat import need_module
from .._errors import ContentError, file_name_in_errors

# Names of columns that need not be given, in the order of preference.
KNOWN_COLUMNS = {
    "bag": ("bag", "bag_name", "bag_id", "slide_id", "repertoire_id", "filename"),
    "label": ("label", "bag_label"),
    "group": ("group", "patient", "patient_id", "case_id", "donor"),
    "split": ("split",),
}
_TABLES = (".csv", ".tsv", ".parquet", ".pq")


def kind_of_table(path: Path) -> str | None:
    """The suffix of a table, also before that of a compression, such as ``.csv.gz``."""
    found = [suffix for suffix in path.suffixes[-2:] if suffix.lower() in _TABLES]
    return found[-1].lower()[1:] if found else None


def frame_of_file(path: Path, asked: Mapping[str, Any], classes: Any = None, **options: Any) -> Any:
    """The frame of ``pandas.read_csv`` or ``read_parquet``; an error is one of the file.

    Options that pandas does not have are a TypeError. Columns of CSV with the names of bags and
    groups are texts, and so are labels if the classes are texts: "007" is not the number 7.
    ``asked`` is that of :func:`chosen_columns`.
    """
    import pandas

    kind = kind_of_table(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such table; check the path.")
    if kind is None:
        raise ContentError(f"a table is one of {quoted_names(_TABLES)}, or a frame of pandas.")
    parquet = kind in ("parquet", "pq")
    # A misspelt option is no fault of the file.
    signature(pandas.read_parquet if parquet else pandas.read_csv).bind(path, **options)
    with file_name_in_errors(path, f"{kind} by pandas"):
        if parquet:
            need_module("pyarrow", str(path))
            return pandas.read_parquet(path, **options)
        if kind == "tsv" and not {"sep", "delimiter"} & {*options}:
            options = {"sep": "\t", **options}
        chosen = chosen_columns(pandas.read_csv(path, **{**options, "nrows": 0}), asked)
        parts = ["bag", "group"]
        if classes is not None and all(isinstance(name, str) for name in classes):
            parts.append("label")
        dtype = {chosen[part]: str for part in parts if chosen.get(part) is not None}
        frame = pandas.read_csv(path, **{"dtype": dtype, **options})
        if "index_col" not in options and not isinstance(frame.index, pandas.RangeIndex):
            raise ContentError("the rows have more columns than the header; check sep=.")
        return frame


def chosen_columns(frame: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a table that are asked for, or known by their names, None if there are none.

    Raises an error for a column that does not exist, and without one for the bag.
    """
    chosen, columns = {}, list(frame.columns)
    for part, column in asked.items():
        if column is None:
            column = known_column(KNOWN_COLUMNS[part], columns, part)
        elif part == "label" and isinstance(column, tuple) and len(column) != 2:
            raise ContentError(f"label={column!r} must be one column, or the event and the time.")
        chosen[part] = column
        for name in column if isinstance(column, tuple) else [column]:
            if name is not None:
                check_column(name, part, columns)
    if chosen["bag"] is None:
        check_column("bag", "bag", columns)
    return chosen


def quoted_names(names: Sequence[Any]) -> str:
    """Names for a message, at most eight of them."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


def check_column(name: Any, part: str, columns: Sequence[Any]) -> None:
    """Raise an error for a column that a table lacks or has twice, of which pandas renames one."""
    marks = [mark for mark in ";\t|" if len(columns) == 1 and mark in str(columns[0])]
    if marks:
        raise ContentError(
            f"the columns are separated by {marks[0]!r}: pass the frame of pandas.read_csv(path, "
            f"sep={marks[0]!r}) in place of the path, or sep={marks[0]!r} to load_bags, both with "
            "decimal=',' if the numbers have it."
        )
    if (times := [*columns].count(name) + (f"{name}.1" in columns)) != 1:
        raise ContentError(
            f"there {'is no column' if times == 0 else 'are two columns'} {name!r} for {part}= "
            f"among {quoted_names(columns)}; name the column that holds it with {part}=, or read "
            "the table by pandas.read_csv with the right sep=."
        )


def known_column(names: Sequence[str], columns: Sequence[Any], part: str) -> Any:
    """The column of the first of the names, exactly or else in another case, or None."""
    for name in names:
        same = [name] if name in columns else [c for c in columns if str(c).lower() == name]
        if len(same) > 1:
            raise ContentError(f"{quoted_names(same)} may be {name!r}; choose one with {part}=.")
        if same:
            return same[0]
    return None
