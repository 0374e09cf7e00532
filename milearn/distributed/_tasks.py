"""Tasks of the workers, the transfer of their arguments, and passes over partitions.

Tasks are pure functions, so that every task whose result was lost with a worker can be computed
again from the files, or from the data that the scheduler stores.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from .._bags import Bags
from .._bags.blocks import Block, stacked
from .._bags.rows_on_disk import LazyRows

try:
    import dask
    from dask.sizeof import sizeof
    from distributed import Client, Future, KilledWorker, get_client
    from distributed.protocol.pickle import dumps, loads
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "milearn.distributed needs Dask: install it with pip install 'milearn[dask]'."
    ) from error

# The bags of each partition, and which of them.
Parts = Sequence[tuple[Future, Any]]

_MORE_MEMORY = "pass a smaller partition_bytes, or start workers with more memory"


@sizeof.register(Bags)
def _size_of_bags(bags: Bags) -> int:
    """Number of bytes of a result, by which the scheduler places tasks."""
    return bags.offsets.nbytes if in_files(bags) else bags.nbytes


def in_files(bags: Bags) -> bool:
    """Whether the instances lie in a file."""
    return isinstance(bags.instance_rows, LazyRows)


def bare(bags: Bags) -> Bags:
    """Bags without graphs and data."""
    return bags._changed(bag_graph=None, instance_graph=None, instance_data={}, bag_data={})


def current_client(client: Client | None) -> Client:
    """The given client, or the client of the process."""
    if client is not None:
        return client
    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "There is no Dask client: create one first, client = distributed.Client(address), or "
            "Client() for workers on this computer."
        ) from error


def name_of(kind: str) -> str:
    """A key that no other task has."""
    return f"milearn-{kind}-{uuid.uuid4().hex}"


def put(client: Client, value: Any, kind: str, workers: Sequence[str] | None = None) -> Future:
    """A task that returns the value and can be repeated if its result is lost.

    The value is part of the graph, which the scheduler stores as long as the task is wanted.
    """
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
        return client.submit(
            loads,
            dumps(value),
            key=name_of(kind),
            workers=workers,
            allow_other_workers=workers is not None,
        )


def tasks(
    client: Client, kind: str, function: Callable[..., Any], parts: Parts, *arguments: Any
) -> list[Future]:
    """``function(bags, segments, *arguments)`` for each part, in one message to the scheduler."""
    key = name_of(kind)
    columns = [*zip(*parts, strict=True), *([argument] * len(parts) for argument in arguments)]
    return list(client.map(function, *columns, key=[f"{key}-{at}" for at in range(len(parts))]))


def results(client: Client, futures: Sequence[Future]) -> list[Any]:
    """The results of tasks, in their order.

    Raises
    ------
    RuntimeError
        If a task was lost with several workers, or if the scheduler forgot the tasks.
    """
    try:
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
    scheduler: Any = client.scheduler
    workers = client.sync(scheduler.identity)["workers"].values()
    return [each["memory_limit"] for each in workers if each.get("memory_limit")]


# -- parts of bags ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """Bags of one partition that follow each other among the selected ones."""

    # First position among the selected bags and their instances.
    first_bag: int
    first_row: int
    # Positions in the partition.
    positions: np.ndarray


@dataclass(frozen=True)
class BlockSize:
    """How a worker cuts its bags into blocks; see :meth:`milearn.Bags.source`."""

    block_bytes: int
    dtype: Any
    in_parts: bool


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
    for segment in segments:
        source = bags[segment.positions].source(block_bytes=size.block_bytes, dtype=size.dtype)
        for block in source.blocks(in_parts=size.in_parts):
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


def described(bags: Bags) -> dict[str, Any]:
    """Data of a partition that are needed in other processes."""
    return {
        "sizes": bags.sizes,
        "n_features": bags.shape[1],
        "dtype": bags.dtype,
        "is_sparse": bags.is_sparse,
        "feature_names": bags.feature_names,
    }


# Arguments from this size on are sent once for all tasks of a pass.
_LARGE_BYTES = 2**14


class DaskSource:
    """Blocks of bags that are on workers.

    Parameters
    ----------
    client : distributed.Client
    parts : sequence of (Future, Future)
        The bags of each partition, and its segments.
    offsets : ndarray of shape (n_bags + 1,)
        Of the selected bags.
    n_features : int
    dtype : dtype of the instances
    block_bytes, block_dtype
        As of :class:`milearn._bags.blocks.ArraySource`.
    """

    def __init__(
        self,
        client: Client,
        parts: Parts,
        offsets: np.ndarray,
        *,
        n_features: int,
        dtype: Any,
        block_bytes: int,
        block_dtype: Any,
    ) -> None:
        self.client, self.parts, self.offsets = client, parts, offsets
        self.n_bags, self.n_instances = len(offsets) - 1, int(offsets[-1])
        self.n_features, self.dtype = n_features, np.dtype(dtype)
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
        size = BlockSize(self.block_bytes, self.block_dtype, in_parts)
        given = [self._sent(argument) for argument in arguments]
        futures = tasks(self.client, "pass", map_part, self.parts, size, function, *given)
        # Keep the order of the parts of a bag.
        found = sorted(chain.from_iterable(results(self.client, futures)), key=itemgetter(0))
        return [result for _, result in found]

    def fold(self, function: Callable[..., Any], state: Any, *arguments: Any) -> Any:
        """The last ``state = function(state, block, *arguments)``; large bags come in parts.

        The state goes from partition to partition, in their order.
        """
        size = BlockSize(self.block_bytes, self.block_dtype, True)
        given = [self._sent(argument) for argument in arguments]
        for bags, segments in self.parts:
            state = self.client.submit(
                fold_part, bags, segments, size, function, state, *given, key=name_of("fold")
            )
        return results(self.client, [state])[0] if self.parts else state

    def gather(self, rows: np.ndarray) -> Any:
        """The given instances, in the type to compute in."""
        order = np.argsort(rows, kind="stable")
        return stacked(self.map(_taken, rows[order], in_parts=True))[np.argsort(order)]

    def _sent(self, argument: Any) -> Any:
        """The argument, or a task for it: a large argument is sent once and not with each task."""
        small = len(dumps(argument)) < _LARGE_BYTES
        return argument if small else put(self.client, argument, "argument")


def _taken(block: Block, rows: np.ndarray) -> Any:
    """The sorted rows that are in the block."""
    low, high = np.searchsorted(rows, [block.rows.start, block.rows.stop])
    return block.take(rows[low:high] - block.first_row, block.dtype)
