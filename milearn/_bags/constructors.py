"""Constructors of the container from lists, tables and other containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
from scipy import sparse

from .annotations import (
    bag_columns,
    canonical_data,
    data_of_blocks,
    entries_of_groups,
    entry_of_groups,
    frame_data,
    joined,
    taken_rows,
)
from .arrow import read_nested
from .canonical import (
    MISSING,
    as_array,
    as_floats,
    canonical_csr,
    canonical_matrix,
    check_columns,
    check_length,
    check_positive,
    frame_column,
    frame_names,
    id_array,
    is_missing,
    keys_of,
    numbered,
    read_words,
    refuse_anndata,
    stack_blocks,
    stacked,
    to_list,
    unlike,
)
from .columns import without_index
from .merge import ordered_categories, with_extras
from .names import canonical_ids, check_index
from .rows_on_disk import LazyRows, holds_text, is_mapped
from .segments import group_by_id, offsets_of

# A blank line, or the end of a sentence with the first letter of the next one.
_SENTENCE = re.compile(
    r"""\n\s*\n\s*|[.!?\u2026]["'\u201d\u2019)\]]*\s+(?=["'\u201c\u2018(\[]*(.))|[\u3002\uff01\uff1f]\s*"""
)
_PARAGRAPH = re.compile(r"\n\s*\n\s*")
_NO_BAGS = ", or Bags(np.empty((0, n_features)), [0]) for a container without bags"
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
            out. So are points that are NaN in all channels at the start and the end of a series,
            which pad it, and windows of nothing but NaN.
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
        step = length if step is None else step
        check_positive(length=length, step=step)
        items = numbered(X, "series")
        named = {at: _channels_and_time(each, at, channels_last) for at, each in items}
        pads = []
        for position, values in named.items():
            points = np.flatnonzero(_has_number(values, 1))
            if not len(points):
                raise ValueError(f"Series {position} is NaN at every point: leave it out.")
            pads.append(points[0])
            named[position] = values[:, points[0] : points[-1] + 1]
        series, first = [*named.values()], next(iter(named))
        channels = series[0].shape[0]
        for position, values in named.items():
            if values.shape[0] != channels:
                raise ValueError(
                    f"Series {position} has {values.shape[0]} channels but series {first} has "
                    f"{channels}: every series must have the same channels."
                )
            if values.shape[1] < length:
                turned = "" if channels_last or len(values) < length else _TURNED
                raise ValueError(
                    f"Series {position} has {values.shape[1]} time points, fewer than "
                    f"length={length}: choose shorter windows, or leave the series out.{turned}"
                )
        every = [np.arange(0, values.shape[1] - length + 1, step) for values in series]
        # The windows with a number, of series that are padded or have gaps.
        kept = [_has_number(values, length)[at] for values, at in zip(series, every, strict=True)]
        offsets = offsets_of([np.count_nonzero(each) for each in kept])
        windows = np.empty(
            (int(offsets[-1]), channels * length), np.result_type(*{v.dtype for v in series})
        )
        for at, values in enumerate(series):
            cut = np.lib.stride_tricks.sliding_window_view(values, length, axis=1)[:, ::step]
            rows = windows[offsets[at] : offsets[at + 1]]
            cut = cut if kept[at].all() else cut[:, kept[at]]
            rows.reshape(len(rows), channels, length)[...] = cut.transpose(1, 0, 2)
        starts = [first + at[has] for first, at, has in zip(pads, every, kept, strict=True)]
        data = {"start": np.concatenate(starts)}
        return cls(windows, offsets, instance_data=data, names=keys_of(X))

    @classmethod
    def from_padded(
        cls,
        X: Any,
        *,
        lengths: Any = None,
        mask: Any = None,
        feature_names: Any = None,
        instance_data: Mapping[str, Any] | None = None,
        bag_data: Any = None,
        names: Any = None,
    ) -> Self:
        """Bags from an array in which smaller bags are padded to the size of the largest one.

        Parameters
        ----------
        X : array-like of shape (n_bags, max_size, n_features)
            Also a masked array of NumPy. Its instances whose features are all masked are padding,
            and other masked values become NaN.
        lengths : array-like of int of shape (n_bags,), default=None
            Size of each bag, whose padding is at the end.
        mask : array-like of bool of shape (n_bags, max_size), default=None
            True for instances and False for padding, as the masks of Keras and the attention masks
            of transformers. ``key_padding_mask`` of torch is the opposite: pass ``~mask``. If
            padding is NaN, pass ``~np.isnan(X).all(axis=2)``.
        feature_names : array-like of shape (n_features,), default=None
            Names of the features.
        instance_data : mapping of str to array-like of shape (n_bags, max_size, ...), default=None
            Further arrays of the instances, which are padded too.
        bag_data, names : array-like or None
            As for :class:`Bags`.

        Returns
        -------
        Bags
            Without the padding.

        Raises
        ------
        ValueError
            If neither or both of ``lengths`` and ``mask`` are given, or they do not fit, or a bag
            is nothing but padding.

        Examples
        --------
        >>> from milearn import Bags
        >>> padded = [[[1.0], [2.0], [0.0]], [[3.0], [0.0], [0.0]]]
        >>> Bags.from_padded(padded, lengths=[2, 1]).instances.tolist()
        [[1.0], [2.0], [3.0]]
        """
        hidden = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else None
        values = as_array(X if hidden is None else np.ma.getdata(X), "X")
        if values.ndim != 3:
            raise ValueError(
                f"X has {values.ndim} dimension(s): pass an array (n_bags, max_size, n_features); "
                "for one feature that is X[:, :, np.newaxis]."
            )
        if hidden is not None:
            if lengths is None and mask is None:
                mask = ~hidden.all(axis=2)
            values = np.where(hidden, np.nan, values) if hidden.any() else values
        if (lengths is None) == (mask is None):
            raise ValueError(
                "Pass either lengths=, the size of each bag, or mask=, True for each instance that "
                "is no padding; if padding is NaN, mask=~np.isnan(X).all(axis=2)."
            )
        n_bags, longest = values.shape[:2]
        if mask is None:
            sizes = as_array(lengths, "lengths")
            if sizes.shape != (n_bags,) or not np.isin(sizes, np.arange(longest + 1)).all():
                raise ValueError(
                    f"lengths must hold a whole number up to {longest} for each of {n_bags} bags."
                )
            kept = np.arange(longest) < sizes[:, np.newaxis]
        else:
            kept = as_array(mask, "mask")
            if kept.shape != (n_bags, longest) or not np.isin(kept, (0, 1)).all():
                raise ValueError(
                    f"mask must have shape {(n_bags, longest)}, True for instances and False for "
                    "padding."
                )
            kept = kept.astype(bool)
        ids, sizes = canonical_ids(names, n_bags), kept.sum(axis=1)
        check_index(lengths, ids, "lengths")
        for bag in np.flatnonzero(sizes == 0)[:1].tolist():
            name = bag if ids is None else repr(ids[bag])
            raise ValueError(
                f"Bag {name} is nothing but padding: leave it out. In a mask True is an instance; "
                "pass ~mask if it is padding."
            )
        data = {}
        for name, each in (instance_data or {}).items():
            array = as_array(each, f"instance_data[{name!r}]")
            if array.shape[:2] != (n_bags, longest):
                raise ValueError(
                    f"instance_data[{name!r}] has shape {array.shape}: pad it as X, to "
                    f"{(n_bags, longest)}."
                )
            data[name] = array[kept]
        return cls(
            values[kept],
            offsets_of(sizes),
            feature_names=feature_names,
            instance_data=data,
            bag_data=bag_data,
            names=ids,
        )

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
        step = patch_size if step is None else step
        check_positive(patch_size=patch_size, step=step)
        height, width = patch_size if isinstance(patch_size, (list, tuple)) else [patch_size] * 2
        down, right = step if isinstance(step, (list, tuple)) else [step] * 2
        blocks, corners, first = [], [], None
        for position, image in numbered(images, "images"):
            pixels = _pixels(image, position, (height, width))
            channels = pixels.shape[2:]
            if first is None:
                first, its_channels = position, channels
            elif channels != its_channels:
                raise ValueError(
                    f"Image {position} has the shape {pixels.shape}, and image {first} other "
                    f"channels, {its_channels}: convert all images to the same channels."
                )
            windows = np.lib.stride_tricks.sliding_window_view(pixels, (height, width), axis=(0, 1))
            windows = windows[::down, ::right]
            rows, columns = windows.shape[:2]
            if channels:
                windows = np.moveaxis(windows, 2, -1)
            patches = windows.reshape(rows * columns, height, width, *channels)
            blocks.append((position, _features_of(patches, features, position)))
            column, row = np.meshgrid(np.arange(columns) * right, np.arange(rows) * down)
            corners.append(np.column_stack([column.ravel(), row.ravel()]))
        matrix, offsets, names = stack_blocks(blocks)
        data = {"coords": np.concatenate(corners)}
        return cls(matrix, offsets, feature_names=names, instance_data=data, names=keys_of(images))

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Any],
        split: str | Callable[[str], Iterable[str]] | None = "sentences",
        *,
        instance_data: Mapping[str, Any] | None = None,
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
        instance_data : mapping of str to sequence of n_documents array-like, default=None
            Further arrays of the parts, such as counts: for each document one entry per part,
            those without a character included.

        Returns
        -------
        Bags
            With one feature, "text", whose values are strings without white space at the ends.
            Parts without a character are left out. For "sentences" and "paragraphs",
            ``instance_data["start"]`` holds the position in the document at which each part starts.

        Raises
        ------
        ValueError
            For a document without a part, which is named, an unknown ``split``, or
            ``instance_data`` that does not fit.
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
        ends = [0]
        for position, document in numbered(documents, "documents"):
            for start, part in _parts(document, position, split):
                texts.append(str(part.strip()))
                starts.append(start + len(part) - len(part.lstrip()))
            if not any(texts[ends[-1] :]):
                raise ValueError(f"Document {position} has no text: leave it out.")
            ends.append(len(texts))
        data = {"start": np.array(starts)} if isinstance(split, str) else {}
        data |= data_of_blocks(instance_data, np.array(ends)) or {}
        kept = np.array(texts, dtype=object) != ""
        offsets = offsets_of(np.add.reduceat(kept, ends[:-1], dtype=np.intp))
        texts, data = [text for text in texts if text], taken_rows(data, kept)
        parts = {"feature_names": ["text"], "instance_data": data, "names": keys_of(documents)}
        return bags_of_texts(cls(np.zeros((len(texts), 1)), offsets, **parts), texts)


