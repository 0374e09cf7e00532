"""Starts of proportional hazards: martingale residuals, the screen, and a sample of the bags."""

from __future__ import annotations

import numpy as np
import pytest

from milearn import Bags
from milearn._bags.blocks import ArraySource
from milearn._solvers.common.cccp import SolverOptions
from milearn._solvers.common.passes import SampleLimits
from milearn._solvers.survival.likelihood import PartialLikelihood
from milearn._solvers.survival.passes import (
    _SCREENED,
    CoxProblem,
    CoxStart,
    martingale_residuals,
    screened_starts,
    solve_cox_maximum,
)
from tests.bags import random_bags

# Whole bags: of parts of bags, only some would have the instance that sets the hazard.
FEW = SampleLimits(instances=2_800, per_feature=1, numbers=2**20, bags=30)


def rare_problem(seed=0, n_bags=100, size=40, d=4, *, C=0.3, weights=None):
    """One instance of each bag sets the hazard."""
    rng = np.random.default_rng(seed)
    rows, severity = rng.normal(size=(n_bags, size, d)), rng.uniform(0, 1, n_bags)
    rows[:, 0, :2] += 4.0 * severity[:, None]
    bags = Bags(rows.reshape(-1, d), np.arange(0, n_bags * size + 1, size))
    events, times = rng.random(n_bags) < 0.7, rng.exponential(np.exp(-4 * severity))
    weights = np.ones(n_bags) if weights is None else weights
    likelihood = PartialLikelihood(events, times, weights, "breslow")
    return CoxProblem(ArraySource(bags.instances, bags.offsets), likelihood, C), weights


def end_of(problem, start):
    return solve_cox_maximum(problem, start, SolverOptions(1e-6, 100)).objective


def test_martingale_residuals_are_events_less_the_hazard_of_nelson_and_aalen():
    rng = np.random.default_rng(0)
    events, times = rng.random(30) < 0.6, rng.integers(0, 9, 30).astype(float)
    weights = rng.integers(0, 3, 30).astype(float)
    expected = events.astype(float)
    for at in np.unique(times[events & (weights > 0)]):
        hazard = weights[events & (times == at)].sum() / weights[times >= at].sum()
        expected[times >= at] -= hazard
    found = martingale_residuals(PartialLikelihood(events, times, weights, "breslow"), weights)
    np.testing.assert_allclose(found, np.where(weights > 0, expected, 0.0), atol=1e-12)
    assert weights @ found == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("limits", [_SCREENED, FEW], ids=["all", "sample"])
def test_the_best_start_is_below_the_means(limits):
    """Over all bags the means are one of the starts; over a sample there is one start."""
    problem, weights = rare_problem()
    starts = screened_starts(problem, weights, limits)
    assert len(starts) == (4 if limits is _SCREENED else 1)
    best = min(end_of(problem, start) for start in starts)
    assert best < 0.97 * end_of(problem, CoxStart())


def test_nothing_to_screen():
    """Bags of one instance, and outcomes in which nothing is expected of one bag but the event."""
    problem, weights = rare_problem(size=1)
    assert screened_starts(problem, weights) == [CoxStart()]
    bags = random_bags(0, 3, 2, 4)
    last = PartialLikelihood(np.arange(3) == 2, np.arange(3.0), np.ones(3), "breslow")
    alone = CoxProblem(ArraySource(bags.instances, bags.offsets), last, 1.0)
    assert screened_starts(alone, np.ones(3)) == [CoxStart()]
