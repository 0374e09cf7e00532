"""The convex problem with slacks by group against cvxpy and scikit-learn's SVC."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from milearn._solvers.common.gram import KernelGram, LinearGram
from milearn._solvers.svm import grouped_hinge
from milearn._solvers.svm.grouped_hinge import Patterns, WorkingSet, solve_grouped_svm
from milearn.exceptions import SolverError


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
    patterns = Patterns(np.arange(n), row_offsets if means else None, group_offsets, signs, weights)
    vectors = np.add.reduceat(instances, row_offsets[:-1]) / per_pattern[:, None]
    return instances, patterns, vectors


def by_cvxpy(vectors, patterns, scale):
    w, b = cp.Variable(vectors.shape[1]), cp.Variable()
    xi = cp.Variable(len(patterns.signs), nonneg=True)
    group = np.repeat(np.arange(len(patterns.signs)), np.diff(patterns.group_offsets))
    margins = cp.multiply(patterns.signs[group], vectors @ w + b)
    cost = 0.5 * cp.sum_squares(w) + scale * patterns.weights @ xi
    problem = cp.Problem(cp.Minimize(cost), [margins >= 1 - xi[group]])
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_objective_equals_cvxpy(seed, single, means, scale):
    instances, patterns, vectors = random_patterns(seed, single=single, means=means)
    expected = by_cvxpy(vectors, patterns, scale)
    patterns.weights = patterns.weights * scale
    solution = solve_grouped_svm(LinearGram(instances), patterns, tol=1e-9)
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert -1e-12 <= solution.gap / solution.objective <= 1e-9


def test_kernel_equals_its_feature_map():
    instances, patterns, _ = random_patterns(5, single=False, means=False)
    gram = KernelGram(instances, rbf_kernel, 10**8)
    values, vectors = np.linalg.eigh(rbf_kernel(instances))
    features = vectors * np.sqrt(np.maximum(values, 0))
    solution = solve_grouped_svm(gram, patterns, tol=1e-8)
    assert solution.objective == pytest.approx(by_cvxpy(features, patterns, 1.0), rel=1e-6)


def test_a_start_from_the_solution_stays_there_without_a_backend(monkeypatch):
    instances, patterns, _ = random_patterns(7, single=False, means=False, n_groups=40)
    gram = KernelGram(instances, rbf_kernel, 10**8)
    first = solve_grouped_svm(gram, patterns, tol=1e-9)
    monkeypatch.setattr(grouped_hinge, "solve_qp", None)
    again = solve_grouped_svm(gram, patterns, tol=1e-9, start=first.working)
    assert again.objective == pytest.approx(first.objective, rel=1e-9)


def test_a_start_whose_patterns_have_come_to_one_side():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    costs, groups = np.full(12, 1.0), np.arange(13)
    signs = np.where(np.arange(12) < 6, 1.0, -1.0)
    gram = LinearGram(X)
    patterns = Patterns(np.arange(12), None, groups, signs, costs)
    start = WorkingSet.from_patterns(np.arange(3), signs, 12)
    solution = solve_grouped_svm(gram, patterns, tol=1e-9, start=start)
    fresh = solve_grouped_svm(gram, patterns, tol=1e-9)
    assert solution.objective == pytest.approx(fresh.objective, rel=1e-8)


def test_an_offset_shared_by_all_instances_costs_no_digits():
    instances, patterns, _ = random_patterns(8, single=False, means=False)
    near = solve_grouped_svm(LinearGram(instances), patterns, tol=1e-9)
    far = solve_grouped_svm(LinearGram(instances + 1e4), patterns, tol=1e-9)
    assert far.objective == pytest.approx(near.objective, rel=1e-6)


def test_an_ill_conditioned_problem_is_solved_without_libsvm(monkeypatch):
    instances, patterns, vectors = random_patterns(9, single=True, means=False, n_groups=60)
    monkeypatch.setattr(grouped_hinge, "_libsvm_steps", lambda n: 1)
    solution = solve_grouped_svm(LinearGram(instances), patterns, tol=1e-9)
    assert solution.objective == pytest.approx(by_cvxpy(vectors, patterns, 1.0), rel=1e-6)


def test_the_working_set_keeps_a_pattern_of_each_sign():
    signs = np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    working = WorkingSet.from_patterns(np.arange(4), signs, 5)
    working.status[:] = [1, 0, 0, 0, -1]
    working.margins = np.array([1.0, 5.0, 3.0, 2.0, 0.0])
    working.drop(working.margins > 1.2)
    np.testing.assert_array_equal(working.status, [1, -1, -1, 0, -1])


def test_one_extreme_instance_is_solved_or_refused_by_the_backend():
    solved = 0
    for seed in (3, 4):
        X, n = np.random.default_rng(seed).normal(size=(42, 3)), 42
        X[-1] = [1e6, -1e6, 0.0]
        signs = np.repeat(np.where(np.arange(14) % 2, 1.0, -1.0), 3)
        patterns = Patterns(np.arange(n), None, np.arange(n + 1), signs, np.full(n, 10.0))
        try:
            solution = solve_grouped_svm(LinearGram(X), patterns, tol=1e-7)
        except SolverError:
            continue
        solved += 1
        assert solution.objective - solution.gap <= 10.0 * n
        assert set(signs[solution.working.status >= 0]) == {1.0, -1.0}
    assert solved > 0
