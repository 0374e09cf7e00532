"""Bags from AnnData and results in it; what NumPy would take item by item is refused elsewhere."""

from __future__ import annotations

from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from milearn import MISVC, Bags
from milearn._bags.rows_on_disk import is_read_in_blocks
from milearn.inspection import instance_scores
from tests._bags.kinds import refuses


class Items:
    """It has a length, a shape and items, like an array, which must not be touched."""

    shape, ndim = (6, 2), 2

    def __len__(self):
        return 6

    def __getitem__(self, key):
        raise AssertionError(f"item {key} was read")

    def __iter__(self):
        raise AssertionError("it was iterated")


class Cells(Items):
    """Like anndata.AnnData."""

    def __init__(self):
        self.X = np.arange(12.0).reshape(6, 2)
        self.obs = pd.DataFrame({"donor": list("aabbab"), "ill": [1, 1, 0, 0, 1, 0]})


Y = [0, 1] * 3
FITTED = MISVC(kernel="linear").fit([np.eye(2), 1 - np.eye(2)[:1]], [1, 0])
WAYS = {
    "from_ids": (lambda data: Bags.from_ids(data, list("aabbab")), "instances"),
    "Bags": (lambda data: Bags(data, [0, 2, 6]), "instances"),
    "singletons": (Bags.singletons, "instances"),
    "block": (lambda data: Bags.from_list([np.eye(2), data]), "Bag 1"),
    "instance_data": (
        lambda data: Bags(np.eye(6), np.arange(7), instance_data={"a": data}),
        "instance_data['a']",
    ),
    "bag_data": (lambda data: Bags(np.eye(6), np.arange(7), bag_data={"a": data}), "bag_data['a']"),
    "fit": (lambda data: MISVC().fit(data, Y), "X"),
    "predict": (lambda data: FITTED.predict(data), "X"),
    "instance_scores": (lambda data: instance_scores(FITTED, data), "X"),
}


@pytest.mark.parametrize("way", WAYS)
def test_objects_are_refused_before_they_are_read(way):
    call, what = WAYS[way]
    message = f"{what} is Items, which is no array, data frame or sparse matrix: convert it to one"
    refuses(lambda: call(Items()), message, TypeError)
    message = f"{what} is Cells: use Bags.from_anndata(adata, bag), where bag names"
    refuses(lambda: call(Cells()), message, TypeError)


def test_an_annotated_matrix_is_no_frame_and_no_sequence_of_bags():
    refuses(lambda: Bags.from_frame(Cells(), "donor"), "The data frame is Cells: use", TypeError)
    refuses(lambda: Bags.from_list(Cells()), "The sequence of bags is Cells: use", TypeError)


def test_a_frame_with_columns_of_these_names_is_a_frame():
    frame = pd.DataFrame({"X": [1.0, 2.0], "obs": [3.0, 4.0], "bag": ["a", "b"]})
    assert Bags.from_frame(frame, "bag").shape == (2, 2)
    assert Bags.singletons(frame[["X", "obs"]]).feature_names.tolist() == ["X", "obs"]


OBS = {
    "donor": pd.Categorical(["d2", "d1", "d2", "d3", "d1", "d2"]),
    "ill": ["no", "yes", "no", "yes", "yes", "no"],
    "age": [30.0, 40.0, 30.0, np.nan, 40.0, 30.0],
    "kind": list("TTBBTB"),
}
NAMES = [f"c{row}" for row in range(6)]


def cells(X=None):
    """Like anndata.AnnData."""
    X = np.arange(18, dtype=np.float32).reshape(6, 3) if X is None else X
    parts = {"layers": {"counts": sparse.csr_array(np.eye(6, 3))}, "uns": {}}
    parts["obsm"] = {"pca": np.eye(6, 2), "frame": pd.DataFrame({"u": np.arange(6.0)})}
    obs = pd.DataFrame(OBS, index=NAMES)
    return SimpleNamespace(X=X, obs=obs, var_names=["CD3", "CD4", "CD8"], **parts)


def test_donors_are_bags_with_labels_covariates_and_features():
    options = {"label": "ill", "bag_data": ["age"], "instance_data": {"type": "kind"}}
    bags, y, donors = Bags.from_anndata(cells(), "donor", return_ids=True, **options)
    assert donors.tolist() == bags.bag_data["donor"].tolist() == ["d2", "d1", "d3"]
    assert y.tolist() == ["no", "yes", "yes"]
    assert bags.feature_names.tolist() == ["CD3", "CD4", "CD8"]
    rows = [0, 2, 5, 1, 4, 3]
    assert bags.instance_data.index.tolist() == [f"c{row}" for row in rows]
    assert bags.bag_data.index.tolist() == ["d2", "d1", "d3"]
    np.testing.assert_array_equal(bags.instances, cells().X[rows])
    np.testing.assert_array_equal(bags.bag_data["age"], [30.0, 40.0, np.nan])
    assert "".join(bags.instance_data["type"]) == "TBBTTB"
    counts = Bags.from_anndata(cells(), "donor", layer="counts")
    np.testing.assert_array_equal(counts.instances.toarray(), np.eye(6, 3)[rows])
    assert Bags.from_anndata(cells(), "donor", obsm="pca").feature_names is None
    assert Bags.from_anndata(cells(), "donor", obsm="frame").feature_names.tolist() == ["u"]


