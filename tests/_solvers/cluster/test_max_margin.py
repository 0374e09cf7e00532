"""The parts of M3IC against statements that cannot be wrong: loops, cvxpy, enumeration."""

from __future__ import annotations

from itertools import pairwise, product

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

from milearn._bags.blocks import ArraySource
from milearn._solvers.cluster.assignment import assign
from milearn._solvers.cluster.balance import Balance
from milearn._solvers.cluster.cutting_plane import cutting_plane
from milearn._solvers.cluster.margins import LinearisedRisk
from milearn._solvers.cluster.max_margin import ClusterProblem, max_margin_clusters
from milearn._solvers.common.cccp import SolverOptions

EXACT = SolverOptions(tol=1e-10, max_iter=100)
ROUGH = SolverOptions(tol=0.01, max_iter=100)


def some_bags(seed, n_bags=12, d=3, largest=4, shift=1.5):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    instances = rng.normal(size=(offsets[-1], d))
    instances[offsets[:-1], np.arange(n_bags) % d] += shift
    return instances, offsets


def margins(weights, instances):
    """g_p of each instance and each cluster p, as the problem defines it."""
    k = len(weights)
    scores = instances @ weights.T
    return k / (k - 1) * (scores - scores.mean(axis=1, keepdims=True))


def sum_of_means(instances, offsets):
    pairs = pairwise(offsets)
    return np.sum([instances[a:b].mean(axis=0) for a, b in pairs], axis=0)


TIGHT = {"solver": "CLARABEL", "tol_gap_rel": 1e-10, "tol_gap_abs": 1e-10, "tol_feas": 1e-10}


def linearised(witnesses, clusters, k, C, balance, m, tol):
    """The same problem through the oracle and the engine; its result and the weights."""
    order = np.argsort(clusters, kind="stable")
    given = Balance.of(m, balance, k)
    counts = np.bincount(clusters, minlength=k)
    risk = LinearisedRisk(witnesses[order], counts, balance=given)
    start = given.split(np.zeros((k, len(m))))
    result = cutting_plane(risk, start, C, tol, held=(given.n_held, given.width))
    return result, given.join(result.w, k)


def test_instances_far_off_the_origin_do_not_end_at_zero_weights():
    # The scores of the mean leave their interval close to zero, where the quadratic predicted no
    # decrease, so that the program was reported as solved.
    rng = np.random.default_rng(0)
    witnesses = rng.normal(size=(30, 10)) + 100.0
    m, clusters, C, tol = witnesses.sum(axis=0), np.zeros(30, dtype=int), 1e4, 1e-6
    result, found = linearised(witnesses, clusters, 4, C, 100.0, m, tol)
    assert result.converged
    assert result.gap <= tol * result.objective
    # One cluster, and ten features for its bags: their hinges can all be zero.
    hinges = np.maximum(0.0, 1.0 - margins(found, witnesses)[:, 0])
    assert hinges.mean() == pytest.approx(0.0, abs=tol)
    assert np.ptp(found @ m) <= 100.0 * (1 + 1e-6)


def global_optimum(instances, offsets, k, C, balance, smallest=0):
    """The smallest optimum over all choices of witnesses and clusters, which have no names."""
    m = sum_of_means(instances, offsets)
    rows = [range(a, b) for a, b in pairwise(offsets)]

    def in_order(clusters):
        # Each name appears first after all smaller ones.
        highest = np.maximum.accumulate((-1, *clusters))
        return all(name <= top + 1 for name, top in zip(clusters, highest[:-1], strict=True))

    # linearised_optimum's problem, stated once: of W, row after row, to the margins of witnesses.
    n, d = len(rows), instances.shape[1]
    W, xi, factors = cp.Variable((k, d)), cp.Variable(n, nonneg=True), cp.Parameter((n, k * d))
    constraints = [factors @ cp.reshape(W, (k * d,), order="C") >= 1 - xi]
    if balance is not None:
        p, q = np.tril_indices(k, -1)
        constraints.append(cp.abs((W @ m)[p] - (W @ m)[q]) <= balance)
    value = cp.Minimize(0.5 * cp.sum_squares(W) + C / n * cp.sum(xi))
    problem = cp.Problem(value, constraints)

    def optimum(witnesses, clusters):
        less_mean = np.eye(k)[clusters] - 1 / k
        factors.value = (k / (k - 1) * less_mean[:, :, None] * witnesses[:, None]).reshape(n, -1)
        return problem.solve(**TIGHT)

    partitions = [
        clusters
        for clusters in product(range(k), repeat=n)
        if in_order(clusters) and np.bincount(clusters, minlength=k).min() >= smallest
    ]
    every = product(product(*rows), partitions)
    return min(optimum(instances[list(chosen)], list(clusters)) for chosen, clusters in every)


