"""Comparison of estimators on data sets: folds, records, the memory, and groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from joblib import Memory
from scipy.stats import t
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, cohen_kappa_score, make_scorer, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Bunch

from milearn.metrics import concordance_index
from milearn.model_selection import (
    StratifiedBagKFold,
    compare,
    rank_methods,
    transductive_cross_val_score,
)
from milearn.preprocessing import BagStatistics
from milearn.survival import MICoxPH, survival_outcomes
from tests.toys import LeastSquaresBags, two_level_bags

SETS = {f"set {k}": two_level_bags(n_bags=24, seed=k) for k in range(3)}
METHODS = {
    "ridge": LeastSquaresBags(),
    "mean": make_pipeline(BagStatistics(("mean",)), LogisticRegression()),
}


class Own(ClassifierMixin, BaseEstimator):
    """A method of one's own: the larger class. It counts its fits, and can fail."""

    fits = 0

    def __init__(self, fail_at=-1):
        self.fail_at = fail_at

    def fit(self, X, y, groups=None):
        Own.fits += 1
        if Own.fits == self.fail_at:
            raise RuntimeError("out of paper")
        self.classes_, counts = np.unique(y, return_counts=True)
        self.answer_ = self.classes_[np.argmax(counts)]
        self.groups_ = groups
        return self

    def predict(self, X):
        return np.full(len(X), self.answer_)


class Careless:
    """A splitter that does not look at the groups."""

    def __init__(self, splits):
        self.splits = splits

    def split(self, X, y=None, groups=None):
        return iter(self.splits)


@pytest.fixture(autouse=True)
def no_fits():
    Own.fits = 0


def test_scores_are_those_of_cross_val_score_on_the_same_folds():
    found = compare(METHODS, SETS, cv=3, scoring="roc_auc", n_jobs=2)
    assert (found.datasets, found.estimators) == (tuple(SETS), tuple(METHODS))
    assert found.scores == ("roc_auc",)
    for i, (X, y) in enumerate(SETS.values()):
        for j, estimator in enumerate(METHODS.values()):
            expected = cross_val_score(estimator, X, y, cv=StratifiedBagKFold(3), scoring="roc_auc")
            part = found.records[6 * i + 3 * j : 6 * i + 3 * j + 3]
            assert [record["fold"] for record in part] == [0, 1, 2]
            np.testing.assert_allclose([record["roc_auc"] for record in part], expected)
            assert found.table()[i, j] == pytest.approx(expected.mean())
    ranks = found.ranks(alpha=0.1)
    np.testing.assert_array_equal(
        ranks.ranks, rank_methods(found.table(), list(METHODS), alpha=0.1).ranks
    )
    assert list(found.to_frame().columns) == [
        *("dataset", "estimator", "fold", "roc_auc", "fit_seconds", "score_seconds", "error")
    ]
    first, second, *_, last = str(found).splitlines()
    assert first.split() == ["ridge", "mean"]
    low, high = found.intervals()[0, 0]
    assert second.startswith(f"set 0  {found.table()[0, 0]:.3f} [{low:.2f}, {high:.2f}]")
    assert last == "roc_auc: mean over folds, and its 95 % interval over bags"
    assert repr(found) == str(found)


def test_several_scores_functions_and_bunches():
    X, y = SETS["set 0"]
    sets = {"bunch": Bunch(data=X, target=y), "function": lambda: (X, y)}
    found = compare(METHODS, sets, cv=2, scoring=["accuracy", "roc_auc"])
    assert found.scores == ("accuracy", "roc_auc")
    np.testing.assert_array_equal(*found.table("roc_auc"))
    model = LeastSquaresBags()
    train, test = next(StratifiedBagKFold(2).split(X, y))
    model.fit(X[train], y[train])
    record = found.records[0]
    assert record["accuracy"] == accuracy_score(y[test], model.predict(X[test]))
    assert record["roc_auc"] == roc_auc_score(y[test], model.decision_function(X[test]))
    with pytest.raises(ValueError, match="score='f1' is unknown; choose one of accuracy"):
        found.table("f1")


