"""Rows that a function computes from stored rows when they are read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .container import Bags
from .mapped import MappedRows, RowsReference
from .pieces import PIECE_BYTES, from_halves

__all__ = ["ComputedRows", "computed_when_read", "read_in_blocks"]

# A function changes rows of floats in place.
InPlace = Callable[[np.ndarray], None]


@dataclass(frozen=True)
class ComputedReference(RowsReference):
    """The position of rows in a file and the function, which are pickled instead of the rows."""

    function: InPlace
    dtype: np.dtype
    piece_bytes: int

    def open(self) -> ComputedRows:
        return ComputedRows(super().open(), self.function, self.dtype, self.piece_bytes)


class ComputedRows(MappedRows):
    """Rows of a matrix in a file or in memory, converted and changed when they are read.

    Parameters
    ----------
    stored : MappedRows
    function : callable
        ``function(rows)`` changes each row of an array in place; it is pickled with the rows.
    dtype : dtype
        Type of the rows that the function changes.
    piece_bytes : int
        Bytes of the rows that it changes at once.
    """

    def __init__(
        self, stored: MappedRows, function: InPlace, dtype: Any, piece_bytes: int = PIECE_BYTES
    ) -> None:
        super().__init__(stored.matrix, stored.firsts, stored.offsets, stored.parts)
        self.function, self.dtype, self.piece_bytes = function, np.dtype(dtype), piece_bytes

    def _of(
        self, firsts: np.ndarray, offsets: np.ndarray, parts: np.ndarray | None = None
    ) -> ComputedRows:
        stored = super()._of(firsts, offsets, parts)
        return ComputedRows(stored, self.function, self.dtype, self.piece_bytes)

    def packed(self) -> Any:
        found = super().packed()
        if not isinstance(found, RowsReference):
            return self[:]
        return ComputedReference(
            found.matrix,
            found.firsts,
            found.offsets,
            found.parts,
            function=self.function,
            dtype=self.dtype,
            piece_bytes=self.piece_bytes,
        )

    def _taken(self, places: np.ndarray, **options: Any) -> np.ndarray:
        taken = super()._taken(places, **options)
        self.function(taken)
        return taken

    @contextlib.contextmanager
    def reader(self) -> Iterator[Callable[[int, np.ndarray], None]]:
        """A function that reads the rows from a given one on into an array of their type."""
        n_rows = max(1, self.piece_bytes // max(1, self.shape[1] * self.dtype.itemsize))
        raw = np.empty((min(n_rows, self.shape[0]), self.shape[1]), dtype=self.matrix.dtype)
        with super().reader() as stored:

            def into(start: int, out: np.ndarray) -> None:
                for first in range(0, len(out), n_rows):
                    part = out[first : first + n_rows]
                    stored(start + first, raw[: len(part)])
                    if raw.dtype == np.float16 and part.dtype == np.float32:
                        from_halves(raw[: len(part)], part)
                    else:
                        part[...] = raw[: len(part)]
                    self.function(part)

            yield into


def read_in_blocks(bags: Bags) -> Bags:
    """Dense bags that are read in blocks, like those of a memory map; nothing is copied."""
    if isinstance(bags.instance_rows, MappedRows):
        return bags
    return bags._changed(instances=MappedRows(bags.instances, bags.offsets[:-1], bags.offsets))


def computed_when_read(
    bags: Bags, function: InPlace, dtype: Any, piece_bytes: int = PIECE_BYTES
) -> Bags:
    """Dense bags whose instances a function changes when they are read; names are left out.

    Parameters
    ----------
    bags : Bags
    function : callable
        See :class:`ComputedRows`.
    dtype : dtype
        Type of the new instances.
    piece_bytes : int
        Bytes of the instances that it changes at once.
    """
    rows = ComputedRows(read_in_blocks(bags).instance_rows, function, dtype, piece_bytes)
    return bags._changed(instances=rows, feature_names=None)
