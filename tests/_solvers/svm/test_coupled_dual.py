"""One convex step of the coupled SVM against a conic solver that sees the primal problem."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from milearn._kernels.bag import (
    BAG_KERNELS,
    bag_scales,
    instance_scales,
    minmax_vectors,
)
from milearn._kernels.instance import instance_kernel
from milearn._solvers.common.gram import LinearGram
from milearn._solvers.svm.coupled.dual import solve_step
from milearn._solvers.svm.coupled.gram import BagGram
from milearn._solvers.svm.losses import Coupling, Hinge, Tube
from tests.bags import bag_gram
from tests.oracles import highest_of

LOSSES = ["l1", "l2", "epsilon_insensitive"]
# The hard maximum of a classifier has a solver of its own.
PROBLEMS = pytest.mark.parametrize(
    ("task", "loss_name"),
    [*((task, loss) for task in ("hinge", "tube") for loss in LOSSES), ("tube", "max")],
)


def problem(seed, n_bags=8, d=3, name="normalized_set"):
    """Objects over explicit features, and those features of bags and instances."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    X = rng.normal(size=(offsets[-1], d))
    if name == "minmax":
        own = minmax_vectors(X, np.arange(len(X) + 1))
        rows = np.concatenate([own, minmax_vectors(X, offsets)])
        whole = sparse.eye_array(n_bags, len(rows), k=len(X), format="csr")
        return BagGram(LinearGram(rows), offsets, whole, np.ones(len(X))), rows[len(X) :], own
    kernel, _ = instance_kernel("linear", gamma=1.0)
    scales = bag_scales(name, X, offsets, kernel), instance_scales(name, X, kernel)
    bags = scales[0][:, None] * np.add.reduceat(X, offsets[:-1], axis=0)
    return bag_gram(LinearGram(X), offsets, *scales), bags, scales[1][:, None] * X


def losses(seed, n_bags, task):
    rng = np.random.default_rng(seed + 100)
    weights = rng.uniform(0.2, 3.0, size=n_bags)
    if task == "hinge":
        return Hinge(np.where(np.arange(n_bags) % 2, 1.0, -1.0), weights)
    return Tube(rng.normal(size=n_bags), weights, nu=float(rng.uniform(0.2, 0.9)))


def random_subgradient(seed, offsets, kind):
    rng = np.random.default_rng(seed + 200)
    subgradient = np.zeros(offsets[-1])
    for a, b in itertools.pairwise(offsets):
        if kind == "mean":
            subgradient[a:b] = 1.0 / (b - a)
        elif kind == "one":
            subgradient[rng.integers(a, b)] = 1.0
        else:
            subgradient[a:b] = rng.dirichlet(np.ones(b - a))
    return subgradient


def oracle(bags, instances, offsets, subgradient, loss, coupling):
    """The convex problem as it is written in the module, all cuts in it."""
    f, b, width = cp.Variable(bags.shape[1]), cp.Variable(), cp.Variable(nonneg=True)
    cost = 0.5 * cp.sum_squares(f)
    mixed = np.add.reduceat(subgradient[:, None] * instances, offsets[:-1], axis=0) @ f
    highest, score = highest_of(instances @ f, offsets), bags @ f
    hard = coupling.loss == "max"
    if isinstance(loss, Hinge):
        cost += loss.weights @ cp.pos(1 - cp.multiply(loss.signs, score + b))
    else:
        above = (highest if hard else score) + b - loss.targets
        below = loss.targets - (mixed if hard else score) - b
        cost += loss.nu * loss.weights.sum() * width
        cost += loss.weights @ (cp.pos(above - width) + cp.pos(below - width))
    several = np.flatnonzero(np.diff(offsets) > 1)
    if not hard and len(several):
        difference = cp.maximum(score - mixed, highest - score)[several]
        excess = cp.pos(difference - coupling.margin)
        cost += coupling.weights[several] @ (cp.square(excess) if coupling.loss == "l2" else excess)
    return cp.Problem(cp.Minimize(cost)).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )


@PROBLEMS
@pytest.mark.parametrize(("seed", "kind"), [(0, "mean"), (1, "one"), (2, "mixed")])
def test_equals_the_conic_solver(seed, kind, task, loss_name):
    objects, bags, instances = problem(seed)
    loss = losses(seed, len(bags), task)
    coupling = Coupling(loss_name, loss.weights * [0.1, 1.0, 10.0][seed], epsilon=0.05)
    subgradient = random_subgradient(seed, objects.offsets, kind)
    expected = oracle(bags, instances, objects.offsets, subgradient, loss, coupling)
    for cuts in (None, np.arange(len(instances))):
        found = solve_step(objects, loss, coupling, subgradient, tol=1e-9, cuts=cuts)
        assert found.objective == pytest.approx(expected, rel=1e-6, abs=1e-8)
        assert abs(found.gap) <= 1e-8 * max(1.0, found.objective)
        f = found.of_bags @ bags + found.of_instances @ instances
        if loss_name != "max":
            assert found.bag_scores == pytest.approx(bags @ f, abs=1e-9)
        assert found.scores == pytest.approx(instances @ f, abs=1e-9)
        assert found.norm2 == pytest.approx(f @ f, abs=1e-9)


@pytest.mark.parametrize("name", BAG_KERNELS)
@pytest.mark.parametrize("task", ["hinge", "tube"])
def test_every_bag_kernel(name, task):
    objects, bags, instances = problem(5, name=name)
    loss = losses(5, len(bags), task)
    coupling = Coupling("l1", 0.5 * loss.weights)
    subgradient = random_subgradient(5, objects.offsets, "mixed")
    found = solve_step(objects, loss, coupling, subgradient, tol=1e-9)
    expected = oracle(bags, instances, objects.offsets, subgradient, loss, coupling)
    assert found.objective == pytest.approx(expected, rel=1e-6)
