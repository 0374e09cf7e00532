"""Matrices that lie in a file: pickled by reference, selected and read without a copy of the whole.

A container over a memory map keeps it as :class:`MappedRows`. Slices and index arrays of it are
read from the file when they are asked for, and the pages that a slice has touched are given back,
so that a pass over all instances needs the memory of one block.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

__all__ = [
    "MapReference",
    "MappedRows",
    "held_bytes",
    "is_mapped",
    "note_file",
    "pack",
    "refers_to_file",
    "release",
    "unpack",
]

# The first byte of a pickle; joblib maps arrays inside its own pickles.
_PICKLE = b"\x80"


@dataclass(frozen=True)
class MapReference:
    """The place of an array in a file, which a pickle holds instead of a memory-mapped array."""

    path: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    size: int
    mtime_ns: int

    def open(self) -> np.ndarray:
        """The array, mapped read-only.

        Raises
        ------
        OSError
            FileNotFoundError when the file is gone, else when it has changed its size.
        """
        try:
            found = os.stat(self.path).st_size
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{self.path}: this file, to which pickled Bags refer, is gone; put it back, or "
                "pickle Bags that lie in memory."
            ) from error
        if found != self.size:
            raise OSError(
                f"{self.path}: this file, to which pickled Bags refer, has {found} bytes in place "
                f"of {self.size}; put back the file that was pickled."
            )
        return np.memmap(
            self.path, dtype=self.dtype, mode="r", shape=self.shape, offset=self.offset
        ).view(np.ndarray)


def mapping_of(array: np.ndarray) -> np.memmap | None:
    """The memory map that an array is a view of."""
    base: Any = array
    while base is not None:
        if isinstance(base, np.memmap) and isinstance(base.base, mmap.mmap):
            return base
        base = getattr(base, "base", None)
    return None


def is_mapped(array: Any) -> bool:
    """Whether an array is a view of a file (of one that is not copied on writing)."""
    if not isinstance(array, np.ndarray) or array.nbytes == 0:
        return False
    root = mapping_of(array)
    return root is not None and root.mode != "c"


def reference_to(array: np.ndarray) -> MapReference | None:
    """The reference to a mapped array, or None where only its values will do.

    These are: an array in memory, one that is not C-contiguous, one whose file was replaced or
    removed, and one inside of a pickle. Those are joblib's: it passes references to its workers
    itself, and deletes the files when they are done.
    """
    if not is_mapped(array) or not array.flags.c_contiguous:
        return None
    root = mapping_of(array)
    assert root is not None
    if root.filename is None:
        return None
    path = os.fspath(root.filename)
    try:
        with open(path, "rb") as file:
            state = os.fstat(file.fileno())
            start = file.read(1)
    except OSError:
        return None
    offset = int(root.offset + array.ctypes.data - root.ctypes.data)
    if start == _PICKLE or not _same_file(root, state) or offset + array.nbytes > state.st_size:
        return None
    return MapReference(
        path, array.dtype, array.shape, offset, int(state.st_size), int(state.st_mtime_ns)
    )


def _same_file(root: np.memmap, state: os.stat_result) -> bool:
    """Whether a path still leads to the mapped file, as far as the system knows."""
    opened = getattr(root, "_milearn_inode", None)
    return opened is None or opened == (state.st_dev, state.st_ino)


def note_file(array: np.ndarray) -> None:
    """Note which file a map was opened on, as long as its path leads there."""
    root = mapping_of(array)
    if root is not None and root.filename is not None and not hasattr(root, "_milearn_inode"):
        with contextlib.suppress(OSError):
            state = os.stat(root.filename)
            root._milearn_inode = state.st_dev, state.st_ino  # type: ignore[attr-defined]


def pack(matrix: Any) -> Any:
    """The content of a pickle for an array or CSR matrix: references to mapped arrays."""
    if matrix is None:
        return None
    if not sparse.issparse(matrix):
        reference = reference_to(matrix)
        return matrix if reference is None else reference
    return pack(matrix.data), pack(matrix.indices), pack(matrix.indptr), matrix.shape


def unpack(packed: Any) -> Any:
    if packed is None:
        return None
    if refers_to_file(packed):
        return packed.open()
    # np.asarray: joblib.hash tells np.memmap from an array; the view still lies in the file.
    if not isinstance(packed, tuple):
        return np.asarray(packed)
    *parts, shape = packed
    return sparse.csr_array(tuple(unpack(part) for part in parts), shape=shape)


def refers_to_file(packed: Any) -> bool:
    return isinstance(packed, MapReference)


def held_bytes(state: Any) -> int:
    """Bytes of the arrays in a state, dictionaries and tuples of arrays."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    parts = state.values() if isinstance(state, dict) else state
    return sum(map(held_bytes, parts)) if isinstance(state, (dict, tuple)) else 0


