"""The container of the package: many bags of instances in one flat matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from .._version import refuse_saved, removed
from .annotated import AnnotatedBags
from .annotations import NO_ANNOTATIONS, data_frame, selected
from .blocks import BLOCK_BYTES, ArraySource
from .canonical import (
    bag_positions,
    canonical_graph,
    canonical_matrix,
    canonical_names,
    canonical_offsets,
    check_choice,
    check_length,
    check_positive,
    column_key,
    frame_names,
    is_equal,
    is_full,
    keys_of,
    nbytes,
    read_only,
    row_range,
)
from .constructors import BagConstructors
from .frames import KINDS
from .kinds import column
from .merge import BagMerging
from .names import bag_text, canonical_ids, check_index, check_rows
from .rows_on_disk import LazyRows, is_mapped, note_file, packed, unpacked
from .segments import gather_rows, offsets_of, segment_index

_NO_ARRAY = (
    "Bags cannot be turned into one array: apply a transformer to their instances, as in "
    "milearn.preprocessing.InstanceTransformer(StandardScaler()), take one row per bag by "
    "milearn.preprocessing.BagStatistics(), or use bags.instances, the matrix of all instances."
)


def _kept(name: str, doc: str) -> Any:
    """An attribute that is only read, without a function of Python."""
    return property(attrgetter(name), doc=doc)


class _Names(type):
    if not TYPE_CHECKING:  # otherwise every attribute would be known

        def __getattr__(cls, name: str) -> Any:
            removed("Bags", [name], AttributeError)
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


class Bags(BagConstructors, AnnotatedBags, BagMerging, metaclass=_Names):
    """Bags of instances: one matrix of all instances and the offsets of the bags in it.

    Bag ``i`` is ``instances[offsets[i]:offsets[i + 1]]``. To scikit-learn the container looks
    like a matrix with one row per bag, so that splitters, pipelines and searches can index it
    directly.

    Bags are immutable: every array of a container is read-only, and the result of indexing may
    share memory with its source. The container also shares the memory of the instances and graphs
    passed to the constructor if their type and layout fit. Those arrays of the caller remain
    writable, and if you modify them later, the bags change. Pass copies if you need independent
    bags.

    Read more in the :ref:`User Guide <guide_data>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    instances : array-like, sparse matrix or list of str of shape (n_instances, n_features)
        The instances of all bags, with each bag in consecutive rows. float64 and float32 are kept,
        and float16 for dense input; other numbers become float64; sparse input becomes CSR.
    offsets : array-like of shape (n_bags + 1,)
        First row of each bag, and finally the number of instances. Strictly increasing: a bag
        without an instance is an error.
    bag_graph : sparse matrix or array of shape (n_bags, n_bags), default=None
        Weights of links between bags, sliced on both axes when bags are selected.
    instance_graph : sparse matrix or array of shape (n_instances, n_instances), default=None
        Weights of links between instances, sliced on both axes when bags are selected.
    feature_names : array-like of shape (n_features,), default=None
        Names of the features, kept through selection of columns.
    instance_data : mapping of str to array-like of shape (n_instances, ...), default=None
        Further arrays with one entry per instance, such as its name, coordinates or label. They
        hold numbers or strings, are not features, and stay with the instances when bags are
        selected, joined, transformed or saved.
    bag_data : data frame, or mapping of str to array-like of shape (n_bags, ...), default=None
        Further columns with one entry per bag, such as age, stain or hospital. They hold numbers or
        strings and stay with the bags in the same operations. A missing number is NaN.
    names : array-like of shape (n_bags,), default=the text index of ``bag_data``, or None
        Name or number of each bag, such as the patient, kept in the same operations. Messages and
        plots call bags by their names. If ``y``, ``sample_weight`` or ``groups`` is a pandas Series
        whose index holds names of bags, it must be in the order of ``names``.

    Attributes
    ----------
    instances : ndarray (C-contiguous) or csr_array of shape (n_instances, n_features), read-only
    offsets : ndarray of shape (n_bags + 1,), dtype intp, read-only
    bag_graph, instance_graph : csr_array or None, read-only
    feature_names : ndarray of str of shape (n_features,) or None, read-only
    instance_data : mapping of str to ndarray of shape (n_instances, ...), read-only
    bag_data : mapping of str to ndarray of shape (n_bags, ...), read-only
    names : ndarray of shape (n_bags,) or None, read-only
    shape : (n_bags, n_features)
    sizes : ndarray of shape (n_bags,), instances in each bag
    bag_index : ndarray of shape (n_instances,), bag of each instance

    Raises
    ------
    ValueError
        For an empty bag, offsets that do not fit the instances, a graph or an array of
        ``instance_data`` or ``bag_data`` of the wrong shape, a missing text, or instances that are
        not a 2-D matrix of real numbers.
    TypeError
        For a string as instances, feature names that are not strings, or ``instance_data`` or
        ``bag_data`` that are not dense arrays of numbers or strings.

    See Also
    --------
    milearn.datasets.load_bags : Read bags from a file.
    milearn.datasets.load_bag_folder : Read a folder with one file per bag.

    Notes
    -----
    Instances may be a memory map (:func:`numpy.load` with ``mmap_mode="r"``,
    :func:`milearn.datasets.load_bags` with ``mmap=True``). Selected bags are then read from the
    file when they are used, and a pickle holds the path of the file instead of the instances, so
    that worker processes map it too and do not get a copy.

    float16 is only used for storage. Estimators that read in blocks
    (:class:`~milearn.preprocessing.BagStatistics`,
    :class:`~milearn.preprocessing.InstanceTransformer`, :class:`~milearn.cluster.M3IC`) convert
    block by block. So do linear models by passes, and :class:`~milearn.MIClassifier` and
    :class:`~milearn.MIRegressor` on large data. Other estimators convert all instances: to float32,
    with twice the memory of the float16 instances, or to float64, with four times, if they only
    support float64.

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
        instance_data: Mapping[str, Any] | None = None,
        bag_data: Any = None,
        names: Any = None,
    ) -> None:
        matrix = canonical_matrix(instances)
        n_instances, n_features = matrix.shape
        if feature_names is None and matrix.dtype == object:
            feature_names = ["text"]
        firsts = canonical_offsets(offsets, n_instances)
        n_bags = len(firsts) - 1
        if names is None and hasattr(bag_data, "iloc"):
            names = keys_of(bag_data)
        ids = canonical_ids(names, n_bags)
        self._keep(
            matrix,
            firsts,
            canonical_names(feature_names, n_features),
            names=ids,
            bag_graph=canonical_graph(bag_graph, n_bags, "bag_graph", "bags"),
            instance_graph=canonical_graph(
                instance_graph, n_instances, "instance_graph", "instances"
            ),
            instance_data=data_frame(instance_data, n_instances),
            bag_data=data_frame(bag_data, n_bags, "bag_data", "bag", ids),
        )

    def _keep(
        self,
        instances: Any,
        offsets: np.ndarray,
        feature_names: np.ndarray | None,
        **annotations: Any,
    ) -> None:
        # The rows, in memory, in a file or in other processes, and what was read of them.
        self._rows: Any = instances
        self._instances: Any = None
        if isinstance(instances, np.ndarray) or sparse.issparse(instances):
            self._rows = self._instances = read_only(instances)
        if is_mapped(instances):
            note_file(instances)
            self._rows = LazyRows(self._instances, offsets[:-1], offsets)
        self._offsets = read_only(offsets)
        self._feature_names = read_only(feature_names)
        # Pickles of older versions have no names.
        given = {name: read_only(part) for name, part in annotations.items() if part is not None}
        self._annotations: dict[str, Any] = NO_ANNOTATIONS | given
        self._names: np.ndarray | None = self._annotations["names"]
        self._shape = len(offsets) - 1, int(self._rows.shape[1])
        self._bag_index: np.ndarray | None = None

    def with_instances(self, instances: Any, *, feature_names: Any = None) -> Bags:
        """The same bags, graphs and data over another instance matrix, row for row.

        Parameters
        ----------
        instances : array-like or sparse matrix of shape (n_instances, any number of features)
            The new instances, in the order of the old ones.
        feature_names : array-like of shape (n_features,), default=None
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
        check_length("instances", matrix, self.n_instances, "instance")
        names = canonical_names(feature_names, matrix.shape[1])
        return self._changed(instances=matrix, feature_names=names)

    def with_instance_graph(self, instance_graph: Any) -> Bags:
        """The same bags with another graph of the instances.

        Parameters
        ----------
        instance_graph : sparse matrix or array of shape (n_instances, n_instances), or None
            Weights of links between instances, or None for no graph.

        Returns
        -------
        Bags
            With the instances, the graph of the bags and the instance data of these bags.

        Raises
        ------
        ValueError
            For a graph of another shape.

        See Also
        --------
        milearn.structured.spatial_graph : Graph of near instances by their positions.
        """
        links = canonical_graph(instance_graph, self.n_instances, "instance_graph", "instances")
        return self._changed(instance_graph=links)

    def with_bag_data(self, bag_data: Any) -> Bags:
        """The same bags with other columns.

        Parameters
        ----------
        bag_data : data frame, mapping of str to array-like of shape (n_bags, ...), or None
            The new columns, which replace the old ones; ``bags.bag_data.assign(...)`` adds to
            them.

        Returns
        -------
        Bags
            With the instances, graphs and instance data of these bags.

        Raises
        ------
        ValueError, TypeError
            As for :class:`Bags`.

        See Also
        --------
        milearn.preprocessing.BagData : The columns as rows for estimators.
        """
        frame = data_frame(bag_data, len(self), "bag_data", "bag", self.names)
        return self._changed(bag_data=frame)

    @property
    def _parts(self) -> dict[str, Any]:
        """The arguments of ``_keep``, of which instances in a file are not read."""
        return {
            "instances": self._rows,
            "offsets": self.offsets,
            "feature_names": self.feature_names,
            **self._annotations,
        }

    def _changed(self, **parts: Any) -> Self:
        made = object.__new__(type(self))
        made._keep(**(self._parts | parts))
        if "instances" not in parts:
            made._rows, made._instances = self._rows, self._instances
        return made

    def _mapped(
        self, function: Callable[..., Any], *arguments: Any, gives_rows: bool = False
    ) -> Any:
        """``function(bags, *arguments)``, one result per bag or instance, where instances are.

        With ``gives_rows``, results are rows of instances.
        """
        return function(self, *arguments)

    def _transformed(self, function: Callable[..., Bags], *arguments: Any) -> Bags:
        """The bags ``function(bags, *arguments)`` of the same sizes, made where instances are."""
        return function(self, *arguments)

    # -- content --------------------------------------------------------------------------

    @property
    def instances(self) -> Any:
        """Instances of all bags, ndarray or csr_array of shape (n_instances, n_features)."""
        if self._instances is None:
            self._instances = read_only(self._rows[:])
        return self._instances

    @property
    def instance_rows(self) -> Any:
        """The instances for reading in blocks, by slices and by arrays of rows.

        They are equal to ``instances`` except for memory-mapped bags. Then slices are read from the
        file when they are used, and are copies.
        """
        return self._rows

    @property
    def is_sparse(self) -> bool:
        """Whether the instances are CSR."""
        return sparse.issparse(self._rows)

    def source(
        self, *, block_bytes: int = BLOCK_BYTES, dtype: Any = None, n_jobs: int = 1
    ) -> ArraySource:
        """The instances as blocks of whole bags, for algorithms that pass over them.

        Parameters
        ----------
        block_bytes : int, default=33554432
            Size of a block in float64.
        dtype : dtype, default=None
            Type of the blocks; by default, the type of the instances, float32 for float16.
        n_jobs : int, default=1
            Number of threads; each of them has one block in memory.

        Returns
        -------
        ArraySource
            It reads the instances when a function is mapped over it.
        """
        return ArraySource(self._rows, self._offsets, block_bytes, dtype=dtype, n_jobs=n_jobs)

    offsets: np.ndarray = _kept("_offsets", "First row of each bag, and the number of instances.")

    @property
    def bag_graph(self) -> sparse.csr_array | None:
        """Weights of links between bags, shape (n_bags, n_bags)."""
        return self._annotations["bag_graph"]

    @property
    def instance_graph(self) -> sparse.csr_array | None:
        """Weights of links between instances, shape (n_instances, n_instances)."""
        return self._annotations["instance_graph"]

    feature_names: np.ndarray | None = _kept("_feature_names", "Name of each feature.")

    @property
    def instance_data(self) -> Any:
        """Further columns with one entry per instance, a copy as a data frame of pandas."""
        return self._frame("instance_data", self.n_instances, None)

    @property
    def bag_data(self) -> Any:
        """Further columns with one entry per bag, a copy as a data frame of pandas."""
        return self._frame("bag_data", len(self), self.names)

    def _frame(self, kind: str, n: int, names: Any) -> Any:
        import pandas

        stored = self._annotations[kind]
        if stored is None:
            return pandas.DataFrame(index=range(n) if names is None else names)
        return stored.copy(deep=None)

    names: np.ndarray | None = _kept("_names", "Name of each bag.")

    shape: tuple[int, int] = _kept("_shape", "Number of bags and of features.")

    dtype: np.dtype = _kept("_rows.dtype", "Type of the instance values.")

    @property
    def n_instances(self) -> int:
        """Number of instances in all bags."""
        return int(self.offsets[-1])

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
        """Bytes of the instances, offsets, graphs and data."""
        parts = [self.instance_rows, *self._annotations.values()]
        return self.offsets.nbytes + sum(nbytes(part) for part in parts if part is not None)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Any]:
        return (self._block(position) for position in range(len(self)))

    def __repr__(self) -> str:
        n_bags, n_features = self.shape
        span = f"{self.sizes.min()}..{self.sizes.max()}" if n_bags else "none"
        parts = ["sparse"] if self.is_sparse else []
        for name, part in self._annotations.items():
            if name.endswith("graph") and part is not None:
                parts.append(name)
            if name.endswith("data") and part is not None and len(part.columns):
                parts.append(f"{name}={list(part.columns)}")
        return (
            f"{type(self).__name__}(n_bags={n_bags}, n_instances={self.n_instances}, "
            f"n_features={n_features}, sizes={span}, {', '.join([f'dtype={self.dtype}', *parts])})"
        )

    # -- selection ------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """The instances of a bag for an integer, else bags; ``bags[:, columns]`` slices."""
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
        if getattr(getattr(key, "dtype", None), "kind", "") == "b":
            check_index(key, self.names, "mask")
            check_rows(key, self.bag_data, "mask", "X.bag_data")
        return self._take(bag_positions(key, len(self), self.n_instances))

    def _block(self, position: int) -> Any:
        first, last = self.offsets[position], self.offsets[position + 1]
        if self._instances is None:
            return read_only(self.instance_rows[first:last])
        return row_range(self._instances, first, last)

    def _take_range(self, start: int, stop: int) -> Bags:
        if start == 0 and stop == len(self):
            return self
        first, last = self.offsets[start], self.offsets[stop]
        offsets = self.offsets[start : stop + 1] - first
        bags = slice(start, stop)
        if self._instances is None:
            instances = self.instance_rows.selected(bags, offsets)
        else:
            instances = row_range(self._instances, first, last)
        return self._derived(instances, offsets, bags, slice(first, last))

    def _take(self, positions: np.ndarray) -> Bags:
        if len(positions) and (np.diff(positions) == 1).all():
            return self._take_range(int(positions[0]), int(positions[-1]) + 1)
        in_memory = self._rows is self._instances
        noted = (self._annotations[name] for name in ("instance_data", "instance_graph"))
        if in_memory or any(each is not None for each in noted):
            rows, offsets = gather_rows(self.offsets, positions)
        else:
            rows, offsets = None, offsets_of(self.sizes[positions])
        instances = self._rows[rows] if in_memory else self._rows.selected(positions, offsets)
        return self._derived(instances, offsets, positions, rows)

    def _derived(self, instances: Any, offsets: np.ndarray, bags: Any, rows: Any) -> Bags:
        """The bags at the positions ``bags``, whose instances are at the positions ``rows``."""
        return self._changed(
            instances=canonical_matrix(instances) if sparse.issparse(instances) else instances,
            offsets=offsets,
            **selected(self._annotations, bags, rows),
        )

    def _take_columns(self, columns: Any) -> Bags:
        columns = column_key(columns, self.feature_names)
        names = None if self.feature_names is None else self.feature_names[columns]
        return self.with_instances(self.instances[:, columns], feature_names=names)

    def select_instances(self, mask: Any, *, empty: str = "error") -> Any:
        """The same bags with some of their instances, such as patches that show tissue.

        Parameters
        ----------
        mask : array-like of bool of shape (n_instances,)
            True for the instances that are kept, in the order of ``instances``.
        empty : {"error", "drop"}, default="error"
            Whether a bag without an instance that is kept is an error, which names it, or is left
            out. Labels of the bags that are left are then ``y[np.isin(old.names, new.names)]``.

        Returns
        -------
        Bags
            With the names, the data and the graphs between what is left. If bags are left out and
            have no names, those that are left get their positions as names: ``y[new.names]``.

        Raises
        ------
        ValueError
            For another number of entries than instances, entries that are not Boolean, or bags
            that would be empty.

        See Also
        --------
        sample_instances : Some instances of each bag at random.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_list({"a": [[0.1], [0.9]], "b": [[0.8]]})
        >>> bags.select_instances(bags.instances[:, 0] > 0.5).instances.tolist()
        [[0.9], [0.8]]
        """
        check_choice("empty", empty, ("error", "drop"))
        check_rows(mask, self.instance_data, "mask", "X.instance_data")
        kept = np.asarray(mask)
        if kept.dtype == object and all(isinstance(each, (bool, np.bool_)) for each in kept.flat):
            kept = kept.astype(bool)
        if kept.shape != (self.n_instances,) or kept.dtype != bool:
            raise ValueError(
                f"mask has shape {kept.shape} and type {kept.dtype}: give True or False for each "
                f"of the {self.n_instances} instances; for positions in X.instances pass "
                "np.isin(np.arange(X.n_instances), positions)."
            )
        sizes = np.add.reduceat(kept, self.offsets[:-1], dtype=np.intp) if len(self) else kept
        gone = np.flatnonzero(sizes == 0)
        if len(gone) and (empty == "error" or len(gone) == len(self)):
            shown = ", ".join(bag_text(self, int(bag)) for bag in gone[:3])
            raise ValueError(
                f"No instance is left in {len(gone)} of {len(self)} bags ({shown}"
                f"{', ...' if len(gone) > 3 else ''}): keep one at least, or pass empty='drop'."
            )
        left, rows = np.flatnonzero(sizes), np.flatnonzero(kept)
        offsets, stored = offsets_of(sizes[left]), self.instance_rows
        lazy = hasattr(stored, "of_rows")
        chosen = stored.of_rows(rows, offsets) if lazy else stored[rows]
        found = self._derived(chosen, offsets, left, rows)
        return found._changed(names=left) if len(gone) and found.names is None else found

    def sample_instances(self, n: int, *, random_state: Any = None) -> Any:
        """The same bags with at most ``n`` instances each, drawn without replacement.

        Parameters
        ----------
        n : int
            Maximum size of a bag; smaller bags are kept as they are.
        random_state : int, RandomState instance or None, default=None
            Seed of the draw.

        Returns
        -------
        Bags
            The instances of a bag keep their order.

        Raises
        ------
        TypeError, ValueError
            For an ``n`` that is not a positive integer.

        See Also
        --------
        select_instances : The instances of a mask.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_list([[[1.0], [2.0], [3.0]], [[4.0]]])
        >>> bags.sample_instances(2, random_state=0).sizes
        array([2, 1])
        """
        check_positive(n=n)
        keys = check_random_state(random_state).random_sample(self.n_instances)
        order = np.lexsort((keys, self.bag_index))
        mask = np.zeros(self.n_instances, dtype=bool)
        mask[order[np.arange(self.n_instances) - self.offsets[self.bag_index] < n]] = True
        return self.select_instances(mask)

    def with_instance_data(self, **arrays: Any) -> Any:
        """The same bags with further arrays of the instances, such as scores.

        Parameters
        ----------
        **arrays : array-like of shape (n_instances,) or (n_instances, n_columns)
            Columns by name, in the order of ``instances``. They are added to those of the bags, or
            replace them. An array of two dimensions becomes the columns ``name_0``, ``name_1``, ...

        Returns
        -------
        Bags
            With the instances, graphs, names and bag data of these bags.

        Raises
        ------
        ValueError, TypeError
            As for :class:`Bags`.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_list([[[1.0], [2.0]], [[4.0]]])
        >>> bags.with_instance_data(score=[0.1, 0.7, 0.2]).instance_data["score"].tolist()
        [0.1, 0.7, 0.2]
        """
        data = self.instance_data
        own = None if data.index.dtype.kind in "iuf" else data.index.to_numpy()
        check_rows(arrays, data, "the column", "X.instance_data")
        added = data_frame(arrays, self.n_instances, names=own)
        for name in () if added is None else added.columns:
            data[name] = added[name].array
        return self._changed(instance_data=data if len(data.columns) else None)

    def equals(self, other: Any) -> bool:
        """Whether other bags have the same content, NaN at the same places included.

        Parameters
        ----------
        other : Bags
            Instances, graphs, names and data are compared, with their types.

        Returns
        -------
        bool
            False also for an object that is not :class:`Bags`. ``==`` is True only for the same
            object.

        Examples
        --------
        >>> from copy import deepcopy
        >>> from milearn import Bags
        >>> bags = Bags.from_list([[[0.0], [1.0]], [[2.0]]])
        >>> bags.equals(deepcopy(bags)), bags.equals(bags[:1])
        (True, False)
        """
        if not isinstance(other, Bags):
            return False
        instances = is_equal(self.instances, other.instances)
        return instances and all(
            is_equal(part, other._parts[name])
            for name, part in self._parts.items()
            if name != "instances"
        )

    # -- other containers ------------------------------------------------------------------

    def to_list(self) -> list[Any]:
        """The bags as a list of 2-D blocks, the input of :meth:`from_list`.

        Returns
        -------
        list of n_bags ndarray or csr_array of shape (bag size, n_features)
            Read-only views if the instances are in memory.
        """
        return list(self)

    def to_frame(self, *, bag: str = "bag", ids: Any = None, y: Any = None) -> Any:
        """A long pandas data frame with one row per instance, the input of :meth:`from_frame`.

        Parameters
        ----------
        bag : str, default="bag"
            Name of the first column, which contains the bag of each row.
        ids : array-like of shape (n_bags,), default=None
            Identifiers of the bags; by default, their names, or else 0, 1, ...
        y : array-like of shape (n_bags,), default=None
            Labels of the bags, repeated for their rows in the column ``label``.

        Returns
        -------
        pandas.DataFrame
            Without feature names the features are ``x0, x1, ...``. The columns of
            ``instance_data`` follow, and those of ``bag_data``, repeated for the rows of each bag.
            The index is that of ``instance_data``, such as the names of cells.

        Raises
        ------
        ValueError
            For sparse instances, columns of the same name, data of three dimensions, or ``ids`` or
            ``y`` that are not one per bag.

        Notes
        -----
        Graphs are left out.

        Examples
        --------
        >>> from milearn import Bags
        >>> bags = Bags.from_list([[[1.0], [2.0]], [[3.0]]], instance_data={"at": [[7, 8], [9]]})
        >>> bags.to_frame(ids=["a", "b"], y=[1, 0])
          bag  label   x0  at
        0   a      1  1.0   7
        1   a      1  2.0   8
        2   b      0  3.0   9
        """
        import pandas

        if self.is_sparse:
            raise ValueError("A data frame holds dense instances only: make them dense first.")
        index = self.bag_index
        names: Any = self.feature_names
        if names is None:
            names = [f"x{column}" for column in range(self.shape[1])]
        ids = self.names if ids is None else ids
        for name, values in (("ids", ids), ("y", y)):
            check_index(values, self.names, name)
            if values is not None:
                check_length(name, np.asarray(values), len(self), flat=True)
        keys: Any = np.arange(len(self)) if ids is None else canonical_ids(ids, len(self))
        if len({*keys.tolist()}) < len(keys):
            raise ValueError(
                "Two bags have one name: pass ids= that differ, such as range(len(X))."
            )
        parts = [pandas.DataFrame({bag: keys[index]})]
        if y is not None:
            parts.append(pandas.DataFrame({"label": column(y, "y").array[index]}))
        parts += [pandas.DataFrame(self.instances, columns=list(names)), self.instance_data]
        parts.append(self.bag_data.iloc[index])
        frame = pandas.concat([part.reset_index(drop=True) for part in parts], axis=1)
        for name in frame.columns[frame.columns.duplicated()][:1]:
            raise ValueError(f"Two columns would be named {name!r}: rename one.")
        return frame.set_axis(self.instance_data.index)

    # -- protocols of NumPy, pickle and scikit-learn ----------------------------------------

    if not TYPE_CHECKING:  # otherwise every attribute would be known

        def __getattr__(self, name: str) -> Any:
            removed("Bags", [name], AttributeError)
            problem = f"{type(self).__name__!r} object has no attribute {name!r}"
            if hasattr(np.ndarray, name) and not name.startswith("_"):
                problem += ": X.instances, the matrix of all instances, has it"
            raise AttributeError(problem, name=name, obj=self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(_NO_ARRAY)

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
        raise TypeError(_NO_ARRAY)

    def __getstate__(self) -> dict[str, Any]:
        return {name: packed(part) for name, part in self._parts.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Since 0.5 instance_data and bag_data are data frames, whose columns have kinds.
        if any(isinstance(part, dict) and "data" + KINDS not in part for part in state.values()):
            refuse_saved("Bags", "before 0.5")
        self._keep(**{name: unpacked(part) for name, part in state.items()})

    def __sklearn_clone__(self) -> Bags:
        return self


for _kind in (BagConstructors, AnnotatedBags, BagMerging):
    for _name, _method in vars(_kind).items():
        if hasattr(_method, "__func__") or callable(_method):
            # Python's own messages have this name.
            getattr(_method, "__func__", _method).__qualname__ = f"Bags.{_name}"


def _hstack(parts: list[Any]) -> Bags:
    """Concatenated features of several containers, with the bags and graphs of the first."""
    for part in parts:
        if not isinstance(part, Bags):
            raise TypeError(
                f"Bags cannot be joined with {type(part).__name__}: let every transformer return "
                "Bags, or every one a row per bag (milearn.preprocessing.BagStatistics)."
            )
        if not np.array_equal(part.offsets, parts[0].offsets):
            raise ValueError("Bags of different sizes cannot be joined feature by feature.")
    names = [part.feature_names for part in parts]
    joined = None if any(name is None for name in names) else np.concatenate(names)
    rows = [part.instances for part in parts]
    is_sparse = any(map(sparse.issparse, rows))
    side_by_side = sparse.hstack(rows, format="csr") if is_sparse else np.hstack(rows)
    return parts[0].with_instances(side_by_side, feature_names=joined)
