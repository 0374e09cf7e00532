"""Transductive evaluation: labels are hidden, bags and links stay."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score, f1_score, make_scorer, roc_auc_score

from milearn import Bags
from milearn._bags.segments import segment_mean
from milearn._fit.validation import missing_labels, validate_bags
from milearn.datasets import make_bags
from milearn.model_selection import (
    StratifiedBagKFold,
    transductive_cross_val_score,
    transductive_grid_search,
)


class Neighbours(ClassifierMixin, BaseEstimator):
    """A bag gets the class that most of its labelled neighbours have; else ``fallback``."""

    seen: list = []  # noqa: RUF012 - a log across clones

    def __init__(self, fallback=0, unlabeled=None):
        self.fallback = fallback
        self.unlabeled = unlabeled

    def fit(self, X, y):
        bags = validate_bags(self, X)
        missing = missing_labels(np.asarray(y), self.unlabeled)
        type(self).seen.append((len(bags), bags.bag_graph.nnz, np.flatnonzero(~missing)))
        votes = [
            [y[q] for q in np.flatnonzero(row) if not missing[q]]
            for row in bags.bag_graph.toarray()
        ]
        self.transduction_ = np.array(
            [max(set(v), key=v.count) if v else self.fallback for v in votes]
        )
        return self

    def predict(self, X):
        raise AssertionError("transduction_ should have been looked at")


class LeastSquares(ClassifierMixin, BaseEstimator):
    """Labels by least squares on the means of bags, for what needs scores and no links."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y):
        known = ~missing_labels(np.asarray(y), None)
        self.classes_ = np.unique(np.asarray(y)[known].tolist())
        targets = np.where(np.asarray(y)[known] == self.classes_[1], 1.0, -1.0) + self.shift
        self.coef_ = np.linalg.lstsq(self._rows(X)[known], targets, rcond=None)[0]
        self.transduction_ = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return self

    def _rows(self, X):
        bags = validate_bags(self, X)
        return np.column_stack([segment_mean(bags.instances, bags.offsets), np.ones(len(bags))])

    def decision_function(self, X):
        return self._rows(X) @ self.coef_


@pytest.fixture
def linked():
    Neighbours.seen.clear()
    bags, y = make_bags(n_bags=30, random_state=0)
    return Bags(bags.instances, bags.offsets, bag_graph=(y[:, None] == y).astype(float)), y


def test_all_bags_and_links_stay_and_test_labels_are_hidden(linked):
    X, y = linked
    cv = StratifiedBagKFold(3)
    scores = transductive_cross_val_score(Neighbours(), X, y, cv=cv)
    assert scores.tolist() == [1.0, 1.0, 1.0]
    splits = list(cv.split(X, y))
    assert len(Neighbours.seen) == 3
    for (n_bags, n_links, labelled), (train, _) in zip(Neighbours.seen, splits, strict=True):
        assert n_bags == 30
        assert n_links == X.bag_graph.nnz
        np.testing.assert_array_equal(labelled, train)


@pytest.mark.parametrize("unlabeled", [None, -1])
def test_unlabelled_bags_are_never_tested(linked, unlabeled):
    X, y = linked
    gone = np.arange(30) % 3 == 0
    known = np.where(gone, np.nan if unlabeled is None else unlabeled, y)
    model = Neighbours(unlabeled=unlabeled)
    scores = transductive_cross_val_score(model, X, known, cv=2, unlabeled=unlabeled)
    assert scores.tolist() == [1.0, 1.0]
    for _, _, labelled in Neighbours.seen:
        assert not gone[labelled].any()


