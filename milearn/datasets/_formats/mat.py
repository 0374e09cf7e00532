"""Andrews' MATLAB files: ``features``, ``bag_ids`` and one label per instance.

The benchmark sets of Andrews, Tsochantaridis & Hofmann (2003) are published in this form.
"""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import io, sparse

from .._errors import ContentError
from .mat5 import variables
from .record import BagRecord, check_indices, group_rows
from .text import check_not_empty

_NEEDED = ("features", "bag_ids", "labels")
# Newer versions of SciPy have a parameter for the kind of sparse matrices.
_SPARSE_ARRAYS: dict[str, Any] = (
    {"spmatrix": False} if "spmatrix" in inspect.signature(io.loadmat).parameters else {}
)


def read_mat(path: Path) -> BagRecord:
    """Read a MATLAB 4 or 5 file; sparse features become CSR."""
    check_not_empty(path.stat().st_size)
    content, names = _loaded(path)
    for name in _NEEDED:
        if name not in content:
            held = ", ".join(key for key in names if not key.startswith("__")) or "nothing"
            raise ContentError(
                f"the variable {name!r} {'is not a matrix' if name in names else 'is missing'}; "
                f"the file holds {held} but needs features, bag_ids and labels."
            )
    features, bag_ids, labels = (_checked(name, content[name]) for name in _NEEDED)
    if features.ndim != 2:
        raise ContentError("'features' is not a matrix of numbers; check the file.")
    # Before any conversion: a damaged header may announce billions of rows.
    for name, values in (("bag_ids", bag_ids), ("labels", labels)):
        if (n_entries := math.prod(values.shape)) != features.shape[0]:
            raise ContentError(
                f"{name!r} has {n_entries} entries for {features.shape[0]} rows of 'features'; "
                "the arrays have inconsistent lengths."
            )
    bag_ids, labels = (
        (values.toarray() if sparse.issparse(values) else values).ravel()
        for values in (bag_ids, labels)
    )
    if sparse.issparse(features):
        features = sparse.csr_array(features)
    record = group_rows(features, bag_ids.tolist(), labels.tolist())
    if "comment" in content and content["comment"].dtype.kind == "U":
        record.descr = " ".join(str(text).strip() for text in content["comment"].ravel())
    return record


def _loaded(path: Path) -> tuple[dict[str, Any], Any]:
    """The variables that can be read, and the names of all variables."""
    try:
        major, _ = io.matlab.matfile_version(path, appendmat=False)
        if major != 1:
            content = io.loadmat(path, appendmat=False, **_SPARSE_ARRAYS)
            return content, content
        found = variables(path.read_bytes())
        sound = [name for name in (*_NEEDED, "comment") if found.get(name)]
        return io.loadmat(path, appendmat=False, variable_names=sound, **_SPARSE_ARRAYS), found
    except NotImplementedError as error:
        raise ContentError(
            "this is a MATLAB 7.3 (HDF5) file, which is not read; save it in MATLAB with "
            "save(..., '-v7')."
        ) from error
    except Exception as error:  # SciPy's parser raises exceptions of any kind for damaged files
        raise ContentError(
            "the MATLAB file cannot be read; it is truncated or not a .mat file, fetch or save it "
            "again."
        ) from error


def _checked(name: str, values: Any) -> Any:
    """Numbers, dense or sparse with indices in range."""
    if values.dtype.kind not in "fiub":
        what = "matrix" if name == "features" else "vector"
        raise ContentError(f"{name!r} is not a {what} of numbers; check the file.")
    # The constructor checked the indices of a MATLAB 4 file, whose matrices are COO.
    if sparse.issparse(values) and values.format != "coo":
        check_indices(values, name)
    return values


def write_mat(path: Path, record: BagRecord, file: BinaryIO) -> None:
    """Write the three variables; bag identifiers count from 1 unless the names are numbers."""
    bags = record.bags
    target: Any = record.target
    features = sparse.csc_array(bags.instances) if bags.is_sparse else bags.instances
    content = {
        "features": features,
        "bag_ids": record.bag_numbers()[bags.bag_index][None, :],
        "labels": target[bags.bag_index].astype(np.float64)[None, :],
    }
    io.savemat(file, content, appendmat=False, do_compression=True)
