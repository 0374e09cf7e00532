"""A folder of .npy files with a head in JSON: the layout of bags that can be memory-mapped.

The head names the files, and replacing it is what makes a new version of the folder valid: every
save gives its files names of their own, so that a process that stops in between leaves the old
head with the old files, and maps and pickles of an old version never see the data of another.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._bags.blocks import row_blocks
from .._errors import BagFileError
from .arrays import arrays_of, record_of
from .record import BagRecord

__all__ = ["HEAD", "is_npy_folder", "read_npy_folder", "write_npy_folder"]

HEAD = "bags.json"
_FORMAT = "milearn bags"
_VERSION = 1
# Written at a time, and hashed at a time.
_CHUNK_BYTES = 2**24
_KINDS = "biufUSMm"
# Arrays with entries per instance or link; those with entries per bag are always loaded.
_MAPPED = ("instances", "data", "indices", "indptr", "bag_offsets")
_MAPPED_PREFIXES = ("bag_graph_", "instance_")


def is_npy_folder(path: Path) -> bool:
    return (path / HEAD).is_file()


# -- reading -----------------------------------------------------------------------------------


def read_npy_folder(path: Path, *, mmap: bool = False, verify: bool = False) -> BagRecord:
    """Read the layout that :func:`write_npy_folder` writes.

    Parameters
    ----------
    path : Path
        The folder.
    mmap : bool, default=False
        Whether to map the large arrays read-only in place of loading them.
    verify : bool, default=False
        Whether to compare checksums too, which reads every file.
    """
    head = _head(path)
    arrays = {}
    for key, entry in head["arrays"].items():
        mapped = mmap and (key in _MAPPED or key.startswith(_MAPPED_PREFIXES))
        arrays[key] = _array(path, key, entry, mapped=mapped, verify=verify)
    if head["feature_names"] is not None:
        arrays["feature_names"] = np.array(head["feature_names"], dtype=str)
    if head["instance_data"]:
        arrays["instance_data"] = np.array(head["instance_data"], dtype=str)
    if head["descr"]:
        arrays["DESCR"] = np.array(head["descr"])
    record = record_of(path, arrays)
    found = len(record.bags), record.bags.n_instances, record.bags.shape[1]
    said = tuple(head[name] for name in ("n_bags", "n_instances", "n_features"))
    if found != said:
        raise BagFileError(
            f"{path}: {HEAD} speaks of {said} bags, instances and features but the files hold "
            f"{found}; save the folder again."
        )
    return record


def _head(path: Path) -> dict[str, Any]:
    try:
        # What is no JSON, nested too deep, or a number of too many digits.
        head = json.loads((path / HEAD).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BagFileError(
            f"{path}: {HEAD} cannot be read ({error}); copy or save the folder again."
        ) from error
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise BagFileError(
            f"{path}: {HEAD} is not the head of a folder of bags; write such folders with "
            "milearn.datasets.save_bags."
        )
    if head.get("version") not in range(1, _VERSION + 1):
        raise BagFileError(
            f"{path}: {HEAD} has the version {head.get('version')!r}, but this milearn knows "
            f"1 to {_VERSION}; use a newer one."
        )
    names = head.get("feature_names")
    sound = (
        all(_is_count(head.get(name)) for name in ("n_bags", "n_instances", "n_features"))
        and "feature_names" in head
        and (names is None or _are_texts(names))
        and _are_texts(head.get("instance_data"))
        and _are_texts([head.get("descr")])
        and isinstance(head.get("arrays"), dict)
        and all(_is_entry(entry) for entry in head["arrays"].values())
    )
    if not sound:
        raise BagFileError(
            f"{path}: {HEAD} lacks an entry or has one of the wrong type; copy or save the folder "
            "again."
        )
    return head


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_texts(values: Any) -> bool:
    # NumPy's strings end before a NUL and hold no half of a pair of surrogates.
    return isinstance(values, list) and all(
        isinstance(value, str)
        and "\0" not in value
        and not any("\ud800" <= letter <= "\udfff" for letter in value)
        for value in values
    )


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and _are_texts([entry.get(name) for name in ("file", "dtype", "sha256")])
        and _is_count(entry.get("bytes"))
        and isinstance(entry.get("shape"), list)
        and all(_is_count(length) for length in entry["shape"])
    )


def _array(
    path: Path, key: str, entry: dict[str, Any], *, mapped: bool, verify: bool
) -> np.ndarray:
    name = entry["file"]
    file = path / name
    # A name alone: the head of a folder from elsewhere must not lead out of the folder.
    if Path(name).name != name or not name.endswith(".npy") or not file.is_file():
        raise BagFileError(
            f"{path}: the file {name!r} of the array {key!r} is not there; copy or save the folder "
            "again."
        )
    size = file.stat().st_size
    if size != entry["bytes"]:
        raise BagFileError(
            f"{path}: {name} has {size} bytes in place of {entry['bytes']}; it is truncated or "
            "belongs to another folder, copy or save the folder again."
        )
    with open(file, "rb") as stream:
        if verify and hashlib.file_digest(stream, "sha256").hexdigest() != entry["sha256"]:
            raise BagFileError(
                f"{path}: the checksum of {name} is wrong; its content was changed or damaged, "
                "copy or save the folder again."
            )
        stream.seek(0)
        try:
            # NumPy reports a damaged header by whatever its parser stumbles over.
            shape, fortran, dtype = _npy_header(stream)
            if [*shape] != entry["shape"] or dtype.str != entry["dtype"] or fortran:
                raise ValueError(f"it holds {dtype.str} of shape {shape}")
            if dtype.kind not in _KINDS or not dtype.itemsize or dtype.fields or dtype.subdtype:
                raise ValueError(f"the type {dtype.str} is not supported")
            if stream.tell() + math.prod(shape) * dtype.itemsize != size:
                raise ValueError("the size does not fit the shape")
            values = _values(stream, file, shape, dtype, mapped=mapped)
        except Exception as error:
            raise BagFileError(
                f"{path}: {name} is not the array that {HEAD} describes ({error}); copy or save "
                "the folder again."
            ) from error
    return values


def _npy_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    return np.lib.format.read_array_header_2_0(stream)


def _values(
    stream: BinaryIO, file: Path, shape: tuple[int, ...], dtype: np.dtype, *, mapped: bool
) -> np.ndarray:
    count = math.prod(shape)
    if mapped and count:
        values: np.ndarray = np.memmap(
            file, dtype=dtype, mode="r", shape=shape, offset=stream.tell()
        )
    else:
        values = np.fromfile(stream, dtype=dtype, count=count).reshape(shape)
    if dtype.kind == "U":
        for start in range(0, len(values.reshape(-1)), _CHUNK_BYTES):
            # Raises for what is beyond Unicode, which fails later where a name is used.
            values.reshape(-1)[start : start + _CHUNK_BYTES].tolist()
    return values


# -- writing -----------------------------------------------------------------------------------


def write_npy_folder(
    path: Path, record: BagRecord, written: Mapping[str, Path] | None = None
) -> None:
    """Write a folder that has either its old content or the whole of the new one.

    The files are written into a temporary folder beside it, and flushed to the disk. A new folder
    appears by one renaming. Into a folder of bags the files are moved beside the old ones; then the
    head is replaced, and the old files are removed.

    Parameters
    ----------
    path : Path
    record : BagRecord
    written : mapping of str to Path, default=None
        Files in which arrays of the record lie already, C-contiguous .npy files on the same disk,
        which are moved into the folder.

    Raises
    ------
    BagFileError
        When there is something at ``path`` that is not a folder of bags.
    """
    if path.exists() and not (path.is_dir() and (is_npy_folder(path) or not any(path.iterdir()))):
        raise BagFileError(
            f"{path}: there is something else in this place than a folder of bags; choose another "
            "name, or remove it first."
        )
    token = secrets.token_hex(8)
    temporary = path.with_name(f".{path.name}.{token}.part")
    try:
        temporary.mkdir()
        _write_all(path, temporary, record, token, written or {})
        if is_npy_folder(path):
            _replace(path, temporary)
        else:
            # An empty folder gives way.
            os.replace(temporary, path)
        _flush_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_all(
    path: Path, folder: Path, record: BagRecord, token: str, written: Mapping[str, Path]
) -> None:
    arrays = arrays_of(path, record)
    for name in ("feature_names", "instance_data", "DESCR"):
        arrays.pop(name, None)
    bags = record.bags
    entries = {}
    for key, values in arrays.items():
        blocks: Iterator[np.ndarray] = _chunks(values)
        if key == "instances":
            blocks = (block for _, _, block in row_blocks(bags))
        file = f"{key}-{token}.npy"
        entries[key] = {
            "file": file,
            "dtype": values.dtype.str,
            "shape": [int(length) for length in values.shape],
            **(
                _take_array(folder / file, written[key])
                if key in written
                else _write_array(folder / file, values, blocks)
            ),
        }
    names = bags.feature_names
    head: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "n_bags": len(bags),
        "n_instances": bags.n_instances,
        "n_features": bags.shape[1],
        "feature_names": None if names is None else names.tolist(),
        "instance_data": list(bags.instance_data),
        "descr": record.descr,
        "arrays": entries,
    }
    texts = [*([] if names is None else names), *bags.instance_data, record.descr]
    if not _are_texts(texts):
        raise BagFileError(
            f"{path}: a name or the description holds a NUL or half a character; correct it."
        )
    with open(folder / HEAD, "xb") as stream:
        stream.write(json.dumps(head, indent=1).encode())
        _flush(stream)
    _flush_folder(folder)


def _chunks(values: np.ndarray) -> Iterator[np.ndarray]:
    flat = np.asarray(values, order="C").reshape(-1)
    step = max(1, _CHUNK_BYTES // values.dtype.itemsize)
    return (flat[start : start + step] for start in range(0, len(flat), step))


def _write_array(file: Path, values: Any, blocks: Iterator[np.ndarray]) -> dict[str, Any]:
    """Write one .npy file; its size and checksum."""
    header = {
        "descr": np.lib.format.dtype_to_descr(values.dtype),
        "fortran_order": False,
        "shape": tuple(int(length) for length in values.shape),
    }
    with open(file, "xb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        stream.flush()
        checksum = hashlib.sha256(file.read_bytes())
        for block in blocks:
            raw = np.ascontiguousarray(block).reshape(-1).view(np.uint8).data
            checksum.update(raw)
            stream.write(raw)
        size = stream.tell()
        _flush(stream)
    return {"bytes": size, "sha256": checksum.hexdigest()}


def _take_array(file: Path, written: Path) -> dict[str, Any]:
    """Move one .npy file into its place; its size and checksum."""
    try:
        os.replace(written, file)
    except PermissionError:
        # Windows does not move a file that is mapped.
        shutil.copyfile(written, file)
    with open(file, "r+b") as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
        size = stream.seek(0, os.SEEK_END)
        _flush(stream)
    return {"bytes": size, "sha256": checksum}


def _replace(path: Path, temporary: Path) -> None:
    """Put the new files beside the old ones, the new head in the place of the old, and clear up."""
    old = _files_of(path)
    moved = []
    try:
        for file in sorted(temporary.iterdir()):
            if file.name != HEAD:
                os.replace(file, path / file.name)
                moved.append(path / file.name)
        _flush_folder(path)
        os.replace(temporary / HEAD, path / HEAD)
    except BaseException:
        for file in moved:
            file.unlink(missing_ok=True)
        raise
    _flush_folder(path)
    for file in old:
        try:
            file.unlink(missing_ok=True)
        except OSError:
            # Windows keeps a file that is mapped; nothing refers to it any more.
            continue


def _files_of(path: Path) -> list[Path]:
    """The files of a folder that can be read; none where its head is damaged."""
    try:
        entries = _head(path)["arrays"].values()
    except BagFileError:
        return []
    return [path / entry["file"] for entry in entries if Path(entry["file"]).name == entry["file"]]


def _flush(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _flush_folder(path: Path) -> None:
    """Bring the names in a folder to the disk, where folders can be opened for that."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
