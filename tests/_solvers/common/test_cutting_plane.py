"""The cutting plane equals the whole convex problem as cvxpy states and solves it."""

from __future__ import annotations

import dataclasses

import cvxpy as cp
import numpy as np
import pytest

from milearn._solvers.cluster.balance import IntervalOfWidth
from milearn._solvers.common import cutting_plane as _cutting_plane
from milearn._solvers.common.cutting_plane import (
    CuttingPlaneOptions,
    RiskProblem,
    _CutModel,
    cutting_plane,
)
from milearn._solvers.common.qp import solve_qp


def solve(oracle, dim, costs, *, start=None, **named):
    """The engine, with the fields of problem and options side by side."""
    fields = {field.name for field in dataclasses.fields(RiskProblem)}
    stated = {name: value for name, value in named.items() if name in fields}
    options = {name: value for name, value in named.items() if name not in fields}
    problem = RiskProblem(oracle, dim, np.asarray(costs), **stated)
    return cutting_plane(problem, CuttingPlaneOptions(**options), start)


class Risks:
    """Sums of hinges max(0, a + g'w + h b), one sum per risk."""

    def __init__(self, seed, n_risks=2, n_terms=12, dim=4, n_free=1):
        rng = np.random.default_rng(seed)
        self.g = rng.normal(size=(n_risks, n_terms, dim))
        self.h = rng.normal(size=(n_risks, n_terms, n_free))
        self.a = rng.normal(size=(n_risks, n_terms)) + 1.0
        self.dim, self.n_free = dim, n_free
        self.calls = 0

    def __call__(self, w, b):
        self.calls += 1
        terms = self.a + self.g @ w + self.h @ b
        on = terms > 0
        return (
            np.where(on, terms, 0).sum(axis=1),
            (on[:, :, None] * self.g).sum(axis=1),
            (on[:, :, None] * self.h).sum(axis=1),
        )

    def value(self, costs, w, b):
        return 0.5 * w @ w + costs @ self(w, b)[0]

    def optimum(self, costs, width=np.inf):
        w = cp.Variable(self.dim)
        b = cp.Variable(self.n_free) if self.n_free else np.zeros(0)
        total = 0.5 * cp.sum_squares(w)
        for cost, a, g, h in zip(costs, self.a, self.g, self.h, strict=True):
            line = a + g @ w + (h @ b if self.n_free else 0)
            total += cost * cp.sum(cp.pos(line))
        constraints = [cp.max(w[-3:]) - cp.min(w[-3:]) <= width] if width < np.inf else []
        problem = cp.Problem(cp.Minimize(total), constraints)
        problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-11, tol_gap_abs=1e-11, tol_feas=1e-11)
        return problem.value


@pytest.mark.parametrize("n_free", [0, 1])
@pytest.mark.parametrize("n_risks", [1, 2, 5])
@pytest.mark.parametrize("cost", [0.01, 1.0, 100.0])
def test_equals_cvxpy(n_free, n_risks, cost):
    for seed in range(3):
        risks = Risks(seed, n_risks, n_free=n_free)
        costs = cost * np.linspace(0.5, 2.0, n_risks)
        result = solve(risks, risks.dim, costs, tols=1e-9, n_free=n_free)
        expected = risks.optimum(costs)
        assert result.converged
        assert result.objective == pytest.approx(expected, rel=1e-7)
        assert result.objective == pytest.approx(risks.value(costs, result.w, result.b), rel=1e-12)
        assert result.lower_bound <= result.objective * (1 + 1e-9)
        assert result.gap <= 1e-9 * costs.sum() + 1e-9 * result.objective
        assert (result.violations <= 1e-9 + 1e-12 * result.values).all()


@pytest.mark.parametrize("n_free", [0, 1])
@pytest.mark.parametrize("width", [1e-6, 0.1, 5.0])
def test_a_set_holds_the_last_entries_and_the_optimum_is_that_of_cvxpy(width, n_free):
    for seed in range(3):
        risks = Risks(seed, n_free=n_free)
        costs, held = np.array([1.0, 3.0]), IntervalOfWidth(3, width)
        result = solve(risks, risks.dim, costs, tols=1e-9, n_free=n_free, held=held)
        assert np.ptp(result.w[-3:]) <= width * (1 + 1e-9)
        expected = risks.optimum(costs, width)
        assert result.objective == pytest.approx(expected, rel=1e-7)
        assert result.lower_bound <= expected * (1 + 1e-7)


