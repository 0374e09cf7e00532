"""Constructors of the container."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from milearn import Bags
from milearn._bags.kinds import id_text
from tests._bags.kinds import (
    KINDS,
    assert_same,
    blocks_of,
    dense,
    graphs_of_bags,
    matrix_of_bags,
    refuses,
)

# -- from_list -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "convert",
    [
        lambda blocks: blocks,
        tuple,
        iter,
        lambda blocks: [block.tolist() for block in blocks],
        lambda blocks: [list(block) for block in blocks],
        lambda blocks: [np.asfortranarray(block) for block in blocks],
    ],
)
def test_from_list(convert):
    blocks = [np.array(block) for block in blocks_of(KINDS["dense"]())]
    assert_same(Bags.from_list(convert(blocks)), KINDS["dense"]())


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_from_list_of_sparse_blocks(kind):
    blocks = [kind(block) for block in blocks_of(KINDS["sparse"]())]
    assert_same(Bags.from_list(blocks), KINDS["sparse"]())
    mixed = [blocks[0].toarray(), *blocks[1:]]
    assert_same(Bags.from_list(mixed), KINDS["sparse"]())


def test_from_list_keeps_float32():
    blocks = blocks_of(KINDS["float32"]())
    assert Bags.from_list(blocks).dtype == np.float32
    assert Bags.from_list([blocks[0], blocks[1].astype(float)]).dtype == np.float64


def test_from_list_takes_graphs_and_names():
    bags = KINDS["graphs"]()
    again = Bags.from_list(blocks_of(bags), **graphs_of_bags())
    assert_same(again, bags)
    assert_same(Bags.from_list(bags, feature_names=["a", "b", "c"]), KINDS["named"]())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_from_list_of_frames(library):
    module = pytest.importorskip(library)
    frames = [
        module.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}),
        module.DataFrame({"a": [5.0], "b": [6.0]}),
    ]
    bags = Bags.from_list(frames)
    assert bags.feature_names.tolist() == ["a", "b"]
    np.testing.assert_array_equal(bags.instances, [[1, 3], [2, 4], [5, 6]])
    assert Bags.from_list(frames, feature_names=["u", "v"]).feature_names.tolist() == ["u", "v"]
    other = module.DataFrame({"b": [5.0], "a": [6.0]})
    refuses(
        lambda: Bags.from_list([frames[0], other]),
        "Bag 1 has its columns in another order ('b' for 'a') than bag 0: give all bags the same "
        "columns in the same order.",
    )


# -- from_ids ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        ["b", "a", "b", "c", "a", "b", "c", "c"],
        [2, 1, 2, 3, 1, 2, 3, 3],
        [("x", "1"), ("x", "2"), ("x", "1"), (), ("x", "2"), ("x", "1"), (), ()],
        [b"b", "a", " b", "c", "a ", b"b", "c", "c"],
        [7, "a", "7", "c", "a", 7.0, "c", "c"],
        ["e\u0301", "a", "\u00e9", "c", "a", "\u00e9", "c", "c"],
        np.array(["b", "a", "b", "c", "a", "b", "c", "c"]),
        pd.Series([1.5, 0.5, 1.5, 9.0, 0.5, 1.5, 9.0, 9.0], index=range(10, 18)),
    ],
    ids=lambda ids: type(ids).__name__ + " " + str(next(iter(ids))),
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_from_ids(ids, kind):
    matrix = matrix_of_bags()
    bags, names = Bags.from_ids(kind(matrix), ids, return_ids=True)
    listed = [*map(id_text, ids)] if any(isinstance(i, str | bytes | float) for i in ids) else ids
    expected = list(dict.fromkeys(listed))
    assert names.shape == (3,)
    assert names.tolist() == expected
    for block, name in zip(blocks_of(bags), expected, strict=True):
        rows = [row for row, key in enumerate(listed) if key == name]
        np.testing.assert_array_equal(block, matrix[rows])
    assert_same(Bags.from_ids(kind(matrix), ids), bags)


def test_names_are_those_of_the_frame_or_the_given_ones():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    for make in (
        Bags.singletons,
        lambda X, **names: Bags.from_ids(X, [0, 0], **names),
        lambda X, **names: Bags(np.eye(2), [0, 2]).with_instances(X, **names),
    ):
        assert make(frame).feature_names.tolist() == ["a", "b"]
        assert make(frame, feature_names=["u", "v"]).feature_names.tolist() == ["u", "v"]


# -- from_frame ----------------------------------------------------------------------------------


@pytest.fixture(params=["pandas", "polars"])
def frames(request):
    return pytest.importorskip(request.param)


def _table():
    return {
        "molecule": ["m2", "m1", "m2", "m1"],
        "x": [1.0, 2.0, 3.0, 4.0],
        "label": ["musk", "non-musk", "musk", "non-musk"],
        "n": [5, 6, 7, 8],
    }


def test_from_frame(frames):
    bags, y, ids = Bags.from_frame(
        frames.DataFrame(_table()), bag="molecule", label="label", return_ids=True
    )
    np.testing.assert_array_equal(bags.instances, [[1, 5], [3, 7], [2, 6], [4, 8]])
    assert bags.sizes.tolist() == [2, 2]
    assert bags.feature_names.tolist() == ["x", "n"]
    assert list(y) == ["musk", "non-musk"]
    assert ids.tolist() == ["m2", "m1"]


def test_from_frame_keeps_missing_values_and_labels(frames):
    table = {"bag": [1, 2, 1], "x": [1.0, None, 3.0], "label": [1.0, None, 1.0], "n": [1, None, 3]}
    bags, y = Bags.from_frame(frames.DataFrame(table), bag="bag", label="label")
    np.testing.assert_array_equal(bags.instances, [[1, 1], [3, 3], [np.nan, np.nan]])
    np.testing.assert_array_equal(y, [1.0, np.nan])
    single = frames.DataFrame({"bag": [1, 1], "x": np.array([1, 2], dtype=np.float32)})
    assert Bags.from_frame(single, bag="bag").dtype == np.float32


def test_from_frame_of_nullable_types_and_without_names():
    df = pd.DataFrame({"bag": [1, 1], "x": pd.array([1, None], dtype="Int64")})
    np.testing.assert_array_equal(Bags.from_frame(df, bag="bag").instances, [[1], [np.nan]])
    bags = Bags.from_frame(pd.DataFrame([[0, 1.0, 2.0], [0, 3.0, 4.0]]), bag=0)
    assert bags.feature_names is None
    np.testing.assert_array_equal(bags.instances, [[1, 2], [3, 4]])


def test_what_is_refused(frames):
    df = frames.DataFrame(_table())
    unknown = "The frame has no column 'z': its columns are ['molecule', 'x', 'label', 'n']."
    bags = KINDS["dense"]()
    two = pd.DataFrame([[1, 2.0, 3.0]], columns=["bag", "x", "x"])
    for frame, options, message in (
        (df, {"bag": "z"}, unknown),
        (df, {"bag": "molecule", "label": "z"}, unknown),
        (df, {"bag": "molecule", "features": ["z"]}, unknown),
        (df, {"bag": "molecule", "features": []}, "The frame has no feature columns: bags need"),
        (df, {"bag": "label", "label": "n", "features": ["x"]},
         "Bag 'musk' has two labels, 5 and 7: a bag has one."),
        (two, {"bag": "bag"}, "The frame has 2 columns 'x': its columns are ['bag', 'x', 'x']."),
        (np.eye(2), {"bag": 0}, "A data frame is needed, not ndarray: use Bags.from_ids."),
    ):  # fmt: skip
        refuses(
            lambda X=frame, o=options: Bags.from_frame(X, **o), message, (TypeError, ValueError)
        )
    for call, message in (
        (lambda: Bags.from_ids(np.eye(8), [0, 1]), "bag_ids has shape (2,) for 8 instances: give"),
        (lambda: Bags.from_ids(np.eye(2), [1.0, None]), "bag_ids is missing for row 1: give every"),
        (lambda: Bags.concatenate([]), "No bags were given: pass at least one Bags to concat"),
        (lambda: Bags.concatenate([bags, bags[:, [0]]]),
         "all the input array dimensions except for the concatenation axis must match"),
        (lambda: Bags.concatenate([bags, np.eye(3)]),
         "Part 1 is ndarray: only Bags can be concatenated."),
        (lambda: bags.with_instances(np.eye(3)),
         "instances has shape (3, 3) for 8 instances: give one entry per instance."),
    ):  # fmt: skip
        refuses(call, message, (TypeError, ValueError))
    with pytest.raises(ValueError, match=r"^Column 'label' holds .* encode"):
        Bags.from_frame(df, bag="molecule")
    missing = frames.DataFrame({"bag": ["a", None], "x": [1.0, 2.0]})
    refuses(
        lambda: Bags.from_frame(missing, bag="bag"),
        "bag_ids (column 'bag') is missing",
    )


# -- singletons, concatenate, with_instances -----------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_singletons(kind):
    bags = Bags.singletons(kind(matrix_of_bags()))
    assert bags.shape == (8, 3)
    assert bags.sizes.tolist() == [1] * 8
    np.testing.assert_array_equal(dense(bags.instances), matrix_of_bags())
    assert bags.feature_names is None


def test_concatenate_puts_graphs_on_the_diagonal():
    bags, plain = KINDS["graphs"](), KINDS["dense"]()
    joined = Bags.concatenate(part for part in (bags[:0], plain, bags))
    graph = joined.bag_graph.toarray()
    np.testing.assert_array_equal(graph[4:, 4:], bags.bag_graph.toarray())
    assert graph[:4].sum() == graph[:, :4].sum() == 0
    links = joined.instance_graph.toarray()
    np.testing.assert_array_equal(links[8:, 8:], bags.instance_graph.toarray())
    assert links[:8].sum() == links[:, :8].sum() == 0
    assert Bags.concatenate([plain, plain]).bag_graph is None
    assert sparse.issparse(Bags.concatenate([plain, KINDS["sparse"]()]).instances)
    assert Bags.concatenate([KINDS["named"](), plain]).feature_names is None


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, list, pd.DataFrame])
def test_with_instances(kind):
    bags = KINDS["graphs"]()
    changed = bags.with_instances(kind(matrix_of_bags()[:, :2]))
    assert changed.shape == (4, 2)
    np.testing.assert_array_equal(dense(changed.instances), matrix_of_bags()[:, :2])
    np.testing.assert_array_equal(changed.offsets, bags.offsets)
    np.testing.assert_array_equal(changed.bag_graph.toarray(), bags.bag_graph.toarray())
    np.testing.assert_array_equal(changed.instance_graph.toarray(), bags.instance_graph.toarray())
    assert changed.feature_names is None
