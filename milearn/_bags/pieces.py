"""Rows that are read and converted when they are used, in pieces that fit into a cache.

A product with rows of another type, or in a file, then needs neither a copy of them nor new memory:
a piece is read into a buffer, converted, and multiplied while it is in the cache.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from .mapped import MappedRows

__all__ = ["PIECE_BYTES", "Buffer", "StoredRows", "from_halves", "pieces_of"]

# Bytes of a piece in the type in which it is used: less than the cache of a core.
PIECE_BYTES = 2**19
# The numbers of rows of pieces are multiples of this, so that products do not depend on them.
_ROWS = 64
# Up to one row in so many is read on its own.
_SPARSE = 64
# The bits of a float16, moved by the difference of the lengths of both mantissas and without the
# copies of its sign, are those of a float32 that is smaller by this factor.
_MANTISSA = 13
_KEPT_BITS = np.array(0x8FFFFFFF, dtype=np.uint32).view(np.int32)[()]
_EXPONENTS = np.float32(2.0**112)


class Buffer(threading.local):
    """Memory for the rows of one block of a file at a time, in each thread.

    It is used again for the next block: new memory takes as long as reading into it.
    """

    def __init__(self) -> None:
        self.array = np.empty(0, dtype=np.uint8)
        self.owner: Callable[[], StoredRows | None] = lambda: None
        self.n_rows = 0

    def __reduce__(self) -> tuple[type[Buffer], tuple[()]]:
        return Buffer, ()

    def rows_of(self, owner: StoredRows) -> np.ndarray:
        """The memory for all rows of an owner, of which the first ``n_rows`` are there."""
        dtype = owner.rows.dtype
        n_bytes = owner.shape[0] * owner.shape[1] * dtype.itemsize
        if self.owner() is not owner:
            # A strong reference would be a cycle.
            self.owner, self.n_rows = weakref.ref(owner), 0
            if len(self.array) < n_bytes:
                self.array = np.empty(n_bytes, dtype=np.uint8)
        return self.array[:n_bytes].view(dtype).reshape(owner.shape)


class StoredRows:
    """Rows ``start`` to ``stop`` of a dense array or of a mapped file, in a type.

    Parameters
    ----------
    rows : ndarray or MappedRows
    start, stop : int
    dtype : dtype
        Type of ``whole`` and of :meth:`take`.
    buffer : Buffer, default=None
        Where rows of a file are held for further calls, as long as no other rows are.
    """

    def __init__(
        self, rows: Any, start: int, stop: int, dtype: np.dtype[Any], buffer: Buffer | None = None
    ) -> None:
        self.rows, self.start, self.stop, self.dtype = rows, start, stop, dtype
        self.shape = stop - start, int(rows.shape[1])
        self.buffer = buffer if isinstance(rows, MappedRows) else None

    @cached_property
    def whole(self) -> np.ndarray:
        """All rows as an array of their own; they are read once."""
        if isinstance(self.rows, MappedRows):
            return self.rows.read(self.start, self.stop, self.dtype)
        return np.asarray(self.rows[self.start : self.stop].astype(self.dtype, copy=False))

    def take(self, rows: np.ndarray) -> np.ndarray:
        """A copy of some rows."""
        if "whole" in vars(self):
            return np.asarray(self.whole[rows])
        if self.buffer is not None and _SPARSE * len(rows) > self.shape[0]:
            for _ in self._read(self.shape[0]):
                pass
            taken = self.buffer.rows_of(self)[rows]
        else:
            taken = self.rows[self.start + rows]
        return np.asarray(taken.astype(self.dtype, copy=False))

    def pieces(self, dtype: Any, piece_bytes: int) -> Iterator[np.ndarray]:
        """The rows in their order; a piece is valid until the next one."""
        step = _rows_of_a_piece(self.shape, dtype, piece_bytes)
        converted = _conversion(self.rows.dtype, np.dtype(dtype), (step, self.shape[1]))
        return (converted(piece) for piece in self._read(step))

    def _read(self, step: int) -> Iterator[np.ndarray]:
        """The rows as they are stored, in pieces of ``step`` rows."""
        rows, n_rows = self.rows, self.shape[0]
        bounds = [(first, min(first + step, n_rows)) for first in range(0, n_rows, max(1, step))]
        if not isinstance(rows, MappedRows):
            yield from (rows[self.start + first : self.start + last] for first, last in bounds)
            return
        buffer = self.buffer
        with rows.reader() as into:
            if buffer is None:
                own = np.empty((step, self.shape[1]), rows.dtype)
                for first, last in bounds:
                    into(self.start + first, own[: last - first])
                    yield own[: last - first]
                return
            for first, last in bounds:
                piece = buffer.rows_of(self)[first:last]
                if buffer.n_rows < last:
                    into(self.start + first, piece)
                    # Nothing precedes the piece if other rows were read in the meantime.
                    buffer.n_rows = last if first <= buffer.n_rows else 0
                yield piece


def pieces_of(rows: Any, dtype: Any, piece_bytes: int = PIECE_BYTES) -> Iterator[np.ndarray]:
    """Dense rows, also of a mapped file, in their order and in a type.

    A piece is valid until the next one. Rows in memory of this type are one piece. Values of
    float16 have to be finite, unless they are asked for in this type.
    """
    if isinstance(rows, np.ndarray) and rows.dtype == dtype:
        return iter([rows])
    if not isinstance(rows, StoredRows):
        rows = StoredRows(rows, 0, rows.shape[0], rows.dtype)
    return rows.pieces(dtype, piece_bytes)


def _rows_of_a_piece(shape: tuple[int, int], dtype: Any, piece_bytes: int) -> int:
    most = piece_bytes // max(1, shape[1] * np.dtype(dtype).itemsize)
    return max(1, min(shape[0], max(_ROWS, most // _ROWS * _ROWS)))


def _conversion(
    stored: np.dtype[Any], dtype: np.dtype[Any], shape: tuple[int, int]
) -> Callable[[np.ndarray], np.ndarray]:
    """A function that converts a piece into a buffer."""
    if stored == dtype:
        return lambda piece: piece
    out = np.empty(shape, dtype=dtype)
    if stored == np.float16 and dtype == np.float32:
        return lambda piece: from_halves(piece, out[: len(piece)])
    single = np.empty(shape, dtype=np.float32) if stored == np.float16 else None

    def converted(piece: np.ndarray) -> np.ndarray:
        into = out[: len(piece)]
        into[...] = piece if single is None else from_halves(piece, single[: len(piece)])
        return into

    return converted


def from_halves(halves: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write finite float16 values into an array of float32, exactly, and return it.

    It takes a quarter of the time of ``astype``. Infinity and NaN become finite values.
    """
    bits = out.view(np.int32)
    bits[...] = halves.view(np.int16)
    bits <<= _MANTISSA
    bits &= _KEPT_BITS
    out *= _EXPONENTS
    return out
