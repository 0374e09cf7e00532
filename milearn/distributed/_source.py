"""Passes over partitions: functions go to the workers, and what they return comes back in order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from distributed import Client
from distributed.protocol.pickle import dumps

from .._bags.blocks import Block, stacked
from ._tasks import BlockSize, Parts, fold_part, map_part, name_of, put, results, tasks

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
