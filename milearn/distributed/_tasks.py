"""Tasks of the workers, which are pure functions, and the transfer of their arguments.

Tasks have no state, so that every task whose result was lost with a worker can be computed again
from the files, or from the data that the scheduler stores.
"""

from __future__ import annotations

import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._bags import Bags
from .._bags.blocks import Block
from .._bags.mapped import MappedRows

try:
    from dask.sizeof import sizeof
    from distributed import Client, Future, KilledWorker, get_client, wait
    from distributed.protocol.pickle import dumps, loads
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "milearn.distributed needs Dask: install it with pip install 'milearn[dask]'."
    ) from error

__all__ = [
    "BlockSize",
    "Segment",
    "apply_to_part",
    "bare",
    "check_memory",
    "current_client",
    "described",
    "fold_part",
    "is_mapped",
    "map_part",
    "name_of",
    "put",
    "results",
    "runs",
    "selected",
    "tasks",
]

# The bags of each partition, and which of them.
Parts = Sequence[tuple[Future, Any]]

# Dask warns of graphs of 10 MB, and every part must fit into a message.
_PIECE_BYTES = 2**22
_MORE_MEMORY = "pass a smaller partition_bytes, or start workers with more memory"


@sizeof.register(Bags)
def _size_of_bags(bags: Bags) -> int:
    """Number of bytes of a result, by which the scheduler places tasks."""
    return bags.offsets.nbytes if is_mapped(bags) else bags.nbytes


def is_mapped(bags: Bags) -> bool:
    """Whether the instances lie in a file."""
    return isinstance(bags.instance_rows, MappedRows)


def bare(bags: Bags) -> Bags:
    """Bags without graphs and data."""
    further = bags.instance_data or bags.bag_data
    if bags.bag_graph is None and bags.instance_graph is None and not further:
        return bags
    return Bags(bags.instances, bags.offsets, feature_names=bags.feature_names)


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


def put(
    client: Client,
    value: Any,
    kind: str,
    *,
    workers: Sequence[str] | None = None,
    compress: bool = False,
) -> Future:
    """A task that returns the value and can be repeated if its result is lost.

    The value is part of the graph, in parts, which the scheduler stores as long as the task is
    wanted.
    """
    key, data = name_of(kind), dumps(value)
    if compress:
        data = zlib.compress(data, 1)
    place = {"workers": workers, "allow_other_workers": workers is not None}
    pieces: list[Any] = [data]
    if len(data) > _PIECE_BYTES:
        pieces = [
            client.submit(bytes, data[start : start + _PIECE_BYTES], key=f"{key}-{start}", **place)
            for start in range(0, len(data), _PIECE_BYTES)
        ]
    return client.submit(_joined, compress, *pieces, key=key, **place)


def tasks(
    client: Client, kind: str, function: Callable[..., Any], parts: Parts, *arguments: Any
) -> list[Future]:
    """``function(bags, segments, *arguments)`` for each part, in one message to the scheduler."""
    key = name_of(kind)
    columns = [*zip(*parts, strict=True), *([argument] * len(parts) for argument in arguments)]
    return list(client.map(function, *columns, key=[f"{key}-{at}" for at in range(len(parts))]))


def results(
    client: Client, futures: Sequence[Future], *, look: float = 2.0, patience: float = 20.0
) -> list[Any]:
    """The results of tasks, in their order.

    A slow worker is waited for. Every ``look`` seconds the states of the workers are read, because
    Dask waits forever for workers whose memory is full.

    Raises
    ------
    RuntimeError
        If a task was lost with several workers, if all workers have been paused for ``patience``
        seconds, or if the scheduler forgot the tasks.
    """
    try:
        running = time.monotonic()
        while not _are_done(futures, look):
            if not _all_are_paused(client):
                running = time.monotonic()
            elif time.monotonic() - running >= patience:
                raise RuntimeError(
                    "Dask has paused all workers, because their memory is full"
                    f"{_limit_of(client)}: {_MORE_MEMORY}."
                )
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


def _are_done(futures: Sequence[Future], seconds: float) -> bool:
    try:
        wait(futures, timeout=seconds)
    except TimeoutError:
        return False
    return True


def _all_are_paused(client: Client) -> bool:
    """Whether there are workers, and none of them runs tasks because of its memory."""
    states = [each["status"] for each in _workers(client)]
    return bool(states) and all(state == "paused" for state in states)


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


def _joined(compressed: bool, *pieces: bytes) -> Any:
    data = b"".join(pieces)
    return loads(zlib.decompress(data) if compressed else data)


# -- parts of bags ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """Bags of one partition that follow each other among the selected ones."""

    # First position among the selected bags and their instances.
    first_bag: int
    first_row: int
    n_bags: int
    # Positions in the partition: ndarray, slice, or None for all.
    positions: Any

    def __call__(self, bags: Bags) -> Bags:
        return bags if self.positions is None else bags[self.positions]


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
        source = segment(bags).source(block_bytes=size.block_bytes, dtype=size.dtype)
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
    parts = [segment(bags) for segment in segments]
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


def runs(owners: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last position of each run of equal numbers."""
    bounds = np.flatnonzero(np.diff(owners)) + 1
    yield from zip(np.r_[0, bounds], np.r_[bounds, len(owners)], strict=True)
