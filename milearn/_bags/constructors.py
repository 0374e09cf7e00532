"""Constructors of the container from lists, tables and other containers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from .coerce import canonical_matrix, frame_names, id_array
from .instance_data import canonical_data, data_of_blocks, frame_data, taken_rows
from .series import windows_of_series
from .stack import frame_features, frame_labels, joined_parts, rows_by_bag, stack_blocks

__all__ = ["BagConstructors"]


class BagConstructors:
    """The class methods of :class:`milearn.Bags` that make a container."""

    def __init__(self, instances: Any, offsets: Any, **parts: Any) -> None:
        raise NotImplementedError

    @classmethod
    def from_list(
        cls,
        blocks: Iterable[Any],
        *,
        bag_graph: Any = None,
        instance_graph: Any = None,
        feature_names: Any = None,
        instance_data: Mapping[str, Any] | None = None,
    ) -> Self:
        """Bags from a sequence of 2-D blocks: arrays, nested lists, CSR matrices or frames.

        Parameters
        ----------
        blocks : iterable of array-like of shape (bag size, n_features)
            One block per bag. Data frames must agree in their columns, which become the
            feature names.
        bag_graph, instance_graph, feature_names
            As for :class:`Bags`.
        instance_data : mapping of str to sequence of n_bags array-like, default=None
            Further arrays of the instances, one block per bag as for the instances.

        Returns
        -------
        Bags

        Raises
        ------
        ValueError
            For an empty block, a block that is not two-dimensional, blocks that differ in
            their number of features, or blocks of ``instance_data`` that do not fit; the message
            names the bags.
        TypeError
            For a block that is a string or itself :class:`Bags`.
        """
        blocks = list(blocks)
        for position, block in enumerate(blocks):
            if isinstance(block, BagConstructors):
                raise TypeError(
                    f"Bag {position} is itself Bags: join containers by Bags.concatenate."
                )
        stacked, offsets, columns = stack_blocks(blocks)
        return cls(
            stacked,
            offsets,
            bag_graph=bag_graph,
            instance_graph=instance_graph,
            feature_names=columns if feature_names is None else feature_names,
            instance_data=data_of_blocks(instance_data, offsets),
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
    ) -> Any:
        """Bags from a table of instances and the identifier of each instance's bag.

        Parameters
        ----------
        instances : array-like, data frame or sparse matrix of shape (n_instances, n_features)
            The instances, in any order.
        bag_ids : iterable of n_instances hashable identifiers
            Bags come in the order in which their identifiers appear first; the instances of a
            bag keep their order. A missing value (None, NaN) identifies nothing and is refused.
        return_ids : bool, default=False
            Also return the identifiers, one per bag, to align labels with the bags.
        feature_names : array-like of shape (n_features,), default=None
            Taken from the columns of a data frame when not given.
        instance_data : mapping of str to array-like of shape (n_instances, ...), default=None
            Further arrays of the instances, in the order of the rows.

        Returns
        -------
        Bags, or (Bags, ndarray of shape (n_bags,)) with ``return_ids=True``

        Raises
        ------
        ValueError
            For a missing identifier, a number of identifiers that is not that of the instances,
            or instances that are no 2-D matrix of real numbers.
        """
        if feature_names is None:
            feature_names = frame_names(instances)
        matrix = canonical_matrix(instances)
        order, offsets, names = rows_by_bag(bag_ids, matrix.shape[0])
        data = canonical_data(instance_data, matrix.shape[0])
        bags = cls(
            matrix if order is None else matrix[order],
            offsets,
            feature_names=feature_names,
            instance_data=data if order is None else taken_rows(data, order),
        )
        if not return_ids:
            return bags
        return bags, id_array(names)

    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: Any,
        *,
        label: Any = None,
        features: Sequence[Any] | None = None,
        instance_data: Mapping[str, Any] | None = None,
        return_ids: bool = False,
    ) -> Any:
        """Bags from a long data frame (pandas or polars), one row per instance.

        Parameters
        ----------
        df : data frame
        bag : column name
            The column that names the bag of each row.
        label : column name, default=None
            A column that is constant over each bag; when given, the labels are returned too. A
            bag without a label has a missing value in all its rows.
        features : sequence of column names, default=None
            The feature columns, which must hold numbers; all other columns when not given.
        instance_data : mapping of str to column name or list of column names, default=None
            Columns that become arrays of the instances and no features, such as
            ``{"coords": ["x", "y"]}``.
        return_ids : bool, default=False
            Also return the identifiers of the bags.

        Returns
        -------
        Bags, or a tuple (Bags[, y][, ids])

        Raises
        ------
        ValueError
            For an unknown or repeated column, a feature that is not a number, a missing
            identifier of a bag, or a label that changes inside a bag.
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
            raise TypeError(f"A data frame is needed, not {type(df).__name__}: use Bags.from_ids.")
        data = frame_data(df, instance_data)
        values, feature_names = frame_features(df, bag, label, features, instance_data)
        keys = df[bag].to_list()
        bags, ids = cls.from_ids(
            values, keys, return_ids=True, feature_names=feature_names, instance_data=data
        )
        out = [bags]
        if label is not None:
            out.append(frame_labels(df, label, keys))
        if return_ids:
            out.append(ids)
        return out[0] if len(out) == 1 else tuple(out)

    @classmethod
    def singletons(
        cls,
        X: Any,
        *,
        feature_names: Any = None,
        instance_data: Mapping[str, Any] | None = None,
    ) -> Self:
        """Bags of one instance each, the rows of ``X``.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_bags, n_features)
        feature_names : array-like of shape (n_features,), default=None
            Taken from the columns of a data frame when not given.
        instance_data : mapping of str to array-like of shape (n_bags, ...), default=None
            Further arrays with one entry per row.

        Returns
        -------
        Bags

        Raises
        ------
        ValueError
            For an ``X`` that is no 2-D matrix of real numbers.
        """
        if feature_names is None:
            feature_names = frame_names(X)
        matrix = canonical_matrix(X)
        return cls(
            matrix,
            np.arange(matrix.shape[0] + 1),
            feature_names=feature_names,
            instance_data=instance_data,
        )

    @classmethod
    def from_series(cls, X: Iterable[Any], length: int, step: int | None = None) -> Self:
        """Bags from time series: a series is a bag, and its windows are the instances.

        Parameters
        ----------
        X : array-like of shape (n_series, channels, time), or sequence of (channels, time) arrays
            As aeon and sktime hold them. Series may differ in length but not in channels.
        length : int
            Time points of a window.
        step : int, default=None
            Time points from the start of a window to that of the next; ``length`` when None, so
            that windows do not overlap. Points after the last whole window are left out.

        Returns
        -------
        Bags
            With channels * length features: the points of the first channel, then those of the
            second, and so on. ``instance_data["start"]`` holds the time point at which each window
            starts.

        Raises
        ------
        ValueError
            For a series that is no 2-D array of numbers, has fewer than ``length`` points or other
            channels than the first.
        TypeError
            For a ``length`` or ``step`` that is no whole number.

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
        windows, offsets, starts = windows_of_series(X, length, step)
        return cls(windows, offsets, instance_data={"start": starts})

    @classmethod
    def concatenate(cls, parts: Iterable[Self]) -> Self:
        """All bags of several containers, in order; graphs become diagonal blocks.

        Parameters
        ----------
        parts : iterable of Bags
            Feature names are kept when every part has the same; of ``instance_data`` the arrays
            that every part has.

        Returns
        -------
        Bags

        Raises
        ------
        ValueError
            Without a part, or for parts that differ in their number of features, or whose
            ``instance_data`` of one name differ in shape or hold text in one part only.
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
        return cls(**joined_parts(parts))
