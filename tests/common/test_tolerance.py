"""Tolerances of the estimators that are solved over rows, where there are many instances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from milearn._solvers.common import cccp
from milearn._solvers.common.newton import engine
from milearn.datasets import make_affinity, make_bags
from milearn.structured import MILSD
from milearn.survival import MICoxPH, survival_outcomes
from milearn.svm import MISVC, MISVR, CoupledMISVC, InstanceMISVC, OrdinalMISVC

BAGS, Y = make_bags(200, 10, bag_size=(3, 8), flip_y=0.1, random_state=0)
MOLECULES, ENERGY = make_affinity(n_bags=80, random_state=0)
GRADES = np.digitize(ENERGY, np.quantile(ENERGY, [0.3, 0.6]))
TIMES = survival_outcomes(np.arange(80) % 3 > 0, np.exp(ENERGY - ENERGY.min()))
FITS = {
    "slack of a bag": (MISVC(kernel="linear"), BAGS, Y),
    "slack of an instance": (MISVC(kernel="linear", slack="instance"), BAGS, Y),
    "landmarks": (MISVC(n_components=30, random_state=0), BAGS, Y),
    "labels": (InstanceMISVC(kernel="linear"), BAGS, Y),
    "coupled": (CoupledMISVC(kernel="linear"), BAGS, Y),
    "regression": (MISVR(kernel="linear"), MOLECULES, ENERGY),
    "grades": (OrdinalMISVC(), MOLECULES, GRADES),
    "survival": (MICoxPH(), MOLECULES, TIMES),
    "no links": (MILSD(mu=0.0, C=1000.0), BAGS, Y),
}


@pytest.mark.parametrize("name", FITS)
def test_a_given_tolerance_holds_for_many_instances(name, monkeypatch):
    monkeypatch.setattr(cccp, "_FINE_NUMBERS", 0)
    model, bags, y = FITS[name]
    model = clone(model).set_params(tol=1e-6).fit(bags, y)
    assert model.converged_
    assert model.dual_gap_ <= 1e-6 * model.objective_


def test_by_default_many_instances_have_a_coarser_tolerance(monkeypatch):
    model, bags, y = FITS["slack of an instance"]
    fine = clone(model).fit(bags, y)
    assert fine.dual_gap_ <= 1e-6 * fine.objective_
    monkeypatch.setattr(cccp, "_FINE_NUMBERS", 0)
    coarse = clone(model).fit(bags, y)
    assert 1e-6 < coarse.dual_gap_ / coarse.objective_ <= 5e-4
    assert coarse.converged_


@pytest.mark.parametrize("name", FITS)
def test_a_step_that_misses_its_tolerance_warns_and_has_not_converged(name, monkeypatch):
    monkeypatch.setattr(engine, "_MAX_STEPS_IN_ALL", 1)
    model, bags, y = FITS[name]
    with pytest.warns(ConvergenceWarning, match="solved to a relative duality gap of"):
        model = clone(model).set_params(tol=1e-12).fit(bags, y)
    assert not model.converged_
