"""Bags know their names: a series in the order of another table is an error."""

from __future__ import annotations

import copy
import pickle
import warnings
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
    learning_curve,
    permutation_test_score,
    train_test_split,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import Bags
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
from milearn.svm import MISVC, MISVR
from milearn.utils import all_estimators

ORDER = r"X.names: pass y\.loc\[X\.names\]"
RNG = np.random.default_rng(0)
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
    with pytest.raises(ValueError, match=ORDER):
        MISVR().fit(X, LABELS + 0.5)
    with pytest.raises(ValueError, match="pass bag_data"):
        X.with_bag_data({"age": LABELS})
    assert X.with_bag_data({"age": GOOD}).bag_data["age"].tolist() == GOOD.tolist()


@pytest.mark.parametrize("change", [
    lambda index: pd.CategoricalIndex(index),
    lambda index: index.astype("string"),
    lambda index: pd.MultiIndex.from_product([["hospital"], index]),
    lambda index: index.to_numpy().astype(str),
], ids=["category", "string", "levels", "numpy"])  # fmt: skip
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
    with pytest.raises(ValueError, match=ORDER + ", or values without an index"):
        MISVC().fit(X, GOOD[:30])
    with pytest.raises(ValueError, match=ORDER):
        MISVC().fit(X[:30], GOOD)  # labels of more patients
    assert MISVC().fit(X[:30], GOOD.loc[X[:30].names]).score(X[:30], GOOD[:30]) == 1.0
    swapped = GOOD.iloc[[*range(20), 21, 20, *range(22, 40)]]  # the first names are the same
    with pytest.raises(ValueError, match=f"{swapped.index[20]}.*{GOOD.index[20]}"):
        MISVC().fit(X, swapped)
    strange = GOOD.set_axis([f"s{at}" for at in range(40)])
    with pytest.raises(ValueError, match=ORDER):
        MISVC().fit(X, strange)
    chosen = RNG.integers(0, 40, 40)  # a bootstrap sample has bags twice
    assert MISVC().fit(X[chosen], GOOD.iloc[chosen]).score(X, GOOD) > 0.9
    with pytest.raises(ValueError, match=r"X\.names"):
        MISVC().fit(X[chosen], GOOD.iloc[np.sort(chosen)])


def test_whole_numbers_as_names(X):
    numbers = [int(name[1:]) for name in PATIENTS]
    bags = Bags.from_ids(X.instances, np.repeat(numbers, 4))
    assert bags.names.tolist() == numbers
    table = LABELS.set_axis(range(100, 140))
    later = bags.merge(np.array(numbers) + 100)
    assert MISVC().fit(later, table.loc[later.names]).score(later, GOOD.to_numpy()) == 1.0
    for kind in (int, float, "Int64", str):
        with pytest.raises(ValueError, match=r"y\.loc\[X\.names\]"):
            MISVC().fit(later, table.set_axis(table.index.astype(kind)))
    for y in (pd.Series(GOOD.to_numpy()), LABELS.set_axis(range(40))):  # counts, or the names?
        with pytest.raises(ValueError, match=ORDER):
            MISVC().fit(bags, y)
    # No count from 0 names a bag: it is a count, also in folds.
    counted = pd.Series(GOOD.to_numpy())
    assert MISVC().fit(later, counted).score(later, counted) == 1.0
    assert cross_val_score(MISVC(), later, counted, cv=4, error_score="raise").mean() > 0.9
    with pytest.raises(ValueError, match=ORDER):
        cross_val_score(MISVC(), later, table, cv=4)


def test_leading_zeros_that_a_reader_has_lost(X):
    text = Bags.from_list(
        {name[1:].zfill(4): block for name, block in zip(X.names, X, strict=True)}
    )
    table = LABELS.set_axis([int(name[1:]) for name in LABELS.index])
    with pytest.raises(ValueError, match=r"of y \(0, 1, \.\.\.\) differs .* \('00"):
        MISVC().fit(text, table)
    mended = table.set_axis(table.index.astype(str).str.zfill(4)).loc[text.names]
    assert MISVC().fit(text, mended).score(text, mended) == 1.0


# -- tools of scikit-learn -----------------------------------------------------------------------


