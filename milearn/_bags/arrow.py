"""Conversion between bags and Arrow tables, data frames and lists, and HTML for notebooks."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from .canonical import as_floats, check_choice, check_columns, check_length, to_list
from .kinds import listed
from .names import check_index
from .segments import offsets_of

# Key of the names of features in the metadata of a schema.
_METADATA = b"milearn"


def need_module(name: str, what: str, package: str = "milearn[frames]") -> Any:
    """An optional library, or an error with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} needs {name}: pip install '{package}'.") from error


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


def read_nested(
    data: Any,
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
    table = arrow_table(data)
    metadata = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    if features is None and instance_data is None and metadata:
        features, lists = metadata["features"], metadata["instance_data"]
        plain = metadata.get("bag_data", {})
        known = {*features, *lists, *plain, bag, label, "bag", "label"}
        # Columns that were added to the table are data, too.
        for field in table.schema:
            if field.name not in known:
                (lists if _holds_lists(field.type) else plain)[field.name] = field.name
        bag = "bag" if bag is None and "bag" in table.column_names else bag
        instance_data, bag_data = lists, plain if bag_data is None else bag_data
    of_bags, of_instances = bag_data or {}, instance_data or {}
    scalars = [name for name in (bag, label, *of_bags.values()) if name is not None]
    taken = [name for chosen in of_instances.values() for name in to_list(chosen)]
    if features is None:
        features = [name for name in table.column_names if name not in (*scalars, *taken)]
    if not features:
        raise ValueError("The table has no column of features: bags need at least one.")
    names = [*dict.fromkeys([*taken, *features])]
    check_columns("table", [*scalars, *names], table.column_names)
    for name in names:
        kind = table.column(name).type
        if not _holds_lists(kind):
            raise ValueError(
                f"The column {name!r} holds {kind} and no lists: name it as bag or label, or "
                "choose the columns by features. A table with one row per instance is read by "
                "Bags.from_frame(table.to_pandas(), bag)."
            )
    ids = np.arange(len(table)) if bag is None else table.column(bag).to_numpy()
    sizes = np.array([_sizes(table.column(name)) for name in names])
    full = (sizes > 0).all(axis=0)
    if not full.all():
        if empty == "raise":
            shown = ids[~full].tolist()
            raise ValueError(
                f"{len(shown)} bag(s) are without an instance: {listed(shown, 5)}. Every bag needs "
                "at least one instance; remove them, or pass empty='drop'."
            )
        table, ids, sizes = table.filter(full), ids[full], sizes[:, full]
    keys = ids.tolist()
    if len(set(keys)) < len(keys):
        raise ValueError(f"The column {bag!r} names a bag in two rows: give one row per bag.")
    for name, found in zip(names, sizes, strict=True):
        differ = np.flatnonzero(sizes[0] != found)
        if len(differ):
            row = int(differ[0])
            raise ValueError(
                f"Bag {keys[row]!r} has {sizes[0, row]} instances in {names[0]!r} but "
                f"{found[row]} in {name!r}: all lists of a bag must have one length."
            )
    feature_names = metadata.get("feature_names") if len(features) == 1 else None
    matrices = [as_floats(_instances(table, name), f"Column {name!r}") for name in features]
    if feature_names is None and all(matrix.ndim == 1 for matrix in matrices):
        feature_names = None if list(features) == ["instances"] else list(features)
    parts = {
        "instances": _side_by_side(matrices),
        "offsets": offsets_of(sizes[0]),
        "feature_names": feature_names,
        "names": None if bag is None else ids,
        "instance_data": {
            name: _side_by_side([_instances(table, column) for column in chosen])
            if isinstance(chosen, (list, tuple))
            else _instances(table, chosen, numeric=False)
            for name, chosen in of_instances.items()
        },
        "bag_data": {name: table.column(column).to_numpy() for name, column in of_bags.items()},
    }
    return parts, None if label is None else table.column(label).to_numpy(), ids


def _sizes(column: Any) -> np.ndarray:
    """The lengths of lists, of which missing ones have no entry."""
    compute = need_module("pyarrow.compute", "Bags.from_arrow")
    return compute.fill_null(compute.list_value_length(column), 0).to_numpy()


def _instances(table: Any, name: str, *, numeric: bool = True) -> np.ndarray:
    """The entries of a column of lists, with one row per instance."""
    kinds, column = need_module("pyarrow.types", "Bags.from_arrow"), table.column(name)
    # combine_chunks copies a single chunk, too.
    lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    values, sizes = lists.flatten(), None
    if _holds_lists(values.type):
        sizes, numeric = _sizes(values), True
        if values.null_count:
            raise ValueError(f"The column {name!r} has an instance that is missing (null).")
        differ = np.flatnonzero(sizes != sizes[:1])
        if len(differ):
            row = int(differ[0])
            raise ValueError(
                f"Instance {row} of {name!r} has {sizes[row]} features but the first has "
                f"{sizes[0]}: every instance must have the same features."
            )
        values = values.flatten()
    if values.null_count and not numeric:
        raise ValueError(f"The column {name!r} has missing values: instance data has none.")
    if values.null_count and not kinds.is_floating(values.type):
        values = values.cast("float64")
    array = values.to_numpy(zero_copy_only=False)
    return array if sizes is None else array.reshape(len(sizes), -1)


def _side_by_side(arrays: list[np.ndarray]) -> np.ndarray:
    """Arrays of one or two dimensions as one matrix; a single matrix is not copied."""
    return arrays[0] if len(arrays) == 1 and arrays[0].ndim == 2 else np.column_stack(arrays)


# -- writing -----------------------------------------------------------------------------------


def _dense(bags: Any, what: str) -> np.ndarray:
    if bags.is_sparse:
        raise ValueError(f"{what} holds dense instances only: make them dense first.")
    return bags.instances


def _per_bag(bags: Any, values: Any, name: str) -> np.ndarray:
    check_index(values, bags.names, name)
    return check_length(name, np.asarray(values), len(bags), flat=True)


def _check_names(columns: Iterable[str]) -> None:
    name, times = Counter(columns).most_common(1)[0]
    if times > 1:
        raise ValueError(f"Two columns would be named {name!r}: rename one.")


def _frame(pandas: Any, name: str, values: np.ndarray) -> Any:
    columns = [name] if values.ndim == 1 else [f"{name}_{k}" for k in range(values.shape[1])]
    return pandas.DataFrame(values, columns=columns)


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
            Identifiers of the bags; by default, their names, or else 0, 1, ...
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
        instances, index = _dense(bags, "A data frame"), bags.bag_index
        names = bags.feature_names
        if names is None:
            names = [f"x{column}" for column in range(bags.shape[1])]
        ids = bags.names if ids is None else ids
        keys = _per_bag(bags, np.arange(len(bags)) if ids is None else ids, "ids")
        parts = [pandas.DataFrame({bag: keys[index]})]
        if y is not None:
            parts.append(pandas.DataFrame({"label": _per_bag(bags, y, "y")[index]}))
        parts += [pandas.DataFrame(instances, columns=list(names)), bags.instance_data]
        parts.append(bags.bag_data.iloc[index])
        frame = pandas.concat([part.reset_index(drop=True) for part in parts], axis=1)
        _check_names(frame.columns)
        own = bags.instance_data.index
        return frame if own.dtype.kind in "iuf" else frame.set_axis(own)

    def to_arrow(self, y: Any = None, *, ids: Any = None) -> Any:
        """A pyarrow table with one row per bag, the input of :meth:`from_arrow`.

        Parameters
        ----------
        y : array-like of shape (n_bags,), default=None
            Labels of the bags, the column ``label``.
        ids : array-like of shape (n_bags,), default=None
            Identifiers of the bags, the column ``bag``; by default, their names if they have any.

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
        pa = need_module("pyarrow", "Bags.to_arrow")
        bags: Any = self
        instances, names = _dense(bags, "Arrow"), bags.feature_names
        for name in ("bag_graph", "instance_graph"):
            if getattr(bags, name) is not None:
                raise ValueError(f"Arrow does not hold {name}: save the bags by save_bags.")
        _check_names(["bag", "label", "instances", *bags.bag_data, *bags.instance_data])
        columns = {}
        ids = bags.names if ids is None else ids
        if ids is not None:
            columns["bag"] = pa.array(_per_bag(bags, ids, "ids"))
        if y is not None:
            columns["label"] = pa.array(_per_bag(bags, y, "y"))
        for name, values in bags.bag_data.items():
            columns[name] = pa.array(values)
        for name, values in [("instances", instances), *bags.instance_data.items()]:
            columns[name] = _lists(pa, bags.offsets, values)
        metadata = {
            "features": ["instances"],
            "instance_data": {name: name for name in bags.instance_data},
            "bag_data": {name: name for name in bags.bag_data},
            "feature_names": None if names is None else names.tolist(),
        }
        return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(metadata)})


def bags_html(bags: Any) -> str:
    """A small table: counts, sizes of the bags, type, memory, graphs, data and names."""
    (n_bags, n_features), quartiles = bags.shape, (0.0, 0.25, 0.5, 0.75, 1.0)
    sizes = np.quantile(bags.sizes, quartiles) if n_bags else []
    rows = {
        "bags": f"{n_bags:,}",
        "instances": f"{bags.n_instances:,}",
        "features": f"{n_features:,}",
        "sizes: min, quartiles, max": ", ".join(f"{size:,.6g}" for size in sizes),
        "dtype": f"{bags.dtype}{', CSR' if bags.is_sparse else ''}",
        "memory": f"{bags.nbytes / 1e6:,.3g} MB",
    }
    for name in ("bag_graph", "instance_graph"):
        graph = getattr(bags, name)
        if graph is not None:
            rows[name] = f"{graph.nnz:,} entries"
    for kind in ("instance_data", "bag_data"):
        for name, values in getattr(bags, kind).items():
            rows[f"{kind}[{name!r}]"] = f"{values.dtype}, shape {values.shape}"
    names = bags.feature_names
    if names is not None:
        more = f", ... ({len(names) - _NAMES:,} more)" if len(names) > _NAMES else ""
        rows["feature names"] = ", ".join(names[:_NAMES]) + more
    body = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table><caption>Bags</caption><tbody>{body}</tbody></table>"
