"""Input that does not fit: the message names the likely cause, and its remedy runs."""

from __future__ import annotations

import pickle
import re
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from milearn import Bags
from milearn.datasets import (
    BagFileError,
    load_bag_folder,
    load_bags,
    make_bags,
    save_bags,
)
from milearn.preprocessing import AppendBagData, InstanceTransformer
from milearn.svm import MISVC
from tests.bags import folder_of_bags

TCGA = "TCGA-A6-2671-01Z-00-DX1"


def csv(path, text):
    file = path / "table.csv"
    file.write_text(text)
    return file


# -- names of bags -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (["0012", "0013"], [12, 13]),
        (["0012", "0013"], [12.0, None]),
        (["s1", "s2"], ["S1", "S2"]),
        ([f"{TCGA}.af5"], [TCGA]),
        (["a", "b", "c"], ["x", "y", "z"]),
    ],
)
def test_names_that_differ_are_shown(tmp_path, names, values):
    """Two values of each side: 12 is not 0012, and nothing is said of what they have in common."""
    folder_of_bags(tmp_path, *names)
    shown = [", ".join(map(repr, pd.Series(side)[:2])) for side in (values, names)]
    message = f"no value of 'slide_id' ({shown[0]}"
    with pytest.raises(BagFileError, match=re.escape(message) + ".*" + re.escape(shown[1])):
        load_bag_folder(tmp_path, pd.DataFrame({"slide_id": values, "label": 1}))
    folder_of_bags(tmp_path, "right")
    missing = f"there is no file for this row\n(.|\n)*  {names[0]}: the table has no row for this f"
    with pytest.raises(BagFileError, match=missing):
        load_bag_folder(tmp_path, pd.DataFrame({"slide_id": [*values, "right"]}))


def test_accents_blanks_and_zeros_of_text_are_no_difference(tmp_path):
    folder_of_bags(tmp_path, "caf\u00e9", "0012")
    table = csv(tmp_path, "slide_id,label\n0012,1\ncafe\u0301 ,0\n")
    assert load_bag_folder(tmp_path, table).target.tolist() == [1, 0]


# -- headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [";", "\t"])
def test_tables_with_another_delimiter(tmp_path, mark):
    table = csv(tmp_path, "bag;label;x\na;1;1,5\nb;0;2,5\n".replace(";", mark))
    folder_of_bags(tmp_path, "a", "b")
    for call in (load_bags, lambda table: load_bag_folder(tmp_path, table)):
        with pytest.raises(
            BagFileError, match="separated by .*: pass the frame .*" + re.escape(f"sep={mark!r})")
        ):
            call(table)
    with pytest.raises(BagFileError, match=r"Column 'x' holds text \('1,5', '2,5'\).*decimal=','"):
        load_bags(table, sep=mark)
    X, y = load_bags(table, sep=mark, decimal=",", return_X_y=True)
    assert (X.instances.tolist(), y.tolist()) == ([[1.5], [2.5]], [1, 0])
    frame = pd.read_csv(table, sep=mark, decimal=",")
    assert load_bag_folder(tmp_path, frame).target.tolist() == [1, 0]


@pytest.mark.parametrize("row", ["a,1\nb,0\n", "1,1,0.5,0.5\n1,1,-1e-3,0.1\n0,2,0.3,0.4\n"])
def test_tables_without_a_header(tmp_path, row):
    folder_of_bags(tmp_path, "a", "b")
    for call in (load_bags, lambda table: load_bag_folder(tmp_path, table)):
        with pytest.raises(BagFileError, match=r"no column 'bag' for bag= among '[1a]', '1"):
            call(csv(tmp_path, row))


@pytest.mark.parametrize("twice", ["bag", "label", "age"])
def test_two_columns_of_one_name(tmp_path, twice):
    """pandas calls the second label.1, which was a feature."""
    folder_of_bags(tmp_path, "a", "b")
    table = csv(tmp_path, f"bag,label,age,x,{twice}\na,1,60,5,1\nb,0,70,6,0\n")
    for call in (
        lambda: load_bags(table, bag_data=["age"]),
        lambda: Bags.from_frame(pd.read_csv(table), "bag", label="label", bag_data=["age"]),
        lambda: load_bag_folder(tmp_path, table, bag_data=["age"]),
    ):
        with pytest.raises(ValueError, match=f"two columns '{twice}'|'{twice}' and '{twice}.1'"):
            call()
    columns = pd.read_csv(table).columns.str.removesuffix(".1")
    with pytest.raises(
        BagFileError, match=f"two columns '{twice}' for {twice.replace('age', 'ba')}"
    ):
        load_bag_folder(tmp_path, pd.read_csv(table).set_axis(columns, axis=1), bag_data=["age"])


# -- bags that are none --------------------------------------------------------------------------


def fitted(y=(0, 1, 0, 1)):
    X = Bags.from_list([np.eye(2) + k for k in y])
    return MISVC().fit(X, y), X


@pytest.mark.parametrize(
    "blocks", [[r"D:\my slides\a.h5"] * 2, [Path("a")] * 2, np.array(["s/1.pt"] * 2)]
)
def test_a_list_of_paths(blocks):
    for call in (Bags.from_list, fitted()[0].predict):
        with pytest.raises((TypeError, ValueError), match=r"or a path .*\.load_bag_folder reads"):
            call(blocks)


def test_a_path_and_a_list_of_folders():
    with pytest.raises(TypeError, match="path is a list: read each folder, and join them by"):
        load_bag_folder(["a", "b"])
    with pytest.raises(TypeError, match=r"X is a path \('a.npz'\): .* milearn.datasets.load_bags"):
        MISVC().fit(Path("a.npz"), [0, 1])


