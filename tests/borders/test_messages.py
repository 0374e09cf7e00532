"""Input that does not fit: the message names the likely cause, and its remedy runs."""

from __future__ import annotations

import pickle
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
    load_airr,
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


def test_two_values_of_each_side_are_shown(tmp_path):
    folder_of_bags(tmp_path, "a", "b", "c")
    shown = r"'bag' \('x', 'y', \.\.\.\) is the name of a file \('a', 'b', \.\.\.\); name the"
    with pytest.raises(BagFileError, match=shown):
        load_bag_folder(tmp_path, pd.DataFrame({"bag": ["x", "y", "z"]}))


def test_repertoires_have_the_same_message(tmp_path):
    (tmp_path / "p01.tsv").write_text("junction_aa\nCASSF\n")
    with pytest.raises(BagFileError, match=r"'filename' \('P01'\) is the name of a file \('p01'\)"):
        load_airr(tmp_path, pd.DataFrame({"filename": ["P01"], "label": [1]}))


def test_paths_of_windows_are_names(tmp_path):
    folder_of_bags(tmp_path, "s1", "s2")
    table = pd.DataFrame({"slide_id": [r"C:\wsi\s2.svs", r"..\s1.ome.tiff"], "label": [1, 0]})
    data = load_bag_folder(tmp_path, table)
    assert data.bag_names.tolist() == ["s2", "s1"]
    assert data.target.tolist() == [1, 0]
    assert data.data[0][0, 0] == 2.0  # the instances of s2


# -- headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", ["slide_id;label\na;1\nb;0\n", "slide_id;age\na;1,5\nb;2,5\n"])
def test_tables_of_labels_with_another_delimiter(tmp_path, rows):
    folder_of_bags(tmp_path, "a", "b")
    table = csv(tmp_path, rows)
    for column in (None, "slide_id"):
        with pytest.raises(BagFileError, match=r"or pass the frame of pandas\.read_csv with the"):
            load_bag_folder(tmp_path, table, bag=column)
    assert len(load_bag_folder(tmp_path, pd.read_csv(table, sep=";", decimal=",")).data) == 2


@pytest.mark.parametrize("label", ["Label", "LABEL", "Bag_Label"])
@pytest.mark.parametrize("name", ["Slide_ID", "BAG", "Filename"])
def test_columns_are_known_in_any_case(tmp_path, label, name):
    folder_of_bags(tmp_path, "007", "008")
    table = csv(tmp_path, f"{name},{label},Patient_ID\n008,1,01\n007,0,1\n")
    for given in (table, pd.read_csv(table, dtype=str)):
        data = load_bag_folder(tmp_path, given)
        assert data.bag_names.tolist() == ["008", "007"]
        assert [*map(int, data.target)] == [1, 0]
        assert data.groups.tolist() == ["01", "1"]


def test_a_column_of_the_exact_name_comes_first(tmp_path):
    folder_of_bags(tmp_path, "a", "b")
    two = pd.DataFrame({"bag": ["a", "b"], "Label": [5, 6], "label": [0, 1]})
    assert load_bag_folder(tmp_path, two).target.tolist() == [0, 1]
    twice = two.rename(columns={"label": "LABEL"})
    with pytest.raises(BagFileError, match="'Label', 'LABEL' may be 'label'; choose one with lab"):
        load_bag_folder(tmp_path, twice)
    assert load_bag_folder(tmp_path, twice, label="LABEL").target.tolist() == [0, 1]


@pytest.mark.parametrize("values", [("neg", "pos"), ("0", "1")])
def test_a_label_in_capitals_is_no_feature(tmp_path, values):
    rows = f"Bag,Label,x\n01,{values[1]},1\n1,{values[0]},2\n01,{values[1]},3\n"
    data = load_bags(csv(tmp_path, rows))
    assert data.feature_names.tolist() == ["x"]
    assert data.bag_names.tolist() == ["01", "1"]
    assert [*map(str, data.target)] == [*values[::-1]]
    assert data.data.sizes.tolist() == [2, 1]


