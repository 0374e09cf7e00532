"""Vertical stacks of matrices without a copy.

The working set of a large problem is a large part of the memory of its solver. A stack keeps its
parts in their own type, and products convert them to float64 in blocks. Of very many rows in single
precision products are in single precision, as in a pass, and their sums in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..._bags.blocks import stacked

__all__ = ["RowStack", "stack_rows"]

Matrix = Any  # an ndarray, a CSR matrix or a RowStack


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
    """

    def __init__(
        self,
        parts: Sequence[np.ndarray],
        signs: Sequence[float] | None = None,
        order: np.ndarray | None = None,
        *,
        single_numbers: float = 2**22,
        converted_numbers: int = 2**16,
    ) -> None:
        self.parts, self.order, self.converted_numbers = list(parts), order, converted_numbers
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
        values, start = np.empty(int(self.ends[-1])), 0
        for part, sign in zip(self.parts, self.signs, strict=True):
            signed = vector if sign > 0 else -vector
            for chunk in self.chunks(part):
                values[start : start + len(chunk)] = chunk @ signed.astype(chunk.dtype, copy=False)
                start += len(chunk)
        return values if self.order is None else values[self.order]

    def chunks(self, part: np.ndarray) -> Iterator[np.ndarray]:
        """The rows of a part in the type of products, in blocks unless it is theirs."""
        step = max(1, self.converted_numbers // max(1, part.shape[1]))
        if part.dtype == np.float64:
            yield part
        elif self.is_single and part.dtype == np.float32:
            # In blocks, whose sums are added in float64.
            yield from (part[first : first + step] for first in range(0, len(part), step))
        else:
            for first in range(0, len(part), step):
                yield part[first : first + step].astype(np.float64)

    @property
    def T(self) -> _Transposed:
        """The transpose, for products with a weight of each row."""
        return _Transposed(self)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """A copy of the rows with these numbers, in the common type of all parts."""
        places = rows if self.order is None else self.order[rows]
        found = np.empty((len(places), self.shape[1]), dtype=self.dtype)
        owners = np.searchsorted(self.ends, places, side="right")
        by_part = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[by_part], np.arange(len(self.parts) + 1))
        for number in np.flatnonzero(np.diff(bounds)):
            mine, part = by_part[bounds[number] : bounds[number + 1]], self.parts[number]
            taken = part[places[mine] - (int(self.ends[number]) - len(part))]
            found[mine] = taken if self.signs[number] > 0 else -taken
        return found


class _Transposed:
    """The transpose of a stack of rows."""

    def __init__(self, rows: RowStack) -> None:
        self.rows = rows

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        """The sum of all rows times their weights."""
        rows, start = self.rows, 0
        if rows.order is not None:
            spread = np.zeros(int(rows.ends[-1]))
            spread[rows.order] = weights
            weights = spread
        total = np.zeros(rows.shape[1])
        for part, sign in zip(rows.parts, rows.signs, strict=True):
            for chunk in rows.chunks(part):
                own = weights[start : start + len(chunk)].astype(chunk.dtype, copy=False)
                found = own @ chunk
                total += found if sign > 0 else -found
                start += len(chunk)
        return total


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
