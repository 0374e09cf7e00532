"""Quadratic programs against cvxpy, and the honesty of what they report."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from milearn._solvers.common import qp
from milearn._solvers.common.qp import (
    FORMS,
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


def limits_of(problem, x):
    of_rows = [problem.G @ x <= problem.h] if len(problem.h) else []
    return [*of_rows, problem.A @ x == problem.b, x >= problem.lb, x <= problem.ub]


def by_cvxpy(problem):
    x = cp.Variable(len(problem.q))
    objective = 0.5 * cp.quad_form(x, cp.psd_wrap(problem.P)) + problem.q @ x
    return cp.Problem(cp.Minimize(objective), limits_of(problem, x)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_value_equals_cvxpy_and_residuals_are_small(seed, rank):
    problem = random_problem(seed, rank)
    result = solve_qp(problem, tol=1e-9)
    assert result.objective == pytest.approx(by_cvxpy(problem), rel=1e-6, abs=1e-6)
    assert result.residual < 1e-8


@pytest.mark.parametrize("rank", [None, 4, 0])
@pytest.mark.parametrize("form", FORMS)
def test_both_forms_have_the_same_solution_and_multipliers(form, rank, monkeypatch):
    problem, polish = random_problem(0, rank), qp.polish
    reference = solve_qp(problem, tol=1e-9)
    monkeypatch.setattr(qp, "FORMS", {form: FORMS[form]})
    monkeypatch.setattr(qp, "polish", lambda _, result: result)
    result = solve_qp(problem, tol=1e-9)
    assert result.solver == form
    assert result.residual < 1e-6
    assert polish(problem, result).x == pytest.approx(reference.x, abs=1e-6)


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


# -- the second form -------------------------------------------------------------------------------


def dual_of_an_svm(seed, n=40):
    """Features of size 10^6 and a small C: the entries of P and the bounds differ by 10^15."""
    rng = np.random.default_rng(seed)
    X, y = 1e6 * rng.normal(size=(n, 5)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    Z, box = X * y[:, None], {"lb": np.zeros(n), "ub": np.full(n, 1e-3)}
    return QPProblem(Z @ Z.T, -np.ones(n), A=y[None], b=np.zeros(1), **box), Z.T


def dual_of_a_tube(seed, n=25, C=6e7):
    """Two features and a large C: P has entries of 10^8 and the rank of the features."""
    rng = np.random.default_rng(seed)
    X, t, signs = rng.normal(size=(n, 2)), 0.1 * rng.normal(size=n), np.repeat([1.0, -1.0], n)
    Z, box = np.vstack([X, -X]) * np.sqrt(C), {"lb": np.zeros(2 * n), "ub": np.ones(2 * n)}
    limits = {"G": np.ones((1, 2 * n)), "h": np.array([0.5 * n]), "A": signs[None], **box}
    return QPProblem(Z @ Z.T, np.append(t, -t), b=np.zeros(1), **limits), Z.T


@pytest.mark.parametrize("problem_of", [dual_of_an_svm, dual_of_a_tube])
def test_piqp_gives_up_on_some(problem_of):
    assert "factored" in {solve_qp(problem_of(seed)[0]).solver for seed in range(8)}


@pytest.mark.parametrize("problem_of", [dual_of_an_svm, dual_of_a_tube])
@pytest.mark.parametrize("seed", range(8))
def test_a_factor_solves_what_piqp_gives_up_on(seed, problem_of, monkeypatch):
    problem, root = problem_of(seed)
    monkeypatch.setattr(qp, "FORMS", {"factored": FORMS["factored"]})
    result = solve_qp(problem)
    # The same program with its factor, of which cvxpy is certain.
    x, size = cp.Variable(len(problem.q)), np.linalg.norm(root, axis=0).max()
    cost = 0.5 * size**2 * cp.sum_squares(root / size @ x) + problem.q @ x
    value = cp.Problem(cp.Minimize(cost), limits_of(problem, x)).solve(solver=cp.CLARABEL)
    assert result.objective == pytest.approx(value, rel=1e-5)
    assert result.primal_residual < 1e-8


def test_the_second_form_is_tried_only_when_the_first_one_fails():
    assert {solve_qp(random_problem(seed)).solver for seed in SEEDS} == {"piqp"}


def test_the_message_names_both_forms_or_the_kernel():
    box = QPProblem(np.eye(1), np.zeros(1), G=np.array([[1.0]]), h=np.array([-1.0]), lb=np.zeros(1))
    with pytest.raises(SolverError, match=r"not solved .piqp: .*; factored: .*: scale the feat"):
        solve_qp(box)
    with pytest.raises(SolverError, match="is not convex: use a kernel"):
        solve_qp(QPProblem(np.diag([-1.0, 1.0]), np.ones(2), lb=np.zeros(2)))


def test_a_wandering_active_set_gives_up():
    problem = random_problem(2)
    n, m = len(problem.q), len(problem.h)
    everything = ActiveSet(np.ones(n, bool), np.zeros(n, bool), np.ones(m, bool))
    assert active_set_iterations(problem, everything, "none") is None


def test_an_active_set_converges_although_some_steps_undo_others():
    problem, none = random_problem(2), np.zeros(12, bool)
    found = active_set_iterations(problem, ActiveSet(none, none, none[:7]), "active-set")
    assert found.objective == pytest.approx(by_cvxpy(problem), rel=1e-6, abs=1e-6)
