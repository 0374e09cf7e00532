"""DistributedBags: bags whose instances are in partitions on Dask workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Client, Future, get_client, wait

from .._bags import Bags
from .._bags.blocks import BLOCK_BYTES, PassSource
from .._bags.remote import RemoteBags
from .._bags.segments import bag_ranges, offsets_of
from .._fit.validation import check_bags
from ._tasks import (
    DaskSource,
    Segment,
    apply_to_part,
    bare,
    check_memory,
    current_client,
    described,
    in_files,
    name_of,
    put,
    results,
    selected,
    tasks,
)

# Size of a partition of bags in memory, as stored.
PARTITION_BYTES = 64 * 2**20
# A pass over so much takes less time than the messages to the workers.
LOCAL_BYTES = 16 * 2**20


class Partitions:
    """All bags of files or of a container, before any selection.

    Attributes
    ----------
    client : distributed.Client
    futures : list of Future, the Bags of each partition
    bounds : ndarray of shape (n_partitions + 1,), first bag of each
    local_bytes : int, size up to which selected bags are passed over in this process
    """

    def __init__(
        self,
        client: Client,
        futures: Sequence[Future],
        sizes: list[np.ndarray],
        local_bytes: int = LOCAL_BYTES,
    ) -> None:
        self.client, self.futures, self.local_bytes = client, list(futures), local_bytes
        self.bounds = offsets_of([len(part) for part in sizes])
        self.offsets = offsets_of(np.concatenate(sizes))


class DistributedBags(RemoteBags):
    """Bags whose instances are in partitions on the workers of a Dask cluster.

    The sizes of the bags and the labels are in the memory of this process; the instances are on the
    workers. Estimators that learn by passes over the instances accept distributed bags in place of
    :class:`~milearn.Bags`: :class:`~milearn.MIClassifier`, ``MISVC(kernel="linear")``,
    :class:`~milearn.cluster.M3IC`, :class:`~milearn.preprocessing.InstanceTransformer` with
    transformers that have ``partial_fit``, :class:`~milearn.preprocessing.BagStatistics` and
    others; errors of the other estimators name one that does. Every fitted estimator can predict
    distributed bags, partition by partition. Selections (``bags[train]``) are lazy, so you can use
    splitters, ``cross_val_score`` and ``GridSearchCV``.

    Use :meth:`from_bags`, :func:`scan_bags` or :func:`scan_bag_folder` instead of the constructor.

    Parameters
    ----------
    partitions : Partitions
        Tasks that return the bags of each partition, and the sizes of the bags.
    description : dict
        Common properties of all partitions: number and names of the features, type, format.
    positions : ndarray of shape (n_bags,), default=None
        Positions of the selected bags. By default, all bags are selected.

    Attributes
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        First row of each bag and the number of instances.
    sizes : ndarray of shape (n_bags,)
        Number of instances in each bag.
    shape : tuple of int
        Number of bags and of features.
    n_instances : int
        Number of instances in all bags.
    n_partitions : int
        Number of partitions with selected bags.
    dtype : numpy.dtype
        Type of the instance values.
    is_sparse : bool
        Whether the instances are CSR.
    feature_names : ndarray of str or None
        Names of the features.

    See Also
    --------
    scan_bags : Load files with many bags each.
    scan_bag_folder : Load a folder with one file per bag.

    Notes
    -----
    A partition is the result of a Dask task, which reads files or data stored by the scheduler. If
    a worker dies, its partitions are recomputed on other workers.

    A pickle has the address of the scheduler and the names of the partitions. Another process
    connects to the scheduler when it loads the pickle, while the process that made the bags still
    has them. ``n_jobs=None`` is usually best, because every pass is already distributed over the
    workers.

    Examples
    --------
    >>> from distributed import Client
    >>> from milearn import MISVC
    >>> from milearn.datasets import make_bags
    >>> from milearn.distributed import DistributedBags
    >>> client = Client()  # doctest: +SKIP
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> there = DistributedBags.from_bags(bags)  # doctest: +SKIP
    >>> MISVC(kernel="linear").fit(there, y).score(there, y)  # doctest: +SKIP
    1.0
    """

    def __init__(
        self,
        partitions: Partitions,
        description: dict[str, Any],
        positions: np.ndarray | None = None,
    ) -> None:
        self._partitions, self._description, self._positions = partitions, description, positions
        self.offsets = partitions.offsets
        if positions is not None:
            self.offsets = offsets_of(np.diff(partitions.offsets)[positions])
        self.shape = len(self.offsets) - 1, int(description["n_features"])
        self.dtype, self.is_sparse = description["dtype"], description["is_sparse"]
        self.feature_names = description["feature_names"]

    @classmethod
    def from_bags(
        cls,
        X: Any,
        *,
        partition_bytes: int = PARTITION_BYTES,
        local_bytes: int = LOCAL_BYTES,
        client: Client | None = None,
    ) -> DistributedBags:
        """Send bags in memory to the workers.

        The scheduler keeps a copy, from which partitions can be recomputed; use files for data that
        are too large for this. For bags over a memory map, only references are sent, and the
        workers must be able to read the file at the same path.

        Parameters
        ----------
        X : Bags, 3-D array, sequence of 2-D blocks, or matrix
            The bags. Graphs, instance data and bag data are not sent.
        partition_bytes : int, default=67108864
            Size of a partition. A bag is in one partition.
        local_bytes : int, default=16777216
            Size up to which selected bags are brought to this process for passes over them.
        client : distributed.Client, default=None
            By default, the client of the process.

        Returns
        -------
        DistributedBags
            In the order of ``X``.

        Raises
        ------
        MemoryError
            If a partition takes more than half of the memory of a worker.
        """
        client = current_client(client)
        bags = check_bags(X, dtype=(np.float64, np.float32, np.float16))
        if not len(bags):
            raise ValueError("There are no bags to distribute.")
        bags = bare(bags)
        row_bytes = max(1, bags.nbytes // bags.n_instances)
        ranges = list(bag_ranges(bags.offsets, max(1, partition_bytes // row_bytes)))
        if not in_files(bags):
            rows = max(bags.offsets[last] - bags.offsets[first] for first, last in ranges)
            check_memory(client, int(rows) * row_bytes)
        workers = list(client.ncores())
        futures: list[Future] = []
        sizes = []
        for first, last in ranges:
            # Cyclically, because the scheduler does not know sizes before a task has run.
            place = workers[len(futures) % len(workers) :][:1] if workers else None
            futures.append(put(client, bags[first:last], "bags", workers=place))
            sizes.append(bags.sizes[first:last])
        return cls(Partitions(client, futures, sizes, local_bytes), described(bags))

    @property
    def n_partitions(self) -> int:
        """Number of partitions with selected bags."""
        return len(self._segments)

    def source(
        self, *, block_bytes: int = BLOCK_BYTES, dtype: Any = None, n_jobs: int = 1
    ) -> PassSource:
        """The instances as blocks of whole bags, for algorithms that pass over them.

        Up to ``local_bytes`` of :meth:`from_bags` they are brought to this process once, because
        the messages to the workers would take longer than the passes.

        Parameters
        ----------
        block_bytes : int, default=33554432
            Size of a block in float64.
        dtype : dtype, default=None
            Type of the blocks; by default, the type of the instances, float32 for float16.
        n_jobs : int, default=1
            Not used: the threads of the workers share the partitions.

        Returns
        -------
        PassSource
            It is lazy until a function is mapped over it.
        """
        if self._is_small:
            return self._here.source(block_bytes=block_bytes, dtype=dtype)
        return self._source_there(block_bytes, dtype)

    def local(self) -> Bags | DistributedBags:
        """The bags in memory if they take at most ``local_bytes`` of :meth:`from_bags`.

        Returns
        -------
        Bags or DistributedBags
            These bags if they take more.
        """
        return self._here if self._is_small else self

    def mapped(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Apply a function to blocks of whole bags on the workers.

        Parameters
        ----------
        function : callable
            ``function(block, *arguments)``.
        *arguments : object
            Further arguments; they are pickled.

        Returns
        -------
        list
            The results in the order of the blocks.
        """
        return self._source_there(BLOCK_BYTES, None).map(function, *arguments)

    def _source_there(self, block_bytes: int, dtype: Any) -> DaskSource:
        return DaskSource(
            self._partitions.client,
            self._parts,
            self.offsets,
            n_features=self.shape[1],
            dtype=self.dtype,
            block_bytes=block_bytes,
            block_dtype=dtype,
        )

    def transformed(self, function: Callable[..., Bags], *arguments: Any) -> DistributedBags:
        """Apply a function to the bags of each partition.

        The result is stored on the workers, in addition to these bags.

        Parameters
        ----------
        function : callable
            ``function(bags, *arguments)`` returns :class:`~milearn.Bags` of the same sizes.
        *arguments : object
            Further arguments; they are pickled.

        Returns
        -------
        DistributedBags
            In the order of these bags.
        """
        client = self._partitions.client
        given = [put(client, argument, "argument") for argument in arguments]
        futures = tasks(client, "bags", apply_to_part, self._parts, function, *given)
        head = client.submit(described, futures[0], key=name_of("description"))
        description = results(client, [head])[0]
        positions = [_places(segments) for _, segments in self._segments]
        sizes = [self.sizes[places] for places in positions]
        made = Partitions(client, futures, sizes, self._partitions.local_bytes)
        order = np.concatenate(positions)
        in_order = bool((np.diff(order) > 0).all())
        return DistributedBags(made, description, None if in_order else np.argsort(order))

    def unnamed(self) -> DistributedBags:
        """The same bags without the names of their features.

        Returns
        -------
        DistributedBags
            Over the same partitions.
        """
        description = {**self._description, "feature_names": None}
        return DistributedBags(self._partitions, description, self._positions)

    def compute(self) -> Bags:
        """Load all selected bags into the memory of this process.

        Returns
        -------
        Bags
            The selected bags in their order.
        """
        client = self._partitions.client
        futures = tasks(client, "compute", selected, self._parts)
        whole = Bags.concatenate(results(client, futures))
        order = np.concatenate([_places(segments) for _, segments in self._segments])
        return whole if (np.diff(order) > 0).all() else whole[np.argsort(order)]

    @property
    def _is_small(self) -> bool:
        size = self.n_instances * self.shape[1] * self.dtype.itemsize
        return 0 < size <= self._partitions.local_bytes

    @cached_property
    def _here(self) -> Bags:
        """The selected bags, if they are small."""
        return self.compute()

    def _selected(self, positions: np.ndarray) -> DistributedBags:
        if self._positions is not None:
            positions = self._positions[positions]
        return DistributedBags(self._partitions, self._description, positions)

    @cached_property
    def _segments(self) -> list[tuple[int, list[Segment]]]:
        """Number of each partition that is needed, and which of its bags."""
        bounds = self._partitions.bounds
        positions = np.arange(len(self)) if self._positions is None else self._positions
        owners = np.searchsorted(bounds, positions, side="right") - 1
        found: dict[int, list[Segment]] = {}
        for places in np.split(np.arange(len(self)), np.flatnonzero(np.diff(owners)) + 1):
            first, owner = int(places[0]), int(owners[places[0]])
            segment = Segment(first, int(self.offsets[first]), positions[places] - bounds[owner])
            found.setdefault(owner, []).append(segment)
        return sorted(found.items())

    @cached_property
    def _parts(self) -> list[tuple[Future, Any]]:
        """Tasks for the bags and the segments of each partition."""
        if not len(self):
            raise ValueError("There is no bag among the selected ones.")
        client, futures = self._partitions.client, self._partitions.futures
        return [
            (futures[number], put(client, segments, "selection"))
            for number, segments in self._segments
        ]

    def __sklearn_clone__(self) -> DistributedBags:
        return self

    def __deepcopy__(self, memo: Any) -> DistributedBags:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        scheduler = self._partitions.client.scheduler
        address = None if scheduler is None else scheduler.address
        if address is None or address.startswith("inproc"):
            raise TypeError(
                "Distributed bags of workers in this process cannot be pickled: leave n_jobs=None, "
                "or start worker processes with Client()."
            )
        keys = [future.key for future in self._partitions.futures]
        sizes = np.diff(self._partitions.offsets)
        parts = [sizes[first:last] for first, last in pairwise(self._partitions.bounds)]
        size = self._partitions.local_bytes
        return _connected, (address, keys, parts, size, self._description, self._positions)


def _connected(
    address: str,
    keys: list[str],
    sizes: list[np.ndarray],
    local_bytes: int,
    description: dict[str, Any],
    positions: np.ndarray | None,
) -> DistributedBags:
    """Pickled bags, in a process that connects to the same scheduler."""
    client = get_client(address)
    # Tasks of this client, so that partitions are kept as long as it needs them.
    futures = [
        client.submit(_unchanged, Future(key, client), key=name_of("bags"), pure=False)
        for key in keys
    ]
    try:
        lost = any(future.cancelled() for future in wait(futures).done)
    except CancelledError:
        lost = True
    if lost:
        raise ValueError(
            f"The scheduler at {address} has no longer the partitions of these distributed bags: "
            "keep them in the process that pickled them, or read the files again."
        )
    made = Partitions(client, futures, sizes, local_bytes)
    return DistributedBags(made, description, positions)


def _unchanged(bags: Bags) -> Bags:
    return bags


def _places(segments: list[Segment]) -> np.ndarray:
    """Positions of the bags of segments among the selected bags."""
    return np.concatenate([each.first_bag + np.arange(len(each.positions)) for each in segments])
