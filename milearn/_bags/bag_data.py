"""Further columns of the bags of a container, such as age, stain or site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .coerce import is_missing
from .instance_data import canonical_array, join_arrays
from .segments import segment_index

__all__ = [
    "bag_columns",
    "canonical_bag_data",
    "canonical_rows",
    "constant_rows",
    "differing_row",
    "frame_bag_data",
    "joined_bag_data",
]

_KIND = "bag_data"


def canonical_bag_data(data: Any, n_bags: int, what: str = "bag") -> dict[str, np.ndarray]:
    """Every column C-contiguous, of numbers or strings, with one entry per bag (or ``what``)."""
    if data is None:
        return {}
    if hasattr(data, "columns") and not isinstance(data, Mapping):
        data = {name: data[name] for name in data.columns}
    if not isinstance(data, Mapping):
        raise TypeError(
            f"bag_data is {type(data).__name__}: pass a data frame, or a dict of arrays with one "
            "entry per bag, such as {'age': array}."
        )
    columns = {}
    for name, values in data.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"bag_data has the key {name!r}: name every column by a string.")
        if not sparse.issparse(values):
            values = _filled(name, np.asarray(values), what)
        column = canonical_array(name, values, _KIND)
        if column.ndim == 0 or len(column) != n_bags:
            raise ValueError(
                f"bag_data[{name!r}] has shape {column.shape} but there are {n_bags} {what}s: give "
                f"one entry per {what}."
            )
        columns[name] = column
    return columns


def _filled(name: str, column: np.ndarray, what: str) -> np.ndarray:
    """Python numbers as floats, of which missing ones are NaN; other columns as they are."""
    if column.dtype.kind != "O" or column.ndim != 1:
        return column
    gaps = np.array([is_missing(entry) for entry in column.tolist()], dtype=bool)
    known = column[~gaps]
    if all(isinstance(entry, str) for entry in known.tolist()):
        if gaps.any() and len(known):
            raise ValueError(
                f"bag_data[{name!r}] has no text for {what} {np.flatnonzero(gaps)[0]}: write a "
                "text, such as 'unknown'."
            )
        return np.full(len(column), np.nan) if gaps.all() and len(gaps) else column
    numbers = np.full(len(column), np.nan)
    try:
        numbers[~gaps] = known.astype(np.float64)
    except (TypeError, ValueError):
        return column  # refused with the other Python objects
    return numbers


def canonical_rows(
    data: Any, order: np.ndarray | None, offsets: np.ndarray, names: Sequence[Any]
) -> dict[str, np.ndarray]:
    """One entry per bag of columns that are given with one entry per instance.

    ``order`` contains the rows bag by bag, None if they are in this order.
    """
    rows = canonical_bag_data(data, int(offsets[-1]), "instance")
    if order is not None:
        rows = {name: values[order] for name, values in rows.items()}
    return constant_rows(rows, segment_index(offsets), offsets[:-1], names)


def frame_bag_data(df: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of columns of a data frame, by the names of the columns of ``bag_data``."""
    for name, column in columns.items():
        if column not in list(df.columns):
            raise ValueError(
                f"bag_data[{name!r}] names the column {column!r}, which does not exist."
            )
    return {name: df[column].to_numpy() for name, column in columns.items()}


def joined_bag_data(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The concatenated columns that all parts have."""
    shared = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: join_arrays(name, [part[name] for part in parts], _KIND) for name in shared}


def bag_columns(columns: Any) -> dict[str, Any]:
    """Names of columns of a table by the names of the columns of ``bag_data``."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        return dict(columns)
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise TypeError(
            "bag_data must be a list of names of columns, such as ['age', 'stain'], or a dict that "
            "gives them other names."
        )
    return {name: name for name in columns}


def differing_row(values: np.ndarray, codes: np.ndarray, first: np.ndarray) -> int | None:
    """The first row whose entry differs from that of the first row of its group, if any.

    Parameters
    ----------
    values : ndarray of shape (n_rows, ...)
    codes : ndarray of shape (n_rows,)
        Group of each row.
    first : ndarray of shape (n_groups,)
        First row of each group.
    """
    expected = values[first][codes]
    same = values == expected
    if values.dtype.kind == "f":
        same |= np.isnan(values) & np.isnan(expected)
    same = same.reshape(len(values), -1).all(axis=1)
    rows = np.flatnonzero(~same)
    return int(rows[0]) if len(rows) else None


def constant_rows(
    data: Mapping[str, np.ndarray], codes: np.ndarray, first: np.ndarray, names: Sequence[Any]
) -> dict[str, np.ndarray]:
    """One entry per group of columns that are constant in every group, or an error."""
    for name, values in data.items():
        row = differing_row(values, codes, first)
        if row is not None:
            start = first[codes[row]]
            raise ValueError(
                f"Bag {names[codes[row]]!r} has two entries of bag_data[{name!r}], "
                f"{values[start]!s} and {values[row]!s}: a bag has one."
            )
    return {name: values[first] for name, values in data.items()}
