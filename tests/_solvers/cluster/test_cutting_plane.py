"""The cutting plane equals the whole convex problem as cvxpy states and solves it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from milearn._solvers.cluster.cutting_plane import cutting_plane


class Risk:
    """Sum of hinges max(0, a + g'w)."""

    def __init__(self, seed, n_terms=12, dim=4):
        rng = np.random.default_rng(seed)
        self.g = rng.normal(size=(n_terms, dim))
        self.a = rng.normal(size=n_terms) + 1.0
        self.calls = 0

    def __call__(self, w):
        self.calls += 1
        terms = self.a + self.g @ w
        on = terms > 0
        return float(terms[on].sum()), self.g[on].sum(axis=0)

    def value(self, cost, w):
        return 0.5 * w @ w + cost * self(w)[0]

    def optimum(self, cost, width=np.inf):
        w = cp.Variable(self.g.shape[1])
        total = 0.5 * cp.sum_squares(w) + cost * cp.sum(cp.pos(self.a + self.g @ w))
        constraints = [cp.max(w[-3:]) - cp.min(w[-3:]) <= width] if width < np.inf else []
        problem = cp.Problem(cp.Minimize(total), constraints)
        problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-11, tol_gap_abs=1e-11, tol_feas=1e-11)
        return problem.value


def solve(risk, cost=1.0, tol=1e-9, start=None, **options):
    start = np.zeros(risk.g.shape[1]) if start is None else start
    return cutting_plane(risk, start, cost, tol, **options)


@pytest.mark.parametrize("width", [1e-6, 0.1, 5.0])
@pytest.mark.parametrize("cost", [1.0, 30.0])
def test_a_set_holds_the_last_entries_and_the_optimum_is_that_of_cvxpy(width, cost):
    for seed in range(3):
        risk = Risk(seed)
        result = solve(risk, cost, held=(3, width))
        assert np.ptp(result.w[-3:]) <= width * (1 + 1e-9)
        expected = risk.optimum(cost, width)
        assert result.objective == pytest.approx(expected, rel=1e-7)
        assert result.lower_bound <= expected * (1 + 1e-7)


@pytest.mark.parametrize("held", [(0, np.inf), (3, 0.1)])
def test_every_lower_bound_lies_under_the_optimum(held):
    risk = Risk(0, n_terms=40)
    expected = risk.optimum(1.0, held[1])
    bounds = [solve(risk, tol=0.0, max_iter=k, held=held).lower_bound for k in range(1, 12)]
    assert bounds[0] == 0.0
    assert np.diff(bounds).min() >= 0
    assert 0.5 * expected < max(bounds) <= expected * (1 + 1e-9)


def test_a_run_cut_short_says_so():
    risk = Risk(1, n_terms=40)
    result = solve(risk, max_iter=2)
    assert not result.converged
    assert risk.calls == result.n_iter == 2
    assert result.gap > 0


def test_forgetting_cuts_changes_the_path_but_not_the_end():
    risk = Risk(4, n_terms=80, dim=12)
    kept, few = solve(risk, drop_after=10_000), solve(risk, drop_after=3)
    assert few.n_cuts < kept.n_cuts
    assert few.converged
    assert few.objective == pytest.approx(kept.objective, rel=1e-8)


def test_a_problem_that_zero_solves():
    result = cutting_plane(lambda w: (0.0, np.zeros(3)), np.zeros(3), 1.0, 0.0)
    assert result.converged
    assert result.n_iter == 1
    assert result.objective == result.gap == 0.0


def test_a_risk_that_no_weight_can_lower():
    result = cutting_plane(lambda w: (1.0, np.zeros(3)), np.zeros(3), 2.0, 1e-9)
    assert result.converged
    assert result.objective == 2.0
    # A backend may leave its own rounding in the dual value.
    assert result.lower_bound == pytest.approx(2.0, rel=1e-9)
    assert (result.w == 0).all()


def test_a_start_without_risk_is_not_taken_for_the_minimum():
    # Far out on the right side every hinge is zero; the norm alone says that it is too far.
    def hinge(w):
        short = max(0.0, 1.0 - w[0])
        return short, np.array([-float(short > 0), 0.0])

    result = cutting_plane(hinge, np.array([5.0, 1.0]), 10.0, 1e-9)
    assert result.converged
    assert result.objective == pytest.approx(0.5, rel=1e-7)
    assert result.lower_bound == pytest.approx(0.5, rel=1e-7)
