"""Conversion of keys and parts of :class:`milearn.Bags` to one layout and type, or an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_scalar

from .kinds import as_array, numbers
from .rows_on_disk import is_mapped, stacked
from .segments import offsets_of

_BLOCK = (
    "a bag is a 2-D array of numbers with one row per instance, or a list of strings without gaps. "
    "The page Recipes of the user guide makes such bags of time series, images and texts, and "
    "milearn.datasets.load_bag_folder reads files."
)


def canonical_matrix(instances: Any) -> Any:
    if sparse.issparse(instances):
        return canonical_csr(instances)
    if frame_like(instances):
        return frame_matrix(instances, list(instances.columns))
    texts = text_column(instances)
    if texts is not None:
        return texts
    matrix = as_array(instances, "instances")
    if matrix.ndim != 2:
        raise ValueError(
            f"instances has {matrix.ndim} dimension(s): pass a matrix with one row per instance."
        )
    return np.ascontiguousarray(as_floats(matrix, "instances"))


def frame_like(data: Any) -> bool:
    """Whether something is a data frame of any library."""
    return hasattr(data, "columns") and hasattr(data, "shape") and not sparse.issparse(data)


def is_plain(df: Any, names: Sequence[Any]) -> bool:
    """Whether columns of a data frame are numbers of NumPy or polars."""
    kinds = [df[name].dtype for name in names]
    return all(k.kind in "biuf" if isinstance(k, np.dtype) else _is_polars_number(k) for k in kinds)


def frame_matrix(df: Any, names: Sequence[Any], what: str = "Column") -> np.ndarray:
    """Columns of a data frame as a matrix of numbers; NaN is a gap."""
    if is_plain(df, names):
        return np.ascontiguousarray(as_floats(df[list(names)].to_numpy(), "instances"))
    return np.column_stack([numbers(df[name], f"{what} {name!r}") for name in names])


def _is_polars_number(kind: Any) -> bool:
    return hasattr(kind, "is_float") and bool(kind.is_float() or kind.is_integer())


def text_column(texts: Any) -> np.ndarray | None:
    """Strings in one dimension, or in a column of Python objects, as such a column; or None."""
    kind = None if np.ma.is_masked(texts) else getattr(getattr(texts, "dtype", None), "kind", None)
    is_list = isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts)
    # Python strings: strings of NumPy would have the memory of the longest one.
    array = np.asarray(texts, dtype=object) if is_list or kind in ("O", "T", "U") else None
    if array is None or (array.ndim > 1 and (kind != "O" or array.shape[1:] != (1,))):
        return None
    cells = array.ravel().tolist()
    if not cells or not all(isinstance(cell, str) for cell in cells):
        return None
    column = np.empty((len(cells), 1), dtype=object)
    column[:, 0] = [str(cell) for cell in cells]
    return column


def as_floats(values: np.ndarray, what: str) -> np.ndarray:
    """Keep floats of 16 to 64 bits, convert other numbers to float64, and reject anything else."""
    if values.dtype in (np.float64, np.float32, np.float16):
        return values
    if np.iscomplexobj(values):
        raise ValueError("Complex data not supported: instances must be real numbers.")
    if values.dtype.kind in "biuf" or not values.size:
        return values.astype(np.float64)
    return np.stack([numbers(each, what) for each in values.reshape(len(values), -1).T], axis=-1)


def canonical_csr(matrix: Any) -> sparse.csr_array:
    if matrix.ndim != 2:
        raise ValueError(f"A sparse matrix of 2 dimensions is needed, not of {matrix.ndim}.")
    if np.iscomplexobj(matrix):
        raise ValueError("Complex data not supported: instances must be real numbers.")
    if matrix.format != "csr":
        matrix = matrix.tocsr()
    data = matrix.data
    if data.dtype not in (np.float64, np.float32):
        data = data.astype(np.float64)
    csr = sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    limit = np.iinfo(np.int32).max
    if csr.indptr.dtype != np.int32 and max(csr.nnz, *csr.shape) <= limit:
        csr = sparse.csr_array(
            (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32)), shape=csr.shape
        )
    return csr


def canonical_offsets(offsets: Any, n_instances: int) -> np.ndarray:
    values = as_array(offsets, "offsets")
    if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "iu":
        raise ValueError(
            "offsets must be a 1-D array of n_bags + 1 integers: the first row of each bag, and "
            "the number of instances."
        )
    if not (values.dtype == np.intp and is_mapped(values) and not values.flags.writeable):
        # A copy, because bag_index is computed from it only once and the array of the caller is
        # writable.
        values = np.array(values, dtype=np.intp)
    if values[0] != 0 or values[-1] != n_instances or (np.diff(values) < 0).any():
        raise ValueError(f"offsets must increase from 0 to {n_instances}, the number of instances.")
    for position in np.flatnonzero(np.diff(values) == 0)[:1].tolist():
        raise ValueError(empty_bag(position))
    return values


def empty_bag(position: Any) -> str:
    return f"Bag {position} is empty: every bag needs at least one instance; remove it."


def canonical_graph(graph: Any, n: int, name: str, what: str) -> sparse.csr_array | None:
    if graph is None:
        return None
    matrix = graph if sparse.issparse(graph) else as_array(graph, name)
    if matrix.ndim != 2 or matrix.shape != (n, n):
        raise ValueError(
            f"{name} has shape {matrix.shape} but there are {n} {what}: it must be ({n}, {n})."
        )
    return canonical_csr(sparse.csr_array(matrix))


def canonical_names(names: Any, n_features: int) -> np.ndarray | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError("feature_names must be a sequence of strings.")
    # Python strings, because joblib.hash of NumPy strings differs.
    array = np.array([str(name) for name in names], dtype=object)
    return check_length("feature_names", array, n_features, "feature")


def frame_names(X: Any) -> list[str] | None:
    """Column names of a data frame if all of them are strings, as in scikit-learn."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "shape"):
        return None
    names = list(columns)
    return names if all(isinstance(name, str) for name in names) else None


def canonical_block(block: Any, position: Any) -> Any:
    if type(block) is np.ndarray and block.ndim == 2 and block.dtype == np.float64 and len(block):
        return block
    what = f"Bag {position}"
    if isinstance(block, str) or hasattr(block, "__fspath__"):  # also an entry of an array of texts
        kind = ValueError if isinstance(block, str) else TypeError
        raise kind(f"{what} is a text or a path ({str(block)[:80]!r}): {_BLOCK}")
    texts = text_column(block)
    if texts is not None:
        return texts
    if frame_like(block) and block.shape[1] == len({*block.columns}):
        block = frame_matrix(block, list(block.columns), f"{what}: column")
    try:
        array = block if sparse.issparse(block) else as_array(block, what)
    except ValueError:
        array = None  # rows of different lengths
    if array is not None and array.shape[:1] == (0,):
        raise ValueError(empty_bag(position))
    if array is not None and array.ndim == 2:
        return array if sparse.issparse(array) else as_floats(array, what)
    if first_text(block if array is None else array) is not None:
        raise ValueError(f"{what} holds strings: {_BLOCK}")
    shape = "rows of different lengths" if array is None else f"{array.ndim} dimension(s)"
    raise ValueError(f"{what} has {shape}: {_BLOCK}")


def keys_of(items: Any) -> list[Any] | None:
    """The names of the bags of a mapping, or of a Series with names; None for other collections."""
    if isinstance(items, Mapping):
        return list(items)
    if not (hasattr(items, "to_numpy") and hasattr(items, "index")):
        return None
    keys = list(items.index)
    return keys if all(isinstance(key, str) for key in keys) else None


def check_choice(name: str, value: Any, known: Iterable[str]) -> None:
    """Raise an error for a value of a parameter that is not one of the known names."""
    if value not in known:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(known)}.")


def check_positive(**values: Any) -> None:
    """Refuse what is no positive integer."""
    for name, value in values.items():
        check_scalar(value, name, Integral, min_val=1)


def first_text(values: Any) -> str | None:
    """The first string of nested sequences, or of an array, that is not a number."""
    if isinstance(values, np.ndarray):
        values = values.tolist() if values.dtype.kind in "UO" else None
    if isinstance(values, (list, tuple)):
        found = (first_text(value) for value in values)
        return next((text for text in found if text is not None), None)
    if isinstance(values, str):
        try:
            float(values)
        except ValueError:
            return str(values)
    return None


def to_list(chosen: Any) -> list[Any]:
    """The columns for one name or a list of names."""
    return list(chosen) if isinstance(chosen, (list, tuple)) else [chosen]


def check_length(
    name: str, array: np.ndarray, n: int, what: str = "bag", *, flat: bool = False
) -> np.ndarray:
    """The array, or an error unless it has ``n`` entries, and one dimension if ``flat``."""
    if array.shape[:1] != (n,) or (flat and array.ndim > 1):
        raise ValueError(
            f"{name} has shape {array.shape} for {n} {what}s: give one entry per {what}."
        )
    return array


def check_columns(what: str, names: Sequence[Any], columns: list[Any]) -> None:
    """Raise an error for names of columns that a table does not have, or has twice."""
    for name in names:
        times = columns.count(name)
        if times != 1:
            raise ValueError(
                f"The {what} has {times or 'no'} column{'s' if times else ''} {name!r}: its "
                f"columns are {columns}."
            )


def row_range(matrix: Any, first: int, last: int) -> Any:
    """Rows ``first`` to ``last``, without the copy that slicing a sparse matrix makes."""
    if not sparse.issparse(matrix):
        return matrix[first:last]
    low, high = matrix.indptr[first], matrix.indptr[last]
    rows = matrix.indptr[first : last + 1] - low
    return sparse.csr_array(
        (matrix.data[low:high], matrix.indices[low:high], rows),
        shape=(last - first, matrix.shape[1]),
    )


def nbytes(matrix: Any) -> int:
    if sparse.issparse(matrix):
        return matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    if hasattr(matrix, "memory_usage"):
        return int(matrix.memory_usage(index=False, deep=True).sum())
    return matrix.nbytes


