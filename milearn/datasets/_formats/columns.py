"""Data frames as plain arrays and back: the columns of a file that holds no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..._bags.canonical import is_missing
from .._errors import ContentError

# Ends of the keys of what belongs to the column of a key: the kinds of the columns of a frame, the
# categories of codes, the gaps of nullable types, and cells of objects.
_KINDS, _CATEGORIES, _MASK, _CELLS = "_kinds", "_categories", "_mask", ".json"
# Kinds of columns that begin so: the index of the frame, and categories of the kind that follows.
_INDEX, _UNORDERED, _ORDERED = "index:", "category:", "ordered:"
_WITH_MASK = (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)


def arrays_of_frame(frame: pd.DataFrame, key: str) -> dict[str, np.ndarray]:
    """The columns of a frame as arrays of numbers, dates and objects, with their names and kinds.

    The names are the array ``key``. Types, gaps, the order of the columns and of categories, and an
    index that does not count the rows are kept.
    """
    columns = [(name, "", frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
    index = frame.index
    if not (isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(len(index)))):
        columns.insert(0, (index.name, _INDEX, _series(index)))
    arrays: dict[str, np.ndarray] = {}
    kinds = [
        start + _add_column(arrays, f"{key}_{at}", f"{key}[{name!r}]", column)
        for at, (name, start, column) in enumerate(columns)
    ]
    return {
        key: _objects([name for name, _, _ in columns]),
        key + _KINDS: np.array(kinds, dtype=str),
        **arrays,
    }


def frame_of_arrays(arrays: Mapping[str, np.ndarray], key: str) -> pd.DataFrame:
    """The frame of :func:`arrays_of_frame`."""
    columns, index = [], None
    names, kinds = arrays[key].tolist(), arrays[key + _KINDS].tolist()
    for at, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        column = _column(arrays, f"{key}_{at}", kind.removeprefix(_INDEX))
        if kind.startswith(_INDEX):
            index = pd.Index(column, dtype=column.dtype, name=name)
        else:
            columns.append(column)
    names = names[len(names) - len(columns) :]
    if not columns:
        return pd.DataFrame(index=index)
    frame = pd.concat(columns, axis=1).set_axis(names, axis=1)
    return frame if index is None else frame.set_axis(index)


def _series(index: pd.Index) -> pd.Series:
    # Without the type, newer versions of pandas make texts of objects, and gaps NaN.
    return pd.Series(index, dtype=index.dtype)


def _add_column(arrays: dict[str, np.ndarray], key: str, what: str, column: Any) -> str:
    """Add the arrays of a column, and return its kind."""
    dtype, kind = column.dtype, str(column.dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        arrays[key] = column.cat.codes.to_numpy()
        inner = _add_column(arrays, key + _CATEGORIES, what, _series(dtype.categories))
        return (_ORDERED if dtype.ordered else _UNORDERED) + inner
    if isinstance(dtype, pd.DatetimeTZDtype):
        arrays[key] = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    elif isinstance(column.array, _WITH_MASK):
        arrays[key] = column.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
        arrays[key + _MASK] = column.isna().to_numpy()
    elif isinstance(dtype, pd.StringDtype):
        arrays[key] = _objects(column.tolist())
    elif isinstance(dtype, np.dtype):
        arrays[key] = column.to_numpy()
    else:
        raise ContentError(f"{what} has the type {kind}: convert it to numbers or text first.")
    return kind


def _column(arrays: Mapping[str, np.ndarray], key: str, kind: str) -> pd.Series:
    values = arrays[key]
    for start in (_UNORDERED, _ORDERED):
        if kind.startswith(start):
            categories = _column(arrays, key + _CATEGORIES, kind.removeprefix(start))
            dtype = pd.CategoricalDtype(
                pd.Index(categories, dtype=categories.dtype), ordered=start == _ORDERED
            )
            return pd.Series(pd.Categorical.from_codes(values, dtype=dtype))
    column = pd.Series(values, dtype=values.dtype)
    if values.dtype.hasobject and kind == "str":
        # The type of text of this version of pandas.
        return column.astype(pd.Series(["text"]).dtype)
    if kind == str(column.dtype):
        return column
    if values.dtype.kind == "M":
        return column.dt.tz_localize("UTC").astype(kind)
    column = column.astype(kind)
    if key + _MASK in arrays:
        column[arrays[key + _MASK]] = pd.NA
    return column


# -- cells of objects ----------------------------------------------------------------------------


def _objects(cells: list[Any]) -> np.ndarray:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


def without_objects(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays, those of objects as the bytes of a list in JSON, which holds text and numbers."""
    plain = {}
    for key, values in arrays.items():
        if not values.dtype.hasobject:
            plain[key] = values
            continue
        cells = [_cell(key, cell) for cell in values.tolist()]
        plain[key + _CELLS] = np.frombuffer(json.dumps(cells).encode(), dtype=np.uint8)
    return plain


def with_objects(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of :func:`without_objects` as they were."""
    return {
        key.removesuffix(_CELLS): _objects(json.loads(values.tobytes()))
        if key.endswith(_CELLS)
        else values
        for key, values in arrays.items()
    }


def _cell(key: str, cell: Any) -> Any:
    cell = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(cell, (str, bool, int, float)):
        return cell
    if is_missing(cell):
        return None
    raise ContentError(
        f"{key!r} holds Python objects ({type(cell).__name__}), which would need a pickle; convert "
        "it to numbers or strings."
    )