def test_blocks_with_a_batch_axis():
    model, X = fitted()
    blocks = [block[np.newaxis] for block in X]
    for call in (Bags.from_list, model.predict):
        with pytest.raises(ValueError, match=r"has 3 dimension.* a bag is a 2-D array"):
            call(blocks)
    np.testing.assert_array_equal(model.predict([block[0] for block in blocks]), model.predict(X))


@pytest.mark.parametrize("nothing", [[], (), np.array([], dtype=object)])
def test_no_bags(nothing):
    for call in (fitted()[0].predict, lambda X: MISVC().fit(X, [])):
        with pytest.raises(ValueError, match="No bags were given: pass at least one"):
            call(nothing)


def test_a_row_is_a_bag_of_one():
    model, X = fitted()
    scores = model.decision_function(Bags.singletons(X.instances))
    np.testing.assert_array_equal(model.decision_function([*X.instances]), scores)


class Tensor:
    """What milearn sees of a tensor of torch, which is no dependency of the tests."""

    def __init__(self, values):
        self.values, self.shape, self.ndim = values, values.shape, values.ndim

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __getitem__(self, key):
        return Tensor(self.values[key])

    def __len__(self):
        return len(self.values)


def test_a_tensor_is_an_array():
    model, X = fitted()
    array = X.instances.reshape(4, 2, 2)
    refitted = MISVC().fit(Tensor(array), [0, 1, 0, 1])
    for given in (array, Tensor(array), [*map(Tensor, array)], X):
        np.testing.assert_array_equal(refitted.decision_function(given), model.decision_function(X))
    torch = pytest.importorskip("torch", reason="the stand-in above was tested")
    np.testing.assert_array_equal(model.predict(torch.tensor(array)), model.predict(X))


def test_equals(tmp_path):
    X = Bags.from_list(
        [[[0.0, np.nan]], [[1.0, 2.0], [3.0, 4.0]]],
        feature_names=["a", "b"],
        bag_graph=np.eye(2),
        instance_data={"name": [["p"], ["q", "r"]]},
        bag_data={"age": [71, np.nan]},
    )
    save_bags(tmp_path / "bags", X, format="npy-folder")
    mapped = load_bags(tmp_path / "bags", mmap=True).data
    for other in (X, deepcopy(X), pickle.loads(pickle.dumps(X)), X[[0, 1]], mapped):
        assert X.equals(other)
        assert other.equals(X)
    texts = Bags.from_list([["It works."]])
    assert texts.equals(deepcopy(texts))
    for other in (
        X[[1, 0]],
        X[:1],
        X[:, ["b", "a"]],
        X.with_bag_data({"age": [71, 64]}),
        X.with_instances(X.instances, feature_names=["a", "c"]),
        X.with_instances(X.instances.astype(np.float32)),
        Bags(X.instances, [0, 2, 3]),
        X.with_instances(sparse.csr_array(np.eye(3, 2))),
        texts,
        None,
    ):
        assert not X.equals(other)
    with pytest.raises(TypeError, match="Bags cannot be turned into one array"):
        np.array_equal(X, X)


# -- a step that does nothing --------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, "passthrough", FunctionTransformer()])
def test_none_changes_nothing(nothing):
    X = Bags.from_list([np.eye(2, dtype=np.float16)], feature_names=["a", "b"], bag_data={"c": [7]})
    step = InstanceTransformer(nothing).fit(X)
    gap, rows = X.with_instances([[np.nan, 1.0]] * 2), X.with_instances(sparse.csr_array(np.eye(2)))
    for bags in (X, gap, rows, Bags.from_list([["It works."]])):
        assert step.fit_transform(bags).equals(bags)
    step.fit(X)
    assert step.inverse_transform(step.transform(X)).equals(X)
    assert step.fit(np.eye(2)).transform([[0.0, 5.0]]).tolist() == [[0.0, 5.0]]  # a matrix
    if nothing is None:
        assert step.fit(X).get_feature_names_out().tolist() == ["a", "b"]


def test_a_grid_compares_scaling_with_nothing():
    X, y = make_bags(n_bags=40, n_features=2, random_state=0)
    X = X.with_instances(X.instances * [1.0, 1000.0])
    model = make_pipeline(InstanceTransformer(), MISVC(gamma=0.1))
    grid = {"instancetransformer__transformer": [StandardScaler(), None, "passthrough"]}
    scaled, none, passed = GridSearchCV(model, grid, cv=4).fit(X, y).cv_results_["mean_test_score"]
    assert scaled > none + 0.2
    assert none == passed == cross_val_score(MISVC(gamma=0.1), X, y, cv=4).mean()
    expected = InstanceTransformer(StandardScaler()).fit_transform(X)
    for step in (InstanceTransformer(), clone(InstanceTransformer("standard"))):
        assert step.fit_transform(X).equals(expected)
    with pytest.raises(TypeError, match=r"'robust' is not a transformer: .* or 'passthrough'"):
        InstanceTransformer("robust").fit(X)


def test_bag_data_are_appended_as_they_are():
    X = Bags.from_list([[[0.0]], [[4.0]]], bag_data={"age": [71, 64]})
    for nothing in (None, "passthrough"):
        bags = AppendBagData(transformer=nothing).fit_transform(X)
        assert bags.instances.tolist() == [[0.0, 71.0], [4.0, 64.0]]


@pytest.mark.parametrize("method", ["from_anndata", "from_list", "from_frame", "from_ids"])
def test_python_names_the_class_of_the_user(method):
    with pytest.raises(TypeError, match=rf"^Bags\.{method}\(\) missing"):
        getattr(Bags, method)()
    with pytest.raises(TypeError, match=r"^Bags\.merge\(\) missing"):
        Bags.singletons(np.eye(2)).merge()
