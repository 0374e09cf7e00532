"""The convex problem with slacks by group against cvxpy and scikit-learn's SVC."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from milearn._bags.segments import pooling_matrix
from milearn._solvers.common.gram import KernelGram, LinearGram
from milearn._solvers.svm import working_set
from milearn._solvers.svm.objectives import Groups
from milearn._solvers.svm.working_set import WorkingSet, _Dual, solve_step


def random_patterns(seed, *, single, means, n_groups=14, d=4):
    """Groups of one to five patterns; with ``means`` each pattern is a mean of instances."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(n_groups) % 3 == 0, 1.0, -1.0)
    sizes = np.ones(n_groups, dtype=int) if single else rng.integers(1, 6, size=n_groups)
    sizes[signs > 0] = 1
    n_patterns = sizes.sum()
    per_pattern = rng.integers(1, 4, size=n_patterns) if means else np.ones(n_patterns, dtype=int)
    n = per_pattern.sum()
    instances = rng.normal(size=(n, d)) + 3.0
    group_offsets = np.r_[0, np.cumsum(sizes)]
    row_offsets = np.r_[0, np.cumsum(per_pattern)]
    positive = np.repeat(np.repeat(signs, sizes), per_pattern) > 0
    instances[positive] += 0.7
    weights = rng.uniform(0.5, 2.0, size=n_groups)
    P = pooling_matrix(row_offsets)
    groups = Groups(P, group_offsets, signs, weights, np.ones(n_patterns))
    return instances, groups, P @ instances


def by_cvxpy(vectors, patterns, scale):
    w, b = cp.Variable(vectors.shape[1]), cp.Variable()
    xi = cp.Variable(len(patterns.signs), nonneg=True)
    group = np.repeat(np.arange(len(patterns.signs)), np.diff(patterns.offsets))
    margins = cp.multiply(patterns.signs[group], vectors @ w + b)
    cost = 0.5 * cp.sum_squares(w) + scale * patterns.costs @ xi
    problem = cp.Problem(cp.Minimize(cost), [margins >= 1 - xi[group]])
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_objective_equals_cvxpy(seed, single, means, scale):
    instances, patterns, vectors = random_patterns(seed, single=single, means=means)
    expected = by_cvxpy(vectors, patterns, scale)
    patterns = replace(patterns, costs=patterns.costs * scale)
    solution = solve_step(LinearGram(instances), patterns, tol=1e-9)
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert -1e-12 <= solution.gap / solution.objective <= 1e-9


def test_kernel_equals_its_feature_map():
    instances, patterns, _ = random_patterns(5, single=False, means=False)
    gram = KernelGram(instances, rbf_kernel, 10**8)
    values, vectors = np.linalg.eigh(rbf_kernel(instances))
    features = vectors * np.sqrt(np.maximum(values, 0))
    solution = solve_step(gram, patterns, tol=1e-8)
    assert solution.objective == pytest.approx(by_cvxpy(features, patterns, 1.0), rel=1e-6)


def test_a_start_from_the_solution_stays_there_by_the_active_set(monkeypatch):
    instances, patterns, _ = random_patterns(7, single=False, means=False, n_groups=40)
    gram = KernelGram(instances, rbf_kernel, 10**8)
    first = solve_step(gram, patterns, tol=1e-9)
    monkeypatch.setattr(_Dual, "_by_newton", None)
    again = solve_step(gram, patterns, tol=1e-9, start=first.working)
    assert again.objective == pytest.approx(first.objective, rel=1e-9)


def test_a_start_whose_patterns_have_come_to_one_side():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    costs, groups = np.full(12, 1.0), np.arange(13)
    signs = np.where(np.arange(12) < 6, 1.0, -1.0)
    gram = LinearGram(X)
    patterns = Groups.of_rows(np.arange(12), 12, groups, signs, costs)
    start = WorkingSet(np.arange(12) < 3, np.zeros(12), signs, np.zeros(12))
    solution = solve_step(gram, patterns, tol=1e-9, start=start)
    fresh = solve_step(gram, patterns, tol=1e-9)
    assert solution.objective == pytest.approx(fresh.objective, rel=1e-8)


def test_an_offset_shared_by_all_instances_costs_no_digits():
    instances, patterns, _ = random_patterns(8, single=False, means=False)
    near = solve_step(LinearGram(instances), patterns, tol=1e-9)
    far = solve_step(LinearGram(instances + 1e4), patterns, tol=1e-9)
    assert far.objective == pytest.approx(near.objective, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e3])
def test_a_rough_solution_has_a_certified_gap(scale, monkeypatch):
    instances, patterns, vectors = random_patterns(9, single=False, means=True, n_groups=60)
    patterns = replace(patterns, costs=patterns.costs * scale)
    expected = by_cvxpy(vectors, patterns, 1.0)
    monkeypatch.setattr(working_set, "active_set_iterations", lambda *given: None)
    monkeypatch.setattr(working_set, "_PRECISE_PATTERNS", 0)
    found = solve_step(LinearGram(instances), patterns, tol=1e-9, rough=1e-2)
    assert found.gap > 1e-6 * found.objective
    assert found.objective == pytest.approx(expected, rel=1e-2)
    assert found.objective >= expected * (1 - 1e-6)
    assert found.objective - found.gap <= expected * (1 + 1e-6)
    # Its coefficients are those of its scores and its norm.
    products = instances @ instances.T
    assert found.scores == pytest.approx(products @ found.coef, abs=1e-6 * scale)
    assert found.norm2 == pytest.approx(found.coef @ products @ found.coef, rel=1e-6)


def test_products_without_a_factor_are_solved(monkeypatch):
    """A factor by eigenvalues, where rounding leaves negative ones."""
    instances, patterns, vectors = random_patterns(9, single=True, means=False, n_groups=60)
    monkeypatch.setattr(working_set, "_JITTER", -1e-3)
    monkeypatch.setattr(working_set, "active_set_iterations", lambda *given: None)
    solution = solve_step(LinearGram(instances), patterns, tol=1e-6, rough=1e-2)
    assert solution.objective == pytest.approx(by_cvxpy(vectors, patterns, 1.0), rel=1e-2)


def test_the_working_set_keeps_a_pattern_of_each_sign():
    signs = np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    shares, margins = np.array([0.5, 0, 0, 0, 0]), np.array([1.0, 5.0, 3.0, 2.0, 0.0])
    working = WorkingSet(np.arange(5) < 4, shares, signs, margins)
    working.drop(working.margins > 1.2)
    np.testing.assert_array_equal(working.inside, [True, False, False, True, False])


@pytest.mark.parametrize("seed", [3, 4])
def test_one_extreme_instance_is_solved(seed):
    X, n = np.random.default_rng(seed).normal(size=(42, 3)), 42
    X[-1] = [1e6, -1e6, 0.0]
    signs = np.repeat(np.where(np.arange(14) % 2, 1.0, -1.0), 3)
    patterns = Groups.of_rows(np.arange(n), n, np.arange(n + 1), signs, np.full(n, 10.0))
    solution = solve_step(LinearGram(X), patterns, tol=1e-7)
    assert solution.objective - solution.gap <= 10.0 * n
    assert set(signs[solution.working.inside]) == {1.0, -1.0}
