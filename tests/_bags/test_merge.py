"""Bags.merge: instances, labels, weights, graphs and data of the bags of a group."""

from __future__ import annotations

import pickle

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from pandas import NA

from milearn import Bags
from milearn._bags.rows_on_disk import is_mapped
from tests._bags.kinds import KINDS, assert_canonical, assert_same, blocks_of, refuses


def drawn(seed, n_bags=12, n_groups=4):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bags = Bags(
        rng.normal(size=(offsets[-1], 3)).astype(np.float32),
        offsets,
        instance_data={"row": np.arange(offsets[-1])},
    )
    return bags, rng.integers(0, n_groups, size=n_bags)


def merged_by_hand(bags, groups):
    """Blocks of the groups in the order in which they appear, and their bags."""
    names = list(dict.fromkeys(groups.tolist()))
    members = [np.flatnonzero(groups == name) for name in names]
    return [np.concatenate([blocks_of(bags)[bag] for bag in part]) for part in members], members


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_bags(kind):
    bags = KINDS[kind]()
    plain = bags.with_bag_data(None)
    groups = np.array(["q", "p", "q", "p"])
    merged, found = plain.merge(groups, return_groups=True)
    assert found.tolist() == ["q", "p"]
    assert_canonical(merged)
    blocks, members = merged_by_hand(bags, groups)
    for mine, block in zip(blocks_of(merged), blocks, strict=True):
        np.testing.assert_array_equal(mine, block)
    assert merged.dtype == bags.dtype
    rows = np.concatenate([np.arange(bags.offsets[b], bags.offsets[b + 1])
                           for part in members for b in part])  # fmt: skip
    np.testing.assert_array_equal(merged.instance_data["bag"], bags.bag_index[rows])
    for name, values in bags.instance_data.items():
        np.testing.assert_array_equal(merged.instance_data[name], values[rows])
    if bags.instance_graph is not None:
        expected = bags.instance_graph.toarray()[np.ix_(rows, rows)]
        np.testing.assert_array_equal(merged.instance_graph.toarray(), expected)
        links = bags.bag_graph.toarray()
        crossed = [links[np.ix_(*pair)].sum() for pair in (members, members[::-1])]
        np.testing.assert_array_equal(
            merged.bag_graph.toarray(), [[0, crossed[0]], [crossed[1], 0]]
        )


@hypothesis.given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
@hypothesis.settings(max_examples=15, deadline=None, derandomize=True)
def test_memory_maps_merge_as_arrays_do(tmp_path_factory, seed, n_groups, adjacent):
    plain, groups = drawn(seed, n_groups=n_groups)
    groups = np.sort(groups) if adjacent else groups
    folder = tmp_path_factory.mktemp("map")
    np.save(folder / "x.npy", plain.instances)
    whole = Bags(
        np.load(folder / "x.npy", mmap_mode="r"), plain.offsets, instance_data=plain.instance_data
    )
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(plain))[:9]
    for lazy, bags, keys in ((whole, plain, groups), (whole[some], plain[some], groups[some])):
        merged, expected = lazy.merge(keys), bags.merge(keys)
        picked = rng.permutation(len(merged))[:3]
        pairs = np.arange(len(merged)) // 2
        cases = [
            (merged, expected),
            (merged[picked], expected[picked]),
            (merged.merge(pairs, source="pair"), expected.merge(pairs, source="pair")),
            (merged[::-1].merge(pairs, source="pair"), expected[::-1].merge(pairs, source="pair")),
        ]
        for part, known in cases:
            again = pickle.loads(pickle.dumps(part))
            assert is_mapped(again.instance_rows.matrix)
            assert_same(again, known)
            for start in range(0, part.n_instances, 4):
                np.testing.assert_array_equal(
                    part.instance_rows[start : start + 6], known.instances[start : start + 6]
                )
        # Nothing was read by then.
        for part, _ in cases:
            assert part._instances is None or is_mapped(part._instances)
        for part, known in cases:
            assert_same(part, known)


def test_the_numbers_of_the_bags_follow_their_instances():
    bags, groups = drawn(1)
    found = bags.merge(groups, source="slide").instance_data
    np.testing.assert_array_equal(found["slide"], bags.bag_index[found["row"]])
    assert list(bags.merge(groups, source=None).instance_data) == ["row"]