TOOLS = {
    "statistics": lambda: make_pipeline(BagStatistics(), LogisticRegression()),
    "scaled": lambda: make_pipeline(InstanceTransformer(StandardScaler()), MISVC()),
    "voting": lambda: VotingClassifier([("a", MISVC()), ("b", MISVC(C=2.0))]),
    "stacking": lambda: StackingClassifier([("a", MISVC())], LogisticRegression(), cv=3),
    "one against rest": lambda: OneVsRestClassifier(MISVC()),
    "calibrated": lambda: CalibratedClassifierCV(MISVC(), cv=3),
    "grid": lambda: GridSearchCV(MISVC(), {"C": [1.0, 2.0]}, cv=3, error_score="raise"),
}


# Those make an array of the labels before a model of milearn sees them.
WITHOUT_INDEX = {"voting", "stacking", "one against rest"}


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_that_encode_or_divide_labels(X, tool):
    make = TOOLS[tool]
    model = make().fit(X, GOOD)
    assert model.score(X, GOOD) > 0.95
    folds = KFold(3, shuffle=True, random_state=0)
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


@pytest.mark.parametrize("tool", ["scaled", "grid"])
def test_scores_that_end_in_a_model_of_milearn(X, tool):
    model = TOOLS[tool]().fit(X, GOOD)
    with pytest.raises(ValueError, match=ORDER):
        model.score(X, LABELS)


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


def test_several_outputs(X):
    frame = pd.DataFrame({"a": GOOD, "b": 1 - GOOD})
    model = MultiOutputClassifier(MISVC()).fit(X, frame)
    assert (model.predict(X)[:, 0] == GOOD).all()
    with pytest.raises(ValueError, match=ORDER):
        MISVC().fit(X, LABELS.to_frame())


def test_names_are_compared_as_text_without_blanks_in_one_form_of_unicode(X):
    names = [f"{name} caf\u00e9" for name in PATIENTS]
    bags = Bags(X.instances, X.offsets, names=names)
    written = [f" {name} cafe\u0301 " for name in PATIENTS]
    assert MISVC().fit(bags, GOOD.set_axis(written)).score(bags, GOOD.set_axis(names)) == 1.0
    with pytest.raises(ValueError, match=ORDER):
        MISVC().fit(bags, GOOD.set_axis(written).sort_index())


def test_splits_permutations_and_curves(X):
    train, test, y_train, y_test = train_test_split(X, GOOD, random_state=0)
    assert MISVC().fit(train, y_train).score(test, y_test) > 0.8
    array = GOOD.to_numpy()
    score, _, p_value = permutation_test_score(MISVC(), X, array, cv=3, n_permutations=4)
    assert score > 0.9
    assert p_value == 0.2
    with pytest.raises(ValueError, match="values without an index"):
        permutation_test_score(MISVC(), X, GOOD, cv=3, n_permutations=2)  # exchanges the index too
    sizes, _, scores = learning_curve(
        MISVC(), X, GOOD, cv=3, train_sizes=[0.5, 1.0], shuffle=True, error_score="raise",
        random_state=0)  # fmt: skip
    assert scores.shape == (2, 3)
    assert scores[-1].mean() > 0.9
    assert sizes.tolist() == [13, 26]
    bootstrap = RNG.integers(0, 40, 40)
    assert cross_val_score(MISVC(), X[bootstrap], GOOD.iloc[bootstrap], cv=3).mean() > 0.8


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
    assert MICoxPH().fit(X, y).score(X, y) > 0.7
    with pytest.raises(ValueError, match=r"make y of table\.loc\[X\.names\]"):
        MICoxPH().fit(X, survival_outcomes(table["event"], table["time"]))
    with pytest.raises(ValueError, match=r"time\.loc\[event\.index\]"):
        survival_outcomes(mine["event"], table["time"])
    scores = cross_val_score(MICoxPH(), X, y, cv=KFold(3, shuffle=True), error_score="raise")
    assert scores.mean() > 0.6
    assert type(survival_outcomes([True], [1.0])) is np.ndarray


# -- where names come from and go to ---------------------------------------------------------------


