"""Budgets, stops and the incumbent of a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from milearn._bags.distinct import distinct_points
from milearn._solvers.ensemble.dpboost import (
    BoostingOptions,
    DisjunctiveSolver,
    auto_learners,
    solve_disjunctive,
)
from milearn._solvers.ensemble.pools import make_pool
from milearn._solvers.ensemble.problem import DisjunctiveProblem, disjunctive_problem
from milearn.datasets import make_bags


def stumps(X):
    return make_pool("stump", X, 1)


def test_a_callback_that_asks_at_the_end_stops_nothing():
    problem = DisjunctiveProblem(
        2, [], np.zeros(0), np.array([0, 1]), np.array([1.0, -1.0]), np.array([5.0, 5.0])
    )
    pool = stumps(np.array([[1.0], [0.0]]))
    found = solve_disjunctive(problem, lambda *_, **__: True, pool=pool, options=BoostingOptions())
    assert found.converged
    assert found.objective == pytest.approx(1.0)


class Clock:
    """A second passes at each look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def noisy_problem(inherited):
    X, y = make_bags(30, 4, bag_size=6, flip_y=0.1, random_state=0)
    rows, point_of = distinct_points(X.instances)
    problem = disjunctive_problem(y == 1, point_of, X.offsets, np.ones(len(X)), inherited)
    return problem, stumps(X.instances[rows])


@pytest.mark.parametrize("inherited", [False, True])
def test_a_search_that_is_cut_off_says_so_and_keeps_the_best(inherited):
    """Wherever the clock stops it."""
    problem, pool = noisy_problem(inherited)
    options = BoostingOptions(max_rows=20, time_limit=1e9)
    clock = Clock()
    full = solve_disjunctive(problem, pool=pool, options=options, clock=clock)
    n_looks = int(clock.now)
    assert n_looks >= 20
    empty = problem.value(np.zeros(0), np.zeros(problem.n_points))
    objectives = []
    for seconds in np.unique(np.geomspace(1, 0.9 * n_looks, 6).astype(int)):
        limited = replace(options, time_limit=seconds)
        found = solve_disjunctive(problem, pool=pool, options=limited, clock=Clock())
        value = problem.value(found.alpha, found.alpha @ found.H)
        assert found.objective == pytest.approx(value, rel=1e-12)
        assert found.lower_bound <= found.objective <= empty
        assert found.stopped in ("time_limit", full.stopped)
        assert found.stopped == "time_limit" or found.objective == full.objective
        objectives.append(found.objective)
    assert found.stopped == "time_limit"
    # Good witnesses come before the bound is raised.
    assert objectives[-2] < 0.5 * empty
    assert objectives[-1] <= 1.2 * full.objective


@pytest.mark.parametrize(("factor", "taken"), [(1.0 - 1e-13, False), (1.0 - 1e-6, True)])
def test_rounding_does_not_choose_between_equal_solutions(factor, taken):
    problem = DisjunctiveProblem(
        1, [], np.zeros(0), np.zeros(1, int), np.array([1.0]), np.array([5.0])
    )
    solver = DisjunctiveSolver(problem, pool=None, options=BoostingOptions())
    best = solver.best
    H = np.ones((1, 1), dtype=np.int8)
    # The best weight is 1 at all costs: the costs make the difference.
    solver.offer(["first"], H, np.ones(1))
    assert best.objective == 1.0
    best.objective /= factor
    solver.offer(["second"], H, np.ones(1))
    assert best.learners == ["second" if taken else "first"]


def test_a_large_program_ends_at_its_learners_or_its_work():
    problem, pool = noisy_problem(True)
    full = solve_disjunctive(problem, pool=pool, options=BoostingOptions())
    empty = problem.value(np.zeros(0), np.zeros(problem.n_points))
    large = {"large_entries": 0}
    for options, reason in (
        (BoostingOptions(n_estimators=6, **large), "n_estimators"),
        (BoostingOptions(max_products=10**6, **large), "work"),
    ):
        found = solve_disjunctive(problem, pool=pool, options=options)
        assert found.stopped == reason
        assert len(found.alpha) <= options.n_estimators
        assert found.lower_bound <= full.objective * (1 + 1e-9)
        assert full.lower_bound * (1 - 1e-9) <= found.objective < empty


def test_the_number_of_learners_falls_with_the_rows():
    assert auto_learners(0) == auto_learners(2147) == 1000
    assert auto_learners(2200) == 987
    assert auto_learners(20_000) == 327
    assert auto_learners(10**8) == 50
