"""Rows in a file or of another type, which are read when they are used, and their pickles.

A container stores a memory map as :class:`LazyRows`. Its slices are views of the map where the rows
are consecutive in the file, so that a pass over all instances needs the memory of one block. A
pickle has the position of the rows in their file.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .frames import arrays_of_frame, frame_of_arrays
from .segments import gather_rows, offsets_of
from .types import Matrix

# The first byte of a pickle: joblib maps arrays inside its pickles.
_PICKLE = b"\x80"
# Bytes of rows that are converted at once: less than the cache of a core.
_PIECE_BYTES = 2**19
# The numbers of rows of pieces are multiples of this, so that products do not depend on them.
_ROWS = 64
# The bits of a float16, moved by the difference of the lengths of both mantissas and without the
# copies of its sign, are those of a float32 that is smaller by this factor.
_MANTISSA = 13
_KEPT_BITS = np.array(0x8FFFFFFF, dtype=np.uint32).view(np.int32)[()]
_EXPONENTS = np.float32(2.0**112)
# What these bits are for infinity and NaN is not smaller.
_BEYOND_HALVES = np.float32(2.0**16)


# -- files -----------------------------------------------------------------------------------------


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
            FileNotFoundError if the file has been removed, otherwise if it was written again.
        """
        found = os.stat(self.path)
        if (found.st_size, found.st_mtime_ns) != (self.size, self.mtime_ns):
            raise OSError(
                f"{self.path}: this file, to which pickled Bags refer, was written again; put back "
                "the old file with its time, or pickle Bags of the new one."
            )
        return np.memmap(
            self.path, dtype=self.dtype, mode="r", shape=self.shape, offset=self.offset
        ).view(np.ndarray)


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
    root = mapping_of(array) if is_mapped(array) and array.flags.c_contiguous else None
    if root is None or root.filename is None:
        return None
    path = os.fspath(root.filename)
    try:
        with open(path, "rb") as file:
            state, start = os.fstat(file.fileno()), file.read(1)
    except OSError:
        return None
    inode = state.st_dev, state.st_ino
    offset = int(root.offset + array.ctypes.data - root.ctypes.data)
    is_other = getattr(root, "_milearn_inode", inode) != inode
    if start == _PICKLE or is_other or offset + array.nbytes > state.st_size:
        return None
    return MapReference(
        path, array.dtype, array.shape, offset, int(state.st_size), int(state.st_mtime_ns)
    )


def note_file(array: np.ndarray) -> None:
    """Record the file of a map, as long as its path refers to it."""
    root = mapping_of(array)
    if root is not None and root.filename is not None and not hasattr(root, "_milearn_inode"):
        with contextlib.suppress(OSError):
            state = os.stat(root.filename)
            root._milearn_inode = state.st_dev, state.st_ino  # type: ignore[attr-defined]


def packed(part: Any) -> Any:
    """What is pickled of arrays, a CSR matrix or rows: references to mapped arrays.

    CSR matrices are tuples of arrays: SciPy sets flags lazily on its matrices, and joblib.hash of
    the same bags would change with them.
    """
    if hasattr(part, "iloc"):
        return arrays_of_frame(part, "data")
    if sparse.issparse(part):
        return packed(part.data), packed(part.indices), packed(part.indptr), part.shape
    if isinstance(part, LazyRows) and part.shape[0]:
        part = part.within(0, part.shape[0], part.dtype)
    if isinstance(part, LazyRows):
        return part if reference_to(part.matrix) is not None else part[:]
    return part if part is None else reference_to(part) or part


def unpacked(stored: Any) -> Any:
    if isinstance(stored, dict):
        return frame_of_arrays(stored, "data")
    if isinstance(stored, tuple):
        *parts, shape = stored
        return sparse.csr_array(tuple(unpacked(part) for part in parts), shape=shape)
    if isinstance(stored, MapReference):
        return stored.open()
    # np.asarray, because joblib.hash of a np.memmap differs; the view still refers to the file.
    return np.asarray(stored) if isinstance(stored, np.ndarray) else stored


# -- rows ------------------------------------------------------------------------------------------


