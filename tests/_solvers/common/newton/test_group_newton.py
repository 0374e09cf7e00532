"""Newton's method over groups: projections by quadratic programs, optima by cvxpy, bounds."""

from __future__ import annotations

import dataclasses
from functools import partial

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from milearn._bags.threads import in_threads, working_threads
from milearn._solvers.common.newton import direction
from milearn._solvers.common.newton.direction import GroupPart
from milearn._solvers.common.newton.engine import weighted_sum
from milearn._solvers.common.newton.groups import GroupProblem
from tests.oracles import highest_of


def random_problem(seed, *, singles=False, cost=1.0, n_groups=30, d=6):
    rng = np.random.default_rng(seed)
    sizes = np.ones(n_groups, dtype=int) if singles else rng.integers(1, 6, size=n_groups)
    offsets = np.r_[0, np.cumsum(sizes)]
    sign = np.where(np.arange(n_groups) < n_groups // 3, -1.0, 1.0)
    e = np.repeat(sign, sizes)
    Z = e[:, None] * (rng.normal(size=(len(e), d)) - 0.7 * e[:, None])
    costs = cost * rng.uniform(0.5, 2.0, size=n_groups)
    return GroupProblem(Z, e, offsets, costs)


def value_at(problem, found):
    return 0.5 * found.w @ found.w + problem.losses(problem.values(found.w, found.v))


def optimum(problem):
    d = problem.Z.shape[1]
    w = cp.Variable(d)
    v = cp.Variable(problem.free.shape[1])
    Z = problem.Z.toarray() if sparse.issparse(problem.Z) else problem.Z
    u = problem.c + Z @ w + problem.free @ v
    highest = cp.pos(highest_of(u, problem.offsets))
    plain, squared = np.split(problem.costs, [problem.n_plain])
    losses = [plain @ highest[: len(plain)]] if len(plain) else []
    if len(squared):
        losses.append(squared @ cp.square(highest[len(plain) :]))
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + sum(losses)))
    program.solve(solver="CLARABEL")
    return program.value


@pytest.mark.parametrize("kind", ["singles", "groups", "tube", "tube and squares"])
@pytest.mark.parametrize(("seed", "cost"), [(0, 1.0), (1, 0.01), (2, 100.0), (3, 1.0)])
def test_the_bound_is_the_value_of_feasible_multipliers_and_meets_the_optimum(seed, cost, kind):
    store = sparse.csr_array if seed % 2 else np.asarray
    if kind.startswith("tube"):
        problem = tube_problem(seed, n_squared=8 if "squares" in kind else 0)
    else:
        problem = random_problem(seed, singles=kind == "singles", cost=cost, n_groups=60)
    best = optimum(problem)
    problem = dataclasses.replace(problem, Z=store(problem.Z))
    start = np.zeros(problem.Z.shape[1]), np.zeros(problem.free.shape[1])
    rounding = 1e-7 * max(1.0, abs(best))
    for gap_tol in (1e-5, 1e-8):
        found = problem.solve(start, gap_tol)
        assert found.lower_bound <= best + rounding
        assert found.objective >= best - rounding
        assert 0.0 <= found.objective - found.lower_bound <= gap_tol * found.objective
        assert value_at(problem, found) == pytest.approx(found.objective, rel=1e-12)
    alpha = problem.balanced(problem.coefficients(found.proportions))
    assert (alpha >= 0).all()
    sums = np.add.reduceat(alpha, problem.offsets[:-1])
    plain, squared = np.split(sums, [problem.n_plain])
    assert (plain <= problem.costs[: problem.n_plain] * (1 + 1e-9)).all()
    np.testing.assert_allclose(problem.free.T @ alpha, 0.0, atol=1e-10 * problem.cost)
    # A gap that is asked for is exceeded: rows that tie at the optimum tie at the solution.
    assert found.gap <= 1e-11 * found.objective
    # Half of the squared distance is at most the gap, which is known up to rounding.
    atol = np.sqrt(2e-11 * found.objective)
    np.testing.assert_allclose(found.w, -(problem.Z.T @ alpha), atol=atol)
    value = np.sum(problem.c * alpha) - 0.5 * np.sum((problem.Z.T @ alpha) ** 2)
    value -= 0.25 * np.sum(squared**2 / problem.costs[problem.n_plain :])
    assert found.lower_bound == pytest.approx(value, rel=1e-8)
    if kind.startswith("tube"):
        assert found.v[1] >= -1e-6


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_rows_in_single_precision_have_the_same_optimum(kind):
    problem = random_problem(1, n_groups=200)
    narrow = dataclasses.replace(problem, Z=kind(problem.Z.astype(np.float32)))
    expected = problem.solve((np.zeros(6), 0.0), 1e-7).objective
    found = narrow.solve((np.zeros(6), 0.0), 1e-4)
    assert found.objective == pytest.approx(expected, rel=2e-4)
    assert found.lower_bound <= expected * (1 + 1e-6)
    alpha = np.random.default_rng(0).normal(size=len(problem.e))
    total = weighted_sum(narrow.Z, alpha, at_once=7)
    np.testing.assert_allclose(total, problem.Z.T @ alpha, rtol=1e-4, atol=1e-4)


