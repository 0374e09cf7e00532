"""Column generation at interior prices, against all stumps by SciPy."""

from __future__ import annotations

import numpy as np
import pytest

from milearn import Bags
from milearn._bags.distinct import distinct_points
from milearn._solvers.ensemble.interior import InteriorSearch
from milearn._solvers.ensemble.pools import make_pool
from milearn._solvers.ensemble.problem import disjunctive_problem
from milearn._solvers.ensemble.relaxation import Relaxation
from tests._solvers.ensemble.oracles import all_columns, solved


def problem_of_bags(seed, n_bags=16, d=3, ambiguous=True, C=1.0):
    rng = np.random.default_rng(seed)
    blocks = [np.round(rng.normal(size=(rng.integers(1, 6), d)), 1) for _ in range(n_bags)]
    bags, positive = Bags.from_list(blocks), np.arange(n_bags) % 2 == 1
    rows, point_of = distinct_points(bags.instances)
    costs = rng.uniform(0.5, 1.5, n_bags) * C
    problem = disjunctive_problem(positive, point_of, bags.offsets, costs, not ambiguous)
    return problem, bags.instances[rows]


def optimum(problem, X):
    """The program of all stumps with bags as wholes, by SciPy."""
    H = all_columns(X)
    G = [problem.signs * h[problem.points] for h in H]
    G = np.array([[*g, *(h[b].max() for b in problem.members)] for g, h in zip(G, H, strict=True)])
    n = G.shape[1]
    costs = np.concatenate([np.ones(len(H)), problem.costs, problem.member_costs])
    return solved(costs, np.hstack([G.T, np.eye(n)]), np.ones(n))


def searched(problem, pool, start=None, exhausted=lambda: False, n_estimators=1000):
    search = InteriorSearch(Relaxation(problem), pool, n_estimators, start)
    return search, search.run(1e-8, exhausted)


@pytest.mark.parametrize("ambiguous", [True, False])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("C", [0.2, 5.0])
def test_bounds_meet_at_the_optimum_over_all_stumps(seed, ambiguous, C):
    problem, X = problem_of_bags(seed, ambiguous=ambiguous, C=C)
    pool = make_pool("stump", X, 1)
    search, found = searched(problem, pool)
    expected = optimum(problem, X)
    assert search.bound == pytest.approx(expected, rel=2e-7)
    assert search.bound <= expected * (1.0 + 1e-12)
    assert found.y.sum() == pytest.approx(search.bound, rel=1e-12)
    assert (found.y >= 0).all()
    assert (found.y <= np.concatenate([problem.costs, problem.member_costs])).all()
    every = all_columns(X)
    assert Relaxation(problem).prices(found.y).score(every).max() <= 1.0 + 1e-9
    # The learners kept hold an optimum: the others have no weight in any.
    again, _ = searched(problem, pool, found)
    assert again.bound == pytest.approx(expected, rel=2e-7)


def test_a_spent_budget_leaves_the_best_so_far():
    problem, X = problem_of_bags(0, n_bags=30)
    steps = iter([False] * 6 + [True] * 100)
    found, _ = searched(problem, make_pool("stump", X, 1), exhausted=lambda: next(steps))
    full, _ = searched(problem, make_pool("stump", X, 1))
    assert found.n_steps == 6 < full.n_steps
    assert 0.0 < found.bound < full.bound


def test_a_maximum_of_learners_is_kept():
    problem, X = problem_of_bags(1, n_bags=40, ambiguous=False)
    _, found = searched(problem, make_pool("stump", X, 1), n_estimators=7)
    assert len(found.learners) <= 7
