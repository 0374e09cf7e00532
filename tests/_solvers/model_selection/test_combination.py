"""The regression that combines models, against cvxpy, and a residual that is too large."""

from __future__ import annotations

from types import SimpleNamespace

import cvxpy
import numpy as np
import pytest

from milearn._solvers.model_selection import combination
from milearn._solvers.model_selection.combination import stacked
from milearn.exceptions import SolverError


@pytest.mark.parametrize("logistic", [True, False])
def test_models_are_combined_by_a_penalised_regression(logistic):
    rng = np.random.default_rng(0)
    targets = rng.integers(2, size=60).astype(float)
    weights = rng.integers(1, 4, size=60).astype(float)
    columns = targets[:, None] + rng.normal(size=(60, 3)) * [1.0, 2.0, 1.0]
    columns[:, 2] *= -1.0
    coef, constant = stacked(columns, targets, weights, logistic)

    def objective(v, b):
        values = b + columns @ v
        squares = 0.5 * (values - targets) ** 2
        losses = np.log1p(np.exp(values)) - targets * values if logistic else squares
        return weights @ losses + 2.0 * np.sum((v - 1 / 3) ** 2)

    # The third one knows the opposite.
    assert coef[2] == 0.0 < coef[1] < coef[0]
    lowest = objective(coef, constant)
    v, b = cvxpy.Variable(3), cvxpy.Variable()
    values = columns @ v + b
    losses = 0.5 * cvxpy.square(values - targets)
    if logistic:
        losses = cvxpy.logistic(values) - cvxpy.multiply(targets, values)
    total = weights @ losses + 2.0 * cvxpy.sum_squares(v - 1 / 3)
    best = cvxpy.Problem(cvxpy.Minimize(total), [v >= 0]).solve(solver="CLARABEL")
    assert lowest == pytest.approx(best, rel=1e-8)
    # A weight is a repetition, and the other class has the negative scores.
    again = stacked(
        *(np.repeat(each, weights.astype(int), axis=0) for each in (columns, targets)),
        np.ones(int(weights.sum())),
        logistic,
    )
    np.testing.assert_allclose(again[0], coef, atol=1e-13)
    other = stacked(-columns, 1.0 - targets, weights, logistic)
    np.testing.assert_allclose(other[0], coef, atol=1e-13)


@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e9])
def test_a_model_that_knows_the_opposite_has_no_coefficient_whatever_the_weights(weight):
    rng = np.random.default_rng(0)
    targets = rng.normal(size=40)
    columns = rng.normal(size=(40, 1)) - targets[:, None]
    coef, constant = stacked(columns, targets, np.full(40, weight), False, 1e-6 * weight)
    assert coef == 0.0
    assert constant == pytest.approx(targets.mean(), rel=1e-12)


def test_a_regression_that_did_not_converge_is_an_error(monkeypatch):
    monkeypatch.setattr(combination, "_NEWTON_STEPS", 0)
    stops = SimpleNamespace(x=np.array([5.0, 5.0, 0.0]))
    monkeypatch.setattr(combination, "minimize", lambda *args, **options: stops)
    with pytest.raises(SolverError, match="that combines models has the residual"):
        stacked(np.eye(2), np.array([0.0, 1.0]), np.ones(2), True)
