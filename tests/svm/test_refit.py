"""Fitted state: after another fit, after a failed one, in threads, in workers."""

from __future__ import annotations

import numpy as np
from joblib import parallel_config
from sklearn.base import clone

from milearn.datasets import make_affinity, make_bags
from milearn.svm import MISVC, CoupledMISVR

BAGS, Y = make_bags(n_bags=24, random_state=0)
THREE = np.arange(24) % 3


def test_processes_that_are_forked_give_what_one_job_gives():
    # Threads and joblib's own processes are a check of every estimator.
    model = MISVC(n_init=2, random_state=0)
    serial = clone(model).fit(BAGS, THREE)
    with parallel_config(backend="multiprocessing", n_jobs=2):
        parallel = clone(model).fit(BAGS, THREE)
    np.testing.assert_allclose(parallel.objective_, serial.objective_, rtol=1e-9)
    np.testing.assert_allclose(
        parallel.decision_function(BAGS), serial.decision_function(BAGS), atol=1e-7
    )


def test_constant_targets_are_no_problem():
    X, _ = make_affinity(n_bags=20, random_state=0)
    for target in (0.0, 1.0, -1e6):
        model = CoupledMISVR().fit(X, np.full(20, target))
        np.testing.assert_allclose(model.predict(X), target, atol=1e-9 * max(1.0, abs(target)))