def test_columns_of_bags():
    bags, groups = drawn(2)
    bags = bags.with_bag_data({"site": groups * 10, "age": np.where(groups == 1, np.nan, groups)})
    merged, names = bags.merge(groups, return_groups=True)
    assert list(merged.bag_data) == ["site", "age"]
    np.testing.assert_array_equal(merged.bag_data["site"], names * 10)
    np.testing.assert_array_equal(merged.bag_data["age"], np.where(names == 1, np.nan, names))
    refuses(
        lambda: bags.merge(np.zeros(12, dtype=int)),
        f"Bags 0 and {np.flatnonzero(groups != groups[0])[0]} of group 0 have two entries of "
        f"bag_data['site'], {10 * groups[0]} and {10 * groups[groups != groups[0]][0]}: leave the "
        "column out by with_bag_data.",
    )


# -- labels and weights ----------------------------------------------------------------------------


def labels_of(groups, y, **settings):
    return Bags.singletons(np.zeros((len(y), 1))).merge(groups, y, **settings)[1]


@pytest.mark.parametrize(
    ("y", "settings", "expected"),
    [
        ([1, 0, 1, 0], {}, [1, 0]),
        (["t", "n", "t", "n"], {}, ["t", "n"]),
        ([np.nan, np.nan, 1.0, np.nan], {}, [1.0, np.nan]),
        ([None, "n", "t", None], {}, ["t", "n"]),
        ([np.nan, "n", "t", np.nan], {}, ["t", "n"]),
        ([NA, "n", "t", NA], {}, ["t", "n"]),
        ([True, False, NA, False], {}, [True, False]),
        ([[1, 0], [0, 1], [1, 0], [0, 1]], {}, [[1, 0], [0, 1]]),
        ([1, 0, 0, 0], {"how": "any"}, [1, 0]),
        ([-1, -1, 1, -1], {"how": "any"}, [1, -1]),
        ([False, False, True, False], {"how": "any"}, [True, False]),
        ([2, 3, 5, 1], {"how": "max"}, [5, 3]),
        ([2.0, np.nan, np.nan, np.nan], {"how": "max"}, [2.0, np.nan]),
        ([2, 3, 5, 1], {"how": "mean"}, [3.5, 2.0]),
        ([2.0, np.nan, np.nan, np.nan], {"how": "mean"}, [2.0, np.nan]),
        ([2, None, 4, 1], {"how": "mean"}, [3.0, 1.0]),
    ],
)
def test_labels(y, settings, expected):
    found = labels_of(["a", "b", "a", "b"], y, **settings)
    np.testing.assert_array_equal(found, np.array(expected, dtype=found.dtype))


def test_structured_targets_are_compared():
    kind = np.dtype([("event", bool), ("time", float)])
    y = np.array([(True, 2.0), (False, 3.0), (True, 2.0)], dtype=kind)
    found = labels_of([5, 6, 5], y)
    assert found.dtype == kind
    assert found.tolist() == [(True, 2.0), (False, 3.0)]
    y[2] = (False, 2.0)
    with pytest.raises(
        ValueError, match=r"group 5 have two labels, \(True, 2\.0\) and \(False, 2\.0\)"
    ):
        labels_of([5, 6, 5], y)


def test_groups_with_different_labels_are_named():
    refuses(
        lambda: labels_of(["a", "b", "a", "b", "c", "a"], [1, 0, 0, 0, 1, 0]),
        "Bags 0 and 2 of group 'a' have two labels, 1 and 0: correct the labels, or choose",
    )


def test_weights_are_added():
    bags = Bags.singletons(np.zeros((3, 1)))
    merged, y, weights, names = bags.merge(
        ["a", "b", "a"], [1, 0, 1], sample_weight=[1, 2, 4], return_groups=True
    )
    assert (len(merged), y.tolist(), weights.tolist(), names.tolist()) == (
        2, [1, 0], [5.0, 2.0], ["a", "b"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        (([1, 2],), {}, "groups has shape (2,) for 3 bags: give one entry per bag."),
        ((["a", None, "b"],), {}, "groups is missing for bag 1: give every"),
        (([1, 1, 2], [0, 1]), {}, "y has shape (2,) for 3 bags: give one entry per bag."),
        (([1, 1, 2],), {"source": "row"}, "instance_data['row'] exists already: pass another"),
        (([1, 1, 2], [0, 1, 2]), {"how": "any"},
         "how='any' needs two classes in y: use how='max' for ordered classes."),
        (([1, 1, 2], np.array(["a", "b", None], dtype=object)), {"how": "any"},
         "y of how='any' holds text ('a', 'b'), which is not a number"),
    ],
)  # fmt: skip
def test_what_is_refused(arguments, settings, sentence):
    bags = Bags(np.zeros((3, 1)), range(4), instance_data={"row": np.arange(3)})
    refuses(lambda: bags.merge(*arguments, **settings), sentence)
