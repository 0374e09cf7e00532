"""Round trips through save and load, and what every format reads."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import io
from scipy.sparse import csr_array, issparse, random_array

from milearn import Bags
from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.survival import survival_outcomes
from tests._bags.kinds import KINDS, assert_same

EXACT = ("npz", "npy-folder")
TABLES = ("csv", "tsv", "parquet")
OFFSETS = [0, 2, 3, 6]
VALUES = np.random.default_rng(0).standard_normal((6, 3)) * 10.0 ** np.array([-9, 0, 7])
VALUES[0] = [0.1, -0.0, 1 / 3]
DENSE = Bags(VALUES, OFFSETS)
NAMED = Bags(VALUES, OFFSETS, feature_names=["a", "b c", "d"])
SPARSE = Bags(random_array((6, 40), density=0.1, random_state=1, format="csr"), OFFSETS)
WORDS = [f"word {column}" for column in range(40)]
TEXT = Bags.from_list(
    [["Sätze.", "好。", "The end."], ["One sentence"], ["First.", "Another\none."]]
)
COLUMNS = {"age": [5, 6, 7], "site": ["x", "y", "x"], "dose": [0.5, np.nan, -1 / 3]}
FIELDS = {
    "bag_names": ["m 1", "m-2", "ç"],
    "instance_names": list("uvwxyz"),
    "instance_labels": np.array([0, 1, 0, -1, 0, 1]),
}
MORE_FIELDS = {
    **FIELDS,
    "split": np.array([0, 0, 1], dtype=np.int8),
    "groups": ["here", "there", "there"],
    "sample_weight": np.array([1.0, 2.0, 0.5]),
}
OUTCOMES = survival_outcomes([True, False, True], [1.5, 2.0, 0.25])

# Bags, labels, fields, and the formats that hold them.
ROUND_TRIPS = {
    "integers": (NAMED, np.array([1, 0, 1]), {}, (*EXACT, *TABLES, "arff")),
    "no names": (DENSE, np.array([1, 0, -1]), {}, EXACT),
    "sparse": (SPARSE, np.array([-1, 1, -1]), {}, EXACT),
    "words": (SPARSE.with_instances(SPARSE.instances, feature_names=WORDS), np.array([-1, 1, -1]),
              {}, (*EXACT, "arff")),
    "real labels": (NAMED, np.array([0.1, 2.0, -1 / 3]), {}, (*EXACT, *TABLES, "arff")),
    "class names": (NAMED, ["non-musk", "musk", "musk"], {"bag_names": FIELDS["bag_names"]},
                    (*EXACT, *TABLES, "arff")),
    "gaps": (NAMED, np.array([1.0, np.nan, 0.0]), {}, (*EXACT, *TABLES, "arff")),
    "numbered": (NAMED, np.array([1, 0, -1]), {"bag_names": ["7", "03", "12"]},
                 (*EXACT, *TABLES)),
    "real instances": (NAMED, np.array([1, 0, 1]), {"instance_labels": np.arange(6) / 4},
                       (*EXACT, *TABLES)),
    "no labels": (NAMED, None, {}, (*EXACT, *TABLES)),
    "weights": (NAMED, np.array([1, 0, 1]), {"sample_weight": [1.0, 2.5, 3.0]},
                (*EXACT, "arff")),
    "instances": (NAMED, np.array([1, 0, 1]), FIELDS, (*EXACT, *TABLES)),
    "float32": (Bags(VALUES.astype(np.float32), OFFSETS, feature_names=list("abc")),
                np.array([0, 1, 1]), {}, (*EXACT, "parquet")),
    "columns": (NAMED.with_bag_data(COLUMNS), np.array([1, 0, 1]), {}, (*EXACT, *TABLES)),
    "codes": (NAMED.with_bag_data({"code": ["01", "02", "03"]}), None, {}, (*EXACT, "parquet")),
    "text": (TEXT, np.array([1, 0, 1]), {}, EXACT),
    "many labels": (NAMED, np.array([[0, 1], [1, 1], [0, 0]]), {}, EXACT),
    "outcomes": (SPARSE, OUTCOMES, {}, EXACT),
    "fields": (NAMED, np.array([0, 1, 1], dtype=np.int16), MORE_FIELDS, EXACT),
} | {kind: (make(), None, {}, EXACT) for kind, make in KINDS.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "form"), [(case, form) for case in ROUND_TRIPS for form in ROUND_TRIPS[case][-1]]
)
def test_round_trip(tmp_path, case, form):
    bags, y, fields, _ = ROUND_TRIPS[case]
    path = tmp_path / "x.bags"
    save_bags(path, bags, y, format=form, **fields)
    assert [each.name for each in tmp_path.iterdir()] == ["x.bags"]
    again = load_bags(path, format=form, as_sparse=bags.is_sparse)
    assert again.filename == str(path)
    # Formats without names of bags or features number them.
    assert_same(again.data, bags)
    labels = again.target
    if isinstance(y, list):
        assert again.classes.tolist() == sorted(set(y))
    assert (labels is None) == (y is None)
    if y is not None:
        assert_array_equal(labels, y)
        assert labels.dtype == (np.asarray(y).dtype if form in EXACT else labels.dtype)
    for name, values in fields.items():
        assert_array_equal(again[name], values)
        assert again[name].dtype.kind == np.asarray(values).dtype.kind
    if form in EXACT:
        # A Bunch brings all of this along.
        save_bags(tmp_path / "y.npz", again)
        third = load_bags(tmp_path / "y.npz")
        assert {*third} == {*again}
        assert_same(third.data, bags)
    if form == "npy-folder" and case != "text":
        assert_same(load_bags(path, mmap=True).data, bags)


@pytest.mark.parametrize("form", ["npz", "parquet", "arff"])
def test_format_by_content(tmp_path, form):
    save_bags(tmp_path / "download", DENSE, [1, 0, 1], format=form)
    assert_array_equal(load_bags(tmp_path / "download").data.offsets, OFFSETS)


@pytest.mark.parametrize("options", [{"dtype": "float32"}, {"as_sparse": True}])
def test_texts_have_no_type_and_no_zeros(tmp_path, options):
    save_bags(tmp_path / "x.npz", TEXT)
    with pytest.raises(ValueError, match="are text: leave dtype and as_sparse out"):
        load_bags(tmp_path / "x.npz", **options)


def test_a_parquet_table_with_one_column_of_text(tmp_path):
    X = Bags.from_list([["A b.", "C"], ["D"]])
    save_bags(tmp_path / "y.parquet", X, [1, 0])
    assert load_bags(tmp_path / "y.parquet").data.instances.tolist() == X.instances.tolist()
    rows = [("d2", "x"), ("d1", "y"), ("d2", "z")]
    pd.DataFrame(rows, columns=["bag", "sentence"]).to_parquet(tmp_path / "x.parquet")
    read = load_bags(tmp_path / "x.parquet")
    assert [bag[:, 0].tolist() for bag in read.data] == [["x", "z"], ["y"]]
    assert read.data.feature_names.tolist() == ["sentence"]


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


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "arff"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_saved_can_be_read(tmp_path, form, value):
    path, values, y = tmp_path / f"x.{form}", VALUES.copy(), np.array([1.5, 0.0, value])
    values[4, 1] = value
    bags = Bags(values, OFFSETS)
    if np.isnan(value):
        save_bags(path, bags, [1, 0, 1])
        assert_array_equal(load_bags(path, missing="nan").data.instances, values)
        save_bags(path, DENSE, y)
        assert_array_equal(load_bags(path).target, y)
    else:
        with pytest.raises(BagFileError, match=r"hold infinite values; .* save as \.npz"):
            save_bags(path, bags, [1, 0, 1])
        with pytest.raises(BagFileError, match=r"hold infinite labels; .* save as \.npz"):
            save_bags(path, DENSE, y)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    "features",
    [
        {"x": [0.1, 1e-9, -1 / 3, 1e300], "seen": [True, False, True, True]},
        {"seen": [True, False, True, True]},
        {"count": pd.array([1, 2, 3, None], dtype="Int64")},
        {"half": np.arange(1, 5, dtype=np.float32), "whole": np.arange(4, dtype=np.float32)},
    ],
)
def test_a_path_and_a_frame_give_the_same_bags(tmp_path, form, features):
    labels = {"bag": ["02", "1", "02", "1"], "label": ["no", "yes", "no", "yes"]}
    frame = pd.DataFrame(labels | features)
    path = tmp_path / f"x.{form}"
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    read = load_bags(path, missing="nan")
    bags, y, ids = Bags.from_frame(frame, "bag", label="label", return_ids=True)
    if form == "csv":  # which has no types
        bags = bags.with_instances(bags.instances.astype(float), feature_names=bags.feature_names)
    assert_same(read.data, bags)
    assert read.bag_names.tolist() == ids.tolist()
    assert read.target.tolist() == y.tolist()


def test_csv_rows_in_any_order_and_own_column_names(tmp_path):
    (tmp_path / "x.csv").write_text(
        'y;mol;"len;gth";atom;w\n1;b;0.5;b1;1\n0;a;1e3;a1;2\n\n1;b;-2;b2;3\n', encoding="utf-8"
    )
    bunch = load_bags(tmp_path / "x.csv", bag="mol", label="y", instance="atom", delimiter=";")
    assert bunch.bag_names.tolist() == ["b", "a"]
    assert bunch.target.tolist() == [1, 0]
    assert bunch.instance_names.tolist() == ["b1", "b2", "a1"]
    assert bunch.feature_names.tolist() == ["len;gth", "w"]
    assert_array_equal(bunch.data.instances, [[0.5, 1], [-2, 3], [1e3, 2]])
    assert_array_equal(bunch.data.offsets, [0, 2, 3])


def test_columns_of_bags_are_chosen_by_name(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("bag,f,age,sex\nb,1,5,f\na,2,,m\nb,3,5,f\n")
    bags = load_bags(path, bag_data=["age", "sex"]).data
    assert bags.shape == (2, 1)
    assert_array_equal(bags.bag_data["age"], [5, np.nan])
    assert bags.bag_data["sex"].tolist() == ["f", "m"]
    path.write_text("bag,f,bag_data:age\nb,1,5\na,2,6\nb,3,7\n")
    with pytest.raises(ValueError, match="Bag 'b' has two entries of bag_data"):
        load_bags(path)


def test_missing_features_become_nan_on_request(tmp_path):
    for name, text in {
        "x.csv": "bag,label,f,g\na,1,?,2\na,1,,5\n",
        "x.arff": "@relation x\n@attribute b {a}\n@attribute r relational\n@attribute f numeric\n"
        "@attribute g numeric\n@end r\n@attribute c {0,1}\n@data\na,'?,2\\n ? , 5',1\n",
    }.items():
        (tmp_path / name).write_text(text)
        X = load_bags(tmp_path / name, missing="nan").data
        assert_array_equal(X.instances, [[np.nan, 2], [np.nan, 5]])


@pytest.mark.parametrize(("form", "library"), [("parquet", "pyarrow"), ("csv", "pandas")])
def test_a_missing_library_and_its_extra_are_named(tmp_path, monkeypatch, form, library):
    path = tmp_path / f"x.{form}"
    save_bags(path, NAMED, [1, 0, 1])
    monkeypatch.setitem(sys.modules, library, None)
    for call in (lambda: load_bags(path), lambda: save_bags(path, NAMED, [1, 0, 1])):
        with pytest.raises(ImportError, match=rf"x\.{form} needs {library}: .*milearn\[frames\]"):
            call()
    assert list(tmp_path.iterdir()) == [path]


def test_arff_quoting_nominal_features_and_weights(tmp_path):
    (tmp_path / "x.arff").write_text(
        "% a comment\n@RELATION 'two words'\n\n"
        "@Attribute 'bag id' {'it\\'s', \"b 2\"}\n"
        "@attribute bag RELATIONAL\n"
        "  @attribute x\tInteger\n"
        "  @attribute 'k i' {red, 'dark blue'}\n"
        "  @attribute n {0,1,2}\n"
        "@end bag\n"
        "@attribute class {neg,pos}\n@DATA\n"
        "'it\\'s','1.5,red,2\\n-2,\\'dark blue\\',0',pos,{3}\n"
        '% another\n"b 2","0,red,1",neg\n'
    )
    bunch = load_bags(tmp_path / "x.arff")
    assert bunch.bag_names.tolist() == ["it's", "b 2"]
    assert bunch.feature_names.tolist() == ["x", "k i=red", "k i=dark blue", "n"]
    assert_array_equal(bunch.data.instances, [[1.5, 1, 0, 2], [-2, 0, 1, 0], [0, 1, 0, 1]])
    assert bunch.target.tolist() == ["pos", "neg"]
    assert bunch.classes.tolist() == ["neg", "pos"]
    assert bunch.sample_weight.tolist() == [3.0, 1.0]


def test_arff_sparse_rows_mean_the_first_nominal_value(tmp_path):
    (tmp_path / "x.arff").write_text(
        "@relation x\n@attribute r relational\n@attribute a numeric\n@attribute k {u,v}\n"
        "@attribute m {5,6}\n@attribute z numeric\n@end r\n@attribute class numeric\n@data\n"
        "'{0 1.5, 1 v}\\n{}',0.25\n'{2 6,3 -1}',1\n"
    )
    bunch = load_bags(tmp_path / "x.arff")
    assert issparse(bunch.data.instances)
    assert bunch.feature_names.tolist() == ["a", "k=u", "k=v", "m", "z"]
    assert_array_equal(
        bunch.data.instances.toarray(), [[1.5, 0, 1, 5, 0], [0, 1, 0, 5, 0], [0, 1, 0, 6, -1]]
    )
    assert bunch.target.tolist() == [0.25, 1]
    assert "bag_names" not in bunch


def test_arff_writer_quotes_and_weighs(tmp_path):
    X = Bags.from_list([[[1.0, 0.5]], [[2.0, -3.0], [0.0, 1e-9]]], feature_names=["a%", "b'c"])
    save_bags(
        tmp_path / "x y.arff", X, ["it's", None], bag_names=["b\\1", "ü, {2}"],
        classes=["it's", "a, b"], sample_weight=[1.0, 2.5],
    )  # fmt: skip
    text = (tmp_path / "x y.arff").read_text(encoding="utf-8")
    assert text == (
        "@relation 'x y'\n\n@attribute bag_id {'b\\\\1','ü, {2}'}\n@attribute bag relational\n"
        "  @attribute 'a%' numeric\n  @attribute 'b\\'c' numeric\n@end bag\n"
        "@attribute class {'it\\'s','a, b'}\n\n@data\n"
        "'b\\\\1',\"1,0.5\",'it\\'s',{1}\n'ü, {2}',\"2,-3\\n0,1e-09\",?,{2.5}\n"
    )
    again = load_bags(tmp_path / "x y.arff")
    assert_array_equal(again.data.instances, X.instances)
    assert again.bag_names.tolist() == ["b\\1", "ü, {2}"]
    assert [again.target[0], np.isnan(again.target[1])] == ["it's", True]
    assert again.classes.tolist() == ["it's", "a, b"]


@pytest.mark.parametrize("form", ["mat", "svmlight"])
def test_formats_that_are_only_read(tmp_path, form):
    with pytest.raises(BagFileError, match=r"the format '\w+' is only read; save as \.npz"):
        save_bags(tmp_path / f"x.{form}", DENSE, [1, 0, 1])


def test_mat_rows_in_any_order(tmp_path):
    io.savemat(
        tmp_path / "x.mat",
        {
            "features": csr_array(np.eye(4)).tocsc(),
            "bag_ids": np.array([[7, 3, 7, 3]], dtype=np.uint8),
            "labels": csr_array(np.array([[1.0, -1, 1, -1]])).tocsc(),
        },
    )
    bunch = load_bags(tmp_path / "x.mat")
    assert bunch.bag_names.tolist() == ["7", "3"]
    assert_array_equal(bunch.data.instances.toarray(), np.eye(4)[[0, 2, 1, 3]])
    assert bunch.target.tolist() == [1, -1]


def test_svmlight_both_spellings(tmp_path):
    (tmp_path / "x.svm").write_text(
        "# Andrews\n4:0:+1 1:0.5 3:2\n5:0:1 2:1e-2\n6:1:-1\n", encoding="utf-8"
    )
    (tmp_path / "y.svmlight").write_text(
        "1 qid:0 0:0.5 2:2 # four\n-1 qid:1\n1 qid:0 1:1e-2\n", encoding="utf-8"
    )
    for name in ("x.svm", "y.svmlight"):
        bunch = load_bags(tmp_path / name)
        assert_array_equal(bunch.data.instances.toarray(), [[0.5, 0, 2], [0, 0.01, 0], [0, 0, 0]])
        assert_array_equal(bunch.data.offsets, [0, 2, 3])
        assert bunch.target.tolist() == [1, -1]
    assert load_bags(tmp_path / "x.svm").instance_names.tolist() == ["4", "5", "6"]
    assert load_bags(tmp_path / "x.svm", n_features=9).data.shape == (2, 9)
    assert load_bags(tmp_path / "x.svm", zero_based=True).data.shape == (2, 4)


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


@pytest.mark.parametrize(("suffix", "empty"), [("csv", ",,\n"), ("tsv", "\t \t\n"), ("csv", "\n")])
def test_rows_without_any_value_are_skipped(tmp_path, suffix, empty):
    path = tmp_path / f"x.{suffix}"
    text = "bag,label,f\na,1,2\na,1,3\nb,0,4\n"
    separator = "\t" if suffix == "tsv" else ","
    lines = text.replace(",", separator).splitlines(keepends=True)
    path.write_text(lines[0] + empty + "".join(lines[1:]) + empty)
    data = load_bags(path)
    assert data.data.instances.tolist() == [[2.0], [3.0], [4.0]]
    assert (data.bag_names.tolist(), data.target.tolist()) == (["a", "b"], [1, 0])
