"""The number of BLAS threads, for tests that look at it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits


def n_threads(api="blas"):
    """The largest number: a library that another package brings may have one thread only."""
    return max(each["num_threads"] for each in threadpool_info() if each["user_api"] == api)


@contextmanager
def two_threads():
    """Two threads of BLAS and of OpenMP, which any thread may change."""
    with threadpool_limits(2, user_api="blas"), threadpool_limits(2, user_api="openmp"):
        if n_threads() != 2:
            pytest.skip("this BLAS has one thread")
        # Otherwise this thread would be the only one that can set the number.
        for library in ThreadpoolController().lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)
        yield
