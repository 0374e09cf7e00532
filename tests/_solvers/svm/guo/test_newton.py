"""Newton's method within the method of multipliers, for the relaxation of instance selection."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from milearn._bags.segments import segment_sum
from milearn._solvers.svm.guo import relaxation as guo_relaxation
from milearn._solvers.svm.guo.loss import Piece, RelaxationLoss
from milearn._solvers.svm.guo.newton import MultiplierMethod
from milearn._solvers.svm.guo.relaxation import RelaxationProblem, solve_relaxation
from milearn._solvers.svm.guo.systems import FeatureGeometry, SparseGeometry
from milearn.exceptions import SolverError

OFFSETS = np.array([0, 1, 4, 9, 11, 18, 20, 23])
SIGNS = np.array([1.0, -1, 1, 1, 1, -1, 1])
SETTINGS = [(0.4, True), (0.4, False), (1.0, True), (2.0, True), (2.0, False), (3.5, True)]


def problem_of(features, *, cost=1.0, seed=0, bound=2.0, one=True, **more):
    costs = cost * np.random.default_rng(seed).uniform(0.5, 2.0, len(SIGNS))
    return RelaxationProblem(
        features, OFFSETS, SIGNS, costs, slack_bound=bound, exactly_one=one, **more
    )


def loss_of(problem, margins):
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
    loss = RelaxationLoss(problem, 1.0)
    seen = set()
    for seed in range(2):
        margins = drawn_margins(problem, seed)
        scaled = np.random.default_rng(seed).uniform(0, 1, len(margins))
        z = cp.Variable(len(margins))
        value, constraints = loss_of(problem, z)
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
    loss, stiffness = RelaxationLoss(problem, 1.0), 5.0
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
    value, constraints = loss_of(problem, margins)
    oracle = cp.Problem(cp.Minimize(value), constraints)
    oracle.solve(solver=cp.CLARABEL)
    slacks, eta = RelaxationLoss(problem, 1.0).slacks(margins)
    assert problem.value(np.zeros(1), slacks, eta) == pytest.approx(oracle.value, abs=1e-6)
    sums = segment_sum(eta, problem.bag_offsets)
    assert np.abs(sums - 1).max() < 1e-12 if one else (sums > 1 - 1e-12).all()
    assert (eta >= 0).all()
    assert (slacks >= np.maximum(0, 1 - margins) - 1e-12).all()
    assert (slacks[: problem.n_positive] <= bound).all()


def drawn_features(seed, kind):
    rng = np.random.default_rng(seed)
    n = OFFSETS[-1]
    if kind == "sparse":
        return sparse.random_array((n, 90), density=0.15, random_state=rng, format="csr")
    X = rng.normal(size=(n, 3 if kind == "flat" else 60))
    return np.round(X) if kind == "repeated" else X


def solved_directly(problem, tol=1e-10):
    """The solution of the method of multipliers, which ``solve_relaxation`` may not keep."""
    found = MultiplierMethod(problem, float(problem.costs.max())).run(tol)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["flat", "wide", "repeated", "sparse"])
@pytest.mark.parametrize("cost", [1e-2, 1.0, 1e3])
def test_it_finds_what_the_interior_point_method_finds(kind, cost):
    # Each setting with several kinds and costs.
    first = len(kind) + (cost > 1)
    for seed, (bound, one) in enumerate([SETTINGS[first % 6], SETTINGS[(first + 3) % 6]]):
        features = drawn_features(seed, kind)
        dense = features.toarray() if kind == "sparse" else features
        dense = dense - dense.mean(axis=0)
        more = {"cost": cost, "seed": seed, "bound": bound, "one": one}
        theirs = solve_relaxation(problem_of(dense, **more), tol=1e-10)
        assert theirs.solver == "interior-point"
        if kind == "sparse":
            problem = problem_of(features, **more)
        else:
            problem = problem_of(dense @ dense.T, **more, is_kernel=True)
        found = solved_directly(problem)
        assert found.error <= 3e-8
        ours = solve_relaxation(problem, tol=1e-10)
        assert ours.value == pytest.approx(theirs.value, rel=1e-6, abs=1e-7 * cost)
        sums = theirs.slacks[: problem.n_positive] + theirs.eta
        # Of slack and selection only the sum is unique.
        assert ours.slacks[: problem.n_positive] + ours.eta == pytest.approx(sums, abs=1e-3)
        margins = problem.signs * ours.scores[problem.rows]
        assert (margins >= 1 - ours.slacks - 1e-6).all()


@pytest.mark.parametrize("most", [200, 2])
def test_conjugate_gradients_and_factor_lead_to_the_same(most):
    """With two steps only the factor is left."""
    rng = np.random.default_rng(0)
    features = sparse.csr_array(drawn_features(1, "sparse"))
    signs = np.where(np.arange(OFFSETS[-1]) < 18, 1.0, -1.0)
    system = rng.uniform(0.5, 2.0, len(signs)), np.zeros(18), np.array([0, 5, 6, 15, 18])
    factored = SparseGeometry(features, signs, 0.7)
    right = factored.times_rows(rng.normal(size=len(signs)))
    iterated = SparseGeometry(features, signs, 0.7, few_rows=0, max_gradients=most)
    expected = factored.system(*system)(right)
    for tol in (1e-3, 1e-9):
        found = iterated.system(*system, tol)(right)
        assert found == pytest.approx(expected, abs=20 * tol)
        assert (np.abs(found - expected).max() < 1e-12) == (most == 2)


def test_systems_of_sparse_and_of_dense_features_are_the_same():
    rng = np.random.default_rng(0)
    features = drawn_features(2, "sparse")
    signs = np.where(np.arange(OFFSETS[-1]) < 18, 1.0, -1.0)
    dense = features.toarray()
    theirs = FeatureGeometry(dense - dense.mean(axis=0), signs, 0.7)
    ours = SparseGeometry(sparse.csr_array(features), signs, 0.7)
    bags = np.array([0, 5, 6, 15, 18])
    weights = rng.uniform(0.5, 2.0, len(signs)) * (rng.uniform(size=len(signs)) < 0.6)
    pull = np.where(rng.uniform(size=18) < 0.5, rng.normal(size=18), 0.0)
    right = theirs.times_rows(rng.normal(size=len(signs)))
    assert ours.rows_times(right) == pytest.approx(theirs.rows_times(right))
    alpha = rng.normal(size=len(signs))
    assert ours.times_rows(alpha) == pytest.approx(theirs.times_rows(alpha))
    expected = theirs.system(weights, pull, bags)(right)
    assert ours.system(weights, pull, bags)(right) == pytest.approx(expected)


def test_the_interior_point_method_takes_over(monkeypatch):
    problem = problem_of(drawn_features(3, "sparse"))
    expected = solve_relaxation(problem)
    imprecise = solved_directly(problem)
    imprecise.error = imprecise.primal_residual = 1e-5
    for kept in (None, imprecise):
        monkeypatch.setattr(MultiplierMethod, "run", lambda self, tol, kept=kept: kept)
        other = solve_relaxation(problem)
        monkeypatch.undo()
        assert (expected.solver, other.solver) == ("newton", "interior-point")
        assert other.value == pytest.approx(expected.value, rel=1e-7)


def test_where_both_fail_it_is_an_error_and_where_one_does_the_other_is_kept(monkeypatch):
    problem = problem_of(drawn_features(3, "sparse"))
    found = solved_directly(problem)
    found.error = 1e-5

    def fails(self, tol):
        raise SolverError("no")

    monkeypatch.setattr(guo_relaxation.InteriorPointMethod, "run", fails)
    monkeypatch.setattr(MultiplierMethod, "run", lambda self, tol: found)
    assert solve_relaxation(problem).solver == "newton"
    monkeypatch.setattr(MultiplierMethod, "run", lambda self, tol: None)
    with pytest.raises(SolverError, match="no"):
        solve_relaxation(problem)


def test_a_matrix_that_does_not_fit_is_refused_with_a_remedy():
    problem = problem_of(drawn_features(0, "sparse"), max_bytes=100.0)
    with pytest.raises(MemoryError, match=r"raise working_memory .* set n_components"):
        solve_relaxation(problem)


def test_a_matrix_that_is_no_kernel_is_an_error_with_a_remedy():
    features = drawn_features(0, "wide")
    problem = problem_of(-100.0 * features @ features.T, is_kernel=True)
    with pytest.raises(SolverError, match="scale the features or lower C"):
        solve_relaxation(problem)
