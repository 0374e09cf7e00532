"""The arrays of a data set, as the formats of plain arrays name and check them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._errors import BagFileError
from .record import BAG_FIELDS, INSTANCE_FIELDS, BagRecord, check_indices, make_bags_of

__all__ = ["arrays_of", "pickled", "record_of"]

# Name in the Bunch -> name in the file, where the two differ.
_KEYS = {"target_names": "class_names", "groups": "group"}
_FIELDS = {
    name: _KEYS.get(name, name)
    for name in (
        "bag_names",
        "instance_names",
        "target_names",
        "instance_labels",
        "instance_position",
        "split",
        "groups",
        "group_names",
        "sample_weight",
        "bag_links",
        "bag_links_instance",
    )
}
_GRAPHS = ("bag_graph", "instance_graph")
# The names of the instance data, and before its number each of the arrays.
_DATA = "instance_data"
_CSR = ("data", "indices", "indptr", "shape")


def record_of(path: Path, arrays: dict[str, np.ndarray]) -> BagRecord:
    """The data set of the arrays that :func:`arrays_of` gave; keys that it does not know are left.

    Raises
    ------
    BagFileError
        When an array is missing, or arrays do not fit together.
    """
    if "instances" in arrays:
        instances: Any = arrays["instances"]
        if instances.ndim != 2:
            raise BagFileError(
                f"{path}: 'instances' has shape {instances.shape}; it must be (n_instances, "
                "n_features)."
            )
    elif all(key in arrays for key in _CSR):
        instances = _csr(path, arrays, "", "instances")
    else:
        raise BagFileError(
            f"{path}: neither 'instances' nor 'data', 'indices', 'indptr', 'shape' is among the "
            f"arrays ({', '.join(sorted(arrays)) or 'none'}); write bag files with "
            "milearn.datasets.save_bags."
        )
    if "bag_offsets" not in arrays:
        raise BagFileError(
            f"{path}: the array 'bag_offsets' is missing, so that the bags are unknown; write bag "
            "files with milearn.datasets.save_bags."
        )
    graphs: dict[str, Any] = {
        name: _csr(path, arrays, f"{name}_", name) for name in _GRAPHS if f"{name}_data" in arrays
    }
    bags = make_bags_of(
        path,
        _supported(instances),
        arrays["bag_offsets"],
        feature_names=arrays.get("feature_names"),
        instance_data=_instance_data(path, arrays),
        **graphs,
    )
    fields = {name: arrays[key] for name, key in _FIELDS.items() if key in arrays}
    target = arrays.get("y")
    lengths = {"y": (target, len(bags), "bags")}
    lengths |= {name: (fields.get(name), len(bags), "bags") for name in BAG_FIELDS}
    lengths |= {name: (fields.get(name), bags.n_instances, "instances") for name in INSTANCE_FIELDS}
    for name, (values, expected, what) in lengths.items():
        if values is not None and (values.ndim == 0 or len(values) != expected):
            raise BagFileError(
                f"{path}: {_FIELDS.get(name, name)!r} has shape {values.shape} but there are "
                f"{expected} {what}; the arrays have inconsistent lengths, save the file again."
            )
    return BagRecord(bags, target, fields, str(arrays["DESCR"]) if "DESCR" in arrays else "")


def _instance_data(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = arrays.get(_DATA, np.empty(0, dtype=str))
    keys = [f"{_DATA}_{number}" for number in range(names.size)]
    if names.ndim != 1 or not all(key in arrays for key in keys):
        raise BagFileError(
            f"{path}: {_DATA!r} names {names.size} arrays that are not all there; save the file "
            "again."
        )
    return {name: arrays[key] for name, key in zip(names.tolist(), keys, strict=True)}


def _csr(path: Path, arrays: dict[str, np.ndarray], prefix: str, what: str) -> sparse.csr_array:
    parts = [arrays.get(prefix + key) for key in _CSR]
    try:
        data, indices, indptr, shape = parts
        matrix = sparse.csr_array(
            (data, indices, indptr),
            shape=tuple(int(n) for n in shape),  # type: ignore[union-attr]
        )
    except (TypeError, ValueError) as error:
        raise BagFileError(
            f"{path}: the sparse matrix of {what} is inconsistent ({error}); fetch or save the "
            "file again."
        ) from error
    check_indices(path, matrix, what)
    return matrix


def _supported(matrix: Any) -> Any:
    """float32 for small integers, which it holds exactly at half the memory of float64."""
    if matrix.dtype.kind in "iub" and matrix.dtype.itemsize <= 2:
        return matrix.astype(np.float32)
    return matrix


def arrays_of(path: Path, record: BagRecord) -> dict[str, Any]:
    """Every part of a data set as an array under its own key.

    ``instances`` are those for reading in blocks, which need not lie in memory.

    Raises
    ------
    BagFileError
        For an array of Python objects.
    """
    bags = record.bags
    arrays: dict[str, Any] = {"bag_offsets": bags.offsets.astype(np.int64)}
    if sparse.issparse(bags.instance_rows):
        arrays |= _csr_parts(bags.instances, "")
    else:
        arrays["instances"] = bags.instance_rows
    if record.target is not None:
        arrays["y"] = record.target
    if bags.feature_names is not None:
        arrays["feature_names"] = np.asarray(bags.feature_names, dtype=str)
    for name in _GRAPHS:
        graph = getattr(bags, name)
        if graph is not None:
            arrays |= _csr_parts(graph, f"{name}_")
    if bags.instance_data:
        arrays[_DATA] = np.array(list(bags.instance_data), dtype=str)
        for number, data in enumerate(bags.instance_data.values()):
            arrays[f"{_DATA}_{number}"] = data
    for name, key in _FIELDS.items():
        if name in record.fields:
            arrays[key] = record.fields[name]
    if record.descr:
        arrays["DESCR"] = np.array(record.descr)
    for key, values in arrays.items():
        if values.dtype.hasobject:
            raise BagFileError(
                f"{path}: {key!r} holds Python objects, which would need a pickle; convert it to "
                "numbers or strings."
            )
    return arrays


def _csr_parts(matrix: Any, prefix: str) -> dict[str, np.ndarray]:
    return {
        f"{prefix}data": matrix.data,
        f"{prefix}indices": matrix.indices,
        f"{prefix}indptr": matrix.indptr,
        f"{prefix}shape": np.array(matrix.shape, dtype=np.int64),
    }


def pickled(path: Path, what: str) -> BagFileError:
    return BagFileError(
        f"{path}: {what} Python objects (a pickle), which are never loaded because a pickle can "
        "run code; write bag files with milearn.datasets.save_bags."
    )
