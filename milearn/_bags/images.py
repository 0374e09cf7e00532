"""Patches of images as instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .coerce import as_floats
from .series import whole_number

__all__ = ["patches_of_images"]


def patches_of_images(
    images: Iterable[Any], patch_size: Any, step: Any, features: Callable[[np.ndarray], Any] | None
) -> tuple[list[Any], list[np.ndarray]]:
    """A block of instances for each image, and the corners (column, row) of their patches.

    Raises
    ------
    TypeError, ValueError
        See :meth:`milearn.Bags.from_images`.
    """
    height, width = _pair("patch_size", patch_size)
    down, right = _pair("step", patch_size if step is None else step)
    blocks, corners, first = [], [], None
    for position, image in enumerate(images):
        pixels = _pixels(image, position, (height, width))
        channels = pixels.shape[2:]
        if first is None:
            first = channels
        elif channels != first:
            raise ValueError(
                f"Image {position} has {_named(channels)} but image 0 has {_named(first)}: convert "
                "all images to the same channels."
            )
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (height, width), axis=(0, 1))
        windows = windows[::down, ::right]
        rows, columns = windows.shape[:2]
        if channels:
            windows = np.moveaxis(windows, 2, -1)
        patches = windows.reshape(rows * columns, height, width, *channels)
        blocks.append(_features(patches, features, position))
        column, row = np.meshgrid(np.arange(columns) * right, np.arange(rows) * down)
        corners.append(np.column_stack([column.ravel(), row.ravel()]))
    if not blocks:
        raise ValueError("No images were given: pass at least one.")
    return blocks, corners


def _pair(name: str, value: Any) -> tuple[int, int]:
    """Height and width from one number or two."""
    both = value if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2:
        raise ValueError(f"{name}={value!r} must be one integer, or (height, width).")
    return whole_number(name, both[0]), whole_number(name, both[1])


def _pixels(image: Any, position: int, patch: tuple[int, int]) -> np.ndarray:
    if isinstance(image, (str, bytes)) or hasattr(image, "__fspath__"):
        raise TypeError(
            f"Image {position} is a path or a string: read the file first, for example by "
            "numpy.asarray(PIL.Image.open(path))."
        )
    try:
        pixels = np.asarray(image)
    except ValueError as error:
        raise ValueError(f"Image {position} has rows of different lengths.") from error
    shape = pixels.shape
    if len(shape) not in (2, 3):
        raise ValueError(
            f"Image {position} has the shape {shape}: pass arrays of shape (height, width) or "
            "(height, width, channels); a single image is [image]."
        )
    if shape[0] < patch[0] or shape[1] < patch[1]:
        raise ValueError(
            f"Image {position} has the shape {shape}, which is smaller than a patch of "
            f"{patch[0]} x {patch[1]} pixels: choose a smaller patch_size. A single image is "
            "[image]; channels are last."
        )
    if pixels.dtype.kind not in "biuf":
        raise ValueError(f"Image {position} holds {pixels.dtype} values: pass numbers.")
    return pixels


def _features(
    patches: np.ndarray, features: Callable[[np.ndarray], Any] | None, position: int
) -> Any:
    if features is None:
        return as_floats(patches.reshape(len(patches), -1), f"Image {position}")
    found = features(patches)
    shape = np.shape(found)
    if len(shape) != 2 or shape[0] != len(patches):
        raise ValueError(
            f"features returned the shape {shape} for {len(patches)} patches of image {position}: "
            "it must return one row of features for each patch."
        )
    return found


def _named(channels: tuple[int, ...]) -> str:
    return f"{channels[0]} channels" if channels else "no axis of channels"
