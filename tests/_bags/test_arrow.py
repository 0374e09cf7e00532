"""Bags from and to Arrow, nested frames and awkward arrays, each made by its own library."""

from __future__ import annotations

import datetime
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

from milearn import Bags
from tests._bags.kinds import assert_same, data_of_bags, matrix_of_bags, offsets_of_bags, refuses

pa = pytest.importorskip("pyarrow", reason="the container of the tests")
pq = pytest.importorskip("pyarrow.parquet", reason="nested Parquet")

BLOCKS = [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]]), np.array([[7.0, 8.0]] * 3)]
EXPECTED = Bags.from_list(BLOCKS)
NAMED = Bags.from_list(BLOCKS, feature_names=["u", "v"])
SIZES = [len(block) for block in BLOCKS]


def fixed(dtype=None, *, large=False):
    kind = pa.list_(dtype or pa.float64(), 2)
    return pa.array(
        [block.tolist() for block in BLOCKS], (pa.large_list if large else pa.list_)(kind)
    )


def per_feature(column):
    return [block[:, column].tolist() for block in BLOCKS]


# -- layouts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (fixed, EXPECTED),
        (lambda: fixed(large=True), EXPECTED),
        (lambda: pa.array([block.tolist() for block in BLOCKS]), EXPECTED),
        (lambda: pa.chunked_array([fixed()[:1], fixed()[1:]]), EXPECTED),
        (lambda: pa.RecordBatch.from_arrays([fixed()], ["x"]), EXPECTED),
        (lambda: pa.table({"u": per_feature(0), "v": per_feature(1)}), NAMED),
        (lambda: pl.DataFrame({"u": per_feature(0), "v": per_feature(1)}), NAMED),
        (lambda: pl.Series(BLOCKS, dtype=pl.List(pl.Array(pl.Float64, 2))), EXPECTED),
        (lambda: pd.DataFrame({"u": per_feature(0), "v": per_feature(1)}), NAMED),
        (lambda: pd.Series([block.tolist() for block in BLOCKS], index=[3, 5, 8]), EXPECTED),
    ],
)
def test_each_layout(data, expected):
    assert_same(Bags.from_arrow(data()), expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("large", [False, True])
def test_memory_is_shared(dtype, large):
    flat = pa.array(np.arange(12, dtype=dtype))
    make = pa.LargeListArray if large else pa.ListArray
    offsets = pa.array([0, 2, 3, 6], pa.int64() if large else pa.int32())
    array = make.from_arrays(offsets, pa.FixedSizeListArray.from_arrays(flat, 2))
    view = flat.to_numpy(zero_copy_only=True)
    for data in (array, pa.table({"x": array}), array[1:]):
        bags = Bags.from_arrow(data)
        assert bags.dtype == dtype
        assert np.shares_memory(bags.instances, view)
    assert Bags.from_arrow(array[1:]).instances.tolist() == view.reshape(-1, 2)[2:].tolist()
    # Also where the lists are of equal length by chance.
    equal = make.from_arrays(
        offsets, pa.ListArray.from_arrays(pa.array(np.arange(7, dtype=np.int32) * 2), flat)
    )
    assert np.shares_memory(Bags.from_arrow(equal).instances, view)


def test_other_numbers():
    for kind in (pa.int8(), pa.uint32(), pa.bool_()):
        one, zero = (True, False) if kind == pa.bool_() else (1, 0)
        rows = [[[one, zero]], [[zero, one], [one, one]]]
        array = pa.array(rows, pa.list_(pa.list_(kind, 2)))
        bags = Bags.from_arrow(array)
        assert bags.dtype == np.float64
        assert bags.instances.tolist() == [[1, 0], [0, 1], [1, 1]]
    missing = Bags.from_arrow(pa.array([[[1.0, None]], [[None, 2.0]]]))
    np.testing.assert_array_equal(missing.instances, [[1, np.nan], [np.nan, 2]])
    whole = Bags.from_arrow(pa.table({"x": [[1, None], [2]]}))
    np.testing.assert_array_equal(whole.instances, [[1], [np.nan], [2]])


def test_columns_beside_the_features():
    table = pa.table(
        {
            "slide": ["a", "b", "c"],
            "grade": [1, 0, 1],
            "x": fixed(),
            "at": pa.array([[[k, -k]] * size for k, size in enumerate(SIZES)],
                           pa.list_(pa.list_(pa.int32(), 2))),
            "name": [[f"{k}-{i}" for i in range(size)] for k, size in enumerate(SIZES)],
        }
    )  # fmt: skip
    bags, y, ids = Bags.from_arrow(
        table,
        "slide",
        label="grade",
        instance_data={"coords": "at", "name": "name"},
        return_ids=True,
    )
    np.testing.assert_array_equal(bags.instances, EXPECTED.instances)
    assert y.tolist() == [1, 0, 1]
    assert ids.tolist() == ["a", "b", "c"]
    assert bags.instance_data["coords"].tolist() == [[0, 0]] * 2 + [[1, -1]] + [[2, -2]] * 3
    assert bags.instance_data["name"].tolist() == ["0-0", "0-1", "1-0", "2-0", "2-1", "2-2"]
    fields = pa.table({"u": per_feature(0), "v": per_feature(1)})
    bags = Bags.from_arrow(fields, features=["v"], instance_data={"at": ["u"], "u": "u"})
    assert bags.instances[:, 0].tolist() == NAMED.instances[:, 1].tolist()
    assert bags.instance_data["at"].tolist() == NAMED.instances[:, [0]].tolist()
    assert bags.instance_data["u"].tolist() == NAMED.instances[:, 0].tolist()
    np.testing.assert_array_equal(
        Bags.from_arrow(table, features=["x"]).instances, EXPECTED.instances
    )


def test_awkward_arrays():
    ak = pytest.importorskip("awkward", reason="the arrays of particle physics")
    if int(pa.__version__.split(".")[0]) < 17:
        pytest.skip("awkward asks for pyarrow 17")
    array = ak.Array([block.tolist() for block in BLOCKS])
    assert_same(Bags.from_arrow(array), EXPECTED)
    flat = ak.from_numpy(np.concatenate(BLOCKS), regulararray=True)
    assert_same(Bags.from_arrow(ak.unflatten(flat, SIZES)), EXPECTED)
    assert_same(Bags.from_arrow(array[[2, 0]]), EXPECTED[[2, 0]])


# -- frames whose cells are lists ---------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "pandas of arrays", "pandas of Arrow", "polars"])
def test_frames_of_lists(library):
    columns = {"id": ["p", "q", "r"], "y": [0, 1, 0], "u": per_feature(0), "v": per_feature(1)}
    if library == "polars":
        frame = pl.DataFrame(columns)
    elif library == "pandas of arrays":
        frame = pd.DataFrame({**columns, "u": [*map(np.array, columns["u"])]}, index=[7, 8, 9])
    elif library == "pandas of Arrow":
        frame = pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)
    else:
        frame = pd.DataFrame(columns)
    bags, y, ids = Bags.from_arrow(frame, "id", label="y", return_ids=True)
    assert_same(bags, NAMED)
    assert y.tolist() == [0, 1, 0]
    assert ids.tolist() == ["p", "q", "r"]
    assert_same(Bags.from_arrow(frame, features=["v", "u"]), NAMED[:, ["v", "u"]])
    refuses(
        lambda: Bags.from_frame(frame, "id", label="y"),
        "Column 'u' holds lists: a frame with one row per bag is read by Bags.from_arrow.",
    )


