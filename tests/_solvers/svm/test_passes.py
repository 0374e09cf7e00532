"""mi-SVM and bags tied to their instances by passes: against the dual, and against cvxpy."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel

from milearn._bags.blocks import ArraySource
from milearn._bags.segments import segment_max
from milearn._kernels.bag import bag_scales, instance_scales
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.gram import LinearGram
from milearn._solvers.svm.coupled.cccp import coupled_objective, solve_coupled
from milearn._solvers.svm.coupled.rows import TIED_LIMITS, solve_coupled_rows
from milearn._solvers.svm.losses import Coupling, Hinge, Tube
from milearn._solvers.svm.mi_svm_kernel import BinaryProblem, solve_instance_labels
from milearn._solvers.svm.mi_svm_labels import LABEL_LIMITS, solve_instance_labels_rows
from milearn._solvers.svm.objectives import InstanceLabels
from milearn.datasets import make_affinity, make_bags
from tests._solvers.svm.test_coupled_dual import oracle
from tests.bags import bag_gram
from tests.cases import every_pair

OPTIONS = SolverOptions(1e-7, 100)


def to(tol):
    return SolverOptions(tol, 100)


NEAR = replace(LABEL_LIMITS, all_rows=0), replace(TIED_LIMITS, all_rows=0)
# Loss, bag kernel, task.
TIED = [
    ("max", "set", "regression"),
    ("l1", "mean_set", "classes"),
    ("l1", "normalized_set", "regression"),
    ("l2", "set", "regression"),
    ("l2", "normalized_set", "classes"),
    ("epsilon_insensitive", "mean_set", "regression"),
]


# Whether all instances of a small problem are held.
NEAR_ROWS = pytest.mark.parametrize("limits", [LABEL_LIMITS, NEAR[0]], ids=["whole", "near"])


def data(seed, cost=1.0, n_bags=40, d=5):
    bags, y = make_bags(n_bags, d, bag_size=(1, 6), flip_y=0.1, random_state=seed)
    weights = cost * np.random.default_rng(seed).uniform(0.5, 2.0, size=n_bags)
    return bags, np.where(y == 1, 1.0, -1.0), weights


def source(bags):
    return ArraySource(bags.instances, bags.offsets, block_bytes=8 * 5 * 30)


def tied(bags, signs, weights, kind):
    """Loss, coupling and scales of a problem whose bags are tied to their instances."""
    name, kernel, task = kind
    rng = np.random.default_rng(len(name))
    loss = Hinge(signs, weights)
    if task == "regression":
        top = segment_max(bags.instances @ rng.normal(size=bags.shape[1]), bags.offsets)
        loss = Tube(50.0 + 3.0 * top + 0.3 * rng.normal(size=len(bags)), weights, 0.4)
    scales = 1.0 / bags.sizes, np.ones(bags.n_instances)
    if name != "max":
        scales = (
            bag_scales(kernel, bags.instances, bags.offsets, linear_kernel),
            instance_scales(kernel, bags.instances, linear_kernel),
        )
    return loss, Coupling(name, 0.5 * weights, 0.1), scales


# -- mi-SVM ------------------------------------------------------------------------------------


def labelled_loss(bags, weights, labels, w, b):
    hinges = np.maximum(0, 1 - labels * (bags.instances @ w + b))
    return 0.5 * w @ w + weights[bags.bag_index] @ hinges


@pytest.mark.parametrize(("seed", "cost"), [(0, 0.1), (1, 1.0), (2, 10.0), (3, 0.1), (4, 10.0)])
@NEAR_ROWS
def test_labels_by_passes_are_those_of_the_dual(seed, cost, limits):
    bags, signs, weights = data(seed, cost)
    start = np.repeat(signs, np.diff(bags.offsets))
    found = solve_instance_labels_rows(
        source(bags), Hinge(signs, weights), start, to(1e-6), limits=limits
    )
    problem = BinaryProblem(LinearGram(bags.instances), bags.offsets, signs, weights)
    dual = solve_instance_labels(problem, start, OPTIONS)
    assert found.converged
    assert found.objective == pytest.approx(dual.objective, rel=1e-5)
    assert 0 <= found.dual_gap <= 1e-6 * found.objective
    scores = bags.instances @ found.w + found.intercept
    labels = InstanceLabels(bags.offsets, signs, weights).linearised(scores, 0.0)
    value = labelled_loss(bags, weights, labels, found.w, found.intercept)
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert (np.diff(found.history) <= 0).all()


@pytest.mark.parametrize("gap_tol", [1e-1, 1e-3])
@NEAR_ROWS
def test_the_gap_of_labels_is_never_below_the_distance_to_the_optimum(gap_tol, limits):
    for seed in range(3):
        bags, signs, weights = data(seed)
        start = np.repeat(signs, np.diff(bags.offsets))
        once = SolverOptions(gap_tol, 1)
        found = solve_instance_labels_rows(
            source(bags), Hinge(signs, weights), start, once, limits=limits
        )
        w, b = cp.Variable(bags.shape[1]), cp.Variable()
        hinges = cp.pos(1 - cp.multiply(start, bags.instances @ w + b))
        program = cp.Problem(
            cp.Minimize(0.5 * cp.sum_squares(w) + weights[bags.bag_index] @ hinges)
        )
        program.solve(solver="CLARABEL")
        # With any intercept the step is worth no less than with the best one.
        held = min(
            labelled_loss(bags, weights, start, found.w, b)
            for b in start - bags.instances @ found.w
        )
        assert held - program.value <= found.dual_gap + 1e-6 * held


def test_rows_that_cross_the_margin_join_the_working_set():
    """With sums of rows alone the step would go in circles."""
    bags, signs, weights = data(4)
    start = np.repeat(signs, np.diff(bags.offsets))
    found = solve_instance_labels_rows(
        source(bags),
        Hinge(signs, weights),
        start,
        to(1e-4),
        limits=replace(LABEL_LIMITS, all_rows=0, band=0.0),
    )
    assert found.converged
    assert found.dual_gap <= 1e-4 * found.objective


# -- bags tied to their instances ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "drawn", "limits"),
    every_pair(TIED, [(0, 0.1), (2, 10.0)], [TIED_LIMITS, NEAR[1]]),
)
def test_tied_bags_by_passes_are_those_of_the_dual(kind, drawn, limits):
    bags, signs, weights = data(*drawn)
    loss, coupling, scales = tied(bags, signs, weights, kind)
    gram = bag_gram(LinearGram(bags.instances), bags.offsets, *scales)
    first = bags.offsets[:-1]
    found = solve_coupled_rows(
        source(bags), loss, coupling, kind[1], first, to(1e-6), limits=limits
    )
    dual = solve_coupled(gram, loss, coupling, first, OPTIONS)
    assert found.converged
    assert 0 <= found.dual_gap <= 1e-6 * found.objective
    assert (np.diff(found.history) <= 0).all()
    assert found.objective == pytest.approx(dual.objective, rel=1e-5)
    spread = np.repeat(scales[0], np.diff(bags.offsets))
    own = np.add.reduceat(bags.instances * spread[:, None], first, axis=0) @ found.w
    top = segment_max(bags.instances @ found.w * scales[1], bags.offsets)
    norm2 = float(found.w @ found.w)
    value, intercept, width = coupled_objective(norm2, own, top, loss, coupling)
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.intercept == pytest.approx(intercept)
    assert found.width == pytest.approx(width, abs=1e-9)


@pytest.mark.parametrize("seed", [6, 8, 18])
def test_a_hard_maximum_ends_in_the_minimum_of_the_dual_from_every_start(seed):
    # At a solution several instances of a bag are equally high: no rounding and no tolerance may
    # choose between them.
    bags, targets = make_affinity(30, 6, n_relevant=4, bag_size=(1, 4), random_state=seed)
    ones = np.ones(len(bags))
    loss, coupling = Tube(targets, (0.1, 1.0, 3.0)[seed % 3] * ones, 0.5), Coupling("max", ones)
    scales = 1.0 / bags.sizes, np.ones(bags.n_instances)
    gram = bag_gram(LinearGram(bags.instances), bags.offsets, *scales)
    drawn = bags.offsets[:-1] + np.random.default_rng(seed).integers(0, bags.sizes)
    for start in ("auto", drawn):
        dual = solve_coupled(gram, loss, coupling, start, OPTIONS)
        for tol in (1e-5, 1e-8):
            found = solve_coupled_rows(source(bags), loss, coupling, "set", start, to(tol))
            assert found.objective == pytest.approx(dual.objective, rel=2 * tol)
            assert found.dual_gap <= tol * found.objective


@pytest.mark.parametrize("seed", [6, 8, 18])
def test_rough_first_steps_end_at_a_precise_minimum(seed):
    bags, targets = make_affinity(60, 6, n_relevant=4, bag_size=(2, 6), random_state=seed)
    ones = np.ones(len(bags))
    given = source(bags), Tube(targets, 0.3 * ones, 0.5), Coupling("max", ones), "set"
    exact = solve_coupled_rows(*given, "auto", to(1e-7))
    rough = solve_coupled_rows(*given, "auto", to(1e-7), exact_instances=0)
    assert rough.history[0] != exact.history[0]
    assert rough.converged
    assert rough.dual_gap <= 1e-7 * rough.objective
    again = solve_coupled_rows(*given, rough.witnesses, to(1e-7))
    assert again.objective == pytest.approx(rough.objective, rel=1e-6)


@pytest.mark.parametrize("kind", [TIED[0], TIED[2], TIED[4]], ids=",".join)
def test_the_gap_of_tied_bags_is_never_below_the_distance_to_the_optimum(kind):
    for seed, gap_tol in enumerate([1e-1, 1e-3]):
        bags, signs, weights = data(seed)
        loss, coupling, scales = tied(bags, signs, weights, kind)
        first = bags.offsets[:-1]
        once = SolverOptions(gap_tol, 1)
        found = solve_coupled_rows(
            source(bags), loss, coupling, kind[1], first, once, limits=NEAR[1]
        )
        held = step_value(bags, loss, coupling, scales, first, found.w)
        sums = np.add.reduceat(bags.instances, first, axis=0) * scales[0][:, None]
        rows, subgradient = bags.instances * scales[1][:, None], np.zeros(bags.n_instances)
        subgradient[first] = 1.0
        best = oracle(sums, rows, bags.offsets, subgradient, loss, coupling)
        assert held - best <= found.dual_gap + 1e-6 * abs(held)


def step_value(bags, loss, coupling, scales, first, w):
    """The convex step with given rows held, at w with the best free variables."""
    scores = bags.instances @ w * scales[1]
    top = segment_max(scores, bags.offsets)
    if coupling.hard:
        return 0.5 * w @ w + loss.split(top, scores[first])[1]
    own = scales[0] * np.add.reduceat(bags.instances @ w, first)
    excess = np.maximum(np.abs(own - scores[first]), top - own)
    return 0.5 * w @ w + loss.value(own, loss.free(own)[0]) + coupling.value(excess)


@pytest.mark.parametrize("kind", [TIED[0], TIED[2]], ids=",".join)
def test_few_rows_of_each_bag_are_enough(kind):
    bags, signs, weights = data(1, n_bags=60)
    loss, coupling, _ = tied(bags, signs, weights, kind)
    arguments = loss, coupling, kind[1], bags.offsets[:-1], to(1e-5)
    free = solve_coupled_rows(source(bags), *arguments)
    limits = replace(TIED_LIMITS, all_rows=0, numbers=1)
    few = solve_coupled_rows(source(bags), *arguments, limits=limits)
    assert few.dual_gap <= 1e-5 * few.objective
    assert few.objective == pytest.approx(free.objective, rel=3e-5)


# -- both ----------------------------------------------------------------------------------------


def test_passes_run_out_before_the_first_step_is_solved():
    bags, signs, weights = data(4)
    loss, coupling, _ = tied(bags, signs, weights, TIED[0])
    arguments = loss, coupling, "set", bags.offsets[:-1], to(1e-12)
    found = solve_coupled_rows(source(bags), *arguments, max_passes=3)
    assert found.stopped == "max_passes"
    assert np.isfinite([found.objective, found.dual_gap]).all()
    assert found.history == [found.objective]
