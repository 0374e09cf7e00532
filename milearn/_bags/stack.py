"""Stacking of blocks, tables and data frames into the flat matrix of a container."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .canonical import (
    canonical_block,
    frame_names,
    is_missing,
)
from .segments import offsets_of


def stack_matrices(matrices: Sequence[Any]) -> Any:
    """Concatenated rows of several matrices, as CSR if one of them is sparse."""
    if any(sparse.issparse(matrix) for matrix in matrices):
        return sparse.vstack([sparse.csr_array(matrix) for matrix in matrices], format="csr")
    return np.concatenate(matrices, axis=0)


def stack_blocks(blocks: Iterable[Any]) -> tuple[Any, np.ndarray, list[str] | None]:
    """The matrix of all blocks, the offsets of the bags, and the columns of data frames.

    Raises
    ------
    ValueError
        See :meth:`milearn.Bags.from_list`.
    """
    arrays = []
    columns: list[str] | None = None
    for position, block in enumerate(blocks):
        arrays.append(canonical_block(block, position))
        names = frame_names(block)
        if position == 0:
            columns = names
        elif names is not None and names != columns:
            raise ValueError(
                f"Bag {position} has other columns than bag 0: give all bags the same "
                "columns in the same order."
            )
    if not arrays:
        raise ValueError(
            "No bags were given: pass at least one 2-D block, or Bags(np.empty((0, "
            "n_features)), [0]) for a container without bags."
        )
    widths = [array.shape[1] for array in arrays]
    for position, width in enumerate(widths):
        if width != widths[0]:
            raise ValueError(
                f"Bag {position} has {width} features but bag 0 has {widths[0]}: every bag "
                f"must have the same features.{_series_advice(arrays)}"
            )
    return stack_matrices(arrays), offsets_of([array.shape[0] for array in arrays]), columns


def stack_features(matrices: Sequence[Any]) -> Any:
    """Concatenated columns of several matrices, as CSR if one of them is sparse."""
    if any(sparse.issparse(matrix) for matrix in matrices):
        return sparse.hstack(matrices, format="csr")
    return np.hstack(matrices)


def has_list_cells(df: Any) -> bool:
    """Whether the cells of a column of a data frame are lists."""
    return any(_is_list(_first_cell(df[name])) for name in set(df.columns))


def _first_cell(column: Any) -> Any:
    """The first cell that is not missing; None for columns of numbers."""
    if getattr(column, "ndim", 1) > 1 or getattr(column.dtype, "kind", "O") in "biufcmM":
        return None
    return next((cell for cell in column if _is_list(cell) or not is_missing(cell)), None)


def _is_list(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, (str, bytes, dict))


def _series_advice(blocks: Sequence[Any]) -> str:
    """Text added to the error for blocks of different widths that may be series.

    Series of different lengths, as (channels, time), have the same small number of rows in every
    block and more columns than rows. This is rare for bags with wrong features.
    """
    rows = {block.shape[0] for block in blocks}
    if len(rows) > 1 or min(block.shape[1] for block in blocks) <= max(rows):
        return ""
    return (
        f" All blocks have {rows.pop()} row(s): if they are time series of shape (channels, time), "
        "cut them into windows by Bags.from_series(X, length)."
    )