def test_regressors_have_folds_of_values_and_of_groups():
    X, _ = SETS["set 0"]
    y, groups = np.arange(24.0), np.arange(24) % 5
    model = {"ridge": make_pipeline(BagStatistics(("mean",)), Ridge())}
    found = compare(model, {"values": (X, y)}, cv=3)
    np.testing.assert_allclose(
        [record["score"] for record in found.records],
        cross_val_score(model["ridge"], X, y, cv=KFold(3)),
    )
    assert len(compare(model, {"values": (X, y, groups)}, cv=3).records) == 3  # no warning


# -- intervals -------------------------------------------------------------------------------------


def test_the_interval_of_an_accuracy_is_wilsons_with_the_error_of_the_folds():
    X, y = SETS["set 0"]
    model, splits = LeastSquaresBags(), list(StratifiedBagKFold(3).split(X, y))
    right = [model.fit(X[train], y[train]).predict(X[test]) == y[test] for train, test in splits]
    error = np.sqrt(np.mean([each.var(ddof=1) / len(each) for each in right]) / 3)
    mean, z2 = np.mean(right), t.ppf(0.975, 23) ** 2
    assert 0 < mean < 1
    trials = mean * (1 - mean) / error**2
    ends = np.roots([trials + z2, -(2 * trials * mean + z2), trials * mean**2])
    found = compare({"a": model}, {"b": (X, y)}, cv=3)
    np.testing.assert_allclose(found.intervals()[0, 0], np.sort(ends))
    # Copies of a bag are one unit, and more folds of the same bags no new ones.
    copies = np.repeat(np.arange(24), 3)
    cut = [[np.flatnonzero(np.isin(copies, side)) for side in split] for split in splits]
    for data, cv in (((X[copies], y[copies], copies), cut), ((X, y), 2 * splits)):
        again = compare({"a": model}, {"b": data}, cv=cv)
        np.testing.assert_allclose(again.intervals()[0, 0], np.sort(ends), rtol=1e-6)
    assert str(compare({"a": model}, {"b": data + (None,)}, cv=3)).endswith("over bags")


@pytest.mark.parametrize(
    ("model", "scoring"),
    [
        (METHODS["mean"], None),
        (METHODS["mean"], ["roc_auc", "balanced_accuracy"]),
        (METHODS["mean"], {"kappa": make_scorer(cohen_kappa_score)}),
        (GridSearchCV(METHODS["mean"], {"logisticregression__C": [1.0]}, scoring="f1"), None),
        (GridSearchCV(METHODS["mean"], {"logisticregression__C": [1.0]}), None),
        (make_pipeline(BagStatistics(("mean",)), Ridge()), None),
        (MICoxPH(), None),
        (MICoxPH(), make_scorer(concordance_index)),
    ],
)
def test_intervals_are_over_bags_for_any_score_of_predictions(model, scoring):
    X, y = SETS["set 0"]
    if isinstance(model, MICoxPH):
        y = survival_outcomes(np.arange(24) % 4 > 0, np.arange(1.0, 25.0))
    found = compare(
        {"a": model},
        {"b": (X, y)},
        cv=StratifiedKFold(2).split(X, SETS["set 0"][1]),
        scoring=scoring,
    )
    for name in found.scores:
        assert [len(record["influences"][name]) for record in found.records] == [12, 12]
        low, high = found.intervals(name)[0, 0]
        assert low < found.table(name)[0, 0] < high


def test_the_rows_of_a_frame_have_intervals():
    y = np.arange(12) % 2
    data = {"b": (pd.DataFrame({"x": y + 0.5}), y)}
    found = compare({"a": LogisticRegression()}, data, cv=2, scoring="roc_auc")
    assert [len(record["influences"]["roc_auc"]) for record in found.records] == [6, 6]


