"""A folder of .npy files with a JSON header: the layout of bags that can be memory-mapped."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..._bags.rows_on_disk import row_blocks
from .record import CSR, GRAPHS, BagRecord, arrays_of, check_size, record_of

HEAD = "bags.json"
# Arrays with entries per instance or link; arrays with entries per bag are always loaded.
_LINKS = [f"{graph}_{part}" for graph in GRAPHS for part in CSR]
_MAPPED = {"instances", "bag_offsets", *CSR, *_LINKS} - {"shape"}
# Arrays of text that older versions stored in the header, by the names of their entries.
_TEXTS = {"feature_names", "instance_data", "bag_data", "DESCR"}


def read_npy_folder(path: Path, *, mmap: bool = False) -> BagRecord:
    """Read the layout of :func:`write_arrays`; large arrays are mapped if ``mmap``."""
    head = json.loads((path / HEAD).read_bytes())
    arrays = {key: np.array(head[key.lower()]) for key in _TEXTS if head.get(key.lower())}
    for key, entry in head["arrays"].items():
        # The header of a foreign folder must not refer to files outside of the folder.
        file = path / Path(entry["file"]).name
        values = np.load(file, mmap_mode="r", allow_pickle=False)
        check_size(key, values.size, values.dtype, file.stat().st_size)
        in_file = mmap and key in _MAPPED and values.size
        arrays[key] = values if in_file else np.array(values)
    return record_of(arrays)


def check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: there is no such folder; create it first.")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder, which gets its name at the end: a folder is complete or not there."""
    if path.exists():
        raise FileExistsError(
            f"{path}: this exists already; choose another name, or remove it first."
        )
    check_parent(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    temporary.mkdir()
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_arrays(folder: Path, record: BagRecord) -> None:
    """Write every array that is not in the folder yet, and the header."""
    files = {}
    for key, values in arrays_of(record).items():
        file = folder / f"{key}.npy"
        files[key] = {"file": file.name}
        if file.exists():
            continue
        if key != "instances":
            np.save(file, values)
            continue
        # In blocks, because the instances may be in a file.
        header = {"descr": values.dtype.str, "fortran_order": False, "shape": tuple(values.shape)}
        with open(file, "xb") as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for _, _, block in row_blocks(record.bags):
                stream.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
    head = {"format": "milearn bags", "version": 2, "arrays": files}
    (folder / HEAD).write_text(json.dumps(head, indent=1))
