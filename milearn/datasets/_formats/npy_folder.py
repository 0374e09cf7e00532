"""A folder of .npy files with a JSON header: the layout of bags that can be memory-mapped.

The header contains the names of the files, and a new version of the folder becomes valid when it is
replaced. Every save uses new file names, so that a process that stops in between leaves the old
header with the old files, and maps and pickles of an old version never refer to newer data.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._bags.rows_on_disk import row_blocks
from .._errors import ContentError
from .record import BagRecord, arrays_of, check_unicode, record_of

HEAD = "bags.json"
_FORMAT = "milearn bags"
_VERSION = 1
_KINDS = "biufUSMm"
_COUNTS = ("n_bags", "n_instances", "n_features")
# Arrays of text, which are stored in the header.
_TEXTS = ("feature_names", "instance_data", "bag_data", "DESCR")
# Arrays with entries per instance or link; arrays with entries per bag are always loaded.
_MAPPED = ("instances", "data", "indices", "indptr", "bag_offsets", "bag_graph_", "instance_")
_AGAIN = "copy or save the folder again."


def is_npy_folder(path: Path) -> bool:
    return (path / HEAD).is_file()


# -- reading -----------------------------------------------------------------------------------


def read_npy_folder(path: Path, *, mmap: bool = False) -> BagRecord:
    """Read the layout of :func:`write_npy_folder`; large arrays are mapped if ``mmap``."""
    head = _head(path)
    try:
        arrays = {
            key: _array(path, key, entry, mmap and key.startswith(_MAPPED))
            for key, entry in head["arrays"].items()
        }
        for key in _TEXTS:
            # Folders of older versions have no "bag_data".
            texts = ({"bag_data": []} | head)[key.lower()] or []
            if not _are_texts([texts] if key == "DESCR" and texts else texts):
                raise TypeError(f"{key.lower()} is not text")
            if texts:
                arrays[key] = np.array(texts, dtype=str)
        declared = tuple(head[name] for name in _COUNTS)
    except (AttributeError, KeyError, TypeError) as error:
        raise ContentError(
            f"{HEAD} lacks an entry or has one of the wrong type ({error}); {_AGAIN}"
        ) from error
    record = record_of(arrays)
    found = len(record.bags), record.bags.n_instances, record.bags.shape[1]
    if found != declared:
        raise ContentError(
            f"{HEAD} declares {declared} bags, instances and features but the files hold {found}; "
            "save the folder again."
        )
    return record


def _head(path: Path) -> dict[str, Any]:
    try:
        head = json.loads((path / HEAD).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ContentError(f"{HEAD} cannot be read ({error}); {_AGAIN}") from error
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise ContentError(
            f"{HEAD} is not the head of a folder of bags; write such folders with "
            "milearn.datasets.save_bags."
        )
    if head.get("version") not in range(1, _VERSION + 1):
        raise ContentError(
            f"{HEAD} has the version {head.get('version')!r}, but this milearn knows 1 to "
            f"{_VERSION}; use a newer one."
        )
    return head


def _are_texts(values: Any) -> bool:
    # NumPy strings cannot contain trailing NULs or unpaired surrogates.
    return isinstance(values, list) and all(
        isinstance(value, str) and not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value)
        for value in values
    )


def _array(path: Path, key: str, entry: dict[str, Any], mapped: bool) -> np.ndarray:
    name = entry["file"]
    file = path / name
    # The header of a foreign folder must not refer to files outside of the folder.
    if Path(name).name != name or not name.endswith(".npy") or not file.is_file():
        raise ContentError(f"the file {name!r} of the array {key!r} is missing; {_AGAIN}")
    size = file.stat().st_size
    if size != entry["bytes"]:
        raise ContentError(
            f"{name} has {size} bytes instead of {entry['bytes']}; it is truncated or belongs to "
            f"another folder, {_AGAIN}"
        )
    try:
        values = np.load(file, mmap_mode="r", allow_pickle=False)
        dtype, shape = values.dtype, [*values.shape]
        if (shape, dtype.str) != (entry["shape"], entry["dtype"]) or not values.flags.c_contiguous:
            raise ValueError(f"it holds {dtype.str} of shape {shape}")
        if dtype.kind not in _KINDS or dtype.itemsize < 1:
            raise ValueError(f"the type {dtype.str} is not supported")
        if values.offset + values.nbytes != size:
            raise ValueError("the size does not fit the shape")
        if not mapped or not values.size:
            values = np.array(values)
        check_unicode(values)
    except MemoryError:
        raise
    except Exception as error:  # NumPy raises exceptions of any kind for a damaged header
        raise ContentError(
            f"{name} is not the array that {HEAD} describes ({error}); {_AGAIN}"
        ) from error
    return values


# -- writing -----------------------------------------------------------------------------------


def write_npy_folder(
    path: Path, record: BagRecord, written: Mapping[str, Path] | None = None
) -> None:
    """Write a folder atomically: it has either its old or its new content.

    The files are written into a temporary folder in the same place, and flushed to the disk. A new
    folder is created by renaming. In a folder of bags the new files are added to the old ones, then
    the header is replaced, and then the old files are removed.

    Parameters
    ----------
    path : Path
    record : BagRecord
    written : mapping of str to Path, default=None
        Existing C-contiguous .npy files on the same disk with arrays of the record, which are moved
        into the folder.
    """
    if path.exists() and not (path.is_dir() and (is_npy_folder(path) or not any(path.iterdir()))):
        raise ContentError(
            "this exists and is not a folder of bags; choose another name, or remove it first."
        )
    token = secrets.token_hex(8)
    temporary = path.with_name(f".{path.name}.{token}.part")
    try:
        temporary.mkdir()
        _write_all(temporary, record, token, written or {})
        if is_npy_folder(path):
            _replace(path, temporary)
        else:
            os.replace(temporary, path)  # which may be an empty folder
        _flush_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_all(folder: Path, record: BagRecord, token: str, written: Mapping[str, Path]) -> None:
    bags, entries = record.bags, {}
    names = None if bags.feature_names is None else bags.feature_names.tolist()
    if not _are_texts([*(names or []), *bags.instance_data, *bags.bag_data, record.descr]):
        raise ContentError("a name or the description holds a NUL or half a character; correct it.")
    for key, values in arrays_of(record).items():
        if key in _TEXTS:
            continue
        file = folder / f"{key}-{token}.npy"
        if key in written:
            try:
                os.replace(written[key], file)
            except PermissionError:
                # Windows cannot move a mapped file.
                shutil.copyfile(written[key], file)
            with _flushed(file, "r+b"):
                pass
        elif key == "instances":
            _write_array(file, values, (block for _, _, block in row_blocks(bags)))
        else:
            _write_array(file, values, [values])
        entries[key] = {
            "file": file.name,
            "dtype": values.dtype.str,
            "shape": [int(length) for length in values.shape],
            "bytes": file.stat().st_size,
        }
    head: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
    head |= dict(zip(_COUNTS, (len(bags), bags.n_instances, bags.shape[1]), strict=True))
    head |= {"feature_names": names, "instance_data": list(bags.instance_data)}
    head |= {"bag_data": list(bags.bag_data)}
    head |= {"descr": record.descr, "arrays": entries}
    with _flushed(folder / HEAD) as stream:
        stream.write(json.dumps(head, indent=1).encode())
    _flush_folder(folder)


def _write_array(file: Path, values: Any, blocks: Iterable[np.ndarray]) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(values.dtype),
        "fortran_order": False,
        "shape": tuple(int(length) for length in values.shape),
    }
    with _flushed(file) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for block in blocks:
            stream.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)


def _replace(path: Path, temporary: Path) -> None:
    """Add the new files to the old ones, replace the header, and remove the old files."""
    old, moved = [], []
    with contextlib.suppress(ContentError):  # of a damaged header
        names = [entry["file"] for entry in _head(path)["arrays"].values()]
        old = [path / name for name in names if Path(name).name == name]
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
        # Windows cannot remove a mapped file, which is no longer used.
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


@contextlib.contextmanager
def _flushed(file: Path, mode: str = "xb") -> Iterator[BinaryIO]:
    """Context of an open file, whose content is flushed to the disk at the end."""
    with open(file, mode) as stream:
        yield stream  # type: ignore[misc]
        stream.flush()
        os.fsync(stream.fileno())


def _flush_folder(path: Path) -> None:
    """Flush the names in a folder to the disk, if the system supports it."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
