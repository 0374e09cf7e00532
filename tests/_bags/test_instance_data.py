"""Instance data: what is refused, and that it stays aligned with the instances everywhere."""

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
from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.preprocessing import InstanceTransformer
from tests._bags.kinds import assert_same, refuses

hypothesis.settings.register_profile("short", max_examples=60, deadline=None, derandomize=True)
hypothesis.settings.load_profile("short")


def tagged(sizes, *, graph=False, as_sparse=False):
    """Bags in which every array tells the number of the instance, so that any shift shows."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    n = int(offsets[-1])
    tags = np.arange(1.0, n + 1)
    matrix = np.column_stack([tags, -tags])
    return Bags(
        sparse.csr_array(matrix) if as_sparse else matrix,
        offsets,
        instance_graph=sparse.diags_array(tags, format="csr") if graph else None,
        instance_data={
            "coords": np.column_stack([tags, 2 * tags, 3 * tags]).astype(np.float32),
            "name": [f"i{int(tag)}" for tag in tags],
            "label": tags.astype(np.int8),
        },
    )


def assert_aligned(bags, tags=None):
    if tags is None:
        matrix = bags.instances
        tags = (matrix.toarray() if sparse.issparse(matrix) else matrix)[:, 0]
    coords, name, label = (bags.instance_data[key] for key in ("coords", "name", "label"))
    np.testing.assert_array_equal(coords, np.column_stack([tags, 2 * tags, 3 * tags]))
    assert name.tolist() == [f"i{int(tag)}" for tag in tags]
    np.testing.assert_array_equal(label, tags.astype(np.int8))
    assert coords.dtype == np.float32
    assert label.dtype == np.int8
    if bags.instance_graph is not None:
        np.testing.assert_array_equal(bags.instance_graph.diagonal(), tags)
    for values in bags.instance_data.values():
        assert not values.flags.writeable


SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=8)


@st.composite
def selections(draw):
    """Bags, and one to three keys of any kind, each for what the ones before it leave."""
    sizes = draw(SIZES)
    bags = tagged(sizes, graph=draw(st.booleans()), as_sparse=draw(st.booleans()))
    keys, n = [], len(sizes)
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["slice", "mask", "integers", "list", "ellipsis"]))
        if kind == "slice":
            key = draw(st.slices(n))
        elif kind == "mask":
            key = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
        elif kind == "ellipsis":
            key = (slice(None), Ellipsis)
        else:
            some = st.lists(st.integers(-n, n - 1), max_size=6) if n else st.just([])
            key = draw(some)
            key = np.array(key, dtype=int) if kind == "integers" else key
        keys.append(key)
        n = len(
            np.arange(n)[
                key[0]
                if isinstance(key, tuple)
                else np.asarray(key, dtype=int)
                if isinstance(key, list)
                else key
            ]
        )
    return bags, keys


@hypothesis.given(selections())
def test_selections_keep_it_aligned(drawn):
    bags, keys = drawn
    expected = np.arange(len(bags))
    for key in keys:
        bags = bags[key]
        plain = key[0] if isinstance(key, tuple) else key
        expected = expected[np.asarray(plain, dtype=int) if isinstance(plain, list) else plain]
        assert len(bags) == len(expected)
        assert_aligned(bags)


@hypothesis.given(st.lists(SIZES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_concatenation_keeps_it_aligned(groups, random):
    whole = tagged([size for sizes in groups for size in sizes])
    ends = np.cumsum([len(sizes) for sizes in groups])
    starts = ends - [len(sizes) for sizes in groups]
    parts = [whole[a:b] for a, b in zip(starts, ends, strict=True)]
    random.shuffle(parts)
    assert_aligned(Bags.concatenate(parts))


@hypothesis.given(SIZES, st.randoms(use_true_random=False))
def test_rows_in_any_order_keep_it_aligned(sizes, random):
    whole = tagged(sizes)
    rows = list(range(whole.n_instances))
    random.shuffle(rows)
    bags = Bags.from_ids(
        whole.instances[rows],
        whole.bag_index[rows].tolist(),
        instance_data={name: data[rows] for name, data in whole.instance_data.items()},
    )
    assert_aligned(bags)
    assert sorted(bags.sizes) == sorted(sizes)


@hypothesis.given(SIZES)
def test_lists_pickles_and_copies_keep_it_aligned(sizes):
    whole = tagged(sizes)
    blocks = {
        name: np.split(data, whole.offsets[1:-1]) for name, data in whole.instance_data.items()
    }
    assert_aligned(Bags.from_list(list(whole), instance_data=blocks))
    for again in (pickle.loads(pickle.dumps(whole)), copy.deepcopy(whole)):
        assert_same(again, whole)
        assert_aligned(again)
    assert_aligned(Bags.singletons(whole.instances, instance_data=whole.instance_data))


@hypothesis.given(st.lists(st.integers(1, 4), min_size=4, max_size=10), st.integers(0, 99))
def test_splitters_and_pipelines_keep_it_aligned(sizes, seed):
    whole = tagged(sizes)
    y = np.arange(len(whole))
    cv = [*KFold(2, shuffle=True, random_state=seed).split(whole)]
    cv += [*ShuffleSplit(1, test_size=0.5, random_state=seed).split(whole)]
    for train, test in cv:
        assert_aligned(whole[train])
        assert_aligned(whole[test])
    for part in train_test_split(whole, y, random_state=seed)[:2]:
        assert_aligned(part)
    scale = InstanceTransformer(StandardScaler())
    pipe = make_pipeline(scale, FeatureUnion([("a", scale), ("b", InstanceTransformer())]))
    tags = whole.instances[:, 0]
    assert_aligned(pipe.fit_transform(whole), tags)
    columns = ColumnTransformer([("a", InstanceTransformer(MinMaxScaler()), [1])], n_jobs=1)
    assert_aligned(columns.fit_transform(whole), tags)
    assert_aligned(whole[:, [1]], tags)


def test_frames_give_columns_to_it():
    rows = {
        "slide": ["b", "a", "b"], "label": [1, 0, 1], "f": [1.0, 2.0, 3.0], "x": [10, 20, 30],
        "y": [11, 21, 31], "patch": ["p1", "p2", "p3"],
    }  # fmt: skip
    for frame in (pd.DataFrame(rows), pl.DataFrame(rows)):
        bags, y = Bags.from_frame(
            frame, "slide", label="label", instance_data={"coords": ["x", "y"], "name": "patch"}
        )
        assert bags.instances.tolist() == [[1.0], [3.0], [2.0]]
        assert bags.feature_names.tolist() == ["f"]
        assert y.tolist() == [1, 0]
        assert bags.instance_data["coords"].tolist() == [[10, 11], [30, 31], [20, 21]]
        assert bags.instance_data["name"].tolist() == ["p1", "p3", "p2"]
    refuses(
        lambda: Bags.from_frame(pd.DataFrame(rows), "slide", instance_data={"coords": ["z"]}),
        "instance_data['coords'] names the column 'z', which does not exist.",
    )


def test_concatenation_keeps_what_all_parts_have():
    left = tagged([2, 1])
    right = Bags(left.instances, left.offsets, instance_data={"label": np.arange(3)})
    assert list(Bags.concatenate([left, right]).instance_data) == ["label"]
    texts = Bags(left.instances, left.offsets, instance_data={"label": ["a", "b", "c"]})
    refuses(
        lambda: Bags.concatenate([right, texts]),
        "instance_data['label'] cannot be joined: the parts hold <U1 (n), int64 (n).",
    )


@pytest.mark.parametrize(
    ("data", "kind", "sentence"),
    [
        ([1, 2, 3], TypeError, "instance_data is list: pass a dict of arrays with one entry per "
         "instance, such as {'coords': array}."),
        ({"": [1, 2, 3]}, TypeError,
         "instance_data has the key '': name every array by a string."),
        ({3: [1, 2, 3]}, TypeError, "instance_data has the key 3: name every array by a string."),
        ({"a": [1, 2]}, ValueError, "instance_data['a'] has shape (2,) but there are 3 instances: "
         "give one entry per instance."),
        ({"a": 7}, ValueError, "instance_data['a'] has shape () but there are 3 instances: give "
         "one entry per instance."),
        ({"a": [None, 1, 2]}, TypeError,
         "instance_data['a'] holds Python objects: pass numbers or strings."),
        ({"a": sparse.eye_array(3)}, TypeError,
         "instance_data['a'] is sparse: pass a dense array."),
    ],
)  # fmt: skip
def test_what_is_refused(data, kind, sentence):
    refuses(lambda: Bags(np.eye(3), [0, 3], instance_data=data), sentence, kind)


def test_blocks_must_fit_the_bags():
    blocks = [np.eye(2), np.ones((1, 2))]
    refuses(
        lambda: Bags.from_list(blocks, instance_data={"a": [[1, 2]]}),
        "instance_data['a'] has 1 blocks for 2 bags: give one block per bag.",
    )
    refuses(
        lambda: Bags.from_list(blocks, instance_data={"a": [[1, 2], [3, 4]]}),
        "instance_data['a'] has shape (2,) at bag 1, which has 1 instances: give one entry per "
        "instance.",
    )


def test_it_is_read_only_and_shown():
    bags = tagged([2, 1])
    with pytest.raises(TypeError, match="does not support item assignment"):
        bags.instance_data["more"] = np.zeros(3)
    assert "instance_data=['coords', 'name', 'label']" in repr(bags)
    plain = Bags(bags.instances, bags.offsets)
    assert dict(plain.instance_data) == {}
    assert bags.nbytes - plain.nbytes == sum(data.nbytes for data in bags.instance_data.values())


def test_npz_holds_it_and_the_other_formats_refuse(tmp_path):
    bags = tagged([2, 1, 3])
    save_bags(tmp_path / "x.npz", bags, [0, 1, 0])
    again = load_bags(tmp_path / "x.npz").data
    assert_same(again, bags)
    assert_aligned(again)
    for suffix in ("csv", "tsv", "parquet", "data", "arff", "mat", "svmlight"):
        with pytest.raises(BagFileError, match=r"cannot hold .*instance_data\['coords'\]"):
            save_bags(tmp_path / f"x.{suffix}", bags, [0, 1, 0])
        assert not (tmp_path / f"x.{suffix}").exists()
