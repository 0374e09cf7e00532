"""Kernels between instances in the estimators that take them."""

from __future__ import annotations

import numpy as np
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.metrics.pairwise import rbf_kernel

from milearn import Bags
from milearn.baselines import SparseMISVC
from milearn.metrics import bag_kernel
from milearn.svm import MISVC, SDPMIL, InstanceMISVC
from milearn.svm._fit import class_fit

ESTIMATORS = [MISVC, InstanceMISVC, SDPMIL, SparseMISVC]


@pytest.fixture
def rows():
    """Multiples of 1/64, whose sums with a large offset are exact."""
    return np.round(np.random.default_rng(0).normal(size=(60, 3)) * 64) / 64


def bags_of(rows):
    return Bags(rows, np.arange(21) * 3), np.arange(20) % 2


@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:The kernel matrix of the training instances is indefinite")
def test_kernels_that_scikit_learn_computes_on_writable_arrays(estimator, kernel, rows):
    bags, y = bags_of(np.abs(rows))
    scores = estimator(kernel=kernel).fit(bags, y).decision_function(bags)
    assert np.ptp(scores) > 0.01


def test_chi2_between_bags(rows):
    bags, _ = bags_of(np.abs(rows))
    np.testing.assert_allclose(np.diagonal(bag_kernel(bags, kernel="chi2")), 1.0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_rbf_does_not_depend_on_the_origin(estimator, rows):
    bags, y = bags_of(rows)
    far, _ = bags_of(rows + 1e7)
    expected = estimator().fit(bags, y).decision_function(bags)
    scores = estimator().fit(far, y).decision_function(far)
    np.testing.assert_allclose(scores, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", ["rbf", rbf_kernel])
def test_workers_share_the_memory_for_kernel_values(kernel, rows):
    """A kernel that may be indefinite is computed as a whole first; this one is positive."""
    bags, y = bags_of(rows)
    estimator = MISVC(kernel=kernel, n_init=2, n_jobs=2)
    with config_context(working_memory=8 * 60 * 60 / 2**20), parallel_config("threading"):
        gram = class_fit(estimator, bags, y, None).in_kernel_space().gram
    assert gram.capacity == 30
