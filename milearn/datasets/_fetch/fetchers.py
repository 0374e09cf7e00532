"""Fetchers, which download, verify, store and read data sets."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
from sklearn.utils import Bunch

from .._errors import BagFileError, DownloadError
from .._formats.formats import SUFFIXES
from .._formats.io import load_bags
from .content import content_sha256
from .download import Request, download, sha256_of
from .home import FETCHED, get_data_home
from .unpack import unpack

__all__ = ["fetch_andrews", "fetch_bags", "fetch_musk"]

_UCI = "https://archive.ics.uci.edu/static/public"
_ANDREWS_URL = (
    "https://www.cs.columbia.edu/~andrews/mil/data/MIL-Data-2002-Musk-Corel-Trec9-MATLAB.tgz"
)
# Content checksums of the sets.
_MUSK = {
    1: "5db615bc151a89117affd2df817c6beb1634dfa914798a45a31cabf1b82a79fb",
    2: "21367fead31310bdf006fe72e5b66f3a09ecbb116f6d5c1d3eb2be69997e8129",
}
_ANDREWS = {
    "elephant": "3913de75a411798db06cf1002e43a88140033e2a7bd5fe32fd9bc0c8284da597",
    "fox": "12d8b6855de2f38c5f41088c40af49e0897f4b3073825f28daae0a76fc959224",
    "tiger": "2d3657b088d2cebd0b13253832f0885e65d3dcf2e805779a87494979516c5b6a",
    "musk1norm": "9892bf94622a5cf39722f6bcdce052705e0467875ac2390e1ad8d61b0070f7f5",
    "trec1": "25a9eeb06c8f396e903672b5ac1901f01e9d35b1da108412a3ff4768f6c55d9a",
    "trec2": "26e28df1e04ccf96929db6aa339dcdcde459f76d4e98fd2a63c13985a02ec1da",
    "trec3": "ae38ea5a2ae5ab28c1d7202a6f379131507b1f866e9ea7dcaaeccd21ae12c19f",
    "trec7": "4cd5eef784963d99e87ee04f1a7f8465c0419102697a111b5dcd499cc66954e4",
    "trec10": "17e013746a4ade4ed58cc9419738695217207f588999420208fd198bdd9f996d",
}
# SHA-256 checksums of those of Andrews' files that were available.
_FILES = {
    "musk1norm": "18de13dee710c0a7cbcaf2a5b6ab66dd74145c6b8bc5980d7d14c18cb19e7ea0",
    "trec1": "af8fcfdc98a6dd628648226908358f09f47a9bc3aea66d73c130536f023fe6f3",
}


class _Published(NamedTuple):
    """A published data set: its file in an archive, and the checksums."""

    local: str  # the file in the data home that is used instead of a download
    url: str
    member: str
    content: str
    sha256: str | None = None


def _published_musk(version: int) -> _Published:
    url = f"{_UCI}/{73 + version}/musk+version+{version}.zip"
    return _Published(f"musk{version}.npz", url, f"clean{version}.data", _MUSK[version])


def _published_andrews(name: str) -> _Published:
    local, file = f"{name}.npz", f"{name}_100x100"
    if name.startswith("trec"):
        number = name.removeprefix("trec")
        local, file = f"trec9/tst{number}.npz", f"trec_{number}_200x200"
    elif name == "musk1norm":
        file = name
    member = f"{file}_matlab.mat"
    return _Published(local, _ANDREWS_URL, member, _ANDREWS[name], _FILES.get(name))


def fetch_bags(
    url: str,
    *,
    sha256: str | None = None,
    member: str | None = None,
    filename: str | None = None,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    timeout: float = 30.0,
    n_retries: int = 3,
    delay: float = 1.0,
    allow_unverified: bool = False,
    **load_options: Any,
) -> Any:
    """Download a file of bags, store it, and read it.

    The file is created only when it is complete and has the right checksum, so that interrupted and
    concurrent calls are safe. Further calls read the stored file and do not use the network.

    Parameters
    ----------
    url : str
        An http or https address of a file that :func:`load_bags` reads, or of a zip, tar, ``.gz``
        or ``.Z`` file of one.
    sha256 : str, default=None
        Hexadecimal SHA-256 checksum of the file at ``url``, which is checked before reading the
        file. Pass it whenever it is known: without it the file must come by https and is not
        verified. A stored file with another checksum is fetched again.
    member : str, default=None
        The file in an archive, if the archive contains several.
    filename : str, default=None
        Name of the stored file, for addresses that do not end in a file name.
    data_home : path-like, default=None
        See :func:`get_data_home`.
    download_if_missing : bool, default=True
        Whether to download a file that is missing.
    timeout : float, default=30.0
        Seconds to wait for an answer of the server.
    n_retries : int, default=3
        Number of retries after a temporary error: no connection, an incomplete body, an overloaded
        server.
    delay : float, default=1.0
        Seconds before the first retry, doubled for each further one.
    allow_unverified : bool, default=False
        Whether to allow a file by plain http, which may have been changed in transit, without
        ``sha256``.
    **load_options
        Passed to :func:`load_bags`: ``format``, ``return_X_y``, and so on.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or (Bags, ndarray)
        The result of :func:`load_bags`.

    Raises
    ------
    DownloadError
        An OSError: no connection, an HTTP error, an incomplete body, a wrong checksum, or plain
        http without a checksum. No file is stored.
    FileNotFoundError
        With ``download_if_missing=False``, if the file is missing.
    BagFileError
        A ValueError: if an archive is damaged or the file cannot be read.

    See Also
    --------
    load_bags : The options that you can pass as ``load_options``.
    clear_data_home : Remove all fetched files.

    Examples
    --------
    >>> from milearn.datasets import fetch_bags
    >>> corel = fetch_bags("https://example.org/mil/corel.npz")  # doctest: +SKIP
    """
    request = Request(sha256, timeout, n_retries, delay, allow_unverified)
    path = _fetched(url, member, filename, data_home, download_if_missing, request)
    data = load_bags(path, **load_options)
    if isinstance(data, Bunch):
        data["url"] = url
    return data


def _fetched(
    url: str,
    member: str | None,
    filename: str | None,
    data_home: str | os.PathLike[str] | None,
    download_if_missing: bool,
    request: Request,
) -> Path:
    """The path of the file, which is downloaded and unpacked if it is missing."""
    sha256 = request.sha256
    name = filename or unquote(PurePosixPath(urlsplit(url).path).name)
    if not name or PurePosixPath(name).name != name or name in (".", ".."):
        raise DownloadError(f"{url}: the address does not end in a file name; pass filename=.")
    # A folder for each address, because many addresses end in the same name.
    folder = hashlib.sha256(url.encode()).hexdigest()[:12]
    path = get_data_home(data_home) / FETCHED / folder / name
    kept = path.is_file() and (sha256 is None or sha256_of(path) == sha256.lower())
    if not kept:
        if not download_if_missing:
            raise FileNotFoundError(
                f"{path}: the file is missing and download_if_missing=False; allow the download, "
                f"or fetch {url} by hand."
            )
        # Files unpacked from an older version are removed with it. Without an older version, files
        # in this folder belong to a concurrent call.
        for stale in path.parent.iterdir() if path.is_file() else ():
            if stale != path and stale.suffix != ".part":
                stale.unlink(missing_ok=True)
        download(url, path, request)
    return unpack(path, member, tuple(SUFFIXES))


def _verified(data: Bunch, expected: str, source: str) -> None:
    found = content_sha256(data["data"], data["target"])
    if found != expected:
        raise BagFileError(
            f"{data['filename']}: the values differ from the published data set (content checksum "
            f"{found}, expected {expected}); remove the file and fetch {source} again, or pass "
            "verify_content=False to take it as it is."
        )


def _fetch_published(
    published: _Published,
    request: Request,
    *,
    data_home: str | os.PathLike[str] | None,
    download_if_missing: bool,
    verify_content: bool,
    url: str | None,
    **options: Any,
) -> Bunch:
    """The verified data of a local file or of the archive; ``options`` are passed to load_bags."""
    source = url or published.url
    path = get_data_home(data_home) / published.local
    if url is None and path.is_file():
        data = load_bags(path, dtype=np.float64, as_sparse=options["as_sparse"])
    else:
        path = _fetched(source, published.member, None, data_home, download_if_missing, request)
        if verify_content and published.sha256 not in (None, found := sha256_of(path)):
            raise BagFileError(
                f"{path}: the file differs from the published one (SHA-256 checksum {found}, "
                f"expected {published.sha256}) and was not read; remove it and fetch {source} "
                "again, or pass verify_content=False to take it as it is."
            )
        data = load_bags(path, **options)
        data["url"] = source
        if options["format"] == "mat":
            # Identifiers only count the bags; the published names of the images are not available.
            data.pop("bag_names", None)
    if verify_content:
        _verified(data, published.content, source)
    data["target"] = (data["target"] > 0).astype(np.int64)
    return data


def fetch_musk(
    version: int = 1,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    verify_content: bool = True,
    url: str | None = None,
    sha256: str | None = None,
    timeout: float = 30.0,
    n_retries: int = 3,
    delay: float = 1.0,
    allow_unverified: bool = False,
) -> Any:
    """Fetch Musk1 or Musk2: molecules that are musks or not, described by their conformations.

    ===========  =====  =========  ========  =============  =========
    version      bags   instances  features  positive bags  bag size
    ===========  =====  =========  ========  =============  =========
    1            92     476        166       47             2 to 40
    2            102    6598       166       39             1 to 1044
    ===========  =====  =========  ========  =============  =========

    A bag is a molecule, an instance one of its low-energy conformations, a feature the distance of
    the surface from the origin along a ray, or a position of an oxygen atom. Features are integers
    of about -470 to 625 and should be scaled.

    Parameters
    ----------
    version : {1, 2}, default=1
        The version of the data set.
    data_home : path-like, default=None
        See :func:`get_data_home`. A file ``musk1.npz`` or ``musk2.npz`` in it, as written by
        :func:`save_bags`, is used instead of a download.
    download_if_missing : bool, default=True
        Whether to download missing files.
    return_X_y : bool, default=False
        Return ``(data, target)``.
    verify_content : bool, default=True
        Compare the values of any file with a checksum of the published ones.
    url : str, default=None
        A mirror of the archive; by default, the UCI repository.
    sha256 : str, default=None
        Checksum of the archive file at ``url``, see :func:`fetch_bags`.
    timeout, n_retries, delay, allow_unverified : float, int, float and bool
        See :func:`fetch_bags`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or (Bags, ndarray)
        The result of :func:`load_bags`; ``target`` is 1 for a musk, and ``target_names`` is
        ``["non-musk", "musk"]``.

    Raises
    ------
    ValueError
        For another version.
    DownloadError
        An OSError, see :func:`fetch_bags`.
    FileNotFoundError
        With ``download_if_missing=False``, if the file is missing.
    BagFileError
        A ValueError: if the archive is damaged, or its values differ from the published ones.

    References
    ----------
    T. G. Dietterich, R. H. Lathrop, T. Lozano-Perez (1997). Solving the multiple-instance problem
    with axis-parallel rectangles. Artificial Intelligence 89, 31-71. The data are published by
    the UCI Machine Learning Repository under CC BY 4.0.

    Examples
    --------
    >>> from milearn.datasets import fetch_musk
    >>> X, y = fetch_musk(version=1, return_X_y=True)  # doctest: +SKIP
    >>> X  # doctest: +SKIP
    Bags(n_bags=92, n_instances=476, n_features=166, sizes=2..40, dtype=float64)
    """
    if version not in _MUSK:
        raise ValueError(f"version={version!r} is unknown; choose 1 or 2.")
    data = _fetch_published(
        _published_musk(version),
        Request(sha256, timeout, n_retries, delay, allow_unverified),
        data_home=data_home,
        download_if_missing=download_if_missing,
        verify_content=verify_content,
        url=url,
        format="c45",
        names=False,
        as_sparse=False,
    )
    data["target_names"] = np.array(["non-musk", "musk"])
    data["DESCR"] = (
        f"Musk{version} (Dietterich, Lathrop & Lozano-Perez 1997): bags are molecules, instances "
        "their conformations; label 1 is a musk."
    )
    return (data["data"], data["target"]) if return_X_y else data


def fetch_andrews(
    name: str = "elephant",
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    verify_content: bool = True,
    url: str | None = None,
    sha256: str | None = None,
    timeout: float = 30.0,
    n_retries: int = 3,
    delay: float = 1.0,
    allow_unverified: bool = False,
) -> Any:
    """Fetch one of the benchmark sets of Andrews, Tsochantaridis & Hofmann (2003).

    ====================================== ====  ==============  ========  =================
    name                                   bags  instances       features  a bag is
    ====================================== ====  ==============  ========  =================
    elephant, fox, tiger                   200   1391,1320,1220  230       image, of segments
    musk1norm                              92    476             166       Musk1, scaled
    trec1, trec2, trec3, trec7, trec10     400   about 3300      66000     text, of passages
    ====================================== ====  ==============  ========  =================

    Parameters
    ----------
    name : str, default="elephant"
        One of the names above. The text sets come as CSR.
    data_home : path-like, default=None
        See :func:`get_data_home`. A file ``elephant.npz``, ``trec9/tst1.npz`` and so on in it, as
        written by :func:`save_bags`, is used instead of a download.
    download_if_missing, return_X_y : bool
        See :func:`fetch_musk`.
    verify_content : bool, default=True
        Compare the file in the archive, if its checksum is known, and the values of any file with
        the published ones.
    url : str, default=None
        A mirror of the authors' archive with the MATLAB files of all sets.
    sha256 : str, default=None
        Checksum of the archive file at ``url``.
    timeout, n_retries, delay, allow_unverified : float, int, float and bool
        See :func:`fetch_musk`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or (Bags, ndarray)
        The result of :func:`load_bags`; ``target`` is 0 or 1.

    Raises
    ------
    ValueError
        For an unknown name.
    DownloadError
        An OSError, see :func:`fetch_bags`.
    FileNotFoundError
        With ``download_if_missing=False``, if the file is missing.
    BagFileError
        A ValueError: if the archive is damaged, or its values differ from the published ones.

    Notes
    -----
    Before a MATLAB file is parsed, the archive must have come by https or have the
    checksum ``sha256``, and the files of musk1norm and trec1 are compared with their SHA-256
    checksums. The checksums of the other files and of the archive are not known. ``verify_content``
    compares the values of all sets after reading.

    References
    ----------
    S. Andrews, I. Tsochantaridis, T. Hofmann (2003). Support vector machines for
    multiple-instance learning. Advances in Neural Information Processing Systems 15.

    Examples
    --------
    >>> from milearn.datasets import fetch_andrews
    >>> tiger = fetch_andrews("tiger")  # doctest: +SKIP
    >>> tiger.data  # doctest: +SKIP
    Bags(n_bags=200, n_instances=1220, n_features=230, sizes=1..13, dtype=float64)
    """
    if name not in _ANDREWS:
        raise ValueError(f"name={name!r} is unknown; choose one of {', '.join(_ANDREWS)}.")
    data = _fetch_published(
        _published_andrews(name),
        Request(sha256, timeout, n_retries, delay, allow_unverified),
        data_home=data_home,
        download_if_missing=download_if_missing,
        verify_content=verify_content,
        url=url,
        format="mat",
        as_sparse=name.startswith("trec"),
    )
    data["target_names"] = np.array(["negative", "positive"])
    data["DESCR"] = f"{name} (Andrews, Tsochantaridis & Hofmann 2003)."
    return (data["data"], data["target"]) if return_X_y else data
