"""Threads and loops that share the work of a fit, and the number of threads of BLAS.

A fit has the threads of ``n_jobs``. Fits and passes are many small products: they have one thread
of BLAS, because starting more of them takes longer than the products, and they wait for each other
where processors are occupied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from threading import Lock
from typing import Any

import joblib
from sklearn import config_context, get_config
from threadpoolctl import ThreadpoolController

# The threads of the fit in this thread, and whether this thread is one of them.
_pool: ContextVar[ThreadPoolExecutor | None] = ContextVar("_pool", default=None)
_is_worker: ContextVar[bool] = ContextVar("_is_worker", default=False)
# The limit of BLAS, once for each context that is open.
_lock, _limits = Lock(), list[Any]()


# -- threads of BLAS -------------------------------------------------------------------------------


@cache
def controller() -> ThreadpoolController:
    """Controller of the loaded libraries; the search for them takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context, and decorator of functions, with one thread of BLAS.

    The number belongs to the process. The first of concurrent fits sets it, and the last one
    restores it: if each of them restored what it found, one thread could remain.
    """
    with _lock:
        _limits.append(_limits[0] if _limits else controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limit = _limits.pop()
            if not _limits:
                for library in controller().lib_controllers:
                    # From threadpoolctl 3.8 on, only the thread that set a number can restore it.
                    if hasattr(library, "clear_controlling_thread"):
                        library.clear_controlling_thread(force=True)
                limit.restore_original_limits()


# -- configuration of scikit-learn -----------------------------------------------------------------


def inner_matrices() -> Any:
    """Context, and decorator of functions, in which inner transformers return matrices.

    The container that scikit-learn's configuration names is for transformers of the user.
    """
    return config_context(transform_output="default")


# -- threads of a fit ------------------------------------------------------------------------------


def _in_config(function: Any, config: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function in scikit-learn's configuration of another thread or process."""
    with config_context(**config):
        return function(*args, **kwargs)


class Parallel(joblib.Parallel):
    """joblib's, in scikit-learn's configuration of the caller.

    That of scikit-learn also sets the filters of warnings. They belong to the process, so that a
    fit in one thread would restore those of a fit in another one.
    """

    def __call__(self, iterable: Iterable[Any]) -> Any:
        """The results in the order of the tasks."""
        config = get_config()  # here, because tasks may be drawn in another thread
        return super().__call__((partial(_in_config, f, config), *given) for f, *given in iterable)


@contextmanager
def working_threads(n_jobs: int) -> Iterator[None]:
    """Context in which :func:`in_threads` has this number of threads.

    Within another such context, and in one of its threads, it has no effect.
    """
    if n_jobs == 1 or _pool.get() is not None or _is_worker.get():
        yield
        return
    with ThreadPoolExecutor(n_jobs, initializer=_is_worker.set, initargs=(True,)) as pool:
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
        return [*map(function, items)]
    with one_blas_thread():
        return list(pool.map(partial(_in_config, function, get_config()), items))
