"""Ordered classes have an order of their own, never that of the alphabet."""

from __future__ import annotations

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.metrics import cohen_kappa_score, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import Bags, svm
from milearn.inspection import InstanceScoresDisplay, instance_scores
from milearn.model_selection import compare, confounder_baseline, label_permutation_test
from milearn.preprocessing import InstanceTransformer
from tests.toys import OFTEN_CONSTANT

pytestmark = pytest.mark.usefixtures("no_intervals")

GRADES = ["low", "medium", "high"]
OrdinalMISVC = partial(svm.OrdinalMISVC, init="mean")  # one start


def graded(n_bags=36, seed=0):
    """Bags whose highest instance rises with the grade."""
    rng, grade = np.random.default_rng(seed), np.arange(n_bags) % 3
    instances = rng.normal(size=(n_bags, 5, 2))
    instances[:, 0, 0] += 4.0 * grade
    return Bags(instances.reshape(-1, 2), np.arange(n_bags + 1) * 5), grade


@pytest.fixture(scope="module")
def data():
    X, grade = graded()
    return X, grade, OrdinalMISVC().fit(X, grade)


def ordered(names, categories=GRADES):
    """The ways in which a table tells an order."""
    column = pd.Categorical(names, categories=categories, ordered=True)
    return {
        "Categorical": column,
        "Series": pd.Series(column),
        "Series by patient": pd.Series(column, index=[f"p{n}" for n in range(len(column))]),
        "CategoricalIndex": pd.CategoricalIndex(column),
        "column": pd.DataFrame({"grade": column}),
        "polars": pl.Series(names, dtype=pl.Enum(categories)),
    }


@pytest.mark.parametrize("kind", ordered(GRADES))
def test_an_ordered_column_is_followed(kind, data):
    X, grade, numbers = data
    names = np.array(GRADES)[grade]
    y = ordered(names)[kind]
    with warnings.catch_warnings(action="ignore"):  # column_or_1d of a column
        model = OrdinalMISVC().fit(X, y)
    assert model.categories_.tolist() == GRADES
    assert model.classes_.tolist() == sorted(GRADES)
    np.testing.assert_allclose(model.coef_, numbers.coef_)
    np.testing.assert_allclose(model.thresholds_, numbers.thresholds_)
    assert (model.predict(X) == np.array(GRADES)[numbers.predict(X)]).all()
    assert model.score(X, names) > 0.9


