"""Further arrays of the instances of a container: names, coordinates, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["canonical_data", "data_of_blocks", "frame_data", "joined_data", "taken_rows"]


def canonical_data(data: Mapping[str, Any] | None, n_instances: int) -> dict[str, np.ndarray]:
    """Every array C-contiguous, of numbers or strings, with one entry per instance."""
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise TypeError(
            f"instance_data is {type(data).__name__}: pass a dict of arrays with one entry per "
            "instance, such as {'coords': array}."
        )
    arrays = {}
    for name, values in data.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"instance_data has the key {name!r}: name every array by a string.")
        array = canonical_array(name, values)
        if array.ndim == 0 or len(array) != n_instances:
            raise ValueError(
                f"instance_data[{name!r}] has shape {array.shape} but there are {n_instances} "
                "instances: give one entry per instance."
            )
        arrays[name] = array
    return arrays


def canonical_array(name: str, values: Any, kind: str = "instance_data") -> np.ndarray:
    if sparse.issparse(values):
        raise TypeError(f"{kind}[{name!r}] is sparse: pass a dense array.")
    array = np.asarray(values)
    if array.dtype.kind in "OT":
        entries = array.ravel().tolist()
        if not all(isinstance(entry, str) for entry in entries):
            raise TypeError(f"{kind}[{name!r}] holds Python objects: pass numbers or strings.")
        # Python strings, because joblib.hash of object arrays depends on more than the values.
        array = np.array(entries, dtype=str).reshape(array.shape)
    # Not ascontiguousarray, which would add a dimension to a scalar.
    return np.asarray(array, order="C")


def data_of_blocks(
    data: Mapping[str, Any] | None, offsets: np.ndarray
) -> dict[str, np.ndarray] | None:
    """Arrays given as one block per bag, stacked."""
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
            if array.ndim == 0 or len(array) != size:
                raise ValueError(
                    f"instance_data[{name!r}] has shape {array.shape} at bag {position}, which "
                    f"has {size} instances: give one entry per instance."
                )
        stacked[name] = join_arrays(name, arrays)
    return stacked


def frame_data(df: Any, columns: Mapping[str, Any] | None) -> dict[str, np.ndarray] | None:
    """Arrays from columns of a data frame: 1-D for a name, 2-D for a list of names."""
    if columns is None:
        return None
    if not isinstance(columns, Mapping):
        raise TypeError("instance_data must name columns by array, such as {'coords': ['x', 'y']}.")
    arrays = {}
    for name, chosen in columns.items():
        if isinstance(chosen, (list, tuple)):
            parts = [frame_array(df, name, column) for column in chosen]
            arrays[name] = np.stack(parts, axis=1)
        else:
            arrays[name] = frame_array(df, name, chosen)
    return arrays


def frame_array(df: Any, name: str, column: Any) -> np.ndarray:
    if column not in list(df.columns):
        raise ValueError(
            f"instance_data[{name!r}] names the column {column!r}, which does not exist."
        )
    return canonical_array(name, df[column].to_numpy())


def joined_data(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The concatenated arrays that all parts have."""
    shared = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: join_arrays(name, [part[name] for part in parts]) for name in shared}


def join_arrays(name: str, arrays: Sequence[np.ndarray], kind: str = "instance_data") -> np.ndarray:
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
