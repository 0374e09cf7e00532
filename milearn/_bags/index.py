"""Conversion of the keys of ``bags[rows, columns]`` to positions."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_full(key: Any) -> bool:
    """Whether a key selects all items."""
    return key is Ellipsis or (isinstance(key, slice) and key == slice(None))


def bag_positions(key: Any, n_bags: int) -> np.ndarray:
    """Positions of the bags that a list of integers or a mask selects, counted from 0."""
    keys = np.asarray(key)
    if keys.ndim != 1:
        raise IndexError("Bags are selected by an integer, a slice or a 1-D index.")
    if keys.dtype == bool:
        if len(keys) != n_bags:
            raise IndexError(f"A mask of {len(keys)} entries cannot select from {n_bags} bags.")
        return np.flatnonzero(keys)
    if keys.size == 0:
        return keys.astype(np.intp)
    if keys.dtype.kind not in "iu":
        raise IndexError(f"Bags are selected by integers or a mask, not by {keys.dtype}.")
    keys = keys.astype(np.intp)
    wrong = (keys < -n_bags) | (keys >= n_bags)
    if wrong.any():
        raise IndexError(f"Bag {keys[wrong][0]} is out of range for {n_bags} bags.")
    return np.where(keys < 0, keys + n_bags, keys)


def column_key(columns: Any, names: np.ndarray | None) -> Any:
    """A slice, positions or a mask of features; feature names are replaced by positions."""
    if isinstance(columns, slice):
        return columns
    columns = np.atleast_1d(np.asarray(columns))
    if columns.dtype.kind in "UO":
        known = {name: at for at, name in enumerate([] if names is None else names.tolist())}
        for name in columns:
            if name not in known:
                raise IndexError(f"The bags have no feature named {str(name)!r}.")
        return np.array([known[name] for name in columns], dtype=np.intp)
    return columns.astype(np.intp) if columns.size == 0 else columns
