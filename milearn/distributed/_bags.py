"""Bags in partitions on Dask workers, which are sent or read there, and passes over them.

Tasks are pure functions, so that every task whose result was lost with a worker can be computed
again from the files, or from the data that the scheduler stores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, cycle
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from sklearn.utils import Bunch

from .._bags import Bags
from .._bags.annotations import NO_ANNOTATIONS
from .._bags.blocks import BLOCK_BYTES, Block, PassSource, stacked
from .._bags.names import canonical_ids
from .._bags.rows_on_disk import LazyRows
from .._bags.segments import bag_ranges, offsets_of
from .._fit.validation import check_bags
from ..datasets import load_bags
from ..datasets._errors import BagFileError
from ..datasets._formats import folder as files
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

Function = Callable[..., Any]
# The bags of each partition, and which of them.
Parts = Sequence[tuple[Future, Any]]

_MORE_MEMORY = "pass a smaller partition_bytes, or start workers with more memory"
_ELSEWHERE = (
    "These bags lie on the workers of a cluster, and this needs all instances in one process: "
    "bring them here with bags.compute(), or take what passes over them, such as "
    "MISVC(kernel='linear'), MIClassifier, MIRegressor, M3IC or BagStatistics."
)
# Seconds between looks at workers, and looks after which paused workers are an error.
_BETWEEN_LOOKS, _LOOKS = 2.0, 10


def refuse(*_: Any, **__: Any) -> NoReturn:
    """Raise the error for what needs all instances in this process."""
    raise TypeError(_ELSEWHERE)


@sizeof.register(Bags)
def _size_of_bags(bags: Bags) -> int:
    """Number of bytes of a result, by which the scheduler places tasks."""
    return bags.offsets.nbytes if isinstance(bags.instance_rows, LazyRows) else bags.nbytes


def without_annotations(bags: Bags) -> Bags:
    """Bags without graphs, names and data."""
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
    """The given client, or the client of the process; without one, Dask raises a ValueError."""
    client = get_client() if client is None else client
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


def tasks(client: Client, function: Function, parts: Parts, *arguments: Any) -> list[Future]:
    """``function(bags, segments, *arguments)`` for each part, on a worker that has its bags.

    The scheduler by itself also considers workers that have an argument, and copies bags to them.
    """
    every = [bags for bags, _ in parts]
    finish(client, every)
    holders = client.who_has(every)
    submit = partial(client.submit, function, pure=False)
    near = [holders.get(bags.key) for bags in every]
    return [
        submit(*part, *arguments, workers=where, allow_other_workers=where is not None)
        for part, where in zip(parts, near, strict=True)
    ]


def finish(client: Client, futures: Sequence[Future]) -> None:
    """Wait for tasks, with an error if the memory of all workers stays full."""
    paused, scheduler = 0, cast("Any", client.scheduler)
    while paused < _LOOKS:
        try:
            wait(futures, timeout=_BETWEEN_LOOKS)
            return
        except TimeoutError:
            workers = client.sync(scheduler.identity)["workers"].values()
            paused = paused + 1 if {each["status"] for each in workers} == {"paused"} else 0
        except CancelledError as error:
            raise RuntimeError(
                "The scheduler has forgotten the tasks of these distributed bags, or is gone: "
                "start it again, and read the files again."
            ) from error
    raise RuntimeError(
        f"Dask has paused all workers, because their memory is full: {_MORE_MEMORY}."
    )


def results(client: Client, futures: Sequence[Future]) -> list[Any]:
    """The results of tasks, in their order.

    Raises
    ------
    RuntimeError
        If a task was lost with several workers, if all workers stay paused, or if the scheduler
        forgot the tasks.
    """
    finish(client, futures)
    try:
        return list(client.gather(futures))
    except KilledWorker as error:
        raise RuntimeError(
            f"A task was lost with {error.allowed_failures + 1} worker(s) that died, usually "
            f"because their memory was full: {_MORE_MEMORY}."
        ) from error


# -- parts of bags ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """Bags of one partition that follow each other among the selected ones."""

    # First position among the selected bags and their instances.
    first_bag: int
    first_row: int
    # Positions in the partition.
    positions: np.ndarray


Segments = Sequence[Segment]


def blocks_of(bags: Bags, segments: Segments, size: Any) -> Iterator[Block]:
    """Blocks of the segments, with the places that they have among all selected bags.

    ``size`` are ``block_bytes`` and ``dtype`` of ``Bags.source``, and whether large bags come in
    parts.
    """
    block_bytes, dtype, in_parts = size
    for segment in segments:
        source = bags[segment.positions].source(block_bytes=block_bytes, dtype=dtype)
        for block in source.blocks(in_parts=in_parts):
            first_bag, first_row = block.first_bag + segment.first_bag, segment.first_row
            yield replace(block, first_bag=first_bag, first_row=block.first_row + first_row)


def map_part(
    bags: Bags, segments: Segments, size: Any, function: Function, *arguments: Any
) -> list[tuple[int, Any]]:
    """First bag of each block, and what the function returned for it."""
    blocks = blocks_of(bags, segments, size)
    return [(block.first_bag, function(block, *arguments)) for block in blocks]


def fold_part(
    bags: Bags, segments: Segments, size: Any, function: Function, state: Any, *arguments: Any
) -> Any:
    """The state after the blocks of a partition, without changes to the previous state."""
    state = deepcopy(state)
    for block in blocks_of(bags, segments, size):
        state = function(state, block, *arguments)
    return state


def apply_to_part(bags: Bags, segments: Segments, function: Function, *arguments: Any) -> Bags:
    """The result of a function for the bags of all segments, one after the other."""
    parts = [bags[segment.positions] for segment in segments]
    made: Bags = function(parts[0] if len(parts) == 1 else Bags.concatenate(parts), *arguments)
    return made


def no_bags(bags: Bags) -> Bags:
    """None of the bags, of which other processes need the features and their type."""
    return without_annotations(bags)[:0]


def of_block(
    block: Block, function: Function, names: Any, gives_rows: bool, *arguments: Any
) -> Any:
    """The result of a function for the bags of a block; rows are those of all instances."""
    found = function(Bags(block.instances, block.offsets, feature_names=names), *arguments)
    return found + block.first_row if gives_rows else found


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

    def __init__(self, rows: PartitionedRows, block_bytes: int, block_dtype: Any) -> None:
        self.client, self.parts, self.offsets = rows.partitions.client, rows.parts, rows.offsets
        self.n_bags, self.n_instances = len(rows.offsets) - 1, rows.shape[0]
        self.n_features, self.dtype = rows.shape[1], np.dtype(rows.dtype)
        self.block_bytes, self.block_dtype = block_bytes, block_dtype

    blocks = refuse

    def map(self, function: Function, *arguments: Any, in_parts: bool = False) -> list[Any]:
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

    def fold(self, function: Function, state: Any, *arguments: Any) -> Any:
        """The last ``state = function(state, block, *arguments)``; large bags come in parts.

        The state goes from partition to partition, in their order.
        """
        size = self.block_bytes, self.block_dtype, True
        submit = partial(self.client.submit, fold_part, pure=False)
        given = [self._sent(argument) for argument in arguments]
        for part in self.parts:
            state = submit(*part, size, function, state, *given)
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
    """The rows of selected bags of partitions, which are not read in this process.

    Parameters
    ----------
    partitions : Partitions
    head : Bags
        No bags, with the number, names and type of the features of all partitions.
    positions : ndarray of shape (n_bags,), default=None
        Positions of the selected bags. By default, all bags are selected.
    """

    ndim = 2
    nbytes = 0  # in this process
    __getitem__ = __array__ = __matmul__ = __rmatmul__ = merged = of_rows = refuse

    def __init__(
        self, partitions: Partitions, head: Bags, positions: np.ndarray | None = None
    ) -> None:
        sizes = np.diff(partitions.offsets)
        self.partitions, self.head = partitions, head
        self.positions = np.arange(len(sizes)) if positions is None else positions
        self.offsets = offsets_of(sizes[self.positions])
        self.shape, self.dtype = (int(self.offsets[-1]), head.shape[1]), head.dtype

    def selected(self, positions: Any, offsets: np.ndarray) -> PartitionedRows:
        """The rows of some of the bags."""
        made = PartitionedRows(self.partitions, self.head, self.positions[positions])
        if "here" in vars(self):  # brought for another pass
            made.here = self.here[positions]
        return made

    @property
    def is_small(self) -> bool:
        """Whether passes over these rows are made in this process."""
        size = self.shape[0] * self.shape[1] * self.dtype.itemsize
        return 0 < size <= self.partitions.local_bytes

    def compute(self) -> Bags:
        """The bags in the memory of this process."""
        source = DaskSource(self, BLOCK_BYTES, self.dtype)
        return Bags(stacked(source.map(attrgetter("instances"), in_parts=True)), self.offsets)

    @cached_property
    def here(self) -> Bags:
        """The bags in this process for several passes."""
        return self.compute()

    @cached_property
    def segments(self) -> list[tuple[int, list[Segment]]]:
        """Number of each partition that is needed, and which of its bags."""
        bounds, n_bags = self.partitions.bounds, len(self.offsets) - 1
        positions = self.positions
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

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Distributed bags cannot be pickled, because other processes have no client of the "
            "cluster: leave n_jobs=None, as the workers share every pass already."
        )


class DistributedBags(Bags):
    """Bags whose instances are in partitions on the workers of a Dask cluster.

    Sizes, names and ``bag_data`` are in the memory of this process; the instances are on the
    workers. Estimators that learn by passes over the instances accept distributed bags in place of
    :class:`~milearn.Bags`: :class:`~milearn.MIClassifier`, ``MISVC(kernel="linear")``,
    :class:`~milearn.cluster.M3IC`, :class:`~milearn.preprocessing.InstanceTransformer` with a
    scaler or IncrementalPCA,
    :class:`~milearn.preprocessing.BagStatistics` and others. What needs all instances in one place
    raises a TypeError. Every fitted estimator can predict distributed bags, block by block.
    Selections (``bags[train]``) are lazy, so you can use splitters,
    :func:`~sklearn.model_selection.cross_val_score` and
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
        For a pickle, and for what needs the instances in this process, such as ``instances`` or a
        selection of features.
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

    Leave ``n_jobs`` at None, because every pass is already distributed over the workers.

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

    def __init__(self) -> None:
        raise TypeError("Distributed bags are made by from_bags, scan_bags or scan_bag_folder.")

    @classmethod
    def _of(
        cls, partitions: Partitions, bags: Bags, names: Any, **annotations: Any
    ) -> DistributedBags:
        """All bags of partitions, whose features are those of ``bags``."""
        rows, made = PartitionedRows(partitions, no_bags(bags)), object.__new__(cls)
        ids = canonical_ids(names, len(rows.offsets) - 1)
        made._keep(rows, rows.offsets, bags.feature_names, names=ids, **annotations)
        return made

    def _keep(self, instances: Any, offsets: Any, feature_names: Any, **annotations: Any) -> None:
        super()._keep(instances, offsets, feature_names, **annotations)
        others = [self.bag_graph, self.instance_graph, *self.instance_data]
        if not isinstance(instances, PartitionedRows) or any(each is not None for each in others):
            refuse()

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
        """
        bags = check_bags(X, dtype=(np.float64, np.float32, np.float16))
        made = sent([bags], partition_bytes, local_bytes, client)
        return cls._of(made, bags, bags.names, bag_data=bags._annotations["bag_data"])

    @property
    def n_partitions(self) -> int:
        """Number of partitions with selected bags."""
        return len(self._rows.segments)

    @property
    def is_sparse(self) -> bool:
        """Whether the instances are CSR."""
        return bool(self._rows.head.is_sparse)

    instances = property(refuse, doc="Not available: they are not in this process.")
    __iter__ = refuse

    def source(  # type: ignore[override]
        self, *, block_bytes: int = BLOCK_BYTES, dtype: Any = None, n_jobs: int = 1
    ) -> PassSource:
        """The instances as blocks of whole bags, for algorithms that pass over them.

        Up to ``local_bytes`` of :meth:`from_bags` they are brought to this process once, because
        the messages to the workers would take longer than passes and predictions.

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

    def _mapped(self, function: Function, *arguments: Any, gives_rows: bool = False) -> Any:
        given = function, self.feature_names, gives_rows, *arguments
        return stacked(self.source().map(of_block, *given))

    def _transformed(self, function: Function, *arguments: Any) -> DistributedBags:
        rows = self._rows
        client = rows.partitions.client
        given = [submit_value(client, argument) for argument in arguments]
        futures = tasks(client, apply_to_part, rows.parts, function, *given)
        [head] = results(client, [client.submit(no_bags, futures[0], pure=False)])
        positions = [_places(segments) for _, segments in rows.segments]
        order, bounds = np.concatenate(positions), offsets_of([*map(len, positions)])
        offsets = offsets_of(self.sizes[order])
        made = Partitions(client, futures, bounds, offsets, rows.partitions.local_bytes)
        rows = PartitionedRows(made, head, np.argsort(order))
        return self._changed(instances=rows, feature_names=head.feature_names)

    def compute(self) -> Bags:
        """Load all selected bags into the memory of this process.

        Returns
        -------
        Bags
            The selected bags in their order.
        """
        found = self._rows.here if self._rows.is_small else self._rows.compute()
        return found._changed(feature_names=self._feature_names, **self._annotations)


