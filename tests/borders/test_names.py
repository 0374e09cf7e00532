"""Bags know their names: a series in the order of another table is an error."""

from __future__ import annotations

import copy
import pickle
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    permutation_test_score,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import Bags, svm
from milearn.datasets import load_bags, save_bags
from milearn.inspection import (
    BagScoresDisplay,
    InstanceScoresDisplay,
    cross_val_instance_scores,
    permutation_importance,
)
from milearn.model_selection import (
    StratifiedBagKFold,
    compare,
    confounder_baseline,
    label_permutation_test,
)
from milearn.preprocessing import AppendBagData, BagStatistics, InstanceTransformer
from milearn.survival import MICoxPH, survival_outcomes
from milearn.svm import MISVR
from milearn.utils import all_estimators

pytestmark = pytest.mark.usefixtures("no_intervals")

ORDER = r"X.names: pass y\.loc\[X\.names\]"
RNG = np.random.default_rng(0)
MISVC = partial(svm.MISVC, init="mean")  # one start
PATIENTS = [f"p{at:02d}" for at in RNG.permutation(40)]
# Table of labels, sorted by patient. The bags have the order of the rows of another table.
LABELS = pd.Series({name: int(name[1:]) % 2 for name in sorted(PATIENTS)})
GOOD = LABELS.loc[PATIENTS]


@pytest.fixture(scope="module")
def X():
    blocks = {name: RNG.normal(size=(4, 3)) for name in PATIENTS}
    for name in PATIENTS:
        blocks[name][0] += 4.0 * LABELS[name]
    return Bags.from_list(blocks)


# -- the order of a series -------------------------------------------------------------------------


def test_a_table_sorted_by_patient(X):
    assert X.names.tolist() == PATIENTS
    with pytest.raises(ValueError, match=ORDER):
        MISVC().fit(X, LABELS)
    model = MISVC().fit(X, LABELS.loc[X.names])  # the remedy
    assert model.score(X, GOOD) == 1.0
    assert cross_val_score(MISVC(), X, GOOD, cv=4).mean() > 0.9
    with pytest.raises(ValueError, match=ORDER):
        model.score(X, LABELS)
    with pytest.raises(ValueError, match=r"pass sample_weight\.loc\[X\.names\]"):
        MISVC().fit(X, GOOD, sample_weight=LABELS + 1.0)
    with pytest.raises(ValueError, match=r"pass groups\.loc\[X\.names\]"):
        next(StratifiedBagKFold(3).split(X, GOOD, groups=LABELS))
    for y in (LABELS.astype("Int64"), LABELS.astype("category"), LABELS.to_frame()):
        with pytest.raises(ValueError, match=ORDER):
            MISVC().fit(X, y)
    with pytest.raises(ValueError, match=ORDER):
        MISVR().fit(X, LABELS + 0.5)
    with pytest.raises(ValueError, match="pass bag_data"):
        X.with_bag_data({"age": LABELS})
    assert X.with_bag_data({"age": GOOD}).bag_data["age"].tolist() == GOOD.tolist()


@pytest.mark.parametrize("change", [
    lambda index: pd.CategoricalIndex(index),
    lambda index: pd.MultiIndex.from_product([["hospital"], index]),
    lambda index: " " + index.astype("string") + " ",
], ids=["category", "levels", "blanks"])  # fmt: skip
def test_types_of_the_index(X, change):
    assert MISVC().fit(X, GOOD.set_axis(change(GOOD.index))).score(X, GOOD) == 1.0
    with pytest.raises(ValueError, match=ORDER):
        MISVC().fit(X, LABELS.set_axis(change(LABELS.index)))