def test_a_gap_is_measured_against_the_scale_where_the_objective_is_smaller():
    risks = Risks(3, n_terms=60, dim=10)
    plain = solve(risks, risks.dim, np.ones(2), n_free=1, gap_tol=1e-6)
    scaled = solve(
        risks, risks.dim, np.ones(2), n_free=1, gap_tol=1e-6, objective_scale=1e3 * plain.objective
    )
    assert scaled.converged
    assert 1e-6 * scaled.objective < scaled.gap <= 1e-3 * plain.objective


def test_every_lower_bound_lies_under_the_optimum():
    risks = Risks(0)
    costs = np.ones(2)
    expected = risks.optimum(costs)
    bounds = [
        solve(risks, risks.dim, costs, tols=0.0, n_free=1, max_iter=k).lower_bound
        for k in range(1, 12)
    ]
    assert bounds[0] == 0.0
    assert np.diff(bounds).min() >= 0
    assert max(bounds) <= expected * (1 + 1e-9)


def test_precisions_are_kept_by_each_risk_on_its_own():
    risks = Risks(3, n_terms=60, dim=10)
    loose = solve(risks, risks.dim, np.ones(2), tols=np.array([1e-8, 2.0]), n_free=1)
    tight = solve(risks, risks.dim, np.ones(2), tols=1e-8, n_free=1)
    assert loose.converged
    assert loose.violations[0] <= 1e-8 + 1e-12 * loose.values[0]
    assert 1e-8 < loose.violations[1] <= 2.0
    assert tight.gap < 1e-6 < loose.gap <= 1e-8 + 2.0


def test_a_gap_asked_for_ends_the_run():
    risks = Risks(3, n_terms=60, dim=10)
    rough = solve(risks, risks.dim, np.ones(2), tols=0.0, n_free=1, gap_tol=1e-2)
    assert rough.converged
    assert rough.gap <= 1e-2 * rough.objective
    assert rough.gap > 1e-6 * rough.objective


def test_the_result_is_never_worse_than_the_start_and_history_never_rises():
    risks = Risks(1, n_terms=40)
    costs = np.ones(2)
    best = solve(risks, risks.dim, costs, tols=1e-9, n_free=1)
    again = solve(risks, risks.dim, costs, tols=1e-9, n_free=1, start=(best.w, best.b), max_iter=3)
    assert again.objective <= best.objective
    assert np.diff(best.history).max() <= 0
    assert len(best.history) == best.n_iter
    assert best.history[-1] == best.objective


def test_a_run_cut_short_says_so():
    risks = Risks(1, n_terms=40)
    result = solve(risks, risks.dim, np.ones(2), tols=1e-9, n_free=1, max_iter=2)
    assert not result.converged
    assert risks.calls == result.n_iter == 2
    assert result.gap > 0


def test_on_iteration_can_stop():
    risks = Risks(1, n_terms=40)
    seen = []

    def stop(number, objective):
        seen.append((number, objective))
        return number == 3

    result = solve(risks, risks.dim, np.ones(2), tols=1e-9, n_free=1, on_iteration=stop)
    assert [number for number, _ in seen] == [1, 2, 3]
    assert not result.converged
    assert [objective for _, objective in seen] == result.history


def test_a_risk_without_weight_changes_nothing():
    risks = Risks(2, n_risks=2)
    both = solve(risks, risks.dim, np.array([1.0, 0.0]), tols=1e-9, n_free=1)
    assert both.converged
    assert both.objective == pytest.approx(risks.optimum(np.array([1.0, 0.0])), rel=1e-7)


def test_forgetting_cuts_changes_the_way_but_not_the_end():
    risks = Risks(4, n_terms=80, dim=12)
    costs = np.array([0.3, 0.7])
    kept = solve(risks, risks.dim, costs, tols=1e-9, n_free=1, drop_after=10_000)
    few = solve(risks, risks.dim, costs, tols=1e-9, n_free=1, drop_after=3)
    assert few.n_cuts < kept.n_cuts
    assert few.converged
    assert few.objective == pytest.approx(kept.objective, rel=1e-8)


