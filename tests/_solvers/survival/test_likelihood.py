"""Cox's partial likelihood against a loop over event times, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from milearn._solvers.survival.likelihood import PartialLikelihood
from tests.oracles import partial_likelihood


def random_outcomes(seed):
    """Events, times and weights of a few subjects: ties, censored ones, weights of zero."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    weights = rng.integers(0, 4, n).astype(float) if seed % 2 else 2.0 * rng.random(n)
    return rng.random(n) < 0.6, rng.integers(0, 6, n).astype(float), weights


def loss(given, f):
    return given.log_sums(f) - given.event_weights @ f


def slopes_of(function, at, step=1e-6):
    return np.array(
        [(function(at + step * e) - function(at - step * e)) / (2 * step) for e in np.eye(len(at))]
    )


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_value_slopes_and_curvature(ties):
    for seed in range(16):
        events, times, weights = random_outcomes(seed)
        f = np.random.default_rng(seed).normal(scale=3.0, size=len(times))
        given = PartialLikelihood(events, times, weights, ties)
        expected = partial_likelihood(f, events, times, weights, ties)
        assert loss(given, f) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(given.slopes(f), slopes_of(given.log_sums, f), atol=1e-6)
        matrix = given.curvature(f, 2.0) @ np.eye(len(f))
        np.testing.assert_allclose(matrix, 2 * slopes_of(given.slopes, f), atol=1e-5)
        vector = np.arange(len(f), dtype=float)
        np.testing.assert_allclose(given.curvature(f, 2.0) @ vector, matrix @ vector, atol=1e-10)
        several = np.random.default_rng(seed + 1).normal(size=(len(f), 3))
        expected = several.T @ matrix @ several
        for numbers in (2**17, 6):
            found = given.curvature(f, 2.0).gram(several, chunk_numbers=numbers)
            np.testing.assert_allclose(found, expected, atol=1e-9)
        assert (np.diag(matrix) <= given.curvature(f, 2.0).diagonal() + 1e-12).all()


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_values_far_from_zero_have_the_curvature_of_centred_ones(ties):
    for seed in range(20):
        events, times, weights = random_outcomes(seed)
        rng = np.random.default_rng(seed)
        f, values = rng.normal(size=len(times)), rng.normal(size=(len(times), 3))
        found = PartialLikelihood(events, times, weights, ties).curvature(f, 1.0)
        np.testing.assert_allclose(found.gram(values + 1e7), found.gram(values), atol=1e-6)
        np.testing.assert_allclose(found @ (values + 1e7), found @ values, atol=1e-6)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_the_lower_bound_is_attained(ties):
    for seed in range(40):
        events, times, weights = random_outcomes(seed)
        given = PartialLikelihood(events, times, weights, ties)
        f = np.random.default_rng(seed).normal(scale=5.0, size=len(times))
        assert loss(given, f) >= given.lowest - 1e-9
        # All leave in the order of their risks; tied events have the same, censored ones none.
        ordered = np.where(events, -30.0 * times, -400.0)
        assert loss(given, ordered) == pytest.approx(given.lowest, abs=1e-6)


def test_scores_far_apart_keep_their_digits():
    """Sums of exponentials of these scores would overflow, or vanish."""
    events, times = np.array([True, True, False, True]), np.array([1.0, 2.0, 3.0, 4.0])
    given = PartialLikelihood(events, times, np.ones(4), "breslow")
    f = np.array([-2000.0, 900.0, 899.0, -1500.0])
    expected = (900.0 + np.log1p(np.exp(-1.0))) * 2 - 1500.0 - f[events].sum()
    assert loss(given, f) == pytest.approx(expected)
    slopes = given.slopes(f)
    share = 1.0 / (1.0 + np.exp(-1.0))
    np.testing.assert_allclose(slopes, [0.0, 2 * share, 2 * (1 - share), 1.0], atol=1e-12)
    product = given.curvature(f, 1.0) @ np.eye(4)
    assert np.isfinite(product).all()
    assert (np.linalg.eigvalsh(product) > -1e-9).all()


def test_baseline_is_breslows():
    events, times, weights = random_outcomes(8)
    given = PartialLikelihood(events, times, weights, "efron")
    f = np.random.default_rng(1).normal(size=len(times))
    at, logs = given.log_baseline(f)
    happened = np.unique(times[events & (weights > 0)])
    expected = [
        weights[events & (times == t)].sum() / (weights * np.exp(f))[times >= t].sum()
        for t in happened
    ]
    np.testing.assert_array_equal(at, happened)
    np.testing.assert_allclose(np.exp(logs), expected)
