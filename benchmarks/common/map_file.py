"""A memory map of instances for one measurement: written, measured in a fresh process, removed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .fresh import in_fresh_process

__all__ = ["on_memory_map"]


def on_memory_map(
    module: str,
    write: Callable[[Path, int, int], None],
    shape: tuple[int, int],
    stated: dict[str, Any],
) -> dict[str, Any]:
    """What a module measures of a float32 file, whose path it gets as ``"path"``.

    Parameters
    ----------
    module : str
        Run by :func:`in_fresh_process`.
    write : callable
        Writes the file, given its path, n_instances and n_features.
    shape : (n_instances, n_features)
    stated : dict
        Everything else that the module gets.

    Raises
    ------
    OSError
        Where the disk has too little room, before anything is written.
    """
    folder = Path(tempfile.mkdtemp(prefix="milearn-scale-"))
    try:
        needed = 4 * shape[0] * shape[1]
        free = shutil.disk_usage(folder).free
        if free < 1.2 * needed:
            raise OSError(
                f"{needed / 2**30:.1f} GiB are needed in {folder.parent} and {free / 2**30:.1f} "
                "are free: set TMPDIR to a larger disk."
            )
        path = folder / "instances.npy"
        write(path, *shape)
        return in_fresh_process(module, {"path": str(path), **stated})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
