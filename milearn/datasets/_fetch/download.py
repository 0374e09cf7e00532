"""The folder of stored data sets, downloads to it, and extraction of one file from an archive."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pooch
import requests

from .._errors import BagFileError, DownloadError
from .._formats.io import SUFFIXES, writing

_TAR = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
# Errors of the server after which a retry may succeed.
_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


def fetched(
    url: str,
    data_home: Any,
    *,
    download_if_missing: bool,
    n_retries: int,
    delay: float,
    sha256: str | None = None,
    member: str | None = None,
    filename: str | None = None,
) -> Path:
    """The path of the stored file, which is downloaded and unpacked if it is missing.

    The parameters are those of :func:`milearn.datasets.fetch_bags`.
    """
    name = filename or unquote(PurePosixPath(urlsplit(url).path).name)
    if not name or PurePosixPath(name).name != name or name in (".", ".."):
        raise DownloadError(f"{url}: the address does not end in a file name; pass filename=.")
    # A folder for each address, because many addresses end in the same name.
    folder = hashlib.sha256(url.encode()).hexdigest()[:12]
    path = get_data_home(data_home) / FETCHED / folder / name
    if not path.is_file() or (sha256 and sha256.lower() != pooch.file_hash(str(path))):
        if not download_if_missing:
            raise FileNotFoundError(
                f"{path}: the file is missing and download_if_missing=False; allow the download, "
                f"or fetch {url} by hand."
            )
        _download(url, path, sha256, n_retries, delay)
    return _unpacked(path, member)


def _download(url: str, path: Path, sha256: str | None, n_retries: int, delay: float) -> None:
    """Download ``url`` to ``path``, which is created when the file is complete and verified."""
    secure = ("https",) if sha256 is None else ("http", "https")
    if urlsplit(url).scheme not in secure:
        raise DownloadError(
            f"{url}: only https addresses are downloaded, or http addresses with sha256=; read "
            "local files with load_bags."
        )

    def as_sent(response: Any, **_: Any) -> None:
        # requests would decode the encoding that the server declares, such as that of a .tgz file,
        # but the checksum is that of the encoded file.
        response.raw.headers.pop("Content-Encoding", None)
        response.raw.enforce_content_length = True

    fetch = pooch.HTTPDownloader(
        headers={"User-Agent": "milearn", "Accept-Encoding": "identity"},
        hooks={"response": as_sent},
    )
    for left in range(n_retries, -1, -1):
        try:
            pooch.retrieve(url, sha256, path.name, path.parent, downloader=fetch)
            return
        except ValueError as error:  # a wrong checksum
            raise DownloadError(f"{url}: {error}") from error
        except requests.RequestException as error:
            status = getattr(error.response, "status_code", None)
            if left and status in (None, *_TRANSIENT_STATUS):
                time.sleep(delay)
                continue
            raise DownloadError(
                f"{url}: the download failed ({error}); try again later, or download the file by "
                f"hand to {path}."
            ) from error


def _unpacked(path: Path, member: str | None) -> Path:
    """A data file, extracted into the folder of its archive; a damaged archive is removed."""
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as zipped:
                return _extracted(path, member, zipped.namelist(), zipped.open)
        if path.name.lower().endswith(_TAR):
            with tarfile.open(path) as tarred:
                files = [info.name for info in tarred if info.isfile()]
                return _extracted(path, member, files, tarred.extractfile)
        if path.suffix in (".gz", ".Z"):
            return _extracted(path, path.name, [path.name], lambda _: open(path, "rb"))
        return path
    except (BagFileError, ImportError, MemoryError):
        raise
    except Exception as error:  # these libraries raise exceptions of any kind for damaged archives
        path.unlink(missing_ok=True)
        raise BagFileError(
            f"{path}: the archive cannot be read and was removed; fetch it again."
        ) from error


def _extracted(
    path: Path, member: str | None, names: list[str], opened: Callable[[str], Any]
) -> Path:
    """The file with the name or path ``member``, or the only data file."""
    fitting = [
        name
        for name in names
        if member in (name, PurePosixPath(name).name, _plain_name(name))
        or (member is None and _plain_name(name).lower().endswith(tuple(SUFFIXES)))
    ]
    if len(fitting) != 1:
        listed = ", ".join(sorted(names)[:8]) + (", ..." if len(names) > 8 else "")
        raise BagFileError(
            f"{path}: the archive holds {len(fitting)} files that fit; name one with member= "
            f"({listed})."
        )
    target = path.parent / _plain_name(fitting[0])
    if not target.exists() or target.stat().st_mtime < path.stat().st_mtime:
        with opened(fitting[0]) as packed, writing(target) as file:
            shutil.copyfileobj(_decompressed(fitting[0], packed), file)
    return target


def _plain_name(name: str) -> str:
    """The name without folders and without the suffix of a compressed file."""
    return PurePosixPath(name.replace("\\", "/")).name.removesuffix(".gz").removesuffix(".Z")


def _decompressed(name: str, source: Any) -> Any:
    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=source)
    if not name.endswith(".Z"):
        return source
    try:
        import uncompresspy
    except ImportError as error:
        raise ImportError(
            f"{name}: .Z files need uncompresspy; install it with pip install 'milearn[musk]'."
        ) from error
    return uncompresspy.LZWFile(source)


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
