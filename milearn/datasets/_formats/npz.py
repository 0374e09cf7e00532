"""The .npz layout of bags: plain arrays, dense or CSR, never a pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._errors import BagFileError
from .arrays import arrays_of, pickled, record_of
from .record import BagRecord


def read_npz(path: Path) -> BagRecord:
    """Read the layout that :func:`write_npz` writes."""
    return record_of(path, _arrays(path))


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if path.stat().st_size == 0:
        raise BagFileError(
            f"{path}: the file is empty; if a download was interrupted, fetch it again."
        )
    with open(path, "rb") as file:
        start = file.read(6)
        if start[:1] == b"\x80":
            raise pickled(path, "the file holds")
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
        raise pickled(path, f"the array {key!r} holds") from None
    # NumPy hands over a member that is no array as bytes.
    if not isinstance(values, np.ndarray):
        raise BagFileError(
            f"{path}: the member {key!r} is not an array; write bag files with "
            "milearn.datasets.save_bags."
        )
    if values.dtype.kind == "U":
        values.tolist()  # raises for what is beyond Unicode, which fails later where a name is used
    return values


def write_npz(path: Path, file: BinaryIO, record: BagRecord) -> None:
    """Write every part of a record under its own key, compressed."""
    arrays = arrays_of(path, record)
    if "instances" in arrays:
        arrays["instances"] = record.bags.instances
    np.savez_compressed(file, **arrays)