# -- empty and wrong ---------------------------------------------------------------------------


def test_empty_bags_are_named_or_dropped():
    table = pa.table({"id": ["a", "b", "c", "d"], "y": [1, 0, 1, 0], "x": [[1.0], [], None, [2.0]]})
    refuses(
        lambda: Bags.from_arrow(table, "id", label="y"),
        "2 bag(s) are without an instance: 'b', 'c'. Every bag needs at least one instance;",
    )
    refuses(
        lambda: Bags.from_arrow(pa.array([[], [[1.0]], [], [], [], [], [], []])),
        "7 bag(s) are without an instance: 0, 2, 3, 4, 5, .... Every bag needs at least",
    )
    bags, y, ids = Bags.from_arrow(table, "id", label="y", empty="drop", return_ids=True)
    assert bags.instances.tolist() == [[1.0], [2.0]]
    assert y.tolist() == [1, 0]
    assert ids.tolist() == ["a", "d"]


def test_a_missing_list_with_values_beneath_is_dropped_whole():
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4]), pa.array([1.0, 2.0, 3.0, 4.0]), mask=pa.array([False, True, False])
    )
    assert Bags.from_arrow(lists, empty="drop").instances.tolist() == [[1.0], [4.0]]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Bags.from_arrow(pa.table({"u": [[1.0], [2.0]], "v": [[1.0], [2.0, 3.0]]})),
         "Bag 1 has 1 instances in 'u' but 2 in 'v': all lists of a bag must have one length."),
        (lambda: Bags.from_arrow(pa.array([[[1.0, 2.0], [3.0]]])),
         "Instance 1 of 'instances' has 1 features but the first has 2: every instance must have"),
        (lambda: Bags.from_arrow(pa.array([[[1.0], None]])),
         "The column 'instances' has an instance that is missing (null)."),
        (lambda: Bags.from_arrow(pa.array([["a"], ["b"]])),
         "Column 'instances' holds text, such as 'a': encode it as numbers first, for example"),
        (lambda: Bags.from_arrow(pa.array([[datetime.date(2020, 1, 1)]])),
         "Column 'instances' holds datetime64[D] values: encode it as numbers first"),
        (lambda: Bags.from_arrow(pa.table({"x": [[1.0]], "y": [3]})),
         "The column 'y' holds int64 and no lists: name it as bag or label, or choose the"),
        (lambda: Bags.from_arrow(pa.table({"x": [[1.0]]}), features=["z"]),
         "The table has no column 'z': its columns are ['x']."),
        (lambda: Bags.from_arrow(pa.table({"id": [1, 1], "x": [[1.0], [2.0]]}), "id"),
         "The column 'id' names a bag in two rows: give one row per bag."),
        (lambda: Bags.from_arrow(pa.table({"id": ["a", None], "x": [[1.0], [2.0]]}), "id"),
         "names is missing for bag 1: give every bag a name."),
        (lambda: Bags.from_arrow(pa.table({"x": [[1.0]], "n": [[None]]}),
                                 features=["x"], instance_data={"n": "n"}),
         "The column 'n' has missing values: instance data has none."),
        (lambda: Bags.from_arrow([[1.0]]), "list is not an Arrow table or array: convert it with"),
        (lambda: Bags.from_arrow(pa.array([[1.0]]), empty="keep"),
         "empty='keep' is unknown; choose one of raise, drop."),
    ],
)  # fmt: skip
def test_what_is_refused(make, sentence):
    refuses(make, sentence, (TypeError, ValueError))


