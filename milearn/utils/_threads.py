"""One thread of linear algebra for models of many small matrices."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

from .._bags import Bags

__all__ = ["threads_for"]

# Up to so many instances the products of a fit take less time than waking further threads, which
# wait for each other actively and take the processor from whoever else is at work.
_FEW_INSTANCES = 3_000


@cache
def _controller() -> ThreadpoolController:
    """Of the libraries that are loaded at the first fit; to look for them takes milliseconds."""
    return ThreadpoolController()


class _OneThread:
    """BLAS with one thread from the first fit that enters to the last that leaves.

    Fits in threads leave in any order: each putting back what it found would end with one thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_ONE_THREAD = _OneThread()


def threads_for(bags: Bags) -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread where there are few instances."""
    return nullcontext() if bags.n_instances > _FEW_INSTANCES else _ONE_THREAD