def test_names_are_set_by_every_entry(tmp_path):
    rows = pd.DataFrame({"bag": ["b", "a", "b"], "x": [1.0, 2, 3], "label": [1, 0, 1]})
    named = {
        "ids": Bags.from_ids([[1.0], [2], [3]], ["b", "a", "b"]),
        "bytes": Bags.from_list({"b": [[1.0], [3.0]], "a": [[2.0]]}),
        "frame": Bags.from_frame(rows, "bag", features=["x"]),
        "polars": Bags.from_frame(pl.DataFrame(rows), "bag", features=["x"]),
        "index": Bags.from_frame(rows.set_index("bag"), "bag", features=["x"]),
        "category": Bags.from_frame(rows.astype({"bag": "category"}), "bag", features=["x"]),
        "anndata": Bags.from_anndata(SimpleNamespace(
            X=np.array([[1.0], [2], [3]]), obs=rows, var_names=["x"]), "bag"),
        "padded": Bags.from_padded([[[1.0], [3.0]], [[2.0], [0.0]]], lengths=[2, 1],
                                   names=["b", "a"]),
    }  # fmt: skip
    for bags in named.values():
        assert bags.names.tolist() == ["b", "a"]
        assert bags.instances.tolist() == [[1], [3], [2]]
    documents = Bags.from_list({"b": ["One.", "Two."], "a": ["Three."]})
    assert documents.names.tolist() == ["b", "a"]


def test_names_are_kept(X, tmp_path):
    age = Bags(X.instances, X.offsets, names=X.names, bag_data={"age": np.arange(40.0)})
    for bags in (
        X[::-1][::-1],
        copy.deepcopy(X),
        pickle.loads(pickle.dumps(X)),
        Bags.concatenate([X[:7], X[7:]]),
        X[:, [0, 1]],
        X.with_instances(X.instances),
        InstanceTransformer(StandardScaler()).fit_transform(X),
        AppendBagData().fit_transform(age),
        X.sample_instances(2, random_state=0),
        Bags.from_frame(X.to_frame(), "bag"),
    ):
        assert bags.names.tolist() == PATIENTS
    mask = np.array([name < "p10" for name in PATIENTS])
    assert X[mask].names.tolist() == [name for name in PATIENTS if name < "p10"]
    merged = X.merge([name[:2] for name in PATIENTS])
    assert merged.names.tolist() == list(dict.fromkeys(name[:2] for name in PATIENTS))
    unnamed = Bags(X.instances, X.offsets)
    with pytest.warns(UserWarning, match="Some parts have no names of bags"):
        assert Bags.concatenate([X, unnamed]).names is None
    assert not X.equals(unnamed)


@pytest.mark.parametrize("form", ["npz", "npy-folder"])
def test_names_in_files(X, form, tmp_path):
    path = tmp_path / ("bags" if form == "npy-folder" else f"bags.{form}")
    save_bags(path, X, GOOD, format=form)
    data = load_bags(path)
    order = [data.data.names.tolist().index(name) for name in PATIENTS]
    assert sorted(order) == list(range(40))
    y = LABELS.loc[data.data.names]
    assert (y.to_numpy() == data.target).all()
    assert MISVC().fit(data.data, y).score(data.data[order], GOOD) == 1.0
    if form == "npy-folder":
        assert load_bags(path, mmap=True).data[[3, 1]].names.tolist() == [PATIENTS[3], PATIENTS[1]]


# -- messages and plots ----------------------------------------------------------------------------


def test_messages_name_the_bag(X):
    wrong = {name: block.copy() for name, block in zip(X.names, X, strict=True)}
    name = PATIENTS[5]
    wrong[name][1, 0] = np.nan
    with pytest.raises(ValueError, match=f"^Bag '{name}' contains NaN"):
        MISVC().fit(Bags.from_list(wrong), GOOD)
    with pytest.raises(ValueError, match=f"^Bag '{name}' is empty"):
        Bags.from_list(wrong | {name: np.empty((0, 3))})
    with pytest.raises(ValueError, match=f"^Bag '{name}' has 2 features but bag '{PATIENTS[0]}'"):
        Bags.from_list(wrong | {name: np.ones((1, 2))})
    weights = np.ones(40)
    weights[5] = -1.0
    with pytest.raises(ValueError, match=f"negative at bag '{name}'"):
        MISVC().fit(X, GOOD, sample_weight=weights)
    groups = np.array(PATIENTS, dtype=object)
    groups[5] = None
    for call in (
        lambda: X.merge(groups),
        lambda: next(StratifiedBagKFold(3).split(X, GOOD, groups=groups)),
    ):
        with pytest.raises(ValueError, match=f"groups is missing for bag '{name}'"):
            call()
    age = X.with_bag_data({"age": np.where(np.arange(40) == 5, np.nan, 50.0)})
    with pytest.raises(ValueError, match=f"bag '{name}'"):
        make_pipeline(AppendBagData(), MISVC()).fit(age, GOOD)


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
