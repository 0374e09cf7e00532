"""Round trips through save and load, and every format of the field."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import io
from scipy.sparse import csr_array, issparse, random_array
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from milearn import Bags
from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.survival import survival_outcomes
from tests.bags import random_bags

OFFSETS = [0, 2, 3, 6]


def needs_parquet(form):
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")


@pytest.fixture
def dense():
    values = np.random.default_rng(0).standard_normal((6, 3)) * 10.0 ** np.array([-9, 0, 7])
    values[0] = [0.1, -0.0, 1 / 3]
    return Bags(values, OFFSETS, feature_names=["a", "b c", "d"])


@pytest.fixture
def sparse():
    matrix = random_array((6, 40), density=0.1, random_state=1, format="csr")
    return Bags(matrix, OFFSETS)


def same(left, right):
    assert_array_equal(left.offsets, right.offsets)
    a, b = left.instances, right.instances
    assert a.shape == b.shape
    a, b = (m.toarray() if issparse(m) else m for m in (a, b))
    assert_array_equal(a, b)


@pytest.mark.parametrize("form", ["npz", "csv", "tsv", "parquet", "c45", "arff", "mat", "svmlight"])
def test_dense_round_trip(tmp_path, dense, form):
    needs_parquet(form)
    y = np.array([1, 0, 1])
    save_bags(tmp_path / "x.bags", dense, y, format=form)
    again = load_bags(tmp_path / "x.bags", format=form)
    same(again.data, dense)
    assert_array_equal(again.target, y)
    assert again.target.dtype == np.int64
    assert again.filename == str(tmp_path / "x.bags")
    if form not in ("mat", "svmlight"):
        assert again.feature_names.tolist() == ["a", "b c", "d"]
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".bags"] + [".names"] * (form == "c45")


@pytest.mark.parametrize("form", ["npz", "arff", "mat", "svmlight"])
def test_sparse_round_trip(tmp_path, sparse, form):
    y = np.array([-1, 1, -1])
    save_bags(tmp_path / f"x.{form}", sparse, y)
    X, target = load_bags(tmp_path / f"x.{form}", return_X_y=True)
    assert issparse(X.instances)
    same(X, sparse)
    assert_array_equal(target, y)


@pytest.mark.parametrize("form", ["npz", "csv", "parquet", "arff", "mat", "svmlight"])
def test_real_labels_round_trip(tmp_path, dense, form):
    needs_parquet(form)
    y = np.array([0.1, 2.0, -1 / 3])
    save_bags(tmp_path / f"x.{form}", dense, y)
    assert_array_equal(load_bags(tmp_path / f"x.{form}").target, y)


@pytest.mark.parametrize("form", ["npz", "csv", "tsv", "parquet", "c45", "arff"])
def test_names_round_trip(tmp_path, dense, form):
    needs_parquet(form)
    names = ["m 1", "m-2", "m3"]
    path = tmp_path / f"x.{'data' if form == 'c45' else form}"
    save_bags(path, dense, ["non-musk", "musk", "musk"], bag_names=names)
    again = load_bags(path)
    assert again.bag_names.tolist() == names
    assert again.target_names.tolist() == ["musk", "non-musk"]
    assert again.target.tolist() == [1, 0, 0]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_npz_keeps_everything(tmp_path, kind, request):
    bags = request.getfixturevalue(kind)
    rng = np.random.default_rng(0)
    full = Bags(
        bags.instances.astype(np.float32),
        bags.offsets,
        bag_graph=np.arange(9).reshape(3, 3),
        instance_graph=csr_array(rng.random((6, 6)) > 0.5, dtype=float),
        feature_names=[f"word {i}" for i in range(bags.shape[1])],
    )
    fields = {
        "target_names": np.array(["no", "yes"]),
        "bag_names": np.array(["α", "b", "c"]),
        "instance_names": np.array(list("uvwxyz")),
        "instance_labels": np.array([0, 1, 0, -1, 0, 1], dtype=np.int8),
        "instance_position": np.arange(6),
        "split": np.array([0, 0, 1], dtype=np.int8),
        "groups": np.array([0, 1, 1]),
        "group_names": np.array(["here", "there"]),
        "sample_weight": np.array([1.0, 2.0, 0.5]),
        "bag_links": np.array([[0, 1], [2, 2]]),
        "bag_links_instance": np.array([1, 2]),
    }
    y = np.array([0, 1, 1], dtype=np.int16)
    save_bags(tmp_path / "x.npz", full, y, descr="Three bags.", **fields)
    again = load_bags(tmp_path / "x.npz")
    same(again.data, full)
    assert again.data.dtype == np.float32
    assert issparse(again.data.instances) == (kind == "sparse")
    assert_array_equal(again.data.bag_graph.toarray(), full.bag_graph.toarray())
    assert_array_equal(again.data.instance_graph.toarray(), full.instance_graph.toarray())
    assert again.data.feature_names.tolist() == full.feature_names.tolist()
    assert_array_equal(again.target, y)
    assert again.target.dtype == np.int16
    for name, values in fields.items():
        assert_array_equal(again[name], values)
        assert again[name].dtype == values.dtype
    assert again.DESCR == "Three bags."
    # A Bunch brings all of this along.
    save_bags(tmp_path / "y.npz", again)
    third = load_bags(tmp_path / "y.npz")
    assert {k for k in third if k not in ("filename", "DESCR")} == {
        k for k in again if k not in ("filename", "DESCR")
    }
    assert_array_equal(third.bag_links, fields["bag_links"])


DOCUMENTS = ["Sätze. 好。 The end.", "One sentence", "A first one. Another\none."]


@pytest.mark.parametrize("form", ["npz", "npy-folder"])
def test_bags_of_text_round_trip(tmp_path, form):
    X, path = Bags.from_documents(DOCUMENTS), tmp_path / "x"
    save_bags(path, X, ["no", "yes", "no"], format=form, bag_names=["a", "b", "c"])
    again = load_bags(path, format=form, mmap=form == "npy-folder" or None)
    assert again.data.instances.tolist() == X.instances.tolist()
    assert again.data.dtype == object
    assert_array_equal(again.data.offsets, X.offsets)
    assert_array_equal(again.data.instance_data["start"], X.instance_data["start"])
    assert (again.feature_names.tolist(), again.target.tolist()) == (["text"], [0, 1, 0])
    for unsuitable in ({"dtype": "float32"}, {"as_sparse": True}):
        with pytest.raises(ValueError, match="are text: leave dtype and as_sparse out"):
            load_bags(path, format=form, **unsuitable)


def test_a_parquet_table_with_one_column_of_text(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rows = [("d2", 1, "x"), ("d1", 0, "y"), ("d2", 1, "z"), ("d1", 0, "")]
    pd.DataFrame(rows, columns=["bag", "label", "sentence"]).to_parquet(tmp_path / "x.parquet")
    read = load_bags(tmp_path / "x.parquet")
    assert [bag[:, 0].tolist() for bag in read.data] == [["x", "z"], ["y", ""]]
    assert read.data.feature_names.tolist() == ["sentence"]
    assert (read.bag_names.tolist(), read.target.tolist()) == (["d2", "d1"], [1, 0])
    X = Bags.from_documents([["A b.", "C"], ["D"]], split=None)
    save_bags(tmp_path / "y.parquet", X, [1, 0])
    assert load_bags(tmp_path / "y.parquet").data.instances.tolist() == X.instances.tolist()


@pytest.mark.parametrize("form", ["csv", "tsv", "data", "arff", "mat", "svmlight"])
def test_formats_of_numbers_refuse_text(tmp_path, form):
    X = Bags.from_documents([["A b.", "C"], ["D"]], split=None)
    with pytest.raises(BagFileError, match=r"cannot hold text; save as \.npz or \.parquet"):
        save_bags(tmp_path / f"x.{form}", X, [1, 0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"text": np.arange(4.0)}, "the arrays of texts are inconsistent"),
        ({"text_offsets": np.array([0, 3, 2])}, "the arrays of texts are inconsistent"),
        ({"text_offsets": np.array([0, 2, 1, 3])}, "the arrays of texts are inconsistent"),
        ({"text_offsets": np.empty(0, dtype=int)}, "the arrays of texts are inconsistent"),
        ({"text": np.array([65, 255, 66], dtype=np.uint8)}, "the texts are not UTF-8"),
    ],
)
def test_damaged_arrays_of_text(tmp_path, wrong, sentence):
    content = {"text": np.array([65, 66, 67], dtype=np.uint8), "text_offsets": np.array([0, 1, 3])}
    np.savez(tmp_path / "x.npz", **content | {"bag_offsets": np.array([0, 2])} | wrong)
    with pytest.raises(BagFileError, match=sentence):
        load_bags(tmp_path / "x.npz")


def test_npz_without_labels_and_with_many(tmp_path, dense):
    save_bags(tmp_path / "x.npz", list(dense))
    assert load_bags(tmp_path / "x.npz").target is None
    many = np.array([[0, 1], [1, 1], [0, 0]])
    save_bags(tmp_path / "x.npz", dense, many)
    assert_array_equal(load_bags(tmp_path / "x.npz").target, many)


def test_npz_small_integers_become_float32(tmp_path):
    np.savez(tmp_path / "x.npz", instances=np.arange(6, dtype=np.uint16).reshape(3, 2),
             bag_offsets=np.array([0, 1, 3]))  # fmt: skip
    X = load_bags(tmp_path / "x.npz").data
    assert X.dtype == np.float32
    assert_array_equal(X.instances.ravel(), np.arange(6))


def test_dtype_and_sparsity_on_request(tmp_path, dense):
    save_bags(tmp_path / "x.npz", dense)
    bunch = load_bags(tmp_path / "x.npz", dtype=np.float32, as_sparse=True)
    assert bunch.data.dtype == np.float32
    assert issparse(bunch.data.instances)
    assert bunch.data.feature_names.tolist() == ["a", "b c", "d"]
    with pytest.raises(ValueError, match="dtype='int32' is not supported"):
        load_bags(tmp_path / "x.npz", dtype="int32")


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


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_tables_keep_instances_apart(tmp_path, dense, form):
    needs_parquet(form)
    labels = np.array([0, 1, 0, 0, 0, 1])
    save_bags(
        tmp_path / f"x.{form}",
        dense,
        [1, 0, 1],
        instance_names=list("uvwxyz"),
        instance_labels=labels,
    )
    again = load_bags(tmp_path / f"x.{form}")
    assert "".join(again.instance_names) == "uvwxyz"
    assert_array_equal(again.instance_labels, labels)


@pytest.mark.parametrize("form", ["csv", "parquet", "arff"])
def test_missing_labels_become_nan(tmp_path, dense, form):
    needs_parquet(form)
    y = np.array([1.0, np.nan, 0.0])
    save_bags(tmp_path / f"x.{form}", dense, y)
    assert_array_equal(load_bags(tmp_path / f"x.{form}").target, y)


def test_missing_features_become_nan_on_request(tmp_path):
    for name, text in {
        "x.csv": "bag,label,f,g\na,1,?,2\na,1,,5\n",
        "x.data": "a,i,?,2,1.\na,j,,5,1.\n",
        "x.arff": "@relation x\n@attribute b {a}\n@attribute r relational\n@attribute f numeric\n"
        "@attribute g numeric\n@end r\n@attribute c {0,1}\n@data\na,'?,2\\n ? , 5',1\n",
    }.items():
        (tmp_path / name).write_text(text)
        X = load_bags(tmp_path / name, missing="nan").data
        assert_array_equal(X.instances, [[np.nan, 2], [np.nan, 5]])


def test_parquet_without_pyarrow_names_the_remedy(tmp_path, dense, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError) as caught:
        save_bags(tmp_path / "x.parquet", dense, [1, 0, 1])
    assert str(caught.value) == (
        f"{tmp_path / 'x.parquet'}: Parquet files need pyarrow; install it with pip install "
        "'milearn[frames]', or use .csv or .npz."
    )
    assert list(tmp_path.iterdir()) == []


def test_parquet_keeps_float32(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    X = Bags(np.array([[0.1], [0.2]], dtype=np.float32), [0, 1, 2])
    save_bags(tmp_path / "x.parquet", X, [0, 1])
    again = load_bags(tmp_path / "x.parquet").data
    assert again.dtype == np.float32
    same(again, X)


def test_c45_names_file_decides(tmp_path):
    (tmp_path / "x.data").write_text("1.5,p,m1,7,yes.\n2,q,m1,8,yes\n| remark\n3,r,m2,9,no.\n")
    (tmp_path / "x.names").write_text(
        "no, yes. | classes\nwidth: continuous.\nconf: p,q,\n  r.\nmol: m1,m2.\nserial: ignore.\n"
    )
    bunch = load_bags(tmp_path / "x.data", bag="mol")
    assert_array_equal(bunch.data.instances, [[1.5], [2], [3]])
    assert bunch.bag_names.tolist() == ["m1", "m2"]
    assert bunch.instance_names.tolist() == ["p", "q", "r"]
    assert bunch.target_names.tolist() == ["no", "yes"]
    assert bunch.target.tolist() == [1, 0]
    # Without it the first two columns are names and the others numbers.
    (tmp_path / "x.data").write_text("m1,p,1.5,7,1.\nm2,q,2,8,0.\n")
    assert load_bags(tmp_path / "x.data", names=False).feature_names.tolist() == ["f1", "f2"]


def test_arff_quoting_nominal_features_and_weights(tmp_path):
    (tmp_path / "x.arff").write_text(
        "% a comment\n@RELATION 'two words'\n\n"
        "@Attribute 'bag id' {'it\\'s', \"b 2\"}\n"
        "@attribute bag RELATIONAL\n"
        "  @attribute x real\n"
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
    assert bunch.target.tolist() == [1, 0]
    assert bunch.target_names.tolist() == ["neg", "pos"]
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
    X = Bags.from_list([[[1.0, 0.5]], [[2.0, -3.0], [0.0, 1e-9]]], feature_names=["a%", "b,c"])
    save_bags(
        tmp_path / "x y.arff", X, ["it's", "?"], bag_names=["b\\1", "ü, {2}"],
        target_names=["it's", "?"], sample_weight=[1.0, 2.5],
    )  # fmt: skip
    text = (tmp_path / "x y.arff").read_text(encoding="utf-8")
    assert text == (
        "@relation 'x y'\n\n@attribute bag_id {'b\\\\1','ü, {2}'}\n@attribute bag relational\n"
        "  @attribute 'a%' numeric\n  @attribute 'b,c' numeric\n@end bag\n"
        "@attribute class {'it\\'s','?'}\n\n@data\n"
        "'b\\\\1',\"1,0.5\",'it\\'s',{1}\n'ü, {2}',\"2,-3\\n0,1e-09\",?,{2.5}\n"
    )
    again = load_bags(tmp_path / "x y.arff")
    same(again.data, X)
    assert again.bag_names.tolist() == ["b\\1", "ü, {2}"]
    assert_array_equal(again.target, [0.0, np.nan])


def test_mat_rows_in_any_order_and_a_comment(tmp_path):
    io.savemat(
        tmp_path / "x.mat",
        {
            "features": csr_array(np.eye(4)).tocsc(),
            "bag_ids": np.array([[7, 3, 7, 3]], dtype=np.uint8),
            "labels": csr_array(np.array([[1.0, -1, 1, -1]])).tocsc(),
            "comment": "A remark.",
        },
    )
    bunch = load_bags(tmp_path / "x.mat")
    assert bunch.bag_names.tolist() == ["7", "3"]
    assert_array_equal(bunch.data.instances.toarray(), np.eye(4)[[0, 2, 1, 3]])
    assert bunch.target.tolist() == [1, -1]
    assert bunch.DESCR == "A remark."


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


@pytest.mark.parametrize("form", ["npz", "parquet", "arff", "mat", "svmlight"])
def test_format_by_content(tmp_path, dense, form):
    needs_parquet(form)
    save_bags(tmp_path / "download", dense, [1, 0, 1], format=form)
    same(load_bags(tmp_path / "download").data, dense)


@pytest.mark.parametrize(
    ("form", "given", "sentence"),
    [
        ("csv", {"split": [0, 0, 1]}, "the format 'csv' cannot hold split; leave that out or save "
         "as .npz."),
        ("arff", {"instance_names": list("abcdef"), "groups": [0, 0, 1]}, "the format 'arff' "
         "cannot hold groups, instance_names; leave that out or save as .npz."),
        ("mat", {"bag_names": ["a", "b", "c"]}, "this format numbers its bags, but bag_names are "
         "not distinct whole numbers; leave bag_names out or save as .npz."),
        ("arff", {"bag_names": ["a", "b", "a"]}, "two bags have the name 'a', so that they would "
         "become one in this format; make bag_names distinct or save as .npz."),
        ("arff", {"y": None}, "the format 'arff' needs one label per bag; pass y, or save as .npz "
         "or .csv."),
        ("svmlight", {"y": np.eye(3)}, "the format 'svmlight' holds one label per bag but y has "
         "shape (3, 3); save as .npz."),
        ("c45", {"y": np.array([0.5, 1, 2])}, "the format 'c45' holds classes but y holds real "
         "numbers; save as .npz, .csv or .arff."),
        ("c45", {"bag_names": ["a,b", "c", "d"]}, "the bag name 'a,b' cannot be written to a C4.5 "
         "file; rename it or save as .npz."),
    ],
)  # fmt: skip
def test_nothing_is_dropped_silently(tmp_path, dense, form, given, sentence):
    given = dict(given)
    y = given.pop("y", [1, 0, 1])
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(BagFileError) as caught:
        save_bags(path, dense, y, format=form, **given)
    assert str(caught.value) == f"{path}: {sentence}"
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_sparse_needs_a_sparse_format(tmp_path, sparse):
    with pytest.raises(BagFileError) as caught:
        save_bags(tmp_path / "x.csv", sparse, [1, 0, 1])
    assert str(caught.value) == (
        f"{tmp_path / 'x.csv'}: the format 'csv' holds dense instances only; save as .npz, .arff, "
        ".mat or .svmlight, or make the instances dense first."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_failing_disk_leaves_the_old_file(tmp_path, dense, monkeypatch):
    save_bags(tmp_path / "x.npz", dense, [1, 0, 1])
    before = (tmp_path / "x.npz").read_bytes()

    def full(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        save_bags(tmp_path / "x.npz", dense, [0, 0, 1])
    assert (tmp_path / "x.npz").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


def test_labels_and_fields_must_fit(tmp_path, dense):
    path = tmp_path / "x.npz"
    with pytest.raises(ValueError, match=r"y has shape \(2,\) but there are 3 bags\."):
        save_bags(path, dense, [1, 0])
    with pytest.raises(ValueError, match=r"split has shape \(2,\) but 3 entries are needed\."):
        save_bags(path, dense, [1, 0, 1], split=[0, 1])
    with pytest.raises(
        ValueError, match=r"y runs from 0 to 2, but with 2 target_names the labels "
    ):
        save_bags(path, dense, [0, 1, 2], target_names=["a", "b"])
    with pytest.raises(ValueError, match=r"y holds 'c', which is not among target_names\."):
        save_bags(path, dense, ["a", "b", "c"], target_names=["a", "b"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["npz", "csv", "arff", "mat", "svmlight"])
def test_a_bag_without_a_label_is_read_as_written(tmp_path, dense, form):
    y = np.array([1.0, np.nan, 0.0])
    save_bags(tmp_path / f"x.{form}", dense, y)
    assert_array_equal(load_bags(tmp_path / f"x.{form}").target, y)


def test_svmlight_files_are_those_of_scikit_learn(tmp_path, dense, sparse):
    y = np.array([1, -1, 1])
    for X in (dense, sparse):
        save_bags(tmp_path / "ours.svmlight", X, y)
        matrix, labels, bags = load_svmlight_file(
            tmp_path / "ours.svmlight", n_features=X.shape[1], query_id=True, zero_based=False
        )
        expected = X.instances.toarray() if issparse(X.instances) else X.instances
        assert_array_equal(matrix.toarray(), expected)
        assert_array_equal(labels, y[X.bag_index])
        assert_array_equal(bags, X.bag_index + 1)
        with open(tmp_path / "theirs.svmlight", "wb") as file:
            dump_svmlight_file(
                matrix, labels, file, query_id=bags, comment="n_features:", zero_based=False
            )
        again = load_bags(tmp_path / "theirs.svmlight", n_features=X.shape[1])
        # scikit-learn writes 16 digits, of which a double may need 17.
        assert_allclose(again.data.instances.toarray(), expected, rtol=1e-15)
        assert_array_equal(again.target, y)


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


def test_a_damaged_line_after_an_empty_row_has_its_own_number(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("bag,f\n,\na,1\n\na,red\n")
    with pytest.raises(BagFileError, match=r"x\.csv: line 5, column 'f': 'red' is not a number"):
        load_bags(path)


@pytest.mark.parametrize("form", ["npz", "npy-folder"])
def test_outcomes_of_survival_analysis(tmp_path, form):
    bags, y = random_bags(0, 3), survival_outcomes([True, False, True], [1.5, 2.0, 0.25])
    save_bags(tmp_path / "bags", bags, y, format=form)
    found = load_bags(tmp_path / "bags", format=form).target
    np.testing.assert_array_equal(found, y)
    assert found.dtype == y.dtype
    with pytest.raises(BagFileError, match="'csv' cannot hold outcomes of survival analysis"):
        save_bags(tmp_path / "bags.csv", bags, y)


def test_outcomes_without_a_time(tmp_path):
    bags = random_bags(0, 3)
    np.savez(
        tmp_path / "bags.npz",
        instances=bags.instances,
        bag_offsets=bags.offsets,
        y_event=np.ones(3, dtype=bool),
        y_time=np.array([1.0, np.nan, 2.0]),
    )
    with pytest.raises(BagFileError, match=r"the outcomes are wrong \(Input time contains NaN"):
        load_bags(tmp_path / "bags.npz")
