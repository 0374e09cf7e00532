"""Fits with one thread of BLAS and OpenMP, for models of many small matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

from .. import _compat

__all__ = ["ONE_BLAS_THREAD", "fit_context"]

# Up to this number of instances the products of a fit take less time than starting more threads,
# which also use processors in busy waiting.
_FEW_INSTANCES = 3_000


@cache
def _controller() -> ThreadpoolController:
    """Controller of the loaded libraries; the search for them takes milliseconds."""
    return ThreadpoolController()


def _take_control() -> None:
    """Let this thread set the number of BLAS threads.

    From threadpoolctl 3.8 on, the first thread that sets it is the only one that can, until it has
    restored it.
    """
    for library in _controller().lib_controllers:
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)


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
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _take_control()
                self._limit.restore_original_limits()


ONE_BLAS_THREAD = _OneBlasThread()


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread of BLAS, and one of OpenMP, whose number belongs to the calling thread."""
    with ONE_BLAS_THREAD, _controller().limit(limits=1, user_api="openmp"):
        yield


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Callable], Callable]:
    """scikit-learn's ``_fit_context``, with one thread of BLAS and OpenMP for few instances."""
    validated = _compat.fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)

    def decorate(fit: Callable) -> Callable:
        @wraps(fit)
        def with_few_threads(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            if _n_instances(args[0] if args else kwargs.get("X")) > _FEW_INSTANCES:
                return fit(estimator, *args, **kwargs)
            with _one_thread():
                return fit(estimator, *args, **kwargs)

        return validated(with_few_threads)

    return decorate


def _n_instances(X: Any) -> float:
    """Lower bound of the number of instances in an input; infinite if unknown."""
    if hasattr(X, "n_instances"):
        return float(X.n_instances)
    shape = getattr(X, "shape", None)
    if shape is not None:
        # The last of three dimensions has the features, and the rows of a matrix are bags.
        return math.prod(shape[: max(1, len(shape) - 1)])
    if isinstance(X, (list, tuple)):
        return sum(_n_rows(each) for each in X)
    return math.inf


def _n_rows(bag: Any) -> int:
    shape = getattr(bag, "shape", None)
    if shape:
        return int(shape[0])
    # A sparse matrix has a length but refuses to return it.
    return len(bag) if shape is None and hasattr(bag, "__len__") else 0
