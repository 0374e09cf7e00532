"""Fitted state: after another fit, after a failed one, in threads, in workers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from milearn.datasets import make_affinity, make_bags
from milearn.svm import MISVC, CoupledMISVC, CoupledMISVR

BAGS, Y = make_bags(n_bags=24, random_state=0)
THREE = np.arange(24) % 3


def public(model):
    return {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (MISVC(kernel="linear"), {"kernel": "rbf"}),
        (CoupledMISVC(kernel="rbf"), {"kernel": "linear", "n_components": 5}),
        (MISVC(n_components=5), {"n_components": None}),
        (CoupledMISVC(bag_kernel="minmax"), {"bag_kernel": "set"}),
    ],
)
def test_nothing_of_an_earlier_fit_outlives_a_later_one(first, second):
    model = clone(first).set_params(random_state=0).fit(BAGS, Y)
    model.set_params(**second).fit(BAGS, Y)
    fresh = clone(model).fit(BAGS, Y)
    assert public(model) == public(fresh)
    np.testing.assert_allclose(model.decision_function(BAGS), fresh.decision_function(BAGS))


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


def test_jobs_of_the_context_are_used_and_report(capsys):
    with parallel_config(backend="threading", n_jobs=2):
        MISVC(n_init=2, random_state=0, verbose=True).fit(BAGS, Y)
    printed = capsys.readouterr().out
    assert "run 1/2, iteration 1" in printed
    assert "run 2/2, iteration 1" in printed


def test_a_warning_in_a_search_does_not_point_into_scikit_learn():
    from sklearn.model_selection import cross_val_score

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(MISVC(max_iter=1, init="mean"), BAGS, Y, cv=2)
    found = [each for each in caught if issubclass(each.category, ConvergenceWarning)]
    assert found
    assert {each.filename for each in found} == {__file__}


def test_constant_targets_are_no_problem():
    X, _ = make_affinity(n_bags=20, random_state=0)
    for target in (0.0, 1.0, -1e6):
        model = CoupledMISVR().fit(X, np.full(20, target))
        np.testing.assert_allclose(model.predict(X), target, atol=1e-9 * max(1.0, abs(target)))
