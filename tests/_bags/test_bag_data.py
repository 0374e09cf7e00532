"""Columns of bags: what is refused, and that they stay aligned with the bags everywhere."""

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
from sklearn.model_selection import train_test_split
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import Bags
from milearn.preprocessing import InstanceTransformer
from tests._bags.kinds import assert_same, refuses

hypothesis.settings.register_profile("columns", max_examples=40, deadline=None, derandomize=True)
SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=7)


def tagged(sizes, *, as_sparse=False, graph=False):
    """Bags in which every column tells the first value of the bag, so that any shift shows."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    matrix = np.column_stack([bag + 1.0, -1.0 - np.arange(offsets[-1])])
    tags = np.arange(1, len(sizes) + 1)
    return Bags(
        sparse.csr_array(matrix) if as_sparse else matrix,
        offsets,
        bag_graph=sparse.diags_array(1.0 * tags, format="csr") if graph else None,
        instance_data={"row": np.arange(offsets[-1])},
        bag_data=columns_of(tags),
    )


def columns_of(tags):
    return {
        "age": np.asarray(tags, dtype=np.int16),
        "site": np.array([f"s{int(tag)}" for tag in tags], dtype=str),
        "dose": np.where(np.asarray(tags) % 2 == 0, np.nan, tags),
    }


def assert_aligned(bags, tags=None):
    if tags is None:
        matrix = bags.instances
        matrix = matrix.toarray() if sparse.issparse(matrix) else matrix
        tags = matrix[bags.offsets[:-1], 0]
    assert list(bags.bag_data) == ["age", "site", "dose"]
    for name, expected in columns_of(tags).items():
        np.testing.assert_array_equal(bags.bag_data[name], expected)
        assert not bags.bag_data[name].flags.writeable
    assert bags.bag_data["age"].dtype == np.int16


@hypothesis.given(st.data())
@hypothesis.settings(hypothesis.settings.get_profile("columns"))
def test_operations_keep_them_aligned(tmp_path_factory, data):
    kind = data.draw(st.sampled_from(["dense", "sparse", "graph", "mapped"]))
    bags = tagged(data.draw(SIZES), as_sparse=kind == "sparse", graph=kind == "graph")
    if kind == "mapped":
        path = tmp_path_factory.mktemp("map") / "x.npy"
        np.save(path, bags.instances)
        bags = Bags(np.load(path, mmap_mode="r"), bags.offsets, bag_data=bags.bag_data)
    for step in data.draw(st.lists(st.integers(0, 6), max_size=4)):
        n = len(bags)
        if step == 0:
            bags = bags[data.draw(st.slices(n))]
        elif step == 1:
            bags = bags[data.draw(st.lists(st.integers(-n, n - 1), max_size=6)) if n else []]
        elif step == 2:
            bags = bags[np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)]
        elif step == 3:
            bags = Bags.concatenate([bags, bags[::-1]])
        elif step == 4 and n:
            # Groups of equal bags, which agree in every column.
            bags = bags.merge(bags.bag_data["site"], source=None)
        elif step == 5:
            bags = pickle.loads(pickle.dumps(copy.deepcopy(bags)))
        elif step == 6:
            bags = bags.with_instances(bags.instances).with_instance_graph(None)
        assert_aligned(bags)


def test_transformers_splitters_and_lists_keep_them_aligned():
    bags = tagged([2, 1, 3, 1, 2, 2])
    tags = bags.instances[bags.offsets[:-1], 0]
    scale = InstanceTransformer(StandardScaler())
    pipe = make_pipeline(scale, FeatureUnion([("a", scale), ("b", InstanceTransformer())]))
    assert_aligned(pipe.fit_transform(bags), tags)
    assert_aligned(bags[:, [0]])
    assert_aligned(bags[[0, 0, 3]])
    for part in train_test_split(bags, tags, random_state=0)[:2]:
        assert_aligned(part)
    assert_aligned(Bags.from_list(list(bags), bag_data=pd.DataFrame(dict(bags.bag_data))))
    alone = bags.with_bag_data(None)
    assert dict(alone.bag_data) == {}
    assert_aligned(alone.with_bag_data(bags.bag_data))
    singles = Bags.singletons(tags[:, None], bag_data=bags.bag_data)
    assert_aligned(singles)
    both = bags.with_bag_data({**bags.bag_data, "more": np.zeros(6)})
    assert list(both.bag_data) == ["age", "site", "dose", "more"]


@hypothesis.given(SIZES, st.randoms(use_true_random=False))
@hypothesis.settings(hypothesis.settings.get_profile("columns"), max_examples=15)
def test_frames_and_arrow_keep_them_aligned(sizes, random):
    bags = tagged(sizes)
    plain = Bags(bags.instances, bags.offsets, bag_data=bags.bag_data)
    table = plain.to_frame()
    rows = list(range(len(table)))
    random.shuffle(rows)
    for frame in (table.iloc[rows], pl.DataFrame(table)[rows]):
        found = Bags.from_frame(frame, "bag", bag_data=["age", "site", "dose"])
        assert_aligned(found)
        assert found.shape[1] == 2
    found = Bags.from_ids(
        plain.instances[rows],
        plain.bag_index[rows],
        bag_data={name: values[plain.bag_index[rows]] for name, values in plain.bag_data.items()},
    )
    assert_aligned(found)
    nested = bags.to_arrow(ids=np.arange(len(bags)))
    assert_aligned(Bags.from_arrow(nested, "bag"))
    picked = random.sample(range(len(bags)), k=min(2, len(bags)))
    some = Bags.from_arrow(nested.take(picked), "bag", bag_data=["age", "site", "dose"],
                           features=["instances"], instance_data={"row": "row"})  # fmt: skip
    assert_same(some, bags[picked])


def test_frames_of_lists():
    frame = pd.DataFrame(
        {"name": ["a", "b"], "width": [[1.0, 2.0], [3.0]], "age": [50, 60], "sex": ["f", "m"]}
    )
    bags, ids = Bags.from_frame(frame, "name", bag_data={"years": "age", "sex": "sex"},
                                return_ids=True)  # fmt: skip
    assert ids.tolist() == ["a", "b"]
    assert bags.feature_names.tolist() == ["width"]
    assert bags.bag_data["years"].tolist() == [50, 60]
    assert bags.bag_data["sex"].tolist() == ["f", "m"]
    blocks = pd.DataFrame({"block": [np.eye(2), np.ones((1, 2))], "age": [50, 60]})
    assert Bags.from_frame(blocks, bag_data=["age"]).bag_data["age"].tolist() == [50, 60]


def test_missing_numbers_are_nan_and_missing_texts_are_named():
    bags = tagged([1, 1, 1])
    ages = pd.DataFrame({"age": pd.Series([50, None, 70], dtype="Int64")})
    np.testing.assert_array_equal(bags.with_bag_data(ages).bag_data["age"], [50, np.nan, 70])
    refuses(
        lambda: bags.with_bag_data({"stain": ["HE", None, "HE"]}),
        "bag_data['stain'] has no text for bag 1: write a text, such as 'unknown'.",
    )


def test_concatenation_keeps_what_all_parts_have():
    left = tagged([2, 1])
    right = left.with_bag_data({"age": [1, 2]})
    assert list(Bags.concatenate([left, right]).bag_data) == ["age"]
    texts = left.with_bag_data({"age": ["a", "b"]})
    refuses(
        lambda: Bags.concatenate([right, texts]),
        "bag_data['age'] cannot be joined: the parts hold <U1 (n), int64 (n).",
    )


@pytest.mark.parametrize(
    ("data", "kind", "sentence"),
    [
        ([1, 2], TypeError, "bag_data is list: pass a data frame, or a dict of arrays with one "
         "entry per bag, such as {'age': array}."),
        ({"": [1, 2]}, TypeError, "bag_data has the key '': name every column by a string."),
        ({"a": [1, 2, 3]}, ValueError, "bag_data['a'] has shape (3,) but there are 2 bags: give "
         "one entry per bag."),
        ({"a": [object(), 2]}, TypeError,
         "bag_data['a'] holds Python objects: pass numbers or strings."),
        ({"a": sparse.eye_array(2)}, TypeError, "bag_data['a'] is sparse: pass a dense array."),
    ],
)  # fmt: skip
def test_what_is_refused(data, kind, sentence):
    refuses(lambda: Bags(np.eye(3), [0, 1, 3], bag_data=data), sentence, kind)


def test_a_column_that_changes_within_a_bag_names_the_bag():
    frame = pd.DataFrame({"bag": ["a", "b", "b"], "x": [1.0, 2.0, 3.0], "age": [5, 6, 7]})
    refuses(
        lambda: Bags.from_frame(frame, "bag", bag_data=["age"]),
        "Bag 'b' has two entries of bag_data['age'], 6 and 7: a bag has one.",
    )
    refuses(
        lambda: Bags.from_frame(frame, "bag", bag_data=["sex"]),
        "bag_data['sex'] names the column 'sex', which does not exist.",
    )
    refuses(
        lambda: Bags.from_frame(frame, "bag", bag_data="age"),
        "bag_data must be a list of names of columns, such as ['age', 'stain'], or a dict that "
        "gives them other names.",
        TypeError,
    )


def test_they_are_read_only_and_shown():
    bags = tagged([2, 1])
    with pytest.raises(TypeError, match="does not support item assignment"):
        bags.bag_data["more"] = np.zeros(2)
    assert "bag_data=['age', 'site', 'dose']" in repr(bags)
    assert "bag_data[&#x27;age&#x27;]" in bags._repr_html_()
    alone = bags.with_bag_data(None)
    assert bags.nbytes - alone.nbytes == sum(data.nbytes for data in bags.bag_data.values())
    assert np.shares_memory(alone.instances, bags.instances)
