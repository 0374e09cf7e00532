"""The errors of this sub-package, and the file names in their messages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["BagFileError", "ContentError", "DownloadError", "naming"]


class BagFileError(ValueError):
    """A data file that cannot be read, or data that a file format cannot hold.

    The message is one sentence: the file, the line or bag, what is wrong, and the remedy.
    """


class DownloadError(OSError):
    """A download that failed: no connection, a refusal, a broken body, a wrong checksum.

    Nothing of the failed download is left on the disk.
    """


class ContentError(ValueError):
    """What is wrong with a file, without the name of the file. Readers and writers raise it."""


@contextlib.contextmanager
def naming(path: Any) -> Iterator[None]:
    """Turn a ``ContentError`` into the public error, which begins with the name of the file."""
    try:
        yield
    except ContentError as error:
        raise BagFileError(f"{path}: {error}") from error.__cause__
