"""One file out of an archive, by its own name: no path inside an archive is ever followed."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO

from .._atomic import writing
from .._errors import BagFileError
from .lzw import unlzw

__all__ = ["unpack"]

_TAR = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_LIMIT = 1 << 32  # bytes; a member that grows beyond is a decompression bomb, not a data set
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
)


def unpack(archive: Path, member: str | None, suffixes: tuple[str, ...]) -> Path:
    """Extract a data file beside its archive and return where it is.

    Parameters
    ----------
    archive : Path
        A zip or tar archive, a ``.gz`` or ``.Z`` file; anything else is returned as it is.
    member : str or None
        Path or name of the file in the archive, with or without ``.gz`` or ``.Z``. Without it the
        archive must hold exactly one file with one of ``suffixes``.
    suffixes : tuple of str
        Suffixes of data files.

    Raises
    ------
    BagFileError
        When the archive is damaged (it is removed then, so that a further call downloads it
        again) or the member cannot be determined.
    """
    try:
        if archive.name.lower().endswith(".zip"):
            with zipfile.ZipFile(archive) as zipped:
                names = [info.filename for info in zipped.infolist() if not info.is_dir()]
                return _extract(archive, names, zipped.open, member, suffixes)
        if archive.name.lower().endswith(_TAR):
            with tarfile.open(archive) as tarred:
                files = {info.name: info for info in tarred if info.isfile()}

                def opened(name: str) -> IO[bytes]:
                    return tarred.extractfile(files[name])  # type: ignore[return-value]

                return _extract(archive, list(files), opened, member, suffixes)
        if archive.suffix in (".gz", ".Z"):
            target = archive.with_suffix("")
            if not target.exists():
                with open(archive, "rb") as file:
                    _copy(archive, file, archive.name, target)
            return target
    except _ARCHIVE_ERRORS as error:
        archive.unlink(missing_ok=True)
        raise BagFileError(
            f"{archive}: the archive cannot be read and was removed; fetch it again."
        ) from error
    return archive


def _extract(
    archive: Path,
    names: list[str],
    opened: Callable[[str], IO[bytes]],
    member: str | None,
    suffixes: tuple[str, ...],
) -> Path:
    chosen = _chosen(archive, names, member, suffixes)
    target = archive.parent / _plain_name(chosen)
    # C4.5 data stand in two files.
    wanted = [(chosen, target)]
    beside = str(PurePosixPath(_without_packing(chosen)).with_suffix(".names"))
    wanted += [
        (name, target.with_suffix(".names")) for name in names if _without_packing(name) == beside
    ]
    for name, path in wanted:
        if not path.exists():
            with opened(name) as file:
                _copy(archive, file, name, path)
    return target


def _chosen(archive: Path, names: list[str], member: str | None, suffixes: tuple[str, ...]) -> str:
    if member is None:
        fitting = [name for name in names if _without_packing(name).lower().endswith(suffixes)]
    else:
        fitting = [
            name
            for name in names
            if member in (name, _without_packing(name), PurePosixPath(name).name, _plain_name(name))
        ]
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


def _copy(archive: Path, source: IO[bytes], name: str, target: Path) -> None:
    if name.endswith(".Z"):
        try:
            source = io.BytesIO(unlzw(source.read(_LIMIT), limit=_LIMIT))
        except ValueError as error:
            raise EOFError(str(error)) from error
    elif name.endswith(".gz"):
        source = gzip.GzipFile(fileobj=source)  # type: ignore[assignment]
    size = 0
    with writing(target) as (file,):
        while chunk := source.read(1 << 20):
            size += len(chunk)
            if size > _LIMIT:
                raise BagFileError(
                    f"{archive}: {name!r} unpacks to more than {_LIMIT} bytes and was given up; "
                    "check the archive."
                )
            file.write(chunk)
