"""Linear problems that do not depend on where zero is, a million away from it."""

from __future__ import annotations

import numpy as np
import pytest

from milearn.svm import MISVC, MISVR, SDPMIL, CoupledMISVC, InstanceMISVC
from tests.toys import OFTEN_CONSTANT, two_level_bags

MODELS = [
    make(kernel="linear", **settings)
    for make, settings in [
        (MISVC, {}),
        (MISVC, {"slack": "instance"}),
        (MISVR, {"C": 100.0}),
        (InstanceMISVC, {}),
        (SDPMIL, {}),
    ]
]
AWAY = np.array([1e6, -1e6, 0.0])


def shifted(n_bags=30, **settings):
    bags, y = two_level_bags(n_bags=n_bags, shift=1.0, **settings)
    return bags, bags.with_instances(bags.instances + AWAY), y


def scores(model, bags):
    if hasattr(model, "instance_decision_function"):
        return model.instance_decision_function(bags)
    return model.predict_instances(bags)


@pytest.mark.parametrize("model", MODELS, ids=lambda each: repr(each).replace(" ", ""))
def test_the_solution_is_that_about_zero(model):
    bags, far, y = shifted()
    if isinstance(model, MISVR):
        y = np.maximum.reduceat(bags.instances @ [1.0, 0.5, 0.0], bags.offsets[:-1])
    model.fit(bags, y)
    objective, expected, coef = model.objective_, scores(model, bags), model.coef_
    assert np.abs(coef).max() > 0.1
    model.fit(far, y)
    rel = 1e-6
    assert model.objective_ == pytest.approx(objective, rel=rel)
    np.testing.assert_allclose(scores(model, far), expected, atol=1e3 * rel)
    np.testing.assert_allclose(model.coef_, coef, atol=1e3 * rel)
    np.testing.assert_allclose(
        scores(model, far), (far.instances @ model.coef_.T + model.intercept_)[:, 0], atol=1e-8
    )


@pytest.mark.parametrize("Model", [CoupledMISVC, MISVC])
@OFTEN_CONSTANT
def test_only_what_does_not_depend_on_zero_is_moved(Model):
    # Norms of bags do: far from zero the bag kernel sees one direction.
    bags, far, y = shifted()
    near, away = (Model(kernel="linear").fit(each, y).objective_ for each in (bags, far))
    assert (away == pytest.approx(near, rel=1e-6)) == (Model is MISVC)
