"""Matrices in a file, which are pickled by reference and read in parts.

A container stores a memory map as :class:`MappedRows`. Slices and index arrays of it are read from
the file when they are used, and the pages of a slice are released afterwards, so that a pass over
all instances needs the memory of one block.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .segments import gather_rows, offsets_of

__all__ = [
    "MapReference",
    "MappedRows",
    "RowsReference",
    "held_bytes",
    "is_mapped",
    "note_file",
    "pack",
    "refers_to_file",
    "release",
    "unpack",
]

# The first byte of a pickle: joblib maps arrays inside its pickles.
_PICKLE = b"\x80"


@dataclass(frozen=True)
class MapReference:
    """The position of an array in a file, which is pickled instead of a memory map."""

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
            FileNotFoundError if the file has been removed, otherwise if its size has changed.
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


@dataclass(frozen=True)
class RowsReference:
    """The position of rows in a file, which is pickled instead of :class:`MappedRows`."""

    matrix: MapReference
    firsts: np.ndarray
    offsets: np.ndarray
    parts: np.ndarray | None

    def open(self) -> MappedRows:
        return MappedRows(self.matrix.open(), self.firsts, self.offsets, self.parts)


def mapping_of(array: np.ndarray) -> np.memmap | None:
    """The memory map of which an array is a view."""
    base: Any = array
    while base is not None:
        if isinstance(base, np.memmap) and isinstance(base.base, mmap.mmap):
            return base
        base = getattr(base, "base", None)
    return None


def is_mapped(array: Any) -> bool:
    """Whether an array is a view of a file that is not mapped copy-on-write."""
    if not isinstance(array, np.ndarray) or array.nbytes == 0:
        return False
    root = mapping_of(array)
    return root is not None and root.mode != "c"


def reference_to(array: np.ndarray) -> MapReference | None:
    """The reference to a mapped array, or None if its values have to be pickled.

    This is so for arrays in memory, arrays that are not C-contiguous, arrays whose file was
    replaced or removed, and arrays inside a pickle. The latter belong to joblib, which passes
    references to its workers and deletes the files when they have finished.
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
    """Whether a path still refers to the mapped file."""
    opened = getattr(root, "_milearn_inode", None)
    return opened is None or opened == (state.st_dev, state.st_ino)


def note_file(array: np.ndarray) -> None:
    """Record the file of a map, as long as its path refers to it."""
    root = mapping_of(array)
    if root is not None and root.filename is not None and not hasattr(root, "_milearn_inode"):
        with contextlib.suppress(OSError):
            state = os.stat(root.filename)
            root._milearn_inode = state.st_dev, state.st_ino  # type: ignore[attr-defined]


def pack(matrix: Any) -> Any:
    """The content of a pickle for rows, an array or a CSR matrix: references to mapped arrays."""
    if matrix is None:
        return None
    if isinstance(matrix, MappedRows):
        return matrix.packed()
    if not sparse.issparse(matrix):
        reference = reference_to(matrix)
        return matrix if reference is None else reference
    return pack(matrix.data), pack(matrix.indices), pack(matrix.indptr), matrix.shape


def unpack(packed: Any) -> Any:
    if packed is None:
        return None
    if refers_to_file(packed):
        return packed.open()
    # np.asarray, because joblib.hash of a np.memmap differs; the view still refers to the file.
    if not isinstance(packed, tuple):
        return np.asarray(packed)
    *parts, shape = packed
    return sparse.csr_array(tuple(unpack(part) for part in parts), shape=shape)


def refers_to_file(packed: Any) -> bool:
    return isinstance(packed, (MapReference, RowsReference))


