"""Fits of few instances use one thread of BLAS, and leave the number as it was."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from milearn import Bags
from milearn._fit.threads import fit_context
from milearn.svm import MISVC
from tests.blas import n_threads, two_threads
from tests.toys import two_level_bags


class Looks(BaseEstimator):
    _parameter_constraints: ClassVar[dict] = {}

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        if y is not None:
            raise ValueError("no y")
        self.seen_ = n_threads()
        self.openmp_ = n_threads("openmp")
        return self


@pytest.fixture(autouse=True)
def _two_threads():
    with two_threads():
        yield


FEW = {
    "bags": Bags(np.zeros((100, 2)), [0, 50, 100]),
    "matrix": np.zeros((100, 2)),
    "cube": np.zeros((10, 10, 2)),
    "list": [np.zeros((50, 2)), np.zeros((50, 2))],
}
MANY = {
    "bags": Bags(np.zeros((4000, 2)), [0, 2000, 4000]),
    "matrix": np.zeros((4000, 2)),
    "cube": np.zeros((40, 100, 2)),
    "list": [np.zeros((2000, 2)), np.zeros((2000, 2))],
    "sparse": [sparse.csr_array((2000, 2)), sparse.csr_array((2000, 2))],
    "unknown": iter([]),
}


@pytest.mark.parametrize("kind", FEW)
def test_few_instances_have_one_thread(kind):
    assert Looks().fit(FEW[kind]).seen_ == 1
    assert Looks().fit(X=FEW[kind]).seen_ == 1
    assert n_threads() == 2


@pytest.mark.parametrize("kind", MANY)
def test_many_instances_have_all(kind):
    assert Looks().fit(MANY[kind]).seen_ == 2


def test_openmp_is_limited_in_the_thread_of_a_fit():
    inside, looked = threading.Event(), threading.Event()

    class Waits(Looks):
        @fit_context(prefer_skip_nested_validation=True)
        def fit(self, X, y=None):
            inside.set()
            assert looked.wait(60)
            self.openmp_ = n_threads("openmp")
            return self

    def in_a_thread():
        with threadpool_limits(2, user_api="openmp"):
            return Waits().fit(FEW["bags"]).openmp_, n_threads("openmp")

    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(in_a_thread)
        assert inside.wait(60)
        # A fit elsewhere limits BLAS, which all threads share, and not the OpenMP of this thread.
        assert (n_threads(), n_threads("openmp")) == (1, 2)
        assert Looks().fit(FEW["bags"]).openmp_ == 1
        assert (n_threads(), n_threads("openmp")) == (1, 2)
        assert Looks().fit(MANY["bags"]).openmp_ == 2
        looked.set()
        assert there.result() == (1, 2)
    assert (n_threads(), n_threads("openmp")) == (2, 2)


def test_an_error_leaves_the_number_as_it_was():
    with pytest.raises(ValueError, match="no y"):
        Looks().fit(FEW["matrix"], [1])
    with pytest.raises(TypeError, match=r"Looks\.fit\(\) missing 1 required .* 'X'"):
        Looks().fit()
    assert n_threads() == 2


def test_a_fit_within_a_fit_and_one_of_the_library():
    class Outer(Looks):
        @fit_context(prefer_skip_nested_validation=True)
        def fit(self, X, y=None):
            inner = Looks().fit(X).seen_
            self.seen_ = max(inner, n_threads())
            return self

    assert Outer().fit(FEW["bags"]).seen_ == 1
    MISVC().fit(*two_level_bags())
    assert n_threads() == 2
