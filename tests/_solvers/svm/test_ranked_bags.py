"""MI-SVM with all thresholds: against cvxpy and enumeration, and over small working sets."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import cvxpy as cp
import numpy as np
import pytest

from milearn import Bags
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.descent import RowLimits
from milearn._solvers.svm.mi_svm_rows import _Model, solve_from
from milearn._solvers.svm.objectives import MISVMProblem

OPTIONS = SolverOptions(1e-9, 200)


def drawn(seed, sizes, n_classes, d=3):
    """Bags whose rank grows with their highest first feature, with noise."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], d))
    tops = np.maximum.reduceat(X[:, 0], offsets[:-1]) + 0.4 * rng.normal(size=len(sizes))
    ranks = np.empty(len(sizes), dtype=int)
    ranks[np.argsort(tops)] = np.arange(len(sizes)) * n_classes // len(sizes)
    return Bags(X, offsets), ranks, rng.uniform(0.5, 1.5, size=len(sizes))


def objective_of(bags, ranks, costs, w, thresholds):
    """J by its definition."""
    value = 0.5 * float(w @ w)
    for block, rank, cost in zip(bags, ranks, costs, strict=True):
        top = (block @ w).max()
        for t, threshold in enumerate(thresholds):
            side = 1.0 if rank > t else -1.0
            value += cost * max(0.0, 1.0 - side * (top - threshold))
    return value


class Step:
    """The convex step in cvxpy, with the witnesses of the bags as a parameter."""

    def __init__(self, bags, ranks, costs):
        n_thresholds = int(ranks.max())
        w, b = cp.Variable(bags.shape[1]), cp.Variable(n_thresholds)
        self.vectors = cp.Parameter((len(bags), bags.shape[1]))
        held = self.vectors @ w
        losses = []
        for bag, (block, rank) in enumerate(zip(bags, ranks, strict=True)):
            for t in range(n_thresholds):
                over = 1 - held[bag] + b[t] if rank > t else 1 + cp.max(block @ w) - b[t]
                losses.append(costs[bag] * cp.pos(over))
        self.problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + cp.sum(cp.hstack(losses))))
        self.bags = bags

    def value(self, rows):
        self.vectors.value = self.bags.instances[rows]
        return self.problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_best_start_attains_the_minimum_over_all_witnesses(n_classes):
    sizes = [2, 1, 2, 2, 1, 2]
    bags, ranks, costs = drawn(n_classes, sizes, n_classes)
    step = Step(bags, ranks, costs)
    problem = MISVMProblem(bags.source(), ranks, costs)
    choices = [range(n) if rank else range(1) for n, rank in zip(sizes, ranks, strict=True)]
    best, found = np.inf, np.inf
    for choice in product(*choices):
        rows = bags.offsets[:-1] + np.array(choice)
        best = min(best, step.value(rows))
        solved = solve_from(problem, rows[ranks > 0], replace(OPTIONS, tol=1e-9))
        value = objective_of(bags, ranks, costs, solved.w, -solved.v)
        np.testing.assert_allclose(solved.objective, value, rtol=1e-9)
        found = min(found, solved.objective)
    np.testing.assert_allclose(found, best, rtol=1e-6)


def test_the_end_is_a_solution_of_its_own_step():
    bags, ranks, costs = drawn(0, np.random.default_rng(0).integers(1, 5, size=25), 4)
    problem = MISVMProblem(bags.source(), ranks, costs)
    solved = solve_from(problem, None, replace(OPTIONS, tol=1e-9))
    scores = bags.instances @ solved.w
    rows = [first + int(np.argmax(scores[first:last]))
            for first, last in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)]  # fmt: skip
    value = Step(bags, ranks, costs).value(rows)
    np.testing.assert_allclose(solved.objective, value, rtol=1e-6)
    assert solved.dual_gap <= 1e-8 * solved.objective
    assert (np.diff(solved.history) <= 1e-9 * solved.objective).all()


@pytest.mark.parametrize("seed", range(3))
def test_small_working_sets_end_at_the_same_objective(seed):
    bags, ranks, costs = drawn(seed, np.random.default_rng(seed).integers(5, 30, size=60), 4)
    problem = MISVMProblem(bags.source(), ranks, costs)
    whole = solve_from(problem, None, replace(OPTIONS, tol=1e-8))
    limits = RowLimits(band=0.1, per_bag=2, numbers=200, all_rows=0)
    small = solve_from(problem, None, replace(OPTIONS, tol=1e-8), limits=limits)
    # Steps that are solved to 1e-8 may lead to witnesses that nearly tie with others.
    np.testing.assert_allclose(small.objective, whole.objective, rtol=1e-5)
    np.testing.assert_allclose(small.v, whole.v, atol=0.02)
    assert small.n_passes > whole.n_passes


@pytest.mark.parametrize("seed", range(4))
def test_the_intercepts_are_in_order_and_optimal(seed):
    rng = np.random.default_rng(seed)
    ranks = np.r_[np.arange(5), rng.integers(0, 5, size=20)]
    X, costs = rng.normal(size=(25, 1)), rng.uniform(0.1, 1, size=25)
    problem = MISVMProblem(Bags(X, np.arange(26)).source(), ranks, costs)
    view = _Model(problem, RowLimits(), 1e-6).view(np.ones(1), np.zeros(4), None)
    assert (np.diff(view.v) <= 0).all()
    for t, threshold in enumerate(-view.v):
        side = np.where(ranks > t, 1.0, -1.0)
        grid = np.concatenate([X[:, 0] - 1, X[:, 0] + 1, [threshold]])
        losses = np.maximum(0, 1 - side * (X[:, 0] - grid[:, None])) @ costs
        assert losses[-1] <= losses.min() + 1e-9
