"""The .npz layout of bags: plain arrays, dense or CSR, never a pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from .._errors import BagFileError
from .record import (
    BAG_FIELDS,
    INSTANCE_FIELDS,
    BagRecord,
    check_indices,
    make_bags_of,
)

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
_CSR = ("data", "indices", "indptr", "shape")


def read_npz(path: Path) -> BagRecord:
    """Read the layout that :func:`write_npz` writes."""
    arrays = _arrays(path)
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


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if path.stat().st_size == 0:
        raise BagFileError(
            f"{path}: the file is empty; if a download was interrupted, fetch it again."
        )
    with open(path, "rb") as file:
        start = file.read(6)
        if start[:1] == b"\x80":
            raise _pickled(path, "the file holds")
        if start == b"\x93NUMPY":
            raise BagFileError(
                f"{path}: this is a single array (.npy), not an .npz archive; write bag files with "
                "milearn.datasets.save_bags."
            )
        file.seek(0)
        try:
            # zipfile and NumPy report damage by whatever their parsers stumble over (an unknown
            # compression, a header that is no Python literal, a missing password), hence the broad
            # except.
            if start[:2] != b"PK":
                raise ValueError("no zip archive")
            with np.load(file, allow_pickle=False) as archive:
                return {key: _array(path, archive, key) for key in archive.files}
        except BagFileError:
            raise
        except Exception as error:
            raise BagFileError(
                f"{path}: the .npz archive cannot be read; it is truncated or not an .npz file, "
                "fetch or save it again."
            ) from error


def _array(path: Path, archive: Any, key: str) -> np.ndarray:
    try:
        values = archive[key]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise _pickled(path, f"the array {key!r} holds") from None
    # NumPy hands over a member that is no array as bytes.
    if not isinstance(values, np.ndarray):
        raise BagFileError(
            f"{path}: the member {key!r} is not an array; write bag files with "
            "milearn.datasets.save_bags."
        )
    if values.dtype.kind == "U":
        values.tolist()  # raises for what is beyond Unicode, which fails later where a name is used
    return values


def _pickled(path: Path, what: str) -> BagFileError:
    return BagFileError(
        f"{path}: {what} Python objects (a pickle), which are never loaded because a pickle can "
        "run code; write bag files with milearn.datasets.save_bags."
    )


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


def write_npz(path: Path, file: BinaryIO, record: BagRecord) -> None:
    """Write every part of a record under its own key, compressed."""
    bags = record.bags
    arrays: dict[str, Any] = {"bag_offsets": bags.offsets.astype(np.int64)}
    if sparse.issparse(bags.instances):
        arrays |= _csr_parts(bags.instances, "")
    else:
        arrays["instances"] = bags.instances
    if record.target is not None:
        arrays["y"] = record.target
    if bags.feature_names is not None:
        arrays["feature_names"] = np.asarray(bags.feature_names, dtype=str)
    for name in _GRAPHS:
        graph = getattr(bags, name)
        if graph is not None:
            arrays |= _csr_parts(graph, f"{name}_")
    for name, key in _FIELDS.items():
        if name in record.fields:
            arrays[key] = record.fields[name]
    if record.descr:
        arrays["DESCR"] = np.array(record.descr)
    for key, values in arrays.items():
        if np.asarray(values).dtype.hasobject:
            raise BagFileError(
                f"{path}: {key!r} holds Python objects, which would need a pickle; convert it to "
                "numbers or strings."
            )
    np.savez_compressed(file, **arrays)


def _csr_parts(matrix: Any, prefix: str) -> dict[str, np.ndarray]:
    return {
        f"{prefix}data": matrix.data,
        f"{prefix}indices": matrix.indices,
        f"{prefix}indptr": matrix.indptr.astype(np.int64),
        f"{prefix}shape": np.array(matrix.shape, dtype=np.int64),
    }
