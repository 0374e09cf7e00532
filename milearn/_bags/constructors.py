"""Constructors of the container from lists, tables and other containers."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
from scipy import sparse

from .annotations import (
    bag_columns,
    data_frame,
    data_of_blocks,
    entries_of_groups,
    entry_of_groups,
    frame_data,
    joined,
    taken_rows,
)
from .canonical import (
    canonical_csr,
    canonical_matrix,
    check_choice,
    check_columns,
    check_length,
    frame_matrix,
    frame_names,
    keys_of,
    stack_blocks,
    to_list,
    unlike,
)
from .kinds import (
    are_missing,
    as_array,
    as_labels,
    column,
    group_by_id,
    id_text,
    is_missing,
    labels,
    refuse_anndata,
)
from .merge import with_extras
from .names import bag_text, canonical_ids, check_index, check_rows, kept_index
from .rows_on_disk import LazyRows, is_mapped, stacked
from .segments import offsets_of
from .warn import warn_user

# Names that readers and reset_index give to a column without a name. R's read.csv gives "X".
_NO_NAME = re.compile(
    r"|Unnamed: [\d.]+|\.\.\.1|index|level_0|__index_level_0__|row_?names?|row_nr"
)


class BagConstructors:
    """The class methods of :class:`milearn.Bags` that create a container."""

    def __init__(self, instances: Any, offsets: Any, **parts: Any) -> None:
        raise NotImplementedError

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
            agree in their columns, which become the feature names. For bags of text each block is a
            list of strings, such as the paragraphs of a document; their only feature is "text".
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
            in their number of features, blocks of text beside blocks of numbers, or blocks of
            ``instance_data`` that do not fit; the message names the bags.
        TypeError
            For a block that is a path, itself :class:`Bags`, or no array.

        Examples
        --------
        >>> from sklearn.feature_extraction.text import TfidfVectorizer
        >>> from milearn import Bags
        >>> from milearn.preprocessing import InstanceTransformer
        >>> bags = Bags.from_list([["It works.", "I am happy!"], ["It broke after a day."]])
        >>> bags[0]
        array([['It works.'],
               ['I am happy!']], dtype=object)
        >>> InstanceTransformer(TfidfVectorizer()).fit_transform(bags).shape
        (2, 7)
        """
        refuse_anndata(blocks, "The sequence of bags")
        names = keys_of(blocks)
        if isinstance(blocks, Mapping) and len({*map(id_text, blocks)}) < len(blocks):
            raise ValueError("Two keys name one bag, as names are compared as text: rename one.")
        given: Any = blocks
        items = [*enumerate(given)] if names is None else [(repr(k), b) for k, b in given.items()]
        for position, block in items:
            if isinstance(block, BagConstructors):
                raise TypeError(
                    f"Bag {position} is itself Bags: join containers by Bags.concatenate."
                )
        matrix, offsets, columns = stack_blocks(items)
        return cls(
            matrix,
            offsets,
            bag_graph=bag_graph,
            instance_graph=instance_graph,
            feature_names=columns if feature_names is None else feature_names,
            instance_data=data_of_blocks(instance_data, offsets),
            bag_data=bag_data,
            names=names,
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
        name = getattr(bag_ids, "name", None)
        what = "bag_ids" if name is None else f"bag_ids (column {name!r})"
        given = {"bag_ids": bag_ids, "instance_data": instance_data, "bag_data": bag_data}
        for each, values in given.items():
            check_rows(values, instances, each, "instances")
        names, codes, order, offsets = group_by_id(bag_ids, what)
        check_length("bag_ids", codes, matrix.shape[0], "instance")
        rows: Any = order
        if np.array_equal(order, np.arange(len(order))):
            rows = slice(None)  # nothing is copied
        columns = data_frame(bag_data, len(codes), "bag_data", "instance")
        columns = entries_of_groups(columns, codes, order[offsets[:-1]], names)
        stays_on_disk = rows is order and is_mapped(matrix)
        bags: Any = cls(
            matrix if stays_on_disk else matrix[rows],
            offsets,
            feature_names=feature_names,
            instance_data=taken_rows(data_frame(instance_data, len(codes)), rows),
            bag_data=None if columns is None else columns.set_axis(names),
            names=names,
        )
        if stays_on_disk:
            bags = bags._changed(instances=LazyRows.of_groups(matrix, codes))
        return (bags, names) if return_ids else bags

    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: Any,
        *,
        label: Any = None,
        features: Sequence[Any] | None = None,
        instance_data: Any = None,
        bag_data: Any = None,
        missing: str = "nan",
        classes: Any = None,
        return_ids: bool = False,
    ) -> Any:
        """Bags from a data frame (pandas or polars) with one row per instance.

        Parameters
        ----------
        df : data frame
            Its rows are the instances, in any order. The index of ``instance_data`` is that of
            a frame of pandas, in the order of the instances.
        bag : column name
            The column, or the level of the index, that names the bag of each row.
        label : column name, default=None
            A column that is constant within each bag; if given, the labels are also returned. A bag
            without a label has a missing value in all its rows.
        features : sequence of column names, default=None
            The feature columns, which must contain numbers; by default, all other columns.
        instance_data : list of column names, or mapping of str to column names, default=None
            Columns that become columns of the instances instead of features, such as ``["x",
            "y"]``. A mapping gives them other names; a list in it, as ``{"coords": ["x", "y"]}``,
            gives ``coords_0`` and ``coords_1``.
        bag_data : list of column names, or mapping of str to column name, default=None
            Columns that are constant within each bag and become columns of the bags instead of
            features, such as ``["age", "site"]``.
        missing : {"nan", "error", "drop"}, default="nan"
            Whether bags without a label have a missing label, are an error, or are left out. A
            missing value of a feature is NaN.
        classes : array-like of labels, default=None
            All classes. Another label is an error.
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
        df = df.collect() if hasattr(df, "collect") else df  # a LazyFrame of polars
        if not hasattr(df, "columns"):
            refuse_anndata(df, "The data frame")
            raise TypeError(f"A data frame is needed, not {type(df).__name__}: use Bags.from_ids.")
        columns = bag_columns(bag_data)
        # A level of the index of pandas is named as a column, as in its groupby.
        levels = getattr(getattr(df, "index", None), "names", ())
        if levels := [n for n in (bag, label) if n is not None and n in levels and n not in df]:
            df = df.reset_index(level=levels)
        named = list(df.columns)
        taken = map(to_list, [*bag_columns(instance_data).values(), *columns.values()])
        reserved = [bag, label, *chain.from_iterable(taken)]
        chosen = [n for n in named if n not in reserved] if features is None else [*features]
        if features is None and (found := [n for n in chosen if _numbers_rows(n, df)]):
            warn_user(
                f"Column {', '.join(map(repr, found))} numbers the rows, or is empty and has no "
                "name, as pandas, R and spreadsheets write them: it is left out of the features. "
                "Write tables without it (index=False, row.names=FALSE), or name the columns that "
                "are features.",
                UserWarning,
            )
            chosen = [name for name in chosen if name not in found]
        if isinstance(label, tuple) and label not in named:
            raise ValueError(
                f"label={label!r} is more than one column: make y of columns of bag_data, such as "
                "survival_outcomes(X.bag_data['event'], X.bag_data['time'])."
            )
        check_columns("frame", [bag, *([] if label is None else [label]), *chosen], named)
        for name in (n for n in reserved if features is None and f"{n}.1" in chosen):
            raise ValueError(
                f"The columns {name!r} and '{name}.1' have one name, of which pandas renames the "
                "second: leave one out."
            )
        if not chosen:
            raise ValueError("The frame has no feature columns: bags need at least one.")
        bags, ids = cls.from_ids(
            frame_matrix(df, chosen),
            df[bag],
            return_ids=True,
            feature_names=chosen if all(isinstance(name, str) for name in chosen) else None,
            instance_data=frame_data(df, instance_data, "instance_data") or None,
            bag_data=frame_data(df, columns) or None,
        )
        own: Any = None if levels else getattr(df, "index", None)
        if hasattr(own, "equals"):  # of pandas
            order = group_by_id(df[bag], "The bag")[2]
            rows = kept_index(own, order)
            if rows is not None:
                bags = bags._changed(instance_data=bags.instance_data.set_axis(rows))
        y = None if label is None else label_of_bags(df[label], df[bag], classes)
        return labelled(bags, y, missing, ids if return_ids else None)

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
            The index of a data frame names them if it holds texts.

        Raises
        ------
        ValueError
            For an ``X`` that is not a 2-D matrix of real numbers.
        """
        matrix = canonical_matrix(X)
        return cls(
            matrix,
            np.arange(matrix.shape[0] + 1),
            feature_names=frame_names(X) if feature_names is None else feature_names,
            instance_data=instance_data,
            bag_data=bag_data,
            names=keys_of(X),
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
        if len({part.dtype == object for part in parts}) > 1:
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


def label_of_bags(values: Any, keys: Any, classes: Any = None) -> np.ndarray:
    """The label of each bag in a column with one entry per instance, or an error."""
    names, codes, order, offsets = group_by_id(keys, "The bag")
    found = entry_of_groups(column(values, "label"), codes, order[offsets[:-1]], names, "labels")
    known: Any = None if classes is None else column(classes, "classes").tolist()
    for name, y in () if known is None else zip(names.tolist(), found.tolist(), strict=True):
        if not is_missing(y) and y not in known:
            raise ValueError(
                f"The label of bag {name!r} is {y!r}, which is not one of classes={known}."
            )
    return labels(found, "label", classes)


def labelled(bags: Any, y: Any, missing: str, ids: Any) -> Any:
    """Bags with labels, where ``missing`` says what happens to bags without a label."""
    check_choice("missing", missing, ("nan", "error", "drop"))
    gaps = np.zeros(len(bags), dtype=bool) if y is None else are_missing(y)
    if gaps.any() and missing == "error":
        raise ValueError(
            f"label is missing for {gaps.sum()} bag(s), such as {bag_text(bags, gaps.argmax())}: "
            "fill it in, or pass missing='drop'."
        )
    if gaps.any() and missing == "drop":
        bags, y = bags[~gaps], as_labels(column(y[~gaps], "label"))
        ids = ids if ids is None else ids[~gaps]
    return with_extras(bags, y, ids)


def warn_of_zeros(bags: Any) -> None:
    """Warn if some instances, but not all of their bag, consist of zeros."""
    if bags.is_sparse or bags.dtype == object or bags.shape[1] < 2:
        return
    rows = np.flatnonzero(bags.instances[:, 0] == 0)
    rows = rows[~bags.instances[rows].any(axis=1)]
    among_others = np.bincount(bags.bag_index[rows], minlength=len(bags)) < bags.sizes
    rows = rows[among_others[bags.bag_index[rows]]]
    if len(rows):
        warn_user(
            f"{len(rows)} of {bags.n_instances} instances consist of zeros, the first in "
            f"{bag_text(bags, bags.bag_index[rows[0]])}. If they stand for failures, such as "
            "conformers that were not found, or for padding, leave them out by "
            "X.select_instances(X.instances.any(axis=1)).",
            UserWarning,
        )


def _numbers_rows(name: Any, df: Any) -> bool:
    """Whether a column without a name is empty or counts the rows, or some, or of joined tables."""
    if not isinstance(name, str) or not (name == "X" or _NO_NAME.fullmatch(name)):
        return False
    values = np.asarray(df[name])
    if name != "X" and are_missing(values).all():  # of a spreadsheet
        return True
    if values.dtype.kind not in "biuf":  # the names of rows in R, or texts of numbers
        texts = [*map(str, values.tolist())]
        if not all(text.isdecimal() for text in texts):
            return name != "X" and len({*texts}) == len(texts)
        values = np.array(texts)
    values = values.astype(float)
    if not len(values) or not (values == np.rint(values)).all():
        return False
    steps, first = np.diff(values), values[0]
    if name == "X":  # of R, but also a name for a feature, which may count few rows
        return bool(len(values) > 9 and first in (0, 1) and (steps == 1).all())
    restarts = first in (0, 1) and ((steps == 1) | (values[1:] == first)).all()
    return bool(restarts or (first >= 0 and len(np.unique(values)) == len(values)))
