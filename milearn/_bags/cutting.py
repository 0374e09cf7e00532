"""Instances cut from time series, images and documents."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np

from .canonical import as_floats
from .segments import offsets_of
from .stack import stack_blocks

# A blank line, or the end of a sentence with the first letter of the next one.
_SENTENCE = re.compile(
    r"""\n\s*\n\s*|[.!?\u2026]["'\u201d\u2019)\]]*\s+(?=["'\u201c\u2018(\[]*(.))|[\u3002\uff01\uff1f]\s*"""
)
_PARAGRAPH = re.compile(r"\n\s*\n\s*")
_TURNED = " If its shape is (time, channels), pass channels_last=True."


class RawConstructors:
    """The class methods of :class:`milearn.Bags` that cut data into instances."""

    def __init__(self, instances: Any, offsets: Any, **parts: Any) -> None:
        raise NotImplementedError

    @classmethod
    def from_series(
        cls,
        X: Iterable[Any],
        length: int,
        step: int | None = None,
        *,
        channels_last: bool = False,
    ) -> Self:
        """Bags from time series: a series is a bag, and its windows are the instances.

        Parameters
        ----------
        X : array-like of shape (n_series, channels, time) or (n_series, time), or sequence
            The format of aeon and sktime: a series has the shape (channels, time), or (time,) if it
            has one channel. Series may differ in length but not in channels.
        length : int
            Number of time points of a window.
        step : int, default=None
            Number of time points from the start of a window to the next one; by default,
            ``length``, so that windows do not overlap. Points after the last whole window are left
            out.
        channels_last : bool, default=False
            Whether the shape of a series is (time, channels), as in data frames.

        Returns
        -------
        Bags
            With channels * length features: the points of the first channel, then those of the
            second, and so on. ``instance_data["start"]`` holds the time point at which each window
            starts.

        Raises
        ------
        ValueError
            For a series that is not a 1-D or 2-D array of numbers, has fewer than ``length``
            points, or other channels than the first.
        TypeError
            For a ``length`` or ``step`` that is not an integer.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_series([[[1, 2, 3, 4, 5], [10, 20, 30, 40, 50]]], length=2)
        >>> bags.instances
        array([[ 1.,  2., 10., 20.],
               [ 3.,  4., 30., 40.]])
        >>> bags.instance_data["start"]
        array([0, 2])
        """
        length = whole_number("length", length)
        step = length if step is None else whole_number("step", step)
        series = [_one(values, position, channels_last) for position, values in enumerate(X)]
        if not series:
            raise ValueError("No series were given: pass at least one.")
        channels = series[0].shape[0]
        for position, values in enumerate(series):
            if values.shape[0] != channels:
                raise ValueError(
                    f"Series {position} has {values.shape[0]} channels but series 0 has "
                    f"{channels}: every series must have the same channels."
                )
            if values.shape[1] < length:
                turned = "" if channels_last or len(values) < length else _TURNED
                raise ValueError(
                    f"Series {position} has {values.shape[1]} time points, fewer than "
                    f"length={length}: choose shorter windows, or leave the series out.{turned}"
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
        return cls(windows, offsets, instance_data={"start": np.concatenate(starts)})

    @classmethod
    def from_images(
        cls,
        images: Iterable[Any],
        patch_size: int | tuple[int, int],
        step: int | tuple[int, int] | None = None,
        *,
        features: Callable[[np.ndarray], Any] | None = None,
    ) -> Self:
        """Bags from images: an image is a bag, and its patches are the instances.

        Parameters
        ----------
        images : array-like of shape (n_images, height, width[, channels]), or sequence of images
            Images as arrays of numbers. They may differ in size but not in channels.
        patch_size : int or (int, int)
            Height and width of a patch in pixels; an int is both.
        step : int or (int, int), default=None
            Number of pixels from a patch to the next one, downwards and to the right; by default,
            ``patch_size``, so that patches do not overlap. Pixels after the last whole patch are
            left out.
        features : callable, default=None
            Function of the patches of an image, an array of shape (n_patches, height, width[,
            channels]), that returns a matrix of shape (n_patches, n_features), such as a colour
            histogram or the output of a network. By default, the features are the pixels, row by
            row.

        Returns
        -------
        Bags
            ``instance_data["coords"]`` holds the column and the row of the upper left corner of
            each patch, as :class:`~milearn.inspection.InstanceScoresDisplay` expects them.

        Raises
        ------
        ValueError
            If an image has another number of dimensions or channels, is smaller than a patch, or
            does not hold numbers, or ``features`` does not return one row per patch.
        TypeError
            For a path instead of an image, or a ``patch_size`` or ``step`` that is not an integer.

        Notes
        -----
        Pixels of integer types become float64. Pass images of float32 to need half of the memory.

        Examples
        --------
        >>> import numpy as np
        >>> from milearn import Bags
        >>> images = np.arange(32).reshape(2, 4, 4)
        >>> bags = Bags.from_images(images, patch_size=2)
        >>> bags[0]
        array([[ 0.,  1.,  4.,  5.],
               [ 2.,  3.,  6.,  7.],
               [ 8.,  9., 12., 13.],
               [10., 11., 14., 15.]])
        >>> bags[:1].instance_data["coords"].tolist()
        [[0, 0], [2, 0], [0, 2], [2, 2]]
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
                    f"Image {position} has {_named(channels)} but image 0 has {_named(first)}: "
                    "convert all images to the same channels."
                )
            windows = np.lib.stride_tricks.sliding_window_view(pixels, (height, width), axis=(0, 1))
            windows = windows[::down, ::right]
            rows, columns = windows.shape[:2]
            if channels:
                windows = np.moveaxis(windows, 2, -1)
            patches = windows.reshape(rows * columns, height, width, *channels)
            blocks.append(_features_of(patches, features, position))
            column, row = np.meshgrid(np.arange(columns) * right, np.arange(rows) * down)
            corners.append(np.column_stack([column.ravel(), row.ravel()]))
        if not blocks:
            raise ValueError("No images were given: pass at least one.")
        stacked, offsets, names = stack_blocks(blocks)
        data = {"coords": np.concatenate(corners)}
        return cls(stacked, offsets, feature_names=names, instance_data=data)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Any],
        split: str | Callable[[str], Iterable[str]] | None = "sentences",
    ) -> Self:
        """Bags from texts: a document is a bag, and its sentences or paragraphs are the instances.

        The instances are text until a transformer of the pipeline encodes them, so that the
        vocabulary and the weights of a vectoriser are learnt from the training documents of each
        fold.

        Parameters
        ----------
        documents : iterable of str, or of sequences of str
            The documents; with ``split=None`` the parts of each document, such as the sentences of
            another library.
        split : {"sentences", "paragraphs"}, callable or None, default="sentences"
            How documents are divided. Paragraphs end at blank lines. Sentences end at a blank line,
            or at a full stop, question mark or exclamation mark before white space that is not
            followed by a lower-case letter; abbreviations before names end them too. A callable
            takes a document and returns its parts.

        Returns
        -------
        Bags
            With one feature, "text", whose values are strings without white space at the ends.
            Parts without a character are left out. For "sentences" and "paragraphs",
            ``instance_data["start"]`` holds the position in the document at which each part starts.

        Raises
        ------
        ValueError
            For a document without a part, which is named, or an unknown ``split``.
        TypeError
            For a document or a part that is not a string.

        See Also
        --------
        milearn.preprocessing.InstanceTransformer : Encodes the texts.

        Notes
        -----
        Estimators need numbers. :class:`~milearn.preprocessing.InstanceTransformer` passes the
        texts to vectorisers of scikit-learn, and to pipelines that begin with one, as a list of
        strings, and to other transformers as a matrix of one column.
        :func:`milearn.datasets.save_bags` writes text as npz, npy-folder and Parquet.

        Examples
        --------
        >>> from sklearn.feature_extraction.text import TfidfVectorizer
        >>> from milearn import Bags
        >>> from milearn.preprocessing import InstanceTransformer
        >>> bags = Bags.from_documents(["It works. I am happy!", "It broke after a day."])
        >>> bags[0]
        array([['It works.'],
               ['I am happy!']], dtype=object)
        >>> InstanceTransformer(TfidfVectorizer()).fit_transform(bags).shape
        (2, 7)
        """
        if isinstance(documents, (str, bytes)):
            raise TypeError("documents is a string: pass a list of documents.")
        if not (split is None or callable(split) or split in ("sentences", "paragraphs")):
            raise ValueError(
                f"split={split!r} is unknown: use 'sentences', 'paragraphs', a function, or None "
                "for documents that are divided already."
            )
        texts: list[str] = []
        starts: list[int] = []
        sizes: list[int] = []
        for position, document in enumerate(documents):
            before = len(texts)
            for start, part in _parts(document, position, split):
                stripped = part.strip()
                if stripped:
                    texts.append(str(stripped))
                    starts.append(start + len(part) - len(part.lstrip()))
            sizes.append(len(texts) - before)
            if not sizes[-1]:
                raise ValueError(f"Document {position} has no text: leave it out.")
        if not sizes:
            raise ValueError("No documents were given: pass at least one.")
        data = {"start": np.array(starts)} if isinstance(split, str) else None
        rows, names = np.zeros((len(texts), 1)), ["text"]
        made = cls(rows, offsets_of(sizes), feature_names=names, instance_data=data)
        return bags_of_texts(made, texts)


# -- time series ---------------------------------------------------------------------------------


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


# -- images ----------------------------------------------------------------------------------------


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


def _features_of(
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


# -- texts -----------------------------------------------------------------------------------------


def bags_of_texts(bags: Any, texts: list[str]) -> Any:
    """The bags with texts in the place of their instances, as their only feature."""
    # Python strings: strings of NumPy would have the memory of the longest one.
    column = np.empty((len(texts), 1), dtype=object)
    column[:, 0] = texts
    return bags._changed(instances=column)


def _parts(document: Any, position: int, split: Any) -> Iterator[tuple[int, str]]:
    """The parts of a document and their positions in it."""
    if split is not None and not isinstance(document, str):
        raise TypeError(
            f"Document {position} is {document!r:.40}, which is not a string"
            + (": documents that are divided already need split=None." if split else ".")
        )
    if isinstance(split, str):
        yield from _cut(document, _SENTENCE if split == "sentences" else _PARAGRAPH)
        return
    if split is None and isinstance(document, str):
        raise TypeError(
            f"Document {position} is a string, and split=None is for documents that are divided "
            "already: pass split='sentences', or a list of strings for each document."
        )
    for part in document if split is None else split(document):
        if not isinstance(part, str):
            raise TypeError(f"A part of document {position} is {part!r:.40}, not a string.")
        yield 0, part


def _cut(document: str, boundary: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    start = 0
    for found in boundary.finditer(document):
        following = found[1] if found.re.groups else None
        if following is not None and following.islower():
            continue
        yield start, document[start : found.end()]
        start = found.end()
    yield start, document[start:]
