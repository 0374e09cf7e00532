"""Columns of instances and of bags stay aligned with their instances and bags everywhere."""

from __future__ import annotations

import copy
import pickle

import hypothesis
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import strategies as st
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import KFold, ShuffleSplit, train_test_split
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from milearn import Bags
from milearn.preprocessing import InstanceTransformer
from tests._bags.kinds import refuses

few = hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=8)
KEYS = ("instance_data", "bag_data")


def tagged(sizes, *, graph=False, as_sparse=False):
    """Bags whose columns tell the number of the instance and of the bag: any shift shows."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    tags = np.arange(1.0, offsets[-1] + 1)
    of_bags = np.arange(1, len(sizes) + 1)
    matrix = np.column_stack([tags, np.repeat(of_bags, sizes)])
    return Bags(
        sparse.csr_array(matrix) if as_sparse else matrix,
        offsets,
        bag_graph=sparse.diags_array(1.0 * of_bags, format="csr") if graph else None,
        instance_graph=sparse.diags_array(tags, format="csr") if graph else None,
        instance_data=data_of(tags),
        bag_data=columns_of(of_bags),
    )


def data_of(tags):
    return {
        "coords_0": tags.astype(np.float32),
        "coords_1": 2 * tags,
        "name": np.array([f"i{int(tag)}" for tag in tags], dtype=object),
        "label": tags.astype(np.int8),
    }


def columns_of(tags):
    return {
        "age": np.asarray(tags, dtype=np.int16),
        "site": np.array([f"s{int(tag)}" for tag in tags], dtype=object),
        "dose": np.where(np.asarray(tags) % 2 == 0, np.nan, tags),
    }


def assert_aligned(bags, tags=None):
    """All columns are those of the tags in both features, or of the given pair of them."""
    if tags is None:
        matrix = bags.instances.toarray() if bags.is_sparse else bags.instances
        tags = matrix[:, 0], matrix[bags.offsets[:-1], 1]
    for key, expected in zip(KEYS, (data_of(tags[0]), columns_of(tags[1])), strict=True):
        found = getattr(bags, key)
        assert list(found) == list(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)
            assert values.dtype in (object, found[name].dtype)
    for graph, tag in zip((bags.instance_graph, bags.bag_graph), tags, strict=True):
        if graph is not None:
            np.testing.assert_array_equal(graph.diagonal(), tag)


@hypothesis.given(st.data())
@few
def test_operations_keep_them_aligned(tmp_path_factory, data):
    kind = data.draw(st.sampled_from(["dense", "sparse", "graph", "mapped"]))
    bags = tagged(data.draw(SIZES), as_sparse=kind == "sparse", graph=kind == "graph")
    if kind == "mapped":
        path = tmp_path_factory.mktemp("map") / "x.npy"
        np.save(path, bags.instances)
        bags = Bags(np.load(path, mmap_mode="r"), bags.offsets,
                    instance_data=bags.instance_data, bag_data=bags.bag_data)  # fmt: skip
    for step in data.draw(st.lists(st.integers(0, 7), max_size=4)):
        n = len(bags)
        if step == 0:
            bags = bags[data.draw(st.slices(n))]
        elif step == 1:
            bags = bags[data.draw(st.lists(st.integers(-n, n - 1), max_size=6)) if n else []]
        elif step == 2:
            bags = bags[np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)]
        elif step == 3 and kind != "graph":
            bags = Bags.concatenate([bags, bags[::-1]])
        elif step == 4 and n and kind != "graph":
            # Groups of equal bags, which agree in every column.
            bags = bags.merge(bags.bag_data["site"], source=None)
        elif step == 5:
            bags = pickle.loads(pickle.dumps(copy.deepcopy(bags)))
        elif step == 6:
            bags = bags.with_instances(bags.instances)
        elif step == 7:
            bags = bags[:, ...][..., :]
        assert_aligned(bags)


@pytest.mark.filterwarnings("ignore:Feature 'x1' has one value in every bag")
@hypothesis.given(SIZES, st.randoms(use_true_random=False))
@few
def test_rows_frames_and_lists_keep_them_aligned(sizes, random):
    bags = tagged(sizes)
    rows = list(range(bags.n_instances))
    random.shuffle(rows)
    data, of_bags = bags.instance_data.iloc[rows], bags.bag_data.iloc[bags.bag_index[rows]]
    found = Bags.from_ids(bags.instances[rows], bags.bag_index[rows].tolist(), instance_data=data,
                          bag_data=of_bags)  # fmt: skip
    assert_aligned(found)
    assert sorted(found.sizes) == sorted(sizes)
    table, coords = bags.to_frame(), ["coords_0", "coords_1"]
    for frame in (table.iloc[rows], pl.DataFrame(table)[rows]):
        found = Bags.from_frame(
            frame,
            "bag",
            instance_data={"coords": coords, "name": "name", "label": "label"},
            bag_data=["age", "site", "dose"],
        )
        assert_aligned(found)
        assert found.shape[1] == 2
    blocks = {
        name: np.split(data.to_numpy(), bags.offsets[1:-1])
        for name, data in bags.instance_data.items()
    }
    listed = Bags.from_list(list(bags), instance_data=blocks, bag_data=bags.bag_data)
    assert_aligned(listed)


@hypothesis.given(st.lists(st.integers(1, 4), min_size=4, max_size=10), st.integers(0, 99))
@few
def test_splitters_and_pipelines_keep_them_aligned(sizes, seed):
    whole = tagged(sizes)
    y = np.arange(len(whole))
    cv = [*KFold(2, shuffle=True, random_state=seed).split(whole)]
    cv += [*ShuffleSplit(1, test_size=0.5, random_state=seed).split(whole)]
    for part in (whole[rows] for pair in cv for rows in pair):
        assert_aligned(part)
    for part in train_test_split(whole, y, random_state=seed)[:2]:
        assert_aligned(part)
    scale = InstanceTransformer(StandardScaler())
    pipe = make_pipeline(scale, FeatureUnion([("a", scale), ("b", InstanceTransformer())]))
    tags = whole.instances[:, 0], y + 1
    assert_aligned(pipe.fit_transform(whole), tags)
    columns = ColumnTransformer([("a", InstanceTransformer(MinMaxScaler()), [1])], n_jobs=1)
    assert_aligned(columns.fit_transform(whole), tags)
    assert_aligned(whole[:, [1]], tags)
    first = whole.offsets[:-1]
    data = whole.instance_data.iloc[first]
    singles = Bags.singletons(whole.instances[first], instance_data=data, bag_data=whole.bag_data)
    assert_aligned(singles)


def test_columns_of_bags_are_left_out_and_added():
    bags = tagged([2, 1, 3])
    alone = bags.with_bag_data(None)
    assert alone.bag_data.shape == (3, 0)
    assert_aligned(alone.with_bag_data(bags.bag_data))
    both = bags.with_bag_data(bags.bag_data.assign(more=np.zeros(3)))
    assert list(both.bag_data) == ["age", "site", "dose", "more"]
    ages = pd.DataFrame({"age": pd.array([50, None, 70], dtype="Int64")})
    pd.testing.assert_frame_equal(bags.with_bag_data(ages).bag_data, ages)


@pytest.mark.parametrize("key", KEYS)
def test_concatenation_keeps_what_all_parts_have(key):
    def with_labels(values):
        return Bags(np.eye(2), [0, 1, 2], **{key: {"label": values}})

    left = Bags(np.eye(2), [0, 1, 2], **{key: {"label": [1, 2], "other": [1, 2]}})
    right = with_labels([3, 4])
    assert list(getattr(Bags.concatenate([left, right]), key)) == ["label"]
    refuses(
        lambda: Bags.concatenate([right, with_labels(["a", "b"])]),
        f"{key}['label'] cannot be joined: the parts hold number (int64), text (",
    )


@pytest.mark.parametrize("key", KEYS)
def test_they_are_copies_and_shown(key):
    bags = tagged([2, 1])
    columns = getattr(bags, key)
    columns["more"] = 0.0
    columns.iloc[0, 0] = 99
    assert_aligned(bags)
    assert f"{key}={list(getattr(bags, key))}" in repr(bags)
    alone = bags._changed(**{key: None})
    assert bags.nbytes > alone.nbytes
    assert np.shares_memory(alone.instances, bags.instances)


FRAME = pd.DataFrame({"bag": ["a", "b", "b"], "x": [1.0, 2.0, 3.0], "age": [5, 6, 7]})
BLOCKS = [np.eye(2), np.ones((1, 2))]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bags.from_frame(FRAME, "bag", bag_data=["age"]),
         "Bag 'b' has two entries of bag_data['age'], 6 and 7: a bag has one."),
        (lambda: Bags.from_frame(FRAME, "bag", bag_data=["sex"]),
         "The table has no column 'sex': its columns are ['bag', 'x', 'age']."),
        (lambda: Bags.from_frame(FRAME, "bag", bag_data="age"),
         "bag_data must be a list of names of columns, such as ['age', 'stain'], or a dict that"),
        (lambda: Bags.from_frame(FRAME, "bag", instance_data={"coords": ["z"]}),
         "The table has no column 'z': its columns are ['bag', 'x', 'age']."),
        (lambda: Bags.from_list(BLOCKS, instance_data={"a": [[1, 2]]}),
         "instance_data['a'] has 1 blocks for 2 bags: give one block per bag."),
        (lambda: Bags.from_list(BLOCKS, instance_data={"a": [[1, 2], [3, 4]]}),
         "instance_data['a'] of bag 1 has shape (2,) for 1 instances: give one entry per"),
    ],
)  # fmt: skip
def test_what_does_not_fit(make, message):
    refuses(make, message, (TypeError, ValueError))
