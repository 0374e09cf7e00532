"""Quadratic programs against cvxpy, and the honesty of what they report."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import qpsolvers

from milearn._solvers.common import qp as _qp
from milearn._solvers.common.active_set import active_set_iterations
from milearn._solvers.common.qp import (
    ActiveSet,
    QPProblem,
    _rescued,
    check_qp_solver,
    solve_qp,
    solve_qp_fast,
)
from milearn._solvers.common.qp_scaling import equilibrated
from milearn.exceptions import SolverError

SEEDS = range(6)
BACKENDS = [name for name in ("piqp", "osqp") if name in qpsolvers.available_solvers]


def random_problem(seed, rank=None):
    """A feasible problem with every kind of constraint, some of them active."""
    rng = np.random.default_rng(seed)
    n, m, k = 12, 7, 2
    root = rng.normal(size=(n, n if rank is None else rank))
    inside = rng.uniform(0.2, 0.8, size=n)
    G = rng.normal(size=(m, n))
    A = rng.normal(size=(k, n))
    return QPProblem(
        root @ root.T,
        3 * rng.normal(size=n),
        G=G,
        h=G @ inside + rng.uniform(0, 0.5, size=m),
        A=A,
        b=A @ inside,
        lb=np.zeros(n),
        ub=np.ones(n),
    )


def by_cvxpy(problem):
    x = cp.Variable(len(problem.q))
    constraints = [problem.G @ x <= problem.h, problem.A @ x == problem.b]
    constraints += [x >= problem.lb, x <= problem.ub]
    objective = 0.5 * cp.quad_form(x, cp.psd_wrap(problem.P)) + problem.q @ x
    return cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_value_equals_cvxpy_and_residuals_are_small(seed, rank):
    problem = random_problem(seed, rank)
    result = solve_qp(problem, tol=1e-9)
    assert result.objective == pytest.approx(by_cvxpy(problem), rel=1e-6, abs=1e-6)
    assert result.residual < 1e-8


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_agree(backend):
    problem = random_problem(0)
    reference = solve_qp(problem, tol=1e-9)
    result = solve_qp(problem, tol=1e-9, solver=backend)
    assert result.solver == backend
    assert result.x == pytest.approx(reference.x, abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_start_at_the_solution_needs_no_backend(seed):
    problem = random_problem(seed)
    first = solve_qp(problem, tol=1e-9)
    again = solve_qp(problem, tol=1e-9, start=first.active)
    assert again.solver == "active-set"
    assert again.objective == pytest.approx(first.objective, rel=1e-9, abs=1e-9)


def test_residuals_are_those_of_the_optimality_conditions():
    problem = random_problem(1)
    result = solve_qp(problem, tol=1e-9)
    x = result.x
    gradient = problem.P @ x + problem.q
    gradient = gradient + problem.G.T @ result.z + problem.A.T @ result.y + result.z_box
    assert np.abs(gradient).max() == pytest.approx(result.dual_residual, abs=1e-12)
    # A point that is no solution shows in them.
    wrong = problem.with_residuals(x + 0.1, result.y, result.z, result.z_box, "none")
    assert wrong.primal_residual > 0.01
    assert wrong.dual_residual > 0.01


def test_a_wandering_active_set_gives_up():
    problem = random_problem(2)
    n, m = len(problem.q), len(problem.h)
    everything = ActiveSet(np.ones(n, bool), np.zeros(n, bool), np.ones(m, bool))
    assert active_set_iterations(problem, everything, "none") is None


def test_infeasible_problem_raises():
    problem = QPProblem(
        np.eye(2), np.zeros(2), A=np.ones((1, 2)), b=np.array([5.0]), lb=np.zeros(2), ub=np.ones(2)
    )
    with pytest.raises(SolverError, match="was not solved by piqp"):
        solve_qp(problem)


def test_unknown_backend_is_named():
    with pytest.raises(ValueError, match="qp_solver='nosuch' is not installed: choose one of"):
        check_qp_solver("nosuch")


def test_a_problem_without_curvature_is_solved_without_a_warning():
    problem = QPProblem(np.zeros((2, 2)), np.array([-1.0, 0.0]), lb=np.zeros(2), ub=np.ones(2))
    result = solve_qp(problem)
    assert result.x[0] == pytest.approx(1.0)
    assert result.objective == pytest.approx(-1.0)
    free = ActiveSet(np.zeros(2, bool), np.zeros(2, bool), np.zeros(0, bool))
    stepped = active_set_iterations(problem, free, "active-set")
    assert stepped is None or np.isfinite(stepped.x).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rough_solution_is_near(seed):
    problem = random_problem(seed)
    x = solve_qp_fast(problem, tol=1e-8)
    assert x == pytest.approx(solve_qp(problem).x, abs=1e-5)


def test_a_rough_solution_of_a_problem_without_one_is_refused():
    box = QPProblem(np.eye(1), np.zeros(1), G=np.array([[1.0]]), h=np.array([-1.0]), lb=np.zeros(1))
    with pytest.raises(SolverError):
        solve_qp_fast(box)


# -- programs in units that no backend likes -------------------------------------------------------


def badly_scaled(seed, n=6):
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-4, 6, size=n)
    factor = rng.normal(size=(n, n)) * units
    return QPProblem(
        factor.T @ factor,
        -units * rng.uniform(0.5, 1.5, size=n),
        G=units[None] * rng.uniform(0.5, 1.5, size=n),
        h=np.ones(1),
        lb=np.zeros(n),
    )


@pytest.mark.parametrize(("seed", "unit"), [(0, 1.0), (1, 1.0), (2, 100.0), (3, 100.0)])
def test_an_equilibrated_program_has_the_same_solution(seed, unit):
    problem = badly_scaled(seed)
    scaled = equilibrated(problem, unit)
    sizes = np.abs(np.vstack([scaled.problem.P, scaled.problem.G])).max(axis=0)
    assert sizes.max() < 1e4 * sizes.min()
    found = scaled.restored(problem, solve_qp(scaled.problem, tol=1e-10))
    x = cp.Variable(len(problem.q), nonneg=True)
    # In the units of the program each row and column is of size 1, so that cvxpy agrees.
    D = scaled.variables / unit
    P = D[:, None] * problem.P * D
    cost = 0.5 * cp.quad_form(x, cp.psd_wrap((P + P.T) / 2)) + (D * problem.q) @ x
    least = cp.Problem(cp.Minimize(cost), [(problem.G * D) @ x <= problem.h])
    least.solve(solver=cp.CLARABEL)
    assert found.objective == pytest.approx(least.value, rel=1e-6)
    again = problem.with_residuals(found.x, found.y, found.z, found.z_box, found.solver)
    assert again.residual == found.residual


def test_what_a_backend_gives_up_on_is_solved_in_other_units():
    """A cutting plane of features of size 10^6 beside rows of size 1."""
    P = np.zeros((7, 7))
    rows = np.array([1.0, 0.5, -0.5, -1.0, -0.5, 0.5])
    P[:6, :6] = 102.0 * np.equal.outer(rows, rows)
    P[:6, 6] = P[6, :6] = -2.0e6 * rows
    P[6, 6] = 2.0e13
    P[:6, :6] += np.eye(6)
    q = np.r_[np.full(6, 2e-7), -1.0]
    problem = QPProblem(P, q, G=np.eye(7)[6:], h=np.ones(1), lb=np.zeros(7))
    result = _rescued(problem, 1e-8, "piqp")
    assert result is not None
    assert result.objective <= -0.5 / 2.0e13 * (1 - 1e-6)
    gradient = (problem.P @ result.x + q + result.z_box + problem.G.T @ result.z) / np.sqrt(
        problem.P.diagonal()
    )
    assert np.abs(gradient).max() <= 1e-6


def test_a_feasible_point_far_from_the_optimum_is_no_rescue(monkeypatch):
    problem = badly_scaled(0)

    def halfway(scaled, tol, solver):
        x = np.full(len(scaled.q), 1e-6)
        return scaled.with_residuals(x, None, None, None, solver), "claimed"

    monkeypatch.setattr(_qp, "_usable", halfway)
    monkeypatch.setattr(_qp, "polish", lambda problem, result: result)
    assert _rescued(problem, 1e-8, "piqp") is None
