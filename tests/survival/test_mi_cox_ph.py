"""MICoxPH: scikit-survival on bags of one instance, its stated problem, functions of time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from milearn import Bags
from milearn.survival import MICoxPH, survival_outcomes
from tests.bags import random_bags
from tests.oracles import cox_step


def random_case(seed=0, n_bags=40, d=4, largest=5, *, tied=False):
    """Bags whose highest first feature sets the hazard, and outcomes of which some are censored."""
    bags, rng = random_bags(seed, n_bags, d, largest), np.random.default_rng(seed)
    risks = np.maximum.reduceat(bags.instances[:, 0], bags.offsets[:-1])
    time, end = rng.exponential(np.exp(-risks)), rng.exponential(1.0, size=n_bags)
    times = np.minimum(time, end)
    return bags, survival_outcomes(time <= end, np.ceil(5 * times) if tied else times)


# -- bags of one instance --------------------------------------------------------------------------


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("alpha", [0.05, 1.0, 30.0])
def test_bags_of_one_are_ridge_cox_of_scikit_survival(ties, tied, alpha):
    sksurv = pytest.importorskip("sksurv.linear_model", reason="needs the extra survival")
    bags, y = random_case(0, 80, 5, 1, tied=tied)
    rows = bags.instances
    expected = sksurv.CoxPHSurvivalAnalysis(alpha=alpha, ties=ties, tol=1e-15).fit(rows, y)
    for pooling in ("max", "mean"):
        found = MICoxPH(C=1 / alpha, ties=ties, pooling=pooling).fit(bags, y)
        np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6)
        np.testing.assert_allclose(found.predict(bags), expected.predict(rows), atol=1e-5)
        assert found.score(bags, y) == pytest.approx(expected.score(rows, y))
        np.testing.assert_array_equal(found.unique_times_, expected.unique_times_)
        for name in ("cum_baseline_hazard_", "baseline_survival_"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name).y, rtol=1e-5)
        for name in ("predict_survival_function", "predict_cumulative_hazard_function"):
            mine, other = getattr(found, name), getattr(expected, name)
            np.testing.assert_allclose(mine(bags), other(rows, return_array=True), rtol=1e-4)


# -- the stated problem ----------------------------------------------------------------------------


def test_starts():
    bags, y = random_case(3, 20, 3, 6)
    one = MICoxPH(C=10.0).fit(bags, y)
    several = MICoxPH(C=10.0, n_init=6, random_state=0).fit(bags, y)
    assert several.objective_ <= one.objective_ * (1 + 1e-9)
    again = MICoxPH(C=10.0, init=several.witnesses_).fit(bags, y)
    assert again.objective_ == pytest.approx(several.objective_, rel=1e-6)
    assert again.n_iter_ <= 2
    drawn = MICoxPH(C=10.0, init="random", random_state=0).fit(bags, y)
    assert drawn.objective_ >= several.objective_ * (1 - 1e-9)


def test_screened_starts_find_rare_instances():
    """One deciding instance among fifty: the means end in a worse minimum."""
    rng = np.random.default_rng(2)
    rows, severity = rng.normal(size=(150, 50, 20)), rng.uniform(0, 1, 150)
    rows[:, 0, :2] += 4.0 * severity[:, None]
    bags = Bags(rows.reshape(-1, 20), np.arange(0, 7501, 50))
    time, end = rng.exponential(np.exp(-4 * severity)), rng.exponential(0.5, size=150)
    y = survival_outcomes(time <= end, np.minimum(time, end))
    means, auto = (MICoxPH(C=0.3, init=init).fit(bags[:100], y[:100]) for init in ("mean", "auto"))
    assert auto.objective_ < 0.97 * means.objective_
    assert auto.score(bags[100:], y[100:]) > means.score(bags[100:], y[100:]) + 0.1


def test_many_instances_are_solved_to_a_fraction_of_what_the_model_gains():
    """The likelihood of a constant risk is large: a gap of 5e-4 ended where little was gained."""
    rng = np.random.default_rng(0)
    rows, severity = rng.normal(size=(300, 70, 100)).astype(np.float32), rng.uniform(0, 1, 300)
    rows[:, :10, 0] += 2.0 * severity[:, None]
    bags = Bags(rows.reshape(-1, 100), np.arange(0, 21001, 70))
    y = survival_outcomes(np.ones(300), rng.exponential(np.exp(-4 * severity)))
    model = MICoxPH(C=1e-3, init="mean").fit(bags, y)
    assert model.dual_gap_ <= 5e-5 * model.objective_


# -- prediction ------------------------------------------------------------------------------------


def test_survival_functions_are_calibrated_on_the_training_bags():
    """Breslow's estimator: expected and observed numbers of events are equal."""
    bags, y = random_case(4)
    model = MICoxPH(C=0.5).fit(bags, y)
    hazards = model.predict_cumulative_hazard_function(bags)
    expected = hazards[np.arange(len(y)), np.searchsorted(model.unique_times_, y["time"])]
    assert np.sum(expected) == pytest.approx(y["event"].sum())


