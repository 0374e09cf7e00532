"""The 1-norm support vector machine against the same linear program in cvxpy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from milearn._solvers.baselines.one_norm import solve_one_norm
from milearn._solvers.common.cccp import optimal_intercept


def problem(seed, n_bags=25, n_features=60):
    rng = np.random.default_rng(seed)
    rows = rng.random((n_bags, n_features))
    signs = np.where(rng.random(n_bags) < 0.4, 1.0, -1.0)
    signs[:2] = 1.0, -1.0
    return rows, signs, rng.uniform(0.2, 3.0, n_bags)


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_objective_is_that_of_cvxpy(scale):
    rows, signs, costs = problem(0)
    costs = scale * costs
    found = solve_one_norm(rows, signs, costs)
    w, b = cp.Variable(rows.shape[1]), cp.Variable()
    loss = costs @ cp.pos(1 - cp.multiply(signs, rows @ w + b))
    expected = cp.Problem(cp.Minimize(cp.norm1(w) + loss)).solve(solver=cp.CLARABEL)
    assert found.objective == pytest.approx(expected, rel=1e-6)
    slack = np.maximum(0, 1 - signs * (rows @ found.coef + found.intercept))
    assert found.objective == pytest.approx(np.abs(found.coef).sum() + costs @ slack, rel=1e-12)
    assert found.objective - found.lower_bound <= 1e-6 * found.objective


@pytest.mark.parametrize("seed", range(5))
def test_the_intercept_is_the_middle_of_the_optimal_ones(seed):
    rng = np.random.default_rng(seed)
    scores, signs = rng.normal(size=8), np.r_[np.ones(4), -np.ones(4)]
    # Equal costs of both classes: the loss has a flat part.
    costs = np.ones(8) if seed % 2 else rng.uniform(0.5, 2.0, 8)
    grid = np.linspace(-6, 6, 24001)
    loss = np.maximum(0, 1 - signs * (scores + grid[:, None])) @ costs
    best = grid[loss <= loss.min() + 1e-9]
    middle = optimal_intercept(scores, signs, costs)
    assert middle == pytest.approx(0.5 * (best[0] + best[-1]), abs=1e-3)


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_weights_are_those_of_a_vertex(seed, scale):
    rows, signs, costs = problem(seed, n_bags=60, n_features=200)
    found = solve_one_norm(rows, signs, scale * costs)
    # A vertex has at most as many weights as there are rows.
    assert np.count_nonzero(found.coef) <= 60
    assert found.objective - found.lower_bound <= 1e-6 * found.objective


def test_equal_and_constant_features_are_no_obstacle():
    rows, signs, costs = problem(4, n_bags=40, n_features=12)
    rows[:, 3], rows[:, 4] = 1.0, 0.0
    once = solve_one_norm(rows, signs, 20 * costs)
    twice = solve_one_norm(np.repeat(rows, 2, axis=1), signs, 20 * costs)
    assert twice.objective == pytest.approx(once.objective, rel=1e-7)
    assert twice.objective - twice.lower_bound <= 1e-7 * twice.objective
