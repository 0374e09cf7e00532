"""Objects that NumPy would take item by item, such as AnnData, are refused before they are read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from milearn import MISVC, Bags
from milearn.inspection import instance_scores
from milearn.preprocessing import InstanceTransformer
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
FITTED = MISVC(kernel="linear").fit([np.eye(2), 1 - np.eye(2)[:1]], [0, 1])
WAYS = {
    "from_ids": (lambda data: Bags.from_ids(data, list("aabbab")), "instances"),
    "Bags": (lambda data: Bags(data, [0, 2, 6]), "instances"),
    "offsets": (lambda data: Bags(np.eye(2), data), "offsets"),
    "singletons": (Bags.singletons, "instances"),
    "block": (lambda data: Bags.from_list([np.eye(2), data]), "Bag 1"),
    "series": (lambda data: Bags.from_series([data], 2), "Series 0"),
    "image": (lambda data: Bags.from_images([data], 2), "Image 0"),
    "graph": (lambda data: Bags(np.eye(6), np.arange(7), bag_graph=data), "bag_graph"),
    "instance_data": (
        lambda data: Bags(np.eye(6), np.arange(7), instance_data={"a": data}),
        "instance_data['a']",
    ),
    "bag_data": (lambda data: Bags(np.eye(6), np.arange(7), bag_data={"a": data}), "bag_data['a']"),
    "fit": (lambda data: MISVC().fit(data, Y), "X"),
    "fit of several": (lambda data: MISVC().fit([data, data], [0, 1]), "Bag 0"),
    "predict": (lambda data: FITTED.predict(data), "X"),
    "transformer": (lambda data: InstanceTransformer(None).fit(data), "X"),
    "instance_scores": (lambda data: instance_scores(FITTED, data), "X"),
}


@pytest.mark.parametrize("way", WAYS)
def test_objects_are_refused_before_they_are_read(way):
    call, what = WAYS[way]
    message = f"{what} is Items, which is no array, data frame or sparse matrix: convert it to one"
    refuses(lambda: call(Items()), message, TypeError)
    message = f"{what} is Cells: pass its matrix and the donor of each cell, Bags.from_ids(adata.X,"
    refuses(lambda: call(Cells()), message, TypeError)


def test_an_annotated_matrix_is_no_frame_and_no_sequence_of_bags():
    refuses(lambda: Bags.from_frame(Cells(), "donor"), "The data frame is Cells: pass", TypeError)
    refuses(lambda: Bags.from_list(Cells()), "The sequence of bags is Cells: pass", TypeError)


def test_a_frame_with_columns_of_these_names_is_a_frame():
    frame = pd.DataFrame({"X": [1.0, 2.0], "obs": [3.0, 4.0], "bag": ["a", "b"]})
    assert Bags.from_frame(frame, "bag").shape == (2, 2)
    assert Bags.singletons(frame[["X", "obs"]]).feature_names.tolist() == ["X", "obs"]
