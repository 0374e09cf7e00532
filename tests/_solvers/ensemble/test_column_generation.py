"""Budgets, stops and the incumbent of a search."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from milearn import Bags
from milearn._bags.distinct import distinct_points
from milearn._solvers.ensemble.column_generation import BoostingOptions, Budget, Incumbent
from milearn._solvers.ensemble.dpboost import solve_disjunctive
from milearn._solvers.ensemble.points import disjunctive_problem
from milearn._solvers.ensemble.pools import StumpPool
from milearn._solvers.ensemble.problem import DisjunctiveProblem

OPTIONS = BoostingOptions(tol=1e-4, max_rows=100)


def problem_of_bags():
    rng = np.random.default_rng(0)
    bags, y = Bags.from_list([rng.normal(size=(3, 2)) for _ in range(12)]), np.arange(12) % 2
    rows, point_of = distinct_points(bags.instances)
    problem = disjunctive_problem(point_of, bags.offsets, y == 1, np.ones(len(bags)))
    return problem, StumpPool(bags.instances[rows])


def test_a_callback_ends_the_search_at_its_report():
    problem, pool = problem_of_bags()
    full = solve_disjunctive(problem, pool, Budget(), OPTIONS)
    assert full.n_iter > 2
    seen = []

    def stop(iteration, objective, **facts):
        seen.append((iteration, objective, facts))
        return True

    found = solve_disjunctive(problem, pool, Budget(None, stop), OPTIONS)
    assert found.stopped == "callback"
    assert not found.converged
    ((iteration, objective, facts),) = seen
    assert iteration == 1
    assert objective == full.objective_history[0] == found.objective
    assert facts["lower_bound"] == full.lower_bound_history[0] == found.lower_bound
    assert {"n_learners", "n_reductions"} <= set(facts)


def test_a_callback_that_asks_at_the_end_stops_nothing():
    problem = DisjunctiveProblem(
        2, [], np.zeros(0), np.array([0, 1]), np.array([1.0, -1.0]), np.array([5.0, 5.0])
    )
    budget = Budget(None, lambda *_, **__: True)
    pool = StumpPool(np.array([[1.0], [0.0]]))
    found = solve_disjunctive(problem, pool, budget, BoostingOptions())
    assert found.converged
    assert found.objective == pytest.approx(1.0)


def test_budget_counts_reports_and_names_what_exhausted_it():
    iterations = []
    budget = Budget(None, lambda iteration, objective, **_: iterations.append(iteration))
    assert budget.remaining == np.inf
    budget.report(2.0)
    budget.report(1.0, n_learners=3)
    assert iterations == [1, 2]
    assert not budget.exhausted()
    assert budget.reason == ""
    late = Budget(0.0)
    assert late.exhausted()
    assert late.reason == "time_limit"
    late.report(1.0)
    assert late.reason == "time_limit"


@pytest.mark.parametrize(("factor", "taken"), [(1.0 - 1e-13, False), (1.0 - 1e-6, True)])
def test_rounding_does_not_choose_between_equal_solutions(factor, taken):
    problem = DisjunctiveProblem(
        1, [], np.zeros(0), np.zeros(1, int), np.array([1.0]), np.array([1.0])
    )
    best = Incumbent(problem)
    H = np.ones((1, 1), dtype=np.int8)

    def solution(name, weight):
        alpha = np.array([weight])
        return SimpleNamespace(alpha=alpha, scores=alpha @ H, learners=[name], H=H)

    assert best.offer(solution("first", 2.0))
    assert best.offer(solution("second", 2.0 * factor)) == taken
    assert best.learners == ["second" if taken else "first"]
    assert best.objective == (2.0 * factor if taken else 2.0)
