"""Bags from and to the list arrays of Apache Arrow: their offsets and values are our layout."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .coerce import is_missing

__all__ = ["NestedTable", "arrow_table", "has_lists", "need_module", "read_nested", "table_of"]

# Key in the metadata of a schema under which the parts of the bags are named.
_METADATA = b"milearn"
_SHOWN = 5


@dataclass
class NestedTable:
    """The parts of a container from a table with one row per bag."""

    instances: np.ndarray
    offsets: np.ndarray
    feature_names: list[str] | None
    instance_data: dict[str, np.ndarray]
    labels: np.ndarray | None
    ids: np.ndarray


def need_module(name: str, what: str) -> Any:
    """An optional library, or an error that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{what} needs {name}: install milearn[frames], or {name} itself."
        ) from error


# -- reading -----------------------------------------------------------------------------------


def arrow_table(data: Any) -> Any:
    """Anything that Arrow knows as a table: one column per part of the bags."""
    pa = need_module("pyarrow", "Bags.from_arrow")
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        data = _array_or_table(pa, data)
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.Array):
        data = pa.chunked_array([data])
    if pa.types.is_struct(data.type):
        return pa.Table.from_struct_array(data)
    return pa.table({"instances": data})


def _array_or_table(pa: Any, data: Any) -> Any:
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        return data
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
        f"{type(data).__name__} is no Arrow table or array: pass what pyarrow makes of it, or use "
        "Bags.from_list."
    )


def holds_lists(pa: Any, kind: Any) -> bool:
    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def has_lists(table: Any) -> bool:
    """Whether some column holds lists, so that a row is a bag and no instance."""
    pa = need_module("pyarrow", "Bags.from_arrow")
    return any(holds_lists(pa, field.type) for field in table.schema)


def read_nested(
    table: Any,
    *,
    bag: str | None,
    label: str | None,
    features: Sequence[str] | None,
    instance_data: Mapping[str, Any] | None,
    empty: str,
) -> NestedTable:
    """The parts of a table with one row per bag, as :meth:`milearn.Bags.from_arrow` says."""
    pa = need_module("pyarrow", "Bags.from_arrow")
    if empty not in ("raise", "drop"):
        raise ValueError(f"empty={empty!r} is unknown: choose 'raise' or 'drop'.")
    noted = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    if features is None and instance_data is None and noted:
        features, instance_data = noted["features"], noted["instance_data"]
    beside = [name for name in (bag, label) if name is not None]
    wanted = _wanted(pa, table, beside, features, instance_data)
    table = table.select([*beside, *wanted])
    ids = _scalars(table, bag) if bag is not None else np.arange(len(table))
    table, ids = _without_nulls(pa, table, wanted, ids, empty)
    offsets, columns = _flat_columns(pa, table, wanted, ids)
    sizes = np.diff(offsets)
    labels = _scalars(table, label) if label is not None else None
    if (sizes == 0).any():
        if empty == "raise":
            raise ValueError(_named(ids[sizes == 0], "without an instance"))
        offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        ids, labels = ids[sizes > 0], None if labels is None else labels[sizes > 0]
    missing = np.flatnonzero([is_missing(key) for key in ids.tolist()])
    if len(missing):
        raise ValueError(f"The column {bag!r} names no bag in row {missing[0]}: name every bag.")
    if len(set(ids.tolist())) < len(ids):
        raise ValueError(f"The column {bag!r} names a bag in two rows: give one row per bag.")
    data = {
        name: _data_array(pa, columns, name, chosen)
        for name, chosen in (instance_data or {}).items()
    }
    taken = {name for chosen in (instance_data or {}).values() for name in _listed(chosen)}
    chosen = features or [name for name in columns if name not in taken]
    _check_known(chosen, list(columns))
    matrices = [_matrix(pa, columns[name], name) for name in chosen]
    if not matrices:
        raise ValueError("The table has no column of features: bags need at least one.")
    alone = len(matrices) == 1
    names = noted.get("feature_names") if alone else None
    if names is None and all(matrix.shape[1] == 1 for matrix in matrices) and "" not in chosen:
        names = None if alone and chosen == ["instances"] else list(chosen)
    matrix = matrices[0] if alone else np.concatenate(matrices, axis=1)
    return NestedTable(matrix, offsets, names, data, labels, ids)


