"""Andrews' MATLAB files: ``features``, ``bag_ids`` and one label per instance.

The benchmark sets of Andrews, Tsochantaridis & Hofmann (2003) are published in this form.
"""

from __future__ import annotations

import inspect
import math
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from scipy import io, sparse

from .._errors import ContentError
from .record import BagRecord, check_indices, group_rows

_NEEDED = ("features", "bag_ids", "labels")
# Newer versions of SciPy have a parameter for the kind of sparse matrices.
_SPARSE_ARRAYS: dict[str, Any] = (
    {"spmatrix": False} if "spmatrix" in inspect.signature(io.loadmat).parameters else {}
)
_MATRIX, _COMPRESSED = 14, 15
_SPARSE, _NUMERIC = 5, range(6, 16)
_COMPLEX = 0x0800
_NUMBERS = frozenset((1, 2, 3, 4, 5, 6, 7, 9, 12, 13))
_MAX_BYTES = 1 << 32  # a larger variable is treated as a decompression bomb


def read_mat(path: Path) -> BagRecord:
    """Read a MATLAB 4 or 5 file; sparse features become CSR."""
    content, names = _loaded(path.read_bytes())
    for name in _NEEDED:
        if name not in content or content[name].dtype.kind not in "fiub":
            held = ", ".join(key for key in names if not key.startswith("__")) or "nothing"
            raise ContentError(
                f"the variable {name!r} is missing or not a matrix of numbers; the file holds "
                f"{held} but needs features, bag_ids and labels."
            )
        # The constructor checked the indices of a MATLAB 4 file, whose matrices are COO.
        if sparse.issparse(content[name]) and content[name].format != "coo":
            check_indices(content[name])
    features = content["features"]
    columns = []
    for name in _NEEDED[1:]:
        values = content[name]
        # Before any conversion: a damaged header may announce billions of rows.
        if (n_entries := math.prod(values.shape)) != features.shape[0]:
            raise ContentError(
                f"{name!r} has {n_entries} entries for {features.shape[0]} rows of 'features'; "
                "the arrays have inconsistent lengths."
            )
        columns.append((values.toarray() if sparse.issparse(values) else values).ravel().tolist())
    if sparse.issparse(features):
        features = sparse.csr_array(features)
    return group_rows(features, *columns)


def _loaded(raw: bytes) -> tuple[dict[str, Any], Any]:
    """The variables that can be read, and the names of all variables."""
    try:
        major, _ = io.matlab.matfile_version(BytesIO(raw))
        if major != 1:
            # A stream in memory, which allocates no more than the file holds.
            content = io.loadmat(BytesIO(raw), **_SPARSE_ARRAYS)
            return content, content
        found = _variables(raw)
        sound = [name for name in _NEEDED if found.get(name)]
        return io.loadmat(BytesIO(raw), variable_names=sound, **_SPARSE_ARRAYS), found
    except NotImplementedError as error:
        raise ContentError(
            "this is a MATLAB 7.3 (HDF5) file, which is not read; save it in MATLAB with "
            "save(..., '-v7')."
        ) from error


def _variables(raw: bytes) -> dict[str, bool]:
    """The variables of a MATLAB 5 file by name, and whether each is a matrix of numbers.

    A damaged file is a ValueError. SciPy uses the type of a part of a variable (flags, dimensions,
    name, values) as an index into a table of pointers without a check, so that one damaged byte may
    lead to a segmentation fault instead of an error.
    """
    order = "<" if raw[126:128] == b"IM" else ">"
    found: dict[str, bool] = {}
    for kind, body in _parts(raw[128:], order, alignment=1):
        if kind == _COMPRESSED:
            stream = zlib.decompressobj()
            ((kind, body),) = _parts(stream.decompress(body, _MAX_BYTES), order)
        if kind != _MATRIX:
            raise ValueError(f"an element has the type {kind} where a variable is expected")
        (_, flags), (_, shape), (_, name), *values = _parts(body, order)
        (flag,) = struct.unpack(f"{order}I", flags[:4])
        text, matrix = name.decode("latin1"), flag & 0xFF
        if text in found:
            raise ValueError(f"two variables have the name {text!r}")
        # Texts, cells, structures and objects are not inspected and not read.
        found[text] = matrix == _SPARSE or matrix in _NUMERIC
        needed = (3 if matrix == _SPARSE else 1) + bool(flag & _COMPLEX)
        types = {kind for kind, _ in values}
        if found[text] and (len(shape) != 8 or len(values) != needed or not types <= _NUMBERS):
            raise ValueError("the values of a matrix are damaged")
    return found


def _parts(raw: bytes, order: str, alignment: int = 8) -> Iterator[tuple[int, bytes]]:
    """The type and the bytes of each part of an element."""
    at = 0
    while at < len(raw):
        (kind, size), tag = struct.unpack_from(f"{order}II", raw, at), 8
        # A part of at most four bytes is inside its tag, with its size in the upper half.
        if kind >> 16:
            kind, size, tag = kind & 0xFFFF, kind >> 16, 4
        body = raw[at + tag : at + tag + size]
        if len(body) < size or (tag == 4 and size > 4):
            raise ValueError("a part of a variable is cut off")
        yield kind, body
        at += 8 if tag == 4 else 8 + -(-size // alignment) * alignment