@pytest.mark.parametrize("kind", ["Categorical", "Series", "polars"])
def test_an_ordered_column_keeps_its_order_in_folds_and_searches(kind, data):
    X, grade, _ = data
    y = ordered(np.array(GRADES)[grade])[kind]
    expected = cross_val_score(OrdinalMISVC(), X, grade, cv=2)
    np.testing.assert_allclose(cross_val_score(OrdinalMISVC(), X, y, cv=2), expected)
    steps = make_pipeline(InstanceTransformer(StandardScaler()), OrdinalMISVC())
    search = GridSearchCV(steps, {"ordinalmisvc__C": [1.0]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].categories_.tolist() == GRADES
    # A fold, or a cohort, without a class keeps the order of the others.
    part = np.flatnonzero(grade != 1)
    less = y[part] if kind != "Series" else y.iloc[part]
    assert OrdinalMISVC().fit(X[part], less).categories_.tolist() == ["low", "high"]


def unordered(grade):
    names = np.array(GRADES)[grade]
    return {
        "list": names.tolist(),
        "NumPy": names,
        "objects": names.astype(object),
        "string": pd.Series(names, dtype="string"),
        "category": pd.Series(names, dtype="category"),
        "Categorical": pd.Categorical(names, categories=GRADES),
        "polars": pl.Series(names),
        "polars Categorical": pl.Series(names, dtype=pl.Categorical),
        "numerals": (grade + 9).astype(str),
        "two": names[grade != 1],
    }


@pytest.mark.parametrize("kind", unordered(np.arange(3)))
def test_text_without_an_order_is_refused(kind, data):
    X, grade, _ = data
    y = unordered(grade)[kind]
    X = X[grade != 1] if kind == "two" else X
    with pytest.raises(ValueError, match=r"are text, which has no order: pass them by categories="):
        OrdinalMISVC().fit(X, y)
    categories = ["9", "10", "11"] if kind == "numerals" else GRADES
    model = OrdinalMISVC(categories=categories).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.categories_.tolist() == [each for each in categories if each in list(y)]


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float64", "category", "object"])
def test_numbers_have_their_order(dtype, data):
    X, grade, model = data
    y = pd.Series(grade + 9).astype("int64" if dtype == "object" else dtype)
    again = OrdinalMISVC().fit(X, y)
    np.testing.assert_allclose(again.coef_, model.coef_)
    assert again.categories_.tolist() == [9, 10, 11]


def test_an_ordered_column_of_numbers_is_followed(data):
    X, grade, model = data
    # Stage 1 is worse than stage 3.
    stages = pd.Categorical(3 - grade, categories=[3, 2, 1], ordered=True)
    worse = OrdinalMISVC().fit(X, stages)
    assert worse.categories_.tolist() == [3, 2, 1]
    np.testing.assert_allclose(worse.coef_, model.coef_)
    assert worse.score(X, 3 - grade) == model.score(X, grade)


def test_two_orders_that_contradict_each_other_are_an_error(data):
    X, grade, _ = data
    y = ordered(np.array(GRADES)[grade])["Series"]
    with pytest.raises(ValueError, match="have different orders: pass only one of them"):
        OrdinalMISVC(categories=GRADES[::-1]).fit(X, y)
    assert OrdinalMISVC(categories=[*GRADES, "highest"]).fit(X, y).categories_.tolist() == GRADES


def test_scores_of_instances_rise_with_the_grade(data):
    X, grade, numbers = data
    y = ordered(np.array(GRADES)[grade])["Series"]
    model = pickle.loads(pickle.dumps(OrdinalMISVC().fit(X, y)))
    np.testing.assert_allclose(instance_scores(model, X), instance_scores(numbers, X))
    np.testing.assert_array_equal(model.witness(X), numbers.witness(X))
    display = InstanceScoresDisplay.from_estimator(model, X)
    assert display.ax_.get_ylabel() == "score from low to high"
    # Two classes whose names are in the other order: the higher one is that of the scores.
    part = np.flatnonzero(grade != 1)
    two = OrdinalMISVC().fit(X[part], y.iloc[part])
    display = InstanceScoresDisplay.from_estimator(two, X)
    assert display.ax_.get_ylabel() == "score of high"
    first = X.offsets[:-1][grade == 2]
    np.testing.assert_array_equal(two.witness(X)[grade == 2], first)


@OFTEN_CONSTANT
def test_who_numbers_the_classes_needs_the_numbers_in_order(data):
    X, grade, _ = data
    y = ordered(np.array(GRADES)[grade])["Series"]
    by_alphabet = OrdinalMISVC(categories=[1, 2, 0])  # high, low, medium
    scores = cross_val_predict(by_alphabet, X, y, cv=2, method="decision_function")
    assert (np.array(sorted(GRADES))[scores.argmax(axis=1)] == np.asarray(y)).mean() > 0.85
    for meta in (VotingClassifier, StackingClassifier):
        assert meta([("a", by_alphabet)]).fit(X, y).score(X, y) > 0.85
    VotingClassifier([("a", OrdinalMISVC())]).fit(X, grade)
    # Each grade against the others has no order.
    assert OneVsRestClassifier(OrdinalMISVC()).fit(X, y).classes_.tolist() == sorted(GRADES)


def test_kappa_is_that_of_the_order(data):
    X, grade, _ = data
    y = ordered(np.array(GRADES)[grade])["Series"]
    # scikit-learn's kappa sorts names: it needs their order as well.
    kappa = make_scorer(cohen_kappa_score, weights="quadratic", labels=GRADES)
    numbers = make_scorer(cohen_kappa_score, weights="quadratic")
    expected = cross_val_score(OrdinalMISVC(), X, grade, cv=2, scoring=numbers)
    np.testing.assert_allclose(cross_val_score(OrdinalMISVC(), X, y, cv=2, scoring=kappa), expected)


@OFTEN_CONSTANT
def test_tools_keep_the_order_of_the_classes(data):
    """They made an array of y, and asked for what was passed."""
    X, grade, _ = data
    names = np.array(GRADES)[grade]
    plain = OrdinalMISVC(C=0.01)
    listed = OrdinalMISVC(C=0.01, categories=GRADES)
    draws = {"n_permutations": 1, "random_state": 0, "cv": 2}
    expected = (
        compare({"m": listed}, {"d": (X, names)}, cv=2).table(),
        label_permutation_test(listed, X, names, **draws).permutation_scores,
        confounder_baseline(X, names, estimator=listed, cv=2).table(),
    )
    assert expected[0] > 0.8  # another order would have another score
    for kind in ("Categorical", "Series", "polars"):
        y = ordered(names)[kind]
        found = (
            compare({"m": plain}, {"d": (X, y)}, cv=2).table(),
            label_permutation_test(plain, X, y, **draws).permutation_scores,
            confounder_baseline(X, y, estimator=plain, cv=2).table(),
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
