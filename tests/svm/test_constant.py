"""Fits that end in a constant say so, with what helps: of rare classes it is often the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.metrics import roc_auc_score

from milearn import Bags
from milearn.baselines import SparseMISVC
from milearn.svm import (
    MISVC,
    MISVR,
    SDPMIL,
    CoupledMISVC,
    CoupledMISVR,
    InstanceMISVC,
    OrdinalMISVC,
)
from tests.common.few_trees import MIClassifier, MIRegressor

BALANCED, RBF = {"class_weight": "balanced"}, {"kernel": "rbf"}
MODELS = [
    (MISVC(C=1.0, kernel="linear"), BALANCED),
    (InstanceMISVC(C=1.0, kernel="linear"), BALANCED),
    (CoupledMISVC(kernel="linear"), BALANCED),
    (OrdinalMISVC(), BALANCED),
    (SDPMIL(C=1.0, kernel="linear"), BALANCED),
    (MISVR(kernel="linear"), RBF),
    (CoupledMISVR(kernel="linear"), RBF),
    (SparseMISVC(kernel="linear", variant="stmil"), {"variant": "sbmil"}),
]


def rare_class(model=None, n_rare=2, n_others=40):
    """Bags of which one in twenty has an instance of another kind."""
    n_features, size = (3, 10) if isinstance(model, SparseMISVC) else (5, 6)
    rng, y = np.random.default_rng(0), np.repeat([1, 0], [n_rare, n_others])
    bags = rng.normal(size=(len(y), size, n_features))
    bags[:n_rare, 0, 0] += 2.0
    return Bags.from_list(list(bags)), y


@pytest.mark.parametrize(("model", "remedy"), MODELS, ids=lambda given: type(given).__name__)
def test_a_constant_names_its_remedy(model, remedy):
    X, y = rare_class(model)
    [(name, value)] = remedy.items()
    text = f'^{type(model).__name__} found a constant, .* in 1 of 1 .*: try {name}="{value}"'
    with pytest.warns(UserWarning, match=text):
        clone(model).fit(X, y)
    # Warnings are errors.
    helped = clone(model).set_params(**remedy).fit(X, y)
    scores = helped.predict(X) if is_regressor(model) else helped.decision_function(X)
    assert roc_auc_score(y, scores) > 0.7


def test_one_class_of_three():
    X, y = rare_class()
    y[2:20] = 2
    X = X.with_instances(X.instances + 6.0 * (y[X.bag_index] == 2)[:, None])
    with pytest.warns(UserWarning, match=r"in 1 of 3 problem\(s\)"):
        model = MISVC(C=1.0, kernel="linear").fit(X, y)
    assert (np.ptp(model.decision_function(X), axis=0) > 1e-9).tolist() == [True, False, True]


@pytest.mark.parametrize("scale", [1e-12, 1e6])
def test_values_of_any_scale(scale):
    X, y = rare_class()
    values = scale * np.random.default_rng(0).normal(size=len(y))
    MISVR(kernel="linear").fit(X, values)
    with pytest.warns(UserWarning, match="found a constant"):
        MISVR(kernel="linear").fit(X, scale * y)


@pytest.mark.parametrize("model", [MISVC(), MISVC(kernel="linear"), SparseMISVC(), MISVR()])
def test_what_has_to_be_constant_is_no_surprise(model):
    X, y = rare_class()
    clone(model).fit(Bags(np.ones_like(X.instances), X.offsets), y)
    if is_regressor(model):
        clone(model).fit(X, np.ones_like(y))


@pytest.mark.parametrize("kind", [MIClassifier, MIRegressor])
def test_automatic_estimators_leave_constants_out(kind):
    kind(random_state=0).fit(*rare_class(n_rare=4, n_others=36))
