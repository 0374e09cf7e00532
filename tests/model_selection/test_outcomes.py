"""Splits of bags with outcomes of survival analysis: events and censored bags are the classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from milearn.inspection import (
    BagScoresDisplay,
    cross_val_instance_scores,
    permutation_importance,
)
from milearn.model_selection import (
    BagShuffleSplit,
    StratifiedBagKFold,
    compare,
    confounder_baseline,
    label_permutation_test,
    transductive_cross_val_score,
)
from milearn.survival import MICoxPH, survival_outcomes
from milearn.svm import MISVC, MISVR
from tests.bags import random_bags


def outcomes(n_events, n_censored, seed=0):
    """Bags, their outcomes in random order, and whether they have an event."""
    n, rng = n_events + n_censored, np.random.default_rng(seed)
    events = rng.permutation(np.arange(n) < n_events)
    return random_bags(seed, n, 1, 9), survival_outcomes(events, rng.random(n)), events


@pytest.mark.parametrize("shuffle", [False, True])
def test_folds_are_those_of_the_events(shuffle):
    bags, y, events = outcomes(13, 30)
    cv = StratifiedBagKFold(4, shuffle=shuffle, random_state=0 if shuffle else None)
    expected = list(cv.split(bags, np.where(events, "event", "censored")))
    # Any names of fields, as in scikit-survival.
    y = y.astype([("died", bool), ("days", float)])
    for (train, test), (other_train, other_test) in zip(cv.split(bags, y), expected, strict=True):
        np.testing.assert_array_equal(train, other_train)
        np.testing.assert_array_equal(test, other_test)
        assert events[test].sum() in (3, 4)


@pytest.mark.parametrize(("n_events", "n_censored"), [(12, 0), (12, 1), (5, 3)])
def test_folds_need_no_censored_bag(n_events, n_censored):
    bags, y, events = outcomes(n_events, n_censored)
    groups = np.arange(len(bags)) // 2
    for cv, options in (
        (StratifiedBagKFold(5), {}),
        *([(StratifiedBagKFold(3), {"groups": groups})] if n_events > 5 else []),
    ):
        tested = np.zeros(len(bags))
        for train, test in cv.split(bags, y, **options):
            assert events[train].any()
            assert events[test].any()
            tested[test] += 1
        assert (tested == tested[0]).all()


def test_random_splits_and_sites():
    bags, y, events = outcomes(20, 40)
    for train, test in BagShuffleSplit(3, test_size=0.5, random_state=0).split(bags, y):
        assert events[test].sum() == events[train].sum() == 10
    sites = np.arange(60) % 6
    for train, test in StratifiedBagKFold(3).split(bags, y, sites):
        assert not set(sites[train]) & set(sites[test])
        assert events[test].any()


def test_what_is_refused():
    bags, y, _ = outcomes(3, 20)
    cv = StratifiedBagKFold(4)
    with pytest.raises(ValueError, match=r"^Class 'event' is in 3 labelled bag\(s\) and needs "):
        list(cv.split(bags, y))
    censored = survival_outcomes(np.zeros(23), y["time"])
    with pytest.raises(ValueError, match=r"^y holds no event: every bag is censored, and every"):
        list(cv.split(bags, censored))
    y["time"][0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        list(cv.split(bags, y))


@pytest.mark.parametrize("model", [MISVC(), MISVR()])
def test_what_takes_classes_or_values_refuses_outcomes(model):
    X, y, events = outcomes(8, 8)
    fitted = clone(model).fit(X, events)
    for function in (
        lambda: clone(model).fit(X, y),
        lambda: confounder_baseline(X, y),
        lambda: confounder_baseline(X, y, estimator=MICoxPH()),
        lambda: compare({"a": model}, {"b": (X, y)}, cv=2),
        lambda: label_permutation_test(model, X, y, cv=2),
        lambda: transductive_cross_val_score(model, X, y),
        lambda: cross_val_instance_scores(model, X, y, cv=2),
        lambda: permutation_importance(fitted, X, y),
        lambda: BagScoresDisplay.from_estimator(fitted, X, y),
    ):
        with pytest.raises(ValueError, match=r"^y holds outcomes of survival .* pass classes or v"):
            function()


def test_survival_models_are_compared_and_tested():
    X, y, _ = outcomes(10, 10)
    cv = StratifiedBagKFold(2)
    assert compare({"a": MICoxPH()}, {"b": (X, y)}, cv=cv).estimators == ("a",)
    assert label_permutation_test(MICoxPH(), X, y, cv=cv, n_permutations=3).p_value >= 0.25
    assert cross_val_instance_scores(MICoxPH(), X, y, cv=2).shape == (X.n_instances,)
    assert permutation_importance(MICoxPH().fit(X, y), X, y).importances.shape[1] == 5