# -- time series ---------------------------------------------------------------------------------


def _numbers_of(item: Any, what: str, dimensions: tuple[int, ...], shapes: str) -> np.ndarray:
    """A series or an image as an array of numbers."""
    if isinstance(item, (str, bytes)) or hasattr(item, "__fspath__"):
        raise TypeError(f"{what} is a path or a string: read the file first.")
    try:
        array = as_array(item, what)
    except ValueError as error:
        raise ValueError(f"{what} has rows of different lengths: pad or cut them.") from error
    if array.ndim not in dimensions or array.size == 0:
        raise ValueError(f"{what} has the shape {array.shape}: pass arrays of shape {shapes}.")
    return array if array.dtype.kind in "biuf" else as_floats(array, what)


def _channels_and_time(values: Any, position: Any, channels_last: bool) -> np.ndarray:
    shapes = "(time,) or " + ("(time, channels)" if channels_last else "(channels, time)")
    array = _numbers_of(values, f"Series {position}", (1, 2), shapes)
    rows = array[np.newaxis] if array.ndim == 1 else array.T if channels_last else array
    return as_floats(rows, f"Series {position}")


def _has_number(values: np.ndarray, length: int) -> np.ndarray:
    """Whether each window of ``length`` points, with step 1, has a value that is not NaN."""
    counts = offsets_of(~np.isnan(values).all(axis=0))
    return counts[length:] > counts[:-length]


