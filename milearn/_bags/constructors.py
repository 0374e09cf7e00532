"""Constructors of the container from lists, tables and other containers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
from scipy import sparse

from .annotations import (
    bag_columns,
    canonical_data,
    constant_data,
    data_of_blocks,
    differing_row,
    frame_data,
    joined_data,
    taken_rows,
)
from .arrow import arrow_table, has_lists, need_module, read_nested
from .canonical import (
    block_diagonal,
    canonical_csr,
    canonical_matrix,
    check_columns,
    frame_column,
    frame_names,
    id_array,
    is_missing,
    listed,
)
from .cutting import RawConstructors
from .rows_on_disk import holds_text
from .segments import group_by_id, offsets_of
from .stack import (
    has_list_cells,
    stack_blocks,
    stack_matrices,
)


class BagConstructors(RawConstructors):
    """The class methods of :class:`milearn.Bags` that create a container."""

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
        bag_data: Any = None,
    ) -> Self:
        """Bags from a sequence of 2-D blocks: arrays, nested lists, CSR matrices or frames.

        Parameters
        ----------
        blocks : iterable of array-like of shape (bag size, n_features)
            One block per bag. Data frames must agree in their columns, which become the
            feature names.
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
            bag_data=bag_data,
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
        if len(codes) != matrix.shape[0]:
            raise ValueError(
                f"bag_ids has {len(codes)} entries for {matrix.shape[0]} instances: give one bag "
                "identifier per instance."
            )
        rows: Any = order
        if np.array_equal(order, np.arange(len(order))):
            rows = slice(None)  # nothing is copied
        bags = cls(
            matrix[rows],
            offsets,
            feature_names=feature_names,
            instance_data=taken_rows(canonical_data(instance_data, matrix.shape[0]), rows),
            bag_data=constant_data(bag_data, rows, offsets, names),
        )
        if not return_ids:
            return bags
        return bags, id_array(names)

    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: Any = None,
        *,
        label: Any = None,
        features: Sequence[Any] | None = None,
        instance_data: Mapping[str, Any] | None = None,
        bag_data: Any = None,
        return_ids: bool = False,
    ) -> Any:
        """Bags from a data frame (pandas or polars), one row per instance, or per bag of lists.

        In a long frame each row is an instance and the column ``bag`` names its bag. Where the
        features are columns of lists each row is a bag: a column holds the values of one feature,
        or whole instances as lists of lists (see :meth:`from_arrow`).

        Parameters
        ----------
        df : data frame
            Its rows are the instances, in any order, or the bags.
        bag : column name, default=None
            The column that names the bag of each row; needed in a long frame.
        label : column name, default=None
            A column that is constant within each bag; if given, the labels are also returned. A bag
            without a label has a missing value in all its rows.
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
            of a bag, a label or a column of ``bag_data`` that changes within a bag, or lists that
            do not fit.
        TypeError
            For something that is not a data frame.
        ImportError
            For columns of lists without pyarrow.

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
        columns = bag_columns(bag_data)
        if has_list_cells(df):
            return cls.from_arrow(
                df,
                bag,
                label=label,
                features=features,
                instance_data=instance_data,
                bag_data=columns or None,
                return_ids=return_ids,
            )
        if bag is None:
            raise ValueError("bag=None is for columns of lists: name the column of the bags.")
        data = frame_data(df, instance_data, "instance_data")
        of_bags = frame_data(df, columns, "bag_data")
        named = list(df.columns)
        taken = [(instance_data or {}).values(), columns.values()]
        reserved = [bag, label, *chain.from_iterable(map(listed, chain(*taken)))]
        chosen = [n for n in named if n not in reserved] if features is None else [*features]
        check_columns("frame", [bag, *([] if label is None else [label]), *chosen], named)
        if not chosen:
            raise ValueError("The frame has no feature columns: bags need at least one.")
        keys = df[bag].to_list()
        bags, ids = cls.from_ids(
            np.column_stack([frame_column(df, name) for name in chosen]),
            keys,
            return_ids=True,
            feature_names=chosen if all(isinstance(name, str) for name in chosen) else None,
            instance_data=data,
            bag_data=of_bags,
        )
        labels = None
        if label is not None:
            values = df[label].to_numpy()
            names, codes, order, offsets = group_by_id(keys)
            first = order[offsets[:-1]]
            row = differing_row(values, codes, first)
            if row is not None:
                raise ValueError(
                    f"Bag {names[codes[row]]!r} has two labels ({values[first[codes[row]]]!s} and "
                    f"{values[row]!s}): a bag has one label."
                )
            labels = values[first]
        return _given(bags, label is not None, labels, return_ids, ids)

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
            columns are such arrays, whose features are joined. A table without lists is long: each
            row is an instance, and ``bag`` is needed. A nested Parquet file is read by
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
            Columns of numbers or strings that become columns of the bags. By default, those of a
            table of :meth:`to_arrow`.
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

        Examples
        --------
        >>> import pyarrow as pa
        >>> from milearn import Bags
        >>> slides = pa.table({"name": ["a", "b"], "width": [[1.0, 2.0], [3.0]]})
        >>> X, ids = Bags.from_arrow(slides, "name", return_ids=True)
        >>> X.sizes, ids.tolist()
        (array([2, 1]), ['a', 'b'])
        """
        table = arrow_table(data)
        if not has_lists(table):
            if bag is None:
                raise ValueError("The table has no column of lists: name the column of the bags.")
            return cls.from_frame(
                need_module("pandas", "A long table").DataFrame(
                    {name: table.column(name).to_numpy() for name in table.column_names}
                ),
                bag,
                label=label,
                features=features,
                instance_data=instance_data,
                bag_data=bag_data,
                return_ids=return_ids,
            )
        parts, labels, ids = read_nested(
            table,
            bag=bag,
            label=label,
            features=features,
            instance_data=instance_data,
            bag_data=None if bag_data is None else bag_columns(bag_data),
            empty=empty,
        )
        return _given(cls(**parts), label is not None, labels, return_ids, ids)

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
            Feature names are kept when every part has the same; of ``instance_data`` and
            ``bag_data`` the arrays that every part has.

        Returns
        -------
        Bags

        Raises
        ------
        ValueError
            If there are no parts, or for parts that differ in their number of features, or whose
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
        widths = [part.shape[1] for part in parts]
        if len(set(widths)) > 1:
            raise ValueError(
                f"The parts have {widths} features: every part must have the same features."
            )
        names = [None if p.feature_names is None else p.feature_names.tolist() for p in parts]
        matrix = stack_matrices([part.instances for part in parts])
        sizes, n_instances = [len(part) for part in parts], [part.n_instances for part in parts]
        return parts[0]._changed(
            instances=canonical_csr(matrix) if sparse.issparse(matrix) else matrix,
            offsets=offsets_of(np.concatenate([part.sizes for part in parts])),
            bag_graph=block_diagonal([part.bag_graph for part in parts], sizes),
            instance_graph=block_diagonal([part.instance_graph for part in parts], n_instances),
            feature_names=parts[0].feature_names if names.count(names[0]) == len(names) else None,
            instance_data=joined_data([part.instance_data for part in parts], "instance_data"),
            bag_data=joined_data([part.bag_data for part in parts], "bag_data"),
        )


def _given(bags: Any, with_labels: bool, labels: Any, with_ids: bool, ids: Any) -> Any:
    """The bags, or a tuple with labels and identifiers if these are requested."""
    out = (bags, *([labels] if with_labels else []), *([ids] if with_ids else []))
    return bags if len(out) == 1 else out