def _listed(chosen: Any) -> list[str]:
    return list(chosen) if isinstance(chosen, (list, tuple)) else [chosen]


def _check_known(names: Sequence[str], columns: list[str]) -> None:
    for name in names:
        if columns.count(name) != 1:
            raise ValueError(
                f"The table has {columns.count(name) or 'no'} column"
                f"{'s' if name in columns else ''} {name!r}: its columns are {columns}."
            )


def _wanted(
    pa: Any,
    table: Any,
    beside: list[str],
    features: Sequence[str] | None,
    instance_data: Mapping[str, Any] | None,
) -> list[str]:
    """Columns of lists to read; a name may also be that of a field of their structs."""
    _check_known(beside, table.column_names)
    lists = [field for field in table.schema if field.name not in beside]
    if features is not None:
        named = {
            *features,
            *(n for chosen in (instance_data or {}).values() for n in _listed(chosen)),
        }
        lists = [field for field in lists if named & {field.name, *_fields_of(pa, field.type)}]
        known = {name for field in lists for name in (field.name, *_fields_of(pa, field.type))}
        _check_known([name for name in sorted(named) if name not in known], table.column_names)
    names = []
    for field in lists:
        if not holds_lists(pa, field.type):
            raise ValueError(
                f"The column {field.name!r} holds {field.type} and no lists: name it as bag or "
                "label, or choose the columns by features."
            )
        names.append(field.name)
    _check_known(names, table.column_names)
    return names


def _fields_of(pa: Any, kind: Any) -> list[str]:
    inner = kind.value_type if holds_lists(pa, kind) else kind
    return [field.name for field in inner] if pa.types.is_struct(inner) else []


def _scalars(table: Any, name: str | None) -> np.ndarray:
    return table.column(name).to_numpy()


def _without_nulls(
    pa: Any, table: Any, wanted: list[str], ids: np.ndarray, empty: str
) -> tuple[Any, np.ndarray]:
    """The rows in which no list is missing."""
    if not any(table.column(name).null_count for name in wanted):
        return table, ids
    there = np.ones(len(table), dtype=bool)
    for name in wanted:
        there &= table.column(name).is_valid().to_numpy()
    if empty == "raise":
        raise ValueError(_named(ids[~there], "missing (null)"))
    return table.filter(pa.array(there)), ids[there]


def _named(ids: np.ndarray, what: str) -> str:
    shown = ", ".join(repr(key) for key in ids[:_SHOWN].tolist())
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return (
        f"{len(ids)} bag(s) are {what}: {shown}{more}. Every bag needs at least one instance; "
        "remove them, or pass empty='drop'."
    )


def _flat_columns(
    pa: Any, table: Any, wanted: list[str], ids: np.ndarray
) -> tuple[np.ndarray, dict[str, Any]]:
    """The offsets, which all columns share, and the values of each column or field of a struct."""
    offsets = None
    columns: dict[str, Any] = {}
    for name in wanted:
        firsts, values = _unnested(pa, _one_chunk(pa, table.column(name)))
        if offsets is None:
            offsets = firsts
        elif not np.array_equal(offsets, firsts):
            row = int(np.flatnonzero(np.diff(offsets) != np.diff(firsts))[0])
            raise ValueError(
                f"Bag {ids.tolist()[row]!r} has {np.diff(offsets)[row]} instances in "
                f"{wanted[0]!r} but {np.diff(firsts)[row]} in {name!r}: all lists of a bag must "
                "have one length."
            )
        if pa.types.is_struct(values.type):
            if values.null_count:
                raise ValueError(f"The column {name!r} has an instance that is missing (null).")
            parts = dict(zip(_fields_of(pa, values.type), values.flatten(), strict=True))
        else:
            parts = {name: values}
        for part in parts:
            if part in columns:
                raise ValueError(f"Two columns of the table are named {part!r}: rename one.")
        columns |= parts
    if offsets is None:
        raise ValueError("The table has no column of lists: pass bag= for one row per instance.")
    return offsets, columns


