"""Vertical stacks of matrices without a copy.

The working set of a large problem is a large part of the memory of its solver. A stack keeps its
parts in their own type, and products convert them to float64 in blocks. Of very many rows in single
precision products are in single precision, as in a pass, and their sums in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import stacked
from ..._bags.threads import in_threads

__all__ = ["RowStack", "stack_rows"]

Matrix = Any  # an ndarray, a CSR matrix or a RowStack
_Piece = list[tuple[int, np.ndarray, float]]


class RowStack:
    """Rows of dense matrices, times 1 or -1, in a given order.

    Parameters
    ----------
    parts : sequence of ndarray of shape (n_rows_of_part, n_columns)
    signs : sequence of float, default=None
        Factors 1 or -1 of the rows of each part; by default, 1.
    order : ndarray of int of shape (n_rows,), default=None
        Row ``i`` is row ``order[i]`` of the concatenated parts; by default, row ``i``. Rows must
        not occur twice.
    single_numbers : float
        Number of values above which products with rows in float32 are in float32. Problems of this
        size are not solved to many digits.
    converted_numbers : int
        Values that are converted to float64 at once.
    shared_numbers : int
        Values of a piece, which one of the threads of a fit multiplies. Results do not depend on
        the number of threads.
    """

    def __init__(
        self,
        parts: Sequence[np.ndarray],
        signs: Sequence[float] | None = None,
        order: np.ndarray | None = None,
        *,
        single_numbers: float = 2**22,
        converted_numbers: int = 2**16,
        shared_numbers: int = 2**18,
    ) -> None:
        self.parts, self.order, self.converted_numbers = list(parts), order, converted_numbers
        self.shared_numbers = shared_numbers
        self.signs = [1.0] * len(self.parts) if signs is None else list(signs)
        self.ends = np.cumsum([len(part) for part in self.parts])
        n_rows = int(self.ends[-1]) if order is None else len(order)
        self.shape = n_rows, int(self.parts[0].shape[1])
        self.dtype = np.result_type(*self.parts)
        self.is_single = n_rows * self.shape[1] > single_numbers

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        """Inner products of all rows with a vector, in float64."""
        values = np.empty(int(self.ends[-1]))

        def multiply(piece: _Piece) -> None:
            for start, chunk, sign in self.chunks(piece):
                signed = vector if sign > 0 else -vector
                values[start : start + len(chunk)] = chunk @ signed.astype(chunk.dtype, copy=False)

        in_threads(multiply, self.pieces)
        return values if self.order is None else values[self.order]

    @property
    def squared_norms(self) -> np.ndarray:
        """Sum of the squares of each row, in float64."""
        values = np.empty(int(self.ends[-1]))

        def add(piece: _Piece) -> None:
            for start, chunk, _ in self.chunks(piece):
                np.einsum(
                    "ij,ij->i", chunk, chunk, dtype=np.float64, out=values[start:][: len(chunk)]
                )

        in_threads(add, self.pieces)
        return values if self.order is None else values[self.order]

    @property
    def largest_entries(self) -> np.ndarray:
        """Largest absolute value of each column."""

        def largest(piece: _Piece) -> np.ndarray:
            found = np.zeros(self.shape[1])
            for _, chunk, _ in self.chunks(piece):
                np.maximum(found, np.maximum(chunk.max(axis=0), -chunk.min(axis=0)), out=found)
            return found

        return np.asarray(
            np.max([np.zeros(self.shape[1]), *in_threads(largest, self.pieces)], axis=0)
        )

    @cached_property
    def pieces(self) -> list[_Piece]:
        """The rows of all parts in their order: first row among all, rows, and their sign."""
        found: list[_Piece] = []
        step, size = self._step, np.inf
        step *= max(1, self.shared_numbers // max(1, step * self.shape[1]))
        for part, end, sign in zip(self.parts, self.ends, self.signs, strict=True):
            for first in range(0, len(part), step):
                rows = part[first : first + step]
                if size + len(rows) > step:
                    found.append([])
                    size = 0
                found[-1].append((int(end) - len(part) + first, rows, sign))
                size += len(rows)
        return found

    @property
    def _step(self) -> int:
        """Number of rows that are converted at once."""
        return max(1, self.converted_numbers // max(1, self.shape[1]))

    def chunks(self, piece: _Piece) -> Iterator[tuple[int, np.ndarray, float]]:
        """The rows of a piece in the type of products, in blocks unless it is theirs."""
        for start, rows, sign in piece:
            if rows.dtype == np.float64:
                yield start, rows, sign
                continue
            # Sums of blocks in single precision are added in float64.
            dtype = np.float32 if self.is_single and rows.dtype == np.float32 else np.float64
            for first in range(0, len(rows), self._step):
                chunk = rows[first : first + self._step]
                yield start + first, chunk.astype(dtype, copy=False), sign

    @property
    def T(self) -> _Transposed:
        """The transpose, for products with a weight of each row."""
        return _Transposed(self)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """A copy of the rows with these numbers, in the common type of all parts."""
        places = rows if self.order is None else self.order[rows]
        found = np.empty((len(places), self.shape[1]), dtype=self.dtype)
        owners = np.searchsorted(self.ends, places, side="right")
        in_order = bool((owners[1:] >= owners[:-1]).all())
        by_part = np.arange(len(owners)) if in_order else np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[by_part], np.arange(len(self.parts) + 1))
        for number in np.flatnonzero(np.diff(bounds)):
            first, last = bounds[number : number + 2]
            part, mine = self.parts[number], by_part[first:last]
            taken = part.take(places[mine] - (int(self.ends[number]) - len(part)), axis=0)
            if self.signs[number] < 0:
                np.negative(taken, out=taken)
            found[slice(first, last) if in_order else mine] = taken
        return found


class _Transposed:
    """The transpose of a stack of rows."""

    def __init__(self, rows: RowStack) -> None:
        self.rows = rows

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        """The sum of all rows times their weights."""
        rows = self.rows
        if rows.order is not None:
            spread = np.zeros(int(rows.ends[-1]))
            spread[rows.order] = weights
            weights = spread

        def added(piece: _Piece) -> np.ndarray:
            total = np.zeros(rows.shape[1])
            for start, chunk, sign in rows.chunks(piece):
                own = weights[start : start + len(chunk)].astype(chunk.dtype, copy=False)
                found = own @ chunk
                total += found if sign > 0 else -found
            return total

        return np.asarray(
            np.sum([np.zeros(rows.shape[1]), *in_threads(added, rows.pieces)], axis=0)
        )


def stack_rows(
    parts: Sequence[Matrix],
    signs: Sequence[float] | None = None,
    order: np.ndarray | None = None,
    *,
    one_array_bytes: int = 2**23,
    precise: bool = False,
) -> Matrix:
    """The rows of all parts in a given order.

    The result is a CSR matrix for sparse parts, an array in float64 if it is small, and otherwise a
    :class:`RowStack`, which does not copy the parts.

    Parameters
    ----------
    parts : sequence of ndarray, CSR or RowStack
    signs, order
        See :class:`RowStack`.
    one_array_bytes : int
        Size in float64 up to which one array is faster than a stack.
    precise : bool
        Whether products are in double precision, however many rows there are.
    """
    signs = [1.0] * len(parts) if signs is None else signs
    if sparse.issparse(parts[0]):
        given = [part if sign > 0 else -part for part, sign in zip(parts, signs, strict=True)]
        matrix = stacked(given)
        return matrix if order is None else matrix[order]
    unchanged = len(parts) == 1 and signs[0] > 0 and order is None
    if unchanged and parts[0].dtype == np.float64:
        return parts[0]
    if unchanged and _is_stack(parts[0]) and not precise:
        return parts[0]
    n_rows, n_columns = sum(part.shape[0] for part in parts), parts[0].shape[1]
    if 8 * n_rows * n_columns > one_array_bytes:
        return _flat(parts, signs, order, precise)
    array, start = np.empty((n_rows, n_columns)), 0
    for part, sign in zip(parts, signs, strict=True):
        rows = array[start : start + part.shape[0]]
        rows[:] = part[np.arange(len(part))] if _is_stack(part) else part
        if sign < 0:
            np.negative(rows, out=rows)
        start += len(rows)
    return array if order is None else array[order]


def _is_stack(matrix: Matrix) -> bool:
    return hasattr(matrix, "parts")


def _flat(
    parts: Sequence[Matrix], signs: Sequence[float], order: np.ndarray | None, precise: bool
) -> RowStack:
    """A stack of the matrices of all parts."""
    matrices: list[Matrix] = []
    factors: list[float] = []
    places: list[np.ndarray] = []
    first, in_order = 0, True
    for part, sign in zip(parts, signs, strict=True):
        inner = part if _is_stack(part) else RowStack([part])
        matrices += inner.parts
        factors += [sign * factor for factor in inner.signs]
        own = np.arange(len(inner)) if inner.order is None else inner.order
        in_order &= inner.order is None
        places.append(first + own)
        first += int(inner.ends[-1])
    if not in_order:
        place = np.concatenate(places)
        order = place if order is None else place[order]
    options: dict[str, Any] = {"single_numbers": np.inf} if precise else {}
    return RowStack(matrices, factors, order, **options)