def test_other_intervals_are_over_folds():
    X, y = SETS["set 0"]

    def size(model, X, y):
        return -float(X.n_instances)

    found = compare({"a": LeastSquaresBags()}, {"b": (X, y)}, cv=3, scoring=size)
    sizes = [record["score"] for record in found.records]
    half = t.ppf(0.975, 2) * np.std(sizes, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(np.diff(found.intervals()[0, 0]), 2 * half)
    assert np.isnan(
        compare({"a": Own()}, {"b": (X, y)}, cv=[(range(12), range(1))]).intervals()
    ).all()


def test_repeated_folds_are_not_independent():
    """The interval of a score without influences shrank with the number of repeats."""
    X, y = SETS["set 0"]
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=4, random_state=0)

    def share(model, X, y):
        return float(X.n_instances % 5) / 5

    once = compare({"a": LeastSquaresBags()}, {"b": (X, y)}, cv=3, scoring=share)
    assert repr(once).endswith("its 95 % interval over folds")
    found = compare({"a": LeastSquaresBags()}, {"b": (X, y)}, cv=cv, scoring=share)
    assert np.isfinite(found.table()).all()
    assert np.isnan(found.intervals()).all()


def test_intervals_do_not_depend_on_a_period_of_the_labels():
    """200 parts of 1,000 bags in order had bags of one class each, and intervals were too wide."""
    X, y = np.zeros((1000, 1)), np.arange(1000) % 2
    right = np.random.RandomState(0).rand(1000) < np.where(y, 0.95, 0.3)
    X[:, 0] = np.where(right, y, 1 - y)
    model = {"a": DecisionTreeClassifier(max_depth=1)}
    half = 1.96 * np.sqrt(right.mean() * (1 - right.mean()) / 1000)
    for order in (np.arange(1000), np.random.RandomState(1).permutation(1000)):
        given = (X[order], y[order])
        low, high = compare(model, {"b": given}, cv=KFold(4), scoring="accuracy").intervals()[0, 0]
        assert 0.85 < (high - low) / (2 * half) < 1.15


def test_a_perfect_score_has_an_interval():
    y = SETS["set 0"][1]
    oracle = make_pipeline(FunctionTransformer(lambda rows: rows), LogisticRegression(C=1e6))
    found = compare({"a": oracle}, {"b": (y[:, None] * 1.0, y)}, cv=3, scoring="roc_auc")
    low, high = found.intervals()[0, 0]
    assert found.table()[0, 0] == 1.0 == pytest.approx(high)
    assert 0.7 < low < 0.9  # 24 of 24


# -- the memory ------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, capsys):
    memory = tmp_path / "new" / "results"
    methods = {"own": Own(fail_at=4), "ridge": LeastSquaresBags()}
    with pytest.raises(RuntimeError, match="out of paper"):
        compare(methods, SETS, cv=2, memory=memory)
    found = compare(methods, SETS, cv=2, memory=str(memory), verbose=1)
    assert Own.fits == 4 + 3
    assert "3/4 set 1, own, fold 1: score 0.500" in capsys.readouterr().out
    again = compare(methods, SETS, cv=2, memory=Memory(str(memory), verbose=0))
    assert Own.fits == 7
    assert again.records == found.records
    more = compare(methods | {"other": Own()}, SETS, cv=2, memory=memory)
    assert Own.fits == 7 + 6
    assert len(more.records) == 18


@pytest.mark.parametrize(
    ("methods", "seed", "options"),
    [
        ({"own": Own(fail_at=99)}, 0, {}),
        ({"own": Own()}, 1, {}),
        ({"own": Own()}, 0, {"scoring": "accuracy"}),
        ({"own": Own()}, 0, {"cv": StratifiedBagKFold(2, shuffle=True, random_state=1)}),
    ],
    ids=["parameters", "data", "scoring", "folds"],
)
def test_results_of_something_else_are_not_taken(tmp_path, methods, seed, options):
    compare({"own": Own()}, {"a": two_level_bags(seed=0)}, cv=2, memory=tmp_path)
    compare(methods, {"a": two_level_bags(seed=seed)}, **{"cv": 2, "memory": tmp_path} | options)
    assert Own.fits == 4


