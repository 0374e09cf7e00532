"""Stacking of blocks, tables and data frames into the flat matrix of a container."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .annotations import differing_row
from .canonical import (
    canonical_block,
    check_columns,
    frame_column,
    frame_names,
    is_missing,
    listed,
)
from .segments import group_by_id, offsets_of


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


def frame_features(
    df: Any,
    bag: Any,
    label: Any,
    features: Sequence[Any] | None,
    others: Sequence[Any] = (),
) -> tuple[np.ndarray, list[Any] | None]:
    """The feature columns of a long data frame as a matrix, and their names if all are strings.

    ``others`` are columns, or lists of columns, that are not features.
    """
    columns = list(df.columns)
    reserved = [bag, label]
    for taken in others:
        reserved.extend(listed(taken))
    chosen = [name for name in columns if name not in reserved] if features is None else [*features]
    check_columns("frame", [bag, *([] if label is None else [label]), *chosen], columns)
    if not chosen:
        raise ValueError("The frame has no feature columns: bags need at least one.")
    values = np.column_stack([frame_column(df, name) for name in chosen])
    return values, chosen if all(isinstance(name, str) for name in chosen) else None


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


def frame_labels(df: Any, label: Any, keys: Sequence[Hashable]) -> np.ndarray:
    """The label of each bag, which must be constant over the rows of the bag."""
    labels = df[label].to_numpy()
    names, codes, order, offsets = group_by_id(keys)
    first = order[offsets[:-1]]
    row = differing_row(labels, codes, first)
    if row is not None:
        raise ValueError(
            f"Bag {names[codes[row]]!r} has two labels ({labels[first[codes[row]]]!s} and "
            f"{labels[row]!s}): a bag has one label."
        )
    return labels[first]


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