WRONG = [
    ({"label": "kind"}, "Bag 'd2' has two labels, T and B: a bag has one."),
    ({"bag_data": ["kind"]}, "Bag 'd2' has two entries of bag_data['kind'], T and B: a bag has"),
    ({"bag_data": ["sex"]}, "The table has no column 'sex': its columns are"),
    ({"bag": "patient"}, "The table obs has no column 'patient': its columns are ['donor',"),
    ({"layer": "raw"}, "The mapping layers has no column 'raw': its columns are ['counts']."),
    ({"obsm": "umap"}, "The mapping obsm has no column 'umap': its columns are ["),
    ({"obsm": "pca", "layer": "counts"}, "layer and obsm are two matrices: name one of them."),
    (
        {"adata": SimpleNamespace(X=None, obs=pd.DataFrame(OBS), layers={"a": 1})},
        "adata.X is None:",
    ),
    ({"adata": "cells.h5ad"}, "adata is str, without X and obs: read a file by anndata.read_h5ad("),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_what_from_anndata_refuses(options, message):
    given = {"adata": cells(), "bag": "donor", **options}
    refuses(lambda: Bags.from_anndata(**given), message, (TypeError, ValueError))


@pytest.mark.parametrize("chunks", [None, (2, 3)])
def test_a_matrix_in_a_file_is_mapped_in_any_order_of_donors(tmp_path, chunks):
    expected = Bags.from_anndata(cells(), "donor", bag_data=["age"])
    with h5py.File(tmp_path / "cells.h5ad", "w") as file:
        file.create_dataset("X", data=cells().X, chunks=chunks)
    with h5py.File(tmp_path / "cells.h5ad") as file:
        bags = Bags.from_anndata(cells(file["X"]), "donor", bag_data=["age"])
    assert is_read_in_blocks(bags) == (chunks is None)
    np.testing.assert_array_equal(bags.instances, expected.instances)
    pd.testing.assert_frame_equal(bags.bag_data, expected.bag_data)
    assert bags.feature_names.tolist() == expected.feature_names.tolist()
    assert bags.instance_data.index.tolist() == expected.instance_data.index.tolist()


def test_scores_and_predictions_go_back_to_the_cells_and_donors():
    adata = cells()
    bags = Bags.from_anndata(adata, "donor", bag_data=["age"])[[0, 2]]  # rows 0, 2, 5 and 3
    arrays = {"score": [1, 2, 3, 4], "chosen": np.arange(4) > 1, "name": list("abcd")}
    arrays["columns"] = np.eye(4, 2)
    bags.to_anndata(adata, instance_data=arrays, bag_data={"predicted": ["no", "yes"]})
    found = adata.obs.loc[["c0", "c2", "c5", "c3"]]
    assert found["milearn_score"].tolist() == [1, 2, 3, 4]
    assert found["milearn_chosen"].tolist() == [False, False, True, True]
    assert "".join(found["milearn_name"]) == "abcd"
    np.testing.assert_array_equal(found[["milearn_columns_0", "milearn_columns_1"]], np.eye(4, 2))
    assert adata.obs.loc[["c1", "c4"], ["milearn_score", "milearn_name"]].isna().all(axis=None)
    table = adata.uns["milearn"]
    assert table["predicted"].tolist() == ["no", "yes"]
    assert table["donor"].tolist() == ["d2", "d3"]
    np.testing.assert_array_equal(table["age"], [30.0, np.nan])


def test_results_of_other_cells_are_refused():
    adata = cells()
    bags = Bags.from_anndata(adata, "donor")
    other = SimpleNamespace(obs=adata.obs.rename(index={"c0": "c9"}), uns={})
    message = "1 of 6 cells of the bags are not in adata, such as 'c0': pass the adata of"
    refuses(lambda: bags.to_anndata(other), message)
    adata.obs.index = ["c0", *NAMES[:5]]
    refuses(lambda: bags.to_anndata(adata), "Two cells of adata are named 'c0': call adata.obs_")
    plain = Bags.from_list([np.eye(2)])
    refuses(lambda: plain.to_anndata(adata), "The cells of the bags have no names: create them by")
    message = "instance_data['score'] has 2 entries for 6 instances: give one entry per"
    refuses(lambda: bags.to_anndata(cells(), instance_data={"score": [1, 2]}), message)


def test_files_of_anndata(tmp_path):
    anndata = pytest.importorskip("anndata")
    kept = anndata.AnnData(cells().X, obs=cells().obs, layers=cells().layers)
    kept.var_names = cells().var_names
    kept.write_h5ad(tmp_path / "cells.h5ad")
    expected, y = Bags.from_anndata(cells(), "donor", label="ill")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    bags, labels = Bags.from_anndata(adata, "donor", label="ill")
    assert is_read_in_blocks(bags)
    np.testing.assert_array_equal(bags.instances, expected.instances)
    assert labels.tolist() == y.tolist()
    kept.X = sparse.csr_matrix(kept.X)
    kept.write_h5ad(tmp_path / "sparse.h5ad")
    adata = anndata.read_h5ad(tmp_path / "sparse.h5ad", backed="r")
    found = Bags.from_anndata(adata, "donor")
    np.testing.assert_array_equal(found.instances.toarray(), expected.instances)
    refuses(lambda: MISVC().fit(kept, y), "X is AnnData: use Bags.from_anndata(", TypeError)
    bags.to_anndata(kept, instance_data={"score": np.arange(6.0)}, bag_data={"predicted": y})
    kept.write_h5ad(tmp_path / "scored.h5ad")
    again = anndata.read_h5ad(tmp_path / "scored.h5ad")
    assert again.obs["milearn_score"].tolist() == [0.0, 3.0, 1.0, 5.0, 4.0, 2.0]
    assert again.uns["milearn"]["predicted"].tolist() == y.tolist()
