"""Fits use one thread of BLAS, and leave the number as it was."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from milearn import Bags
from milearn._fit.threads import fit_context
from tests.blas import n_threads, two_threads


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


MATRIX = np.zeros((100, 2))


@pytest.mark.parametrize(
    "X", [MATRIX, Bags(MATRIX, [0, 50, 100]), np.zeros((50, 100, 2)), iter([])]
)
def test_a_fit_has_one_thread(X):
    assert Looks().fit(X).seen_ == 1
    assert Looks().fit(X=X).seen_ == 1
    assert n_threads() == 2


def test_a_fit_limits_blas_alone_and_until_the_last_one_ends():
    inside, looked = threading.Event(), threading.Event()

    class Waits(Looks):
        @fit_context(prefer_skip_nested_validation=True)
        def fit(self, X, y=None):
            inside.set()
            assert looked.wait(60)
            return self

    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(Waits().fit, MATRIX)
        assert inside.wait(60)
        assert (n_threads(), n_threads("openmp")) == (1, 2)
        assert Looks().fit(MATRIX).openmp_ == 2
        assert n_threads() == 1
        looked.set()
        there.result()
    assert n_threads() == 2


def test_an_error_leaves_the_number_as_it_was():
    with pytest.raises(ValueError, match="no y"):
        Looks().fit(MATRIX, [1])
    with pytest.raises(TypeError, match=r"Looks\.fit\(\) missing 1 required .* 'X'"):
        Looks().fit()
    assert n_threads() == 2
