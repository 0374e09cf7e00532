"""The container of the package: many bags of instances in one flat matrix."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .coerce import (
    canonical_graph,
    canonical_matrix,
    canonical_names,
    canonical_offsets,
    frame_names,
    id_array,
    nbytes,
    pack,
    read_only,
    row_range,
    unpack,
)
from .index import bag_positions, column_key, is_full
from .segments import gather_rows, segment_index
from .stack import (
    frame_features,
    frame_labels,
    joined_parts,
    rows_by_bag,
    stack_blocks,
    stack_features,
)

__all__ = ["Bags"]

_ADVICE = (
    "Bags cannot be turned into one array because bags differ in size: use bags.instances for "
    "the matrix of all instances, or milearn.preprocessing.BagStatistics() for one row per bag."
)


class Bags:
    """Bags of instances: one matrix of all instances and the offsets of the bags in it.

    Bag ``i`` is ``instances[offsets[i]:offsets[i + 1]]``. To scikit-learn the container looks
    like a matrix with one row per bag, so that splitters, pipelines and searches index it as it
    is.

    Bags are immutable: every array that a container shows is read-only, and what an indexing
    operation returns may share memory with its source. The container also shares the memory of
    the instances and graphs that it is made of, where their type and layout fit. Those arrays of
    the caller stay writable, and what is written into them later changes the bags; pass a copy
    where that matters.

    Parameters
    ----------
    instances : array-like or sparse matrix of shape (n_instances, n_features)
        The instances of all bags, those of one bag in consecutive rows. float64 and float32 are
        kept, other numbers become float64; sparse input becomes CSR.
    offsets : array-like of shape (n_bags + 1,)
        First row of each bag, and at last the number of instances. Strictly increasing: a bag
        without an instance is refused.
    bag_graph : sparse matrix or array of shape (n_bags, n_bags), default=None
        Weights of links between bags, sliced on both axes when bags are selected.
    instance_graph : sparse matrix or array of shape (n_instances, n_instances), default=None
        Weights of links between instances, sliced on both axes when bags are selected.
    feature_names : array-like of shape (n_features,), default=None
        Names of the features, kept through selection of columns.

    Attributes
    ----------
    instances : ndarray (C-contiguous) or csr_array of shape (n_instances, n_features), read-only
    offsets : ndarray of shape (n_bags + 1,), dtype intp, read-only
    bag_graph, instance_graph : csr_array or None, read-only
    feature_names : ndarray of str or None, read-only
    shape : (n_bags, n_features)
    sizes : ndarray of shape (n_bags,), instances in each bag
    bag_index : ndarray of shape (n_instances,), bag of each instance

    Raises
    ------
    ValueError
        For an empty bag, offsets that do not fit the instances, a graph of the wrong shape, or
        instances that are no 2-D matrix of real numbers.
    TypeError
        For a string in place of instances, or feature names that are no strings.

    See Also
    --------
    milearn.datasets.load_bags : Read bags from a file.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> bags = Bags.from_list([[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]])
    >>> bags
    Bags(n_bags=2, n_instances=3, n_features=2, sizes=1..2, dtype=float64)
    >>> bags[0]
    array([[0., 1.],
           [2., 3.]])
    >>> bags[[1, 0]].sizes
    array([1, 2])
    """

    __array_ufunc__ = None
    ndim = 2

    def __init__(
        self,
        instances: Any,
        offsets: Any,
        *,
        bag_graph: Any = None,
        instance_graph: Any = None,
        feature_names: Any = None,
    ) -> None:
        matrix = canonical_matrix(instances)
        n_instances, n_features = matrix.shape
        firsts = canonical_offsets(offsets, n_instances)
        links = canonical_graph(instance_graph, n_instances, "instance_graph", "instances")
        self._keep(
            matrix,
            firsts,
            canonical_graph(bag_graph, len(firsts) - 1, "bag_graph", "bags"),
            links,
            canonical_names(feature_names, n_features),
        )

    def _keep(
        self,
        instances: Any,
        offsets: np.ndarray,
        bag_graph: Any,
        instance_graph: Any,
        feature_names: np.ndarray | None,
    ) -> None:
        self._instances = read_only(instances)
        self._offsets = read_only(offsets)
        self._bag_graph = read_only(bag_graph)
        self._instance_graph = read_only(instance_graph)
        self._feature_names = read_only(feature_names)
        self._bag_index: np.ndarray | None = None

    # -- constructors ---------------------------------------------------------------------

    @classmethod
    def from_list(
        cls,
        blocks: Iterable[Any],
        *,
        bag_graph: Any = None,
        instance_graph: Any = None,
        feature_names: Any = None,
    ) -> Bags:
        """Bags from a sequence of 2-D blocks: arrays, nested lists, CSR matrices or frames.

        Parameters
        ----------
        blocks : iterable of array-like of shape (bag size, n_features)
            One block per bag. Data frames must agree in their columns, which become the
            feature names.
        bag_graph, instance_graph, feature_names : array-like or None
            As for :class:`Bags`.

        Returns
        -------
        Bags

        Raises
        ------
        ValueError
            For an empty block, a block that is not two-dimensional, or blocks that differ in
            their number of features; the message names the bags.
        TypeError
            For a block that is a string or itself :class:`Bags`.
        """
        blocks = list(blocks)
        for position, block in enumerate(blocks):
            if isinstance(block, Bags):
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
        )

    @classmethod
    def from_ids(
        cls,
        instances: Any,
        bag_ids: Iterable[Hashable],
        *,
        return_ids: bool = False,
        feature_names: Any = None,
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
        matrix, offsets, names = rows_by_bag(canonical_matrix(instances), bag_ids)
        bags = cls(matrix, offsets, feature_names=feature_names)
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
        return_ids: bool = False,
    ) -> Any:
        """Bags from a long data frame (pandas or polars), one row per instance.

        Parameters
        ----------
        df : data frame
            Its rows are the instances, in any order.
        bag : column name
            The column that names the bag of each row.
        label : column name, default=None
            A column that is constant over each bag; when given, the labels are returned too. A
            bag without a label has a missing value in all its rows.
        features : sequence of column names, default=None
            The feature columns, which must hold numbers; all other columns when not given.
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
        values, feature_names = frame_features(df, bag, label, features)
        keys = df[bag].to_list()
        bags, ids = cls.from_ids(values, keys, return_ids=True, feature_names=feature_names)
        out = [bags]
        if label is not None:
            out.append(frame_labels(df, label, keys))
        if return_ids:
            out.append(ids)
        return out[0] if len(out) == 1 else tuple(out)

    @classmethod
    def singletons(cls, X: Any, *, feature_names: Any = None) -> Bags:
        """Bags of one instance each, the rows of ``X``.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_bags, n_features)
            The instances.
        feature_names : array-like of shape (n_features,), default=None
            Taken from the columns of a data frame when not given.

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
        return cls(matrix, np.arange(matrix.shape[0] + 1), feature_names=feature_names)

    @classmethod
    def concatenate(cls, parts: Iterable[Bags]) -> Bags:
        """All bags of several containers, in order; graphs become diagonal blocks.

        Parameters
        ----------
        parts : iterable of Bags
            Feature names are kept when every part has the same.

        Returns
        -------
        Bags

        Raises
        ------
        ValueError
            Without a part, or for parts that differ in their number of features.
        TypeError
            For a part that is not :class:`Bags`.
        """
        parts = list(parts)
        if not parts:
            raise ValueError("No bags were given: pass at least one Bags to concatenate.")
        for position, part in enumerate(parts):
            if not isinstance(part, Bags):
                raise TypeError(
                    f"Part {position} is {type(part).__name__}: only Bags can be concatenated."
                )
        return cls(**joined_parts(parts))

    def with_instances(self, instances: Any, *, feature_names: Any = None) -> Bags:
        """The same bags and graphs over another instance matrix, row for row.

        Parameters
        ----------
        instances : array-like or sparse matrix of shape (n_instances, any number of features)
            The new instances, in the order of the old ones.
        feature_names : array-like, default=None
            Names of the new features; the columns of a data frame when not given.

        Returns
        -------
        Bags
            With the offsets and graphs of these bags.

        Raises
        ------
        ValueError
            For another number of rows, or a matrix that is not of real numbers.
        """
        if feature_names is None:
            feature_names = frame_names(instances)
        matrix = canonical_matrix(instances)
        if matrix.shape[0] != self.n_instances:
            raise ValueError(
                f"The new matrix has {matrix.shape[0]} rows for {self.n_instances} instances: "
                "an instance matrix can only be replaced row for row."
            )
        return Bags(
            matrix,
            self.offsets,
            bag_graph=self.bag_graph,
            instance_graph=self.instance_graph,
            feature_names=feature_names,
        )

    # -- what it holds --------------------------------------------------------------------

    @property
    def instances(self) -> Any:
        """Instances of all bags, ndarray or csr_array of shape (n_instances, n_features)."""
        return self._instances

    @property
    def offsets(self) -> np.ndarray:
        """First row of each bag and the number of instances, shape (n_bags + 1,)."""
        return self._offsets

    @property
    def bag_graph(self) -> sparse.csr_array | None:
        """Weights of links between bags, shape (n_bags, n_bags)."""
        return self._bag_graph

    @property
    def instance_graph(self) -> sparse.csr_array | None:
        """Weights of links between instances, shape (n_instances, n_instances)."""
        return self._instance_graph

    @property
    def feature_names(self) -> np.ndarray | None:
        """Names of the features, shape (n_features,)."""
        return self._feature_names

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags and of features."""
        return len(self.offsets) - 1, int(self.instances.shape[1])

    @property
    def dtype(self) -> np.dtype:
        """Type of the instance values."""
        return self.instances.dtype

    @property
    def n_instances(self) -> int:
        """Number of instances in all bags."""
        return int(self.instances.shape[0])

    @property
    def sizes(self) -> np.ndarray:
        """Number of instances in each bag, shape (n_bags,)."""
        return np.diff(self.offsets)

    @property
    def bag_index(self) -> np.ndarray:
        """Number of the bag of each instance, shape (n_instances,)."""
        if self._bag_index is None:
            self._bag_index = read_only(segment_index(self.offsets))
        return self._bag_index

    @property
    def nbytes(self) -> int:
        """Bytes of the instances, offsets and graphs."""
        parts = [self.instances, self.bag_graph, self.instance_graph]
        return self.offsets.nbytes + sum(nbytes(part) for part in parts if part is not None)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Any]:
        return (self._block(position) for position in range(len(self)))

    def __repr__(self) -> str:
        n_bags, n_features = self.shape
        sizes = self.sizes
        span = f"{sizes.min()}..{sizes.max()}" if n_bags else "none"
        graphs = [
            name for name in ("bag_graph", "instance_graph") if getattr(self, name) is not None
        ]
        return (
            f"Bags(n_bags={n_bags}, n_instances={self.n_instances}, n_features={n_features}, "
            f"sizes={span}, dtype={self.dtype}"
            + (", sparse" if sparse.issparse(self.instances) else "")
            + "".join(f", {name}" for name in graphs)
            + ")"
        )

    # -- selection ------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """A block for an integer, else the selected bags; ``bags[:, columns]`` selects features."""
        if isinstance(key, tuple):
            if len(key) != 2:
                raise IndexError("Bags take one index for bags and one for features.")
            rows, columns = key
            picked = self if is_full(rows) else self[rows]
            if is_full(columns):
                return picked
            if not isinstance(picked, Bags):
                return picked[:, columns]
            return picked._take_columns(columns)
        if key is Ellipsis:
            return self
        if isinstance(key, np.ndarray) and key.ndim == 0 and key.dtype.kind in "iu":
            key = int(key)
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            position = int(key)
            if not -len(self) <= position < len(self):
                raise IndexError(f"Bag {position} is out of range for {len(self)} bags.")
            return self._block(position % len(self))
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._take_range(start, max(start, stop))
            key = np.arange(start, stop, step)
        return self._take(bag_positions(key, len(self)))

    def _block(self, position: int) -> Any:
        return row_range(self.instances, self.offsets[position], self.offsets[position + 1])

    def _take_range(self, start: int, stop: int) -> Bags:
        if start == 0 and stop == len(self):
            return self
        first, last = self.offsets[start], self.offsets[stop]
        links = self.instance_graph
        return self._derived(
            row_range(self.instances, first, last),
            self.offsets[start : stop + 1] - first,
            None if self.bag_graph is None else self.bag_graph[start:stop][:, start:stop],
            None if links is None else links[first:last][:, first:last],
        )

    def _take(self, positions: np.ndarray) -> Bags:
        rows, offsets = gather_rows(self.offsets, positions)
        bag_graph, links = self.bag_graph, self.instance_graph
        return self._derived(
            self.instances[rows],
            offsets,
            None if bag_graph is None else bag_graph[positions][:, positions],
            None if links is None else links[rows][:, rows],
        )

    def _derived(self, instances: Any, offsets: Any, bag_graph: Any, instance_graph: Any) -> Bags:
        return Bags(
            instances,
            offsets,
            bag_graph=bag_graph,
            instance_graph=instance_graph,
            feature_names=self.feature_names,
        )

    def _take_columns(self, columns: Any) -> Bags:
        columns = column_key(columns, self.feature_names)
        names = None if self.feature_names is None else self.feature_names[columns]
        return self.with_instances(self.instances[:, columns], feature_names=names)

    # -- protocols of NumPy, pickle and scikit-learn ----------------------------------------

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(_ADVICE)

    def __array_function__(
        self, func: Callable, types: Any, args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        if func in (np.hstack, np.concatenate, np.vstack):
            axis = kwargs.get("axis", args[1] if len(args) > 1 else 0)
            if func is np.hstack or (func is np.concatenate and axis in (1, -1)):
                return _hstack(list(args[0] if args else kwargs["tup"]))
            raise TypeError(
                f"numpy.{func.__name__} does not put bags one after the other: use "
                "Bags.concatenate."
            )
        if func is np.shape:
            return self.shape
        if func is np.ndim:
            return self.ndim
        raise TypeError(f"numpy.{func.__name__} does not take Bags. {_ADVICE}")

    def __getstate__(self) -> dict[str, Any]:
        # CSR as bare arrays: SciPy sets flags lazily on its matrices, and joblib.hash of the
        # same bags would change with them.
        return {
            "instances": pack(self.instances),
            "offsets": self.offsets,
            "bag_graph": pack(self.bag_graph),
            "instance_graph": pack(self.instance_graph),
            "feature_names": self.feature_names,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._keep(
            unpack(state["instances"]),
            np.asarray(state["offsets"]),
            unpack(state["bag_graph"]),
            unpack(state["instance_graph"]),
            state["feature_names"],
        )

    def __sklearn_clone__(self) -> Bags:
        return self


def _hstack(parts: list[Any]) -> Bags:
    """Features of several containers side by side; bags and graphs are those of the first."""
    for part in parts:
        if not isinstance(part, Bags):
            raise TypeError(
                f"Bags cannot stand beside {type(part).__name__}: let every transformer return "
                "Bags, or every one a row per bag (milearn.preprocessing.BagStatistics)."
            )
        if not np.array_equal(part.offsets, parts[0].offsets):
            raise ValueError("Bags of different sizes cannot stand side by side.")
    names = [part.feature_names for part in parts]
    joined = None if any(name is None for name in names) else np.concatenate(names)
    stacked = stack_features([part.instances for part in parts])
    return parts[0].with_instances(stacked, feature_names=joined)
