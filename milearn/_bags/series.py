"""Windows of time series as instances."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .coerce import as_floats
from .segments import offsets_of

__all__ = ["series_advice", "whole_number", "windows_of_series"]


_TURNED = " If its shape is (time, channels), pass channels_last=True."


def windows_of_series(
    X: Iterable[Any], length: Any, step: Any, channels_last: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The windows of all series as rows, the offsets of the series, and where the windows start.

    Raises
    ------
    TypeError, ValueError
        See :meth:`milearn.Bags.from_series`.
    """
    length, step = (
        whole_number("length", length),
        whole_number("step", length if step is None else step),
    )
    series = [_one(values, position, channels_last) for position, values in enumerate(X)]
    if not series:
        raise ValueError("No series were given: pass at least one.")
    channels = series[0].shape[0]
    for position, values in enumerate(series):
        if values.shape[0] != channels:
            raise ValueError(
                f"Series {position} has {values.shape[0]} channels but series 0 has {channels}: "
                "every series must have the same channels."
            )
        if values.shape[1] < length:
            turned = "" if channels_last or len(values) < length else _TURNED
            raise ValueError(
                f"Series {position} has {values.shape[1]} time points, fewer than length={length}: "
                f"choose shorter windows, or leave the series out.{turned}"
            )
    starts = [np.arange(0, values.shape[1] - length + 1, step) for values in series]
    offsets = offsets_of([len(first) for first in starts])
    windows = np.empty(
        (int(offsets[-1]), channels * length), np.result_type(*{v.dtype for v in series})
    )
    for at, values in enumerate(series):
        cut = np.lib.stride_tricks.sliding_window_view(values, length, axis=1)[:, ::step]
        rows = windows[offsets[at] : offsets[at + 1]]
        rows.reshape(len(rows), channels, length)[...] = cut.transpose(1, 0, 2)
    return windows, offsets, np.concatenate(starts)


def whole_number(name: str, value: Any) -> int:
    """A number of points or pixels, at least 1."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r} is not an integer.")
    if operator.index(value) < 1:
        raise ValueError(f"{name}={value} must be at least 1.")
    return operator.index(value)


def _one(values: Any, position: int, channels_last: bool) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"Series {position} has channels of different lengths: pad them or cut them first."
        ) from error
    if array.ndim == 1:
        array = array[np.newaxis]
    elif channels_last:
        array = array.T
    if array.ndim != 2 or array.shape[0] == 0:
        shape = "(time, channels)" if channels_last else "(channels, time)"
        raise ValueError(
            f"Series {position} has the shape {np.shape(values)}: pass arrays of shape (time,) or "
            f"{shape}."
        )
    return as_floats(array, f"Series {position}")


def series_advice(blocks: Sequence[Any]) -> str:
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
