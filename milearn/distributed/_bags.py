"""Bags in partitions on Dask workers, which are sent or read there, and passes over them.

Tasks are pure functions, so that every task whose result was lost with a worker can be computed
again from the files, or from the data that the scheduler stores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, cycle
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from sklearn.utils import Bunch

from .._bags import Bags
from .._bags.annotations import NO_ANNOTATIONS
from .._bags.blocks import BLOCK_BYTES, Block, PassSource, stacked
from .._bags.canonical import unlike
from .._bags.names import canonical_ids
from .._bags.remote import refusal
from .._bags.rows_on_disk import LazyRows
from .._bags.segments import bag_ranges, offsets_of
from .._fit.validation import check_bags
from ..datasets import load_bags
from ..datasets._errors import BagFileError
from ..datasets._formats.folder import (
    FoundBag,
    fields_of,
    read_found,
    read_headers,
    warn_of_dropped,
)
from ..datasets._formats.npy_folder import is_npy_folder
from ..datasets._formats.record import declared_classes

try:
    import dask
    from dask.sizeof import sizeof
    from distributed import Client, Future, KilledWorker, SchedulerPlugin, get_client, wait
    from distributed.protocol.pickle import dumps, loads
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "milearn.distributed needs Dask: install it with pip install 'milearn[dask]'."
    ) from error

# The bags of each partition, and which of them.
Parts = Sequence[tuple[Future, Any]]

_MORE_MEMORY = "pass a smaller partition_bytes, or start workers with more memory"
# Seconds between looks at workers, and looks after which paused workers are an error.
_BETWEEN_LOOKS, _LOOKS = 2.0, 10


@sizeof.register(Bags)
def _size_of_bags(bags: Bags) -> int:
    """Number of bytes of a result, by which the scheduler places tasks."""
    return bags.offsets.nbytes if in_files(bags) else bags.nbytes


def in_files(bags: Bags) -> bool:
    """Whether the instances lie in a file."""
    return isinstance(bags.instance_rows, LazyRows)


def without_annotations(bags: Bags) -> Bags:
    """Bags without graphs and data."""
    return bags._changed(**NO_ANNOTATIONS)


class _OtherWorkers(SchedulerPlugin):
    """Tasks that may run on other workers than theirs do so when all workers were lost at once.

    Dask itself starts only those that name a new worker, or none, and the others wait forever.
    """

    name, idempotent = "milearn-other-workers", True

    def add_worker(self, scheduler: Any, worker: str) -> None:
        for task in scheduler.unrunnable:
            if task.loose_restrictions:
                task.worker_restrictions = None

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        self.add_worker(scheduler, worker)


def current_client(client: Client | None) -> Client:
    """The given client, or the client of the process."""
    try:
        client = get_client() if client is None else client
    except ValueError as error:
        raise ValueError(
            "There is no Dask client: create one first, client = distributed.Client(address), or "
            "Client() for workers on this computer."
        ) from error
    client.register_plugin(_OtherWorkers())
    return client


def round_robin(client: Client) -> Iterator[dict[str, Any]]:
    """Options of ``submit`` that place tasks on the workers in turn, or others if they are gone.

    The scheduler does not know times and sizes before a task has run.
    """
    workers = list(client.ncores())
    return cycle([{"workers": [one], "allow_other_workers": True} for one in workers] or [{}])


def submit_value(client: Client, value: Any, **place: Any) -> Future:
    """A task that returns the value and can be repeated if its result is lost.

    The value is part of the graph, which the scheduler stores as long as the task is wanted.
    """
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
        return client.submit(loads, dumps(value), pure=False, **place)


def tasks(
    client: Client, function: Callable[..., Any], parts: Parts, *arguments: Any
) -> list[Future]:
    """``function(bags, segments, *arguments)`` for each part, on a worker that has its bags.

    The scheduler by itself also considers workers that have an argument, and copies bags to them.
    """
    every = [bags for bags, _ in parts]
    holders: Mapping[Any, Sequence[str]] = {}
    # What the scheduler has forgotten is reported with the results.
    with suppress(CancelledError):
        finish(client, every)
        holders = client.who_has(every)
    return [
        client.submit(
            function,
            *part,
            *arguments,
            pure=False,
            workers=holders.get(part[0].key),
            allow_other_workers=part[0].key in holders,
        )
        for part in parts
    ]


def finish(client: Client, futures: Sequence[Future]) -> None:
    """Wait for tasks, with an error if the memory of all workers stays full."""
    paused = 0
    while paused < _LOOKS:
        with suppress(TimeoutError):
            wait(futures, timeout=_BETWEEN_LOOKS)
            return
        paused = paused + 1 if states(client) == {"paused"} else 0
    raise RuntimeError(
        "Dask has paused all workers, because their memory is full"
        f"{_limit_of(client)}: {_MORE_MEMORY}."
    )


def states(client: Client) -> set[str]:
    """Whether workers are "running", or "paused" because their memory is full."""
    return {each["status"] for each in _workers(client)}


def results(client: Client, futures: Sequence[Future]) -> list[Any]:
    """The results of tasks, in their order.

    Raises
    ------
    RuntimeError
        If a task was lost with several workers, if all workers stay paused, or if the scheduler
        forgot the tasks.
    """
    try:
        finish(client, futures)
        return list(client.gather(futures))
    except KilledWorker as error:
        raise RuntimeError(
            f"A task was lost with {error.allowed_failures + 1} worker(s) that died, usually "
            f"because their memory was full{_limit_of(client)}: {_MORE_MEMORY}."
        ) from error
    except CancelledError as error:
        raise RuntimeError(
            "The scheduler has forgotten the tasks of these distributed bags, or is gone: start "
            "it again, and read the files again."
        ) from error


def check_memory(client: Client, partition_bytes: int) -> None:
    """Raise a MemoryError if partitions of this size do not fit into the workers."""
    limits = _memory_limits(client)
    # A pass needs room for the partition and for converted blocks.
    if limits and 2 * partition_bytes > min(limits):
        raise MemoryError(
            f"A partition of {partition_bytes / 2**20:.3g} MB needs workers with twice as much "
            f"memory{_limit_of(client)}: {_MORE_MEMORY}."
        )


def _limit_of(client: Client) -> str:
    limits = _memory_limits(client)
    return f" (memory_limit is {min(limits) / 2**20:.3g} MB)" if limits else ""


def _memory_limits(client: Client) -> list[int]:
    """Memory of the workers that have a limit, in bytes."""
    return [each["memory_limit"] for each in _workers(client) if each.get("memory_limit")]


def _workers(client: Client) -> list[dict[str, Any]]:
    """What the scheduler knows of the workers."""
    scheduler: Any = client.scheduler
    return list(client.sync(scheduler.identity)["workers"].values())


# -- parts of bags ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """Bags of one partition that follow each other among the selected ones."""

    # First position among the selected bags and their instances.
    first_bag: int
    first_row: int
    # Positions in the partition.
    positions: np.ndarray


# How a worker cuts its bags into blocks: ``block_bytes`` and ``dtype`` of ``Bags.source``, and
# whether large bags come in parts.
BlockSize = tuple[int, Any, bool]


def map_part(
    bags: Bags,
    segments: Sequence[Segment],
    size: BlockSize,
    function: Callable[..., Any],
    *arguments: Any,
) -> list[tuple[int, Any]]:
    """First bag of each block, and what the function returned for it."""
    return [
        (block.first_bag, function(block, *arguments)) for block in _blocks(bags, segments, size)
    ]


def _blocks(bags: Bags, segments: Sequence[Segment], size: BlockSize) -> Iterator[Block]:
    """Blocks of the segments, with the places that they have among all selected bags."""
    block_bytes, dtype, in_parts = size
    for segment in segments:
        source = bags[segment.positions].source(block_bytes=block_bytes, dtype=dtype)
        for block in source.blocks(in_parts=in_parts):
            yield replace(
                block,
                first_bag=block.first_bag + segment.first_bag,
                first_row=block.first_row + segment.first_row,
            )


def fold_part(
    bags: Bags,
    segments: Sequence[Segment],
    size: BlockSize,
    function: Callable[..., Any],
    state: Any,
    *arguments: Any,
) -> Any:
    """The state after the blocks of a partition, without changes to the previous state."""
    state = deepcopy(state)
    for block in _blocks(bags, segments, size):
        state = function(state, block, *arguments)
    return state


def selected(bags: Bags, segments: Sequence[Segment]) -> Bags:
    """The bags of all segments, one after the other."""
    parts = [bags[segment.positions] for segment in segments]
    return parts[0] if len(parts) == 1 else Bags.concatenate(parts)


def apply_to_part(
    bags: Bags,
    segments: Sequence[Segment],
    function: Callable[..., Bags],
    *arguments: Any,
) -> Bags:
    """The result of a function for the bags of a partition."""
    return function(selected(bags, segments), *arguments)


def no_bags(bags: Bags) -> Bags:
    """None of the bags, of which other processes need the features and their type."""
    return without_annotations(bags)[:0]


# Arguments from this size on are sent once for all tasks of a pass.
_LARGE_BYTES = 2**14


class DaskSource:
    """Blocks of bags that are on workers.

    Parameters
    ----------
    rows : PartitionedRows
    block_bytes, block_dtype
        As of :class:`milearn._bags.blocks.ArraySource`.
    """

    def __init__(
        self, rows: PartitionedRows, block_bytes: int = BLOCK_BYTES, block_dtype: Any = None
    ) -> None:
        self.client, self.parts, self.offsets = rows.partitions.client, rows.parts, rows.offsets
        self.n_bags, self.n_instances = len(rows.offsets) - 1, rows.shape[0]
        self.n_features, self.dtype = rows.shape[1], np.dtype(rows.dtype)
        self.block_bytes, self.block_dtype = block_bytes, block_dtype

    @property
    def sizes(self) -> np.ndarray:
        """Number of instances of each bag."""
        return np.diff(self.offsets)

    def map(
        self, function: Callable[..., Any], *arguments: Any, in_parts: bool = False
    ) -> list[Any]:
        """``function(block, *arguments)`` for every block, in their order.

        Function and arguments are pickled. A partition is one task; where its worker dies, the
        task runs again on another one.
        """
        size = self.block_bytes, self.block_dtype, in_parts
        given = [self._sent(argument) for argument in arguments]
        futures = tasks(self.client, map_part, self.parts, size, function, *given)
        # Keep the order of the parts of a bag.
        found = sorted(chain.from_iterable(results(self.client, futures)), key=itemgetter(0))
        return [result for _, result in found]

    def fold(self, function: Callable[..., Any], state: Any, *arguments: Any) -> Any:
        """The last ``state = function(state, block, *arguments)``; large bags come in parts.

        The state goes from partition to partition, in their order.
        """
        size = self.block_bytes, self.block_dtype, True
        given = [self._sent(argument) for argument in arguments]
        for bags, segments in self.parts:
            state = self.client.submit(
                fold_part, bags, segments, size, function, state, *given, pure=False
            )
        return results(self.client, [state])[0] if self.parts else state

    def gather(self, rows: np.ndarray) -> Any:
        """The given instances, in the type to compute in."""
        order = np.argsort(rows, kind="stable")
        return stacked(self.map(_taken, rows[order], in_parts=True))[np.argsort(order)]

    def _sent(self, argument: Any) -> Any:
        """The argument, or a task for it: a large argument is sent once and not with each task."""
        small = len(dumps(argument)) < _LARGE_BYTES
        return argument if small else submit_value(self.client, argument)


def _taken(block: Block, rows: np.ndarray) -> Any:
    """The sorted rows that are in the block."""
    low, high = np.searchsorted(rows, [block.rows.start, block.rows.stop])
    return block.take(rows[low:high] - block.first_row, block.dtype)


# Size of a partition of bags in memory, as stored.
PARTITION_BYTES = 64 * 2**20
# A pass over so much takes less time than the messages to the workers.
LOCAL_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Partitions:
    """All bags of files or of a container, before any selection."""

    client: Client
    # The Bags of each partition, and its first bag, of shape (n_partitions + 1,).
    futures: Sequence[Future]
    bounds: np.ndarray
    # First row of each bag, of shape (n_bags + 1,).
    offsets: np.ndarray
    # Size up to which selected bags are passed over in this process.
    local_bytes: int


class PartitionedRows:
    """The rows of selected bags of partitions.

    Parameters
    ----------
    partitions : Partitions
    description : dict
        Common properties of all partitions: number of features, type, format.
    positions : ndarray of shape (n_bags,), default=None
        Positions of the selected bags. By default, all bags are selected.
    """

    ndim = 2
    nbytes = 0  # in this process

    def __init__(
        self,
        partitions: Partitions,
        head: Bags,
        positions: np.ndarray | None = None,
    ) -> None:
        self.partitions, self.head, self.positions = partitions, head, positions
        self.offsets = partitions.offsets
        if positions is not None:
            self.offsets = offsets_of(np.diff(partitions.offsets)[positions])
        self.shape = int(self.offsets[-1]), head.shape[1]
        self.dtype, self.is_sparse = head.dtype, head.is_sparse

    def selected(self, positions: Any, offsets: np.ndarray) -> PartitionedRows:
        """The rows of some of the bags."""
        known = np.arange(len(self.offsets) - 1) if self.positions is None else self.positions
        return PartitionedRows(self.partitions, self.head, known[positions])

    def merged(self, order: np.ndarray, groups: np.ndarray) -> NoReturn:
        """Not supported, because the instances are not in this process."""
        raise TypeError(refusal("merge"))

    def of_rows(self, rows: np.ndarray, offsets: np.ndarray) -> NoReturn:
        """Not supported, because the instances are not in this process."""
        raise TypeError(refusal("A choice of instances"))

    def __getitem__(self, key: Any) -> NoReturn:
        raise TypeError(refusal("This"))

    @property
    def is_small(self) -> bool:
        """Whether passes over these rows are made in this process."""
        size = self.shape[0] * self.shape[1] * self.dtype.itemsize
        return 0 < size <= self.partitions.local_bytes

    def compute(self) -> Bags:
        """The bags in the memory of this process."""
        client = self.partitions.client
        whole = Bags.concatenate(results(client, tasks(client, selected, self.parts)))
        order = np.concatenate([_places(segments) for _, segments in self.segments])
        return whole if (np.diff(order) > 0).all() else whole[np.argsort(order)]

    @cached_property
    def here(self) -> Bags:
        """The bags in this process for several passes."""
        return self.compute()

    @cached_property
    def segments(self) -> list[tuple[int, list[Segment]]]:
        """Number of each partition that is needed, and which of its bags."""
        bounds, n_bags = self.partitions.bounds, len(self.offsets) - 1
        positions = np.arange(n_bags) if self.positions is None else self.positions
        owners = np.searchsorted(bounds, positions, side="right") - 1
        found: dict[int, list[Segment]] = {}
        for places in np.split(np.arange(n_bags), np.flatnonzero(np.diff(owners)) + 1):
            first, owner = int(places[0]), int(owners[places[0]])
            segment = Segment(first, int(self.offsets[first]), positions[places] - bounds[owner])
            found.setdefault(owner, []).append(segment)
        return sorted(found.items())

    @cached_property
    def parts(self) -> list[tuple[Future, Any]]:
        """Tasks for the bags and the segments of each partition."""
        if not self.shape[0]:
            raise ValueError("There is no bag among the selected ones.")
        client, futures = self.partitions.client, self.partitions.futures
        return [
            (futures[number], submit_value(client, segments)) for number, segments in self.segments
        ]

    def __deepcopy__(self, memo: Any) -> PartitionedRows:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        scheduler = self.partitions.client.scheduler
        address = None if scheduler is None else scheduler.address
        if address is None or address.startswith("inproc"):
            raise TypeError(
                "Distributed bags of workers in this process cannot be pickled: leave n_jobs=None, "
                "or start worker processes with Client()."
            )
        keys = [future.key for future in self.partitions.futures]
        places = self.partitions.bounds, self.partitions.offsets, self.partitions.local_bytes
        return _connected, (address, keys, places, self.head, self.positions)


class DistributedBags(Bags):
    """Bags whose instances are in partitions on the workers of a Dask cluster.

    The sizes of the bags and the labels are in the memory of this process; the instances are on the
    workers. Estimators that learn by passes over the instances accept distributed bags in place of
    :class:`~milearn.Bags`: :class:`~milearn.MIClassifier`, ``MISVC(kernel="linear")``,
    :class:`~milearn.cluster.M3IC`, :class:`~milearn.preprocessing.InstanceTransformer` with
    transformers that have ``partial_fit``, :class:`~milearn.preprocessing.BagStatistics` and
    others; errors of the other estimators name one that does. Every fitted estimator can predict
    distributed bags, partition by partition. Selections (``bags[train]``) are lazy, so you can use
    splitters, :func:`~sklearn.model_selection.cross_val_score` and
    :class:`~sklearn.model_selection.GridSearchCV`.

    Use :meth:`from_bags`, :func:`scan_bags` or :func:`scan_bag_folder` instead of the constructor.

    Read more in the :ref:`User Guide <guide_distributed>`.

    .. versionadded:: 0.1.0

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

    Raises
    ------
    ValueError
        For passes over an empty selection of bags.
    TypeError
        For a pickle of bags whose workers are threads of this process, and for what needs the
        instances in this process, such as a selection of features.
    IndexError
        For a bag that does not exist.

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

    is_remote = True

    def __init__(self) -> None:
        raise TypeError("Distributed bags are made by from_bags, scan_bags or scan_bag_folder.")

    @classmethod
    def _of(cls, partitions: Partitions, head: Bags, names: Any = None, **data: Any) -> Self:
        rows, made = PartitionedRows(partitions, head), object.__new__(cls)
        ids = canonical_ids(names, len(rows.offsets) - 1)
        made._keep(rows, rows.offsets, head.feature_names, names=ids, **data)
        return made

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
            The bags. Graphs and instance data are left out.
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
        kept = {"names": bags.names, "bag_data": dict(bags.bag_data)}
        bags = without_annotations(bags)
        row_bytes = max(1, bags.nbytes // bags.n_instances)
        ranges = list(bag_ranges(bags.offsets, max(1, partition_bytes // row_bytes)))
        if not in_files(bags):
            rows = max(bags.offsets[last] - bags.offsets[first] for first, last in ranges)
            check_memory(client, int(rows) * row_bytes)
        place = round_robin(client)
        futures = [submit_value(client, bags[slice(*each)], **next(place)) for each in ranges]
        made = Partitions(client, futures, _bounds(ranges), bags.offsets, local_bytes)
        return cls._of(made, no_bags(bags), **kept)

    @property
    def n_partitions(self) -> int:
        """Number of partitions with selected bags."""
        return len(self._rows.segments)

    @property
    def is_sparse(self) -> bool:
        """Whether the instances are CSR."""
        return self._rows.is_sparse

    def source(  # type: ignore[override]
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
        if self._rows.is_small:
            return self._rows.here.source(block_bytes=block_bytes, dtype=dtype)
        return DaskSource(self._rows, block_bytes, dtype)

    def local(self) -> Bags | DistributedBags:
        """The bags in memory if they take at most ``local_bytes`` of :meth:`from_bags`.

        Returns
        -------
        Bags or DistributedBags
            These bags if they take more.
        """
        return self.compute() if self._rows.is_small else self

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
        return DaskSource(self._rows).map(function, *arguments)

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
        rows = self._rows
        client = rows.partitions.client
        given = [submit_value(client, argument) for argument in arguments]
        futures = tasks(client, apply_to_part, rows.parts, function, *given)
        [head] = results(client, [client.submit(no_bags, futures[0], pure=False)])
        positions = [_places(segments) for _, segments in rows.segments]
        order, bounds = np.concatenate(positions), offsets_of([*map(len, positions)])
        offsets = offsets_of(self.sizes[order])
        made = Partitions(client, futures, bounds, offsets, rows.partitions.local_bytes)
        places = None if (np.diff(order) > 0).all() else np.argsort(order)
        return self._changed(
            instances=PartitionedRows(made, head, places), feature_names=head.feature_names
        )

    def compute(self) -> Bags:
        """Load all selected bags into the memory of this process.

        Returns
        -------
        Bags
            The selected bags in their order.
        """
        found = self._rows.here if self._rows.is_small else self._rows.compute()
        kept = {"names": self.names, "bag_data": dict(self.bag_data)}
        return found._changed(feature_names=self._feature_names, **kept)

    def _block(self, position: int) -> Any:
        picked: Any = self._take_range(position, position + 1)
        return picked.compute().instances

    def with_instance_data(self, **arrays: Any) -> NoReturn:
        """Not supported, because the instances are not in this process.

        Parameters
        ----------
        **arrays : array-like
            Not used.
        """
        raise TypeError(refusal("with_instance_data"))

    def __iter__(self) -> NoReturn:
        raise TypeError(refusal("A loop over bags"))

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError(refusal("NumPy"))


def _connected(
    address: str,
    keys: list[str],
    places: tuple[np.ndarray, np.ndarray, int],
    head: Bags,
    positions: np.ndarray | None,
) -> PartitionedRows:
    """Pickled rows, in a process that connects to the same scheduler."""
    client = get_client(address)
    # Tasks of this client, so that partitions are kept as long as it needs them.
    futures = [client.submit(_unchanged, Future(key, client), pure=False) for key in keys]
    try:
        lost = any(future.cancelled() for future in wait(futures).done)
    except CancelledError:
        lost = True
    if lost:
        raise ValueError(
            f"The scheduler at {address} has no longer the partitions of these distributed bags: "
            "keep them in the process that pickled them, or read the files again."
        )
    return PartitionedRows(Partitions(client, futures, *places), head, positions)


def _unchanged(bags: Bags) -> Bags:
    return bags


def _bounds(ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    return np.array([0, *(last for _, last in ranges)])


def _places(segments: list[Segment]) -> np.ndarray:
    """Positions of the bags of segments among the selected bags."""
    return np.concatenate([each.first_bag + np.arange(len(each.positions)) for each in segments])


# Fields with one entry per bag that are concatenated over files.
_PER_BAG = ("bag_names", "sample_weight", "split")


def scan_bags(
    paths: Any,
    *,
    dtype: Any = None,
    partition_bytes: int = PARTITION_BYTES,
    local_bytes: int = LOCAL_BYTES,
    client: Client | None = None,
    **options: Any,
) -> Bunch:
    """Scan files with many bags each as distributed bags, in any format of ``load_bags``.

    Every worker must be able to read the files at the same path. Folders of .npy files are memory
    mapped: their partitions do not need memory, and are read in blocks in every pass. Other files
    are loaded completely and kept by the workers, with one partition per file.

    Read more in the :ref:`User Guide <guide_distributed>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    paths : path-like or sequence of path-like
        The files, in the order of the bags.
    dtype : {float64, float32, float16}, default=None
        Type of the instances of files that are not mapped. By default, the type in the files.
    partition_bytes : int, default=67108864
        Size of a partition of a folder of .npy files, as stored.
    local_bytes : int, default=16777216
        Size up to which selected bags are brought to this process for passes over them.
    client : distributed.Client, default=None
        By default, the client of the process.
    **options : dict
        Further arguments of :func:`milearn.datasets.load_bags`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        ``data`` : :class:`DistributedBags`; ``target`` : ndarray of shape (n_bags,), or None if
        a file has no labels; ``classes`` of text labels; and ``bag_names``, ``sample_weight`` and
        ``split`` if all files contain them.

    Raises
    ------
    FileNotFoundError
        If a worker does not find a file.
    BagFileError
        If a file cannot be read, or the files are not compatible. This is a ValueError.

    See Also
    --------
    scan_bag_folder : One file per bag.
    milearn.datasets.save_bags : Writes such files.

    Examples
    --------
    >>> from milearn.distributed import scan_bags
    >>> parts = ["part-0", "part-1"]  # folders that save_bags(format="npy-folder") has written
    >>> shards = scan_bags(parts)  # doctest: +SKIP
    >>> shards.data, shards.target  # doctest: +SKIP
    """
    client = current_client(client)
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = [str(Path(path).absolute()) for path in given]
    if not files:
        raise ValueError("paths is empty: name at least one file.")
    options = {"dtype": dtype, **options}
    place = round_robin(client)
    shards = [client.submit(_shard, file, options, pure=False, **next(place)) for file in files]
    heads = results(client, [client.submit(_head, shard, pure=False) for shard in shards])
    _check_alike(files, heads)
    futures, n_bags = [], []
    for shard, head in zip(shards, heads, strict=True):
        ranges: Iterable[tuple[int, int]] = [(0, len(head["sizes"]))]
        if head["mapped"]:
            row_bytes = head["bags"].dtype.itemsize * head["bags"].shape[1]
            ranges = bag_ranges(offsets_of(head["sizes"]), max(1, partition_bytes // row_bytes))
        for first, last in ranges:
            # Bags in memory stay on the worker that has read them.
            where = next(place) if head["mapped"] else {}
            part = client.submit(_bags_of, shard, first, last, pure=False, **where)
            futures.append(part)
            n_bags.append(last - first)
    targets, listed = _labels_alike(files, heads)
    offsets = offsets_of(np.concatenate([head["sizes"] for head in heads]))
    made = Partitions(client, futures, offsets_of(n_bags), offsets, local_bytes)
    bunch = Bunch(target=None if any(part is None for part in targets) else np.concatenate(targets))
    if listed and bunch["target"] is not None:
        alike = all(np.array_equal(listed[0], classes) for classes in listed)
        bunch["classes"] = listed[0] if alike else np.unique(np.concatenate(listed))
    for name in _PER_BAG:
        if all(name in head["fields"] for head in heads):
            bunch[name] = np.concatenate([head["fields"][name] for head in heads])
    bunch["data"] = DistributedBags._of(made, heads[0]["bags"], bunch.get("bag_names"))
    return bunch


def _shard(path: str, options: dict[str, Any]) -> Bunch:
    if is_npy_folder(Path(path)):
        options = {**options, "mmap": True, "dtype": None}
    return load_bags(path, **options)


def _head(shard: Bunch) -> dict[str, Any]:
    bags = shard["data"]
    return {
        "bags": no_bags(bags),
        "sizes": bags.sizes,
        "form": {"n_features": bags.shape[1], "dtype": bags.dtype, "is_sparse": bags.is_sparse},
        "mapped": in_files(bags),
        "target": shard["target"],
        "classes": shard.get("classes"),
        "fields": {name: shard[name] for name in _PER_BAG if name in shard},
    }


def _bags_of(shard: Bunch, first: int, last: int) -> Bags:
    bags = without_annotations(shard["data"])
    return bags if (first, last) == (0, len(bags)) else bags[first:last]


def _check_alike(files: Sequence[str], heads: Sequence[dict[str, Any]]) -> None:
    for file, head in zip(files, heads, strict=True):
        for name, found in head["form"].items():
            if found != heads[0]["form"][name]:
                raise BagFileError(
                    f"{file}: {name} is {found} but {heads[0]['form'][name]} in {files[0]}; save "
                    "the files in one form, or pass dtype= and as_sparse=."
                )
        one, other = (each["bags"].feature_names for each in (head, heads[0]))
        if one is not None and other is not None and list(one) != list(other):
            raise BagFileError(
                f"{file} has {unlike(list(one), list(other))} {files[0]}: save the files with the "
                "same features."
            )


def _labels_alike(
    files: Sequence[str], heads: Sequence[dict[str, Any]]
) -> tuple[list[Any], list[np.ndarray]]:
    """The labels of all files, and the classes of those that have them, or an error."""
    targets = [head["target"] for head in heads]
    of_text: dict[bool, str] = {}
    for file, target in zip(files, targets, strict=True):
        if target is not None and not (target.dtype.kind == "f" and np.isnan(target).all()):
            of_text.setdefault(target.dtype.kind in "OU", file)
    if len(of_text) > 1:
        raise BagFileError(
            f"{of_text[True]}: labels are texts but numbers in {of_text[False]}; save the files in "
            "one form, or pass classes= with texts."
        )
    if True in of_text:
        # Missing labels alone are numbers, of which NumPy would make texts.
        targets = [y if y is None or y.dtype.kind != "f" else y.astype(object) for y in targets]
    return targets, [head["classes"] for head in heads if head["classes"] is not None]


def scan_bag_folder(
    path: str | os.PathLike[str],
    table: Any = None,
    *,
    bag: str | None = None,
    label: str | tuple[str, str] | None = None,
    group: str | None = None,
    split: str | None = None,
    classes: Any = None,
    key: str = "features",
    dtype: Any = None,
    empty: str = "raise",
    missing: str = "error",
    partition_bytes: int = PARTITION_BYTES,
    local_bytes: int = LOCAL_BYTES,
    client: Client | None = None,
) -> Bunch:
    """Scan a folder with one file per bag as distributed bags.

    This process reads the headers of the files. The workers read the instances of the bags of a
    partition and keep them in memory. Every worker must be able to read the files at the same path.

    Read more in the :ref:`User Guide <guide_distributed>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    path : path-like
        The folder, in any layout supported by :func:`milearn.datasets.load_bag_folder`.
    table : path-like or data frame, default=None
        One row per bag with its label, see :func:`~milearn.datasets.load_bag_folder`.
    bag, label, group, split : str, default=None
        Columns of the table; for ``label`` also a tuple of two, the event and the time.
    classes : array-like of str or of numbers, default=None
        All classes in their order, see :func:`~milearn.datasets.load_bag_folder`.
    key : str, default="features"
        Name of the array of the instances in files with named arrays.
    dtype : {float16, float32, float64}, default=None
        Type of the instances. By default, the widest type of the files.
    empty : {"raise", "drop"}, default="raise"
        Whether files without instances raise an error or are skipped.
    missing : {"error", "drop"}, default="error"
        Whether to leave out rows without a file, files without a row, and rows without an entry,
        see :func:`~milearn.datasets.load_bag_folder`.
    partition_bytes : int, default=67108864
        Size of a partition as stored. A bag is in one partition.
    local_bytes : int, default=16777216
        Size up to which selected bags are brought to this process for passes over them.
    client : distributed.Client, default=None
        By default, the client of the process.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        ``data`` : :class:`DistributedBags`; ``target``, ``bag_names``, ``classes``, ``groups``,
        ``split`` and ``dropped`` as :func:`~milearn.datasets.load_bag_folder` returns them.
        Positions and labels of instances are not read.

    Raises
    ------
    FileNotFoundError
        If the folder or the table does not exist.
    BagFileError
        If files are missing, unreadable or have the wrong shape; the message lists all of them.
        This is a ValueError.
    MemoryError
        If a partition takes more than half of the memory of a worker.

    See Also
    --------
    scan_bags : Files with many bags.

    Examples
    --------
    >>> from milearn.distributed import scan_bag_folder
    >>> slides = scan_bag_folder("slides", "labels.csv")  # doctest: +SKIP
    >>> slides.data, slides.target  # doctest: +SKIP
    """
    client = current_client(client)
    columns = {"bag": bag, "label": label, "group": group, "split": split}
    folder, declared = Path(path).absolute(), declared_classes(classes)
    bags, kept_dtype, dropped = read_headers(
        folder,
        table,
        columns,
        arrays=(key, None),
        dtype=dtype,
        empty=empty,
        missing=missing,
        classes=declared,
        progress=(None, False),
    )
    row_bytes = max(1, kept_dtype.itemsize * bags[0].width)
    offsets = offsets_of([one.size for one in bags])
    ranges = list(bag_ranges(offsets, max(1, partition_bytes // row_bytes)))
    rows = max(offsets[last] - offsets[first] for first, last in ranges)
    check_memory(client, int(rows) * row_bytes)
    futures, place = [], round_robin(client)
    for first, last in ranges:
        given = str(folder), submit_value(client, bags[first:last]), kept_dtype
        futures.append(client.submit(_read, *given, pure=False, **next(place)))
    head = Bags(np.empty((0, bags[0].width), kept_dtype), [0])
    made = Partitions(client, futures, _bounds(ranges), offsets, local_bytes)
    bunch = Bunch(**fields_of(bags, declared))
    bunch["data"] = DistributedBags._of(made, head, bunch["bag_names"])
    bunch["dropped"] = dropped
    warn_of_dropped(dropped, len(bags))
    return bunch


def _read(path: str, bags: Sequence[FoundBag], dtype: np.dtype) -> Bags:
    return without_annotations(read_found(Path(path), bags, dtype))