def test_features_far_from_zero():
    """Scores have no origin: the weights are those of centred features, and hazards are finite."""
    bags, y = random_case(5)
    model = MICoxPH().fit(bags, y)
    far = bags.with_instances(bags.instances + 1e6)
    found = MICoxPH().fit(far, y)
    np.testing.assert_allclose(found.coef_, model.coef_, atol=1e-6)
    expected = model.predict_survival_function(bags)
    survival = found.predict_survival_function(far)
    np.testing.assert_allclose(survival, expected, atol=1e-5)


def test_the_gap_of_sparse_features_far_from_zero_is_true():
    """Proportions of rows are differences of scores, which lost their digits and summed to less."""
    for seed in (0, 1, 7, 10):
        bags, y = random_case(seed, d=3)
        far = Bags(sparse.csr_array(bags.instances + 1e4), bags.offsets)
        found = MICoxPH(init="mean").fit(far, y)
        outcomes = y["event"], y["time"], np.ones(len(y)), "breslow"
        least, _ = cox_step(bags, outcomes, 1.0, found.witnesses_)
        assert found.objective_ - least <= found.dual_gap_ + 1e-6
        assert found.dual_gap_ <= 1e-6 * found.objective_


@pytest.mark.parametrize("weighted", [False, True])
def test_events_of_the_last_time_alone(weighted):
    """All that happened was expected: residuals are rounding, which may have one sign."""
    for seed in range(16):
        bags, rng = random_bags(seed, 12, 3, 5), np.random.default_rng(seed)
        times = rng.integers(1, 4, 12).astype(float)
        weights = rng.uniform(0.1, 3.0, 12) if weighted else None
        y = survival_outcomes(times == times.max(), times)
        found = MICoxPH().fit(bags, y, sample_weight=weights)
        expected = MICoxPH(init="mean").fit(bags, y, sample_weight=weights)
        assert found.objective_ <= expected.objective_ + 1e-6


# -- what is refused -------------------------------------------------------------------------------


def test_no_event_is_refused():
    bags, y = random_case(0)
    censored = survival_outcomes(np.zeros(len(y)), y["time"])
    with pytest.raises(ValueError, match=r"^y holds no event: every bag is censored"):
        MICoxPH().fit(bags, censored)
    with pytest.raises(ValueError, match=r"^y holds no event"):
        MICoxPH().fit(bags, y, sample_weight=np.where(y["event"], 0.0, 1.0))


@pytest.mark.parametrize("form", [pd.DataFrame, lambda y: [tuple(each) for each in y.tolist()]])
def test_columns_of_events_and_times_are_refused_with_the_remedy(form):
    bags, y = random_case(0)
    with pytest.raises(ValueError, match=r"structured array .*survival_outcomes\(event, time\)"):
        MICoxPH().fit(bags, form(y))
