"""Threads that share the blocks of a pass, and the number of threads of BLAS.

A fit has the threads of ``n_jobs``. A pass and a convex step are many small products: they have
one thread of BLAS, because starting more of them takes longer than the products, and they wait for
each other where processors are occupied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["ONE_BLAS_THREAD", "controller", "in_threads", "one_blas_thread", "working_threads"]

F = TypeVar("F", bound=Callable[..., Any])

# The threads of the fit in this thread, and whether this thread is one of them.
_pool: ContextVar[ThreadPoolExecutor | None] = ContextVar("_pool", default=None)
_is_worker: ContextVar[bool] = ContextVar("_is_worker", default=False)


# -- threads of BLAS -------------------------------------------------------------------------------


@cache
def controller() -> ThreadpoolController:
    """Controller of the loaded libraries; the search for them takes milliseconds."""
    return ThreadpoolController()


def _take_control() -> None:
    """Let this thread set the number of BLAS threads.

    From threadpoolctl 3.8 on, the first thread that sets it is the only one that can, until it has
    restored it.
    """
    for library in controller().lib_controllers:
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)


def _limit_blas(n_threads: int | None = 1) -> Any:
    """Limit the threads of BLAS, until ``restore_original_limits`` of what is returned."""
    return controller().limit(limits=n_threads, user_api="blas")


class _OneBlasThread:
    """Context with one BLAS thread, until the last of several concurrent fits has left it.

    The number of BLAS threads belongs to the process. Fits in several threads do not wait for each
    other: only their number is kept under a lock. Concurrent fits end in any order, so the first
    one to enter stores the number of threads and the last one to leave restores it. If each of them
    restored what it found, as the limits of scikit-learn's k-means do, one thread could remain.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _limit_blas()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _take_control()
                self._limit.restore_original_limits()


ONE_BLAS_THREAD = _OneBlasThread()


def one_blas_thread(function: F) -> F:
    """The same function, within :data:`ONE_BLAS_THREAD`."""

    @wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        with ONE_BLAS_THREAD:
            return function(*args, **kwargs)

    return limited  # type: ignore[return-value]


# -- threads of a fit ------------------------------------------------------------------------------


def _begin_work() -> None:
    _is_worker.set(True)


@contextmanager
def working_threads(n_jobs: int) -> Iterator[None]:
    """Context in which :func:`in_threads` has this number of threads.

    Within another such context, and in one of its threads, it has no effect.
    """
    if n_jobs == 1 or _pool.get() is not None or _is_worker.get():
        yield
        return
    with ThreadPoolExecutor(n_jobs, initializer=_begin_work) as pool:
        token = _pool.set(pool)
        try:
            yield
        finally:
            _pool.reset(token)


def in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """``function(item)`` for every item, in their order, in the threads of the fit.

    With several threads, each of them has one thread of BLAS.
    """
    pool, items = _pool.get(), list(items)
    if pool is None or len(items) == 1:
        return [function(item) for item in items]
    with ONE_BLAS_THREAD:
        return list(pool.map(function, items))
