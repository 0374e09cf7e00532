"""Further columns of a container: arrays with one entry per instance, or one per bag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .canonical import are_missing, as_array, canonical_csr, check_columns, check_length, to_list
from .names import check_index
from .warn import warn_user

# The array of instance_data with the side of the patches, in the unit of their coordinates.
PATCH_SIZE = "patch_size_level0"
_EXAMPLES = {
    "instance_data": "a dict of arrays with one entry per instance, such as {'coords': array}",
    "bag_data": "a data frame, or a dict of arrays with one entry per bag, such as {'age': array}",
}


def canonical_data(
    data: Any, n: int, kind: str = "instance_data", what: str = "instance"
) -> dict[str, np.ndarray]:
    """Every array C-contiguous, of numbers or strings, with ``n`` entries, one per ``what``."""
    if data is None:
        return {}
    if kind == "bag_data" and hasattr(data, "columns") and not isinstance(data, Mapping):
        data = {name: data[name] for name in data.columns}
    if not isinstance(data, Mapping):
        raise TypeError(f"{kind} is {type(data).__name__}: pass {_EXAMPLES[kind]}.")
    arrays = {}
    for name, values in data.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"{kind} has the key {name!r}: name every array by a string.")
        if kind == "bag_data" and not sparse.issparse(values):
            values = _filled(name, as_array(values, f"{kind}[{name!r}]"), what)
        array = canonical_array(name, values, kind)
        arrays[name] = check_length(f"{kind}[{name!r}]", array, n, what)
    return arrays


def canonical_bag_data(data: Any, n_bags: int, names: np.ndarray | None) -> dict[str, np.ndarray]:
    """Columns of bags, of a frame or a mapping of Series whose index names the bags in order."""
    for part in data.values() if isinstance(data, Mapping) else [data]:
        check_index(part, names, "bag_data")
    return canonical_data(data, n_bags, "bag_data", "bag")


def canonical_array(name: str, values: Any, kind: str = "instance_data") -> np.ndarray:
    if sparse.issparse(values):
        raise TypeError(f"{kind}[{name!r}] is sparse: pass a dense array.")
    array = as_array(values, f"{kind}[{name!r}]")
    if array.dtype.kind in "OT":
        entries = array.ravel().tolist()
        if not all(isinstance(entry, str) for entry in entries):
            raise TypeError(f"{kind}[{name!r}] holds Python objects: pass numbers or strings.")
        # Python strings, because joblib.hash of object arrays depends on more than the values.
        array = np.array(entries, dtype=str).reshape(array.shape)
    # Not ascontiguousarray, which would add a dimension to a scalar.
    return np.asarray(array, order="C")


def _filled(name: str, column: np.ndarray, what: str) -> np.ndarray:
    """Python numbers as floats, of which missing ones are NaN; other columns as they are."""
    if column.dtype.kind != "O" or column.ndim != 1:
        return column
    gaps = are_missing(column)
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


def data_of_blocks(
    data: Mapping[str, Any] | None, offsets: np.ndarray
) -> dict[str, np.ndarray] | None:
    """Arrays of the instances given as one block per bag, stacked."""
    if data is None:
        return None
    sizes = np.diff(offsets)
    stacked = {}
    for name, blocks in data.items():
        arrays = [canonical_array(name, block) for block in blocks]
        if len(arrays) != len(sizes):
            raise ValueError(
                f"instance_data[{name!r}] has {len(arrays)} blocks for {len(sizes)} bags: give "
                "one block per bag."
            )
        for position, (array, size) in enumerate(zip(arrays, sizes.tolist(), strict=True)):
            check_length(f"instance_data[{name!r}] of bag {position}", array, size, "instance")
        stacked[name] = _joined(name, arrays, "instance_data")
    return stacked


def frame_data(df: Any, columns: Any, kind: str = "bag_data") -> dict[str, np.ndarray]:
    """Columns of a data frame by the names of arrays: 1-D for a name, 2-D for a list of names."""
    arrays = {}
    for name, chosen in bag_columns(columns, kind).items():
        check_columns("table", to_list(chosen), list(df.columns))
        parts = [df[column].to_numpy() for column in to_list(chosen)]
        arrays[name] = np.stack(parts, axis=1) if isinstance(chosen, (list, tuple)) else parts[0]
    return arrays


# -- annotations of bags: names, two graphs and two mappings of arrays -----------------------------

# Those of bags without any, and all their names.
NO_ANNOTATIONS: dict[str, Any] = {
    "names": None,
    "bag_graph": None,
    "instance_graph": None,
    "instance_data": {},
    "bag_data": {},
}


def selected(annotations: Mapping[str, Any], bags: Any, rows: Any) -> dict[str, Any]:
    """The annotations of some bags, which have these rows of the instances."""
    names = annotations["names"]
    return {
        "names": None if names is None else names[bags],
        "bag_graph": between(annotations["bag_graph"], bags),
        "instance_graph": between(annotations["instance_graph"], rows),
        "instance_data": taken_rows(annotations["instance_data"], rows),
        "bag_data": taken_rows(annotations["bag_data"], bags),
    }


def joined(parts: Sequence[Any]) -> dict[str, Any]:
    """The annotations of the bags of several containers, one after the other."""
    n_bags, n_instances = [len(part) for part in parts], [part.n_instances for part in parts]
    names = [part.names for part in parts if part.names is not None]
    if names and len(names) < len(parts):
        warn_user(
            "Some parts have no names of bags, so that no bag is named: give each part its names=.",
            UserWarning,
        )
    return {
        "names": np.concatenate(names) if len(names) == len(parts) else None,
        "bag_graph": _block_diagonal([part.bag_graph for part in parts], n_bags),
        "instance_graph": _block_diagonal([part.instance_graph for part in parts], n_instances),
        "instance_data": _joined_data([part.instance_data for part in parts], "instance_data"),
        "bag_data": _joined_data([part.bag_data for part in parts], "bag_data"),
    }


def between(graph: Any, chosen: Any) -> Any:
    """The links of a graph between the chosen nodes."""
    return None if graph is None else canonical_csr(graph[chosen][:, chosen])


def _block_diagonal(graphs: Sequence[Any], sizes: Sequence[int]) -> Any:
    if all(graph is None for graph in graphs):
        return None
    blocks = [
        sparse.csr_array((size, size)) if graph is None else graph
        for graph, size in zip(graphs, sizes, strict=True)
    ]
    return canonical_csr(sparse.block_diag(blocks, format="csr"))


def _joined_data(parts: Sequence[Mapping[str, np.ndarray]], kind: str) -> dict[str, np.ndarray]:
    """The concatenated arrays that all parts have."""
    shared = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: _joined(name, [part[name] for part in parts], kind) for name in shared}


def _joined(name: str, arrays: Sequence[np.ndarray], kind: str) -> np.ndarray:
    shapes = {array.shape[1:] for array in arrays}
    texts = {array.dtype.kind in "US" for array in arrays}
    if len(shapes) > 1 or len(texts) > 1:
        kinds = sorted(
            {f"{each.dtype} ({', '.join(['n', *map(str, each.shape[1:])])})" for each in arrays}
        )
        raise ValueError(f"{kind}[{name!r}] cannot be joined: the parts hold {', '.join(kinds)}.")
    return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]


def taken_rows(data: Mapping[str, np.ndarray], rows: Any) -> dict[str, np.ndarray]:
    """All arrays at the given rows, which are an index array or a slice."""
    return {name: values[rows] for name, values in data.items()}


# -- columns of bags in rows of instances, or of groups in bags ------------------------------------


def bag_columns(columns: Any, kind: str = "bag_data") -> dict[str, Any]:
    """Names of columns of a table by the names of arrays of bags, or of instances."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        return dict(columns)
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise TypeError(
            f"{kind} must be a list of names of columns, such as ['age', 'stain'], or a dict that "
            "gives them other names."
        )
    return {name: name for name in columns}


