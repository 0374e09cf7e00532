"""MISVR: the highest instance decides a bag's value."""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone

from milearn import Bags
from milearn._bags.segments import offsets_of, segment_index, segment_max
from milearn.datasets import make_affinity
from milearn.svm import MISVR, CoupledMISVR
from tests.cases import every_pair
from tests.oracles import highest_of


def data(seed, noise):
    """Values that are those of the highest instance under a linear function, and noise."""
    rng = np.random.default_rng(seed)
    bags = Bags.from_list([rng.normal(size=(rng.integers(5, 16), 5)) for _ in range(60)])
    values = np.maximum.reduceat(bags.instances.sum(axis=1), bags.offsets[:-1])
    return bags, values + noise * rng.normal(size=60)


def linear(left, right):
    return left @ right.T


def step_optimum(model, bags, y):
    """The convex step for the reported witnesses."""
    return convex_step(bags, y, model.C, model.nu, model.witnesses_)


@cache
def optimum_of_data(seed, noise, C, nu, witnesses):
    return convex_step(*data(seed, noise), C, nu, np.array(witnesses))


def convex_step(bags, y, C, nu, witnesses):
    w, b, width = cp.Variable(bags.shape[1]), cp.Variable(), cp.Variable(nonneg=True)
    cost = 0.5 * cp.sum_squares(w) + C * nu * len(y) * width
    highest = highest_of(bags.instances @ w, bags.offsets) + b
    cost += C * cp.sum(cp.pos(y - bags.instances[witnesses] @ w - b - width))
    cost += C * cp.sum(cp.pos(highest - y - width))
    return cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)


STARTS = [{}, {"init": "mean"}, {"init": "random", "n_init": 3}]


@pytest.mark.parametrize(
    ("noise", "kernel", "start"),
    every_pair([0.0, 0.5], ["linear", linear], STARTS),
)
def test_it_leaves_the_constant_model(noise, kernel, start):
    # The first step, for the means of the bags or drawn instances, ends at w = 0.
    seed = int(noise > 0)
    bags, y = data(seed, noise)
    model = MISVR(kernel=kernel, random_state=0, **start).fit(bags, y)
    assert model.score(bags, y) > (0.8 if noise else 0.999)
    # The model behind the data has |w|^2 = 5.
    assert model.objective_ <= 2.5001 + 60 * noise
    # Most variants end at the same witnesses, for which cvxpy solves the step once.
    optimum = optimum_of_data(seed, noise, model.C, model.nu, tuple(model.witnesses_))
    assert model.objective_ - model.dual_gap_ <= optimum * (1 + 1e-6)
    assert model.objective_ == pytest.approx(optimum, rel=1e-3)


@pytest.mark.parametrize("seed", [0, 6])
def test_a_dual_of_too_large_numbers_is_solved_over_rows(seed):
    # With the first seed no backend solves the dual, and with the other it keeps a large gap.
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 5, size=11))]
    bags = Bags(rng.normal(size=(offsets[-1], 2)) * [1353, 0.5], offsets)
    y = 0.03 * rng.normal(size=11)
    model = MISVR(C=680, kernel="linear").fit(bags, y)
    assert model.dual_gap_ <= 1e-6 * model.objective_
    constant = step_optimum(model, bags.with_instances(0 * bags.instances), y)
    assert model.objective_ < 0.99 * constant


@pytest.mark.parametrize("estimator", [MISVR(), CoupledMISVR(C=10.0)], ids=["hard", "coupled"])
def test_a_shift_of_the_targets_shifts_the_predictions(estimator):
    bags, targets = make_affinity(n_bags=40, random_state=0)
    targets = np.round(targets * 2**12) / 2**12  # exact after the shift
    near = clone(estimator).fit(bags, targets)
    far = clone(estimator).fit(bags, targets + 2.0**24)
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-9)
    np.testing.assert_allclose(far.predict(bags) - 2.0**24, near.predict(bags), atol=1e-7)


@pytest.mark.parametrize("seed", [3, 12])
def test_bags_of_sorted_equal_instances_in_another_order_give_the_same_fit(seed):
    # With a plain maximum, rounding decided between instances that tie: predictions changed by .2
    # and .03, although the instances of every bag are in order.
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng.integers(1, 6, 24))
    rows = rng.integers(0, 2, (offsets[-1], 3)).astype(float)
    rows[offsets[:-1], 0] += np.arange(24) % 2
    values = segment_max(rows[:, 0], offsets) + rng.integers(0, 2, 24)
    bags = Bags(rows[np.lexsort([*rows.T[::-1], segment_index(offsets)])], offsets)
    expected = MISVR().fit(bags, values).predict(bags)
    for draw in range(3):
        order = np.random.default_rng(draw).permutation(24)
        found = MISVR().fit(bags[order], values[order]).predict(bags)
        np.testing.assert_allclose(found, expected, atol=1e-9)
