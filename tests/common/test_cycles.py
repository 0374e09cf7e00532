"""Cycles of objects that a fit leaves behind: none may hold something of the size of the data.

An object that refers to itself is freed only by the next search for cycles. Python begins one after
so many new objects, whatever their size: matrices of gigabytes would pile up in a cross-validation.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import is_regressor

from milearn.survival import survival_outcomes
from milearn.svm import MISVC, MISVR, InstanceMISVC
from tests.common.common_checks import all_with_small_fits
from tests.common.test_settings import ESTIMATORS
from tests.toys import OFTEN_CONSTANT, two_level_bags

pytestmark = OFTEN_CONSTANT

# Their fits are calls of scipy.optimize.minimize, which keeps what it minimised in old versions.
BY_SCIPY = {"ConceptEmbedding", "DDSVM", "DiverseDensity", "EMDD", "LinkContentMF", "MIClassifier"}
PRIMAL = [each(kernel="linear") for each in (InstanceMISVC, MISVC, MISVR)]


def held_by_cycles():
    """The largest array, in bytes, that only cycles of objects still hold."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        held = [each for found in gc.garbage for each in gc.get_referents(found)]
        return max((each.nbytes for each in held if isinstance(each, np.ndarray)), default=0)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@contextmanager
def collector_away():
    """Without the collector, and with what is there already out of its sight: it searches less."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@cache
def minimize_leaves_a_cycle():
    data = np.ones(1000)
    with collector_away():
        minimize(lambda x: ((x - data) ** 2).sum(), np.zeros(1), method="L-BFGS-B")
        return held_by_cycles() > 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator",
    [*all_with_small_fits(), *ESTIMATORS, *PRIMAL],
    ids=lambda each: repr(each).replace("\n", "").replace(" ", ""),
)
def test_a_fit_leaves_no_cycle_that_holds_data(estimator):
    if type(estimator).__name__ in BY_SCIPY and minimize_leaves_a_cycle():
        pytest.skip("this SciPy's minimize leaves a cycle of its own")
    bags, y = two_level_bags()
    with collector_away():
        if hasattr(estimator, "predict_survival_function"):
            y = survival_outcomes(y, np.arange(len(y)))
        estimator.fit(bags, y.astype(float) if is_regressor(estimator) else y)
        held = held_by_cycles()
    assert held < 8 * bags.n_instances


def test_a_cycle_that_holds_data_is_found():
    class Cycle:
        def __init__(self):
            self.data = np.zeros(1000)
            self.method = self.__init__

    with collector_away():
        Cycle()
        assert held_by_cycles() == 8000