def test_where_the_sets_are_ambiguous_the_solution_stays_that_of_newton():
    # Each row once as it is and once turned: w = 0, and all rows are at the margin.
    rng = np.random.default_rng(0)
    Z, e = rng.normal(size=(50, 3)), np.repeat([1.0, -1.0], 25)
    problem = GroupProblem(np.r_[Z, -Z], np.r_[e, -e], np.arange(101), np.ones(100))
    found = problem.solve((rng.normal(size=3), np.zeros(1)), 1e-6)
    assert found.objective == pytest.approx(100.0, rel=1e-6)
    assert found.gap <= 1e-6 * found.objective


def tube_problem(seed, *, n_squared, nu=0.4, n_bags=25, d=5):
    """A tube around targets, its half-width as a second free variable, and groups."""
    rng = np.random.default_rng(seed)
    upper, lower = rng.normal(size=(2 * n_bags, d)), rng.normal(size=(n_bags, d))
    sizes = np.r_[np.full(n_bags, 2), np.ones(n_bags, dtype=int), 1, rng.integers(1, 4, 8)]
    n_more = int(sizes[2 * n_bags + 1 :].sum())
    targets, more = lower @ rng.normal(size=d), rng.normal(size=(n_more, d))
    ones, nothing = np.ones(n_bags), np.zeros(n_more)
    costs = rng.uniform(0.5, 2.0, size=n_bags)
    return GroupProblem(
        Z=np.concatenate([upper, -lower, np.zeros((1, d)), more]),
        e=np.stack(
            [
                np.r_[np.repeat(ones, 2), -ones, 0.0, nothing],
                np.r_[np.repeat(-ones, 2), -ones, 1.0, nothing],
            ],
            axis=1,
        ),
        offsets=np.r_[0, np.cumsum(sizes)],
        costs=np.r_[costs, costs, nu * costs.sum(), rng.uniform(0.1, 1.0, size=8)],
        c=np.r_[np.repeat(-targets, 2), targets, 0.0, rng.normal(size=n_more)],
        n_squared=n_squared,
    )


@pytest.mark.parametrize("kind", ["singles", "groups", "tube and squares"])
def test_conjugate_gradients_give_the_same(kind, monkeypatch):
    problem = tube_problem(0, n_squared=8)
    if not kind.startswith("tube"):
        problem = random_problem(3, singles=kind == "singles")
    start = np.zeros(problem.Z.shape[1]), np.zeros(problem.free.shape[1])
    expected = problem.solve(start, 1e-6).objective
    thin = dataclasses.replace(problem, Z=sparse.csr_array(problem.Z))
    assert thin.solve(start, 1e-6).objective == pytest.approx(expected, rel=2e-6)
    monkeypatch.setattr(direction, "_FEW_ROWS", 0)
    monkeypatch.setattr(direction, "_DENSE_COLUMNS", 1)
    found = thin.solve(start, 1e-4)
    assert found.objective == pytest.approx(expected, rel=2e-4)
    assert found.lower_bound <= expected * (1 + 1e-9)