def test_search_equals_a_loop_over_scores(linked):
    X, y = linked
    noisy = np.where(np.random.default_rng(1).random(30) < 0.3, 1 - y, y).astype(float)
    noisy[::5] = np.nan
    cv, grid, model = StratifiedBagKFold(3), {"shift": [2.0, 0.0]}, LeastSquares()
    found = transductive_grid_search(model, grid, X, noisy, cv=cv, scoring="balanced_accuracy")
    for params, scores in zip(found.params, found.scores, strict=True):
        again = transductive_cross_val_score(
            LeastSquares(**params), X, noisy, cv=cv, scoring="balanced_accuracy"
        )
        np.testing.assert_array_equal(scores, again)
    assert found.best_score == found.scores.mean(axis=1).max()
    assert found.best_params == {"shift": 0.0}
    expected = LeastSquares(**found.best_params).fit(X, noisy)
    np.testing.assert_array_equal(found.best_estimator.coef_, expected.coef_)
    assert found.fit_seconds.shape == found.scores.shape == (2, 3)
    assert (found.fit_seconds > 0).all()
    # Of equal parameters the first ones are the best.
    grid = {"fallback": [1, 0]}
    bare = transductive_grid_search(Neighbours(), grid, X, y, cv=cv, refit=False)
    assert (bare.best_params, bare.best_estimator) == ({"fallback": 1}, None)


def test_an_undefined_score_is_never_the_best(linked):
    X, y = linked
    given = {"cv": StratifiedBagKFold(3), "scoring": _undefined_without_a_shift, "refit": False}
    found = transductive_grid_search(LeastSquares(), {"shift": [0.0, 2.0, 1.0]}, X, y, **given)
    assert (found.best_params, found.best_score) == ({"shift": 2.0}, 2.0)
    assert np.isnan(found.scores[0]).any()
    with pytest.raises(ValueError, match="Every setting has a score that is NaN"):
        transductive_grid_search(LeastSquares(), {"shift": [0.0]}, X, y, **given)


def _undefined_without_a_shift(model, X, y):
    return model.estimator.shift or np.nan


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_jobs_have_the_configuration_of_the_caller(linked, n_jobs):
    X, y = linked
    with config_context(working_memory=7):
        found = transductive_cross_val_score(
            Neighbours(), X, y, cv=2, scoring=_working_memory, n_jobs=n_jobs
        )
    assert found.tolist() == [7.0, 7.0]


def _working_memory(model, X, y):
    return get_config()["working_memory"]


def test_a_split_that_tests_bags_without_label_is_refused(linked):
    from sklearn.model_selection import KFold

    X, y = linked
    known = np.where(np.arange(30) == 7, np.nan, y)
    with pytest.raises(ValueError, match="tests bag 7, which has no label"):
        transductive_cross_val_score(Neighbours(), X, known, cv=KFold(3))


# -- scorers -------------------------------------------------------------------------------------


def by_hand(model, X, y, cv, score):
    """Scores of the test bags, computed with all bags in the fit and in the prediction."""
    found = []
    for train, test in cv.split(X, y):
        known = np.full(len(y), np.nan)
        known[train] = y[train]
        found.append(score(clone(model).fit(X, known), X, y, test))
    return found


@pytest.fixture
def noisy(linked):
    X, y = linked
    return X, np.where(np.random.default_rng(1).random(30) < 0.3, 1 - y, y).astype(float)


def by_class(metric):
    return lambda fitted, X, y, test: metric(y[test], fitted.transduction_[test])


@pytest.mark.parametrize(
    ("scoring", "score"),
    [
        (None, by_class(accuracy_score)),
        ("f1", by_class(f1_score)),
        (make_scorer(f1_score), by_class(f1_score)),
        ("roc_auc", lambda m, X, y, test: roc_auc_score(y[test], m.decision_function(X)[test])),
    ],
)
def test_scorers_see_the_test_bags_among_all(noisy, scoring, score):
    X, y = noisy
    cv, model = StratifiedBagKFold(3), LeastSquares()
    found = transductive_cross_val_score(model, X, y, cv=cv, scoring=scoring)
    np.testing.assert_array_equal(found, by_hand(model, X, y, cv, score))


def test_a_metric_is_no_scorer(linked):
    X, y = linked
    with pytest.raises(ValueError, match="make_scorer"):
        transductive_cross_val_score(Neighbours(), X, y, cv=3, scoring=f1_score, n_jobs=1)
    with pytest.raises(TypeError, match="scoring is a dict: pass the name of one score"):
        transductive_cross_val_score(Neighbours(), X, y, cv=3, scoring={"f1": "f1"}, n_jobs=1)
    with pytest.raises((ValueError, AttributeError), match="decision_function"):
        transductive_cross_val_score(Neighbours(), X, y, cv=3, scoring="roc_auc", n_jobs=1)
