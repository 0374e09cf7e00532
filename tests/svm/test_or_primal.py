"""Linear problems whose multipliers have too few digits: the primal takes over."""

from __future__ import annotations

import numpy as np
import pytest

from milearn.exceptions import SolverError
from milearn.svm import MISVC, SDPMIL, CoupledMISVR, InstanceMISVC, _coupled, _formulations
from tests.common.objectives import stated_objective
from tests.toys import two_level_bags

MODELS = {
    "solve_mi_svm": MISVC(kernel="linear"),
    "solve_instance_labels": InstanceMISVC(kernel="linear"),
    "solve_coupled": CoupledMISVR(kernel="linear"),
}


def no_solution(*args, **kwargs):
    raise SolverError("not solved")


@pytest.mark.parametrize("name", MODELS)
def test_where_the_dual_is_not_solved_the_primal_is(name, monkeypatch):
    bags, y = two_level_bags(n_bags=16)
    model = MODELS[name]
    expected = model.set_params(solver="primal").fit(bags, y).objective_
    monkeypatch.setattr(
        _formulations if hasattr(_formulations, name) else _coupled, name, no_solution
    )
    found = model.set_params(solver="dual").fit(bags, y)
    assert found.objective_ == expected
    assert found.coef_.shape == (1, 3)
    with pytest.raises(SolverError, match="not solved"):
        type(model)(kernel="rbf").fit(bags, y)


def test_classes_of_both_kinds_stand_side_by_side(monkeypatch):
    bags, y = two_level_bags(n_bags=18, n_classes=3)
    solve, calls = _formulations.solve_mi_svm, []

    def second_fails(*args):
        calls.append(args)
        if len(calls) == 2:
            no_solution()
        return solve(*args)

    expected = MISVC(kernel="linear").fit(bags, y)
    monkeypatch.setattr(_formulations, "solve_mi_svm", second_fails)
    model = MISVC(kernel="linear").fit(bags, y)
    scores = bags.instances @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.instance_decision_function(bags), scores, atol=1e-12)
    np.testing.assert_allclose(model.coef_[[0, 2]], expected.coef_[[0, 2]], atol=1e-12)
    assert model.objective_[1] <= 1.05 * expected.objective_[1]
    assert not hasattr(model, "dual_coef_")


@pytest.mark.parametrize("Model", [MISVC, InstanceMISVC, SDPMIL], ids=lambda each: each.__name__)
def test_the_objective_is_that_of_the_weights_for_features_of_any_size(Model):
    bags, y = two_level_bags(n_bags=14, shift=0.5)
    large = bags.with_instances(1e8 * bags.instances)
    model = Model(kernel="linear").fit(large, y)
    value, rounding = stated_objective(model, large, y)
    assert model.objective_ > 1.0
    assert model.objective_ == pytest.approx(value, rel=1e-6, abs=rounding)
    assert model.dual_gap_ <= 1e-3 * model.objective_