def test_a_problem_that_zero_solves():
    def nothing(w, b):
        return np.zeros(1), np.zeros((1, 3)), np.zeros((1, 1))

    result = solve(nothing, 3, np.ones(1), tols=0.0, n_free=1)
    assert result.converged
    assert result.n_iter == 1
    assert result.objective == result.gap == 0.0


def test_a_risk_that_no_weight_can_lower():
    def flat(w, b):
        return np.ones(1), np.zeros((1, 3)), np.zeros((1, 0))

    result = solve(flat, 3, np.array([2.0]), tols=1e-9)
    assert result.converged
    assert result.objective == 2.0
    # A backend may leave its own rounding in the dual value.
    assert result.lower_bound == pytest.approx(2.0, rel=1e-9)
    assert (result.w == 0).all()


def test_separable_data_with_a_free_intercept():
    # Only the intercept is needed at first: the dual of the first cuts is w = 0, any b beyond.
    x, y = np.array([[-1.0], [3.0]]), np.array([-1.0, 1.0])

    def hinge(w, b):
        margin = 1 - y * (x @ w + b)
        on = margin > 0
        return (
            np.array([margin[on].sum()]),
            -(y[on] @ x[on])[None, :],
            -np.array([[y[on].sum()]]),
        )

    result = solve(hinge, 1, np.array([1e3]), tols=1e-12, n_free=1)
    assert result.w == pytest.approx([0.5], rel=1e-9)
    assert result.b == pytest.approx([-0.5], rel=1e-9)


def test_intercept_is_the_nearest_minimiser_of_the_model():
    rng = np.random.default_rng(0)
    for _ in range(20):
        costs = rng.uniform(0.5, 2.0, size=2)
        model = _CutModel(RiskProblem(None, 1, costs, n_free=1), CuttingPlaneOptions())
        for k in range(6):
            # A steep line either way bounds the problem, so that there is a minimiser.
            slope = (-3.0, 3.0)[k] if k < 2 else rng.normal()
            model.add(k % 2, rng.normal(), np.zeros(1), slope, np.zeros(1), np.zeros(1))
        near = rng.normal(scale=3.0, size=1)
        found = model._intercept(np.zeros(1), near)

        def value(b, model=model, costs=costs):
            return costs @ model.slacks(np.zeros(1), np.array([b]))

        grid = np.concatenate([np.linspace(-20, 20, 801), near, found])
        values = np.array([value(b) for b in grid])
        assert value(found[0]) <= values.min() + 1e-9
        optimal = grid[values <= values.min() + 1e-12]
        assert abs(found[0] - near[0]) <= np.abs(optimal - near[0]).min() + 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n_free": 2}, "n_free=2: at most one"), ({"max_iter": 0}, "max_iter=0 must be at least 1")],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        solve(Risks(0), 4, np.ones(2), **({"tols": 0.0, "n_free": 1} | options))


def test_a_start_without_risk_is_not_taken_for_the_minimum():
    # Far out on the right side every hinge is zero; the norm alone says that it is too far.
    def hinge(w, b):
        short = max(0.0, 1.0 - w[0])
        return np.array([short]), np.array([[-float(short > 0), 0.0]]), np.zeros((1, 0))

    start = np.array([5.0, 1.0]), np.zeros(0)
    result = solve(hinge, 2, np.array([10.0]), tols=1e-9, start=start)
    assert result.converged
    assert result.objective == pytest.approx(0.5, rel=1e-7)
    assert result.lower_bound == pytest.approx(0.5, rel=1e-7)


def test_programs_are_solved_more_precisely_where_the_gap_asks_for_it(monkeypatch):
    def rough(problem, *, tol, **options):
        solution = solve_qp(problem, tol=tol, **options)
        return dataclasses.replace(solution, x=(1.0 - 1e4 * tol) * solution.x)

    monkeypatch.setattr(_cutting_plane, "solve_qp", rough)
    risks = Risks(0, n_risks=1, dim=3)
    result = solve(risks, 3, np.array([100.0]), tols=0.0, gap_tol=1e-8, n_free=1)
    assert result.converged
    assert result.gap <= 1e-8 * result.objective
