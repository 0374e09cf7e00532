"""Andrews' MATLAB files: ``features``, ``bag_ids`` and one label per instance.

The benchmark sets of Andrews, Tsochantaridis & Hofmann (2003) are published in this form.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import io, sparse

from .._errors import BagFileError
from .mat5 import checked_variables
from .record import (
    BagRecord,
    check_indices,
    group_rows,
    need_labels,
    refuse_fields,
)

_NEEDED = ("features", "bag_ids", "labels")
_READ = (*_NEEDED, "comment")
# Newer versions of SciPy ask which kind of sparse matrix is meant.
_SPARSE_ARRAYS: dict[str, Any] = (
    {"spmatrix": False} if "spmatrix" in inspect.signature(io.loadmat).parameters else {}
)


def read_mat(path: Path) -> BagRecord:
    """Read a MATLAB 4 or 5 file; sparse features stay CSR."""
    if path.stat().st_size == 0:
        raise BagFileError(
            f"{path}: the file is empty; if a download was interrupted, fetch it again."
        )
    try:
        # The parser of SciPy reports damage by whatever it stumbles over, hence the broad except.
        major, _ = io.matlab.matfile_version(path, appendmat=False)
        sound = checked_variables(path.read_bytes()) if major == 1 else None
        wanted = None if sound is None else [name for name in _READ if sound.get(name)]
        content = io.loadmat(path, appendmat=False, variable_names=wanted, **_SPARSE_ARRAYS)
    except NotImplementedError as error:
        raise BagFileError(
            f"{path}: this is a MATLAB 7.3 (HDF5) file, which is not read; save it in MATLAB with "
            "save(..., '-v7')."
        ) from error
    except Exception as error:
        raise BagFileError(
            f"{path}: the MATLAB file cannot be read; it is truncated or not a .mat file, fetch or "
            "save it again."
        ) from error
    for name in _NEEDED:
        if name not in content:
            names = content if sound is None else sound
            held = ", ".join(key for key in names if not key.startswith("__")) or "nothing"
            what = "is not a matrix" if name in names else "is missing"
            raise BagFileError(
                f"{path}: the variable {name!r} {what}; the file holds {held} but needs "
                "features, bag_ids and labels."
            )
    features = content["features"]
    bag_ids, labels = (_vector(path, name, content[name]) for name in ("bag_ids", "labels"))
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise BagFileError(f"{path}: 'features' is not a matrix of numbers; check the file.")
    for name, values in (("bag_ids", bag_ids), ("labels", labels)):
        if len(values) != features.shape[0]:
            raise BagFileError(
                f"{path}: {name!r} has {len(values)} entries for {features.shape[0]} rows of "
                "'features'; the arrays have inconsistent lengths."
            )
    if sparse.issparse(features):
        features = _sound_csr(path, features, "features")
    record = group_rows(path, features, bag_ids.tolist(), labels.tolist())
    if "comment" in content and content["comment"].dtype.kind == "U":
        record.descr = " ".join(str(text).strip() for text in content["comment"].ravel())
    return record


def _sound_csr(path: Path, matrix: Any, name: str) -> sparse.csr_array:
    if matrix.format == "coo":  # of a MATLAB 4 file; its indices were checked when it was made
        return sparse.csr_array(matrix)
    check_indices(path, matrix, name)
    return sparse.csr_array(matrix)


def _vector(path: Path, name: str, values: Any) -> np.ndarray:
    if sparse.issparse(values):
        values = _sound_csr(path, values, name).toarray()
    dense = np.asarray(values)
    if dense.dtype.kind not in "fiub":
        raise BagFileError(f"{path}: {name!r} is not a vector of numbers; check the file.")
    return dense.ravel()


def write_mat(path: Path, file: BinaryIO, record: BagRecord) -> None:
    """Write the three variables; bag identifiers count from 1 unless the names are numbers."""
    refuse_fields(path, record, "mat", ("bag_names",))
    target = need_labels(path, record, "mat")
    bags = record.bags
    numbers = bag_numbers(path, record)
    io.savemat(
        file,
        {
            "features": sparse.csc_array(bags.instances)
            if sparse.issparse(bags.instances)
            else bags.instances,
            "bag_ids": numbers[bags.bag_index][None, :],
            "labels": target[bags.bag_index].astype(np.float64)[None, :],
        },
        appendmat=False,
        do_compression=True,
    )


def bag_numbers(path: Path, record: BagRecord) -> np.ndarray:
    """Bag names as integers, for formats whose bag identifier is a number."""
    names = record.fields.get("bag_names")
    if names is None:
        return np.arange(1, len(record.bags) + 1)
    texts = [str(name) for name in names]
    if not all(text.isdecimal() for text in texts) or len(set(texts)) != len(texts):
        raise BagFileError(
            f"{path}: this format numbers its bags, but bag_names are not distinct whole numbers; "
            "leave bag_names out or save as .npz."
        )
    return np.array([int(text) for text in texts])