def held_bytes(state: Any) -> int:
    """Number of bytes of the arrays in nested dictionaries and tuples."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if isinstance(state, RowsReference):
        state = vars(state)
    parts = state.values() if isinstance(state, dict) else state
    return sum(map(held_bytes, parts)) if isinstance(state, (dict, tuple)) else 0


class MappedRows:
    """Rows of some bags of a mapped matrix, which are read when they are used.

    Parameters
    ----------
    matrix : ndarray
        A C-contiguous view of a memory map, or an array in memory.
    firsts : ndarray of shape (n_parts,)
        Row of ``matrix`` at which each part starts.
    offsets : ndarray of shape (n_parts + 1,)
        Offsets of the parts among the selected rows.
    parts : ndarray of shape (n_bags + 1,), default=None
        First part of each bag, and the number of parts. By default, every bag is one part.
    """

    ndim = 2

    def __init__(
        self,
        matrix: np.ndarray,
        firsts: np.ndarray,
        offsets: np.ndarray,
        parts: np.ndarray | None = None,
    ) -> None:
        self.matrix, self.firsts, self.offsets, self.parts = matrix, firsts, offsets, parts
        self.shape = int(offsets[-1]), int(matrix.shape[1])
        self.dtype = matrix.dtype
        # Parts that are consecutive in the matrix are read together.
        starts = np.ones(len(firsts), dtype=bool)
        starts[1:] = firsts[1:] != firsts[:-1] + np.diff(offsets)[:-1]
        self._run_firsts = firsts[starts]
        self._run_offsets = np.append(offsets[:-1][starts], offsets[-1])

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def selected(self, positions: Any, offsets: np.ndarray) -> MappedRows:
        """The rows of some of the bags, which have the given offsets."""
        if self.parts is None:
            return self._of(self.firsts[positions], offsets)
        chosen, parts = gather_rows(self.parts, np.arange(len(self.parts) - 1)[positions])
        sizes = np.diff(self.offsets)[chosen]
        return self._of(self.firsts[chosen], offsets_of(sizes), parts)

    def merged(self, order: np.ndarray, groups: np.ndarray) -> MappedRows:
        """The rows of the bags in the given order, in which ``groups`` are offsets of new bags."""
        if self.parts is None:
            chosen, parts = order, groups
        else:
            chosen, inner = gather_rows(self.parts, order)
            parts = inner[groups]
        sizes = np.diff(self.offsets)[chosen]
        return self._of(self.firsts[chosen], offsets_of(sizes), parts)

    def _of(
        self, firsts: np.ndarray, offsets: np.ndarray, parts: np.ndarray | None = None
    ) -> MappedRows:
        """Other rows of the matrix."""
        return MappedRows(self.matrix, firsts, offsets, parts)

    def packed(self) -> Any:
        """The content of a pickle: a reference to the file, or the rows."""
        found = reference_to(self.matrix)
        if found is None:
            return self[:]
        return RowsReference(found, self.firsts, self.offsets, self.parts)

    def __getitem__(self, key: Any) -> np.ndarray:
        """A copy of the rows of a slice with step 1, or of an array of rows."""
        if isinstance(key, slice):
            start, stop, _ = key.indices(self.shape[0])
            return self.read(start, stop, self.dtype)
        rows = np.asarray(key)
        runs = np.searchsorted(self._run_offsets, rows, side="right") - 1
        places = self._run_firsts[runs] + rows - self._run_offsets[runs]
        return self._taken(places) if places.ndim == 1 else self._taken(places[None])[0]

    def _taken(self, places: np.ndarray, *, at_once: int = 2**13) -> np.ndarray:
        """A copy of rows of the matrix, whose pages are released."""
        taken = np.empty((len(places), self.shape[1]), dtype=self.dtype)
        for first in range(0, len(places), at_once):
            some = places[first : first + at_once]
            taken[first : first + len(some)] = self.matrix[some]
            release(self.matrix[some.min() : some.max() + 1])
        return taken

    def read(self, start: int, stop: int, dtype: Any, *, piece_bytes: int = 2**20) -> np.ndarray:
        """Rows ``start`` to ``stop`` as a new array of the given type.

        Rows of another type are read in pieces, so that only one piece is in memory twice.
        """
        n_rows, width = max(0, stop - start), self.shape[1]
        out = np.empty((n_rows, width), dtype=dtype)
        with self.reader() as into:
            if out.dtype == self.dtype:
                into(start, out)
                return out
            most = max(1, piece_bytes // max(1, width * self.dtype.itemsize))
            piece = np.empty((min(most, n_rows), width), dtype=self.dtype)
            for first in range(0, n_rows, most):
                part = piece[: min(most, n_rows - first)]
                into(start + first, part)
                out[first : first + len(part)] = part
        return out

    @contextlib.contextmanager
    def reader(self) -> Iterator[Callable[[int, np.ndarray], None]]:
        """A function that reads the rows from a given one on into an array of their type.

        It reads from the file, which takes less time than the map where every row is used once.
        """
        file = _opened(self.matrix)
        row_bytes = self.shape[1] * self.matrix.dtype.itemsize

        def into(start: int, out: np.ndarray) -> None:
            run = int(np.searchsorted(self._run_offsets, start, side="right")) - 1
            row, stop = start, start + len(out)
            while row < stop:
                end = min(stop, int(self._run_offsets[run + 1]))
                first = int(self._run_firsts[run] + row - self._run_offsets[run])
                part = out[row - start : end - start]
                if file is None:
                    part[...] = self.matrix[first : first + end - row]
                    release(self.matrix[first : first + end - row])
                elif row_bytes:
                    _read_into(file[0], file[1] + first * row_bytes, part)
                row, run = end, run + 1

        try:
            yield into
        finally:
            if file is not None:
                os.close(file[0])


def _opened(matrix: np.ndarray) -> tuple[int, int] | None:
    """Descriptor of the file of a mapped matrix, and where the matrix begins in it.

    None if the file was moved or replaced, or cannot be read at a given place.
    """
    root = mapping_of(matrix)
    if root is None or root.filename is None or not hasattr(os, "preadv"):
        return None
    try:
        descriptor = os.open(root.filename, os.O_RDONLY)
    except OSError:
        return None
    if getattr(root, "_milearn_inode", None) is None or not _same_file(root, os.fstat(descriptor)):
        os.close(descriptor)
        return None
    return descriptor, int(root.offset + matrix.ctypes.data - root.ctypes.data)


def _read_into(descriptor: int, place: int, out: np.ndarray) -> None:
    """Fill an array from a place in a file."""
    left = out.reshape(-1).view(np.uint8).data
    while left:
        n_read = os.preadv(descriptor, [left], place)
        if n_read == 0:
            raise OSError("The file of a memory map has become shorter.")
        left, place = left[n_read:], place + n_read


def release(array: np.ndarray) -> None:
    """Release the pages of a mapped array, which remain in the cache of the system."""
    root = mapping_of(array)
    pages: Any = None if root is None else root.base
    # Without this call the system releases the pages when it needs memory.
    if root is None or root.mode == "c" or not hasattr(mmap, "MADV_DONTNEED"):
        return
    # The map begins at a page boundary, but the array may begin inside the first page.
    inside = root.offset % mmap.ALLOCATIONGRANULARITY
    start = inside + array.ctypes.data - root.ctypes.data
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    pages.madvise(mmap.MADV_DONTNEED, first, start + array.nbytes - first)