# -- bags that are none --------------------------------------------------------------------------


def fitted(y=(0, 1, 0, 1)):
    X = Bags.from_list([np.eye(2) + k for k in y])
    return MISVC().fit(X, y), X


@pytest.mark.parametrize(
    "blocks", [["a.npy"] * 2, [r"D:\my slides\a.h5"] * 2, [Path("a")] * 2, np.array(["s/1.pt"] * 2)]
)
def test_a_list_of_paths(blocks):
    for call in (Bags.from_list, fitted()[0].predict, lambda X: MISVC().fit(X, [0, 1])):
        with pytest.raises((TypeError, ValueError), match=r"is a path .*\.load_bag_folder reads"):
            call(blocks)


def test_a_list_of_folders():
    with pytest.raises(TypeError, match="path is a list: read each folder, and join them by"):
        load_bag_folder(["a", "b"])


def test_a_path():
    with pytest.raises(TypeError, match=r"X is a path \('a.npz'\): .* milearn.datasets.load_bags"):
        MISVC().fit(Path("a.npz"), [0, 1])


def test_a_sentence_is_no_path():
    with pytest.raises(ValueError, match=r"holds strings: .* Bags.from_list"):
        Bags.from_list(["It works.", "It does not."])


def test_blocks_with_a_batch_axis():
    model, X = fitted()
    blocks = [block[np.newaxis] for block in X]
    for call in (Bags.from_list, model.predict, lambda X: MISVC().fit(X, [0, 1, 0, 1])):
        with pytest.raises(ValueError, match=r"Take out the first axis .* \[block\[0\] for block"):
            call(blocks)
    np.testing.assert_array_equal(model.predict([block[0] for block in blocks]), model.predict(X))
    with pytest.raises(ValueError, match="Images are cut into patches"):
        Bags.from_list([np.ones((4, 4, 3))])


@pytest.mark.parametrize("nothing", [[], (), np.array([], dtype=object)])
def test_no_bags(nothing):
    for call in (fitted()[0].predict, lambda X: MISVC().fit(X, [])):
        with pytest.raises(ValueError, match="No bags were given: pass at least one"):
            call(nothing)


def test_a_row_is_a_bag_of_one():
    model, X = fitted()
    for row in X.instances:
        np.testing.assert_array_equal(
            model.decision_function([row]), model.decision_function([row[np.newaxis]])
        )


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


@pytest.mark.parametrize("sizes", [(1, 3, 2, 2), (2, 2, 2, 2)])
def test_an_array_of_awkward_is_a_sequence(sizes):
    ak = pytest.importorskip("awkward")
    blocks = [np.full((size, 2), float(at % 2)) for at, size in enumerate(sizes)]
    expected = MISVC().fit(blocks, [0, 1, 0, 1]).decision_function(blocks)
    ragged = ak.Array([block.tolist() for block in blocks])
    model = MISVC().fit(ragged, [0, 1, 0, 1])
    for given in (ragged, [*ragged], blocks):
        np.testing.assert_array_equal(model.decision_function(given), expected)
    with pytest.raises(ValueError, match="Bag 0 has rows of different lengths"):
        model.predict(ak.Array([[[1.0, 2.0], [3.0]]]))


def test_levels_of_the_index_are_columns():
    frame = pd.DataFrame({"bag": ["b", "b", "a"], "y": [1, 1, 0], "x": [1.0, 2.0, 3.0]})
    X, y = Bags.from_frame(frame, "bag", label="y")
    numbered = frame.assign(row=[7, 8, 9])
    for given in (
        frame.set_index("bag"),
        frame.set_index(["bag", "y"]),
        numbered.set_index(["bag", "row"]),
    ):
        same, labels = Bags.from_frame(given, "bag", label="y")
        assert same.equals(X)
        assert labels.tolist() == y.tolist() == [1, 0]


