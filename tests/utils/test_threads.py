"""Threads of linear algebra during fits of few and of many instances."""

import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_info

from milearn import Bags
from milearn.utils._threads import _FEW_INSTANCES, threads_for


def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_few_instances_take_one_thread_and_the_others_come_back():
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        with threads_for(Bags.singletons(np.zeros((10, 2)))):
            assert blas_threads() == {1}
        assert blas_threads() == before
        with threads_for(Bags.singletons(np.zeros((_FEW_INSTANCES + 1, 2)))):
            assert blas_threads() == before


def test_fits_that_leave_in_any_order_put_back_what_the_first_found():
    few = Bags.singletons(np.zeros((10, 2)))
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        first, second = threads_for(few), threads_for(few)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before
