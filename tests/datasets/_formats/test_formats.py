"""Round trips through save and load, files of older versions, and tables, which pandas reads."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array, random_array

from milearn import Bags
from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.survival import survival_outcomes
from tests._bags.kinds import KINDS, assert_same

FORMATS = ("npz", "npy-folder")
OFFSETS = [0, 2, 3, 6]
VALUES = np.random.default_rng(0).standard_normal((6, 3)) * 10.0 ** np.array([-9, 0, 7])
VALUES[0] = [0.1, -0.0, np.inf]
DENSE = Bags(VALUES, OFFSETS)
NAMED = Bags(VALUES, OFFSETS, feature_names=["instance", "Label", "bag_data:x"])
SPARSE = Bags(random_array((6, 40), density=0.1, random_state=1, format="csr"), OFFSETS)
TEXT = Bags.from_list(
    [["Sätze.", "好。", "The end."], ["One sentence"], ["First.", "Another\none.\ud800"]]
)
FIELDS = {
    "bag_names": ["m 1", "m-2", "ç"],
    "instance_names": list("uvwxyz"),
    "instance_labels": np.array([0, 1, 0, -1, 0, 1]),
    "split": np.array([0, 0, 1], dtype=np.int8),
    "groups": ["here", "there", "there"],
    "sample_weight": np.array([1.0, 2.0, 0.5]),
}
DATES = pd.to_datetime(["2024-03-01 00:00", None, "1999-12-31 23:59"])
BAG_FRAME = pd.DataFrame(
    {
        "a ": pd.Categorical([3, 1, None], categories=[3, 2, 1], ordered=True),
        "a": DATES.tz_localize("Europe/Berlin"),
        "NA": DATES - DATES[0],
        "Label": pd.array([True, None, False], dtype="boolean"),
        "bag_data:x": ["007", None, "a\rb"],
        "count": pd.array([1, None, 2**60], dtype="Int64"),
    }
)
INSTANCE_FRAME = pd.DataFrame(
    {"instance": np.arange(6, dtype=np.uint8), "site": pd.Categorical(list("xyxyxx"))},
    index=[f"AAAC-{at}" for at in range(6)],
)
FRAMED = Bags(
    VALUES, OFFSETS, bag_data=BAG_FRAME, instance_data=INSTANCE_FRAME, names=["b", "c", "d"]
)
OUTCOMES = survival_outcomes([True, False, True], [1.5, 2.0, 0.25])

# Bags, labels and fields.
ROUND_TRIPS = {
    "integers": (NAMED, np.array([1, 0, 1]), {}),
    "sparse": (SPARSE, np.array([-1, 1, -1]), {}),
    "real labels": (NAMED, np.array([0.1, np.inf, -1 / 3]), {}),
    "class names": (DENSE, ["non-musk", "musk", "musk"], {"bag_names": FIELDS["bag_names"]}),
    "texts of numbers": (DENSE, ["1", "02", "1\0"], {"bag_names": ["a\0", "b", "NA"]}),
    "true": (DENSE, np.array([True, False, True]), {"bag_names": ["", "?", "007"]}),
    "gaps": (
        NAMED,
        np.array([1.0, np.nan, 0.0]),
        {"instance_labels": [1.0, None, 0.0, 1.0, 1.0, 1.0]},
    ),
    "gaps among names": (NAMED, ["a", np.nan, "b"], {}),
    "numbered": (NAMED, np.array([1, 0, -1]), {"bag_names": [7, 3, 12]}),
    "no labels": (NAMED, None, {"instance_labels": np.arange(6) / 4}),
    "float32": (Bags(VALUES.astype(np.float32), OFFSETS), np.array([0, 1, 1], dtype="u1"), {}),
    "text": (TEXT, np.array([1, 0, 1]), {}),
    "many labels": (NAMED, np.array([[0, 1], [1, 1], [0, 0]]), {}),
    "outcomes": (SPARSE, OUTCOMES, {}),
    "frames": (FRAMED, None, {}),
    "fields": (NAMED, np.array([0, 1, 1], dtype=np.int16), FIELDS),
} | {kind: (make(), None, {}) for kind, make in KINDS.items()}


def cells(values):
    return [None if pd.isna(value) else value for value in np.asarray(values, dtype=object)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_round_trip(tmp_path, case, form):
    bags, y, fields = ROUND_TRIPS[case]
    path = tmp_path / "x.bags"
    save_bags(path, bags, y, format=form, descr="All of it.", **fields)
    assert [each.name for each in tmp_path.iterdir()] == ["x.bags"]
    again = load_bags(path)
    assert (again.filename, again.DESCR) == (str(path), "All of it.")
    assert_same(again.data, bags)
    assert fields or again.data.bag_data.equals(bags.bag_data)
    pd.testing.assert_frame_equal(again.data.instance_data, bags.instance_data)
    assert (again.target is None) == (y is None)
    if case == "outcomes" or isinstance(y, np.ndarray):
        assert_array_equal(again.target, y)
        assert again.target.dtype == y.dtype
    elif y is not None:
        assert cells(again.target) == cells(y)
        assert again.classes.tolist() == sorted({*cells(y)} - {None})
    for name, values in fields.items():
        if isinstance(values, list):
            assert cells(again[name]) == cells(values)
            assert [*map(type, cells(again[name]))] == [*map(type, values)]
        else:
            assert_array_equal(again[name], values)
            assert again[name].dtype == values.dtype
    if fields.get("bag_names", bags.names) is None:
        assert again.data.names is None
    else:
        assert again.data.names.tolist() == list(fields.get("bag_names", bags.names))
    # A Bunch brings all of this along.
    save_bags(tmp_path / "y.npz", again)
    third = load_bags(tmp_path / "y.npz")
    assert {*third} == {*again}
    assert_same(third.data, bags)
    if form == "npy-folder" and case != "text":
        assert_same(load_bags(path, mmap=True).data, bags)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("names", [[3, "x4"], [3, 4], ["03", "é"]])
def test_names_are_read_as_the_bags_had_them(tmp_path, names, form):
    bags = Bags(VALUES, [0, 2, 6], names=names)
    save_bags(tmp_path / "x", bags, groups=names, format=form)
    again = load_bags(tmp_path / "x")
    for found in (again.data.names, again.bag_names, again.groups):
        assert found.tolist() == bags.names.tolist()
        assert [*map(type, found.tolist())] == [*map(type, bags.names.tolist())]


def test_what_would_need_a_pickle(tmp_path):
    save_bags(tmp_path / "x.npz", DENSE)
    tuples = Bags.from_ids(VALUES[:2], [("a", 1), ("b", 2)])
    with pytest.raises(BagFileError, match=r"'bag_names' holds Python objects \(tuple\)"):
        save_bags(tmp_path / "y.npz", tuples)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_classes_in_their_order(tmp_path):
    y = pd.Categorical(["low", "high", "low"], categories=["low", "mid", "high"], ordered=True)
    save_bags(tmp_path / "x.npz", DENSE, y)
    assert load_bags(tmp_path / "x.npz").classes.tolist() == ["low", "mid", "high"]
    again = load_bags(tmp_path / "x.npz", classes=["high", "low"])
    assert again.classes.tolist() == ["high", "low"]
    assert again.target.tolist() == ["low", "high", "low"]
    with pytest.raises(BagFileError, match="label of bag 0 is 'low', and not one of the classes"):
        load_bags(tmp_path / "x.npz", classes=["high", "mid"])
    save_bags(tmp_path / "y.npz", DENSE, [1, None, 2], classes=[2, 1])
    assert load_bags(tmp_path / "y.npz").classes.tolist() == [2, 1]


@pytest.mark.parametrize("options", [{"dtype": "float32"}, {"as_sparse": True}])
def test_texts_have_no_type_and_no_zeros(tmp_path, options):
    save_bags(tmp_path / "x.npz", TEXT)
    with pytest.raises(ValueError, match="are text: leave dtype and as_sparse out"):
        load_bags(tmp_path / "x.npz", **options)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("mmap", [False, True])
def test_dtype_and_sparsity_on_request(tmp_path, dtype, mmap):
    small, names = np.arange(18.0).reshape(6, 3) / 3, ["a", "b c", "d"]
    save_bags(tmp_path / "x", NAMED.with_instances(small, feature_names=names), format="npy-folder")
    for as_sparse in (False, True) if dtype != np.float16 and not mmap else (None,):
        found = load_bags(tmp_path / "x", dtype=dtype, as_sparse=as_sparse, mmap=mmap).data
        expected = csr_array(small.astype(dtype)) if as_sparse else small.astype(dtype)
        # Nothing is read before it is used.
        assert (found._instances is None) == (mmap and dtype != np.float64)
        assert_same(found, NAMED.with_instances(expected, feature_names=names))


@pytest.mark.parametrize(
    ("bags", "options"),
    [
        (DENSE, {"as_sparse": True}),
        (SPARSE, {"as_sparse": False}),
        (SPARSE, {"dtype": "float32"}),
    ],
)
def test_a_map_is_not_read_for_another_layout(tmp_path, bags, options):
    save_bags(tmp_path / "x", bags, format="npy-folder")
    with pytest.raises(ValueError, match="leave mmap out, or leave dtype and as_sparse out"):
        load_bags(tmp_path / "x", mmap=True, **options)


def test_a_failing_disk_leaves_the_old_file(tmp_path, monkeypatch):
    save_bags(tmp_path / "x.npz", NAMED, [1, 0, 1])
    before = (tmp_path / "x.npz").read_bytes()

    def full(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        save_bags(tmp_path / "x.npz", NAMED, [0, 0, 1])
    assert (tmp_path / "x.npz").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


# -- older versions ------------------------------------------------------------------------------

OLD = {
    "instances": VALUES,
    "bag_offsets": np.array(OFFSETS),
    "y": np.array([0.0, np.nan, 1.0]),
    "class_names": np.array(["no", "yes"]),
    "group": np.array(["p", "q", "q"]),
    "bag_names": np.array(["a", "b", "c"]),
    "feature_names": np.array(["f", "g", "h"]),
}
OLD_DATA = {
    "instance_data": np.array(["coords", "kind"]),
    "instance_data_0": np.arange(12).reshape(6, 2),
    "instance_data_1": np.array(list("uvwxyz")),
    "bag_data": np.array(["age"]),
    "bag_data_0": np.array([1.0, np.nan, 3.0]),
}


@pytest.mark.parametrize("form", FORMATS)
def test_files_of_version_0_4(tmp_path, form):
    path = tmp_path / f"x.{form}"
    arrays = OLD | OLD_DATA
    if form == "npz":
        np.savez(path, **arrays)
    else:
        path.mkdir()
        for key, values in arrays.items():
            np.save(path / f"{key}.npy", values)
        files = ", ".join(f'"{key}": {{"file": "{key}.npy"}}' for key in arrays)
        (path / "bags.json").write_text(f'{{"version": 2, "arrays": {{{files}}}}}')
    old = load_bags(path)
    assert old.target[[0, 2]].tolist() == ["no", "yes"]
    assert np.isnan(old.target[1])
    assert old.classes.tolist() == ["no", "yes"]
    assert old.groups.tolist() == ["p", "q", "q"]
    assert old.data.names.tolist() == ["a", "b", "c"]
    assert old.data.feature_names.tolist() == ["f", "g", "h"]
    given = {
        "coords": OLD_DATA["instance_data_0"],
        "kind": OLD_DATA["instance_data_1"],
    }
    same = Bags(VALUES, OFFSETS, instance_data=given, bag_data={"age": OLD_DATA["bag_data_0"]})
    assert_same(old.data, same.with_instances(VALUES, feature_names=["f", "g", "h"]))


def test_labels_of_one_kind_and_texts_of_version_0_4(tmp_path):
    text = {"text": np.frombuffer("ä.b".encode(), dtype="u1"), "text_offsets": np.array([0, 3, 4])}
    groups = {"group": np.array([1, 0]), "group_names": np.array(["p", "q"])}
    np.savez(tmp_path / "x.npz", **text, **groups, bag_offsets=np.arange(3), y=np.array([1, 0]))
    old = load_bags(tmp_path / "x.npz")
    assert old.data.instances.tolist() == [["ä."], ["b"]]
    assert (old.target.tolist(), old.groups.tolist()) == ([1, 0], ["q", "p"])


# -- tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "tsv", "csv.gz", "parquet"])
def test_a_path_and_its_frame_give_the_same_bags(tmp_path, form):
    frame = pd.DataFrame(
        {
            "bag": ["02", "1", "02", "1"],
            "label": ["no", "yes", "no", "yes"],
            "age": [1.5, np.nan, 1.5, np.nan],
            "x": [0.1, 1e-9, -1 / 3, 1e300],
            "seen": [True, False, True, True],
        }
    )
    path = tmp_path / f"x.{form}"
    if form == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if form == "tsv" else ",")
    read = load_bags(path, bag_data=["age"])
    bags, y = Bags.from_frame(frame, "bag", label="label", bag_data=["age"])
    assert_same(read.data, bags)
    assert read.data.names.tolist() == read.bag_names.tolist() == ["02", "1"]
    assert read.target.tolist() == y.tolist()
    assert read.classes.tolist() == ["no", "yes"]


def test_options_go_to_pandas(tmp_path):
    text = 'Größe;mol;"len;gth";w\nja;b;0,5;1.000\nnein;a;1e3;2\nja;b;-2;3\n'
    (tmp_path / "x.csv").write_bytes(text.encode("utf-16"))
    options = {"sep": ";", "decimal": ",", "thousands": ".", "encoding": "utf-16"}
    X, y = load_bags(tmp_path / "x.csv", bag="mol", label="Größe", return_X_y=True, **options)
    assert X.names.tolist() == ["b", "a"]
    assert y.tolist() == ["ja", "nein"]
    assert X.feature_names.tolist() == ["len;gth", "w"]
    assert_array_equal(X.instances, [[0.5, 1000], [-2, 3], [1e3, 2]])


def test_known_names_in_another_case(tmp_path):
    (tmp_path / "x.csv").write_text("Slide_ID,LABEL,f\n07,1,2\n7,0,3\n")
    found = load_bags(tmp_path / "x.csv", classes=[0, 1])
    assert found.bag_names.tolist() == ["07", "7"]
    assert found.target.tolist() == [1, 0]
    (tmp_path / "x.csv").write_text("Bag,BAG,f\n07,1,2\n7,0,3\n")
    with pytest.raises(BagFileError, match="'Bag', 'BAG' may be 'bag'; choose one with bag="):
        load_bags(tmp_path / "x.csv")
    assert load_bags(tmp_path / "x.csv", bag="BAG").data.feature_names.tolist() == ["Bag", "f"]


def test_a_missing_library_and_its_extra_are_named(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"x\.parquet needs pyarrow: pip install"):
        load_bags(tmp_path / "x.parquet")
