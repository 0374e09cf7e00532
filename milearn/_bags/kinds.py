"""Kinds of values: a column that a user passes is read here, once, whatever library holds it.

======== ============================================= ==========================================
kind     from                                          is never
======== ============================================= ==========================================
number   integers, floats, nullable types, Decimal     a date, a duration, a text
category Categorical whatever its categories are,      a number, even if the categories are
         bool, text                                    1, 2, 3, 4
id       what names bags, groups, patients: compared   two ids for 7 and "7", or for "p1" and
         as text, stripped, in Unicode's form NFC      "p1 "
time     dates, as days since the first one where a    nanoseconds
         number is needed
duration differences of times, as days                 a count of its unit
======== ============================================= ==========================================

A gap is NaN of numbers, times and durations, and missing of categories. An id has none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from scipy import sparse

from .segments import offsets_of

# What a text is that would be a number or a date, and the call that converts a column of it.
_CALLS = (
    (r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", "pandas.to_numeric(column)"),
    (
        r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?",
        "pandas.read_csv(path, thousands=','), or decimal=',' if the comma is a decimal point",
    ),
    (r"[-+]?\d*,\d+(e[-+]?\d+)?", "pandas.read_csv(path, decimal=',')"),
    (
        r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?",
        "pandas.to_datetime(column)",
    ),
)
_READABLE = [(re.compile(form, re.ASCII | re.IGNORECASE), call) for form, call in _CALLS]
ENCODE = "encode it as numbers first, for example by pandas.get_dummies or sklearn's OneHotEncoder"


# What NumPy reads as a whole. All else that has items it would take one by one.
_INTERFACES = ("__array__", "__array_interface__", "__array_struct__", "columns")


def refuse_anndata(data: Any, what: str) -> None:
    """Raise a TypeError for an object with a matrix ``X`` and a table ``obs`` of its rows."""
    if not hasattr(data, "columns") and hasattr(data, "X") and hasattr(data, "obs"):
        raise TypeError(
            f"{what} is {type(data).__name__}: use Bags.from_anndata(adata, bag), where bag names "
            "the column of obs with the bag of each row."
        )


def check_array_like(data: Any, what: str) -> None:
    """Raise a TypeError for an object that NumPy would convert item by item.

    This takes hours for some objects. Arrays, data frames, sparse matrices and sequences pass, and
    so do objects without items, of which NumPy makes arrays without dimensions.
    """
    refuse_anndata(data, what)
    if np.ma.is_masked(data):
        raise TypeError(
            f"{what} is a masked array, whose mask would be ignored: Bags.from_padded(X) makes "
            "bags of a masked array (n_bags, size, n_features) and leaves the masked instances "
            "out; single values are filled by X.filled(np.nan) and imputed."
        )
    known = sparse.issparse(data) or isinstance(data, Sequence)
    if hasattr(data, "__getitem__") and not (known or any(hasattr(data, n) for n in _INTERFACES)):
        raise TypeError(
            f"{what} is {type(data).__name__}, which is no array, data frame or sparse matrix: "
            "convert it to one of them first."
        )


def as_array(data: Any, what: str) -> np.ndarray:
    """An array of something that passes :func:`check_array_like`."""
    check_array_like(data, what)
    return np.asarray(data)


def listed(names: Sequence[Any], most: int) -> str:
    """The first names for a message."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def is_missing(value: Any) -> bool:
    """Whether a single value is a gap: None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither equal nor unequal to itself
        return True


def are_missing(values: np.ndarray) -> np.ndarray:
    """Which entries of an array are gaps, of the shape of the array."""
    if values.dtype.kind != "O":
        return np.asarray(values != values)
    import pandas

    return np.asarray(pandas.isna(values))


def _series(values: Any, what: str) -> Any:
    """A column of any library as a Series of pandas without an index."""
    import pandas

    if sparse.issparse(values):
        raise TypeError(f"{what} is sparse: pass a dense array.")
    kind: Any = getattr(values, "dtype", None)
    if hasattr(values, "iloc") or isinstance(
        values, pandas.Index | pandas.api.extensions.ExtensionArray
    ):
        found = pandas.Series(values).reset_index(drop=True)
    elif hasattr(kind, "is_numeric") and kind.is_numeric():  # of polars
        found = pandas.Series(values.to_numpy())
    elif type(kind).__name__ in ("Enum", "Categorical"):  # of polars
        ordered = type(kind).__name__ == "Enum"
        known = list(kind.categories) if ordered else None
        found = pandas.Series(pandas.Categorical(values.to_list(), known, ordered))
    elif hasattr(values, "to_list") or hasattr(values, "to_pylist"):  # of polars, of Arrow
        cells = values.to_list() if hasattr(values, "to_list") else values.to_pylist()
        found = pandas.Series(cells, dtype=None if len(cells) else float)
    else:
        flat = isinstance(values, list | tuple) and not any(np.ndim(each) for each in values[:1])
        cells = list(values) if flat or _are_tuples(values) else as_array(values, what)
        if isinstance(cells, np.ndarray) and cells.ndim != 1:
            raise ValueError(f"{what} has {cells.ndim} dimensions: pass one.")
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "S":
            cells = np.char.decode(cells, "utf-8")
        found = pandas.Series(cells, dtype=None if len(cells) else float, copy=False)
    if type(found.dtype).__name__ == "ArrowDtype":
        found = found.array.__arrow_array__().to_pandas().reset_index(drop=True)
    return found.infer_objects() if found.dtype == object else found


def _are_tuples(values: Any) -> bool:
    return isinstance(values, list | tuple) and any(isinstance(each, tuple) for each in values[:8])


def column(values: Any, what: str) -> Any:
    """A column of one kind as a Series of pandas, or an error.

    Its type is that of the input, so that nothing is lost. Python objects get the type of what they
    are: numbers, booleans, times, durations or texts.
    """
    import pandas

    found = _series(values, what)
    if found.dtype != object:
        if found.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: {what} must hold real numbers.")
        if isinstance(found.dtype, pandas.PeriodDtype | pandas.IntervalDtype | pandas.SparseDtype):
            raise TypeError(
                f"{what} has the type {found.dtype}: convert it to numbers, texts, dates, "
                "durations or a Categorical."
            )
        return found
    held = pandas.api.types.infer_dtype(found, skipna=True)
    if held == "string":
        return found
    if held in ("decimal", "floating", "integer", "mixed-integer-float", "integer-na", "empty"):
        return found.where(found.notna(), np.nan).astype(np.float64)
    if held == "boolean":
        return found.astype("boolean")
    if held in ("date", "datetime", "datetime64"):
        return pandas.to_datetime(found)
    if held in ("timedelta", "timedelta64"):
        return pandas.to_timedelta(found)
    types = sorted({type(cell).__name__ for cell in found[found.notna()].tolist()})
    raise TypeError(
        f"{what} holds Python objects ({', '.join(types)}): pass numbers, texts, dates, durations "
        "or a Categorical."
    )


def kind_of(found: Any) -> str:
    """The kind of what :func:`column` returns: number, category, text, time or duration.

    A text is a category or an id, which depends on its use.
    """
    from pandas.api import types

    kind: Any = found.dtype
    if type(kind).__name__ == "CategoricalDtype" or types.is_bool_dtype(kind):
        return "category"
    if types.is_numeric_dtype(kind):
        return "number"
    if types.is_datetime64_any_dtype(kind):
        return "time"
    return "duration" if types.is_timedelta64_dtype(kind) else "text"


def numbers(values: Any, what: str, *, place: Any = None) -> np.ndarray:
    """Numbers and booleans as float64, durations in days; NaN is a gap.

    Parameters
    ----------
    values : array-like of shape (n,)
    what : str
        The name of the values in messages.
    place : callable, default=None
        Without it, gaps are NaN. With it, a gap is an error, and ``place(row)`` names its place.

    Raises
    ------
    ValueError
        For dates, categories and texts: the message says what to pass instead.
    """
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf":
        found = values.astype(np.float64, copy=False)
    else:
        found = _as_numbers(column(values, what), what)
    if place is not None:
        for row in np.flatnonzero(np.isnan(found))[:1].tolist():
            gaps = int(np.isnan(found).sum())
            raise ValueError(
                f"{what} holds {gaps} missing value(s) (NaN), the first for {place(row)}: leave "
                "these out, or fill them in."
            )
    return found


def _as_numbers(found: Any, what: str) -> np.ndarray:
    import pandas

    kind = kind_of(found)
    if kind == "duration":
        return (found / pandas.Timedelta(days=1)).to_numpy(np.float64)
    if kind == "number" or pandas.api.types.is_bool_dtype(found.dtype):
        return found.to_numpy(np.float64, na_value=np.nan)
    shown = listed(found.dropna().unique().tolist(), 2)
    if kind == "time":
        shown = ", ".join(f"{each:%Y-%m-%d}" for each in found.dropna().unique()[:2])
        remedy = "pass durations, such as end - start, which are read in days"
    elif kind == "category":
        remedy = "a category is not a number; pass column.astype(float) if its values are numbers"
    else:
        remedy = conversion(found) or ENCODE
        raise ValueError(f"{what} holds text ({shown}), which is not a number: {remedy}.")
    held = "dates" if kind == "time" else "categories"
    raise ValueError(f"{what} holds {held} ({shown}): {remedy}.")


def as_labels(found: Any) -> np.ndarray:
    """What :func:`column` returns as an array of labels, as they are written.

    Numbers keep their type, or are floats with NaN for gaps; texts are Python objects.
    """
    kind: Any = found.dtype
    if hasattr(kind, "categories"):
        return as_labels(column(found.astype(object), "The categories"))
    if kind_of(found) == "text":
        return np.asarray(found.to_numpy(dtype=object, na_value=np.nan))
    if not isinstance(kind, np.dtype) and hasattr(kind, "numpy_dtype"):  # nullable types
        if found.isna().any():
            return np.asarray(found.to_numpy(np.float64, na_value=np.nan))
        return np.asarray(found.to_numpy(kind.numpy_dtype))
    return np.asarray(found)


def labels(values: Any, what: str, classes: Any = None) -> np.ndarray:
    """The labels of a column, or an error for a text among numbers that is not one of classes."""
    found = column(values, what)
    if classes is None and kind_of(found) == "text":
        texts = found.dropna().unique().tolist()
        read = [text for text in texts if _READABLE[0][0].fullmatch(text.strip())]
        if len(texts) > len(read) > len(texts) / 2:
            word = next(text for text in texts if text not in read)
            raise ValueError(
                f"{what} holds {word!r} among numbers such as {read[0]!r}: name it in na_values= "
                "of the reader if it stands for a missing value, or pass classes=."
            )
    return as_labels(found)


def ordered_categories(y: Any) -> np.ndarray | None:
    """Categories of an ordered Categorical of pandas or an Enum of polars, lowest first."""
    if hasattr(y, "iloc") and y.ndim == 2 and y.shape[1] == 1:
        y = y.iloc[:, 0]
    kind: Any = getattr(y, "dtype", None)
    is_ordered = getattr(kind, "ordered", False) or type(kind).__name__ == "Enum"
    return np.asarray(kind.categories) if is_ordered else None


def targets(y: Any) -> Any:
    """Labels, values or outcomes as an array; ordered classes as a Series, with their order.

    Durations are days.
    """
    found = np.asarray(y) if ordered_categories(y) is None else None
    if found is not None and (found.ndim != 1 or found.dtype.names):
        return found
    own = column(y, "y")
    if found is None:
        return own
    return _as_numbers(own, "y") if kind_of(own) == "duration" else as_labels(own)


def conversion(texts: Any) -> str | None:
    """How texts that would be numbers or dates are converted; None for other texts.

    Some other texts among them, such as a word for a gap, change nothing: they are named.
    """
    distinct = [str(text).strip() for text in texts.dropna().unique()]
    found = []
    for form, call in _READABLE:
        others = [text for text in distinct if not form.fullmatch(text)]
        # Numbers with thousands are among numbers without.
        if "," in call:
            others = [text for text in others if not _READABLE[0][0].fullmatch(text)]
        found.append((len(others), call, others))
    n_others, call, others = min(found, key=lambda each: each[0])
    if n_others == len(distinct) or 2 * n_others >= len(distinct):
        return None
    also = f" ({listed(others, 2)} would be in na_values= of the reader)" if others else ""
    return f"convert it by {call}{also}"


def covariate(values: Any, what: str) -> tuple[str, np.ndarray]:
    """A column as "number" with floats, of which times are days, or "category" with codes."""
    import pandas

    found = column(values, what)
    kind = kind_of(found)
    if kind == "time":
        found, kind = found - found.min(), "duration"
    if kind in ("number", "duration"):
        return "number", _as_numbers(found, what)
    if kind == "text":
        shown, remedy = listed(found.dropna().unique().tolist(), 2), conversion(found)
        if remedy is not None:
            raise ValueError(
                f"{what} holds text ({shown}) that reads as numbers or dates: {remedy}, or pass "
                "column.astype('category') if these are categories."
            )
        n_distinct, n = found.nunique(), int(found.notna().sum())
        if 2 * n_distinct > n > 2:
            raise ValueError(
                f"{what} holds {n_distinct} different texts ({shown}) for {n} entries: a category "
                "has few. Leave out what names the bags."
            )
    return "category", pandas.factorize(found)[0]


# -- ids -------------------------------------------------------------------------------------------


def id_text(value: Any) -> str:
    """An id as the text by which it is compared."""
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, float | np.floating | Decimal) and value == value // 1:
        value = int(value)
    if isinstance(value, datetime) and value == datetime.combine(value.date(), datetime.min.time()):
        value = date(value.year, value.month, value.day)
    return unicodedata.normalize("NFC", str(value).strip())


def as_ids(values: Sequence[Any]) -> np.ndarray:
    """Ids as an array: integers if all of them are, otherwise texts, and tuples of texts."""
    kinds = {type(each) for each in values}
    whole = (int, float, np.integer, np.floating, Decimal)
    are_whole = bool not in kinds and all(issubclass(kind, whole) for kind in kinds)
    if kinds and are_whole and all(v == v // 1 for v in values):
        numbers = [int(each) for each in values]
        if max(map(abs, numbers)) < 2**63:
            return np.array(numbers)
    array = np.empty(len(values), dtype=object)
    array[:] = [
        tuple(map(id_text, each)) if isinstance(each, tuple) else id_text(each) for each in values
    ]
    return array


def columns_of(values: Any) -> list[Any]:
    """The columns of a frame or a matrix, or the one column that it is."""
    if hasattr(values, "columns"):
        return [values[name] for name in values.columns]
    matrix = values if hasattr(values, "ndim") else np.asarray(values, dtype=object)
    return list(matrix.T) if matrix.ndim == 2 else [values]


def ids(values: Any, what: str, place: Any = "row {}".format) -> np.ndarray:
    """The id of each row, see :func:`group_by_id`."""
    names, codes, _, _ = group_by_id(values, what, place)
    return np.asarray(names[codes])


def group_by_id(
    ids: Any, what: str, place: Any = "row {}".format
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows grouped by id, groups in the order in which their ids appear first.

    Parameters
    ----------
    ids : array-like of shape (n_rows,)
    what : str
        The name of the ids in messages.
    place : callable
        Names the row of a gap.

    Returns
    -------
    names : ndarray of shape (n_groups,)
        Distinct ids, see :func:`as_ids`.
    codes : ndarray of shape (n_rows,)
        Number of the group of each row.
    order : ndarray of shape (n_rows,)
        The rows, group by group; rows of one group keep their order.
    offsets : ndarray of shape (n_groups + 1,)
        Group ``i`` is ``order[offsets[i]:offsets[i + 1]]``.

    Raises
    ------
    ValueError
        For a row without an id.
    """
    import pandas

    given = ids if hasattr(ids, "__len__") else list(ids)
    codes, distinct = pandas.factorize(_series(given, what))
    for row in np.flatnonzero(codes < 0)[:1].tolist():
        raise ValueError(f"{what} is missing for {place(row)}: give every row an id.")
    names = as_ids(list(distinct))
    if names.dtype == object:
        same, first = pandas.factorize(names)
        codes, names = same[codes], np.asarray(first, dtype=object)
    codes = codes.astype(np.intp, copy=False)
    order = np.argsort(codes, kind="stable")
    return names, codes, order, offsets_of(np.bincount(codes, minlength=len(names)))
