"""Column generation at interior prices: against all stumps, and against the simplex method."""

from __future__ import annotations

import numpy as np
import pytest

from milearn import Bags
from milearn._bags.distinct import distinct_points
from milearn._solvers.ensemble import column_generation
from milearn._solvers.ensemble.column_generation import BoostingOptions, Budget, relax
from milearn._solvers.ensemble.dpboost import solve_disjunctive
from milearn._solvers.ensemble.interior import (
    InteriorOptions,
    interior_start,
    soft_entries,
    soft_prices,
)
from milearn._solvers.ensemble.points import (
    disjunctive_problem,
    inherited_problem,
)
from milearn._solvers.ensemble.pools import StumpPool
from milearn._solvers.ensemble.problem import score_columns
from milearn.ensemble import DPBoost, LPBoost
from tests._solvers.ensemble.oracles import all_columns, solved


def problem_of_bags(seed, n_bags=16, d=3, ambiguous=True, C=1.0):
    rng = np.random.default_rng(seed)
    blocks = [np.round(rng.normal(size=(rng.integers(1, 6), d)), 1) for _ in range(n_bags)]
    bags, positive = Bags.from_list(blocks), np.arange(n_bags) % 2 == 1
    rows, point_of = distinct_points(bags.instances)
    build = disjunctive_problem if ambiguous else inherited_problem
    costs = rng.uniform(0.5, 1.5, n_bags) * C
    return build(point_of, bags.offsets, positive, costs), bags.instances[rows]


def optimum(problem, X):
    """The program of all stumps with bags as wholes, by SciPy."""
    H = all_columns(X)
    G = [problem.signs * h[problem.points] for h in H]
    G = np.array([[*g, *(h[b].max() for b in problem.members)] for g, h in zip(G, H, strict=True)])
    n = G.shape[1]
    costs = np.concatenate([np.ones(len(H)), problem.costs, problem.member_costs])
    return solved(costs, np.hstack([G.T, np.eye(n)]), np.ones(n))


OPTIONS = InteriorOptions(tol=1e-8, max_learners=1000, learners_per_step=20)


@pytest.mark.parametrize("ambiguous", [True, False])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("C", [0.2, 5.0])
def test_bounds_meet_at_the_optimum_over_all_stumps(seed, ambiguous, C):
    problem, X = problem_of_bags(seed, ambiguous=ambiguous, C=C)
    pool = StumpPool(X)
    found = interior_start(problem, pool, None, OPTIONS, lambda: False)
    expected = optimum(problem, X)
    assert found.bound == pytest.approx(expected, rel=2e-7)
    assert found.bound <= expected * (1.0 + 1e-12)
    assert found.y.sum() == pytest.approx(found.bound, rel=1e-12)
    assert (found.y >= 0).all()
    assert (found.y <= np.concatenate([problem.costs, problem.member_costs])).all()
    every = all_columns(X)
    assert score_columns(soft_prices(problem, found.y), every).max() <= 1.0 + 1e-9
    # The learners kept hold an optimum: the others have no weight in any.
    again = interior_start(problem, pool, found, OPTIONS, lambda: False)
    assert again.bound == pytest.approx(expected, rel=2e-7)


def test_entries_and_prices_are_those_of_the_rows():
    problem, X = problem_of_bags(0)
    H = all_columns(X).astype(np.int8)
    y = np.random.default_rng(0).uniform(size=len(problem.points) + len(problem.members))
    G = soft_entries(problem, H)
    r = len(problem.points)
    for k, h in enumerate(H):
        assert (G[k, :r] == problem.signs * h[problem.points]).all()
        assert G[k, r:].tolist() == [h[block].max() for block in problem.members]
    assert score_columns(soft_prices(problem, y), H.astype(float)) == pytest.approx(G @ y)
    best, learners, columns = StumpPool(X).price(soft_prices(problem, y), -np.inf, 5)
    assert best == pytest.approx((G @ y).max())
    assert best == pytest.approx(score_columns(soft_prices(problem, y), columns * 1.0).max())
    assert 1 <= len(learners) <= 5


@pytest.mark.parametrize("build", [DPBoost, LPBoost])
def test_the_estimators_reach_the_value_of_the_simplex_method_alone(build, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=150) > 0.5).astype(int)
    values = {}
    for name, rows in (("interior", 1), ("simplex", 10**9)):
        monkeypatch.setattr(column_generation, "_INTERIOR_ROWS", rows)
        model = build(C=0.5, tol=1e-9).fit(X, y)
        values[name] = model.objective_, model.lower_bound_
    assert values["interior"] == pytest.approx(values["simplex"], rel=1e-8)


@pytest.mark.parametrize("max_rows", [0, 10_000])
def test_bounds_of_ambiguous_bags_do_not_depend_on_the_start(max_rows, monkeypatch):
    problem, X = problem_of_bags(2, n_bags=8)
    options = BoostingOptions(tol=1e-8, max_rows=max_rows)
    found = {}
    for name, rows in (("interior", 1), ("simplex", 10**9)):
        monkeypatch.setattr(column_generation, "_INTERIOR_ROWS", rows)
        root = relax(problem, StumpPool(X), Budget(), options)
        assert (root.interior is not None) == (name == "interior")
        found[name] = solve_disjunctive(problem, StumpPool(X), Budget(), options)
    one, other = found["interior"], found["simplex"]
    assert one.lower_bound == pytest.approx(other.lower_bound, rel=1e-6)
    # Which witnesses come out is a matter of the start; both are values of (5).
    for each in (one, other):
        value = problem.value(each.alpha, each.alpha @ each.H)
        assert each.objective == pytest.approx(value, rel=1e-12)
        assert each.lower_bound <= each.objective


def test_a_spent_budget_leaves_the_best_so_far():
    problem, X = problem_of_bags(0, n_bags=30)
    steps = iter([False] * 6 + [True] * 100)
    found = interior_start(problem, StumpPool(X), None, OPTIONS, lambda: next(steps))
    full = interior_start(problem, StumpPool(X), None, OPTIONS, lambda: False)
    assert found.n_steps == 6 < full.n_steps
    assert 0.0 < found.bound < full.bound


def test_a_maximum_of_learners_is_kept():
    problem, X = problem_of_bags(1, n_bags=40, ambiguous=False)
    options = InteriorOptions(tol=1e-8, max_learners=7, learners_per_step=20)
    found = interior_start(problem, StumpPool(X), None, options, lambda: False)
    assert len(found.learners) <= 7
