"""Arrays of the files that hold one bag each: .h5, .npy, .npz and .pt."""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

__all__ = ["SUFFIXES", "ArrayHeader", "UnreadableError", "opened"]


class UnreadableError(ValueError):
    """What is wrong with one file of a folder, without its name."""


class ArrayHeader(NamedTuple):
    """What is known of an array before its values are read."""

    shape: tuple[int, ...]
    dtype: np.dtype


class OpenFile(Protocol):
    """A file whose arrays can be looked at and read one by one.

    A file format without names has one array, which answers to every name.
    """

    def has(self, name: str) -> bool:
        """Whether there is an array of this name; False for a format without names."""
        ...

    def header(self, name: str) -> ArrayHeader: ...

    def read_into(self, name: str, out: np.ndarray) -> None:
        """Copy the values of an array to ``out``, contiguous and of as many values."""
        ...


class _Hdf5:
    def __init__(self, file: Any, dataset: type) -> None:
        self._file = file
        self._dataset = dataset

    def has(self, name: str) -> bool:
        # Membership is asked first: a name may be a path, as in "20x/features".
        return name in self._file and isinstance(self._file[name], self._dataset)

    def header(self, name: str) -> ArrayHeader:
        if not self.has(name):
            raise _no_array(name, list(self._file))
        found = self._file[name]
        if found.shape is None:
            raise UnreadableError(f"the array {name!r} holds nothing")
        return ArrayHeader(found.shape, found.dtype)

    def read_into(self, name: str, out: np.ndarray) -> None:
        found = self._file[name]
        # Straight into the rows of the bag, converted by HDF5 where the types differ.
        found.read_direct(out.reshape(found.shape))


class _Arrays:
    """Arrays in memory or in a memory map."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self._arrays = arrays

    def has(self, name: str) -> bool:
        return name in self._arrays

    def _array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise _no_array(name, list(self._arrays))
        return self._arrays[name]

    def header(self, name: str) -> ArrayHeader:
        found = self._array(name)
        return ArrayHeader(found.shape, found.dtype)

    def read_into(self, name: str, out: np.ndarray) -> None:
        out[...] = self._array(name).reshape(out.shape)


class _Npy(_Arrays):
    def __init__(self, array: np.ndarray) -> None:
        super().__init__({})
        self._only = array

    def _array(self, name: str) -> np.ndarray:
        return self._only


class _Npz(_Arrays):
    """Members of an archive, read when their values are needed and not before."""

    def __init__(self, archive: Any) -> None:
        super().__init__(dict.fromkeys(archive.files))
        self._archive = archive

    def _array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise _no_array(name, list(self._arrays))
        return self._archive[name]

    def header(self, name: str) -> ArrayHeader:
        if name not in self._arrays:
            raise _no_array(name, list(self._arrays))
        with self._archive.zip.open(f"{name}.npy") as member:
            version = np.lib.format.read_magic(member)
            if version == (1, 0):
                shape, _, dtype = np.lib.format.read_array_header_1_0(member)
            elif version == (2, 0):
                shape, _, dtype = np.lib.format.read_array_header_2_0(member)
            else:
                shape, dtype = self._archive[name].shape, self._archive[name].dtype
        # A damaged header must not make room for more than the archive holds.
        if math.prod(shape) * dtype.itemsize > self._archive.zip.getinfo(f"{name}.npy").file_size:
            raise UnreadableError(f"the array {name!r} is truncated")
        return ArrayHeader(shape, dtype)


def _no_array(name: str, names: list[str]) -> UnreadableError:
    listed = ", ".join(map(repr, names[:5])) + (" ..." if len(names) > 5 else "")
    return UnreadableError(f"no array {name!r} among {listed or 'none'}")


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
    # As a memory map: the header is checked against the length of the file, and a file in
    # Fortran's order needs no copy of its own.
    yield _Npy(np.load(path, mmap_mode="r", allow_pickle=False))


@contextlib.contextmanager
def _open_npz(path: Path) -> Iterator[OpenFile]:
    if not zipfile.is_zipfile(path):
        raise UnreadableError("not an .npz archive, or a truncated one")
    # Opened here: NumPy leaves a file open that it fails to read.
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
        # Files from before version 1.6 of torch cannot be mapped.
        found = torch.load(path, map_location="cpu", weights_only=True)
    named = found if isinstance(found, dict) else {"": found}
    arrays = {}
    for name, tensor in named.items():
        if isinstance(tensor, torch.Tensor):
            # NumPy has no bfloat16; float32 holds all of its values.
            plain = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
            arrays[str(name)] = plain.detach().numpy()
        elif isinstance(tensor, np.ndarray):
            arrays[str(name)] = tensor
    if isinstance(found, dict):
        yield _Arrays(arrays)
    elif arrays:
        yield _Npy(arrays[""])
    else:
        raise UnreadableError(f"it holds {type(found).__name__}, no tensor")


SUFFIXES = {
    ".h5": _open_hdf5,
    ".hdf5": _open_hdf5,
    ".npy": _open_npy,
    ".npz": _open_npz,
    ".pt": _open_torch,
}


@contextlib.contextmanager
def opened(path: Path) -> Iterator[OpenFile]:
    """The arrays of a file.

    Raises
    ------
    UnreadableError
        For a file that its library cannot read, with what the library says.
    ImportError
        For a library that is not installed.
    """
    try:
        with SUFFIXES[path.suffix.lower()](path) as file:
            yield file
    except (UnreadableError, ImportError, MemoryError):
        raise
    except Exception as error:
        # The libraries report damage by whatever their parsers stumble over: OSError, KeyError,
        # UnpicklingError, zlib.error, EOFError.
        text = str(error).strip().splitlines()
        said = text[0] if text else type(error).__name__
        raise UnreadableError(f"cannot be read ({said[:160]})") from error