def best_of(instances, offsets, k, C, balance, n_init=40):
    problem = ClusterProblem(ArraySource(instances, offsets), C, balance)
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=(k, instances.shape[1])) for _ in range(n_init)]
    return min(max_margin_clusters(problem, start, EXACT).objective for start in starts)


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


def test_a_balance_that_binds_most_clusters_is_kept():
    # Instances off the origin: the multipliers of pairs are far from unique, and as constraints
    # of the quadratic program they made it fail.
    rng = np.random.default_rng(0)
    instances, offsets = rng.normal(size=(400, 20)) + 1.0, np.arange(0, 401, 4)
    k, C, balance = 24, 100.0, 0.5
    problem = ClusterProblem(ArraySource(instances, offsets), C, balance)
    result = max_margin_clusters(problem, rng.normal(size=(k, 20)), ROUGH)
    assert result.converged
    assert np.ptp(result.weights @ problem.mean_sum) <= balance * (1 + 1e-6)
    assert np.diff(result.history).max(initial=0.0) <= 0
    W = cp.Variable((k, 20))
    own = cp.multiply(
        W[result.labels] - cp.sum(W, axis=0, keepdims=True) / k, instances[result.witnesses]
    )
    hinges = cp.sum(cp.pos(1 - k / (k - 1) * cp.sum(own, axis=1)))
    scores = W @ problem.mean_sum
    oracle = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(W) + C / 100 * hinges),
        [cp.max(scores) - cp.min(scores) <= balance],
    )
    value = oracle.solve(solver=cp.CLARABEL)
    assert value * (1 - 1e-6) <= result.objective <= value * 1.01


def test_full_clusters_reach_the_optimum_over_all_that_are_large_enough():
    rng = np.random.default_rng(6)
    instances, offsets = rng.normal(size=(5, 2)), np.array([0, 2, 3, 4, 5])
    problem = ClusterProblem(ArraySource(instances, offsets), 8.0, None, smallest=2)
    starts = [rng.normal(size=(2, 2)) for _ in range(20)]
    found = [max_margin_clusters(problem, start, EXACT) for start in starts]
    best = min(result.objective for result in found)
    assert best == pytest.approx(global_optimum(instances, offsets, 2, 8.0, None, 2), rel=1e-6)


@pytest.mark.parametrize("smallest", [1, 7, 10])
def test_no_cluster_is_smaller_and_the_objective_is_that_of_the_labels(smallest):
    instances, offsets = some_bags(1, n_bags=40, d=3)
    C, k = 1.0, 4
    source = ArraySource(instances, offsets, block_bytes=256)
    for balance in (None, 0.5):
        problem = ClusterProblem(source, C, balance, smallest=smallest)
        start = np.random.default_rng(0).normal(size=(k, 3))
        result = max_margin_clusters(problem, start, ROUGH)
        assert np.bincount(result.labels, minlength=k).min() >= smallest
        assert np.diff(result.history).max(initial=0.0) <= 0
        g = margins(result.weights, instances)
        hinges = []
        for (a, b), row, label in zip(
            pairwise(offsets), result.witnesses, result.labels, strict=True
        ):
            assert row == a + g[a:b, label].argmax()
            hinges.append(max(0.0, 1 - g[row, label]))
        value = 0.5 * np.sum(result.weights**2) + C * np.mean(hinges)
        assert result.objective == pytest.approx(value, rel=1e-10)
    # Without the option these bags leave clusters nearly empty.
    free = ClusterProblem(source, C, None)
    labels = max_margin_clusters(free, start, ROUGH).labels
    assert np.bincount(labels, minlength=k).min() < 7


def test_the_assignment_is_a_cheapest_one():
    # A transportation problem has an integral optimum, so its linear program is an oracle.
    rng = np.random.default_rng(0)
    for n, k, smallest in [(6, 2, 3), (30, 5, 6), (40, 7, 3), (12, 12, 1), (25, 3, 0)]:
        costs = np.round(rng.normal(size=(n, k)), 1) + np.linspace(0, 2, k)
        labels = assign(costs, costs.argmin(axis=1), smallest)
        assert np.bincount(labels, minlength=k).min() >= smallest
        np.testing.assert_array_equal(labels, assign(costs, costs.argmin(axis=1), smallest))
        program = linprog(
            costs.ravel(),
            A_ub=-np.tile(np.eye(k), n),
            b_ub=np.full(k, -smallest),
            A_eq=np.kron(np.eye(n), np.ones(k)),
            b_eq=np.ones(n),
        )
        assert costs[np.arange(n), labels].sum() == pytest.approx(program.fun, abs=1e-9)
    with pytest.raises(ValueError, match="5 items are too few for 3 clusters of at least 2 each"):
        assign(np.zeros((5, 3)), np.zeros(5, dtype=int), 2)