def test_without_the_libraries(monkeypatch):
    bags = Bags(matrix_of_bags(), offsets_of_bags())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    for call, name, what in (
        (lambda: Bags.from_arrow([[1.0]]), "pyarrow", "Bags.from_arrow"),
        (bags.to_arrow, "pyarrow", "Bags.to_arrow"),
        (bags.to_frame, "pandas", "Bags.to_frame"),
    ):
        sentence = f"{what} needs {name}: pip install 'milearn[frames]'."
        refuses(call, sentence, ImportError)


# -- there and back ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_there_and_back(tmp_path, dtype):
    for names in (None, ["a", "b", "c"]):
        bags = Bags(
            matrix_of_bags(dtype),
            offsets_of_bags(),
            feature_names=names,
            instance_data=data_of_bags(),
        )
        table = bags.to_arrow(y=["u", "v", "v", "u"], ids=[4, 3, 2, 1])
        values = table.column("instances").chunk(0).values.flatten().to_numpy()
        assert np.shares_memory(values, bags.instances)
        pq.write_table(table, tmp_path / "x.parquet")
        for each in (table, pq.read_table(tmp_path / "x.parquet"), table.slice(0, 4)):
            again, y, ids = Bags.from_arrow(each, "bag", label="label", return_ids=True)
            assert_same(again, bags)
            assert y.tolist() == ["u", "v", "v", "u"]
            assert ids.tolist() == [4, 3, 2, 1]
        part = bags[1:3]
        assert_same(Bags.from_arrow(part.to_arrow()), part)


def test_columns_that_were_added_come_back():
    bags = EXPECTED.with_bag_data({"site": ["x", "y", "x"]})
    table = bags.to_arrow(y=[1, 0, 1])
    table = table.append_column("age", pa.array([5, 6, 7])).append_column(
        "time", pa.array(per_feature(0))
    )
    read, _ = Bags.from_arrow(table, label="label")
    assert {name: values.tolist() for name, values in read.bag_data.items()} == {
        "site": ["x", "y", "x"],
        "age": [5, 6, 7],
    }
    np.testing.assert_array_equal(read.instance_data["time"], bags.instances[:, 0])
    np.testing.assert_array_equal(read.instances, bags.instances)
    assert [*Bags.from_arrow(table, bag_data=["age"]).bag_data] == ["age"]


def test_what_does_not_go_out():
    bags = Bags(matrix_of_bags(), offsets_of_bags())
    wide = np.zeros((8, 2, 2))
    graph = Bags(bags.instances, bags.offsets, bag_graph=np.eye(4))
    for call, sentence in (
        (graph.to_arrow, "Arrow does not hold bag_graph: save the bags by save_bags."),
        (lambda: bags.to_arrow(y=[1]), "y has shape (1,) for 4 bags: give one entry per bag."),
        (lambda: bags.to_frame(y=[1]), "y has shape (1,) for 4 bags: give one entry per bag."),
        (Bags(bags.instances, bags.offsets, instance_data={"label": wide}).to_arrow,
         "Two columns would be named 'label': rename one."),
        (Bags(bags.instances, bags.offsets, instance_data={"w": wide}).to_arrow,
         "Arrow holds instance data of one or two dimensions only."),
        (Bags(bags.instances, bags.offsets, instance_data={"w": wide}).to_frame,
         "Must pass 2-d input. shape=(8, 2, 2)"),
        (Bags(bags.instances, bags.offsets, instance_data={"x1": np.zeros(8)}).to_frame,
         "Two columns would be named 'x1': rename one."),
    ):  # fmt: skip
        refuses(call, sentence)
