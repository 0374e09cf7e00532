"""What all tests share, doctests included."""

from __future__ import annotations

import os

# One thread per process, unless the caller sets another number: pytest-xdist uses all processors,
# and threads that wait for each other's processor take several times the work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gc
import sys
from collections.abc import Generator, Iterator

import pytest

# The package is imported where it is used: the process of pytest-xdist that only hands out the
# tests reads this file too, before it starts the workers, and needs none of it.


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect the tests, ten thousand of them, out of sight of Python's garbage collector.

    They stay until the end, and each full collection would look at all of them.
    """
    if not session.config.pluginmanager.hasplugin("dsession"):  # it only hands out tests
        from milearn.utils import estimator_checks  # noqa: F401 - registers checks in their order

    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after a test has put modules back
def pytest_runtest_teardown() -> None:
    """Close the figures of a test, an example or a page: matplotlib warns of the twentieth."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session", autouse=True)
def one_pool_of_workers() -> Iterator[None]:
    """Let joblib map arrays of any size into files for its worker processes.

    The checks of estimators ask for the same. joblib restarts its workers whenever the
    limit changes, and each of them imports scikit-learn for seconds.
    """
    from joblib import parallel_config

    from milearn.utils._checks import MAPPED_BYTES

    with parallel_config(max_nbytes=MAPPED_BYTES):
        yield