# -- images ----------------------------------------------------------------------------------------


def _pixels(image: Any, position: Any, patch: tuple[int, int]) -> np.ndarray:
    shapes = "(height, width) or (height, width, channels); a single image is [image]"
    pixels = _numbers_of(image, f"Image {position}", (2, 3), shapes)
    if (np.array(pixels.shape[:2]) < patch).any():
        raise ValueError(
            f"Image {position} has the shape {pixels.shape}, which is smaller than a patch of "
            f"{patch[0]} x {patch[1]} pixels: choose a smaller patch_size. A single image is "
            "[image]; channels are last."
        )
    return pixels


def _features_of(
    patches: np.ndarray, features: Callable[[np.ndarray], Any] | None, position: Any
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


# -- texts -----------------------------------------------------------------------------------------


def bags_of_texts(bags: Any, texts: list[str]) -> Any:
    """The bags with texts in the place of their instances, as their only feature."""
    # Python strings: strings of NumPy would have the memory of the longest one.
    column = np.empty((len(texts), 1), dtype=object)
    column[:, 0] = texts
    return bags._changed(instances=column)


def _parts(document: Any, position: Any, split: Any) -> Iterator[tuple[int, str]]:
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


class BagConstructors(RawConstructors):
    """The class methods of :class:`milearn.Bags` that create a container."""

    @classmethod
    def from_list(
        cls,
        blocks: Iterable[Any] | Mapping[Any, Any],
        *,
        bag_graph: Any = None,
        instance_graph: Any = None,
        feature_names: Any = None,
        instance_data: Mapping[str, Any] | None = None,
        bag_data: Any = None,
    ) -> Self:
        """Bags from a sequence of 2-D blocks: arrays, nested lists, CSR matrices or frames.

        Parameters
        ----------
        blocks : iterable of array-like of shape (bag size, n_features), or mapping of them
            One block per bag; the keys of a mapping are the names of the bags. Data frames must
            agree in their columns, which become the feature names.
        bag_graph, instance_graph, feature_names : array-like or None
            As for :class:`Bags`.
        instance_data : mapping of str to sequence of n_bags array-like, default=None
            Further arrays of the instances, one block per bag as for the instances.
        bag_data : data frame or mapping of str to array-like of shape (n_bags, ...), default=None
            Further columns of the bags, as for :class:`Bags`.

        Returns
        -------
        Bags

        Raises
        ------
        ValueError
            For an empty block, a block that is a string or not two-dimensional, blocks that differ
            in their number of features, or blocks of ``instance_data`` that do not fit; the message
            names the bags.
        TypeError
            For a block that is a path, itself :class:`Bags`, or no array.
        """
        refuse_anndata(blocks, "The sequence of bags")
        items = [*numbered(blocks, "bags", _NO_BAGS)]
        for position, block in items:
            if isinstance(block, BagConstructors):
                raise TypeError(
                    f"Bag {position} is itself Bags: join containers by Bags.concatenate."
                )
        matrix, offsets, columns = stack_blocks(items)
        if columns is not None and feature_names is None:
            feature_names = columns
        return cls(
            matrix,
            offsets,
            bag_graph=bag_graph,
            instance_graph=instance_graph,
            feature_names=feature_names,
            instance_data=data_of_blocks(instance_data, offsets),
            bag_data=bag_data,
            names=keys_of(blocks),
        )

    @classmethod
    def from_ids(
        cls,
        instances: Any,
        bag_ids: Iterable[Hashable],
        *,
        return_ids: bool = False,
        feature_names: Any = None,
        instance_data: Mapping[str, Any] | None = None,
        bag_data: Any = None,
    ) -> Any:
        """Bags from a table of instances and the identifier of each instance's bag.

        Parameters
        ----------
        instances : array-like, data frame or sparse matrix of shape (n_instances, n_features)
            The instances, in any order.
        bag_ids : iterable of n_instances hashable identifiers
            Bags come in the order in which their identifiers appear first; the instances of a bag
            keep their order. Missing values (None, NaN) are not allowed.
        return_ids : bool, default=False
            Also return the identifiers, one per bag, to align labels with the bags.
        feature_names : array-like of shape (n_features,), default=None
            By default, the columns of a data frame.
        instance_data : mapping of str to array-like of shape (n_instances, ...), default=None
            Further arrays of the instances, in the order of the rows.
        bag_data : data frame or mapping of str to array-like of shape (n_instances, ...), \
default=None
            Columns that are constant within each bag, in the order of the rows.

        Returns
        -------
        Bags, or (Bags, ndarray of shape (n_bags,)) with ``return_ids=True``

        Raises
        ------
        ValueError
            For a missing identifier, a number of identifiers that is not that of the instances,
            a column of ``bag_data`` that changes within a bag, or instances that are not a 2-D
            matrix of real numbers.
        """
        if feature_names is None:
            feature_names = frame_names(instances)
        matrix = canonical_matrix(instances)
        names, codes, order, offsets = group_by_id(bag_ids)
        for position, key in enumerate(names):
            if is_missing(key):
                raise ValueError(
                    f"bag_ids is missing ({key}) at row {order[offsets[position]]}: give every "
                    "instance the identifier of its bag."
                )
        check_length("bag_ids", codes, matrix.shape[0], "instance")
        rows: Any = order
        if np.array_equal(order, np.arange(len(order))):
            rows = slice(None)  # nothing is copied
        columns = canonical_data(bag_data, len(codes), "bag_data", "instance")
        stays_on_disk = rows is order and is_mapped(matrix)
        bags: Any = cls(
            matrix if stays_on_disk else matrix[rows],
            offsets,
            feature_names=feature_names,
            instance_data=taken_rows(canonical_data(instance_data, len(codes)), rows),
            bag_data=entries_of_groups(columns, codes, order[offsets[:-1]], names),
            names=id_array(names),
        )
        if stays_on_disk:
            bags = bags._changed(instances=LazyRows.of_groups(matrix, codes))
        return (bags, id_array(names)) if return_ids else bags

    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: Any,
        *,
        label: Any = None,
        features: Sequence[Any] | None = None,
        instance_data: Mapping[str, Any] | None = None,
        bag_data: Any = None,
        return_ids: bool = False,
    ) -> Any:
        """Bags from a data frame (pandas or polars) with one row per instance.

        Parameters
        ----------
        df : data frame
            Its rows are the instances, in any order. A frame with one row per bag and lists in its
            cells is read by :meth:`from_arrow`.
        bag : column name
            The column, or the level of the index, that names the bag of each row.
        label : column name, default=None
            A column that is constant within each bag; if given, the labels are also returned. A bag
            without a label has a missing value in all its rows; of polars also a word such as "NA",
            which :func:`pandas.read_csv` takes as missing.
        features : sequence of column names, default=None
            The feature columns, which must contain numbers; by default, all other columns.
        instance_data : mapping of str to column name or list of column names, default=None
            Columns that become arrays of the instances instead of features, such as
            ``{"coords": ["x", "y"]}``.
        bag_data : list of column names, or mapping of str to column name, default=None
            Columns that are constant within each bag and become columns of the bags instead of
            features, such as ``["age", "site"]``.
        return_ids : bool, default=False
            Also return the identifiers of the bags.

        Returns
        -------
        Bags, or a tuple (Bags[, y][, ids])

        Raises
        ------
        ValueError
            For an unknown or repeated column, a feature that is not a number, a missing identifier
            of a bag, or a label or a column of ``bag_data`` that changes within a bag.
        TypeError
            For something that is not a data frame.

        Examples
        --------
        >>> import pandas as pd
        >>> from milearn import Bags
        >>> df = pd.DataFrame(
        ...     {"molecule": ["a", "a", "b"], "width": [1.0, 2.0, 3.0], "musk": [1, 1, 0]}
        ... )
        >>> X, y = Bags.from_frame(df, "molecule", label="musk")
        >>> X.sizes, y
        (array([2, 1]), array([1, 0]))
        """
        if not hasattr(df, "columns"):
            refuse_anndata(df, "The data frame")
            raise TypeError(f"A data frame is needed, not {type(df).__name__}: use Bags.from_ids.")
        columns = bag_columns(bag_data)
        # A level of the index of pandas is named as a column, as in its groupby.
        levels = getattr(getattr(df, "index", None), "names", ())
        if levels := [n for n in (bag, label) if n is not None and n in levels and n not in df]:
            df = df.reset_index(level=levels)
        data = frame_data(df, instance_data, "instance_data")
        named = list(df.columns)
        taken = map(to_list, [*bag_columns(instance_data).values(), *columns.values()])
        reserved = [bag, label, *chain.from_iterable(taken)]
        chosen = [n for n in named if n not in reserved] if features is None else [*features]
        if features is None:
            chosen = without_index(chosen, df.__getitem__)
        check_columns("frame", [bag, *([] if label is None else [label]), *chosen], named)
        if not chosen:
            raise ValueError("The frame has no feature columns: bags need at least one.")
        keys = read_words(df[bag].to_list(), ())
        bags, ids = cls.from_ids(
            np.column_stack([frame_column(df, name) for name in chosen]),
            keys,
            return_ids=True,
            feature_names=chosen if all(isinstance(name, str) for name in chosen) else None,
            instance_data=data,
            bag_data=frame_data(df, columns),
        )
        labels = None if label is None else label_of_bags(_labels_in(df, label), keys)
        return with_extras(bags, labels, ids if return_ids else None)

    @classmethod
    def from_arrow(
        cls,
        data: Any,
        bag: str | None = None,
        *,
        label: str | None = None,
        features: Sequence[str] | None = None,
        instance_data: Mapping[str, Any] | None = None,
        bag_data: Any = None,
        empty: str = "raise",
        return_ids: bool = False,
    ) -> Any:
        """Bags from list arrays and nested tables of Apache Arrow, one list per bag.

        Parameters
        ----------
        data : pyarrow array or table, polars or pandas frame or series, or awkward array
            An array of lists holds the instances of each bag: as lists of fixed size, as lists of
            equal length, or, for one feature, as numbers. Of a table each row is a bag, and its
            columns are such arrays, whose features are joined. A nested Parquet file is read by
            :func:`pyarrow.parquet.read_table` first.
        bag : column name, default=None
            The column of the identifiers of the bags.
        label : column name, default=None
            The column of their labels; if given, the labels are also returned.
        features : sequence of column names, default=None
            Columns that are features; by default, all others.
        instance_data : mapping of str to column name or list of column names, default=None
            Columns that become arrays of the instances.
        bag_data : list of column names, or mapping of str to column name, default=None
            Columns of numbers or strings that become columns of the bags.
        empty : {"raise", "drop"}, default="raise"
            Whether bags that are empty or missing are an error, which names them, or are left
            out, together with their labels and identifiers.
        return_ids : bool, default=False
            Also return the identifiers of the bags, or their row numbers if ``bag`` is None.

        Returns
        -------
        Bags, or a tuple (Bags[, y][, ids])

        Raises
        ------
        ValueError
            For unknown or nonnumeric columns, lists of different lengths in one bag, instances of
            different lengths, an instance that is missing, or an empty bag.
        TypeError
            For data that Arrow cannot read.
        ImportError
            Without pyarrow.

        Notes
        -----
        The memory of ``data`` is shared and nothing is copied where the instances are one column,
        in one chunk, of lists of lists of fixed or equal size, of float64, float32 or float16
        without missing values. A missing value becomes NaN.

        A table of :meth:`to_arrow` has its features and data in its metadata, which are the
        defaults. Further columns of it, except "bag" and "label", become ``instance_data`` if they
        hold lists, and ``bag_data`` otherwise.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from milearn import Bags
        >>> slides = pa.table({"name": ["a", "b"], "width": [[1.0, 2.0], [3.0]]})
        >>> X, ids = Bags.from_arrow(slides, "name", return_ids=True)
        >>> X.sizes, ids.tolist()
        (array([2, 1]), ['a', 'b'])
        """
        columns = None if bag_data is None else bag_columns(bag_data)
        parts, labels, ids = read_nested(data, bag, label, features, instance_data, columns, empty)
        return with_extras(cls(**parts), labels, ids if return_ids else None)

    @classmethod
    def singletons(
        cls,
        X: Any,
        *,
        feature_names: Any = None,
        instance_data: Mapping[str, Any] | None = None,
        bag_data: Any = None,
    ) -> Self:
        """Bags of one instance each, the rows of ``X``.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_bags, n_features)
            The instances.
        feature_names : array-like of shape (n_features,), default=None
            By default, the columns of a data frame.
        instance_data : mapping of str to array-like of shape (n_bags, ...), default=None
            Further arrays with one entry per row.
        bag_data : data frame or mapping of str to array-like of shape (n_bags, ...), default=None
            Further columns of the bags, as for :class:`Bags`.

        Returns
        -------
        Bags

        Raises
        ------
        ValueError
            For an ``X`` that is not a 2-D matrix of real numbers.
        """
        if feature_names is None:
            feature_names = frame_names(X)
        matrix = canonical_matrix(X)
        return cls(
            matrix,
            np.arange(matrix.shape[0] + 1),
            feature_names=feature_names,
            instance_data=instance_data,
            bag_data=bag_data,
        )

    @classmethod
    def concatenate(cls, parts: Iterable[Any]) -> Self:
        """All bags of several containers, in order; graphs become diagonal blocks.

        Parameters
        ----------
        parts : iterable of Bags
            Names of features, which must be the same in the same order, are kept if every part has
            them; of ``instance_data`` and ``bag_data`` the arrays that every part has.

        Returns
        -------
        Bags

        Raises
        ------
        ValueError
            If there are no parts, or for parts that differ in their features, or whose
            ``instance_data`` or ``bag_data`` of one name differ in shape or hold text in one part
            only.
        TypeError
            For a part that is not :class:`Bags`.
        """
        parts = list(parts)
        if not parts:
            raise ValueError("No bags were given: pass at least one Bags to concatenate.")
        for position, part in enumerate(parts):
            if not isinstance(part, BagConstructors):
                raise TypeError(
                    f"Part {position} is {type(part).__name__}: only Bags can be concatenated."
                )
        if len({holds_text(part) for part in parts}) > 1:
            raise ValueError("Bags of text and bags of numbers cannot be joined: encode the text.")
        named = {
            at: [*p.feature_names] for at, p in enumerate(parts) if p.feature_names is not None
        }
        first = next(iter(named), 0)
        for at, names in named.items():
            if names != named[first]:
                raise ValueError(
                    f"Part {at} has {unlike(names, named[first])} part {first}: pass "
                    f"part[:, names] with the columns of part {first}."
                )
        matrix = stacked([part.instances for part in parts])
        return parts[0]._changed(
            instances=canonical_csr(matrix) if sparse.issparse(matrix) else matrix,
            offsets=offsets_of(np.concatenate([part.sizes for part in parts])),
            feature_names=parts[0].feature_names if len(named) == len(parts) else None,
            **joined(parts),
        )


def _labels_in(df: Any, name: Any) -> np.ndarray:
    """A column of labels; pandas knows the words for missing values, but polars does not."""
    values: np.ndarray = df[name].to_numpy()
    if values.dtype.kind != "O" or ordered_categories(df[name]) is not None:
        return values
    cells = np.empty(len(values), dtype=object)
    cells[:] = read_words(values.tolist(), () if hasattr(df, "iloc") else MISSING)
    texts = [any(isinstance(cell, str) for cell in column) for column in (values, cells)]
    return cells.astype(float) if texts == [True, False] else cells


def label_of_bags(labels: np.ndarray, keys: Sequence[Any]) -> np.ndarray:
    """The label of each bag in a column with one entry per instance, or an error."""
    names, codes, order, offsets = group_by_id(keys)
    return entry_of_groups(labels, codes, order[offsets[:-1]], names, "labels")