class LazyRows:
    """Rows of some bags of a matrix, which are read, converted and changed when they are used.

    Parameters
    ----------
    matrix : ndarray or MapReference
        A C-contiguous view of a memory map, an array in memory, or what is pickled of a map.
    firsts : ndarray of shape (n_parts,)
        Row of ``matrix`` at which each part starts.
    offsets : ndarray of shape (n_parts + 1,)
        Offsets of the parts among the selected rows.
    parts : ndarray of shape (n_bags + 1,), default=None
        First part of each bag, and the number of parts. By default, every bag is one part.
    dtype : dtype, default=None
        Type of the rows that are read; by default, that of the matrix.
    function : callable, default=None
        ``function(rows)`` changes each row of an array of this type in place; it is pickled with
        the rows.
    """

    ndim = 2

    def __init__(
        self,
        matrix: np.ndarray | MapReference,
        firsts: np.ndarray,
        offsets: np.ndarray,
        parts: np.ndarray | None = None,
        dtype: Any = None,
        function: Callable[[np.ndarray], None] | None = None,
    ) -> None:
        matrix = matrix.open() if isinstance(matrix, MapReference) else matrix
        self.matrix, self.firsts, self.offsets = matrix, firsts, offsets
        self.parts = np.arange(len(offsets)) if parts is None else parts
        self.dtype = matrix.dtype if dtype is None else np.dtype(dtype)
        self.function = function
        self.shape = int(offsets[-1]), int(matrix.shape[1])
        # Parts that are consecutive in the matrix are read together.
        starts = np.ones(len(firsts), dtype=bool)
        starts[1:] = firsts[1:] != firsts[:-1] + np.diff(offsets)[:-1]
        self._run_firsts = firsts[starts]
        self._run_offsets = np.append(offsets[:-1][starts], offsets[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        matrix = reference_to(self.matrix)
        parts = None if len(self.parts) == len(self.offsets) else self.parts
        given = self.firsts, self.offsets, parts, self.dtype, self.function
        return LazyRows, (self.matrix if matrix is None else matrix, *given)

    @classmethod
    def of_groups(cls, matrix: np.ndarray, codes: np.ndarray) -> LazyRows:
        """All rows by the number of their bag, the bags in ascending order."""
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        runs = np.argsort(codes[starts], kind="stable")
        sizes = np.diff(np.append(starts, len(codes)))[runs]
        return cls(matrix, starts[runs], offsets_of(sizes), offsets_of(np.bincount(codes[starts])))

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def selected(self, positions: Any, offsets: np.ndarray) -> LazyRows:
        """The rows of some of the bags, which have the given offsets."""
        chosen, parts = gather_rows(self.parts, np.arange(len(self.parts) - 1)[positions])
        return self._of(self.firsts[chosen], offsets_of(np.diff(self.offsets)[chosen]), parts)

    def merged(self, order: np.ndarray, groups: np.ndarray) -> LazyRows:
        """The rows of the bags in the given order, in which ``groups`` are offsets of new bags."""
        chosen, inner = gather_rows(self.parts, order)
        sizes = np.diff(self.offsets)[chosen]
        return self._of(self.firsts[chosen], offsets_of(sizes), inner[groups])

    def of_rows(self, rows: np.ndarray, offsets: np.ndarray) -> LazyRows:
        """Some of the rows, in ascending order, of bags with the given offsets."""
        runs = np.searchsorted(self._run_offsets, rows, side="right") - 1
        places = self._run_firsts[runs] + rows - self._run_offsets[runs]
        starts = np.diff(places, prepend=-2) != 1
        starts[offsets[:-1]] = True
        firsts = np.flatnonzero(starts)
        parts = np.searchsorted(firsts, offsets)
        return self._of(places[firsts], np.append(firsts, len(rows)), parts)

    def within(self, start: int, stop: int, dtype: Any) -> Any:
        """Rows ``start`` to ``stop`` in a type: a view of the matrix, or rows that are read."""
        firsts, sizes = self._runs(start, stop)
        if self.function is None and self.matrix.dtype == dtype and len(firsts) == 1:
            return self.matrix[firsts[0] : firsts[0] + sizes[0]]
        return self._of(firsts, offsets_of(sizes), dtype=dtype)

    def changed_by(self, function: Callable[[np.ndarray], None] | None, dtype: Any) -> LazyRows:
        """These rows in a type, changed by a function if there is one."""
        return LazyRows(self.matrix, self.firsts, self.offsets, self.parts, dtype, function)

    def _of(
        self,
        firsts: np.ndarray,
        offsets: np.ndarray,
        parts: np.ndarray | None = None,
        dtype: Any = None,
    ) -> LazyRows:
        """Other rows of the matrix."""
        kind = self.dtype if dtype is None else dtype
        return LazyRows(self.matrix, firsts, offsets, parts, kind, self.function)

    def _runs(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """First rows in the matrix and numbers of rows of the runs from ``start`` to ``stop``."""
        bounds = self._run_offsets
        low = int(np.searchsorted(bounds[:-1], start, side="right")) - 1
        high = max(low + 1, int(np.searchsorted(bounds, stop)))
        begins = np.maximum(bounds[low:high], start)
        ends = np.minimum(bounds[low + 1 : high + 1], stop)
        return self._run_firsts[low:high] + begins - bounds[low:high], ends - begins

    def __getitem__(self, key: Any) -> np.ndarray:
        """The rows of a slice with step 1, which may be a view, or a copy of an array of rows."""
        if isinstance(key, slice):
            start, stop, _ = key.indices(self.shape[0])
            if stop <= start:
                return np.empty((0, self.shape[1]), dtype=self.dtype)
            firsts, sizes = self._runs(start, stop)
            found = [
                self.matrix[first : first + size] for first, size in zip(firsts, sizes, strict=True)
            ]
            return self._read(found[0] if len(found) == 1 else np.concatenate(found))
        rows = np.asarray(key)
        runs = np.searchsorted(self._run_offsets, rows, side="right") - 1
        return self._read(self.matrix[self._run_firsts[runs] + rows - self._run_offsets[runs]])

    def _read(self, rows: np.ndarray) -> np.ndarray:
        if self.function is None:
            return in_type(rows, self.dtype)
        made = np.empty(rows.shape, dtype=self.dtype)
        made[...] = in_type(rows, self.dtype)
        self.function(made)
        return made


def pieces_of(rows: Any, dtype: Any, piece_bytes: int = _PIECE_BYTES) -> Iterator[np.ndarray]:
    """Dense rows in their order and in a type, in pieces that fit into a cache.

    A product with rows of another type, or in a file, then needs no copy of all of them. Rows in
    memory of this type are one piece.
    """
    if isinstance(rows, np.ndarray) and rows.dtype == dtype:
        return iter([rows])
    most = piece_bytes // max(1, rows.shape[1] * np.dtype(dtype).itemsize)
    step = max(_ROWS, most // _ROWS * _ROWS)
    firsts = range(0, rows.shape[0], step)
    return (in_type(rows[first : first + step], dtype) for first in firsts)


def stacked(parts: Sequence[Any]) -> Any:
    """Concatenated rows, as CSR if some are sparse; a single part is not copied."""
    if any(map(sparse.issparse, parts)):
        return sparse.vstack([sparse.csr_array(part) for part in parts], format="csr")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def in_type(rows: np.ndarray, dtype: Any) -> np.ndarray:
    """Dense rows in a type, without a copy if they have it.

    float16 becomes float32 by its bits, in a fifth of the time of ``astype``.
    """
    if rows.dtype != np.float16 or dtype == np.float16:
        return rows.astype(dtype, copy=False)
    singles = np.empty(rows.shape, dtype=np.float32)
    bits = singles.view(np.int32)
    bits[...] = rows.view(np.int16)
    bits <<= _MANTISSA
    bits &= _KEPT_BITS
    singles *= _EXPONENTS
    if max(singles.max(initial=0.0), -singles.min(initial=0.0)) >= _BEYOND_HALVES:
        return rows.astype(dtype)
    return singles.astype(dtype, copy=False)


def computed_in(dtype: Any) -> np.dtype:
    """The type of computations: float32 for float16, which is only used for storage."""
    return np.dtype(np.float32) if dtype == np.float16 else np.dtype(dtype)


def read_in_blocks(bags: Any) -> Any:
    """Dense bags that are read in blocks, like those of a memory map; nothing is copied."""
    if not isinstance(bags.instance_rows, np.ndarray):
        return bags
    return bags._changed(instances=LazyRows(bags.instances, bags.offsets[:-1], bags.offsets))


def computed_when_read(bags: Any, function: Callable[[np.ndarray], None], dtype: Any) -> Any:
    """Dense bags whose instances a function changes when they are read; names are left out.

    Parameters
    ----------
    bags : Bags
    function : callable
        ``function(rows)`` changes each row of an array in place; it is pickled with the bags.
    dtype : dtype
        Type of the new instances.
    """
    rows = read_in_blocks(bags).instance_rows.changed_by(function, dtype)
    return bags._changed(instances=rows, feature_names=None)


# -- instances of bags -----------------------------------------------------------------------------


# What instances in memory are.
_IN_MEMORY = (np.ndarray, sparse.csr_array)


def is_read_in_blocks(bags: Any) -> bool:
    """Whether the instances have to be read in blocks: memory maps, float16, other processes."""
    return bags.dtype == np.float16 or not isinstance(bags.instance_rows, _IN_MEMORY)


def is_elsewhere(bags: Any) -> bool:
    """Whether the instances can only be passed over, because they are in other processes."""
    return not isinstance(bags.instance_rows, (*_IN_MEMORY, LazyRows))


def row_blocks(bags: Any, dtype: Any = None) -> Iterator[tuple[int, int, Matrix]]:
    """Instances ``start`` to ``stop``, block by block, in the given type or as stored."""
    blocks = bags.source(dtype=bags.dtype if dtype is None else dtype).blocks(in_parts=True)
    return ((block.rows.start, block.rows.stop, block.instances) for block in blocks)


def converted(bags: Any, dtype: Any) -> Any:
    """The bags with their instances converted to another type, with at most one copy."""
    if bags.is_sparse:
        instances = bags.instances.astype(dtype)
    else:
        blocks = row_blocks(bags)
        instances = np.empty((bags.n_instances, bags.shape[1]), dtype=dtype)
        for start, stop, block in blocks:
            instances[start:stop] = block
    return bags.with_instances(instances, feature_names=bags.feature_names)


def without_names(bags: Any) -> Any:
    """The same bags without the names of their features."""
    return bags if bags.feature_names is None else bags._changed(feature_names=None)


def in_memory(bags: Any) -> Any:
    """The bags in memory, without a reference to a file."""
    return bags if isinstance(bags.instance_rows, _IN_MEMORY) else converted(bags, bags.dtype)
