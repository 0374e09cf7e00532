"""Atomic writing of files."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["writing"]


@contextlib.contextmanager
def writing(*paths: Path) -> Iterator[list[BinaryIO]]:
    """Open one temporary file in the folder of each path, and rename all of them at the end.

    If the block raises an error, no path is changed and the temporary files are removed. Readers
    see the old file or the complete new one, and two writers do not interfere.
    """
    temporaries = [path.with_name(f".{path.name}.{secrets.token_hex(8)}.part") for path in paths]
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(open(path, "xb")) for path in temporaries]
        for temporary, path in zip(temporaries, paths, strict=True):
            os.replace(temporary, path)
    finally:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)