def _one_chunk(pa: Any, column: Any) -> Any:
    if column.num_chunks == 1:
        return _stored(column.chunk(0))
    whole = column.combine_chunks()
    # Of no chunks and of very long ones some versions make a chunked array again.
    return _stored(whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks))


def _stored(array: Any) -> Any:
    """The storage of an array of an extension type."""
    return array.storage if hasattr(array, "storage") else array


def _unnested(pa: Any, array: Any) -> tuple[np.ndarray, Any]:
    """Offsets from 0 and the values of an array of lists without nulls."""
    if pa.types.is_fixed_size_list(array.type):
        return np.arange(len(array) + 1) * array.type.list_size, _stored(array.flatten())
    offsets = np.asarray(array.offsets).astype(np.intp)
    values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    return offsets - offsets[0], _stored(values)


def _matrix(pa: Any, values: Any, name: str) -> np.ndarray:
    """Values of instances as a matrix with one row per instance."""
    if not holds_lists(pa, values.type):
        return _numbers(pa, values, name).reshape(-1, 1)
    if values.null_count:
        raise ValueError(f"The column {name!r} has an instance that is missing (null).")
    offsets, inner = _unnested(pa, values)
    sizes = np.diff(offsets)
    if len(sizes) and (sizes != sizes[0]).any():
        row = int(np.flatnonzero(sizes != sizes[0])[0])
        raise ValueError(
            f"Instance {row} of {name!r} has {sizes[row]} features but the first has {sizes[0]}: "
            "every instance must have the same features."
        )
    if pa.types.is_fixed_size_list(values.type):
        width = values.type.list_size
    else:
        width = int(sizes[0]) if len(sizes) else 0
    return _numbers(pa, inner, name).reshape(len(sizes), width)


def _numbers(pa: Any, values: Any, name: str) -> np.ndarray:
    kinds = pa.types
    kind = values.type
    if not (kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind)):
        raise ValueError(f"The column {name!r} holds {kind} values: encode them as numbers first.")
    if values.null_count:
        wide = kind if kinds.is_floating(kind) else pa.float64()
        return values.cast(wide).to_numpy(zero_copy_only=False)
    return values.to_numpy(zero_copy_only=not kinds.is_boolean(kind))


def _data_array(pa: Any, columns: dict[str, Any], name: str, chosen: Any) -> np.ndarray:
    _check_known(_listed(chosen), list(columns))
    if isinstance(chosen, (list, tuple)):
        return np.concatenate([_matrix(pa, columns[each], each) for each in chosen], axis=1)
    values = columns[chosen]
    if holds_lists(pa, values.type):
        return _matrix(pa, values, chosen)
    if values.null_count:
        raise ValueError(f"The column {chosen!r} has missing values: instance data has none.")
    return values.to_numpy(zero_copy_only=False)


# -- writing -----------------------------------------------------------------------------------


def table_of(bags: Any, y: Any, ids: Any) -> Any:
    """The table with one row per bag that :meth:`milearn.Bags.to_arrow` gives."""
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
    taken = {"bag", "label", "instances"} & set(bags.instance_data)
    if taken:
        raise ValueError(f"instance_data has the name {taken.pop()!r} of a column: rename it.")
    columns["instances"] = _lists(pa, bags.offsets, bags.instances)
    for name, values in bags.instance_data.items():
        columns[name] = _lists(pa, bags.offsets, values)
    names = bags.feature_names
    noted = {
        "features": ["instances"],
        "instance_data": {name: name for name in bags.instance_data},
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
