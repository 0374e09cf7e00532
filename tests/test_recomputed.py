"""Random problems recomputed from their definitions in NumPy and SciPy, without our solvers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.special import logsumexp

from milearn.model_selection import BagShuffleSplit, StratifiedBagKFold
from milearn.survival import MICoxPH, survival_outcomes
from milearn.svm import OrdinalMISVC
from tests.bags import random_bags
from tests.toys import OFTEN_CONSTANT

# Relative: only the order of sums differs.
ROUNDING = 1e-9


def draw(seed, n_bags=14, n_features=2, largest=4):
    """A generator, bags, and a weight of zero to three for each bag."""
    rng = np.random.default_rng(seed)
    bags = random_bags(seed, n_bags, n_features, largest)
    if seed % 3 == 0:
        # Ties.
        bags = bags.with_instances(np.sign(np.round(bags.instances)))
    return rng, bags, rng.permutation(np.arange(n_bags) % 4).astype(float)


def pooled(values, bags, how=np.max):
    return np.array([how(part, axis=0) for part in np.split(values, bags.offsets[1:-1])])


# -- fits ------------------------------------------------------------------------------------------


def cox_loss(risks, events, times, weights, ties):
    """Minus the logarithm of the partial likelihood, event by event."""
    if ties == "efron":
        # A weight counts bags.
        copies = np.repeat(np.arange(len(risks)), weights.astype(int))
        risks, events, times = risks[copies], events[copies], times[copies]
        weights = np.ones(len(copies))
    total = 0.0
    for time in np.unique(times[events & (weights > 0)]):
        dying = np.flatnonzero(events & (times == time))
        at_risk = np.flatnonzero(times >= time)
        for place, bag in enumerate(dying):
            counted = weights[at_risk]
            if ties == "efron":
                counted = counted - place / len(dying) * np.isin(at_risk, dying)
            total += weights[bag] * (logsumexp(risks[at_risk], b=counted) - risks[bag])
    return total


@pytest.mark.parametrize("pooling", ["max", "mean"])
@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("seed", range(3))
def test_cox(seed, ties, pooling):
    rng, bags, weights = draw(seed)
    events, times = rng.random(14) < 0.6, rng.integers(1, 6, 14).astype(float)
    events[np.argmax(weights)] = True
    C = 10.0 ** rng.uniform(-2, 1)
    if ties == "breslow":
        weights *= rng.uniform(0.5, 2, 14)
    model = MICoxPH(C, pooling=pooling, ties=ties, random_state=0, tol=1e-9)
    model.fit(bags, survival_outcomes(events, times), sample_weight=weights)

    def objective(w):
        risks = pooled(bags.instances @ w, bags, np.max if pooling == "max" else np.mean)
        return 0.5 * w @ w + C * cox_loss(risks, events, times, weights, ties)

    assert model.objective_ == pytest.approx(objective(model.coef_), rel=ROUNDING)
    risks = pooled(bags.instances @ model.coef_, bags)
    np.testing.assert_allclose(bags.instances[model.witnesses_] @ model.coef_, risks)
    if pooling == "mean":
        best = optimize.minimize(objective, model.coef_ + 0.1, method="BFGS", tol=1e-9).fun
        assert model.objective_ <= best + model.dual_gap_ + ROUNDING * (1 + best)


def ordinal_step(bags, ranks, costs, witnesses):
    """Least value of the convex problem in which witnesses exceed the lower thresholds."""
    n_features, n_thresholds = bags.shape[1], ranks.max()
    planes, starts = [], []
    for bag, threshold in itertools.product(range(len(bags)), range(n_thresholds)):
        above = threshold < ranks[bag]
        starts.append(len(planes))
        for row in [witnesses[bag]] if above else range(*bags.offsets[bag : bag + 2]):
            plane = np.r_[bags.instances[row], -np.eye(n_thresholds)[threshold]]
            planes.append(plane if above else -plane)
    planes, costs = np.array(planes), np.repeat(costs, n_thresholds)
    n, m = planes.shape[1], len(costs)
    slack = np.eye(m)[np.repeat(np.arange(m), np.diff([*starts, len(planes)]))]
    square = np.r_[np.ones(n_features), np.zeros(n_thresholds + m)]
    found = optimize.minimize(
        lambda z: 0.5 * (square * z) @ z + costs @ z[n:],
        np.r_[np.zeros(n), np.ones(m)],
        jac=lambda z: square * z + np.r_[np.zeros(n), costs],
        constraints=optimize.LinearConstraint(np.hstack([planes, slack]), 1.0),
        bounds=[(None, None)] * n + [(0.0, None)] * m,
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 300},
    ).x[:n]
    losses = np.maximum(0.0, np.maximum.reduceat(1.0 - planes @ found, starts))
    return 0.5 * np.sum(found[:n_features] ** 2) + costs @ losses


@pytest.mark.parametrize("seed", range(4))
@OFTEN_CONSTANT
def test_ordinal(seed):
    rng, bags, weights = draw(seed)
    ranks = rng.permutation(np.arange(14) % 3)
    weights[[0, 1, 2]] = 1.0
    used = weights > 0
    C = 10.0 ** rng.uniform(-2, 1)
    model = OrdinalMISVC(C, tol=1e-9, random_state=0).fit(bags, ranks, sample_weight=weights)
    _, places = np.unique(ranks[used], return_inverse=True)
    codes = np.zeros(14, dtype=int)
    codes[used] = places
    w, thresholds = model.coef_[0], model.thresholds_
    distances = pooled(bags.instances @ w, bags)[:, None] - thresholds
    sides = np.where(np.arange(len(thresholds)) < codes[:, None], 1.0, -1.0)
    losses = np.maximum(0.0, 1.0 - sides * distances).sum(axis=1)
    expected = 0.5 * w @ w + C * weights @ losses
    assert model.objective_ == pytest.approx(expected, rel=ROUNDING)
    part = bags[used]
    shift = part.offsets[:-1] - bags.offsets[:-1][used]
    step = ordinal_step(part, places, C * weights[used], model.witnesses_[used] + shift)
    # No point of the last convex problem is better than the certificate says.
    assert model.objective_ <= step + model.dual_gap_ + ROUNDING * (1 + step)


# -- splits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(24))
def test_splits_do_not_leak(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 40))
    bags = random_bags(seed, n, 1, 9)
    k, n_classes = int(rng.integers(2, 4)), int(rng.integers(2, 4))
    y = rng.permutation(np.arange(n) % n_classes).astype(float)
    y[rng.choice(n, n // 10, replace=False)] = np.nan
    # Groups of one class, of several classes, and columns of sites and patients.
    groups = rng.integers(0, max(4, n // 3), n)
    if seed % 3 == 1:
        groups = groups * n_classes + np.arange(n) % n_classes
    columns = (
        np.column_stack([groups, rng.permutation(n) // 2]) if seed % 4 == 0 else groups[:, None]
    )
    pairs = [np.equal.outer(column, column) for column in columns.T]
    linked = sparse.csr_array(np.any(pairs, axis=0))
    merged = sparse.csgraph.connected_components(linked)[1]
    for cv, given, together, n_tested in (
        (StratifiedBagKFold(k), None, np.arange(n), 1),
        (StratifiedBagKFold(k, shuffle=True, random_state=seed), groups, groups, 1),
        (StratifiedBagKFold(k), columns, merged, 1),
        (BagShuffleSplit(3, test_size=0.4, random_state=seed), groups, groups, None),
    ):
        try:
            splits = list(cv.split(bags, y, given))
        except ValueError:
            # Groups of several classes may not be divisible, and no class of few groups is.
            units = [len(np.unique(together[y == code])) for code in range(n_classes)]
            assert given is not None
            assert seed % 3 != 1 or min(units) < k or columns.shape[1] > 1
            continue
        assert len(splits) == cv.get_n_splits()
        tested = np.zeros(n, dtype=int)
        for train, test in splits:
            tested[test] += 1
            assert not set(together[train]) & set(together[test])
            assert not np.isnan(y[test]).any()
            for side in (train, test):
                assert len(np.unique(side)) == len(side)
                assert set(y[side][~np.isnan(y[side])]) == set(y[~np.isnan(y)])
            if n_tested:
                # No bag is lost, but for those without a label that belong to the test groups.
                lost = np.setdiff1d(np.arange(n), np.r_[train, test])
                assert np.isnan(y[lost]).all()
                assert set(together[lost]) <= set(together[test])
        if n_tested:
            np.testing.assert_array_equal(tested, np.where(np.isnan(y), 0, n_tested))
