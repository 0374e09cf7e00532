"""Extraction of one file from an archive; paths inside an archive are ignored."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from .._atomic import writing
from .._errors import BagFileError
from .lzw import unlzw

__all__ = ["unpack"]

_TAR = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
)


def unpack(
    archive: Path, member: str | None, suffixes: tuple[str, ...], *, limit: int = 1 << 32
) -> Path:
    """Extract a data file into the folder of its archive and return its path.

    Parameters
    ----------
    archive : Path
        A zip or tar archive, or a ``.gz`` or ``.Z`` file; other files are returned unchanged.
    member : str or None
        Path or name of the file in the archive, with or without ``.gz`` or ``.Z``. Without it the
        archive must contain exactly one file with one of ``suffixes``.
    suffixes : tuple of str
        Suffixes of data files.
    limit : int, default=4294967296
        Maximum size in bytes; larger members are treated as decompression bombs.

    Raises
    ------
    BagFileError
        If the archive is damaged (it is then removed, so that the next call downloads it again) or
        the member cannot be determined.
    """
    name = archive.name.lower()
    try:
        if name.endswith((".zip", *_TAR)):
            with _opened(archive) as (names, opened):
                chosen = _chosen(archive, names, member, suffixes)
                target = archive.parent / _plain_name(chosen)
                names_file = str(PurePosixPath(_without_packing(chosen)).with_suffix(".names"))
                for name in names:
                    # C4.5 data have two files.
                    wanted = name == chosen or _without_packing(name) == names_file
                    path = target if name == chosen else target.with_suffix(".names")
                    if wanted and not path.exists():
                        with opened(name) as file:
                            _copy(archive, file, name, path, limit)
            return target
        if archive.suffix in (".gz", ".Z"):
            target = archive.with_suffix("")
            if not target.exists():
                with open(archive, "rb") as file:
                    _copy(archive, file, archive.name, target, limit)
            return target
    except _ARCHIVE_ERRORS as error:
        archive.unlink(missing_ok=True)
        raise BagFileError(
            f"{archive}: the archive cannot be read and was removed; fetch it again."
        ) from error
    return archive


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[tuple[list[str], Callable[[str], Any]]]:
    """The names of the files in an archive, and a function that opens one."""
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as zipped:
            yield [info.filename for info in zipped.infolist() if not info.is_dir()], zipped.open
    else:
        with tarfile.open(archive) as tarred:
            files = {info.name: info for info in tarred if info.isfile()}
            yield list(files), lambda name: tarred.extractfile(files[name])


def _chosen(archive: Path, names: list[str], member: str | None, suffixes: tuple[str, ...]) -> str:
    def fits(name: str) -> bool:
        plain = _without_packing(name)
        if member is None:
            return plain.lower().endswith(suffixes)
        return member in (name, plain, PurePosixPath(name).name, _plain_name(name))

    fitting = [name for name in names if fits(name)]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(sorted(names)[:8]) + (", ..." if len(names) > 8 else "")
    if fitting:
        what = f"{len(fitting)} files that fit"
    else:
        what = "no data file" if member is None else f"no file {member!r}"
    raise BagFileError(f"{archive}: the archive holds {what}; name one with member= ({listed}).")


def _without_packing(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".Z")


def _plain_name(name: str) -> str:
    return PurePosixPath(_without_packing(name).replace("\\", "/")).name


def _copy(archive: Path, source: IO[bytes], name: str, target: Path, limit: int) -> None:
    if name.endswith(".Z"):
        try:
            source = io.BytesIO(unlzw(source.read(limit), limit=limit))
        except ValueError as error:
            raise EOFError(str(error)) from error
    elif name.endswith(".gz"):
        source = gzip.GzipFile(fileobj=source)  # type: ignore[assignment]
    size = 0
    with writing(target) as (file,):
        while chunk := source.read(1 << 20):
            size += len(chunk)
            if size > limit:
                raise BagFileError(
                    f"{archive}: {name!r} unpacks to more than {limit} bytes and was given up; "
                    "check the archive."
                )
            file.write(chunk)
