"""Quadratic programs against cvxpy, and the honesty of what they report."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
import qpsolvers

from milearn._solvers.common import qp
from milearn._solvers.common.qp import (
    BACKENDS,
    ActiveSet,
    QPProblem,
    active_set_iterations,
    solve_qp,
)
from milearn.exceptions import SolverError

SEEDS = range(3)


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
def test_backends_agree_and_are_given_matrices_that_they_take(backend, monkeypatch):
    problem = random_problem(0)
    reference = solve_qp(problem, tol=1e-9)
    monkeypatch.setattr(qp, "BACKENDS", (backend,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = solve_qp(problem, tol=1e-9)
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


def test_a_problem_without_curvature_is_solved_without_a_warning():
    problem = QPProblem(np.zeros((2, 2)), np.array([-1.0, 0.0]), lb=np.zeros(2), ub=np.ones(2))
    result = solve_qp(problem)
    assert result.x[0] == pytest.approx(1.0)
    assert result.objective == pytest.approx(-1.0)
    free = ActiveSet(np.zeros(2, bool), np.zeros(2, bool), np.zeros(0, bool))
    stepped = active_set_iterations(problem, free, "active-set")
    assert stepped is None or np.isfinite(stepped.x).all()


# -- the second backend ----------------------------------------------------------------------------


def dual_of_an_svm(seed, n=40):
    """Features of size 10^6 and a small C: the entries of P and the bounds differ by 10^15."""
    rng = np.random.default_rng(seed)
    X = 1e6 * rng.normal(size=(n, 5))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    Z = X * y[:, None]
    upper = np.full(n, 1e-3)
    return QPProblem(
        Z @ Z.T, -np.ones(n), A=y[None], b=np.zeros(1), lb=np.zeros(n), ub=upper
    ), X / 1e6 * y[:, None]


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_osqp_solves_what_piqp_gives_up_on(seed):
    problem, rows = dual_of_an_svm(seed)
    result = solve_qp(problem)
    assert result.solver == "osqp"
    # The same program in units of which cvxpy is certain.
    x = cp.Variable(len(problem.q), nonneg=True)
    y = problem.A[0]
    cost = 0.5 * cp.sum_squares(1e6 * (rows.T @ x)) - cp.sum(x)
    reference = cp.Problem(cp.Minimize(cost), [x <= 1e-3, y @ x == 0])
    reference.solve(solver=cp.CLARABEL)
    assert result.objective == pytest.approx(reference.value, rel=1e-5)


def test_the_second_backend_is_asked_only_when_the_first_one_fails():
    for seed in SEEDS:
        assert solve_qp(random_problem(seed)).solver == "piqp"


def test_both_backends_are_installed_and_the_message_names_both():
    assert set(BACKENDS) <= set(qpsolvers.available_solvers)
    box = QPProblem(np.eye(1), np.zeros(1), G=np.array([[1.0]]), h=np.array([-1.0]), lb=np.zeros(1))
    with pytest.raises(
        SolverError, match=r"was not solved .piqp: .*; osqp: .*: scale the features"
    ):
        solve_qp(box)


def test_a_wandering_active_set_gives_up():
    problem = random_problem(2)
    n, m = len(problem.q), len(problem.h)
    everything = ActiveSet(np.ones(n, bool), np.zeros(n, bool), np.ones(m, bool))
    assert active_set_iterations(problem, everything, "none") is None


def test_an_active_set_converges_although_some_steps_undo_others():
    problem, none = random_problem(2), np.zeros(12, bool)
    found = active_set_iterations(problem, ActiveSet(none, none, none[:7]), "active-set")
    assert found.objective == pytest.approx(by_cvxpy(problem), rel=1e-6, abs=1e-6)


def test_the_second_backend_prints_nothing(capfd):
    # OSQP's C code prints of a program that is not convex, whatever its settings.
    problem = QPProblem(np.diag([-1.0, 1.0]), np.ones(2), lb=np.zeros(2))
    found = qp._solution_of(problem, 1e-8, "osqp")
    assert found[2:] == (False, "not convex")
    assert capfd.readouterr() == ("", "")
