"""Importance by permutation: what is permuted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import t
from sklearn import config_context, get_config
from sklearn.impute import SimpleImputer
from sklearn.metrics import make_scorer
from sklearn.pipeline import make_pipeline

from milearn import Bags
from milearn.inspection import permutation_importance
from milearn.preprocessing import InstanceTransformer
from milearn.svm import MISVC


class Recorder:
    """A fitted estimator whose score is recorded with the bags that it saw."""

    def __init__(self):
        self.seen = []

    def fit(self, X, y):
        return self

    def score(self, X, y, sample_weight=None):
        self.seen.append(X)
        return float(np.average(np.abs(X.instances).sum(axis=1)[X.offsets[:-1]],
                                weights=sample_weight))  # fmt: skip


@pytest.fixture
def bags():
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 6, size=15))])
    X = rng.normal(size=(offsets[-1], 4))
    X[rng.random(X.shape) < 0.3] = 0.0
    return Bags(X, offsets, feature_names=list("abcd"), bag_data={"age": np.arange(15)})


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_only_the_group_is_permuted_and_its_rows_stay_together(bags, kind):
    given = bags
    if kind == "sparse":
        given = bags.with_instances(sparse.csr_array(bags.instances), feature_names=list("abcd"))
    recorder = Recorder()
    groups = {"two": ["b", "d"], "one": [0]}
    found = permutation_importance(recorder, given, np.zeros(15), features=groups, n_repeats=3,
                                   random_state=0)  # fmt: skip
    assert found.feature_names.tolist() == ["two", "one"]
    assert found.importances.shape == (2, 3)
    first, *others = recorder.seen
    assert first is given or np.shares_memory(first.offsets, given.offsets)
    seen = set()
    for at, part in enumerate(others):
        X = part.instances.toarray() if kind == "sparse" else part.instances
        columns = [1, 3] if at < 3 else [0]
        rest = np.setdiff1d(np.arange(4), columns)
        np.testing.assert_array_equal(X[:, rest], bags.instances[:, rest])
        rows = X[:, columns]
        assert not np.array_equal(rows, bags.instances[:, columns])
        key = np.lexsort(rows.T), np.lexsort(bags.instances[:, columns].T)
        np.testing.assert_array_equal(rows[key[0]], bags.instances[:, columns][key[1]])
        np.testing.assert_array_equal(part.offsets, bags.offsets)
        assert part.feature_names.tolist() == list("abcd")
        assert list(part.bag_data) == ["age"]
        seen.add(rows.tobytes())
    # Every repeat is another permutation.
    assert len(seen) == 6


def test_the_feature_that_counts_is_found():
    rng = np.random.default_rng(1)
    X = Bags(rng.normal(size=(300, 5)), np.arange(0, 301, 5))
    y = (np.maximum.reduceat(X.instances[:, 2], X.offsets[:-1]) > 1.2).astype(int)
    model = MISVC(kernel="linear", init="mean").fit(X, y)
    found = permutation_importance(model, X, y, scoring="balanced_accuracy", random_state=0)
    assert found.feature_names.tolist() == ["x0", "x1", "x2", "x3", "x4"]
    assert np.argmax(found.importances_mean) == 2
    assert found.importances_mean[2] > 0.2
    assert np.abs(np.delete(found.importances_mean, 2)).max() < 0.1
    np.testing.assert_allclose(found.importances_std, found.importances.std(axis=1))
    low, high = found.intervals.T
    np.testing.assert_allclose((low + high) / 2, found.importances_mean, atol=1e-12)
    assert low[2] > 0.05
    assert (low < 0).sum() == 4
    one, again = (
        permutation_importance(model, X, y, features=[2], random_state=0, n_repeats=2)
        for _ in range(2)
    )
    np.testing.assert_array_equal(again.importances, one.importances)
    assert one.importances.shape == (1, 2)


def test_the_interval_of_a_difference_of_accuracies():
    """One repeat of 20 bags: the error is that of the mean of paired differences."""
    rng = np.random.default_rng(2)
    X, y = Bags.singletons(rng.normal(size=(20, 2))), np.arange(20) % 2
    model = MISVC(kernel="linear", init="mean").fit(X, y)
    found = permutation_importance(model, X, y, features=[0], n_repeats=1, random_state=0)
    order = np.random.RandomState(
        np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=1)[0]
    )
    rows = X.instances.copy()
    rows[:, 0] = rows[order.permutation(20), 0]
    right = [model.predict(each) == y for each in (X, rows)]
    changes = right[0].astype(float) - right[1]
    assert found.importances[0, 0] == pytest.approx(changes.mean())
    half = t.ppf(0.975, 19) * changes.std(ddof=1) / np.sqrt(20)
    np.testing.assert_allclose(found.intervals[0], changes.mean() + half * np.array([-1, 1]))
    weights = np.where(y, 1.0, 0.5)
    for given in ({"sample_weight": weights}, {"scoring": "roc_auc", "sample_weight": weights}):
        weighted = permutation_importance(model, X, y, random_state=0, **given)
        assert (np.diff(weighted.intervals) > 0).all()


def test_a_feature_of_no_effect_has_no_interval_where_all_bags_are_right():
    """It was [0, 0], which contained the importance of new bags in a third of 80 simulations."""
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    X = Bags.singletons(rng.normal(size=(20, 2)) + np.outer(9 * y, [1, 0]))
    model = MISVC(kernel="linear", init="mean").fit(X, y)
    found = permutation_importance(model, X, y, scoring="roc_auc", random_state=0)
    assert found.baseline_score == 1.0
    assert (np.diff(found.intervals[0]) > 0).all()
    assert np.isnan(found.intervals[1]).all()


def test_scorers_and_weights(bags):
    weights = np.arange(15.0)
    recorder = Recorder()
    found = permutation_importance(recorder, bags, np.zeros(15), sample_weight=weights,
                                   n_repeats=1, random_state=0)  # fmt: skip
    assert found.baseline_score == recorder.score(bags, None, weights)
    assert np.isnan(found.intervals).all()  # not a score of predictions
    model = MISVC(init="mean").fit(bags, np.arange(15) % 2)
    constant = make_scorer(lambda y, p: 7.0)
    found = permutation_importance(model, bags, np.arange(15) % 2, scoring=constant, n_repeats=1)
    assert found.baseline_score == 7
    np.testing.assert_array_equal(found.importances, 0)


def test_jobs_have_the_configuration_of_the_caller(bags):
    given = {"scoring": lambda *_: get_config()["working_memory"], "n_repeats": 1, "n_jobs": 2}
    with config_context(working_memory=7):
        found = permutation_importance(Recorder(), bags, np.zeros(15), **given)
    assert found.baseline_score == 7.0
    np.testing.assert_array_equal(found.importances, 0)


def test_a_pipeline_that_imputes_gets_missing_values(bags):
    instances, y = bags.instances.copy(), np.arange(15) % 2
    instances[::3, 1] = np.nan
    gaps = bags.with_instances(instances)
    model = make_pipeline(InstanceTransformer(SimpleImputer()), MISVC(kernel="linear", init="mean"))
    found = permutation_importance(model.fit(gaps, y), gaps, y, random_state=0)
    assert found.baseline_score == model.score(gaps, y)
    assert found.importances.shape == (4, 5)
    with pytest.raises(ValueError, match="contains NaN"):
        permutation_importance(model[-1], gaps, y)


def test_what_is_refused(bags):
    y = np.zeros(15)
    with pytest.raises(IndexError, match="out of bounds"):
        permutation_importance(Recorder(), bags, y, features=[4])
    with pytest.raises(ValueError, match="The group 'none' has no features"):
        permutation_importance(Recorder(), bags, y, features={"none": []})
    with pytest.raises(TypeError, match="scoring is a list: pass the name of one score or a call"):
        permutation_importance(Recorder(), bags, y, scoring=["accuracy", "roc_auc"])
    with pytest.raises(ValueError, match=r"y has 14 labels for 15 bags"):
        permutation_importance(Recorder(), bags, y[1:])
