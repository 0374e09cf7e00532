"""The noisy-or likelihood against loops, its gradient against differences, and a naive boosting."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar

from milearn._solvers.baselines.noisy_or_boosting import (
    BoostingProblem,
    boost_noisy_or,
    noisy_or_weights,
)
from tests.oracles import blocks_of, noisy_or_loss


def problem(seed=0, n_bags=10, n_points=15):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 5, n_bags))]
    point_of = rng.integers(0, n_points, offsets[-1])
    costs = rng.uniform(0.5, 2.0, n_bags)
    return BoostingProblem(point_of, offsets, np.arange(n_bags) % 2 == 0, costs, n_points)


def looped(given, scores):
    """Negative log-likelihood, one instance at a time."""
    probabilities = 1.0 / (1.0 + np.exp(-scores[given.point_of]))
    return noisy_or_loss(blocks_of(probabilities, given.offsets), given.positive, given.costs)


def test_scores_far_from_zero_have_a_finite_loss():
    given = problem()
    for scores in (np.full(given.n_points, -900.0), np.full(given.n_points, 900.0)):
        assert np.isfinite(given.loss(scores))
        assert np.isfinite(noisy_or_weights(given, scores)).all()


def best_of(H):
    def learn(weights):
        best = int(np.argmax(H @ weights))
        return best, H[best]

    return learn


@pytest.mark.parametrize("seed", range(3))
def test_rounds_are_those_of_a_naive_boosting(seed):
    given = problem(seed)
    H = np.where(np.random.default_rng(seed).random((12, given.n_points)) < 0.5, 1.0, -1.0)
    found = boost_noisy_or(given, best_of(H), n_rounds=8, rate=1.0, tol=1e-12)
    assert (np.diff(found.history) < 0).all()
    constant = minimize_scalar(lambda b: looped(given, np.full(given.n_points, b)))
    assert found.history[0] == pytest.approx(constant.fun, rel=1e-6)
    scores = np.full(given.n_points, constant.x)
    for learner, loss in zip(found.learners, found.history[1:], strict=True):
        slopes = approx_fprime(scores, lambda each: looped(given, each), 1e-7)
        h = H[int(np.argmax(H @ -slopes))]
        assert learner == int(np.argmax(H @ -slopes))
        step = minimize_scalar(
            lambda a, F=scores, h=h: looped(given, F + a * h), bounds=(0.0, 4.0), method="bounded"
        ).x
        scores = scores + step * h
        assert loss == pytest.approx(looped(given, scores), rel=1e-5)


def test_a_learner_that_separates_takes_the_largest_step():
    offsets = np.arange(5)
    given = BoostingProblem(np.arange(4), offsets, offsets[:-1] < 2, np.ones(4), 4)
    h = np.array([1.0, 1.0, -1.0, -1.0])
    found = boost_noisy_or(given, lambda weights: (0, h), n_rounds=2, rate=1.0, tol=1e-9)
    np.testing.assert_allclose(found.steps, [4.0, 4.0])
    assert found.intercept == pytest.approx(0.0, abs=1e-9)


def test_boosting_without_learners_converges_at_the_constant():
    found = boost_noisy_or(problem(), lambda weights: None, n_rounds=5, rate=1.0, tol=1e-9)
    assert found.n_iter == 0
    assert len(found.history) == 1