def _places(segments: list[Segment]) -> np.ndarray:
    """Positions of the bags of segments among the selected bags."""
    return np.concatenate([each.first_bag + np.arange(len(each.positions)) for each in segments])


def sent(
    shards: Sequence[Bags], partition_bytes: int, local_bytes: int, client: Client | None
) -> Partitions:
    """Bags in partitions of each shard, or references to the files that they are mapped from."""
    client = current_client(client)
    place, futures, bounds = round_robin(client), [], [0]
    for bags in map(without_annotations, shards):
        most = max(1, partition_bytes // max(1, bags.nbytes // bags.n_instances))
        for first, last in bag_ranges(bags.offsets, most):
            futures.append(submit_value(client, bags[first:last], **next(place)))
            bounds.append(bounds[-1] + last - first)
    offsets = offsets_of(np.concatenate([bags.sizes for bags in shards]))
    return Partitions(client, futures, np.array(bounds), offsets, local_bytes)


def scan_bags(
    paths: Any,
    *,
    partition_bytes: int = PARTITION_BYTES,
    local_bytes: int = LOCAL_BYTES,
    client: Client | None = None,
    **options: Any,
) -> Bunch:
    """Scan folders of .npy files with many bags each as distributed bags.

    This process reads sizes and labels. The workers map the instances into memory and read them in
    blocks in every pass, so every worker must be able to read the folders at the same path.

    Read more in the :ref:`User Guide <guide_distributed>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    paths : path-like or sequence of path-like
        The folders, as :func:`~milearn.datasets.save_bags` writes them with
        ``format="npy-folder"``, in the order of the bags.
    partition_bytes : int, default=67108864
        Size of a partition, as stored.
    local_bytes : int, default=16777216
        Size up to which selected bags are brought to this process for passes over them.
    client : distributed.Client, default=None
        By default, the client of the process.
    **options : dict
        Further arguments of :func:`~milearn.datasets.load_bags`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        ``data`` : :class:`DistributedBags`; ``target`` : ndarray of shape (n_bags,), or None if
        a folder has no labels; ``classes`` of text labels; and ``bag_names``, ``sample_weight`` and
        ``split`` if all folders contain them.

    Raises
    ------
    FileNotFoundError
        If a folder does not exist.
    BagFileError
        If a file cannot be read, or the folders are not compatible. This is a ValueError.

    See Also
    --------
    scan_bag_folder : One file per bag.
    milearn.datasets.save_bags : Writes such folders.

    Examples
    --------
    >>> from milearn.distributed import scan_bags
    >>> parts = ["part-0", "part-1"]  # folders that save_bags(format="npy-folder") has written
    >>> shards = scan_bags(parts)  # doctest: +SKIP
    >>> shards.data, shards.target  # doctest: +SKIP
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    shards = [load_bags(Path(path).absolute(), mmap=True, **options) for path in given]
    if not shards:
        raise ValueError("paths is empty: name at least one folder.")
    forms = [_form(shard) for shard in shards]
    for path, form in zip(given, forms, strict=True):
        for what, found in form.items():
            if found != forms[0][what]:
                raise BagFileError(
                    f"{path}: {what} differ from those of {given[0]}: save all folders in one form."
                )
    bunch = Bunch(target=None)
    for name in ("target", "bag_names", "sample_weight", "split"):
        if all(shard.get(name) is not None for shard in shards):
            bunch[name] = np.concatenate([shard[name] for shard in shards])
    if "classes" in shards[0]:
        bunch["classes"] = shards[0]["classes"]
    bags = [shard["data"] for shard in shards]
    made = sent(bags, partition_bytes, local_bytes, client)
    bunch["data"] = DistributedBags._of(made, bags[0], bunch.get("bag_names"))
    return bunch


def _form(shard: Bunch) -> dict[str, Any]:
    """What all folders have in common."""
    bags, target, classes = shard["data"], shard["target"], shard.get("classes")
    names = None if bags.feature_names is None else bags.feature_names.tolist()
    return {
        "the number and names of features": (bags.shape[1], names),
        "the storage and type of instances": (bags.is_sparse, bags.dtype),
        "labels, texts or numbers,": target is not None and target.dtype.kind in "OU",
        "classes, which may be passed by classes=,": None if classes is None else classes.tolist(),
    }


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
    root, declared = Path(path).absolute(), declared_classes(classes)
    bags, kept_dtype, dropped = files.read_headers(
        root,
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
    futures, place = [], round_robin(client)
    for first, last in ranges:
        given = str(root), submit_value(client, bags[first:last]), kept_dtype
        futures.append(client.submit(_read, *given, pure=False, **next(place)))
    bounds = np.array([0, *(last for _, last in ranges)])
    made = Partitions(client, futures, bounds, offsets, local_bytes)
    bunch = Bunch(**files.fields_of(bags, declared))
    head = Bags(np.empty((0, bags[0].width), kept_dtype), [0])
    bunch["data"] = DistributedBags._of(made, head, bunch["bag_names"])
    bunch["dropped"] = dropped
    files.warn_of_dropped(dropped, len(bags))
    return bunch


def _read(path: str, bags: Sequence[files.FoundBag], dtype: np.dtype) -> Bags:
    return without_annotations(files.read_found(Path(path), bags, dtype))
