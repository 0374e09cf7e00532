"""Arrays in files with one bag each: .h5, .npy, .npz and .pt."""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._errors import ContentError

__all__ = ["SUFFIXES", "ArrayHeader", "OpenFile", "opened"]


class ArrayHeader(NamedTuple):
    """Shape and type of an array, which are read before its values."""

    shape: tuple[int, ...]
    dtype: np.dtype


class OpenFile:
    """A file whose arrays are inspected and read one by one; by default, a mapping of arrays."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays

    def has(self, name: str) -> bool:
        """Whether there is an array with this name; False for a format without names."""
        return name in self._arrays

    def header(self, name: str) -> ArrayHeader:
        """Shape and type of an array, or an error that lists the arrays."""
        if not self.has(name):
            names = list(self._arrays)
            listed = ", ".join(map(repr, names[:5])) + (" ..." if len(names) > 5 else "")
            raise ContentError(f"no array {name!r} among {listed or 'none'}")
        return self._header(name)

    def _header(self, name: str) -> ArrayHeader:
        return ArrayHeader(self._arrays[name].shape, self._arrays[name].dtype)

    def read_into(self, name: str, out: np.ndarray) -> None:
        """Copy the values of an array to ``out``, contiguous and of as many values."""
        out[...] = self._arrays[name].reshape(out.shape)


class _Unnamed(OpenFile):
    """The only array of a format without names, which is found under any name."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__({})
        self._only = array

    def header(self, name: str) -> ArrayHeader:
        return ArrayHeader(self._only.shape, self._only.dtype)

    def read_into(self, name: str, out: np.ndarray) -> None:
        out[...] = self._only.reshape(out.shape)


class _Hdf5(OpenFile):
    def __init__(self, file: Any, dataset: type) -> None:
        super().__init__(file)
        self._dataset = dataset

    def has(self, name: str) -> bool:
        # Check membership first, because a name may be a path, such as "20x/features".
        return name in self._arrays and isinstance(self._arrays[name], self._dataset)

    def _header(self, name: str) -> ArrayHeader:
        if self._arrays[name].shape is None:
            raise ContentError(f"the array {name!r} is empty")
        return super()._header(name)

    def read_into(self, name: str, out: np.ndarray) -> None:
        # Read directly into the rows of the bag; HDF5 converts types.
        found = self._arrays[name]
        found.read_direct(out.reshape(found.shape))


class _Npz(OpenFile):
    """Members of an archive, whose headers are read without the values."""

    def _header(self, name: str) -> ArrayHeader:
        archive: Any = self._arrays
        with archive.zip.open(f"{name}.npy") as member:
            old = np.lib.format.read_magic(member) == (1, 0)
            read = (
                np.lib.format.read_array_header_1_0
                if old
                else (np.lib.format.read_array_header_2_0)
            )
            shape, _, dtype = read(member)
        # Memory must not be allocated for more values than the archive contains.
        if math.prod(shape) * dtype.itemsize > archive.zip.getinfo(f"{name}.npy").file_size:
            raise ContentError(f"the array {name!r} is truncated")
        return ArrayHeader(shape, dtype)


@contextlib.contextmanager
def _open_hdf5(path: Path) -> Iterator[OpenFile]:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            f"{path}: HDF5 files need h5py; install it with pip install 'milearn[hdf5]', or save "
            "the bags as .npy."
        ) from error
    with h5py.File(path, "r") as file:
        yield _Hdf5(file, h5py.Dataset)


@contextlib.contextmanager
def _open_npy(path: Path) -> Iterator[OpenFile]:
    # As a memory map: the length of the file is checked, and a file in Fortran order needs no extra
    # copy.
    yield _Unnamed(np.load(path, mmap_mode="r", allow_pickle=False))


@contextlib.contextmanager
def _open_npz(path: Path) -> Iterator[OpenFile]:
    if not zipfile.is_zipfile(path):
        raise ContentError("not an .npz archive, or a truncated one")
    # Open the file explicitly, because NumPy does not close a file that it cannot read.
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        yield _Npz(archive)


@contextlib.contextmanager
def _open_torch(path: Path) -> Iterator[OpenFile]:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{path}: .pt files need torch, which is not installed; install it, or save the bags "
            "as .npy or .h5. They are pickles, which nothing but torch reads without running them."
        ) from error
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:
        # Files of torch before version 1.6 cannot be mapped.
        found = torch.load(path, map_location="cpu", weights_only=True)
    arrays = {}
    for name, tensor in (found if isinstance(found, dict) else {"": found}).items():
        if isinstance(tensor, torch.Tensor):
            # NumPy does not have bfloat16; float32 represents all of its values.
            plain = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
            arrays[str(name)] = plain.detach().numpy()
        elif isinstance(tensor, np.ndarray):
            arrays[str(name)] = tensor
    if not isinstance(found, dict) and not arrays:
        raise ContentError(f"it holds {type(found).__name__}, not a tensor")
    yield OpenFile(arrays) if isinstance(found, dict) else _Unnamed(arrays[""])


SUFFIXES = {
    ".h5": _open_hdf5,
    ".hdf5": _open_hdf5,
    ".npy": _open_npy,
    ".npz": _open_npz,
    ".pt": _open_torch,
}


@contextlib.contextmanager
def opened(path: Path) -> Iterator[OpenFile]:
    """The arrays of a file; the message of the library becomes a ContentError."""
    try:
        with SUFFIXES[path.suffix.lower()](path) as file:
            yield file
    except (ContentError, ImportError, MemoryError):
        raise
    except Exception as error:
        # The libraries raise exceptions of any kind for damaged files: OSError, KeyError,
        # UnpicklingError, zlib.error, EOFError.
        text = str(error).strip().splitlines()
        said = text[0] if text else type(error).__name__
        raise ContentError(f"cannot be read ({said[:160]})") from error
