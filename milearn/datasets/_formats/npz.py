"""The .npz layout of bags: plain arrays, dense or CSR, never a pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._errors import ContentError
from .arrays import arrays_of, pickled, record_of
from .record import BagRecord
from .text import check_not_empty

_REMEDY = "write bag files with milearn.datasets.save_bags."


def read_npz(path: Path) -> BagRecord:
    """Read the layout of :func:`write_npz`."""
    check_not_empty(path.stat().st_size)
    with open(path, "rb") as file:
        start = file.read(6)
        if start[:1] == b"\x80":
            raise pickled("the file holds")
        if start == b"\x93NUMPY":
            raise ContentError(f"this is a single array (.npy), not an .npz archive; {_REMEDY}")
        file.seek(0)
        try:
            # zipfile and NumPy raise exceptions of any kind for damaged files (an unknown
            # compression, a header that is not a Python literal, a missing password).
            if start[:2] != b"PK":
                raise ValueError("no zip archive")
            with np.load(file, allow_pickle=False) as archive:
                arrays = {key: _array(archive, key) for key in archive.files}
        except ContentError:
            raise
        except Exception as error:
            raise ContentError(
                "the .npz archive cannot be read; it is truncated or not an .npz file, fetch or "
                "save it again."
            ) from error
    return record_of(arrays)


def _array(archive: Any, key: str) -> np.ndarray:
    try:
        values = archive[key]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise pickled(f"the array {key!r} holds") from None
    # NumPy returns a member that is not an array as bytes.
    if not isinstance(values, np.ndarray):
        raise ContentError(f"the member {key!r} is not an array; {_REMEDY}")
    check_unicode(values)
    return values


def check_unicode(values: np.ndarray) -> None:
    """Raise an error for invalid Unicode text, which would fail later."""
    if values.dtype.kind == "U":
        for start in range(0, values.size, 2**20):
            values.reshape(-1)[start : start + 2**20].tolist()


def write_npz(path: Path, record: BagRecord, file: BinaryIO) -> None:
    """Write every part of a record as a compressed array."""
    arrays = arrays_of(record)
    if "instances" in arrays:
        arrays["instances"] = record.bags.instances
    np.savez_compressed(file, **arrays)
