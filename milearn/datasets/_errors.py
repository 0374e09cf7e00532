"""The errors of this sub-package, and the file names in their messages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class BagFileError(ValueError):
    """A data file that cannot be read, or data that a file format cannot store.

    The message is one sentence with the file, the line or bag, the problem, and advice.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0
    """


class DownloadError(OSError):
    """A failed download: no connection, an HTTP error, an incomplete body, a wrong checksum.

    Files of the failed download are removed.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0
    """


class ContentError(ValueError):
    """Error of readers and writers, without the name of the file."""


@contextlib.contextmanager
def naming(path: Any) -> Iterator[None]:
    """Convert a ``ContentError`` to the public error, whose message begins with the file name."""
    try:
        yield
    except ContentError as error:
        raise BagFileError(f"{path}: {error}") from error.__cause__
