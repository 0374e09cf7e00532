"""What all tests share, doctests included."""

from __future__ import annotations

import os

# One thread per process, unless the caller says otherwise: pytest-xdist starts as many processes as
# there is use for, and threads that wait for each other's processor take several times the work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Iterator

import pytest
from joblib import parallel_config

from milearn.utils import estimator_checks  # noqa: F401 - registers the checks in their order
from milearn.utils._checks.inputs import MAPPED_BYTES


@pytest.fixture(scope="session", autouse=True)
def one_pool_of_workers() -> Iterator[None]:
    """Let joblib map arrays of any size into files for its worker processes.

    This is what the checks of estimators ask for too. joblib starts its workers anew whenever the
    limit changes, and each of them imports scikit-learn for seconds.
    """
    with parallel_config(max_nbytes=MAPPED_BYTES):
        yield
