"""Mixtures of selections against their relaxation in cvxpy; bounds by enumeration."""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product

import cvxpy as cp
import numpy as np
import pytest
from sklearn.svm import SVC

from milearn._solvers.svm.mixture import (
    MergedSelection,
    MixtureProblem,
    best_along,
    largest_norm,
    mix_selections,
)
from milearn.exceptions import SolverError


def problem(seed=0, sizes=(3, 2, 3, 1, 2), n_negative=7, d=4):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(sizes)]
    Z = rng.normal(size=(offsets[-1] + n_negative, d))
    Z[: offsets[-1]] += 0.4
    bag_costs, costs = rng.uniform(0.5, 3.0, len(sizes)), rng.uniform(0.2, 1.0, n_negative)
    return MixtureProblem(Z @ Z.T, offsets, bag_costs, costs), Z


def selections(given):
    return [np.array(h) for h in product(*(range(*pair) for pair in pairwise(given.offsets)))]


@cache
def relaxation(seed):
    """max over the multipliers of the least dual value, over all selections."""
    given, Z = problem(seed)
    p = given.n_positive
    g, a, t = cp.Variable(len(given.bag_costs)), cp.Variable(len(given.costs)), cp.Variable()
    limits = [g >= 0, g <= given.bag_costs, a >= 0, a <= given.costs, cp.sum(g) == cp.sum(a)]
    limits += [t >= cp.sum_squares(Z[h].T @ g - Z[p:].T @ a) for h in selections(given)]
    value = cp.sum(g) + cp.sum(a) - t / 2
    return cp.Problem(cp.Maximize(value), limits).solve(solver=cp.CLARABEL)


def best_selection(given):
    """The least objective of a support vector machine on one selection."""
    p, values = given.n_positive, []
    signs = np.repeat([1.0, -1.0], [len(given.bag_costs), len(given.costs)])
    costs = np.r_[given.bag_costs, given.costs]
    for h in selections(given):
        rows = np.r_[h, np.arange(p, len(given.gram))]
        K = given.gram[np.ix_(rows, rows)]
        svm = SVC(kernel="precomputed", C=1.0, tol=1e-8).fit(K, signs, sample_weight=costs)
        beta = np.zeros(len(rows))
        beta[svm.support_] = svm.dual_coef_[0]
        loss = costs @ np.maximum(0, 1 - signs * (K @ beta + svm.intercept_[0]))
        values.append(0.5 * beta @ K @ beta + loss)
    return min(values)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_value_is_that_of_the_relaxation_over_all_selections(seed):
    given, _ = problem(seed)
    found = mix_selections(given, given.offsets[:-1], tol=1e-5, max_iter=100)
    expected = relaxation(seed)
    assert found.converged
    assert found.value == pytest.approx(expected, rel=1e-4)
    assert found.lower_bound == pytest.approx(expected, rel=1e-4)
    assert found.lower_bound <= expected * (1 + 1e-6)
    assert found.mixture.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_bounds_hold_where_selections_are_searched_and_not_counted(seed):
    given, _ = problem(seed)
    found = mix_selections(given, given.offsets[:-1], tol=1e-4, max_iter=100, countable=0)
    assert 0 < found.lower_bound <= relaxation(seed) * (1 + 1e-6)
    # What the search missed can only make the master larger than the relaxation.
    assert found.value >= relaxation(seed) * (1 - 1e-4)
    assert found.lower_bound <= best_selection(given) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_norms_holds_and_is_not_far(seed):
    given, Z = problem(seed)
    rng, p = np.random.default_rng(seed), given.n_positive
    g, a = rng.uniform(0, 1, 5), rng.uniform(0, 1, len(given.costs))
    eta = np.concatenate([np.full(b - x, 1 / (b - x)) for x, b in pairwise(given.offsets)])
    largest = max(np.sum((g @ Z[h] - a @ Z[p:]) ** 2) for h in selections(given))
    for weights in (eta, np.where(np.isin(np.arange(p), given.offsets[:-1]), 1.0, 0.0)):
        bound = largest_norm(given, g, a, weights)
        assert largest * (1 - 1e-12) <= bound <= 3 * largest


def test_bags_of_one_are_one_support_vector_svm():
    given, _ = problem(2, sizes=(1, 1, 1, 1))
    found = mix_selections(given, np.arange(4), tol=1e-5, max_iter=10)
    assert found.n_iter == 1
    assert found.value == pytest.approx(best_selection(given), rel=1e-6)
    assert found.lower_bound == pytest.approx(found.value, rel=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_factor_and_constant_are_the_best_for_the_first_problem(seed):
    given, Z = problem(seed)
    beta = np.random.default_rng(seed).normal(size=len(Z))
    factor, intercept = best_along(given, beta)
    scores, p = given.gram @ beta, given.n_positive
    s, b = cp.Variable(nonneg=True), cp.Variable()
    highest = np.maximum.reduceat(scores[:p], given.offsets[:-1])
    loss = given.bag_costs @ cp.pos(1 - s * highest - b) + given.costs @ cp.pos(
        1 + s * scores[p:] + b
    )
    square = beta @ scores
    best = cp.Problem(cp.Minimize(0.5 * square * s**2 + loss)).solve(solver=cp.CLARABEL)
    own = 0.5 * square * factor**2 + given.bag_costs @ np.maximum(
        0, 1 - factor * highest - intercept
    )
    own += given.costs @ np.maximum(0, 1 + factor * scores[p:] + intercept)
    assert own == pytest.approx(best, rel=1e-6)
    values = given.highest(factor * scores) + intercept
    assert own == pytest.approx(0.5 * square * factor**2 + given.loss(values), rel=1e-12)


def test_a_function_of_zero_has_a_constant_only():
    given, Z = problem(0)
    # Multipliers that cancel but for rounding: the instances have four features only.
    cancelling = np.linalg.svd(Z)[0][:, -1]
    noise = 10.0 * cancelling + 1e-7 * np.random.default_rng(0).normal(size=len(Z))
    for beta in (np.zeros(len(given.gram)), noise):
        factor, intercept = best_along(given, beta, 1e-6)
        assert (factor, abs(intercept)) == (0.0, 1.0)
    # The same function of scores that are known to more digits.
    assert best_along(given, noise, 1e-12)[0] > 0


def test_small_costs_make_small_scores_that_are_no_noise():
    given, _ = problem(1)
    small = MixtureProblem(given.gram, given.offsets, 1e-9 * given.bag_costs, 1e-9 * given.costs)
    found = mix_selections(small, given.offsets[:-1], tol=1e-3, max_iter=100)
    assert np.ptp(given.gram @ found.beta) < 1e-6
    assert best_along(small, found.beta, found.precision)[0] > 0


def test_a_mixture_takes_few_svms():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(90, 6))
    K = np.exp(-0.5 * ((Z[:, None] - Z) ** 2).sum(axis=2))
    given = MixtureProblem(K, np.arange(0, 51, 5), np.full(10, 5.0), np.full(40, 5.0))
    found = mix_selections(given, given.offsets[:-1], tol=1e-5, max_iter=60)
    assert found.converged
    assert found.gap <= 1e-5 * found.value
    # Multiplicative steps take 80 for each selection.
    assert found.n_svms <= 8 * found.n_iter
    limited = mix_selections(given, given.offsets[:-1], tol=1e-5, max_iter=60, max_mixtures=0)
    assert limited.n_svms == limited.n_iter
    assert limited.gap > 1e-5 * limited.value
    assert not limited.converged


def test_an_indefinite_kernel_is_named():
    given, Z = problem(0)
    values = np.random.default_rng(0).normal(size=(len(Z), len(Z)))
    wrong = MixtureProblem(values + values.T, given.offsets, given.bag_costs, given.costs)
    with pytest.raises(SolverError, match="not positive semidefinite"):
        mix_selections(wrong, given.offsets[:-1], tol=1e-3, max_iter=10)


# -- equal bags ------------------------------------------------------------------------------------


def merged_bags(seed, order=None, repeated=0):
    """Bags of a few points; some are there twice, the first rows of which are in other places."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(8, 2))
    bags = [np.sort(rng.integers(0, 8, size=size)) for size in (2, 3, 1, 2, 2, 3)]
    signs, weights = np.array([1.0, -1, 1, 1, -1, -1]), np.arange(1.0, 7.0)
    bags += [bags[i][::-1] for i in range(repeated)]
    signs, weights = np.r_[signs, signs[:repeated]], np.r_[weights, np.ones(repeated)]
    order = np.arange(len(bags)) if order is None else order
    point_of = np.concatenate([bags[i] for i in order])
    offsets = np.r_[0, np.cumsum([len(bags[i]) for i in order])]
    return points @ points.T, point_of, offsets, signs[order], weights[order]


@pytest.mark.parametrize("seed", range(3))
def test_merged_bags_do_not_depend_on_order(seed):
    one = MergedSelection.of(*merged_bags(seed, repeated=3))
    order = np.random.default_rng(seed).permutation(9)
    other = MergedSelection.of(*merged_bags(seed, order, repeated=3))
    for name in ("gram", "offsets", "bag_costs", "costs"):
        assert np.array_equal(getattr(one.problem, name), getattr(other.problem, name))
    weights = merged_bags(seed)[4]
    weights[:3] += 1.0
    alone = MergedSelection.of(*merged_bags(seed)[:4], weights)
    assert np.array_equal(alone.problem.bag_costs, one.problem.bag_costs)
    assert np.array_equal(alone.problem.costs, one.problem.costs)


@pytest.mark.parametrize("seed", range(3))
def test_selections_of_merged_bags_are_those_of_the_bags(seed):
    gram, point_of, offsets, signs, weights = merged_bags(seed, repeated=4)
    merged = MergedSelection.of(gram, point_of, offsets, signs, weights)
    chosen = offsets[:-1][signs > 0]
    rows = merged.rows(merged.start(chosen))
    bag = np.repeat(np.arange(len(signs)), np.diff(offsets))
    assert np.array_equal(bag[rows], np.flatnonzero(signs > 0))
    # Of equal bags the first one's choice is taken, and each has the row of that point.
    assert np.array_equal(point_of[rows[:3]], point_of[chosen[:3]])
    values = np.arange(merged.problem.n_positive)
    positive = np.flatnonzero(signs[bag] > 0)
    spread = merged.spread(values)
    assert np.array_equal(merged.points[spread], point_of[positive])
