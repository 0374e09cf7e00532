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

    See Also
    --------
    load_bags : Reads files of bags.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from milearn.datasets import BagFileError, load_bags
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "bags.csv")
    ...     _ = path.write_text("no numbers")
    ...     try:
    ...         load_bags(path)
    ...     except BagFileError:
    ...         print("not readable")
    not readable
    """


class DownloadError(OSError):
    """A failed download: no connection, an HTTP error, an incomplete body, a wrong checksum.

    Files of the failed download are removed.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    See Also
    --------
    fetch_musk : Downloads a data set.

    Examples
    --------
    >>> from milearn.datasets import DownloadError, fetch_musk
    >>> try:
    ...     data = fetch_musk()  # doctest: +SKIP
    ... except DownloadError as error:
    ...     print(error)
    """


class ContentError(ValueError):
    """Error of readers and writers, without the name of the file."""


@contextlib.contextmanager
def file_name_in_errors(path: Any, kind: str | None = None) -> Iterator[None]:
    """Raise errors about a file as the public error, whose message begins with the file name.

    With a ``kind`` of file these are all exceptions, because libraries raise exceptions of any kind
    for damaged files.
    """
    try:
        yield
    except ContentError as error:
        raise BagFileError(f"{path}: {error}") from error.__cause__
    except Exception as error:
        if kind is None or isinstance(error, (BagFileError, ImportError, MemoryError)):
            raise
        what = type(error).__name__
        # The text of an error of a library may itself be an error.
        with contextlib.suppress(Exception):
            what += f": {str(error).strip()}"
        raise BagFileError(
            f"{path}: it cannot be read as {kind} ({what}); check the format, or fetch or save the "
            "file again."
        ) from error