def is_equal(one: Any, other: Any) -> bool:
    """Whether two parts of bags are equal: arrays, sparse matrices, frames, or None."""
    if one is None or other is None:
        return one is other
    if hasattr(one, "iloc"):
        return bool(one.equals(other))
    if sparse.issparse(one) or sparse.issparse(other):
        same = sparse.issparse(one) and sparse.issparse(other) and one.shape == other.shape
        parts = ("data", "indices", "indptr")
        return same and all(is_equal(getattr(one, n), getattr(other, n)) for n in parts)
    alike = one.dtype == other.dtype or one.dtype.kind == other.dtype.kind == "U"
    return alike and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def read_only(matrix: Any) -> Any:
    """A read-only view of an array or of the parts of a CSR matrix."""
    if matrix is None or hasattr(matrix, "iloc"):
        return matrix
    if not sparse.issparse(matrix):
        view = matrix.view()
        view.flags.writeable = False
        return view
    parts = (read_only(matrix.data), read_only(matrix.indices), read_only(matrix.indptr))
    return sparse.csr_array(parts, shape=matrix.shape)


def stack_blocks(
    blocks: Iterable[tuple[Any, Any]],
) -> tuple[Any, np.ndarray, list[str] | None]:
    """The matrix of all blocks, the offsets of the bags, and the columns of data frames.

    Each block comes with its position, or its name as it is in messages.

    Raises
    ------
    ValueError
        See :meth:`milearn.Bags.from_list`.
    """
    arrays: dict[Any, Any] = {}
    columns: list[str] | None = None
    for position, block in blocks:
        names = list(block.columns) if frame_like(block) else None
        if not arrays:
            first, columns = position, names
        elif names is not None and names != columns:
            raise ValueError(
                f"Bag {position} has {unlike(names, columns)} bag {first}: give all bags the same "
                "columns in the same order."
            )
        arrays[position] = canonical_block(block, position)
    if not arrays:
        raise ValueError(
            "No bags were given: pass at least one, or Bags(np.empty((0, n_features)), [0]) for a "
            "container without bags."
        )
    if len({array.dtype == object for array in arrays.values()}) > 1:
        raise ValueError("Bags of text and bags of numbers cannot be joined: encode the text.")
    width = arrays[first].shape[1]
    for position, array in arrays.items():
        if array.shape[1] != width:
            raise ValueError(
                f"Bag {position} has {array.shape[1]} features but bag {first} has {width}: every "
                "bag must have the same features."
            )
    matrices = [*arrays.values()]
    if columns is not None and not all(isinstance(name, str) for name in columns):
        columns = None
    return stacked(matrices), offsets_of([array.shape[0] for array in matrices]), columns


def unlike(names: Sequence[str], others: Sequence[str] | None) -> str:
    """In what the names of features differ from others: a part of a message."""
    if {*names} != {*(others or ())}:
        alone = [n for n in (*names, *(others or ())) if (n in names) != (n in (others or ()))]
        return f"other columns ({', '.join(map(repr, alone[:4]))}) than"
    two = next(pair for pair in zip(names, others or (), strict=False) if pair[0] != pair[1])
    return f"its columns in another order ({two[0]!r} for {two[1]!r}) than"


def is_full(key: Any) -> bool:
    """Whether a key selects all items."""
    return key is Ellipsis or (isinstance(key, slice) and key == slice(None))


def bag_positions(key: Any, n_bags: int, n_instances: int | None = None) -> np.ndarray:
    """Positions of the bags that a list of integers or a mask selects, counted from 0."""
    keys = np.asarray(key)
    if keys.ndim != 1:
        raise IndexError("Bags are selected by an integer, a slice or a 1-D index.")
    if keys.size == 0:
        return keys.astype(np.intp)
    try:
        _ = np.broadcast_to(0, n_bags)[keys]  # which NumPy checks, without memory for all bags
    except IndexError as error:
        if keys.dtype == bool and len(keys) == n_instances:
            raise IndexError(
                f"The mask has one entry for each of {n_instances} instances, and X[mask] selects "
                "bags: pass it to X.select_instances(mask)."
            ) from error
        raise IndexError(f"Bags are selected by integers or a mask: {error}.") from error
    return (np.flatnonzero(keys) if keys.dtype == bool else keys.astype(np.intp)) % n_bags


def column_key(columns: Any, names: np.ndarray | None) -> Any:
    """A slice, positions or a mask of features; feature names are replaced by positions."""
    if isinstance(columns, slice):
        return columns
    columns = np.atleast_1d(np.asarray(columns))
    if columns.dtype.kind in "UO":
        known = {name: at for at, name in enumerate([] if names is None else names.tolist())}
        if lacking := [repr(str(name)) for name in columns if name not in known]:
            raise IndexError(f"The bags have no feature named {', '.join(lacking)}.")
        return np.array([known[name] for name in columns], dtype=np.intp)
    return columns.astype(np.intp) if columns.size == 0 else columns
