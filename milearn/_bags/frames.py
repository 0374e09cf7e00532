"""Data frames as plain arrays and back, for files and pickles: equal frames give equal arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from .kinds import is_missing

# Ends of the keys of what belongs to the column of a key: the kinds of the columns of a frame, the
# categories of codes, the gaps of nullable types, and cells of objects.
KINDS, _CATEGORIES, _MASK, _CELLS = "_kinds", "_categories", "_mask", ".json"
# Kinds of columns that begin so: the index of the frame, and categories of the kind that follows.
_INDEX, _UNORDERED, _ORDERED = "index:", "category:", "ordered:"


def arrays_of_frame(frame: Any, key: str) -> dict[str, np.ndarray]:
    """The columns of a frame of pandas as arrays without objects, with their names and kinds.

    Types, gaps, the order of the columns and of categories, and an index that does not count the
    rows are kept. All keys begin with ``key``. Raises a TypeError for periods, intervals and the
    like, and for Python objects other than texts and numbers.
    """
    import pandas

    columns = [(name, "", frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
    if not frame.index.equals(pandas.RangeIndex(len(frame))):
        columns.insert(0, (frame.index.name, _INDEX, _series(frame.index)))
    arrays: dict[str, Any] = {key: _objects([name for name, _, _ in columns])}
    kinds = [
        start + _add_column(arrays, f"{key}_{at}", f"{key}[{name!r}]", column)
        for at, (name, start, column) in enumerate(columns)
    ]
    return without_objects(arrays | {key + KINDS: np.array(kinds, dtype=str)})


def frame_of_arrays(arrays: Mapping[str, np.ndarray], key: str) -> Any:
    """The frame of :func:`arrays_of_frame`."""
    import pandas

    arrays, columns, index = with_objects(arrays), [], None
    names, kinds = arrays[key].tolist(), arrays[key + KINDS].tolist()
    for at, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        column = _column(arrays, f"{key}_{at}", kind.removeprefix(_INDEX))
        if kind.startswith(_INDEX):
            index = pandas.Index(column, dtype=column.dtype, name=name)
        else:
            columns.append(column)
    if not columns:
        return pandas.DataFrame(index=index)
    names = names[len(names) - len(columns) :]
    frame = pandas.concat(columns, axis=1).set_axis(names, axis=1)
    return frame if index is None else frame.set_axis(index)


def _series(index: Any) -> Any:
    import pandas

    # Without the type, newer versions of pandas make texts of objects, and gaps NaN.
    return pandas.Series(index, dtype=index.dtype)


def _add_column(arrays: dict[str, np.ndarray], key: str, what: str, column: Any) -> str:
    """Add the arrays of a column, and return its kind."""
    import pandas

    dtype, kind = column.dtype, str(column.dtype)
    if isinstance(dtype, pandas.CategoricalDtype):
        arrays[key] = column.cat.codes.to_numpy()
        inner = _add_column(arrays, key + _CATEGORIES, what, _series(dtype.categories))
        return (_ORDERED if dtype.ordered else _UNORDERED) + inner
    if isinstance(dtype, np.dtype):
        arrays[key] = column.to_numpy()
    elif isinstance(dtype, pandas.DatetimeTZDtype):
        arrays[key] = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    elif isinstance(dtype, pandas.StringDtype):
        arrays[key] = _objects(column.tolist())
    elif isinstance(getattr(dtype, "numpy_dtype", None), np.dtype) and "[" not in kind:  # nullable
        arrays[key] = column.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
        arrays[key + _MASK] = column.isna().to_numpy()
    else:
        raise TypeError(f"{what} has the type {kind}: convert it to numbers or text first.")
    return kind


def _column(arrays: Mapping[str, np.ndarray], key: str, kind: str) -> Any:
    import pandas

    values = arrays[key]
    for start in (_UNORDERED, _ORDERED):
        if kind.startswith(start):
            known = _column(arrays, key + _CATEGORIES, kind.removeprefix(start))
            categories = pandas.Index(known, dtype=known.dtype)
            dtype = pandas.CategoricalDtype(categories, ordered=start == _ORDERED)
            return pandas.Series(pandas.Categorical.from_codes(values, dtype=dtype))
    column = pandas.Series(values, dtype=values.dtype)
    if values.dtype.hasobject and kind == "str":
        # The type of text of this version of pandas.
        return column.astype(pandas.Series(["text"]).dtype)
    if kind == str(column.dtype):
        return column
    if values.dtype.kind == "M":
        return column.dt.tz_localize("UTC").astype(kind)
    column = column.astype(kind)
    if key + _MASK in arrays:
        column[arrays[key + _MASK]] = pandas.NA
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
        if values.dtype.hasobject:
            cells = [_cell(key, cell) for cell in values.tolist()]
            key, values = key + _CELLS, np.frombuffer(json.dumps(cells).encode(), dtype=np.uint8)
        # joblib.hash of arrays with the same values differs by their strides.
        plain[key] = np.asarray(values, order="C")
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
    raise TypeError(
        f"{key!r} holds Python objects ({type(cell).__name__}), which would need a pickle; convert "
        "it to numbers or strings."
    )
