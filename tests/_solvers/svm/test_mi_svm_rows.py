"""MI-SVM by passes against the dual, and certificates against cvxpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from milearn._bags.blocks import ArraySource
from milearn._bags.segments import segment_argmax, segment_max
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.descent import RowLimits, Witnesses
from milearn._solvers.common.gram import LinearGram
from milearn._solvers.common.screen import screened
from milearn._solvers.svm.losses import Hinge
from milearn._solvers.svm.mi_svm_kernel import BinaryProblem, solve_mi_svm
from milearn._solvers.svm.mi_svm_rows import _Model, solve_mi_svm_rows
from milearn._solvers.svm.objectives import MISVMProblem
from milearn.datasets import make_bags
from tests.cases import every_pair
from tests.oracles import maximum_loss, maximum_step

SLACKS = ["bag", "instance"]


def data(seed, n_bags=40, d=5, cost=1.0):
    bags, y = make_bags(n_bags, d, bag_size=(1, 6), flip_y=0.1, random_state=seed)
    weights = cost * np.random.default_rng(seed).uniform(0.5, 2.0, size=n_bags)
    return bags, Hinge(np.where(y == 1, 1.0, -1.0), weights)


def problem_of(source, loss, slack="bag"):
    ranks = (loss.signs > 0).astype(int)
    return MISVMProblem(source, ranks, loss.weights, slack == "instance")


def objective(bags, loss, slack, w, b):
    scores = bags.instances @ w + b
    return 0.5 * w @ w + maximum_loss(scores, bags.offsets, loss.signs > 0, loss.weights, slack)


# Small data are held as a whole, unless the limits say otherwise.
NEAR = RowLimits(all_rows=0)


@pytest.mark.parametrize(
    ("drawn", "slack", "limits"),
    every_pair([(0, 0.1), (1, 1.0), (2, 10.0), (3, 0.1), (4, 10.0)], SLACKS, [None, NEAR]),
)
def test_primal_and_dual_reach_the_same_objective_from_the_same_start(drawn, slack, limits):
    seed, cost = drawn
    bags, loss = data(seed, cost=cost)
    start = bags.offsets[:-1][loss.signs > 0]
    options = SolverOptions(1e-7, 100)
    primal = solve_mi_svm_rows(
        ArraySource(bags.instances, bags.offsets),
        loss,
        slack,
        start,
        replace(options, tol=1e-9),
        limits=limits,
    )
    problem = BinaryProblem(LinearGram(bags.instances), bags.offsets, loss.signs, loss.weights)
    dual = solve_mi_svm(problem, slack, start, options)
    assert primal.converged
    assert primal.dual_gap <= 1e-9 * primal.objective
    assert primal.objective == pytest.approx(
        objective(bags, loss, slack, primal.w, primal.intercept), rel=1e-9
    )
    assert (np.diff(primal.history) <= 0).all()
    assert primal.objective == pytest.approx(dual.objective, rel=1e-7)


@pytest.mark.parametrize("slack", SLACKS)
def test_single_precision_is_left_where_its_rounding_exceeds_the_gap(slack):
    # Of separable bags with large costs, the losses by scores in float32 are rounding.
    rng = np.random.default_rng(0)
    offsets, signs = np.arange(0, 721, 12), np.where(np.arange(60) % 2, 1.0, -1.0)
    X = (rng.normal(size=(720, 150)) + 6.0 * rng.normal(size=150)).astype(np.float32)
    start = offsets[:-1][signs > 0]
    X[start] += 0.3
    loss, options = Hinge(signs, np.full(60, 1e4)), SolverOptions(1e-7, 100)
    ends = [
        solve_mi_svm_rows(source, loss, slack, start, replace(options, tol=5e-4), limits=NEAR)
        for source in (ArraySource(X, offsets), ArraySource(X.astype(float), offsets))
    ]
    assert all(end.converged and end.dual_gap <= 5e-4 * end.objective for end in ends)
    # A band that grows by 1.5 in each round exceeds four times its width after four of them, and
    # the next round is in double precision.
    assert ends[0].n_passes <= ends[1].n_passes + 5
    assert ends[0].objective == pytest.approx(ends[1].objective, rel=1e-9)
    scores = X.astype(float) @ ends[0].w + ends[0].intercept
    value = 0.5 * ends[0].w @ ends[0].w + maximum_loss(
        scores, offsets, signs > 0, loss.weights, slack
    )
    assert ends[0].objective == pytest.approx(value, rel=1e-9)


def test_a_point_worse_than_a_constant_has_its_own_highest_instances():
    # Only where a constant solves the step do all instances tie.
    bags, loss = data(0)
    positive = np.flatnonzero(loss.signs > 0)
    source, w = ArraySource(bags.instances, bags.offsets), np.linspace(-9.0, 9.0, 5)
    held = Witnesses(np.full(len(positive), -1), bags.instances[bags.offsets[positive]])
    for tol in (1e-8, 1e-3):
        problem = problem_of(source, loss)
        view = _Model(problem, NEAR, tol).view(w, np.zeros(1), held)
        assert view.value > 2.0 * problem.at_zero
        expected = segment_argmax(bags.instances @ w, bags.offsets)[positive]
        np.testing.assert_array_equal(view.highest.numbers, expected)


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("gap_tol", [1e-2, 1e-4])
@pytest.mark.parametrize("limits", [None, NEAR], ids=["all rows", "rows near the margin"])
def test_the_gap_is_never_below_the_distance_to_the_optimum(slack, gap_tol, limits):
    for seed in range(2):
        bags, loss = data(seed)
        start = bags.offsets[:-1][loss.signs > 0]
        source = ArraySource(bags.instances, bags.offsets, block_bytes=8 * 5 * 20)
        one = SolverOptions(gap_tol, 1)
        found = solve_mi_svm_rows(source, loss, slack, start, one, limits=limits)
        held = objective(bags, loss, slack, found.w, found.intercept)
        positive = np.flatnonzero(loss.signs > 0)
        tops = segment_max(bags.instances @ found.w, bags.offsets)[positive]
        margins = 1 - bags.instances[start] @ found.w - found.intercept
        free = 1 - tops - found.intercept
        value = held + loss.weights[positive] @ (np.maximum(0, margins) - np.maximum(0, free))
        assert (
            value - maximum_step(bags, loss.signs > 0, loss.weights, slack, start)
            <= found.dual_gap + 1e-7 * value
        )


@pytest.mark.parametrize("slack", SLACKS)
def test_a_small_working_set_gives_the_same(slack):
    bags, loss = data(2, n_bags=150, d=4)
    source, options = ArraySource(bags.instances, bags.offsets), SolverOptions(1e-6, 100)
    start = bags.offsets[:-1][loss.signs > 0]
    free = solve_mi_svm_rows(source, loss, slack, start, replace(options, tol=1e-3))
    limits = RowLimits(all_rows=0, numbers=4 * 60)
    small = solve_mi_svm_rows(source, loss, slack, start, replace(options, tol=1e-3), limits=limits)
    assert small.dual_gap <= 1e-3 * small.objective
    assert small.objective == pytest.approx(free.objective, rel=2e-3)
    positive = loss.signs > 0
    best = maximum_step(bags, loss.signs > 0, loss.weights, slack, _highest(bags, small)[positive])
    assert small.objective - small.dual_gap <= best * (1 + 1e-6)


def _highest(bags, found):
    return segment_argmax(bags.instances @ found.w, bags.offsets)


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("cost", [0.01, 1.0])
def test_the_gap_belongs_to_the_witnesses_of_the_solution(cost, slack):
    """Also where a run ends because the next step could lower the objective by little only."""
    n_moved = 0
    for seed in range(4):
        bags, loss = data(seed, n_bags=100, cost=cost)
        start, positive = bags.offsets[:-1][loss.signs > 0], loss.signs > 0
        source = ArraySource(bags.instances, bags.offsets)
        options = SolverOptions(1e-3, 100)
        found = solve_mi_svm_rows(source, loss, slack, start, options)
        assert found.converged
        witnesses = _highest(bags, found)[positive]
        best = maximum_step(bags, positive, loss.weights, slack, witnesses)
        assert found.objective - best <= found.dual_gap + 1e-6 * found.objective
        assert found.dual_gap <= 1e-3 * found.objective
        n_moved += found.history[-1] == found.history[-2]
    assert n_moved > 0


@pytest.mark.parametrize("slack", SLACKS)
def test_the_start_does_not_depend_on_the_solver(slack):
    lower = 0
    for seed in range(2):
        bags, loss = data(seed, n_bags=(30, 60)[seed % 2], d=(5, 20)[seed % 2])
        source, options = ArraySource(bags.instances, bags.offsets), SolverOptions(1e-6, 100)
        problem = BinaryProblem(LinearGram(bags.instances), bags.offsets, loss.signs, loss.weights)
        others = screened(source, loss.signs, loss.weights).rows[:, loss.signs > 0]
        found = solve_mi_svm(problem, slack, None, options, others)
        by_rows = solve_mi_svm_rows(source, loss, slack, "auto", replace(options, tol=1e-6))
        assert found.objective == pytest.approx(by_rows.objective, rel=1e-5)
        means = solve_mi_svm(problem, slack, None, options)
        assert found.objective <= means.objective
        lower += found.objective < 0.999 * means.objective
    assert lower > 0


@pytest.mark.parametrize("slack", SLACKS)
def test_the_gap_in_the_dual_belongs_to_the_witnesses_of_the_solution(slack):
    for seed in range(4):
        bags, loss = data(seed, n_bags=100, cost=0.01 if seed % 2 else 1.0)
        problem = BinaryProblem(LinearGram(bags.instances), bags.offsets, loss.signs, loss.weights)
        found = solve_mi_svm(problem, slack, None, SolverOptions(1e-3, 100))
        assert found.converged
        rows = segment_argmax(found.scores, bags.offsets)[loss.signs > 0]
        best = maximum_step(bags, loss.signs > 0, loss.weights, slack, rows)
        assert found.objective - best <= found.dual_gap + 1e-6 * found.objective


def test_the_working_set_of_a_bag_does_not_depend_on_the_other_bags_of_its_block():
    """Bags of few and of many rows near the highest one, in blocks of one, of some and of all."""
    rng = np.random.default_rng(0)
    X, offsets = rng.normal(size=(600, 4)), np.arange(0, 601, 20)
    X[:300] *= 0.1
    loss = Hinge(np.where(np.arange(30) % 3 == 0, 1.0, -1.0), np.ones(30))
    views = []
    for size in (8 * 4 * 20, 8 * 4 * 140, 2**25):
        problem = problem_of(ArraySource(X, offsets, block_bytes=size), loss)
        views.append(_Model(problem, NEAR, 1e-3)._pass(np.ones(4), np.zeros(1)).working)
    for view in views[1:]:
        np.testing.assert_array_equal(view.numbers, views[0].numbers)
    scores, counts = X @ np.ones(4), np.bincount(views[0].owners, minlength=30)
    assert (counts[loss.signs > 0] == 0).all()
    assert set(counts[loss.signs < 0]) >= {1, NEAR.per_bag}
    for bag in np.flatnonzero(loss.signs < 0):
        own = np.sort(scores[20 * bag : 20 * bag + 20])[::-1]
        near = own[own > max(own[0], -1.0) - NEAR.band][: NEAR.per_bag]
        kept = scores[views[0].numbers[views[0].owners == bag]]
        np.testing.assert_array_equal(np.sort(kept)[::-1], near)
