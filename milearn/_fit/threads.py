"""Fits with one thread of BLAS and OpenMP, for models of many small matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

from .. import _compat
from .._bags.threads import controller, one_blas_thread

# Up to this number of instances the products of a fit take less time than starting more threads,
# which also use processors in busy waiting.
_FEW_INSTANCES = 3_000


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Callable], Callable]:
    """scikit-learn's ``_fit_context``, with one thread of BLAS and OpenMP for few instances."""
    validated = _compat.fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)

    def decorate(fit: Callable) -> Callable:
        @wraps(fit)
        def with_few_threads(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            if _n_instances(args[0] if args else kwargs.get("X")) > _FEW_INSTANCES:
                return fit(estimator, *args, **kwargs)
            # The number of threads of OpenMP belongs to the calling thread.
            with one_blas_thread(), controller().limit(limits=1, user_api="openmp"):
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
