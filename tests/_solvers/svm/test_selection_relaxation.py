"""The relaxation of instance selection: three cones, one quadratic program, and what it bounds."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from milearn._bags.segments import segment_min, segment_sum
from milearn._solvers.common.gram import KernelGram, LinearGram
from milearn._solvers.svm.selection_relaxation import (
    RelaxationProblem,
    instance_features,
    solve_relaxation,
)
from milearn.exceptions import SolverError


def small(seed, *, d=3, bound=2.0, one=True, n_bags=6, cost=None):
    """Few bags of one to three instances without structure."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    signs = np.where(np.arange(n_bags) % 2, 1.0, -1.0)
    costs = rng.uniform(0.5, 2.0, size=n_bags) * (10.0 ** rng.integers(-1, 2))
    costs = costs if cost is None else np.full(n_bags, float(cost))
    features = rng.normal(size=(offsets[-1], d))
    return RelaxationProblem(features, offsets, signs, costs, slack_bound=bound, exactly_one=one)


def three_cones(problem):
    """Value and scores by the three matrix inequalities of the paper, written down once more.

    The bounds on the slacks and on h are not in (14) of the paper, which is unbounded without them.
    """
    n, p, c = len(problem.rows), problem.n_positive, problem.costs
    y, s = problem.signs, problem.slack_bound
    Q = problem.features if problem.is_kernel else problem.features @ problem.features.T
    Q = Q * np.outer(y, y)
    delta, g, h, shift = (cp.Variable() for _ in range(4))
    mu, slacks, eta = cp.Variable(n), cp.Variable(n), cp.Variable(p)

    def cone(block, border, corner):
        k = len(block)
        column = cp.reshape(border, (k, 1), order="F")
        return cp.bmat([[block, column], [column.T, cp.reshape(corner, (1, 1), order="F")]]) >> 0

    root = np.sqrt(c[:p])
    inner = g - h - c[:p] @ eta + 2 * c[p:] @ slacks[p:]
    sums = cp.hstack([cp.sum(eta[a:b]) for a, b in itertools.pairwise(problem.bag_offsets)])
    v = 1 + mu - slacks + shift * y
    constraints = [
        cone(Q, v, 2 * delta - inner),
        cone(np.eye(p), cp.multiply(root, slacks[:p] + eta), g),
        cone(np.eye(p), cp.multiply(root, slacks[:p]), h),
        *(each >= 0 for each in (mu, slacks, eta)),
        eta <= 1,
        slacks[:p] <= s,
        h <= s * c[:p] @ slacks[:p],
        sums == 1 if problem.exactly_one else sums >= 1,
    ]
    value = cp.Problem(cp.Minimize(delta), constraints).solve(solver=cp.CLARABEL)
    scores = np.empty(n)
    scores[problem.rows] = y * v.value - shift.value
    return value, scores


# Of a singular kernel matrix the first inequality has no interior.
INACCURATE = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
CASES = [
    (seed, (2, 3, 9, 40)[seed % 4], (1.0, 2.0, 4.0)[seed % 3], seed % 2 == 0) for seed in range(12)
]


@INACCURATE
@pytest.mark.parametrize(("seed", "d", "bound", "one"), CASES)
def test_three_cones_are_one_quadratic_program(seed, d, bound, one):
    # d = 2 and 3 make the kernel matrix singular, d = 40 makes it regular.
    problem = small(seed, d=d, bound=bound, one=one)
    ours, (value, scores) = solve_relaxation(problem, tol=1e-10), three_cones(problem)
    assert ours.value == pytest.approx(value, rel=1e-5, abs=1e-7)
    assert np.abs(ours.scores - scores).max() < 1e-2
    assert ours.error <= 1e-9
    p, s = problem.n_positive, problem.slack_bound
    margins = problem.signs * (problem.features @ ours.w + ours.intercept)
    assert (margins >= 1 - ours.slacks - 1e-9).all()
    assert (ours.slacks >= 0).all()
    assert (ours.slacks[:p] <= s + 1e-9).all()
    sums = segment_sum(ours.eta, problem.bag_offsets)
    assert (np.abs(sums - 1) if one else np.maximum(0, 1 - sums)).max() < 1e-9
    assert (ours.eta <= 1 + 1e-9).all()
    losses, above = ours.slacks.copy(), ours.slacks[:p]
    losses[:p] = 0.5 * (above + ours.eta) ** 2 - 0.5 * s * above - 0.5 * ours.eta
    assert ours.value == pytest.approx(0.5 * ours.w @ ours.w + problem.costs @ losses)
    assert ours.scores[problem.rows] == pytest.approx(problem.signs * margins)