def entries_of_groups(
    columns: Mapping[str, np.ndarray],
    codes: np.ndarray,
    first: np.ndarray,
    names: Sequence[Any],
    **words: str,
) -> dict[str, np.ndarray]:
    """Columns of ``bag_data`` that groups of rows have in common, see :func:`entry_of_groups`."""
    return {
        name: entry_of_groups(each, codes, first, names, f"entries of bag_data[{name!r}]", **words)
        for name, each in columns.items()
    }


def entry_of_groups(
    values: np.ndarray,
    codes: np.ndarray,
    first: np.ndarray,
    names: Sequence[Any],
    what: str,
    *,
    who: str = "Bag {name!r} has",
    advice: str = "a bag has one",
) -> np.ndarray:
    """The common entry of the rows of each group, see :func:`differing_row`, or an error."""
    row = differing_row(values, codes, first)
    if row is not None:
        start = first[codes[row]]
        # NumPy 1 and 2 print records in their own ways.
        two = [v.item() if isinstance(v, np.void) else v for v in (values[start], values[row])]
        whose = who.format(name=names[codes[row]], first=start, row=row)
        raise ValueError(f"{whose} two {what}, {two[0]!s} and {two[1]!s}: {advice}.")
    return values[first]


def differing_row(values: np.ndarray, codes: np.ndarray, first: np.ndarray) -> int | None:
    """The first row whose entry differs from that of the first row of its group, if any.

    Missing entries are equal.

    Parameters
    ----------
    values : ndarray of shape (n_rows, ...)
    codes : ndarray of shape (n_rows,)
        Group of each row.
    first : ndarray of shape (n_groups,)
        First row of each group.
    """
    gaps = are_missing(values)
    if values.dtype.kind == "O":
        values = values.copy()
        values[gaps] = None  # pandas.NA cannot be compared
    same = np.asarray(values == values[first][codes]) | (gaps & gaps[first][codes])
    rows = np.flatnonzero(~same.reshape(len(values), -1).all(axis=1))
    return int(rows[0]) if len(rows) else None