# -- equal bags ----------------------------------------------------------------------------------


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
    for other in (
        X[[1, 0]],
        X[:1],
        X[:, ["b", "a"]],
        X.with_bag_data({"age": [71, 64]}),
        X.with_bag_data(None),
        X.with_instances(X.instances, feature_names=["a", "c"]),
        X.with_instances(X.instances.astype(np.float32)),
        Bags(X.instances, [0, 2, 3]),
        X.with_instances(sparse.csr_array(np.eye(3, 2))),
        X.instances,
        None,
    ):
        assert not X.equals(other)
    texts = Bags.from_list([["It works."]])
    assert texts.equals(Bags.from_list([["It works."]]))
    assert not texts.equals(Bags.from_list([["It fails."]]))
    with pytest.raises(TypeError, match="Bags cannot be turned into one array"):
        np.array_equal(X, X)


# -- a step that does nothing --------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, "passthrough", FunctionTransformer()])
def test_none_changes_nothing(nothing):
    X = Bags.from_list(
        [np.eye(2, dtype=np.float16), np.ones((1, 2), dtype=np.float16)],
        feature_names=["a", "b"],
        bag_data={"age": [71, 64]},
    )
    step = InstanceTransformer(nothing).fit(X, [0, 1])
    for bags in (step.transform(X), step.fit_transform(X), step.inverse_transform(X)):
        assert bags.dtype == np.float16
        assert bags.instances.tolist() == X.instances.tolist()
        assert bags.feature_names.tolist() == ["a", "b"]
        assert bags.bag_data["age"].tolist() == [71, 64]
    step.fit(X.instances.astype(float))
    assert step.transform([[[0.0, 5.0]]])[0].tolist() == [[0.0, 5.0]]
    assert step.transform([[0.0, 5.0]]).tolist() == [[0.0, 5.0]]  # a matrix
    gap = X.with_instances([[np.nan, 1.0]] * 3)
    assert np.isnan(step.fit_transform(gap).instances[:, 0]).all()
    texts = Bags.from_list([["It works."]])
    assert InstanceTransformer(nothing).fit_transform(texts)[0].tolist() == [["It works."]]
    sparse_bags = X.with_instances(sparse.csr_array(np.eye(3)))
    assert InstanceTransformer(nothing).fit_transform(sparse_bags).is_sparse


def test_names_of_features_of_a_step_that_does_nothing():
    X = Bags.from_list([[[0.0, 1.0]]], feature_names=["a", "b"])
    assert InstanceTransformer(None).fit(X).get_feature_names_out().tolist() == ["a", "b"]


def test_the_default_scales():
    X = Bags.from_list([[[0.0], [2.0]], [[4.0]]])
    expected = InstanceTransformer(StandardScaler()).fit_transform(X).instances
    for step in (
        InstanceTransformer(),
        InstanceTransformer("standard"),
        clone(InstanceTransformer()),
    ):
        np.testing.assert_array_equal(step.fit_transform(X).instances, expected)
    with pytest.raises(TypeError, match=r"'robust' is not a transformer: .* or 'passthrough'"):
        InstanceTransformer("robust").fit(X)


def test_a_grid_compares_scaling_with_nothing():
    X, y = make_bags(n_bags=40, n_features=2, random_state=0)
    X = X.with_instances(X.instances * [1.0, 1000.0])
    model = make_pipeline(InstanceTransformer(), MISVC(gamma=0.1))
    grid = {"instancetransformer__transformer": [StandardScaler(), None, "passthrough"]}
    search = GridSearchCV(model, grid, cv=4).fit(X, y)
    scaled, none, passed = search.cv_results_["mean_test_score"]
    assert scaled > none + 0.2
    assert none == passed == cross_val_score(MISVC(gamma=0.1), X, y, cv=4).mean()


def test_bag_data_are_appended_as_they_are():
    X = Bags.from_list([[[0.0]], [[4.0]]], bag_data={"age": [71, 64]})
    for nothing in (None, "passthrough"):
        bags = AppendBagData(transformer=nothing).fit_transform(X)
        assert bags.instances.tolist() == [[0.0, 71.0], [4.0, 64.0]]
