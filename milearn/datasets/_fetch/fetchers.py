"""Fetchers, which download, store and read data sets."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import loadmat
from sklearn.utils import Bunch

from ..._bags import Bags
from ..._bags.canonical import check_choice
from ..._bags.kinds import group_by_id
from .._errors import BagFileError, file_name_in_errors
from .._formats.io import load_bags
from .._formats.record import BagRecord
from .download import fetched, get_data_home

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


def fetch_musk(
    version: int = 1,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    n_retries: int = 3,
    delay: float = 1.0,
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

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

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
    n_retries : int, default=3
        Number of retries after a temporary error: no connection, an incomplete body, an overloaded
        server.
    delay : float, default=1.0
        Seconds before a retry.

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
        An OSError: no connection, an HTTP error, or an incomplete body. No file is stored.
    FileNotFoundError
        With ``download_if_missing=False``, if the file is missing.
    BagFileError
        A ValueError: if the archive is damaged, or its values differ from the published ones.

    See Also
    --------
    fetch_andrews : Fetch Elephant, Fox, Tiger and texts.

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
    return _published(
        data_home,
        f"musk{version}.npz",
        f"https://archive.ics.uci.edu/static/public/{73 + version}/musk+version+{version}.zip",
        member=f"clean{version}.data",
        content=_MUSK[version],
        target_names=["non-musk", "musk"],
        descr=f"Musk{version} (Dietterich, Lathrop & Lozano-Perez 1997): bags are molecules, "
        "instances their conformations; label 1 is a musk.",
        return_X_y=return_X_y,
        download_if_missing=download_if_missing,
        n_retries=n_retries,
        delay=delay,
    )


def fetch_andrews(
    name: str = "elephant",
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    n_retries: int = 3,
    delay: float = 1.0,
) -> Any:
    """Fetch one of the benchmark sets of Andrews, Tsochantaridis & Hofmann (2003).

    ====================================== ====  ==============  ========  =================
    name                                   bags  instances       features  a bag is
    ====================================== ====  ==============  ========  =================
    elephant, fox, tiger                   200   1391,1320,1220  230       image, of segments
    musk1norm                              92    476             166       Musk1, scaled
    trec1, trec2, trec3, trec7, trec10     400   about 3300      66000     text, of passages
    ====================================== ====  ==============  ========  =================

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    name : str, default="elephant"
        One of the names above. The text sets come as CSR.
    data_home : path-like, default=None
        See :func:`get_data_home`. A file ``elephant.npz``, ``trec9/tst1.npz`` and so on in it, as
        written by :func:`save_bags`, is used instead of a download.
    download_if_missing, return_X_y : bool
        See :func:`fetch_musk`.
    n_retries, delay : int and float
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
        An OSError: no connection, an HTTP error, or an incomplete body. No file is stored.
    FileNotFoundError
        With ``download_if_missing=False``, if the file is missing.
    BagFileError
        A ValueError: if the archive is damaged, or its values differ from the published ones.

    See Also
    --------
    fetch_musk : Fetch Musk1 or Musk2.

    Notes
    -----
    The archive comes by https. Its checksum is not known; the values of the set are compared with
    the published ones after reading.

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
    check_choice("name", name, _ANDREWS)
    stored, file = f"{name}.npz", name if name == "musk1norm" else f"{name}_100x100"
    if name.startswith("trec"):
        number = name.removeprefix("trec")
        stored, file = f"trec9/tst{number}.npz", f"trec_{number}_200x200"
    return _published(
        data_home,
        stored,
        _ANDREWS_URL,
        member=f"{file}_matlab.mat",
        content=_ANDREWS[name],
        target_names=["negative", "positive"],
        descr=f"{name} (Andrews, Tsochantaridis & Hofmann 2003).",
        return_X_y=return_X_y,
        download_if_missing=download_if_missing,
        n_retries=n_retries,
        delay=delay,
    )


def _published(
    data_home: Any,
    stored: str,
    url: str,
    *,
    member: str,
    content: str,
    target_names: list[str],
    descr: str,
    return_X_y: bool,
    **options: Any,
) -> Any:
    """The data of the file ``stored`` in the data home, or else of the published archive."""
    path, as_sparse = get_data_home(data_home) / stored, stored.startswith("trec9")
    if path.is_file():
        data = load_bags(path, dtype=np.float64, as_sparse=as_sparse)
    else:
        path = fetched(url, data_home, member=member, **options)
        data = _read_andrews(path, as_sparse) if path.suffix == ".mat" else _read_musk(path)
        data["url"] = url
    found = content_sha256(data["data"], data["target"])
    if found != content:
        raise BagFileError(
            f"{path}: the values differ from the published data set (content checksum {found}, "
            f"expected {content}); remove the file and fetch {url} again."
        )
    data["target"] = (data["target"] > 0).astype(np.int64)
    data["target_names"], data["DESCR"] = np.array(target_names), descr
    return (data["data"], data["target"]) if return_X_y else data


def content_sha256(bags: Bags, y: Any) -> str:
    """SHA-256 of the values and of the sign of the labels, in hexadecimal.

    The checksum does not depend on the order of bags, the order of instances in a bag, names, the
    file format, sparsity, or the type (float32 or float64). It shows whether two files have the
    same data.
    """
    matrix = sparse.csr_array(bags.instances).astype(np.float64)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    rows = []
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        columns = matrix.indices[start:stop].astype("<i8").tobytes()
        values = matrix.data[start:stop].astype("<f8").tobytes()
        rows.append(hashlib.sha256(columns + values).digest())
    blocks = []
    for bag, label in enumerate((np.asarray(y) > 0).tolist()):
        block = sorted(rows[bags.offsets[bag] : bags.offsets[bag + 1]])
        blocks.append(hashlib.sha256(bytes([label]) + b"".join(block)).digest())
    total = hashlib.sha256(str(bags.shape[1]).encode() + b"".join(sorted(blocks)))
    return total.hexdigest()


def _read_musk(path: Path) -> Bunch:
    """The C4.5 file of the archive: molecule, conformation, features, class and a period."""
    with file_name_in_errors(path, "C4.5"):
        cells = np.loadtxt(path, dtype=str, delimiter=",", ndmin=2)
        names, _, rows, offsets = group_by_id(cells[:, 0], "molecule")
        values, labels = cells[rows, 2:-1].astype(np.float64), cells[rows[offsets[:-1]], -1]
        bags = Bags(values, offsets, names=names, feature_names=[f"f{at}" for at in range(1, 167)])
        record = BagRecord(bags, np.char.rstrip(labels, ".").astype(np.int64))
        record.fields["instance_names"] = cells[rows, 1]
    return record.to_bunch(path)


def _read_andrews(path: Path, as_sparse: bool) -> Bunch:
    """The MATLAB file: a matrix of features, the number of the bag of each row, and its label."""
    with file_name_in_errors(path, "MATLAB 5"):
        content = loadmat(path)
        values, *rest = map(sparse.csr_array, map(content.get, ("features", "bag_ids", "labels")))
        ids, labels = (part.toarray().ravel() for part in rest)
        # Identifiers only count the bags; the published names of the images are not available.
        _, _, rows, offsets = group_by_id(ids, "bag_ids")
        bags = Bags(values[rows] if as_sparse else values.toarray()[rows], offsets)
    return BagRecord(bags, labels[rows[offsets[:-1]]]).to_bunch(path)
