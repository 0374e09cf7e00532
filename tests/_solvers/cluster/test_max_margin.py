"""The parts of M3IC against statements that cannot be wrong: loops, cvxpy, enumeration."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise, product

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from milearn._solvers.cluster import max_margin as _clusters
from milearn._solvers.cluster.max_margin import (
    ClusterProblem,
    LinearisedRisk,
    max_margin_clusters,
)
from milearn._solvers.common.cutting_plane import CuttingPlaneOptions, RiskProblem, cutting_plane
from milearn._solvers.common.options import SolverOptions
from milearn._solvers.common.passes import ArraySource

EXACT = (SolverOptions(tol=1e-10, max_iter=100), 1e-10)
ROUGH = (SolverOptions(tol=0.01, max_iter=100), 0.05)


def some_bags(seed, n_bags=12, d=3, largest=4, shift=1.5):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    instances = rng.normal(size=(offsets[-1], d))
    instances[offsets[:-1], np.arange(n_bags) % d] += shift
    return instances, offsets


def margins(weights, instances):
    """g of each instance, as the problem defines it."""
    k = len(weights)
    scores = instances @ weights.T
    return k / (k - 1) * (scores.max(axis=1) - scores.mean(axis=1))


def objective(weights, instances, offsets, C):
    g = margins(weights, instances)
    hinges = [max(0.0, 1 - g[a:b].max()) for a, b in pairwise(offsets)]
    return 0.5 * np.sum(weights**2) + C * np.mean(hinges)


def sum_of_means(instances, offsets):
    pairs = pairwise(offsets)
    return np.sum([instances[a:b].mean(axis=0) for a, b in pairs], axis=0)


def linearised_optimum(witnesses, clusters, k, C, balance, m):
    """Problem (11) of the paper, with its n slacks, as cvxpy solves it."""
    n, d = witnesses.shape
    W = cp.Variable((k, d))
    xi = cp.Variable(n, nonneg=True)
    constraints = []
    for i in range(n):
        margin = k / (k - 1) * ((W[clusters[i]] - cp.sum(W, axis=0) / k) @ witnesses[i])
        constraints.append(margin >= 1 - xi[i])
    if balance is not None:
        constraints += [cp.abs((W[p] - W[q]) @ m) <= balance for p in range(k) for q in range(p)]
    value = cp.Minimize(0.5 * cp.sum_squares(W) + C / n * cp.sum(xi))
    problem = cp.Problem(value, constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)
    return problem.value, W.value


def linearised(witnesses, clusters, k, C, balance, m, tol):
    """The same problem through the oracle and the engine."""
    order = np.argsort(clusters, kind="stable")
    source = ArraySource(np.atleast_2d(m), np.array([0, 1]))
    given = _clusters._Balance.of(ClusterProblem(source, C, balance, m), k)
    counts = np.bincount(clusters, minlength=k)
    risk = LinearisedRisk(witnesses[order], counts, normal=given.normal)
    problem = RiskProblem(
        risk,
        k * len(m),
        np.array([C]),
        constraints=given.rows,
        constraint_bound=given.bound,
        common_shift=given.common_shift,
    )
    return cutting_plane(problem, CuttingPlaneOptions(tols=tol))


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("balance", [None, 0.0, 0.3, 50.0])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_the_linearised_problem_equals_cvxpy(k, balance, C):
    rng = np.random.default_rng(0)
    witnesses = rng.normal(size=(15, 4)) + 0.5
    clusters = rng.integers(k, size=15)
    m = witnesses.sum(axis=0)
    expected, W = linearised_optimum(witnesses, clusters, k, C, balance, m)
    assert np.abs(W.sum(axis=0)).max() < 1e-5, "zero-sum weights lose nothing"
    result = linearised(witnesses, clusters, k, C, balance, m, 1e-10)
    assert result.converged
    assert result.objective == pytest.approx(expected, rel=1e-6)
    assert result.lower_bound == pytest.approx(expected, rel=1e-6)
    found = result.w.reshape(k, -1)
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-12)
    if balance is not None:
        gaps = np.abs((found[:, None] - found[None]) @ m)
        assert gaps.max() <= balance + 1e-7


@pytest.mark.parametrize("tol", [0.1, 0.01, 1e-4])
def test_the_cutting_plane_stops_within_its_tolerance(tol):
    rng = np.random.default_rng(0)
    witnesses, clusters = rng.normal(size=(60, 8)), rng.integers(3, size=60)
    m, C = witnesses.sum(axis=0), 10.0
    exact = linearised(witnesses, clusters, 3, C, 1.0, m, 1e-10).objective
    rough = linearised(witnesses, clusters, 3, C, 1.0, m, tol)
    assert rough.converged
    assert rough.violations[0] <= tol
    assert exact * (1 - 1e-9) <= rough.objective <= exact + C * tol
    assert rough.lower_bound <= exact * (1 + 1e-9)


@pytest.mark.parametrize("form", ["dense", "csr", "float32", "blocks"])
def test_the_oracle_gives_value_and_subgradient(form, monkeypatch):
    rng = np.random.default_rng(1)
    witnesses = rng.normal(size=(20, 3)).astype(np.float32).astype(float)
    counts = np.array([5, 0, 15])
    clusters = np.repeat(np.arange(3), counts)
    given = {"csr": sparse.csr_array, "float32": lambda x: x.astype(np.float32)}
    if form == "blocks":
        monkeypatch.setattr(_clusters, "_BLOCK_BYTES", 8 * 3 * 4)
        given["blocks"] = given["float32"]
    risk = LinearisedRisk(given.get(form, np.asarray)(witnesses), counts)

    def value_at(w):
        W = w.reshape(3, 3)
        own = np.einsum("ij,ij->i", W[clusters] - W.mean(axis=0), witnesses)
        return np.mean(np.maximum(0, 1 - 1.5 * own))

    for _ in range(5):
        w, v = rng.normal(size=9), rng.normal(size=9)
        values, slopes, free = risk(w, np.zeros(0))
        assert values[0] == pytest.approx(value_at(w), rel=1e-12)
        assert free.shape == (1, 0)
        # A subgradient: the tangent plane lies below, and touches nearby.
        assert value_at(v) >= values[0] + slopes[0] @ (v - w) - 1e-12
        near = w + 1e-7 * v
        assert value_at(near) == pytest.approx(values[0] + slopes[0] @ (near - w), abs=1e-12)


@pytest.mark.parametrize("balance", [None, 0.0, 0.5])
@pytest.mark.parametrize(("k", "C"), [(2, 1.0), (3, 30.0)])
def test_descent_and_the_value_of_the_problem(k, C, balance):
    instances, offsets = some_bags(5, n_bags=40, d=4)
    problem = ClusterProblem.of(ArraySource(instances, offsets), C, balance)
    m = sum_of_means(instances, offsets)
    for seed in range(3):
        start = np.random.default_rng(seed).normal(size=(k, 4))
        for precision in (ROUGH, EXACT):
            result = max_margin_clusters(problem, start, *precision)
            assert result.converged
            assert result.steps_converged
            assert np.diff(result.history).max(initial=0.0) <= 0
            assert result.history[-1] == result.objective
            value = objective(result.weights, instances, offsets, C)
            assert result.objective == pytest.approx(value, rel=1e-10)
            if balance is not None:
                gaps = np.abs((result.weights[:, None] - result.weights[None]) @ m)
                assert gaps.max() <= balance + 1e-7 * np.linalg.norm(m)


@pytest.mark.parametrize("balance", [None, 0.4])
def test_a_result_is_a_fixed_point(balance):
    instances, offsets = some_bags(2, n_bags=20)
    C = 5.0
    start = np.random.default_rng(0).normal(size=(3, 3))
    problem = ClusterProblem.of(ArraySource(instances, offsets), C, balance)
    result = max_margin_clusters(problem, start, *EXACT)
    m = sum_of_means(instances, offsets)
    value, _ = linearised_optimum(instances[result.witnesses], result.labels, 3, C, balance, m)
    assert result.objective == pytest.approx(value, rel=1e-6)


def global_optimum(instances, offsets, k, C, balance):
    """The smallest optimum over all choices of witnesses and clusters, which have no names."""
    m = sum_of_means(instances, offsets)
    rows = [range(a, b) for a, b in pairwise(offsets)]

    def in_order(clusters):
        # Each name appears first after all smaller ones.
        highest = np.maximum.accumulate((-1, *clusters))
        return all(name <= top + 1 for name, top in zip(clusters, highest[:-1], strict=True))

    partitions = list(filter(in_order, product(range(k), repeat=len(rows))))
    return min(
        linearised_optimum(instances[list(chosen)], np.array(clusters), k, C, balance, m)[0]
        for chosen in product(*rows)
        for clusters in partitions
    )


def best_of(instances, offsets, k, C, balance, n_init=40):
    problem = ClusterProblem.of(ArraySource(instances, offsets), C, balance)
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=(k, instances.shape[1])) for _ in range(n_init)]
    return min(max_margin_clusters(problem, start, *EXACT).objective for start in starts)


@pytest.mark.parametrize("balance", [None, 0.2])
def test_restarts_reach_the_global_optimum_of_few_bags(balance):
    rng = np.random.default_rng(3)
    instances, offsets = rng.normal(size=(7, 2)), np.array([0, 2, 4, 5, 7])
    expected = global_optimum(instances, offsets, 2, 4.0, balance)
    assert best_of(instances, offsets, 2, 4.0, balance) == pytest.approx(expected, rel=1e-6)


def test_with_one_instance_per_bag_it_is_multi_class_maximum_margin_clustering():
    # Over all labelings of five points; one cluster is not enough for the lowest value.
    rng = np.random.default_rng(4)
    points = rng.normal(size=(5, 2))
    expected = global_optimum(points, np.arange(6), 3, 6.0, 0.5)
    assert best_of(points, np.arange(6), 3, 6.0, 0.5) == pytest.approx(expected, rel=1e-6)


def test_two_clusters_of_points_are_maximum_margin_clustering_in_its_own_words():
    # One vector v = w_1 - w_2 and labels +-1: min 1/4 |v|^2 + C/n sum [1 - y v'x]_+.
    rng = np.random.default_rng(5)
    points, C, balance = rng.normal(size=(6, 2)) + 0.3, 5.0, 0.5
    values = []
    for signs in product([1.0], *[[-1.0, 1.0]] * 5):  # -v turns all of them
        v = cp.Variable(2)
        slack = cp.sum(cp.pos(1 - cp.multiply(np.array(signs), points @ v)))
        fair = [cp.abs(v @ points.sum(axis=0)) <= balance]
        problem = cp.Problem(cp.Minimize(cp.sum_squares(v) / 4 + C / 6 * slack), fair)
        values.append(problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_gap_abs=1e-10))
    found = best_of(points, np.arange(7), 2, C, balance)
    assert found == pytest.approx(min(values), rel=1e-6)


@pytest.mark.parametrize("k", [3, 20])
def test_memory_of_the_balance_is_linear_in_the_weights(k):
    # Dense rows of all pairs, in both directions and twice, took k**3 times the features.
    d, C = 4000, 10.0
    rng = np.random.default_rng(0)
    instances = rng.normal(size=(60, d)) / np.sqrt(d)
    problem = ClusterProblem.of(ArraySource(instances, np.arange(0, 61, 2)), C, 1.0)
    start = rng.normal(size=(k, d))
    options = SolverOptions(tol=0.01, max_iter=2)
    max_margin_clusters(problem, start, options, 0.01)  # imports do not count
    tracemalloc.start()
    result = max_margin_clusters(problem, start, options, 0.01)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    weights = 8 * k * d
    # Cuts and their copies while room is made for more, of each convex step.
    assert peak < (4 * result.n_cuts + 64) * weights
    gaps = np.abs((result.weights[:, None] - result.weights[None]) @ problem.mean_sum)
    assert gaps.max() <= 1.0 + 1e-6