@pytest.mark.parametrize("at_once", [1, 50, 2**17])
def test_the_sum_over_rows_leaves_out_the_means_of_full_groups(at_once, monkeypatch):
    monkeypatch.setattr(direction, "_AT_ONCE", at_once)
    monkeypatch.setattr(direction, "_N_SUMS", 3)
    rng = np.random.default_rng(0)
    X, E, rows = rng.normal(size=(60, 4)), rng.normal(size=(60, 1)), np.arange(3, 47)
    starts = np.array([0, 1, 5, 12, 20, 21, 30])
    sizes = np.diff(np.r_[starts, len(rows)])
    share = np.array([1.0, 0.0, 1.0, 0.7, 0.0, 1.0, 1.0]) / sizes
    weights = np.repeat(rng.uniform(1, 2, size=7), sizes)
    found = []
    for n_jobs in (1, 3):
        found.append(np.zeros((5, 5)))
        with working_threads(n_jobs):
            part = GroupPart(rows, weights, starts, share)
            found[-1] += sum(in_threads(partial(part.squared, X, E), part.blocks(5)))
    np.testing.assert_array_equal(*found)
    expected = np.zeros((5, 5))
    for first, size, part in zip(starts, sizes, share, strict=True):
        own = np.hstack([X, E])[rows[first : first + size]]
        projection = np.eye(size) - part * np.ones((size, size))
        expected += weights[first] * own.T @ projection @ projection @ own
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-12)


def test_a_warm_start_takes_fewer_steps():
    cold, warm = [], []
    for seed in range(4):
        problem = random_problem(seed, n_groups=200)
        cold.append(problem.solve((np.zeros(6), 0.0), 1e-5))
        last = cold[-1]
        warm.append(problem.solve((last.w, last.v), 1e-5, last.proportions))
        assert warm[-1].objective <= last.objective * (1 + 1e-5)
    # A start that is exact to rounding may still take the rounds that look for more digits.
    assert sum(each.n_steps for each in warm) < sum(each.n_steps for each in cold) / 4


def test_separable_groups_of_many_features_take_few_steps():
    # A common shift moves the intercept far, and C |z|^2 is 1,000 times the margin.
    rng = np.random.default_rng(0)
    sizes = np.repeat([1, 2], 80)
    e = np.repeat(np.repeat([-1.0, 1.0], 80), sizes)
    Z = e[:, None] * (rng.normal(size=(len(e), 200)) + 2.0 * rng.normal(size=200))
    problem = GroupProblem(Z, e, np.r_[0, np.cumsum(sizes)], np.ones(160))
    rough = problem.solve((np.zeros(200), 0.0), 1e-2)
    fine = problem.solve((np.zeros(200), 0.0), 1e-7)
    assert rough.n_steps <= fine.n_steps < 30
    best = optimum(problem)
    assert best * (1 - 1e-7) <= rough.objective <= best * 1.01
    assert fine.objective == pytest.approx(best, rel=1e-7)
    for found in (rough, fine):
        assert value_at(problem, found) == pytest.approx(found.objective, rel=1e-9)


@pytest.mark.parametrize("singles", [True, False])
@pytest.mark.parametrize("scales", [1e8, (1e8, 1e5, 1e8, 1e3, 1e8, 1e6)])
def test_features_of_any_size_have_the_optimum_of_the_linear_program(scales, singles):
    # Beside losses of features of 1e8 the squared norm is rounding.
    plain = random_problem(3, singles=singles)
    overlapping = np.random.default_rng(0).normal(size=plain.Z.shape)
    plain = dataclasses.replace(plain, Z=overlapping)
    problem = dataclasses.replace(plain, Z=plain.Z * scales)
    w, v, slacks = cp.Variable(6), cp.Variable(), cp.Variable(len(plain.costs))
    u = 1.0 + plain.Z @ w + plain.e * v
    program = cp.Problem(cp.Minimize(plain.costs @ slacks), [slacks[plain.owner] >= u, slacks >= 0])
    optimum = program.solve(solver="SCIPY")
    assert optimum > 1.0
    found = problem.solve((np.zeros(6), 0.0), 1e-7)
    assert found.objective == pytest.approx(optimum, rel=1e-6)
    assert 0.0 <= found.objective - found.lower_bound <= 1e-6 * optimum
    assert value_at(problem, found) == pytest.approx(found.objective, rel=1e-12)
