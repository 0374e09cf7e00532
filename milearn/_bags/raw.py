"""Constructors of the container from time series, images and documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np

from .images import patches_of_images
from .series import windows_of_series
from .stack import stack_blocks
from .text import bags_of_texts, parts_of_documents

__all__ = ["RawConstructors"]


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
        windows, offsets, starts = windows_of_series(X, length, step, channels_last)
        return cls(windows, offsets, instance_data={"start": starts})

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
        blocks, corners = patches_of_images(images, patch_size, step, features)
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
        texts, offsets, starts = parts_of_documents(documents, split)
        data = None if starts is None else {"start": starts}
        rows, names = np.zeros((len(texts), 1)), ["text"]
        made = cls(rows, offsets, feature_names=names, instance_data=data)
        return bags_of_texts(made, texts)