def test_values_without_an_index_are_in_the_order_of_the_bags(X):
    for y in (GOOD.to_numpy(), GOOD.tolist(), pl.Series(GOOD.to_numpy())):
        assert MISVC().fit(X, y).score(X, y) == 1.0
    counted = GOOD.reset_index(drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cross_val_score(MISVC(), X, counted, cv=KFold(4, shuffle=True)).mean() > 0.9


def test_some_of_the_names(X):
    assert MISVC().fit(X[:30], GOOD.loc[X[:30].names]).score(X[:30], GOOD[:30]) == 1.0
    strange = GOOD.set_axis([f"s{at}" for at in range(40)])
    for bags, y in ((X, GOOD[:30]), (X[:30], GOOD), (X, strange)):
        with pytest.raises(ValueError, match=ORDER + ", or values without an index"):
            MISVC().fit(bags, y)
    swapped = GOOD.iloc[[*range(20), 21, 20, *range(22, 40)]]  # the first names are the same
    with pytest.raises(ValueError, match=f"{swapped.index[20]}.*{GOOD.index[20]}"):
        MISVC().fit(X, swapped)
    chosen = RNG.integers(0, 40, 40)  # a bootstrap sample has bags twice
    assert MISVC().fit(X[chosen], GOOD.iloc[chosen]).score(X, GOOD) > 0.9
    with pytest.raises(ValueError, match=r"X\.names"):
        MISVC().fit(X[chosen], GOOD.iloc[np.sort(chosen)])


def test_whole_numbers_as_names(X):
    numbers = np.array([int(name[1:]) for name in PATIENTS])
    bags = Bags(X.instances, X.offsets, names=numbers)
    later, table = bags.merge(numbers + 100), LABELS.set_axis(range(100, 140))
    assert MISVC().fit(later, table.loc[later.names]).score(later, GOOD.to_numpy()) == 1.0
    for kind in (int, float, "Int64", str):
        with pytest.raises(ValueError, match=r"y\.loc\[X\.names\]"):
            MISVC().fit(later, table.set_axis(table.index.astype(kind)))
    counted = pd.Series(GOOD.to_numpy())
    with pytest.raises(ValueError, match=ORDER):
        MISVC().fit(bags, counted)  # a count, or the names?
    # No count from 0 names a bag: it is a count, also in folds.
    assert cross_val_score(MISVC(), later, counted, cv=4, error_score="raise").mean() > 0.9


def test_leading_zeros_that_a_reader_has_lost(X):
    names = [name[1:].zfill(4) for name in PATIENTS]
    text = Bags(X.instances, X.offsets, names=names)
    with pytest.raises(ValueError, match=r"of y \(0, 1, \.\.\.\) differs .* \('00"):
        MISVC().fit(text, LABELS.set_axis(range(40)))


# -- tools of scikit-learn -----------------------------------------------------------------------


TOOLS = {
    "statistics": lambda: make_pipeline(BagStatistics(), LogisticRegression()),
    "scaled": lambda: make_pipeline(InstanceTransformer(StandardScaler()), MISVC()),
    "voting": lambda: VotingClassifier([("a", MISVC()), ("b", MISVC(C=2.0))]),
    "stacking": lambda: StackingClassifier([("a", MISVC())], LogisticRegression(), cv=2),
    "one against rest": lambda: OneVsRestClassifier(MISVC()),
    "calibrated": lambda: CalibratedClassifierCV(MISVC(), cv=2),
    "grid": lambda: GridSearchCV(MISVC(), {"C": [1.0, 2.0]}, cv=2, error_score="raise"),
}


# Those make an array of the labels before a model of milearn sees them.
WITHOUT_INDEX = {"voting", "stacking", "one against rest"}


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_that_encode_or_divide_labels(X, tool):
    make = TOOLS[tool]
    model = make().fit(X, GOOD)
    assert model.score(X, GOOD) > 0.95
    folds = KFold(2, shuffle=True, random_state=0)
    assert cross_val_score(make(), X, GOOD, cv=folds, error_score="raise").mean() > 0.8
    if tool in WITHOUT_INDEX:
        return
    for call in (
        lambda: make().fit(X, LABELS),
        lambda: cross_val_predict(make(), X, LABELS, cv=3),
        lambda: cross_validate(make(), X, LABELS, cv=3),
        lambda: cross_validate(make(), X, LABELS, cv=3, scoring="roc_auc", error_score="raise"),
    ):
        with pytest.raises(ValueError, match=ORDER):
            call()


def scored():
    return [(name, kind()) for name, kind in all_estimators() if hasattr(kind, "score")]


@pytest.mark.parametrize(("name", "model"), scored(), ids=lambda each: str(each)[:28])
def test_every_score_looks_at_the_index(X, name, model):
    y = LABELS
    if name == "MICoxPH":
        y = survival_outcomes(np.ones(40), LABELS + 1.0)
    with pytest.raises(ValueError, match=r"The index of y .*X\.names"):
        model.score(X, y)
    with pytest.raises(ValueError, match=r"The index of sample_weight .*X\.names"):
        model.score(X, y.loc[X.names] if name != "MICoxPH" else None, sample_weight=LABELS)


def test_permuted_labels_have_a_permuted_index(X):
    options = {"cv": 2, "n_permutations": 4}
    assert permutation_test_score(MISVC(), X, GOOD.to_numpy(), **options)[2] == 0.2
    with pytest.raises(ValueError, match="values without an index"):
        permutation_test_score(MISVC(), X, GOOD, **options)


def test_functions_of_milearn(X):
    model = MISVC().fit(X, GOOD)
    for call in (
        lambda y: next(StratifiedBagKFold(3).split(X, y)),
        lambda y: compare({"a": MISVC(), "b": MISVC(C=2.0)}, {"cells": (X, y)}, cv=2),
        lambda y: label_permutation_test(MISVC(), X, y, cv=2, n_permutations=2),
        lambda y: cross_val_instance_scores(MISVC(), X, y, cv=2),
        lambda y: permutation_importance(model, X, y, n_repeats=1),
        lambda y: confounder_baseline(X, y, cv=2),
        lambda y: X.merge(np.arange(40) // 2, y, how="any"),
        lambda y: X.to_frame(y=y),
    ):
        call(GOOD)
        with pytest.raises(ValueError, match=ORDER):
            call(LABELS)


def test_outcomes_of_survival(X):
    table = pd.DataFrame({"event": True, "time": 1.0 + np.arange(40)}, index=LABELS.index)
    table.loc[LABELS == 1, "time"] /= 40.0
    mine = table.loc[X.names]
    y = survival_outcomes(mine["event"], mine["time"])
    with pytest.raises(ValueError, match=r"make y of table\.loc\[X\.names\]"):
        MICoxPH().fit(X, survival_outcomes(table["event"], table["time"]))
    with pytest.raises(ValueError, match=r"time\.loc\[event\.index\]"):
        survival_outcomes(mine["event"], table["time"])
    scores = cross_val_score(MICoxPH(), X, y, cv=KFold(3, shuffle=True), error_score="raise")
    assert scores.mean() > 0.6


# -- where names come from and go to ---------------------------------------------------------------


def test_names_are_set_by_every_entry():
    rows = pd.DataFrame({"bag": ["b", "a", "b"], "x": [1.0, 2, 3]})
    cells = SimpleNamespace(X=rows[["x"]].to_numpy(), obs=rows, var_names=["x"])
    for bags in (
        Bags.from_ids([[1.0], [2], [3]], [b"b", b"a", b"b"]),
        Bags.from_list({"b": [[1.0], [3.0]], "a": [[2.0]]}),
        Bags.from_frame(pl.DataFrame(rows), "bag"),
        Bags.from_frame(rows.set_index("bag"), "bag"),
        Bags.from_frame(rows.assign(y=1).set_index(["bag", "y"]), "bag", label="y")[0],
        Bags.from_frame(rows.astype({"bag": "category"}), "bag"),
        Bags.from_anndata(cells, "bag"),
        Bags.from_padded([[[1.0], [3]], [[2], [0]]], lengths=[2, 1], names=["b", "a"]),
    ):
        assert bags.names.tolist() == ["b", "a"]
        assert bags.instances.tolist() == [[1], [3], [2]]
    assert Bags.singletons(pd.DataFrame([[1.0], [2.0]], ["b", "a"])).names.tolist() == ["b", "a"]


def test_names_are_kept(X, tmp_path):
    age = X.with_bag_data({"age": np.arange(40.0)})
    save_bags(tmp_path / "folder", X, format="npy-folder")
    for bags in (
        X[::-1][::-1],
        copy.deepcopy(X),
        pickle.loads(pickle.dumps(X)),
        load_bags(tmp_path / "folder", mmap=True).data,
        Bags.concatenate([X[:7], X[7:]]),
        X[:, [0, 1]],
        X.with_instances(X.instances),
        InstanceTransformer(StandardScaler()).fit_transform(X),
        AppendBagData().fit_transform(age),
        X.sample_instances(2, random_state=0),
        Bags.from_frame(X.to_frame(), "bag"),
    ):
        assert bags.names.tolist() == PATIENTS
    merged = X.merge([name[:2] for name in PATIENTS])
    assert merged.names.tolist() == list(dict.fromkeys(name[:2] for name in PATIENTS))
    unnamed = Bags(X.instances, X.offsets)
    with pytest.warns(UserWarning, match="Some parts have no names of bags"):
        assert Bags.concatenate([X, unnamed]).names is None


# -- messages and plots ----------------------------------------------------------------------------


def test_messages_name_the_bag(X):
    wrong, name = X.instances.copy(), PATIENTS[5]
    wrong[21, 0] = np.nan
    blocks = dict(zip(PATIENTS, X, strict=True))
    fifth = np.arange(40) == 5
    groups = np.where(fifth, None, PATIENTS)
    age = X.with_bag_data({"age": np.where(fifth, np.nan, 50.0)})
    for message, call in (
        (f"^Bag '{name}' contains NaN", lambda: MISVC().fit(X.with_instances(wrong), GOOD)),
        (f"^Bag '{name}' is empty", lambda: Bags.from_list(blocks | {name: np.empty((0, 3))})),
        (f"^Bag '{name}' has 2 features but bag '{PATIENTS[0]}'",
         lambda: Bags.from_list(blocks | {name: np.ones((1, 2))})),
        (f"negative at bag '{name}'", lambda: MISVC().fit(X, GOOD, sample_weight=1.0 - 2 * fifth)),
        (f"groups is missing for bag '{name}'", lambda: X.merge(groups)),
        (f"groups is missing for bag '{name}'",
         lambda: next(StratifiedBagKFold(3).split(X, GOOD, groups=groups))),
        (f"bag '{name}'", lambda: make_pipeline(AppendBagData(), MISVC()).fit(age, GOOD)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()


def test_plots_name_the_bag(X):
    pytest.importorskip("matplotlib").use("Agg")
    model = MISVC().fit(X, GOOD)
    display = InstanceScoresDisplay.from_estimator(model, X, bag=PATIENTS[7])
    assert display.ax_.get_title(loc="left") == PATIENTS[7]
    assert np.allclose(display.scores, model.instance_decision_function(X[[7]]))
    with pytest.raises(ValueError, match="'nobody' is the name of 0 bags"):
        InstanceScoresDisplay.from_estimator(model, X, bag="nobody")
    with pytest.raises(ValueError, match=ORDER):
        BagScoresDisplay.from_estimator(model, X, LABELS)