@INACCURATE
@pytest.mark.parametrize(("seed", "kernel"), [(0, "rbf"), (1, "poly"), (2, "repeated")])
def test_three_cones_of_kernels(seed, kernel):
    problem = small(seed)
    instances = np.empty_like(problem.features)
    instances[problem.rows] = problem.features
    if kernel == "repeated":
        instances[1::2] = instances[::2][: len(instances[1::2])]
    evaluate = polynomial_kernel if kernel == "poly" else rbf_kernel
    gram = KernelGram(instances, evaluate, 2**20)
    signs = np.where(np.arange(6) % 2, 1.0, -1.0)
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 4, size=6))]
    matrix, _ = instance_features(gram)
    problem = RelaxationProblem(
        matrix, offsets, signs, np.ones(6), slack_bound=2.0, exactly_one=True, is_kernel=True
    )
    value = solve_relaxation(problem).value
    assert value == pytest.approx(three_cones(problem)[0], rel=1e-5, abs=1e-7)


def test_impossible_data_end_in_an_error_and_not_in_a_wrong_result():
    problem = small(0)
    problem.features[0, 0] = np.nan
    with pytest.raises(SolverError, match="scale the features or lower C"):
        solve_relaxation(problem)


@pytest.mark.parametrize("cost", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
def test_scales(cost, scale):
    problem = small(5, d=8, n_bags=30, cost=cost)
    problem.features *= scale
    assert solve_relaxation(problem, tol=1e-8).error <= 1e-8


@pytest.mark.parametrize("seed", range(5))
def test_the_highest_instance_of_a_bag_has_the_smallest_slack(seed):
    # What rounding uses: slacks of the centre of the optimal face fall where scores rise.
    problem = small(seed, d=4, n_bags=12, cost=1.0)
    result = solve_relaxation(problem, tol=1e-10)
    scores = (problem.features @ result.w)[: problem.n_positive]
    highest = -segment_min(-scores, problem.bag_offsets)
    least = segment_min(result.slacks[: problem.n_positive], problem.bag_offsets)
    own = np.repeat(highest, np.diff(problem.bag_offsets))
    at_highest = result.slacks[: problem.n_positive][scores == own]
    assert at_highest == pytest.approx(least, abs=1e-4)


# -- features of a kernel ------------------------------------------------------------------------


def centred(matrix):
    matrix = matrix - matrix.mean(axis=0)
    return matrix - matrix.mean(axis=1)[:, None]


def test_features_have_the_inner_products_of_the_kernel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    for gram, kernel in (
        (LinearGram(X), X @ X.T),
        (LinearGram(X[:4]), X[:4] @ X[:4].T),
        (LinearGram(sparse.csr_array(X)), X @ X.T),
        (LinearGram(sparse.csr_array(X[:4])), X[:4] @ X[:4].T),
        (KernelGram(X, rbf_kernel, 2**20), rbf_kernel(X)),
    ):
        features, is_kernel = instance_features(gram)
        products = features if is_kernel else features @ features.T
        assert products == pytest.approx(centred(kernel), abs=1e-9)
        # The kernel matrix is asked for only where features are not fewer.
        assert is_kernel == (isinstance(gram, KernelGram) or gram.instances.shape[1] > gram.n)


def test_unused_columns_cost_nothing():
    wide = sparse.csr_array(([1.0, 2.0, 1.0], ([0, 1, 2], [5, 66_000, 5])), shape=(3, 70_000))
    assert instance_features(LinearGram(wide))[0].shape == (3, 2)
    assert instance_features(LinearGram(sparse.csr_array((3, 70_000))))[0].shape == (3, 1)


def test_few_components_are_enough_for_a_smooth_kernel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    kernel = rbf_kernel(X, gamma=0.1)
    gram = KernelGram(X, lambda a, b: rbf_kernel(a, b, gamma=0.1), 0)
    errors = []
    for n_components in (5, 10, 30):
        features, _ = instance_features(gram, n_components)
        assert features.shape[1] <= n_components
        errors.append(np.abs(features @ features.T - centred(kernel)).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-4


def test_components_do_not_depend_on_order_or_repetition():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    order = rng.permutation(30)
    one, _ = instance_features(KernelGram(X, rbf_kernel, 2**20), 6)
    other, _ = instance_features(KernelGram(X[order], rbf_kernel, 2**20), 6)
    assert other @ other.T == pytest.approx((one @ one.T)[np.ix_(order, order)], abs=1e-9)


# -- the kernel matrix in place of features -----------------------------------------------------


def test_a_kernel_matrix_has_a_limit():
    gram = KernelGram(np.random.default_rng(0).normal(size=(9, 3)), rbf_kernel, 2**20)
    for n_components in (None, 9):
        with pytest.raises(MemoryError, match="raise working_memory"):
            instance_features(gram, n_components, max_bytes=8 * 80)
    assert not instance_features(gram, 8, max_bytes=8 * 80)[1]


OFFSETS = np.array([0, 1, 4, 9, 11, 18, 20, 23])
SIGNS = np.array([1.0, -1, 1, 1, 1, -1, 1])


def drawn(features, *, cost=1.0, seed=0, bound=2.0, one=True, **more):
    costs = cost * np.random.default_rng(seed).uniform(0.5, 2.0, len(SIGNS))
    return RelaxationProblem(
        features, OFFSETS, SIGNS, costs, slack_bound=bound, exactly_one=one, **more
    )


def drawn_kernel(seed, kind):
    """Features without their mean, and their kernel matrix."""
    X = np.random.default_rng(seed).normal(size=(OFFSETS[-1], 3 if kind == "flat" else 60))
    X = np.round(X) if kind == "repeated" else X
    X = X - X.mean(axis=0)
    return X, X @ X.T


@pytest.mark.parametrize("kind", ["flat", "wide", "repeated"])
@pytest.mark.parametrize("cost", [1e-2, 1e3])
@pytest.mark.parametrize(("bound", "one"), [(0.4, True), (1.0, True), (2.0, False), (2.0, True)])
def test_a_kernel_matrix_gives_the_optimum_of_its_features(kind, cost, bound, one):
    features, kernel = drawn_kernel(int(cost > 1), kind)
    more = {"cost": cost, "bound": bound, "one": one}
    theirs = solve_relaxation(drawn(features, **more), tol=1e-10)
    problem = drawn(kernel, **more, is_kernel=True)
    ours = solve_relaxation(problem, tol=1e-10)
    # Products of large multipliers with a kernel of rank three have fewer digits, by processor.
    assert ours.error <= (1e-6 if kind == "flat" and cost > 1 else 1e-9)
    assert ours.value == pytest.approx(theirs.value, rel=1e-6, abs=1e-7 * cost)
    sums = theirs.slacks[: problem.n_positive] + theirs.eta
    # Of slack and selection only the sum is unique.
    assert ours.slacks[: problem.n_positive] + ours.eta == pytest.approx(sums, abs=1e-3)
    margins = problem.signs * ours.scores[problem.rows]
    assert (margins >= 1 - ours.slacks - 1e-6).all()


def test_a_matrix_that_is_no_kernel_is_an_error_with_a_remedy():
    problem = drawn(-100.0 * drawn_kernel(0, "wide")[1], is_kernel=True)
    with pytest.raises(SolverError, match="scale the features or lower C"):
        solve_relaxation(problem)


@pytest.mark.parametrize("one", [True, False])
def test_equal_instances_leave_the_intercept(one):
    n = OFFSETS[-1]
    theirs = solve_relaxation(drawn(np.zeros((n, 1)), one=one))
    ours = solve_relaxation(drawn(np.zeros((n, n)), one=one, is_kernel=True))
    assert ours.value == pytest.approx(theirs.value, rel=1e-7)
    assert np.ptp(ours.scores) == 0
