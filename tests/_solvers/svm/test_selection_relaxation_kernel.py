"""Newton's method within the method of multipliers, for the relaxation of instance selection."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from milearn._bags.segments import segment_sum
from milearn._solvers.svm.selection_relaxation import RelaxationProblem, solve_relaxation
from milearn._solvers.svm.selection_relaxation_kernel import MultiplierMethod, Piece, RelaxationLoss
from milearn.exceptions import SolverError

OFFSETS = np.array([0, 1, 4, 9, 11, 18, 20, 23])
SIGNS = np.array([1.0, -1, 1, 1, 1, -1, 1])
SETTINGS = [(0.4, True), (0.4, False), (1.0, True), (2.0, True), (2.0, False), (3.5, True)]


def problem_of(features, *, cost=1.0, seed=0, bound=2.0, one=True, **more):
    costs = cost * np.random.default_rng(seed).uniform(0.5, 2.0, len(SIGNS))
    return RelaxationProblem(
        features, OFFSETS, SIGNS, costs, slack_bound=bound, exactly_one=one, **more
    )


def loss_of(problem):
    costs, bags = problem.costs, problem.bag_offsets
    return RelaxationLoss(costs, bags, problem.slack_bound, problem.exactly_one)


def program_of(problem, margins):
    """The loss of given margins as it stands in the program, its constraints, l and e."""
    p, c, s = problem.n_positive, problem.costs, problem.slack_bound
    slacks, eta = cp.Variable(len(c)), cp.Variable(p)
    above = slacks[:p]
    bags = 0.5 * cp.square(above + eta) - 0.5 * s * above - 0.5 * eta
    bounds = zip(problem.bag_offsets[:-1], problem.bag_offsets[1:], strict=True)
    sums = cp.hstack([cp.sum(eta[first:last]) for first, last in bounds])
    constraints = [
        margins >= 1 - slacks,
        slacks >= 0,
        above <= s,
        eta >= 0,
        sums == 1 if problem.exactly_one else sums >= 1,
    ]
    return c[:p] @ bags + c[p:] @ slacks[p:], constraints


def drawn_margins(problem, seed):
    """Margins on all sides of 1, of 1 - s/2 and of 1 - s."""
    s = problem.slack_bound
    return 1.0 + np.random.default_rng(seed).uniform(-1.4 * s, 0.7 * s, len(problem.signs))


@pytest.mark.parametrize(("bound", "one"), SETTINGS)
@pytest.mark.parametrize("stiffness", [0.3, 20.0])
def test_multipliers_are_those_of_the_envelope(bound, one, stiffness):
    problem = problem_of(np.zeros((OFFSETS[-1], 1)), bound=bound, one=one)
    loss = loss_of(problem)
    seen = set()
    for seed in range(2):
        margins = drawn_margins(problem, seed)
        scaled = np.random.default_rng(seed).uniform(0, 1, len(margins))
        z = cp.Variable(len(margins))
        value, constraints = program_of(problem, z)
        target = margins - scaled / stiffness
        weights = 0.5 * stiffness * problem.costs
        cp.Problem(cp.Minimize(value + weights @ cp.square(z - target)), constraints).solve(
            solver=cp.CLARABEL
        )
        x = 1.0 - target
        pieces = loss.pieces(x, stiffness)
        expected = 2.0 * weights * (z.value - target)
        assert loss.multipliers(x, stiffness, pieces) == pytest.approx(expected, abs=2e-4)
        seen |= set(pieces.codes)
    assert len(seen) >= (3 if stiffness < 1 else 4)


@pytest.mark.parametrize(("bound", "one"), SETTINGS)
def test_curvature_is_the_derivative_of_the_multipliers(bound, one):
    problem = problem_of(np.zeros((OFFSETS[-1], 1)), bound=bound, one=one)
    loss, stiffness = loss_of(problem), 5.0
    x = 1.0 - drawn_margins(problem, 3)
    pieces = loss.pieces(x, stiffness)
    weights, pull = loss.curvature(stiffness, pieces)
    change = np.random.default_rng(4).normal(size=len(x))
    expected = weights * change
    bag = loss.bag
    expected[: loss.p] += pull * segment_sum(pull * change[: loss.p], loss.bags)[bag]
    moved = x + 1e-7 * change
    assert loss.pieces(moved, stiffness).equal(pieces)
    both = [loss.multipliers(each, stiffness, loss.pieces(each, stiffness)) for each in (x, moved)]
    assert (both[1] - both[0]) / 1e-7 == pytest.approx(expected, abs=1e-5)
    assert (weights > 0).any()
    assert pull.any() == (pieces.codes == Piece.LEVEL).any()


@pytest.mark.parametrize(("bound", "one"), SETTINGS)
def test_slacks_and_selection_are_the_best_for_given_margins(bound, one):
    problem = problem_of(np.zeros((OFFSETS[-1], 1)), bound=bound, one=one)
    margins = np.maximum(drawn_margins(problem, 5), 1.0 - bound)
    value, constraints = program_of(problem, margins)
    oracle = cp.Problem(cp.Minimize(value), constraints)
    oracle.solve(solver=cp.CLARABEL)
    slacks, eta = loss_of(problem).slacks(margins)
    assert problem.value(np.zeros(1), slacks, eta) == pytest.approx(oracle.value, abs=1e-6)
    sums = segment_sum(eta, problem.bag_offsets)
    assert np.abs(sums - 1).max() < 1e-12 if one else (sums > 1 - 1e-12).all()
    assert (eta >= 0).all()
    assert (slacks >= np.maximum(0, 1 - margins) - 1e-12).all()
    assert (slacks[: problem.n_positive] <= bound).all()


def drawn_kernel(seed, kind):
    """Features without their mean, and their kernel matrix."""
    X = np.random.default_rng(seed).normal(size=(OFFSETS[-1], 3 if kind == "flat" else 60))
    X = np.round(X) if kind == "repeated" else X
    X = X - X.mean(axis=0)
    return X, X @ X.T


def solved_directly(problem, tol=1e-10):
    """The solution of the method of multipliers, which ``solve_relaxation`` may not keep."""
    unit = problem.unit
    costs, bags = problem.costs / unit, problem.bag_offsets
    loss = RelaxationLoss(costs, bags, problem.slack_bound, problem.exactly_one)
    found = MultiplierMethod(unit * problem.features, problem.signs, loss).run(tol)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["flat", "wide", "repeated"])
@pytest.mark.parametrize("cost", [1e-2, 1.0, 1e3])
def test_it_finds_what_the_interior_point_method_finds(kind, cost):
    # Each setting with several kinds and costs.
    first = len(kind) + (cost > 1)
    for seed, (bound, one) in enumerate([SETTINGS[first % 6], SETTINGS[(first + 3) % 6]]):
        features, kernel = drawn_kernel(seed, kind)
        more = {"cost": cost, "seed": seed, "bound": bound, "one": one}
        theirs = solve_relaxation(problem_of(features, **more), tol=1e-10)
        assert theirs.solver == "interior-point"
        problem = problem_of(kernel, **more, is_kernel=True)
        assert solved_directly(problem).error <= 3e-8
        ours = solve_relaxation(problem, tol=1e-10)
        assert ours.value == pytest.approx(theirs.value, rel=1e-6, abs=1e-7 * cost)
        sums = theirs.slacks[: problem.n_positive] + theirs.eta
        # Of slack and selection only the sum is unique.
        assert ours.slacks[: problem.n_positive] + ours.eta == pytest.approx(sums, abs=1e-3)
        margins = problem.signs * ours.scores[problem.rows]
        assert (margins >= 1 - ours.slacks - 1e-6).all()


@pytest.mark.parametrize("error", [None, 1e-5])
def test_the_interior_point_method_takes_over(monkeypatch, error):
    problem = problem_of(drawn_kernel(3, "wide")[1], is_kernel=True)
    expected, kept = solve_relaxation(problem), None
    if error is not None:
        kept = replace(solved_directly(problem), error=error, primal_residual=error)
    monkeypatch.setattr(MultiplierMethod, "run", lambda self, tol: kept)
    other = solve_relaxation(problem, tol=1e-10)
    assert (expected.solver, other.solver) == ("newton", "interior-point")
    assert other.value == pytest.approx(expected.value, rel=1e-7)
    # Its coefficients are those of the instances.
    assert other.error <= 1e-9
    scores = problem.signs * other.scores[problem.rows]
    assert (scores >= 1 - other.slacks - 1e-6).all()


def test_a_failure_beside_an_imprecise_solution_is_recorded(monkeypatch):
    kernel = drawn_kernel(3, "wide")[1]
    imprecise = replace(solved_directly(problem_of(kernel, is_kernel=True)), error=1e-5)
    problem = problem_of(-100.0 * kernel, is_kernel=True)
    monkeypatch.setattr(MultiplierMethod, "run", lambda self, tol: imprecise)
    found = solve_relaxation(problem)
    assert found.solver == "newton"
    assert "scale the features or lower C" in found.failure


def test_a_matrix_that_is_no_kernel_is_an_error_with_a_remedy():
    problem = problem_of(-100.0 * drawn_kernel(0, "wide")[1], is_kernel=True)
    with pytest.raises(SolverError, match="scale the features or lower C"):
        solve_relaxation(problem)