class MappedRows:
    """Rows of some bags of a mapped matrix, which are read when they are asked for.

    Parameters
    ----------
    matrix : ndarray
        A C-contiguous view of a memory map.
    firsts : ndarray of shape (n_bags,)
        Row of ``matrix`` at which each bag starts.
    offsets : ndarray of shape (n_bags + 1,)
        Offsets of the selected bags.
    """

    ndim = 2

    def __init__(self, matrix: np.ndarray, firsts: np.ndarray, offsets: np.ndarray) -> None:
        self.matrix, self.firsts, self.offsets = matrix, firsts, offsets
        self.shape = int(offsets[-1]), int(matrix.shape[1])
        self.dtype = matrix.dtype
        # Bags that follow each other in the matrix too are read together.
        starts = np.ones(len(firsts), dtype=bool)
        starts[1:] = firsts[1:] != firsts[:-1] + np.diff(offsets)[:-1]
        self._run_firsts = firsts[starts]
        self._run_offsets = np.append(offsets[:-1][starts], offsets[-1])

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def selected(self, positions: Any, offsets: np.ndarray) -> MappedRows:
        """Some of the bags, ``offsets`` being theirs."""
        return MappedRows(self.matrix, self.firsts[positions], offsets)

    def __getitem__(self, key: Any) -> np.ndarray:
        """A copy of the rows of a slice with step 1, or of an array of rows."""
        if isinstance(key, slice):
            start, stop, _ = key.indices(self.shape[0])
            return self.read(start, stop, self.dtype)
        rows = np.asarray(key)
        runs = np.searchsorted(self._run_offsets, rows, side="right") - 1
        return self.matrix[self._run_firsts[runs] + rows - self._run_offsets[runs]]

    def read(self, start: int, stop: int, dtype: Any, *, piece_bytes: int = 2**24) -> np.ndarray:
        """Rows ``start`` to ``stop`` as a new array of the given type.

        They are read in pieces, whose pages are given back, so that no more than one of them is in
        memory twice.
        """
        piece = max(1, piece_bytes // max(1, self.shape[1] * self.dtype.itemsize))
        out = np.empty((max(0, stop - start), self.shape[1]), dtype=dtype)
        run = int(np.searchsorted(self._run_offsets, start, side="right")) - 1
        row = start
        while row < stop:
            end = min(stop, int(self._run_offsets[run + 1]), row + piece)
            first = int(self._run_firsts[run] + row - self._run_offsets[run])
            part = self.matrix[first : first + end - row]
            out[row - start : end - start] = part
            release(part)
            row = end
            run += int(row == self._run_offsets[run + 1])
        return out


def release(array: np.ndarray) -> None:
    """Give the pages of a mapped array back; they stay in the cache of the system."""
    root = mapping_of(array)
    pages: Any = None if root is None else root.base
    # Where there is no such call, the system takes the pages back when it needs them.
    if root is None or root.mode == "c" or not hasattr(mmap, "MADV_DONTNEED"):
        return
    # The map begins at a whole page, the array of np.memmap somewhere inside of the first one.
    inside = root.offset % mmap.ALLOCATIONGRANULARITY
    start = inside + array.ctypes.data - root.ctypes.data
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    pages.madvise(mmap.MADV_DONTNEED, first, start + array.nbytes - first)
