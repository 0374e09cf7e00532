"""Conversion between bags and list arrays of Apache Arrow, which have the same layout."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .canonical import CATEGORY_ADVICE, check_choice, check_columns, is_missing, listed
from .segments import offsets_of

# Key of the names of features in the metadata of a schema.
_METADATA = b"milearn"
_SHOWN = 5


def need_module(name: str, what: str) -> Any:
    """An optional library, or an error with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{what} needs {name}: install milearn[frames], or {name} itself."
        ) from error


# -- reading -----------------------------------------------------------------------------------


def arrow_table(data: Any) -> Any:
    """Convert anything that Arrow can read to a table with one column per part of the bags."""
    pa = need_module("pyarrow", "Bags.from_arrow")
    if hasattr(data, "reset_index"):
        # pandas, of which Arrow would make a column of an index that is not a range.
        data = data.reset_index(drop=True)
        data = pa.Table.from_pandas(data) if hasattr(data, "columns") else pa.array(data)
    elif hasattr(data, "to_arrow"):
        data = data.to_arrow()
    elif hasattr(data, "__arrow_array__"):
        data = pa.array(data)
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        return pa.table({"instances": data})
    if not isinstance(data, (pa.Table, pa.RecordBatch)):
        raise TypeError(
            f"{type(data).__name__} is not an Arrow table or array: convert it with pyarrow, or "
            "use Bags.from_list."
        )
    return data if isinstance(data, pa.Table) else pa.Table.from_batches([data])


def _holds_lists(kind: Any) -> bool:
    kinds = need_module("pyarrow.types", "Bags.from_arrow")
    return kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)


def has_lists(table: Any) -> bool:
    """Whether a column contains lists, so that a row is a bag and not an instance."""
    return any(_holds_lists(field.type) for field in table.schema)


def read_nested(
    table: Any,
    *,
    bag: str | None,
    label: str | None,
    features: Sequence[str] | None,
    instance_data: Mapping[str, Any] | None,
    bag_data: Mapping[str, str] | None,
    empty: str,
) -> tuple[dict[str, Any], np.ndarray | None, np.ndarray]:
    """The arguments of a container from a table with one row per bag, the labels and the ids.

    See :meth:`milearn.Bags.from_arrow`.
    """
    check_choice("empty", empty, ("raise", "drop"))
    noted = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    if features is None and instance_data is None and noted:
        features, instance_data = noted["features"], noted["instance_data"]
        bag_data = noted.get("bag_data") if bag_data is None else bag_data
    bag_data, data = bag_data or {}, instance_data or {}
    scalars = [name for name in (bag, label, *bag_data.values()) if name is not None]
    taken = [name for chosen in data.values() for name in listed(chosen)]
    if features is None:
        features = [name for name in table.column_names if name not in (*scalars, *taken)]
    if not features:
        raise ValueError("The table has no column of features: bags need at least one.")
    names = [*dict.fromkeys([*taken, *features])]
    check_columns("table", [*scalars, *names], table.column_names)
    table = _without_empty(table, names, bag, empty)
    ids = np.arange(len(table)) if bag is None else table.column(bag).to_numpy()
    keys = ids.tolist()
    missing = next((row for row, key in enumerate(keys) if is_missing(key)), None)
    if missing is not None:
        raise ValueError(f"The column {bag!r} names no bag in row {missing}: name every bag.")
    if len(set(keys)) < len(keys):
        raise ValueError(f"The column {bag!r} names a bag in two rows: give one row per bag.")
    offsets, columns = _flat_columns(table, names, ids)
    feature_names = noted.get("feature_names") if len(features) == 1 else None
    matrices = [_matrix(columns[name], name) for name in features]
    if feature_names is None and all(matrix.shape[1] == 1 for matrix in matrices):
        feature_names = None if list(features) == ["instances"] else list(features)
    parts = {
        "instances": matrices[0] if len(matrices) == 1 else np.concatenate(matrices, axis=1),
        "offsets": offsets,
        "feature_names": feature_names,
        "instance_data": {name: _data_array(columns, chosen) for name, chosen in data.items()},
        "bag_data": {name: _scalars(table, column) for name, column in bag_data.items()},
    }
    return parts, None if label is None else table.column(label).to_numpy(), ids


def _scalars(table: Any, name: str) -> np.ndarray:
    """The entries of a column that becomes a column of the bags; missing ones are None."""
    column = table.column(name)
    if _holds_lists(column.type):
        raise ValueError(f"The column {name!r} holds lists: bag_data has one entry per bag.")
    return np.array(column.to_pylist(), object) if column.null_count else column.to_numpy()


def _sizes(column: Any) -> np.ndarray:
    """The lengths of lists, of which missing ones have no entry."""
    compute = need_module("pyarrow.compute", "Bags.from_arrow")
    return compute.fill_null(compute.list_value_length(column), 0).to_numpy()


def _without_empty(table: Any, names: Sequence[str], bag: str | None, empty: str) -> Any:
    """The rows in which no list is missing or empty."""
    full = np.ones(len(table), dtype=bool)
    for name in names:
        column = table.column(name)
        if not _holds_lists(column.type):
            raise ValueError(
                f"The column {name!r} holds {column.type} and no lists: name it as bag or label, "
                "or choose the columns by features."
            )
        full &= _sizes(column) > 0
    if full.all():
        return table
    ids = np.arange(len(table)) if bag is None else table.column(bag).to_numpy()
    if empty == "raise":
        shown = ", ".join(repr(key) for key in ids[~full][:_SHOWN].tolist())
        n_empty = len(full) - int(full.sum())
        more = f" and {n_empty - _SHOWN} more" if n_empty > _SHOWN else ""
        raise ValueError(
            f"{n_empty} bag(s) are without an instance: {shown}{more}. Every bag needs at least "
            "one instance; remove them, or pass empty='drop'."
        )
    return table.filter(full)


