"""One thread of linear algebra for models of many small matrices."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
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


def threads_for(bags: Bags) -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread where there are few instances."""
    if bags.n_instances > _FEW_INSTANCES:
        return nullcontext()
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited
