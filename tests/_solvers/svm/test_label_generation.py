"""Label generation against the relaxation over all selections in cvxpy; bounds by enumeration."""

from __future__ import annotations

from itertools import pairwise, product

import cvxpy as cp
import numpy as np
import pytest
from sklearn.svm import SVC

from milearn._solvers.svm import label_generation
from milearn._solvers.svm.label_generation import (
    GenerationProblem,
    first_problem_along,
    generate_labels,
    largest_norm_of_gram,
)
from milearn._solvers.svm.selection_bound import largest_norm


def problem(seed=0, sizes=(3, 2, 3, 1, 2), n_negative=7, d=4):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(sizes)]
    Z = rng.normal(size=(offsets[-1] + n_negative, d))
    Z[: offsets[-1]] += 0.4
    bag_costs, costs = rng.uniform(0.5, 3.0, len(sizes)), rng.uniform(0.2, 1.0, n_negative)
    return GenerationProblem(Z @ Z.T, offsets, bag_costs, costs), Z


def selections(given):
    return [np.array(h) for h in product(*(range(*pair) for pair in pairwise(given.offsets)))]


def relaxation(given, Z):
    """max over the multipliers of the least dual value, over all selections."""
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
    given, Z = problem(seed)
    found = generate_labels(given, given.offsets[:-1], tol=1e-5, max_iter=100)
    expected = relaxation(given, Z)
    assert found.converged
    assert found.objective == pytest.approx(expected, rel=1e-4)
    assert found.lower_bound == pytest.approx(expected, rel=1e-4)
    assert found.lower_bound <= expected * (1 + 1e-6)
    assert found.mixture.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_bounds_hold_where_selections_are_searched_and_not_counted(seed):
    given, Z = problem(seed)
    found = generate_labels(given, given.offsets[:-1], tol=1e-4, max_iter=100, countable=0)
    assert 0 < found.lower_bound <= relaxation(given, Z) * (1 + 1e-6)
    # What the search missed can only make the master larger than the relaxation.
    assert found.objective >= relaxation(given, Z) * (1 - 1e-4)
    assert found.lower_bound <= best_selection(given) * (1 + 1e-6)


def test_the_relaxation_is_below_every_selection():
    given, _ = problem(1)
    found = generate_labels(given, given.offsets[:-1], tol=1e-5, max_iter=100)
    assert found.objective <= best_selection(given) * (1 + 1e-5)


def test_the_bound_of_norms_is_that_of_the_features_and_holds():
    given, Z = problem(3)
    rng, p = np.random.default_rng(0), given.n_positive
    g, a = rng.uniform(0, 1, 5), rng.uniform(0, 1, len(given.costs))
    eta = np.concatenate([np.full(b - x, 1 / (b - x)) for x, b in pairwise(given.offsets)])
    eta = np.where(np.isin(np.arange(p), given.offsets[:-1]), 0.5 + eta / 2, eta / 2)
    found = largest_norm_of_gram(given, g, a, eta)
    step = np.repeat(g, np.diff(given.offsets))[:, None] * Z[:p]
    assert found == pytest.approx(largest_norm(step, a @ Z[p:], given.offsets, eta), rel=1e-10)
    largest = max(np.sum((g @ Z[h] - a @ Z[p:]) ** 2) for h in selections(given))
    assert found >= largest * (1 - 1e-12)


def test_bags_of_one_are_one_support_vector_svm():
    given, _ = problem(2, sizes=(1, 1, 1, 1))
    found = generate_labels(given, np.arange(4), tol=1e-5, max_iter=10)
    assert found.n_iter == 1
    assert found.objective == pytest.approx(best_selection(given), rel=1e-6)
    assert found.lower_bound == pytest.approx(found.objective, rel=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_factor_and_constant_are_the_best_for_the_first_problem(seed):
    given, Z = problem(seed)
    beta = np.random.default_rng(seed).normal(size=len(Z))
    factor, intercept, value = first_problem_along(given, beta)
    scores, p = given.gram @ beta, given.n_positive
    s, b = cp.Variable(nonneg=True), cp.Variable()
    highest = np.maximum.reduceat(scores[:p], given.offsets[:-1])
    loss = given.bag_costs @ cp.pos(1 - s * highest - b) + given.costs @ cp.pos(
        1 + s * scores[p:] + b
    )
    square = beta @ scores
    best = cp.Problem(cp.Minimize(0.5 * square * s**2 + loss)).solve(solver=cp.CLARABEL)
    assert value == pytest.approx(best, rel=1e-6)
    own = 0.5 * square * factor**2 + given.bag_costs @ np.maximum(
        0, 1 - factor * highest - intercept
    )
    own += given.costs @ np.maximum(0, 1 + factor * scores[p:] + intercept)
    assert value == pytest.approx(own, rel=1e-9)


def test_a_function_of_zero_has_a_constant_only():
    given, _ = problem(0)
    factor, intercept, value = first_problem_along(given, np.zeros(len(given.gram)))
    total = min(given.bag_costs.sum(), given.costs.sum())
    assert (factor, abs(intercept)) == (1.0, 1.0)
    assert value == pytest.approx(2 * total)


def test_a_mixture_takes_few_svms(monkeypatch):
    fits = []
    original = label_generation._svm_of
    monkeypatch.setattr(
        label_generation, "_svm_of", lambda *args: fits.append(1) or original(*args)
    )
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(90, 6))
    K = np.exp(-0.5 * ((Z[:, None] - Z) ** 2).sum(axis=2))
    given = GenerationProblem(K, np.arange(0, 51, 5), np.full(10, 5.0), np.full(40, 5.0))
    found = generate_labels(given, given.offsets[:-1], tol=1e-5, max_iter=60)
    assert found.converged
    assert found.dual_gap <= 1e-5 * found.objective
    # Multiplicative steps take 80 for each selection.
    assert len(fits) <= 8 * found.n_iter
