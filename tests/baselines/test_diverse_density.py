"""DiverseDensity and EMDD: planted concepts, thresholds, and what they store."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags
from milearn.baselines import EMDD, DiverseDensity
from milearn.baselines._diverse_density import _threshold

BOTH = pytest.mark.parametrize("Estimator", [DiverseDensity, EMDD])


def planted(seed=0, n_bags=60):
    """Positive bags have an instance near (2, -1) in two features; the third means nothing."""
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(rng.integers(2, 6, n_bags))]
    X = rng.uniform(-4, 4, size=(offsets[-1], 3))
    near = np.hypot(X[:, 0] - 2, X[:, 1] + 1) < 1.0
    X[near, 0] -= 4.0
    y = np.arange(n_bags) % 2
    X[offsets[:-1][y == 1], :2] = [2.0, -1.0] + 0.2 * rng.normal(size=(y.sum(), 2))
    return Bags(X, offsets), y


@BOTH
def test_the_planted_concept_is_found_and_its_scales_are_readable(Estimator):
    bags, y = planted()
    model = Estimator().fit(bags, y)
    np.testing.assert_allclose(model.concept_[:2], [2.0, -1.0], atol=0.3)
    assert model.scales_[2] < 0.2 * model.scales_[:2].min()
    assert model.score(*planted(seed=1)) > 0.9
    positive = np.flatnonzero(y == 1)
    assert (model.witness(bags)[positive] == bags.offsets[positive]).mean() > 0.9


@BOTH
def test_scores_are_the_threshold_less_the_distance(Estimator):
    bags, y = planted()
    model = Estimator(2).fit(bags, y)
    D = (((bags.instances - model.concept_) * model.scales_) ** 2).sum(axis=1)
    expected = model.threshold_ - D
    np.testing.assert_allclose(model.instance_decision_function(bags), expected, rtol=1e-10)
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    np.testing.assert_allclose(model.instance_decision_function(thin), expected, rtol=1e-8)


@BOTH
def test_features_far_from_the_origin_lose_no_digits(Estimator):
    bags, y = planted(n_bags=20)
    model = Estimator(1).fit(bags, y)
    moved = Estimator(1).fit(bags.with_instances(bags.instances + 2.0**20), y)
    np.testing.assert_allclose(moved.concept_ - 2.0**20, model.concept_, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_has_the_best_accuracy_of_all(seed):
    rng = np.random.default_rng(seed)
    nearest, positive = rng.integers(0, 8, 30) / 4 + 0.1, rng.random(30) < 0.5
    costs = rng.uniform(0.1, 2.0, 30)
    cut = _threshold(nearest, positive, costs)
    reached = costs @ ((nearest < cut) == positive)
    best = max(costs @ ((nearest < c) == positive) for c in np.r_[0.0, np.unique(nearest) + 1e-3])
    assert reached == pytest.approx(best, rel=1e-5)
