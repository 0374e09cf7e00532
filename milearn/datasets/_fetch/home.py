"""The folder of stored data sets."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

FETCHED = "fetched"


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the data sets, created if it does not exist.

    Parameters
    ----------
    data_home : path-like, default=None
        The folder. By default, the environment variable ``MILEARN_DATA``, or ``~/milearn_data``. A
        leading ``~`` is the home folder.

    Returns
    -------
    path : pathlib.Path
        Fetchers store their files in its subfolder ``fetched``.

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

    Parameters
    ----------
    data_home : path-like, default=None
        See :func:`get_data_home`.
    """
    shutil.rmtree(get_data_home(data_home) / FETCHED, ignore_errors=True)
