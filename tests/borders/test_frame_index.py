"""The index of a frame of pandas goes with its rows into the bags."""

import pickle

import numpy as np
import pandas as pd
import pytest

from milearn import Bags
from milearn.datasets import load_bags, save_bags

TABLE = pd.DataFrame({"donor": [*"abab"], "x": [1.0, 2.0, 3.0, 4.0]})
ORDERS = [[0, 1, 2, 3], [3, 0, 2, 1]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("index", [[0, 1, 2, 3], [7, 5, 9, 4], [*"wzyx"]])
def test_a_column_and_a_mask_of_the_frame_go_to_their_rows(order, index):
    table = TABLE.set_axis(index).iloc[order]
    bags = Bags.from_frame(table, "donor")
    own = bags.instance_data.index
    np.testing.assert_array_equal(table.loc[own, "x"], bags.instances[:, 0])
    with pytest.raises(ValueError, match=r"another order: pass the column\.loc\[X\.instance_data"):
        bags.with_instance_data(u=table["x"])
    with pytest.raises(ValueError, match=r"another order: pass mask\.loc\[X\.instance_data"):
        bags.select_instances(table["x"] > 1)
    added = bags.with_instance_data(u=table["x"].loc[own])
    np.testing.assert_array_equal(added.instance_data["u"], bags.instances[:, 0])
    left = bags.select_instances((table["x"] > 1).loc[own])
    assert sorted(left.instances[:, 0]) == [2, 3, 4]
    np.testing.assert_array_equal(table.loc[left.instance_data.index, "x"], left.instances[:, 0])


@pytest.mark.parametrize("kind", ["npz", "npy-folder"])
@pytest.mark.parametrize("columns", [None, ["s"]])
def test_the_index_is_kept_by_files_pickles_and_frames(tmp_path, kind, columns):
    bags = Bags.from_frame(TABLE.assign(s=1), "donor", instance_data=columns)
    path = tmp_path / ("bags.npz" if kind == "npz" else "bags")
    save_bags(path, bags, format=kind)
    for found in (load_bags(path).data, pickle.loads(pickle.dumps(bags))):
        assert found.instance_data.index.tolist() == [0, 2, 1, 3]
        assert found.equals(bags)
    assert bags.to_frame().index.tolist() == [0, 2, 1, 3]
    again = Bags.from_frame(bags.to_frame(), "bag", instance_data=columns)
    assert again.instance_data.index.tolist() == [0, 2, 1, 3]
    assert bags[1:].instance_data.index.tolist() == [1, 3]
    assert Bags.concatenate([bags, bags]).instance_data.index.tolist() == [*range(8)]


def test_a_frame_in_order_has_no_index_of_its_own():
    table = TABLE.assign(donor=[*"aabb"])
    bags = Bags.from_frame(table, "donor")
    assert bags.instance_data.index.equals(pd.RangeIndex(4))
    added = bags.with_instance_data(u=table["x"])
    assert added.instance_data["u"].tolist() == [1, 2, 3, 4]


def test_a_repeated_index_is_refused_where_rows_are_mixed():
    table = TABLE.set_axis([5, 5, 6, 7])
    bags = Bags.from_frame(table, "donor")
    for call in (lambda v: bags.with_instance_data(u=v), lambda v: bags.select_instances(v > 1)):
        with pytest.raises(ValueError, match=r"repeated entries.* an array in the order"):
            call(table["x"])
    ordered = Bags.from_frame(table.assign(donor=[*"aabb"]), "donor")
    added = ordered.with_instance_data(u=table["x"])
    assert added.instance_data["u"].tolist() == [1, 2, 3, 4]
