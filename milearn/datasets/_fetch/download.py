"""The folder of stored data sets, downloads to it, and extraction of one file from an archive."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import time
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pooch
import requests

from ..._compat import need_module
from .._errors import BagFileError, DownloadError
from .._formats.io import writing

# Errors of the server after which a retry may succeed.
_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


def fetched(
    url: str,
    data_home: Any,
    *,
    member: str,
    download_if_missing: bool,
    n_retries: int,
    delay: float,
) -> Path:
    """The path of a file of the archive at ``url``, which is downloaded if it is missing."""
    path = get_data_home(data_home) / FETCHED / url.rpartition("/")[2]
    if not path.is_file():
        if not download_if_missing:
            raise FileNotFoundError(
                f"{path}: the file is missing and download_if_missing=False; allow the download, "
                f"or fetch {url} by hand."
            )
        _download(url, path, n_retries, delay)
    return _unpacked(path, member)


def _download(url: str, path: Path, n_retries: int, delay: float) -> None:
    """Download ``url`` to ``path``, which is created when the file is complete."""

    def as_sent(response: Any, **_: Any) -> None:
        # requests would decode the encoding that the server declares, such as that of a .tgz file.
        response.raw.headers.pop("Content-Encoding", None)
        response.raw.enforce_content_length = True

    fetch = pooch.HTTPDownloader(
        headers={"User-Agent": "milearn", "Accept-Encoding": "identity"},
        hooks={"response": as_sent},
    )
    for left in range(n_retries, -1, -1):
        try:
            pooch.retrieve(url, None, path.name, path.parent, downloader=fetch)
            return
        except requests.RequestException as error:
            status = getattr(error.response, "status_code", None)
            if left and status in (None, *_TRANSIENT_STATUS):
                time.sleep(delay)
                continue
            raise DownloadError(
                f"{url}: the download failed ({error}); try again later, or download the file by "
                f"hand to {path}."
            ) from error


def _unpacked(path: Path, member: str) -> Path:
    """A file of an archive, extracted next to it; a damaged archive is removed."""
    target = path.parent / member
    if target.exists() and target.stat().st_mtime >= path.stat().st_mtime:
        return target
    try:
        with contextlib.ExitStack() as stack:
            archive: Any
            if path.suffix == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(path))
                names, opened = archive.namelist(), archive.open
            else:
                archive = stack.enter_context(tarfile.open(path))
                names, opened = archive.getnames(), archive.extractfile
            (name,) = (n for n in names if PurePosixPath(n).name.removesuffix(".Z") == member)
            packed = opened(name)
            if name.endswith(".Z"):
                packed = need_module("uncompresspy", "A .Z file", "milearn[musk]").LZWFile(packed)
            shutil.copyfileobj(packed, stack.enter_context(writing(target)))
        return target
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # these libraries raise exceptions of any kind for damaged archives
        path.unlink(missing_ok=True)
        raise BagFileError(
            f"{path}: the archive cannot be read and was removed; fetch it again."
        ) from error


FETCHED = "fetched"


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the data sets, which is created if it does not exist.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    data_home : path-like, default=None
        The folder. By default, the environment variable ``MILEARN_DATA``, or ``~/milearn_data``. A
        leading ``~`` is the home folder.

    Returns
    -------
    path : pathlib.Path
        Fetchers store their files in its subfolder ``fetched``.

    See Also
    --------
    clear_data_home : Remove the downloaded files.

    Examples
    --------
    >>> import tempfile
    >>> from milearn.datasets import get_data_home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     str(get_data_home(folder)) == folder
    True
    """
    if data_home is None:
        data_home = os.environ.get("MILEARN_DATA") or Path("~") / "milearn_data"
    path = Path(data_home).expanduser()
    path.mkdir(parents=True, exist_ok=True)
    return path


def clear_data_home(data_home: str | os.PathLike[str] | None = None) -> None:
    """Remove all files downloaded by the fetchers.

    Only the subfolder ``fetched`` is removed, because the folder may contain your own files.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    data_home : path-like, default=None
        See :func:`get_data_home`.

    See Also
    --------
    get_data_home : The folder of the data sets.

    Examples
    --------
    >>> import tempfile
    >>> from milearn.datasets import clear_data_home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clear_data_home(folder)
    """
    shutil.rmtree(get_data_home(data_home) / FETCHED, ignore_errors=True)
