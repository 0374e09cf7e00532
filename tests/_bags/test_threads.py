"""Passes and convex steps have one thread of BLAS, and the threads of a fit share its work."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import delayed
from sklearn import config_context, get_config

from milearn._bags.blocks import ArraySource
from milearn._bags.threads import Parallel, in_threads, one_blas_thread, working_threads
from tests.blas import n_threads, two_threads


@pytest.fixture(autouse=True)
def _two_threads():
    with two_threads():
        yield


# -- threads of BLAS -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_passes_have_one_thread(n_jobs):
    source = ArraySource(np.zeros((40, 2)), np.arange(0, 41, 4), 64, n_jobs=n_jobs)
    assert set(source.map(lambda block: n_threads())) == {1}
    assert n_threads() == 2


def test_fits_that_end_in_any_order_restore_what_the_first_found():
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(first.__exit__, None, None, None).result()
        assert n_threads() == 1
        pool.submit(second.__exit__, None, None, None).result()
    assert n_threads() == 2


# -- threads of a fit ------------------------------------------------------------------------------


def test_items_are_shared_by_threads_and_stay_in_order():
    together = threading.Barrier(2, timeout=60)

    def work(item):
        if item < 2:
            together.wait()
        return item, n_threads(), threading.current_thread() is threading.main_thread()

    with working_threads(2):
        assert in_threads(work, range(9)) == [(item, 1, False) for item in range(9)]
        # One item has nothing to share.
        assert in_threads(work, [5]) == [(5, 2, True)]
    assert in_threads(work, range(2, 4)) == [(2, 2, True), (3, 2, True)]


def test_threads_and_workers_have_the_configuration_of_the_caller():
    def limit(_=None):
        return get_config()["working_memory"]

    with config_context(working_memory=7):
        with working_threads(2):
            assert in_threads(limit, range(4)) == [7] * 4
        source = ArraySource(np.zeros((40, 2)), np.arange(0, 41, 4), 64, n_jobs=2)
        assert set(source.map(limit)) == {7}
        for prefer in ("threads", "processes"):
            found = Parallel(n_jobs=2, prefer=prefer)(delayed(get_config)() for _ in range(9))
            assert {config["working_memory"] for config in found} == {7}
    assert limit() != 7


def test_threads_of_a_fit_begin_no_others():
    def outer(item):
        here = threading.get_ident()
        with working_threads(2):
            return {here} == set(in_threads(lambda _: threading.get_ident(), range(4)))

    source = ArraySource(np.zeros((40, 2)), np.arange(0, 41, 4), 64, n_jobs=2)
    with working_threads(2):
        assert all(in_threads(outer, range(4)))
        threads = set(in_threads(lambda _: threading.get_ident(), range(8)))
        threads.update(source.map(lambda block: threading.get_ident()))
        assert threading.get_ident() not in threads
        assert len(threads) <= 2


def test_an_error_in_a_thread_is_that_of_the_fit():
    with working_threads(2), pytest.raises(ZeroDivisionError):
        in_threads(lambda item: 1 // item, [1, 0, 1])
    assert n_threads() == 2
