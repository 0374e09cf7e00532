"""Downloads that end in a complete, verified file or in one clear error and no file."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from .._atomic import writing
from .._errors import DownloadError

__all__ = ["download", "sha256_of"]

_CHUNK = 1 << 16
# The server or the way to it is at fault, not the request: worth another attempt.
_PASSING = (408, 425, 429, 500, 502, 503, 504)


class _Passing(Exception):
    """A failure that another attempt may not meet; its text completes the final message."""


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(
    url: str,
    path: Path,
    *,
    sha256: str | None = None,
    timeout: float = 30.0,
    n_retries: int = 3,
    delay: float = 1.0,
) -> None:
    """Download ``url`` to ``path``, which appears only when it is complete and verified.

    Parameters
    ----------
    url : str
        An http or https address.
    path : Path
        Where the file goes; folders are created.
    sha256 : str, default=None
        The checksum that the file must have.
    timeout : float, default=30.0
        Seconds without a sign of life from the server.
    n_retries : int, default=3
        Further attempts after a failure that may pass.
    delay : float, default=1.0
        Seconds before the first further attempt, doubled for each next one.

    Raises
    ------
    DownloadError
        One sentence with the address, the reason and the remedy.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(
            f"{url}: only http and https addresses are downloaded; read local files with load_bags."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(n_retries + 1):
        if attempt:
            time.sleep(delay * 2 ** (attempt - 1))
        try:
            return _once(url, path, sha256, timeout)
        except _Passing as failure:
            reason = failure
    attempts = "1 attempt" if n_retries == 0 else f"{n_retries + 1} attempts"
    raise DownloadError(
        f"{url}: {reason} ({attempts}); try again later, or download the file by hand to {path}."
    )


def _once(url: str, path: Path, sha256: str | None, timeout: float) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "milearn"})
    try:
        with (
            urllib.request.urlopen(request, timeout=timeout) as response,
            writing(path) as (file,),
        ):
            digest, received = hashlib.sha256(), 0
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                received += len(chunk)
            # Read in pieces, a body that breaks off looks like one that ends.
            announced = response.headers.get("Content-Length")
            if announced is not None and received < int(announced):
                raise _Passing(f"the download broke off after {received} of {announced} bytes")
            if sha256 is not None and digest.hexdigest() != sha256.lower():
                raise DownloadError(
                    f"{url}: the SHA-256 checksum is {digest.hexdigest()} but {sha256.lower()} was "
                    "expected, and the file was removed; if the source has published a new version "
                    "that you trust, pass its checksum as sha256=."
                )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _PASSING:
            raise _Passing(f"the server answered {error.code} {error.reason}") from None
        raise DownloadError(
            f"{url}: the server answered {error.code} {error.reason}; check the address, or "
            f"download the file by hand to {path}."
        ) from None
    except urllib.error.URLError as error:
        raise _Passing(f"there is no connection ({error.reason})") from None
    except TimeoutError:
        raise _Passing(f"the server was silent for {timeout:g} seconds") from None
    except http.client.IncompleteRead:
        raise _Passing("the download broke off") from None
    except (http.client.HTTPException, ConnectionError) as error:
        raise _Passing(f"the connection failed ({type(error).__name__})") from None
