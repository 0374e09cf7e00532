"""Conversion between bags and Arrow tables, data frames and lists, and HTML for notebooks."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from scipy import sparse

from .canonical import CATEGORY_ADVICE, check_choice, check_columns, is_missing, to_list
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
        features, lists = noted["features"], noted["instance_data"]
        plain = noted.get("bag_data", {})
        known = {*features, *lists, *plain, bag, label, "bag", "label"}
        # Columns that were added to the table are data, too.
        for field in table.schema:
            if field.name not in known:
                (lists if _holds_lists(field.type) else plain)[field.name] = field.name
        instance_data, bag_data = lists, plain if bag_data is None else bag_data
    bag_data, data = bag_data or {}, instance_data or {}
    scalars = [name for name in (bag, label, *bag_data.values()) if name is not None]
    taken = [name for chosen in data.values() for name in to_list(chosen)]
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


_NAMES = 8  # maximum number of feature names


class BagExports:
    """The methods of :class:`milearn.Bags` that return other containers."""

    def to_list(self) -> list[Any]:
        """The bags as a list of 2-D blocks, the input of :meth:`from_list`.

        Returns
        -------
        list of n_bags ndarray or csr_array of shape (bag size, n_features)
            Read-only views if the instances are in memory.
        """
        return list(self)  # type: ignore[call-overload]

    def to_frame(self, *, bag: str = "bag", ids: Any = None, y: Any = None) -> Any:
        """A long pandas data frame with one row per instance, the input of :meth:`from_frame`.

        Parameters
        ----------
        bag : str, default="bag"
            Name of the first column, which contains the bag of each row.
        ids : array-like of shape (n_bags,), default=None
            Identifiers of the bags; by default, 0, 1, ...
        y : array-like of shape (n_bags,), default=None
            Labels of the bags, repeated for their rows in the column ``label``.

        Returns
        -------
        pandas.DataFrame
            Without feature names the features are ``x0, x1, ...``. Instance data of one dimension
            is a column of its name; with two dimensions it is the columns ``name_0, name_1, ...``.
            Columns of ``bag_data`` follow in the same form, repeated for the rows of each bag.

        Raises
        ------
        ValueError
            For sparse instances, columns of the same name, data of three dimensions, or ``ids`` or
            ``y`` that are not one per bag.
        ImportError
            Without pandas.

        Notes
        -----
        Graphs are left out.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_list([[[1.0], [2.0]], [[3.0]]], instance_data={"at": [[7, 8], [9]]})
        >>> bags.to_frame(ids=["a", "b"], y=[1, 0])
          bag  label   x0  at
        0   a      1  1.0   7
        1   a      1  2.0   8
        2   b      0  3.0   9
        """
        pandas = need_module("pandas", "Bags.to_frame")
        bags: Any = self
        if sparse.issparse(bags.instance_rows):
            raise ValueError("A data frame needs dense instances: make them dense first.")
        names = bags.feature_names
        if names is None:
            names = [f"x{column}" for column in range(bags.shape[1])]
        frames = [pandas.DataFrame(bags.instances, columns=list(names))]
        frames += [
            _frame(pandas, name, values, "instance_data")
            for name, values in bags.instance_data.items()
        ]
        frames += [
            _frame(pandas, name, values[bags.bag_index], "bag_data")
            for name, values in bags.bag_data.items()
        ]
        frame = pandas.concat(frames, axis=1)
        if y is not None:
            frame.insert(0, "label", _per_bag(bags, y, "y"), allow_duplicates=True)
        keys = np.arange(len(bags)) if ids is None else ids
        frame.insert(0, bag, _per_bag(bags, keys, "ids"), allow_duplicates=True)
        twice = frame.columns[frame.columns.duplicated()].tolist()
        if twice:
            raise ValueError(f"Two columns would be named {twice[0]!r}: rename one.")
        return frame

    def to_arrow(self, y: Any = None, *, ids: Any = None) -> Any:
        """A pyarrow table with one row per bag, the input of :meth:`from_arrow`.

        Parameters
        ----------
        y : array-like of shape (n_bags,), default=None
            Labels of the bags, the column ``label``.
        ids : array-like of shape (n_bags,), default=None
            Identifiers of the bags, the column ``bag``.

        Returns
        -------
        pyarrow.Table
            The column ``instances`` holds lists of lists of fixed size and shares the memory of the
            bags. Each array of ``instance_data`` is a column of lists of its name, and each column
            of ``bag_data`` a column of its name. The names of the features
            are in the metadata of the schema, which Parquet keeps.

        Raises
        ------
        ValueError
            For sparse instances, graphs, data with the name of a column, ``bag_data`` of two
            dimensions, or ``ids`` or ``y`` that are not one per bag.
        ImportError
            Without pyarrow.
        """
        return table_of(self, y, ids)


def _frame(pandas: Any, name: str, values: np.ndarray, kind: str) -> Any:
    if values.ndim > 2:
        raise ValueError(
            f"{kind}[{name!r}] has {values.ndim} dimensions: a frame holds one or two."
        )
    columns = [name] if values.ndim == 1 else [f"{name}_{k}" for k in range(values.shape[1])]
    return pandas.DataFrame(values, columns=columns)


def _per_bag(bags: Any, values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != (len(bags),):
        raise ValueError(f"{name} has shape {array.shape}: give one entry for {len(bags)} bags.")
    return array[bags.bag_index]


def bags_html(bags: Any) -> str:
    """A small table: counts, sizes of the bags, type, memory, graphs, data and names."""
    n_bags, n_features = bags.shape
    rows = [
        ("bags", f"{n_bags:,}"),
        ("instances", f"{bags.n_instances:,}"),
        ("features", f"{n_features:,}"),
    ]
    if n_bags:
        quantiles = np.quantile(bags.sizes, (0.0, 0.25, 0.5, 0.75, 1.0))
        rows.append(
            ("sizes: min, quartiles, max", ", ".join(f"{value:,.6g}" for value in quantiles))
        )
    layout = ", CSR" if bags.is_sparse else ""
    rows.append(("dtype", f"{bags.dtype}{layout}"))
    rows.append(("memory", f"{bags.nbytes / 1e6:,.3g} MB"))
    for name in ("bag_graph", "instance_graph"):
        graph = getattr(bags, name)
        if graph is not None:
            rows.append((name, f"{graph.nnz:,} entries"))
    rows += [
        (f"instance_data[{name!r}]", f"{values.dtype}, shape {values.shape}")
        for name, values in bags.instance_data.items()
    ]
    rows += [
        (f"bag_data[{name!r}]", f"{values.dtype}, shape {values.shape}")
        for name, values in bags.bag_data.items()
    ]
    names = bags.feature_names
    if names is not None:
        more = f", ... ({len(names) - _NAMES:,} more)" if len(names) > _NAMES else ""
        rows.append(("feature names", ", ".join(names[:_NAMES]) + more))
    body = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table><caption>Bags</caption><tbody>{body}</tbody></table>"
