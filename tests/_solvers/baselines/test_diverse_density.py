"""Diverse density against loops over bags and instances, and its gradient against differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from milearn._solvers.baselines.diverse_density import (
    ConceptProblem,
    best_concept,
    nearest_solution,
    noisy_or,
    noisy_or_solution,
    promising_starts,
    sampled_problem,
    squared_distances,
)
from tests.oracles import blocks_of, noisy_or_loss


def problem(seed=0, n_bags=8, d=3):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 5, n_bags))]
    X = rng.normal(size=(offsets[-1], d))
    return ConceptProblem(X, offsets, np.arange(n_bags) % 2 == 0, rng.uniform(0.5, 2.0, n_bags))


def looped(given, t, s):
    """Negative log-likelihood of the noisy-or, one instance at a time."""
    probabilities = np.exp(-np.sum((s * (given.instances - t)) ** 2, axis=1))
    return noisy_or_loss(blocks_of(probabilities, given.offsets), given.positive, given.costs)


def looped_nearest(given, t, s):
    total = 0.0
    for bag, positive, cost in zip(
        blocks_of(given.instances, given.offsets), given.positive, given.costs, strict=True
    ):
        p = max(np.exp(-np.sum((s * (x - t)) ** 2)) for x in bag)
        total -= cost * np.log(p if positive else 1.0 - p)
    return total


def loss_at(given, parameters):
    return noisy_or(given, squared_distances(given.instances, *np.split(parameters, 2)))[0]


def test_probabilities_below_the_smallest_number_have_a_finite_loss():
    given = problem()
    D = 2000.0 + np.arange(len(given.instances))
    loss, slopes = noisy_or(given, D)
    first = np.minimum.reduceat(D, given.offsets[:-1])[given.positive]
    assert loss == pytest.approx(given.costs[given.positive] @ first, rel=1e-3)
    assert np.isfinite(slopes).all()
    assert slopes.sum() == pytest.approx(given.costs[given.positive].sum(), rel=1e-9)


def test_starts_are_the_candidates_of_lowest_loss():
    given, scales = problem(1, n_bags=12), np.full(3, 0.7)
    candidates = np.flatnonzero(np.repeat(given.positive, np.diff(given.offsets)))
    losses = [looped(given, given.instances[row] + 1e-5, scales) for row in candidates]
    found = promising_starts(given, scales, 4)
    np.testing.assert_array_equal(found, candidates[np.argsort(losses)[:4]])


@pytest.mark.parametrize("seed", range(3))
def test_the_descent_ends_at_a_stationary_point_with_the_value_of_the_loop(seed):
    given = problem(seed, n_bags=14)
    found = noisy_or_solution(given, given.instances[0], np.full(3, 0.5), tol=1e-12, max_iter=2000)
    assert found.converged
    assert found.objective == pytest.approx(looped(given, found.concept, found.scales), rel=1e-8)
    at = np.r_[found.concept, found.scales]
    numeric = approx_fprime(at, lambda each: loss_at(given, each), 1e-7)
    assert np.abs(numeric).max() < 1e-3
    assert found.objective <= looped(given, given.instances[0] + 1e-5, np.full(3, 0.5))


@pytest.mark.parametrize("seed", range(3))
def test_em_dd_reports_the_loss_of_the_nearest_instances(seed):
    given = problem(seed, n_bags=14)
    found = nearest_solution(given, given.instances[0], np.full(3, 0.5), tol=1e-9, max_iter=2000)
    assert found.converged
    value = looped_nearest(given, found.concept, found.scales)
    assert found.objective == pytest.approx(value, rel=1e-8)
    assert value <= looped_nearest(given, given.instances[0] + 1e-5, np.full(3, 0.5))


def test_a_sample_of_bags_is_a_problem_of_both_classes():
    given = problem(2, n_bags=40)
    n = len(given.instances)
    assert sampled_problem(given, n) is sampled_problem(given, None) is given
    part = sampled_problem(given, n // 4)
    assert n // 8 < len(part.instances) < n // 2
    assert part.positive.sum() == (~part.positive).sum() == 5
    bags = {block.tobytes(): k for k, block in enumerate(blocks_of(given.instances, given.offsets))}
    drawn = [bags[block.tobytes()] for block in blocks_of(part.instances, part.offsets)]
    np.testing.assert_array_equal(part.costs, given.costs[drawn])
    np.testing.assert_array_equal(part.positive, given.positive[drawn])
    # One bag of a class stays.
    rare = ConceptProblem(given.instances, given.offsets, np.arange(40) == 17, given.costs)
    assert sampled_problem(rare, n // 10).positive.sum() == 1


@pytest.mark.parametrize("solve", [noisy_or_solution, nearest_solution])
def test_the_best_run_of_a_sample_is_continued_on_all_bags(solve):
    given, scales = problem(3, n_bags=30), np.full(3, 0.5)
    options = {"n_init": 2, "tol": 1e-10, "max_iter": 2000}
    whole = best_concept(given, solve, scales, max_instances=None, **options)
    same = best_concept(given, solve, scales, max_instances=10**6, **options)
    assert same.objective == whole.objective
    sampled = best_concept(given, solve, scales, max_instances=30, **options)
    loss = looped if solve is noisy_or_solution else looped_nearest
    value = loss(given, sampled.concept, sampled.scales)
    assert sampled.objective == pytest.approx(value, rel=1e-8)
    part = sampled_problem(given, 30)
    first = best_concept(part, solve, scales, max_instances=None, **options)
    assert sampled.objective <= loss(given, first.concept, first.scales) * (1 + 1e-9)
    assert sampled.n_iter > first.n_iter


def test_distances_in_blocks_are_those_of_all_rows():
    X = np.random.default_rng(0).normal(size=(70_000, 4))
    t, s = np.array([0.3, -0.2, 0.1, 0.0]), np.array([1.0, 0.5, 2.0, 1.0])
    expected = np.sum(((X - t) * s) ** 2, axis=1)
    np.testing.assert_allclose(squared_distances(X, t, s), expected, rtol=1e-14)