def _flat_columns(
    table: Any, names: Sequence[str], ids: np.ndarray
) -> tuple[np.ndarray, dict[str, Any]]:
    """The common offsets of all columns of lists, and the entries of the lists of each column."""
    sizes = _sizes(table.column(names[0]))
    for name in names:
        found = _sizes(table.column(name))
        differ = np.flatnonzero(sizes != found)
        if len(differ):
            row = int(differ[0])
            raise ValueError(
                f"Bag {ids.tolist()[row]!r} has {sizes[row]} instances in {names[0]!r} but "
                f"{found[row]} in {name!r}: all lists of a bag must have one length."
            )
    columns = [table.column(name) for name in names]
    # combine_chunks copies a single chunk, too.
    lists = [each.chunk(0) if each.num_chunks == 1 else each.combine_chunks() for each in columns]
    return offsets_of(sizes), {n: each.flatten() for n, each in zip(names, lists, strict=True)}


def _matrix(values: Any, name: str) -> np.ndarray:
    """Values of instances as a matrix with one row per instance."""
    if not _holds_lists(values.type):
        return _numbers(values, name).reshape(-1, 1)
    if values.null_count:
        raise ValueError(f"The column {name!r} has an instance that is missing (null).")
    sizes = _sizes(values)
    differ = np.flatnonzero(sizes != sizes[:1])
    if len(differ):
        row = int(differ[0])
        raise ValueError(
            f"Instance {row} of {name!r} has {sizes[row]} features but the first has {sizes[0]}: "
            "every instance must have the same features."
        )
    return _numbers(values.flatten(), name).reshape(len(sizes), -1)


def _numbers(values: Any, name: str) -> np.ndarray:
    kinds, kind = need_module("pyarrow.types", "Bags.from_arrow"), values.type
    if not (kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind)):
        advice = "" if kinds.is_temporal(kind) else f", {CATEGORY_ADVICE}"
        raise ValueError(
            f"The column {name!r} holds {kind} values: encode them as numbers first{advice}."
        )
    if values.null_count and not kinds.is_floating(kind):
        values = values.cast("float64")
    return values.to_numpy(zero_copy_only=False)


def _data_array(columns: dict[str, Any], chosen: Any) -> np.ndarray:
    """One array of the instances, from a list of columns, a column of lists, or a column."""
    if isinstance(chosen, (list, tuple)):
        return np.concatenate([_matrix(columns[name], name) for name in chosen], axis=1)
    values = columns[chosen]
    if _holds_lists(values.type):
        return _matrix(values, chosen)
    if values.null_count:
        raise ValueError(f"The column {chosen!r} has missing values: instance data has none.")
    return values.to_numpy(zero_copy_only=False)


# -- writing -----------------------------------------------------------------------------------


def table_of(bags: Any, y: Any, ids: Any) -> Any:
    """The table with one row per bag that :meth:`milearn.Bags.to_arrow` returns."""
    pa = need_module("pyarrow", "Bags.to_arrow")
    if sparse.issparse(bags.instance_rows):
        raise ValueError("Arrow holds dense instances only: make them dense first.")
    for name in ("bag_graph", "instance_graph"):
        if getattr(bags, name) is not None:
            raise ValueError(f"Arrow does not hold {name}: save the bags by save_bags.")
    columns: dict[str, Any] = {}
    for name, values in (("bag", ids), ("label", y)):
        if values is not None:
            if len(values) != len(bags):
                raise ValueError(f"{name} has {len(values)} entries for {len(bags)} bags.")
            columns[name] = pa.array(values)
    for kind in ("instance_data", "bag_data"):
        others = set(bags.instance_data) if kind == "bag_data" else set()
        taken = ({"bag", "label", "instances"} | others) & set(getattr(bags, kind))
        if taken:
            raise ValueError(f"{kind} has the name {taken.pop()!r} of a column: rename it.")
    for name, values in bags.bag_data.items():
        if values.ndim > 1:
            raise ValueError(f"bag_data[{name!r}] has {values.ndim} dimensions: Arrow holds one.")
        columns[name] = pa.array(values)
    columns["instances"] = _lists(pa, bags.offsets, bags.instances)
    for name, values in bags.instance_data.items():
        columns[name] = _lists(pa, bags.offsets, values)
    names = bags.feature_names
    noted = {
        "features": ["instances"],
        "instance_data": {name: name for name in bags.instance_data},
        "bag_data": {name: name for name in bags.bag_data},
        "feature_names": None if names is None else names.tolist(),
    }
    return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(noted)})


def _lists(pa: Any, offsets: np.ndarray, values: np.ndarray) -> Any:
    if values.ndim > 2:
        raise ValueError("Arrow holds instance data of one or two dimensions only.")
    flat = pa.array(values.reshape(-1))
    if values.ndim == 2:
        flat = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    if offsets[-1] <= np.iinfo(np.int32).max:
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat)
    return pa.LargeListArray.from_arrays(pa.array(offsets.astype(np.int64)), flat)
