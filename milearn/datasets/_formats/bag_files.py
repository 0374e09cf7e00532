"""Arrays in files with one bag each: .h5, .npy, .npz and .pt."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._errors import ContentError
from .record import npz_header
from .text import listed


class ArrayHeader(NamedTuple):
    """Shape and type of an array, which are read before its values."""

    shape: tuple[int, ...]
    dtype: np.dtype


def read_array(
    path: Path, name: str, out: np.ndarray | None = None, *, sure: bool = True
) -> ArrayHeader | None:
    """Shape and type of an array of a file, whose values are copied to ``out`` if it is given.

    ``out`` has as many values. If the array is missing, this is an error if ``sure``, else None.
    The message of the library of the file becomes a ContentError that names the file.
    """
    place = f"{path.parent.name}/{path.name}"
    try:
        with contextlib.ExitStack() as stack:
            find, names = SUFFIXES[path.suffix.lower()](path, stack)
            found = None if names is None and not sure else find(name)
            if found is None or found.shape is None:
                if not sure:
                    return None
                raise ContentError(f"no array {name!r} among {listed(names or ()) or 'none'}")
            if out is not None:
                out[...] = np.asarray(found).reshape(out.shape)
            return ArrayHeader(found.shape, found.dtype)
    except ContentError as error:
        raise ContentError(f"{place}: {error}") from error.__cause__
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        # The libraries raise exceptions of any kind for damaged files: OSError, KeyError,
        # UnpicklingError, zlib.error, EOFError.
        text = str(error).strip().splitlines()
        said = text[0] if text else type(error).__name__
        raise ContentError(f"{place}: cannot be read ({said[:160]})") from error


# Each of the functions returns a function that finds the array of a name, or None, and the names
# of all arrays, None for a format with one array without a name.


def _open_hdf5(path: Path, stack: contextlib.ExitStack) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            f"{path}: HDF5 files need h5py; install it with pip install 'milearn[hdf5]', or save "
            "the bags as .npy."
        ) from error
    file = stack.enter_context(h5py.File(path, "r"))

    def find(name: str) -> Any:  # which may be a path, such as "20x/features"
        found = file.get(name)
        return found if isinstance(found, h5py.Dataset) else None

    return find, list(file)


def _open_npy(path: Path, stack: contextlib.ExitStack) -> Any:
    # As a memory map: the length of the file is checked, and a file in Fortran order needs no extra
    # copy.
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return (lambda _: array), None


class _Member:
    """An array in an archive, whose values are read on demand."""

    def __init__(self, archive: Any, name: str) -> None:
        self._archive, self._name = archive, name
        self.shape, self.dtype = npz_header(archive, name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._archive[self._name], dtype=dtype)


def _open_npz(path: Path, stack: contextlib.ExitStack) -> Any:
    if not zipfile.is_zipfile(path):
        raise ContentError("not an .npz archive, or a truncated one")
    # Open the file explicitly, because NumPy does not close a file that it cannot read.
    file = stack.enter_context(path.open("rb"))
    archive = stack.enter_context(np.load(file, allow_pickle=False))
    names = archive.files
    return (lambda name: _Member(archive, name) if name in names else None), names


def _open_torch(path: Path, stack: contextlib.ExitStack) -> Any:
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

    def array(tensor: Any) -> np.ndarray:
        # NumPy does not have bfloat16; float32 represents all of its values.
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()

    if isinstance(found, torch.Tensor):
        return (lambda _: array(found)), None
    if not isinstance(found, dict):
        raise ContentError(f"it holds {type(found).__name__}, not a tensor")
    tensors = {str(name): each for name, each in found.items() if isinstance(each, torch.Tensor)}
    return (lambda name: array(tensors[name]) if name in tensors else None), list(tensors)


SUFFIXES: dict[str, Callable[[Path, contextlib.ExitStack], Any]] = {
    ".h5": _open_hdf5,
    ".hdf5": _open_hdf5,
    ".npy": _open_npy,
    ".npz": _open_npz,
    ".pt": _open_torch,
}
