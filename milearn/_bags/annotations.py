"""Annotations of bags: names, two graphs, and data frames of further columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from typing import Any

import numpy as np
from scipy import sparse

from .canonical import canonical_csr, check_columns, check_length, to_list
from .kinds import as_array, as_ids, column, kind_of
from .names import check_index
from .warn import warn_user

# The column of instance_data with the side of the patches, in the unit of their coordinates.
PATCH_SIZE = "patch_size_level0"
_EXAMPLES = {
    "instance_data": "a data frame, or a dict of arrays with one entry per instance",
    "bag_data": "a data frame, or a dict of arrays with one entry per bag, such as {'age': array}",
}


def data_frame(
    data: Any, n: int, kind: str = "instance_data", what: str = "instance", names: Any = None
) -> Any:
    """A data frame of pandas with ``n`` rows, one per ``what``; None without columns.

    Parameters
    ----------
    data : data frame of any library, mapping of str to array-like, or None
        An array of two dimensions becomes the columns ``name_0``, ``name_1``, ...
    n : int
    kind, what : str
        "bag_data" or "instance_data", and of what it has a row.
    names : ndarray of shape (n,), default=None
        The index. By default, that of ``data`` if it holds texts, otherwise 0, 1, ...

    Raises
    ------
    TypeError, ValueError
        For another number of rows, names in another order, or columns of several kinds.
    """
    if data is None:
        return None
    framed = hasattr(data, "columns") and not isinstance(data, Mapping)
    if not (framed or isinstance(data, Mapping)):
        raise TypeError(
            f"{kind} is {type(data).__name__}: pass {_EXAMPLES.get(kind, _EXAMPLES['bag_data'])}."
        )
    import pandas

    parts = {name: data[name] for name in data.columns} if framed else data
    index: Any = getattr(data, "index", None) if framed else None
    columns: dict[str, Any] = {}
    for name, values in parts.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"{kind} has the key {name!r}: name every column by a string.")
        check_index(values, names, kind)
        for own, each in _flat(name, values, kind):
            found = column(each, f"{kind}[{own!r}]")
            if len(found) != n or own in columns:
                problem = "two columns of this name" if own in columns else f"{len(found)} entries"
                raise ValueError(
                    f"{kind}[{own!r}] has {problem} for {n} {what}s: give one entry per {what}."
                )
            columns[own] = found
    named = names is None and index is not None and len(index) == n
    numbers = named and index.dtype.kind in "iuf"
    if named and (not numbers or (kind == "instance_data" and index.is_unique)):
        names = None if numbers and index.equals(pandas.RangeIndex(n)) else index
    if names is None and not columns:
        return None
    frame = pandas.DataFrame(columns, index=None if columns else range(n), copy=False)
    if names is not None:
        frame.index = names
    return frame


def _flat(name: str, values: Any, kind: str) -> list[tuple[str, Any]]:
    """A column by its name, or the columns of a matrix by their numbers."""
    if sparse.issparse(values) or getattr(values, "ndim", 1) == 1:
        nested = isinstance(values, list) and len(values) and np.ndim(values[0]) == 1
        if not nested or isinstance(values[0], str):
            return [(name, values)]
    matrix = as_array(values, f"{kind}[{name!r}]")
    if matrix.ndim != 2:
        raise ValueError(f"{kind}[{name!r}] has {matrix.ndim} dimensions: pass one or two.")
    return [(f"{name}_{at}", each) for at, each in enumerate(matrix.T)]


def array_of(frame: Any, name: Any, what: str = "instance_data") -> np.ndarray:
    """A column as an array; the columns of a list, or ``name_0``, ``name_1``, ..., as a matrix."""
    known = {*frame.columns}
    parts = to_list(name)
    if parts == [name] and name not in known:
        parts = [*takewhile(known.__contains__, (f"{name}_{at}" for at in count()))]
    check_columns(what, parts or [name], list(frame.columns))
    values = frame[parts].to_numpy()
    return values[:, 0] if parts == [name] else values


def data_of_blocks(data: Mapping[str, Any] | None, offsets: np.ndarray) -> dict[str, Any] | None:
    """Columns of the instances given as one block per bag, stacked."""
    if data is None:
        return None
    import pandas

    sizes = np.diff(offsets).tolist()
    stacked: dict[str, Any] = {}
    for name, blocks in data.items():
        if len(blocks) != len(sizes):
            raise ValueError(
                f"instance_data[{name!r}] has {len(blocks)} blocks for {len(sizes)} bags: give "
                "one block per bag."
            )
        parts: dict[str, list[Any]] = {}
        for bag, (block, size) in enumerate(zip(blocks, sizes, strict=True)):
            what = f"instance_data[{name!r}] of bag {bag}"
            for own, each in _flat(name, block, "instance_data"):
                found = column(each, what)
                check_length(what, found, size, "instance")
                parts.setdefault(own, []).append(found)
        if {len(each) for each in parts.values()} != {len(sizes)}:
            raise ValueError(f"instance_data[{name!r}] has blocks of different shapes.")
        stacked |= {own: _joined(own, each, "instance_data") for own, each in parts.items()}
    return {own: pandas.Series(each) for own, each in stacked.items()}


def frame_data(df: Any, columns: Any, kind: str = "bag_data") -> dict[str, Any]:
    """Columns of a data frame by the names that they get: several for a list of names."""
    found: dict[str, Any] = {}
    for name, chosen in bag_columns(columns, kind).items():
        check_columns("table", to_list(chosen), list(df.columns))
        if isinstance(chosen, list | tuple):
            found |= {f"{name}_{at}": df[each] for at, each in enumerate(chosen)}
        else:
            found[name] = df[chosen]
    return found


# -- annotations of bags: names, two graphs and two data frames ------------------------------------

# Those of bags without any, and all their names.
NO_ANNOTATIONS: dict[str, Any] = {
    "names": None,
    "bag_graph": None,
    "instance_graph": None,
    "instance_data": None,
    "bag_data": None,
}


def selected(annotations: Mapping[str, Any], bags: Any, rows: Any) -> dict[str, Any]:
    """The annotations of some bags, which have these rows of the instances."""
    found = dict(annotations)
    for name, part in annotations.items():
        if part is not None:
            at = rows if name.startswith("instance") else bags
            chosen = between if name.endswith("graph") else taken_rows
            found[name] = part[at] if name == "names" else chosen(part, at)
    return found


def joined(parts: Sequence[Any]) -> dict[str, Any]:
    """The annotations of the bags of several containers, one after the other."""
    n_bags, n_instances = [len(part) for part in parts], [part.n_instances for part in parts]
    names = [part.names for part in parts if part.names is not None]
    if names and len(names) < len(parts):
        warn_user(
            "Some parts have no names of bags, so that no bag is named: give each part its names=.",
            UserWarning,
        )
    named = len(names) == len(parts)
    every = as_ids([name for each in names for name in each.tolist()]) if named else None
    return {
        "names": every,
        "bag_graph": _block_diagonal([part.bag_graph for part in parts], n_bags),
        "instance_graph": _block_diagonal([part.instance_graph for part in parts], n_instances),
        "instance_data": _joined_frames([part.instance_data for part in parts], "instance_data"),
        "bag_data": _joined_frames([part.bag_data for part in parts], "bag_data", every),
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


def _joined_frames(frames: Sequence[Any], kind: str, names: Any = None) -> Any:
    """The rows of all frames, with the columns that every frame has; None without columns.

    The rows of bags have the names of the bags, those of instances their own.
    """
    shared = [name for name in frames[0].columns if all(name in each for each in frames)]
    if kind == "instance_data" and all(each.index.dtype.kind not in "iuf" for each in frames):
        names = frames[0].index.append([each.index for each in frames[1:]])
    if not shared and (names is None or kind == "bag_data"):
        return None
    import pandas

    parts = {name: _joined(name, [each[name] for each in frames], kind) for name in shared}
    return pandas.DataFrame(parts, index=names, copy=False)


def _joined(name: str, columns: Sequence[Any], kind: str) -> Any:
    """A column of several parts, which hold one kind of values."""
    import pandas

    types = [each.dtype for each in columns]
    kinds = {_kind_of_type(each) for each in columns}
    if len(kinds) > 1 or any(getattr(t, "ordered", False) and t != types[0] for t in types):
        held = ", ".join(sorted({f"{kind_of(each)} ({each.dtype})" for each in columns}))
        raise ValueError(
            f"{kind}[{name!r}] cannot be joined: the parts hold {held}, or other categories in "
            "order."
        )
    if isinstance(types[0], pandas.CategoricalDtype) and any(t != types[0] for t in types):
        columns = [pandas.Series(pandas.api.types.union_categoricals(columns))]
    return pandas.concat(columns, ignore_index=True).array


def _kind_of_type(found: Any) -> tuple[Any, ...]:
    """What the columns of several parts must have in common."""
    categories = getattr(found.dtype, "categories", None)
    kind = None if categories is None else kind_of(categories.to_series())
    return (
        kind_of(found),
        kind,
        getattr(found.dtype, "ordered", None),
        getattr(found.dtype, "tz", None),
    )


def taken_rows(frame: Any, rows: Any) -> Any:
    """The rows of a frame at positions or of a slice."""
    return None if frame is None else frame.iloc[rows]


# -- columns of bags in rows of instances, or of groups in bags ------------------------------------


def bag_columns(columns: Any, kind: str = "bag_data") -> dict[str, Any]:
    """Names of columns of a table by the names that they get."""
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
    frame: Any, codes: np.ndarray, first: np.ndarray, names: Any, **words: str
) -> Any:
    """The row that the rows of each group have in common, see :func:`entry_of_groups`."""
    if frame is None:
        return None
    for name in frame.columns:
        entry_of_groups(frame[name], codes, first, names, f"entries of bag_data[{name!r}]", **words)
    return frame.iloc[first].set_axis(names)


def entry_of_groups(
    values: Any,
    codes: np.ndarray,
    first: np.ndarray,
    names: Any,
    what: str,
    *,
    who: str = "Bag {name!r} has",
    advice: str = "a bag has one",
) -> Any:
    """The common entry of the rows of each group, or an error. Gaps are equal.

    Parameters
    ----------
    values : Series or ndarray of shape (n_rows, ...)
    codes : ndarray of shape (n_rows,)
        Group of each row.
    first : ndarray of shape (n_groups,)
        First row of each group.
    names : sequence of n_groups ids
    what, who, advice : str
        Parts of the message.
    """
    if isinstance(values, np.ndarray) and (values.ndim > 1 or values.dtype.names):
        own = values[first][codes]
        same = np.asarray((values == own) | ((values != values) & (own != own)))
    else:
        import pandas

        numbers = pandas.factorize(values)[0]
        same = numbers == numbers[first][codes]
    same = same.reshape(len(codes), same.size // max(len(codes), 1))
    for row in np.flatnonzero(~same.all(axis=1))[:1].tolist():
        start = first[codes[row]]
        cells = values.tolist() if hasattr(values, "iloc") else values
        # NumPy 1 and 2 print records in their own ways.
        two = [v.item() if isinstance(v, np.void) else v for v in (cells[start], cells[row])]
        whose = who.format(name=np.asarray(names).tolist()[codes[row]], first=start, row=row)
        raise ValueError(f"{whose} two {what}, {two[0]!s} and {two[1]!s}: {advice}.")
    return values.iloc[first] if hasattr(values, "iloc") else values[first]
