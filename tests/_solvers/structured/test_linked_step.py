"""Linked bags: the one minimum of bags of one, the stated problem, and steps that end early."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.structured.edges import edges_of
from milearn._solvers.structured.milsd import solve_milsd
from milearn._solvers.structured.problem import LinkedProblem

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
        assert found.stopped != "gap"
        assert found.converged


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
    assert cut.stopped != "gap"
    assert cut.stopped == "max_iter"
    assert cut.dual_gap > 1e-8 * cut.objective