def test_a_failed_fit_is_a_warning_and_nan_and_is_tried_again(tmp_path):
    methods = {"own": Own(fail_at=2), "ridge": LeastSquaresBags()}
    with pytest.warns(FitFailedWarning, match="set 0, own, fold 1 failed .* RuntimeError: out of"):
        found = compare(methods, SETS, cv=2, memory=tmp_path, error_score=np.nan)
    np.testing.assert_array_equal(np.isnan(found.table()), [[True, False], *2 * [[False] * 2]])
    assert found.ranks().n_datasets == 2
    assert [record["error"] for record in found.records[:2]] == [None, "RuntimeError: out of paper"]
    assert not np.isnan(compare(methods, SETS, cv=2, memory=tmp_path).table()).any()
    Own.fits = 0
    with pytest.warns(FitFailedWarning):
        found = compare({"own": Own(fail_at=1)}, {"a": SETS["set 0"]}, cv=2, error_score=np.nan)
    assert found.scores == ("score",)


# -- groups ----------------------------------------------------------------------------------------


def test_ranks_without_a_complete_data_set():
    X, y = SETS["set 0"]
    methods = {"a": Own(fail_at=Own.fits + 1), "b": Own()}
    with pytest.warns(FitFailedWarning):
        found = compare(methods, {"b": (X, y)}, cv=2, error_score=np.nan)
    with pytest.raises(ValueError, match="A fold failed on every data set"):
        found.ranks()


def test_groups_reach_the_splitter_and_fits_that_take_them():
    X, y = SETS["set 0"]
    groups = np.repeat(np.arange(8), 3)

    def scorer(model, X, y):
        return -1.0 if model.groups_ is None else len(np.unique(model.groups_))

    found = compare({"own": Own()}, {"a": (X, y, groups)}, cv=2, scoring=scorer)
    assert [record["score"] for record in found.records] == [4.0, 4.0]
    found = compare({"own": Own()}, {"a": (X, y)}, cv=2, scoring=scorer)
    assert found.table()[0, 0] == -1.0


def test_groups_on_both_sides_are_a_warning():
    X, y = SETS["set 0"]
    groups = np.repeat(np.arange(12), 2)
    splits = list(StratifiedBagKFold(3, shuffle=True, random_state=0).split(X, y))
    message = r"has groups, but 3 of 3 splits have bags of one group on both sides"
    with pytest.warns(UserWarning, match=rf"datasets\['a'\] {message}"):
        compare({"own": Own()}, {"a": (X, y, groups)}, cv=splits)
    with pytest.warns(UserWarning, match=f"The input {message}"):
        transductive_cross_val_score(Own(), X, y, cv=Careless(splits), groups=groups, unlabeled=-1)


@pytest.mark.parametrize(
    ("methods", "sets", "options", "error", "message"),
    [
        ([Own()], SETS, {}, TypeError, "estimators is list: pass a dict"),
        ({"a": Own()}, [1], {}, TypeError, "datasets is list"),
        ({}, SETS, {}, ValueError, "estimators is empty"),
        ({"a": Own()}, {"b": [1, 2]}, {}, TypeError, r"datasets\['b'\] is list: pass \(X, y\)"),
        ({"a": Own()}, SETS, {"error_score": 0.0}, ValueError, "error_score=0.0 must be"),
        ({"a": Own()}, SETS, {"scoring": {"fold": "f1"}}, ValueError, "cannot be named 'fold'"),
        (
            {"a": Own()},
            SETS,
            {"scoring": lambda model, X, y: {"z": 0.5, "units": 0.7}},
            ValueError,
            "cannot be named 'units'",
        ),
    ],
)
def test_errors_name_what_is_wrong(methods, sets, options, error, message):
    with pytest.raises(error, match=message):
        compare(methods, sets, **options)
