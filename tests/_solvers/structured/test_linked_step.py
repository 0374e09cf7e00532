"""Convex steps of MILSD in the primal: values, slopes and curvature by differences, directions."""

from __future__ import annotations

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.newton.direction import Limits, newton_direction
from milearn._solvers.common.newton.engine import solve as solve_newton
from milearn._solvers.structured.edges import edges_of
from milearn._solvers.structured.milsd import MEANS, solve_milsd
from milearn._solvers.structured.problem import LinkedProblem
from milearn._solvers.structured.step import LinkedStep, LinkedTerms, Proportions

OPTIONS = SolverOptions(tol=1e-4, max_iter=100)


def problem_of(seed, *, n_bags=14, singles=False, links="both", fit_intercept=True, d=4):
    """Bags of overlapping classes, a third of them without a label, with weighted links."""
    rng = np.random.default_rng(seed)
    sizes = np.ones(n_bags, dtype=int) if singles else rng.integers(1, 5, size=n_bags)
    n = int(sizes.sum())
    signs = np.where(np.arange(n_bags) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    X[:, 0] += np.repeat(signs, sizes)
    signs[2::3] = 0.0

    def edges(size, density):
        graph = rng.uniform(0.5, 2.0, size=(size, size)) * (rng.random((size, size)) < density)
        return edges_of(sparse.csr_array(graph))

    return LinkedProblem(
        X=X,
        offsets=np.r_[0, np.cumsum(sizes)],
        signs=signs,
        weights=rng.uniform(0.05, 0.2, size=n_bags),
        costs=np.array([20.0, 6.0, 8.0]),
        bag_edges=edges(n_bags, 0.25 if links in ("bag", "both") else 0.0),
        instance_edges=edges(n, 0.1 if links in ("instance", "both") else 0.0),
        fit_intercept=fit_intercept,
    )


def step_of(problem, seed=0):
    terms, bags = LinkedTerms(problem), problem.linearised
    sizes = np.diff(problem.offsets)[bags]
    rows = problem.offsets[bags] + np.random.default_rng(seed).integers(0, sizes)
    return LinkedStep(terms, terms.linear(rows, bags)), rows


def drawn_proportions(terms, rng):
    rows = rng.random(terms.n_instances)
    rows /= np.add.reduceat(rows, terms.offsets[:-1])[terms.owner]
    links = rng.uniform(-1, 1, len(terms.links))
    return Proportions(rng.random(len(terms.costs)), links, rows)


def stated_value(problem, scores, witnesses):
    """The sums of a step, link by link."""
    best = np.array([each.max() for each in np.split(scores, problem.offsets[1:-1])])
    linear = best.copy()
    if len(witnesses):
        linear[problem.linearised] = scores[witnesses]
    else:
        linear = np.array([each.mean() for each in np.split(scores, problem.offsets[1:-1])])
    total = 0.0
    for sign, weight, high, held in zip(problem.signs, problem.weights, best, linear, strict=True):
        value = {1.0: 1 - held, -1.0: 1 + high, 0.0: 0.0}[sign]
        total += problem.costs[0] * weight * max(0.0, value)
    for edges, cost, upper, lower in (
        (problem.bag_edges, problem.costs[1], best, linear),
        (problem.instance_edges, problem.costs[2], scores, scores),
    ):
        a, c, left, right = edges.left_scale, edges.right_scale, edges.left, edges.right
        one, other = a * upper[left] - c * lower[right], c * upper[right] - a * lower[left]
        total += cost * edges.weights @ np.maximum(one, other)
    return total


@pytest.mark.parametrize("singles", [False, True])
def test_value_is_the_stated_one(singles):
    problem = problem_of(0, singles=singles)
    step, rows = step_of(problem)
    rng = np.random.default_rng(1)
    for witnesses in (rows, MEANS):
        stated = LinkedStep(step.terms, step.terms.linear(witnesses, problem.linearised))
        for _ in range(5):
            scores = problem.X @ rng.normal(size=4) + rng.normal()
            expected = stated_value(problem, scores, witnesses)
            assert stated.losses(scores) == pytest.approx(expected, rel=1e-12)


def matrix_of(parts, n):
    """The dense sum of parts of a curvature."""
    S = np.zeros((n, n))
    for each in parts:
        Q = each.Q.toarray() if sparse.issparse(each.Q) else np.diag(each.Q)
        S += each.A.toarray().T @ Q @ each.A.toarray()
    return S


@pytest.mark.parametrize("singles", [False, True])
def test_slopes_and_curvature_are_those_of_differences(singles):
    problem = problem_of(1, singles=singles)
    step, _ = step_of(problem)
    terms, rng, h, small = step.terms, np.random.default_rng(2), 0.7, 1e-6
    centre = drawn_proportions(terms, rng)
    scores, change = rng.normal(size=(2, terms.n_instances))

    def at(t):
        return step.smoothed(scores + t * change, h, centre)

    here, before, after = at(0.0), at(-small), at(small)
    values = [step.smoothed_losses(each)[0] for each in (before, here, after)]
    assert values[1] <= step.losses(scores) + 1e-12
    alpha = step.coefficients(here.proportions)
    slope = (values[2] - values[0]) / (2 * small)
    assert alpha @ change == pytest.approx(slope, rel=1e-6)
    S = matrix_of(step.curvature(here), terms.n_instances)
    bent = S @ change
    expected = step.coefficients(after.proportions) - step.coefficients(before.proportions)
    np.testing.assert_allclose(bent, expected / (2 * small), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_any_proportions_give_a_lower_bound(fit_intercept):
    problem = problem_of(3, fit_intercept=fit_intercept)
    step, _ = step_of(problem)
    rng = np.random.default_rng(0)
    best = solve(step)
    for _ in range(20):
        drawn = drawn_proportions(step.terms, rng)
        assert step.dual_value(drawn) <= best.objective + 1e-9
        if fit_intercept:
            total = step.coefficients(step.balanced(drawn)).sum()
            assert abs(total) <= 1e-10 * step.terms.costs.sum()
    assert best.gap <= 1e-9 * best.objective


def solve(step, gap_tol=1e-9):
    return solve_newton(
        step,
        np.zeros(step.terms.X.shape[1]),
        np.zeros(step.free.shape[1]),
        step.terms.first_proportions(),
        lambda found: found.gap <= gap_tol * found.objective,
    )


def test_smoothed_maxima_are_found_by_bisection():
    problem = problem_of(5, n_bags=30)
    terms = LinkedTerms(problem)
    step, h = LinkedStep(terms, terms.linear(MEANS, np.zeros(0, int))), 0.4
    rng = np.random.default_rng(0)
    for spread in (0.05, 0.3, 3.0):
        centre = drawn_proportions(terms, rng)
        scores = spread * rng.normal(size=terms.n_instances)
        found = step.smoothed(scores, h, centre).proportions.rows
        for first, last in pairwise(terms.offsets):
            u = scores[first:last] + h * centre.rows[first:last]
            low, high = u.min() - h, u.max()
            for _ in range(60):
                middle = 0.5 * (low + high)
                over = np.maximum(0.0, u - middle).sum() > h
                low, high = (middle, high) if over else (low, middle)
            np.testing.assert_allclose(found[first:last], np.maximum(0.0, u - low) / h, atol=1e-9)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
def test_three_ways_to_a_direction_are_one(storage, intercept):
    problem = problem_of(4, d=60, n_bags=30)
    step, _ = step_of(problem)
    rng = np.random.default_rng(0)
    centre = step.terms.first_proportions()
    at = step.smoothed(rng.normal(size=step.terms.n_instances), 0.5, centre)
    parts = step.curvature(at)
    n, d = problem.X.shape
    S = matrix_of(parts, n)
    E = np.ones((n, int(intercept)))
    X = np.hstack([problem.X, E])
    gradient, ridge = rng.normal(size=d + intercept), rng.uniform(0.5, 2.0, size=d + intercept)
    expected = -np.linalg.solve(np.diag(ridge) + X.T @ S @ X, gradient)
    given = sparse.csr_array(problem.X) if storage == "csr" else problem.X
    for few, columns in ((0, 1000), (1000, 0), (0, 0)):
        limits = Limits(few, few, columns, residual=1e-12, max_products=1000)
        found = newton_direction(given, E, parts, gradient, ridge, limits)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    # Where there is no curvature the ridge is all there is.
    none = newton_direction(given, E, [], gradient, ridge)
    np.testing.assert_array_equal(none, -gradient / ridge)


def optimum(problem):
    """Least value of a problem with bags of one instance, which is convex."""
    w, b = cp.Variable(problem.X.shape[1]), cp.Variable()
    scores = problem.X @ w + b
    labelled = problem.signs != 0
    hinges = cp.pos(1 - cp.multiply(problem.signs[labelled], scores[labelled]))
    cost = 0.5 * cp.sum_squares(w) + problem.costs[0] * problem.weights[labelled] @ hinges
    for edges, price in zip(
        (problem.bag_edges, problem.instance_edges), problem.costs[1:], strict=True
    ):
        if len(edges):
            left = cp.multiply(edges.left_scale, scores[edges.left])
            right = cp.multiply(edges.right_scale, scores[edges.right])
            cost += price * edges.weights @ cp.abs(left - right)
    return cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")


@pytest.mark.parametrize("links", ["bag", "instance", "both"])
def test_with_bags_of_one_it_finds_the_one_minimum(links):
    for seed in range(2):
        problem = problem_of(seed, singles=True, links=links, n_bags=30)
        found = solve_milsd(problem, OPTIONS)
        assert found.objective == pytest.approx(optimum(problem), rel=1e-6)
        assert found.dual_gap <= 1e-8 * found.objective
        assert found.step_converged
        assert found.converged


@pytest.mark.parametrize("links", ["bag", "instance", "both"])
def test_the_solution_is_the_stated_one_and_never_rises(links):
    for seed in range(2):
        problem = problem_of(seed, links=links, n_bags=16)
        found = solve_milsd(problem, OPTIONS)
        value = 0.5 * found.w @ found.w + problem.costs @ found.risks
        assert found.objective == pytest.approx(value, rel=1e-12)
        scores = problem.X @ found.w + found.intercept
        np.testing.assert_allclose(problem.risks(scores), found.risks, rtol=1e-12)
        assert (np.diff(found.history) <= 0).all()


def test_where_nothing_is_better_than_a_constant_no_rest_of_w_chooses_witnesses():
    problem = problem_of(0, links="bag")
    rng = np.random.default_rng(0)
    # The means of all bags are zero: the first step ends at w = 0.
    n_bags = len(problem.signs)
    X = np.concatenate([rng.normal(size=(n_bags, 4))] * 2)
    X[n_bags:] *= -1.0
    order = np.argsort(np.r_[np.arange(n_bags), np.arange(n_bags)], kind="stable")
    doubled = LinkedProblem(
        X[order], np.arange(0, 2 * n_bags + 1, 2), problem.signs, problem.weights,
        problem.costs, problem.bag_edges, edges_of(sparse.csr_array((2 * n_bags,) * 2)), True,
    )  # fmt: skip
    found = solve_milsd(doubled, SolverOptions(1e-4, 1))
    assert not found.w.any()
    constants = [doubled.costs @ doubled.risks(np.full(2 * n_bags, b)) for b in (-1.0, 0.0, 1.0)]
    assert found.objective <= min(constants)


def test_a_step_that_is_followed_by_another_may_end_early():
    problem = problem_of(2, links="bag", n_bags=60, d=8)
    early = solve_milsd(problem, OPTIONS)
    assert early.dual_gap <= 1e-8 * early.objective
    cut = solve_milsd(problem, SolverOptions(1e-4, 1))
    assert cut.step_converged
    assert cut.stopped == "max_iter"
    assert cut.dual_gap > 1e-8 * cut.objective
