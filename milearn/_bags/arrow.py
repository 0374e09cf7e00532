"""Conversion between bags and list arrays of Apache Arrow, which have the same layout."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .coerce import CATEGORY_ADVICE, check_columns, is_missing, listed
from .segments import offsets_of

__all__ = ["NestedTable", "arrow_table", "has_lists", "need_module", "read_nested", "table_of"]

# Key of the names of features in the metadata of a schema.
_METADATA = b"milearn"
_SHOWN = 5


@dataclass
class NestedTable:
    """The parts of a container from a table with one row per bag."""

    instances: np.ndarray
    offsets: np.ndarray
    feature_names: list[str] | None
    instance_data: dict[str, np.ndarray]
    bag_data: dict[str, np.ndarray]
    labels: np.ndarray | None
    ids: np.ndarray


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
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if not isinstance(data, (pa.Table, pa.Array, pa.ChunkedArray)):
        data = _array_or_table(pa, data)
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.Array):
        data = pa.chunked_array([data])
    if pa.types.is_struct(data.type):
        return pa.Table.from_struct_array(data)
    return pa.table({"instances": data})


def _array_or_table(pa: Any, data: Any) -> Any:
    if hasattr(data, "reset_index"):
        # pandas, of which Arrow would make a column of an index that is not a range.
        flat = data.reset_index(drop=True)
        return pa.Table.from_pandas(flat) if hasattr(data, "columns") else pa.array(flat)
    if hasattr(data, "to_arrow"):
        return data.to_arrow()
    if hasattr(data, "__arrow_array__") or hasattr(data, "__arrow_c_array__"):
        return pa.array(data)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data) if hasattr(data, "columns") else pa.chunked_array(data)
    raise TypeError(
        f"{type(data).__name__} is not an Arrow table or array: convert it with pyarrow, or "
        "use Bags.from_list."
    )


def _kinds() -> Any:
    return need_module("pyarrow.types", "Bags.from_arrow")


def holds_lists(kind: Any) -> bool:
    kinds = _kinds()
    return kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)


def has_lists(table: Any) -> bool:
    """Whether a column contains lists, so that a row is a bag and not an instance."""
    return any(holds_lists(field.type) for field in table.schema)


def read_nested(
    table: Any,
    *,
    bag: str | None,
    label: str | None,
    features: Sequence[str] | None,
    instance_data: Mapping[str, Any] | None,
    bag_data: Mapping[str, str] | None,
    empty: str,
) -> NestedTable:
    """The parts of a table with one row per bag, see :meth:`milearn.Bags.from_arrow`."""
    if empty not in ("raise", "drop"):
        raise ValueError(f"empty={empty!r} is unknown: choose 'raise' or 'drop'.")
    noted = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    if features is None and instance_data is None and noted:
        features, instance_data = noted["features"], noted["instance_data"]
        bag_data = noted.get("bag_data") if bag_data is None else bag_data
    bag_data = bag_data or {}
    scalars = [name for name in (bag, label, *bag_data.values()) if name is not None]
    data = {name: listed(chosen) for name, chosen in (instance_data or {}).items()}
    taken = {name for chosen in data.values() for name in chosen}
    wanted = _wanted(table, scalars, None if features is None else {*features, *taken})
    table = table.select([*dict.fromkeys(scalars), *wanted])
    table = _without_nulls(table, wanted, bag, empty)
    ids = np.arange(len(table)) if bag is None else table.column(bag).to_numpy()
    labels = None if label is None else table.column(label).to_numpy()
    of_bags = {name: _scalars(table, column) for name, column in bag_data.items()}
    offsets, columns = _flat_columns(table, wanted, ids)
    full = np.diff(offsets) > 0
    if not full.all():
        _check_dropped(ids[~full], "without an instance", empty)
        offsets, ids = offsets_of(np.diff(offsets)[full]), ids[full]
        labels = None if labels is None else labels[full]
        of_bags = {name: values[full] for name, values in of_bags.items()}
    _check_ids(ids.tolist(), bag)
    chosen = features or [name for name in columns if name not in taken]
    check_columns("table", [*taken, *chosen], list(columns))
    arrays = {
        name: _data_array({part: columns[part] for part in parts}, instance_data[name])
        for name, parts in data.items()
        if instance_data is not None
    }
    if not chosen:
        raise ValueError("The table has no column of features: bags need at least one.")
    matrices = [_matrix(columns[name], name) for name in chosen]
    names = noted.get("feature_names") if len(chosen) == 1 else None
    if names is None and all(matrix.shape[1] == 1 for matrix in matrices) and "" not in chosen:
        names = None if chosen == ["instances"] else list(chosen)
    matrix = matrices[0] if len(matrices) == 1 else np.concatenate(matrices, axis=1)
    return NestedTable(matrix, offsets, names, arrays, of_bags, labels, ids)


def _scalars(table: Any, name: str) -> np.ndarray:
    """The entries of a column that becomes a column of the bags; missing ones are None."""
    column = table.column(name)
    if holds_lists(column.type):
        raise ValueError(f"The column {name!r} holds lists: bag_data has one entry per bag.")
    if column.null_count:
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy()


def _wanted(table: Any, scalars: list[str], named: set[str] | None) -> list[str]:
    """Columns of lists to read; a name may also refer to a field of their structs."""
    check_columns("table", scalars, table.column_names)
    names = {
        field.name: {field.name, *_fields_of(field.type)}
        for field in table.schema
        if field.name not in scalars
    }
    if named is not None:
        names = {name: known for name, known in names.items() if named & known}
        unknown = named.difference(*names.values())
        check_columns("table", sorted(unknown), table.column_names)
    check_columns("table", list(names), table.column_names)
    for name in names:
        kind = table.schema.field(name).type
        if not holds_lists(kind):
            raise ValueError(
                f"The column {name!r} holds {kind} and no lists: name it as bag or label, or "
                "choose the columns by features."
            )
    return list(names)


def _fields_of(kind: Any) -> list[str]:
    inner = kind.value_type if holds_lists(kind) else kind
    return [field.name for field in inner] if _kinds().is_struct(inner) else []


def _without_nulls(table: Any, wanted: list[str], bag: str | None, empty: str) -> Any:
    """The rows in which no list is missing."""
    if not any(table.column(name).null_count for name in wanted):
        return table
    valid = [table.column(name).is_valid().to_numpy() for name in wanted]
    found = np.logical_and.reduce(valid)
    ids = np.arange(len(table)) if bag is None else table.column(bag).to_numpy()
    _check_dropped(ids[~found], "missing (null)", empty)
    return table.filter(found)


def _check_dropped(ids: np.ndarray, what: str, empty: str) -> None:
    if empty == "raise":
        shown = ", ".join(repr(key) for key in ids[:_SHOWN].tolist())
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        raise ValueError(
            f"{len(ids)} bag(s) are {what}: {shown}{more}. Every bag needs at least one instance; "
            "remove them, or pass empty='drop'."
        )


def _check_ids(ids: list[Any], bag: str | None) -> None:
    missing = next((row for row, key in enumerate(ids) if is_missing(key)), None)
    if missing is not None:
        raise ValueError(f"The column {bag!r} names no bag in row {missing}: name every bag.")
    if len(set(ids)) < len(ids):
        raise ValueError(f"The column {bag!r} names a bag in two rows: give one row per bag.")


def _flat_columns(
    table: Any, wanted: list[str], ids: np.ndarray
) -> tuple[np.ndarray, dict[str, Any]]:
    """The common offsets of all columns, and the values of each column or field of a struct."""
    if not wanted:
        raise ValueError("The table has no column of lists: pass bag= for one row per instance.")
    columns: dict[str, Any] = {}
    lists = {name: _unnested(_one_chunk(table.column(name))) for name in wanted}
    offsets, _ = lists[wanted[0]]
    for name, (firsts, values) in lists.items():
        differ = np.flatnonzero(np.diff(offsets) != np.diff(firsts))
        if len(differ):
            row = int(differ[0])
            raise ValueError(
                f"Bag {ids.tolist()[row]!r} has {np.diff(offsets)[row]} instances in "
                f"{wanted[0]!r} but {np.diff(firsts)[row]} in {name!r}: all lists of a bag must "
                "have one length."
            )
        parts = {name: values}
        if _kinds().is_struct(values.type):
            _refuse_nulls(values, name)
            parts = dict(zip(_fields_of(values.type), values.flatten(), strict=True))
        for part, value in parts.items():
            if columns.setdefault(part, value) is not value:
                raise ValueError(f"Two columns of the table are named {part!r}: rename one.")
    return offsets, columns


def _refuse_nulls(values: Any, name: str) -> None:
    if values.null_count:
        raise ValueError(f"The column {name!r} has an instance that is missing (null).")


def _one_chunk(column: Any) -> Any:
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if hasattr(whole, "chunks"):
        # Some versions return a chunked array for no chunks and for very long ones.
        whole = need_module("pyarrow", "Bags.from_arrow").concat_arrays(whole.chunks)
    return _stored(whole)


def _stored(array: Any) -> Any:
    """The storage of an array with an extension type."""
    return array.storage if hasattr(array, "storage") else array


def _unnested(array: Any) -> tuple[np.ndarray, Any]:
    """Offsets from 0 and the values of an array of lists without nulls."""
    if _kinds().is_fixed_size_list(array.type):
        return np.arange(len(array) + 1) * array.type.list_size, _stored(array.flatten())
    offsets = np.asarray(array.offsets).astype(np.intp)
    values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    return offsets - offsets[0], _stored(values)


def _matrix(values: Any, name: str) -> np.ndarray:
    """Values of instances as a matrix with one row per instance."""
    if not holds_lists(values.type):
        return _numbers(values, name).reshape(-1, 1)
    _refuse_nulls(values, name)
    offsets, inner = _unnested(values)
    sizes = np.diff(offsets)
    width = getattr(values.type, "list_size", sizes[0] if len(sizes) else 0)
    differ = np.flatnonzero(sizes != width)
    if len(differ):
        row = int(differ[0])
        raise ValueError(
            f"Instance {row} of {name!r} has {sizes[row]} features but the first has {sizes[0]}: "
            "every instance must have the same features."
        )
    return _numbers(inner, name).reshape(len(sizes), int(width))


def _numbers(values: Any, name: str) -> np.ndarray:
    kinds, kind = _kinds(), values.type
    if not (kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind)):
        advice = "" if kinds.is_temporal(kind) else f", {CATEGORY_ADVICE}"
        raise ValueError(
            f"The column {name!r} holds {kind} values: encode them as numbers first{advice}."
        )
    if values.null_count:
        wide = kind if kinds.is_floating(kind) else "float64"
        return values.cast(wide).to_numpy(zero_copy_only=False)
    return values.to_numpy(zero_copy_only=not kinds.is_boolean(kind))


def _data_array(columns: dict[str, Any], chosen: Any) -> np.ndarray:
    """One array of the instances, from a list of columns, a column of lists, or a column."""
    if isinstance(chosen, (list, tuple)):
        return np.concatenate([_matrix(columns[name], name) for name in chosen], axis=1)
    values = columns[chosen]
    if holds_lists(values.type):
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
