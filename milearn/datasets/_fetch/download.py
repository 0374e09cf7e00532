"""Downloads of verified files, with clear errors.

Retries are implemented in this module: pooch also retries permanent errors, such as an address that
does not exist, and its message for a wrong checksum is different.
"""

from __future__ import annotations

import hashlib
import http.client
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pooch
import requests

from .._atomic import writing
from .._errors import DownloadError

__all__ = ["Request", "download", "sha256_of"]

# Errors of the server or the connection, after which a retry may succeed.
_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


class _TransientError(Exception):
    """An error after which a retry may succeed; its text is part of the final message."""


@dataclass(frozen=True)
class Request:
    """Settings of downloads, see :func:`milearn.datasets.fetch_bags`."""

    sha256: str | None = None
    timeout: float = 30.0
    n_retries: int = 3
    delay: float = 1.0
    allow_unverified: bool = False


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(url: str, path: Path, request: Request) -> None:
    """Download ``url`` to ``path``, which is created only after the file has been verified."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(
            f"{url}: only http and https addresses are downloaded; read local files with load_bags."
        )
    trusted = request.sha256 is not None or request.allow_unverified
    if not trusted and urlsplit(url).scheme != "https":
        raise _unverified(url, "what")
    path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(request.n_retries + 1):
        if attempt:
            time.sleep(request.delay * 2 ** (attempt - 1))
        try:
            return _once(url, path, request, trusted)
        except _TransientError as failure:
            reason = failure
    attempts = "1 attempt" if request.n_retries == 0 else f"{request.n_retries + 1} attempts"
    raise DownloadError(
        f"{url}: {reason} ({attempts}); try again later, or download the file by hand to {path}."
    )


def _once(url: str, path: Path, request: Request, trusted: bool) -> None:
    answers: list[Any] = []

    def inspect(response: Any, **_: Any) -> None:
        answers.append(response)
        # requests would decode the encoding that the server declares, such as that of a .tgz file,
        # but the checksum is that of the encoded file.
        response.raw.headers.pop("Content-Encoding", None)
        response.raw.enforce_content_length = True
        if not trusted and urlsplit(response.url).scheme != "https":
            raise _unverified(url, f"the server led on to {response.url}, and what")

    fetch = pooch.HTTPDownloader(
        timeout=request.timeout,
        headers={"User-Agent": "milearn", "Accept-Encoding": "identity"},
        hooks={"response": inspect},
    )
    try:
        with writing(path) as (file,):
            fetch(url, file, None)
            file.flush()
            found = sha256_of(Path(file.name))
            if request.sha256 is not None and found != request.sha256.lower():
                raise DownloadError(
                    f"{url}: the SHA-256 checksum is {found} but {request.sha256.lower()} was "
                    "expected, and the file was removed; if the source has published a new version "
                    "that you trust, pass its checksum as sha256=."
                )
    except requests.HTTPError as error:
        refusal: Any = error.response
        status, reason = refusal.status_code, refusal.reason
        if status in _TRANSIENT_STATUS:
            raise _TransientError(f"the server answered {status} {reason}") from None
        raise DownloadError(
            f"{url}: the server answered {status} {reason}; check the address, or "
            f"download the file by hand to {path}."
        ) from None
    except requests.RequestException as error:
        raise _TransientError(_reason(error, request.timeout)) from None
    finally:
        # pooch does not close the connection after an error.
        for answer in answers:
            answer.close()


def _reason(error: requests.RequestException, timeout: float) -> str:
    """The cause, from the exceptions that requests has wrapped."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, http.client.IncompleteRead):
            # urllib3 stores the number of bytes instead of the bytes.
            got, left = cause.partial, cause.expected
            if isinstance(got, int) and left is not None:
                return f"the download broke off after {got} of {got + left} bytes"
            return "the download broke off"
    if any(isinstance(cause, TimeoutError | requests.Timeout) for cause in causes):
        return f"the server was silent for {timeout:g} seconds"
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno is not None:
            return f"there is no connection ({cause})"
    return f"the connection failed ({type(error).__name__})"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _unverified(url: str, what: str) -> DownloadError:
    return DownloadError(
        f"{url}: {what} comes by plain http may have been changed on its way; use an https "
        "address, pass the checksum of the file as sha256=, or pass allow_unverified=True to take "
        "it as it is."
    )
