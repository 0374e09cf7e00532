"""Convex steps of MILSD in the primal: values, slopes and curvature by differences, directions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn._solvers.common.options import SolverOptions
from milearn._solvers.structured import link_direction, link_newton, milsd_primal
from milearn._solvers.structured.edges import edges_of
from milearn._solvers.structured.link_direction import newton_direction
from milearn._solvers.structured.link_newton import solve_linked_step
from milearn._solvers.structured.linked_step import LinkedStep, LinkedTerms, Proportions
from milearn._solvers.structured.milsd import (
    MEANS,
    LinearisedProblem,
    StructuredProblem,
    solve_structured,
)
from milearn._solvers.structured.milsd_primal import by_newton, solve_structured_primal

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

    return StructuredProblem(
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
    linearised, terms = LinearisedProblem(problem), LinkedTerms(problem)
    sizes = np.diff(problem.offsets)[linearised.bags]
    rows = problem.offsets[linearised.bags] + np.random.default_rng(seed).integers(0, sizes)
    return LinkedStep(terms, terms.linear(rows, linearised.bags)), linearised, rows


def drawn_proportions(terms, rng):
    rows = rng.random(terms.n_instances)
    rows /= np.add.reduceat(rows, terms.offsets[:-1])[terms.owner]
    return Proportions(
        rng.random(len(terms.costs)),
        rng.uniform(-1, 1, len(terms.bag_links)),
        rng.uniform(-1, 1, len(terms.instance_links)),
        rows,
    )


@pytest.mark.parametrize("singles", [False, True])
def test_value_is_that_of_the_cutting_planes(singles):
    problem = problem_of(0, singles=singles)
    step, linearised, rows = step_of(problem)
    rng = np.random.default_rng(1)
    for witnesses in (rows, MEANS):
        stated = LinkedStep(step.terms, step.terms.linear(witnesses, linearised.bags))
        oracle = linearised.risk_problem(witnesses).oracle
        for _ in range(5):
            w, b = rng.normal(size=4), rng.normal(size=1)
            expected = problem.costs @ oracle(w, b)[0]
            assert stated.value(problem.X @ w + b[0]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("singles", [False, True])
def test_slopes_and_curvature_are_those_of_differences(singles):
    problem = problem_of(1, singles=singles)
    step, _, _ = step_of(problem)
    terms, rng, h, small = step.terms, np.random.default_rng(2), 0.7, 1e-6
    centre = drawn_proportions(terms, rng)
    scores, change = rng.normal(size=(2, terms.n_instances))

    def at(t):
        return step.smoothed(step.scores(scores + t * change), h, centre)

    here, before, after = at(0.0), at(-small), at(small)
    values = [step.smoothed_value(each)[0] for each in (before, here, after)]
    assert values[1] <= step.value(scores) + 1e-12
    alpha = step.coefficients(here.proportions)
    slope = (values[2] - values[0]) / (2 * small)
    assert alpha @ change == pytest.approx(slope, rel=1e-6)
    assert step.slope_along(here, step.scores(change)) == pytest.approx(slope, rel=1e-6)
    moved = here.scores.moved(0.3, step.scores(change))
    again = step.scores(scores + 0.3 * change)
    np.testing.assert_allclose(moved.linear, again.linear, atol=1e-12)
    np.testing.assert_allclose(moved.instance_differences, again.instance_differences, atol=1e-12)
    bent = np.zeros(terms.n_instances)
    for bend in step.curvature(here.proportions, h):
        A = bend.A if sparse.issparse(bend.A) else np.eye(terms.n_instances)[bend.A]
        Q = bend.Q if sparse.issparse(bend.Q) else np.diag(bend.Q)
        bent += A.T @ (Q @ (A @ change))
    expected = step.coefficients(after.proportions) - step.coefficients(before.proportions)
    np.testing.assert_allclose(bent, expected / (2 * small), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_any_proportions_give_a_lower_bound(fit_intercept):
    problem = problem_of(3, fit_intercept=fit_intercept)
    step, _, _ = step_of(problem)
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
    return solve_linked_step(
        step,
        (np.zeros(step.terms.X.shape[1]), 0.0),
        step.terms.first_proportions(),
        smoothing=0.5,
        ended=lambda found: found.gap <= gap_tol * found.objective,
        max_steps=500,
    )


def test_smoothed_maxima_are_found_by_bisection():
    problem = problem_of(5, n_bags=30)
    terms = LinkedTerms(problem)
    step, h = LinkedStep(terms, terms.linear(MEANS, np.zeros(0, int))), 0.4
    rng = np.random.default_rng(0)
    for spread in (0.05, 0.3, 3.0):
        centre = drawn_proportions(terms, rng)
        scores = spread * rng.normal(size=terms.n_instances)
        found = step.smoothed(step.scores(scores), h, centre)
        for bag, (first, last) in enumerate(
            zip(terms.offsets[:-1], terms.offsets[1:], strict=True)
        ):
            u, mine = scores[first:last] + h * centre.rows[first:last], slice(first, last)
            low, high = u.min() - h, u.max()
            for _ in range(60):
                middle = 0.5 * (low + high)
                over = np.maximum(0.0, u - middle).sum() > h
                low, high = (middle, high) if over else (low, middle)
            share = np.maximum(0.0, u - low) / h
            np.testing.assert_allclose(found.proportions.rows[mine], share, atol=1e-9)
            lost = 0.5 * h * ((share - centre.rows[mine]) ** 2).sum()
            assert found.best[bag] == pytest.approx(share @ scores[mine] - lost, abs=1e-9)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
def test_three_ways_to_a_direction_are_one(storage, intercept, monkeypatch):
    problem = problem_of(4, d=60, n_bags=30)
    step, _, _ = step_of(problem)
    rng = np.random.default_rng(0)
    at = step.smoothed(step.scores(rng.normal(size=step.terms.n_instances)), 0.5,
                       step.terms.first_proportions())  # fmt: skip
    bends = step.curvature(at.proportions, 0.5)
    n, d = problem.X.shape
    S = np.zeros((n, n))
    for bend in bends:
        A = bend.A.toarray() if sparse.issparse(bend.A) else np.eye(n)[bend.A]
        S += A.T @ (bend.Q.toarray() if sparse.issparse(bend.Q) else np.diag(bend.Q)) @ A
    X = np.column_stack([problem.X, np.ones(n)]) if intercept else problem.X
    gradient, ridge = rng.normal(size=d + intercept), np.ones(d + intercept)
    ridge[d:] = 0.3
    expected = -np.linalg.solve(np.diag(ridge) + X.T @ S @ X, gradient)
    given = sparse.csr_array(problem.X) if storage == "csr" else problem.X
    monkeypatch.setattr(link_direction, "_ROUGH_DIRECTION", 1e-12)
    monkeypatch.setattr(link_direction, "_MAX_PRODUCTS", 1000)
    for few, columns in ((0, 1000), (1000, 0), (0, 0)):
        monkeypatch.setattr(link_direction, "_FEW_ROWS", few)
        monkeypatch.setattr(link_direction, "_DENSE_COLUMNS", columns)
        found = newton_direction(given, bends, gradient, ridge)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    # Where there is no curvature the ridge is all there is.
    np.testing.assert_array_equal(newton_direction(given, [], gradient, ridge), -gradient / ridge)


@pytest.mark.parametrize("links", ["bag", "instance", "both"])
def test_with_bags_of_one_both_solvers_find_the_one_minimum(links):
    for seed in range(2):
        problem = problem_of(seed, singles=True, links=links, n_bags=30)
        primal, dual = (
            solver(problem, OPTIONS) for solver in (solve_structured_primal, solve_structured)
        )
        assert primal.objective == pytest.approx(dual.objective, rel=1e-7)
        np.testing.assert_allclose(primal.w, dual.w, atol=1e-3)
        assert primal.dual_gap <= 1e-8 * primal.objective
        assert primal.step_converged
        assert primal.converged


@pytest.mark.parametrize("links", ["bag", "instance", "both"])
def test_from_a_local_minimum_of_the_dual_it_rises_nowhere(links):
    for seed in range(2):
        problem = problem_of(seed, links=links, n_bags=16)
        dual = solve_structured(problem, OPTIONS)
        rows = LinearisedProblem(problem).witnesses(problem.X @ dual.w)
        found = solve_structured_primal(problem, OPTIONS, rows)
        assert found.objective <= dual.objective * (1 + 1e-7)
        value = 0.5 * found.w @ found.w + problem.costs @ found.risks
        assert found.objective == pytest.approx(value, rel=1e-12)
        scores = problem.X @ found.w + found.intercept
        np.testing.assert_allclose(problem.risks(scores), found.risks, rtol=1e-12)
        assert (np.diff(found.history) <= 0).all()


def test_where_nothing_is_better_than_a_constant_no_rest_of_w_chooses_witnesses():
    problem = problem_of(0, links="bag")
    rng = np.random.default_rng(0)
    # The means of the bags tell nothing: the first step ends at w = 0.
    X = np.concatenate([rng.normal(size=(len(problem.offsets) - 1, 4))] * 2)
    n_bags = len(problem.signs)
    order = np.argsort(np.r_[np.arange(n_bags), np.arange(n_bags)], kind="stable")
    X[n_bags:] *= -1.0
    doubled = StructuredProblem(
        X[order], np.arange(0, 2 * n_bags + 1, 2), problem.signs, problem.weights,
        problem.costs, problem.bag_edges, edges_of(sparse.csr_array((2 * n_bags,) * 2)), True,
    )  # fmt: skip
    primal = solve_structured_primal(doubled, SolverOptions(1e-4, 1))
    dual = solve_structured(doubled, SolverOptions(1e-4, 1))
    assert not primal.w.any()
    assert primal.objective == pytest.approx(dual.objective, rel=1e-9)


def test_a_step_that_is_followed_by_another_may_end_early(monkeypatch):
    problem = problem_of(2, links="bag", n_bags=60, d=8)
    early = solve_structured_primal(problem, OPTIONS)
    assert early.dual_gap <= 1e-8 * early.objective
    cut = solve_structured_primal(problem, SolverOptions(1e-4, 1))
    assert cut.step_converged
    assert cut.stopped == "max_iter"
    assert cut.dual_gap > 1e-8 * cut.objective
    monkeypatch.setattr(milsd_primal, "_ENOUGH", np.inf)
    exact = solve_structured_primal(problem, SolverOptions(1e-4, 1))
    assert exact.dual_gap <= 1e-8 * exact.objective


def test_a_long_round_is_interrupted_for_a_question(monkeypatch):
    problem = problem_of(2, links="bag", n_bags=60, d=8)
    step, _, _ = step_of(problem)
    start, centre = (np.zeros(8), 0.0), step.terms.first_proportions()
    asked = []

    def solved(limit):
        def ended(solution):
            asked.append(solution.n_steps)
            return solution.gap <= 1e-8 * solution.objective

        asked.clear()
        monkeypatch.setattr(link_newton, "_STEPS_AT_A_TIME", limit)
        found = solve_linked_step(step, start, centre, smoothing=1e-3, ended=ended, max_steps=1000)
        return found, list(asked)

    often, times = solved(2)
    assert max(np.diff([0, *times])) == 2
    seldom, fewer = solved(25)
    assert len(fewer) < len(times)
    # Its questions do not change what the round does.
    assert often.n_steps == seldom.n_steps
    assert often.objective == pytest.approx(seldom.objective, rel=1e-9)


def test_the_size_chooses():
    assert by_newton("auto", 800, 300)
    assert not by_newton("auto", 800, 100)
    assert by_newton("primal", 1, 1)
    assert not by_newton("dual", 10**6, 10**6)
