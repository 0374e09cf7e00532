"""A file that is damaged, unknown or dangerous ends in a sentence that says what is wrong."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import io as matlab
from scipy.sparse import csc_array

from milearn import Bags
from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.survival import survival_outcomes


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def mat(**arrays):
    buffer = io.BytesIO()
    matlab.savemat(buffer, arrays)
    return buffer.getvalue()


class _Bomb:
    """Loading its pickle would leave a trace."""

    def __reduce__(self):
        return (Path("exploded").touch, ())


def _zip_field(data, place, value):
    """The archive with a field of its first central record changed: version, flags or method."""
    at = data.index(b"PK\1\2") + place
    return data[:at] + bytes([value]) + data[at + 1 :]


def _member(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def _sparse_mat(change):
    return change(mat(features=csc_array(np.eye(3)), bag_ids=[1, 1, 1], labels=[1, 1, 1]))


def _parquet(**columns):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    buffer = io.BytesIO()
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    parquet.write_table(pyarrow.table(columns), buffer, **options)
    return buffer.getvalue()


_NO_PARQUET = (
    "the Parquet file cannot be read; it is truncated or not a Parquet file, fetch or save it "
    "again."
)
_UNREADABLE = (
    "the .npz archive cannot be read; it is truncated or not an .npz file, fetch or save it again."
)
_TEXTS = "the arrays of texts are inconsistent; save the file again."
X2 = np.ones((3, 2))


def _texts(**wrong):
    sound = {"text": np.array([65, 66, 67], dtype=np.uint8), "text_offsets": np.array([0, 1, 3])}
    return npz(bag_offsets=np.array([0, 2]), **sound | wrong)


ARFF = (
    "@relation x\n@attribute b {p,q}\n@attribute r relational\n@attribute f numeric\n"
    "@attribute g numeric\n@end r\n@attribute c {0,1}\n@data\n"
)

CASES = {
    # -- empty and unknown
    "empty.npz": (b"", "the file is empty; if a download was interrupted, fetch it again."),
    "empty.csv": (b"\n\n", "the file is empty; if a download was interrupted, fetch it again."),
    "empty.mat": (b"", "the file is empty; if a download was interrupted, fetch it again."),
    "x.xyz": (b"what is this", "the format cannot be determined by the suffix '.xyz' or the"),
    "binary.csv": (b"\xff\xfe\x00a", "this is not a text file in UTF-8; check the format, or"),
    # -- npz
    "cut.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]))[:-40],
     "the .npz archive cannot be read; it is truncated or not an .npz file, fetch or save it"),
    "text.npz": (b"hello there", "the .npz archive cannot be read; it is truncated or not an"),
    "object.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]),
                       y=np.array([_Bomb()], dtype=object)),
                   "the array 'y' holds Python objects (a pickle), which are never loaded"),
    "pickle.npz": (pickle.dumps(_Bomb()), "the file holds Python objects (a pickle), which are"),
    "array.npz": (npy(X2), "this is a single array (.npy), not an .npz archive; write bag files"),
    "other.npz": (npz(a=X2), "neither 'instances' nor 'data', 'indices', 'indptr', 'shape' is"),
    "nobags.npz": (npz(instances=X2), "the array 'bag_offsets' is missing, so that the bags are"),
    "flat.npz": (npz(instances=np.ones(3), bag_offsets=np.array([0, 3])),
     "'instances' has shape (3,); it must be (n_instances, n_features)."),
    "short.npz": (npz(instances=X2, bag_offsets=np.array([0, 2])),
     "offsets run from 0 to 2 but there are 3 instances: they must run from 0 to 3."),
    "hollow.npz": (npz(instances=X2, bag_offsets=np.array([0, 2, 2, 3])),
     "Bag 1 is empty: every bag needs at least one instance; remove it."),
    "labels.npz": (npz(instances=X2, bag_offsets=np.array([0, 2, 3]), y=np.ones(3)),
     "'y' has shape (3,) but there are 2 bags; the arrays have inconsistent lengths, save the"),
    "zipversion.npz": (_zip_field(npz(instances=X2), 6, 99), _UNREADABLE),
    "method.npz": (_zip_field(npz(instances=X2), 10, 97), _UNREADABLE),
    "patched.npz": (_zip_field(npz(instances=X2), 8, 0x20), _UNREADABLE),
    "secret.npz": (_zip_field(npz(instances=X2), 8, 0x01), _UNREADABLE),
    "header.npz": (npz(instances=X2).replace(b"'descr'", b"'desc\\\n"), _UNREADABLE),
    "member.npz": (_member("instances", b"no array"), "the member 'instances' is not an array;"),
    "huge.npz": (_member("instances.npy", npy(X2).replace(b"(3, 2), }        ",
                                                          b"(99999999999, 2)}")),
                 "the array 'instances' is truncated; fetch or save the file again."),
    "pointers.npz": (npz(data=np.ones(3), indices=np.zeros(3, dtype=int), shape=np.array([3, 2]),
                         indptr=np.array([0, 3, 65542, 0]), bag_offsets=np.array([0, 3])),
                     "the sparse matrix of instances is inconsistent (index pointer values must"),
    "shape.npz": (npz(data=np.ones(3), indices=np.zeros(3, dtype=int), shape=np.array([[3], [2]]),
                      indptr=np.arange(4), bag_offsets=np.array([0, 3])),
                  "the sparse matrix of instances is inconsistent (its shape must be two"),
    "unicode.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]),
                        feature_names=np.full(2, 0x110000, dtype=np.uint32).view("U1")),
                    _UNREADABLE),
    "names.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]), feature_names=np.ones(2)),
                  "feature_names must be a sequence of strings."),
    "texts1.npz": (_texts(text=np.arange(4.0)), _TEXTS),
    "texts2.npz": (_texts(text_offsets=np.array([0, 3, 2])), _TEXTS),
    "texts3.npz": (_texts(text_offsets=np.array([0, 2, 1, 3])), _TEXTS),
    "texts4.npz": (_texts(text_offsets=np.empty(0, dtype=int)), _TEXTS),
    "utf8.npz": (_texts(text=np.array([65, 255, 66], dtype=np.uint8)),
     "the texts are not UTF-8 ('utf-8' codec can't decode byte 0xff in position 0: invalid start"),
    "outcome.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]), y_event=np.ones(1, dtype=bool),
                        y_time=np.array([np.nan])),
                    "the outcomes are wrong (Input time contains NaN.); save the file again."),
    # -- tables
    "blank.csv": (b'""\n', "there is not a single name of a column in it; check the file and the"),
    "nobag.csv": (b"f,g\n1,2\n", "there is no column 'bag' for bag= among 'f', 'g'; name the"),
    "onlybag.csv": (b"bag,label\na,1\n", "there is no feature column apart from 'bag', 'label';"),
    "twice.csv": (b"bag,f,f\na,1,2\n", "two columns have the name 'f'; give the columns distinct"),
    "header.csv": (b"bag,f\n", "there is a header but not a single row; if a download was"),
    "cut.csv": (b"bag,label,f,g\na,1,2,3\na,1,2\n", "line 3 has 3 columns but the header has 4;"),
    "quote.csv": (b'bag,f\na,1\n"a,2\n', "line 3 is not valid CSV (unexpected end of data); the"),
    "labels.csv": (b"bag,label,f\na,1,2\nb,0,2\na,0,3\n", "bag 'a' carries two labels, '1' (line"),
    "text.csv": (b"bag,label,f\na,1,2\na,1,red\n", "line 3, column 'f': 'red' is not a number;"),
    "gap.csv": (b"bag,label,f,g\na,1,2,\n", "line 2, column 'g': the value is missing (''); fill"),
    "inf.csv": (b"bag,label,f\na,1,inf\n", "line 2, column 'f': 'inf' is not a finite number;"),
    "noname.csv": (b"bag,label,f\na,1,2\n,1,3\n", "line 3 names no bag; fill the bag column."),
    "line5.csv": (b"bag,f\n,\na,1\n\na,red\n", "line 5, column 'f': 'red' is not a number;"),
    "column.parquet": (lambda: _parquet(bag=["a", "b"], column=[1.0, 2.0]).replace(
                       b"column", b"col\xffmn"), _NO_PARQUET),
    "bag.parquet": (lambda: _parquet(bag=["first", "b"], x=[1.0, 2.0]).replace(
                    b"first", b"fi\xffst"), _NO_PARQUET),
    "list.parquet": (lambda: _parquet(bag=[["a"], ["b"]], x=[1.0, 2.0]),
     "the column 'bag' for bag= holds values of the type list<element: string>; bags, labels and"),
    "text.parquet": (lambda: _parquet(bag=["a", "a"], f=["red", None]),
     "row 2, column 'f': the text is missing; fill it in, or leave the row out."),
    "lists.parquet": (lambda: _parquet(bag=["a", "a"], f=[["red"], ["blue"]]),
     "the column 'f' does not hold numbers; encode it before reading, or leave it out."),
    "gap.parquet": (lambda: _parquet(bag=["a", "a"], f=[1.0, None]),
     "row 2, column 'f': the value is missing or not finite; fill it in, or pass missing='nan'"),
    "mixed.parquet": (lambda: _parquet(bag=["a", "a"], f=["red", "blue"], g=[1.0, 2.0]),
     "the column 'f' holds text, which bags hold only without columns of numbers; encode it"),
    "cut.parquet": (b"PAR1\x00\x00", "the Parquet file cannot be read; it is truncated or not a"),
    # -- ARFF
    "head.arff": (b"@relation x\n@attribute b {p}\n", "the file ends before @data; it is"),
    "prose.arff": (b"Dear reader,\n", "line 1 ('Dear reader,') is not a declaration of an ARFF"),
    "flat.arff": (b"@relation x\n@attribute f numeric\n@attribute c {0,1}\n@data\n1,0\n",
     "the header declares 0 relational attributes but bags need exactly one; for one row per"),
    "type.arff": (b"@relation x\n@attribute f complex\n", "line 2 gives 'f' the unknown type"),
    "quote.arff": ((ARFF + "p,'1,2',0\nq,'1,2\\n3").encode(), "line 10 has a quote that is not"),
    "cut.arff": ((ARFF + "p,'1,2',0\nq,'1,2'\n").encode(), "line 10 has 2 columns but the header"),
    "ragged.arff": ((ARFF + "p,'1,2\\n3',0\n").encode(), "line 9, bag 'p', instance 2 has 1"),
    "gap.arff": ((ARFF + "p,'1,2\\n3,?',0\n").encode(), "line 9, bag 'p', instance 2, column"),
    "hollow.arff": ((ARFF + "p,'',0\n").encode(), "line 9: the bag 'p' is empty; every bag needs"),
    "class.arff": ((ARFF + "p,'1,2',7\n").encode(), "line 9 has the class '7', which is not"),
    "none.arff": (ARFF.encode(), "there is not a single bag after @data; check the file."),
    "pairs.arff": ((ARFF + "p,'{0 1,5 2}',0\n").encode(), "line 9, bag 'p', instance 1: '5 2' is"),
    "string.arff": (b"@relation x\n@attribute r relational\n@attribute f string\n@end r\n@data\n",
                    "the attribute 'f' of an instance is a string, which is not a feature;"),
    "nested.arff": (b"@relation x\n@attribute r relational\n@attribute f relational\n",
     "line 3 declares a relation inside a relation, but a bag holds plain instances; flatten the"),
    "extra.arff": (ARFF.replace("@end r", "@end r\n@attribute age numeric").encode(),
     "the attributes 'b', 'r', 'age', 'c' are more than the name of the bag, its instances and"),
    "weight.arff": ((ARFF + "p,'1,2',0,{1.2.3}\n").encode(), "bag 'p', weight: '1.2.3' is not a"),
    "hollow2.arff": (b"@relation x\n@attribute r relational\n@end r\n@data\n",
     "the relational attribute 'r' declares no attribute of an instance; correct the header."),
    "brace.arff": (b"@relation x\n@attribute b {p,q\n", "line 2 does not close the list of"),
    "noname.arff": (b"@relation x\n@attribute f\n", "line 2 is not of the form '@attribute name"),
    "value.arff": ((ARFF.replace("g numeric", "g {u,v}") + "p,'1,w',0\n").encode(),
     "line 9, bag 'p', instance 1: 'w' is not a declared value of 'g'; correct the header or the"),
    "mixed.arff": ((ARFF + "p,'{0 1}\\n1,2',0\n").encode(), "line 9, bag 'p', instance 2 is not"),
    "nan.arff": ((ARFF + "p,'{0 ?}',0\n").encode(), "line 9, bag 'p', instance 1, column 'f':"),
    # -- MATLAB
    "cut.mat": (mat(features=X2, bag_ids=[1, 1, 2], labels=[1, 1, 0])[:300],
     "the MATLAB file cannot be read; it is truncated or not a .mat file, fetch or save it again."),
    "other.mat": (mat(X=X2), "the variable 'features' is missing or not a matrix of numbers; the"),
    "short.mat": (mat(features=X2, bag_ids=[1, 1], labels=[1, 1, 0]),
     "'bag_ids' has 2 entries for 3 rows of 'features'; the arrays have inconsistent lengths."),
    "labels.mat": (mat(features=X2, bag_ids=[1, 1, 2], labels=[1, -1, -1]),
     "bag '1' carries two labels, '1' (instance 1) and '-1' (instance 2); give every instance of"),
    "digits.arff": (
        (ARFF + "p,'{" + "9" * 5000 + " 1}',1\n").encode(),
        f"line 9, bag 'p', instance 1: '{'9' * 30}' is not an attribute number below 2 and a "
        "value; the line is damaged.",
    ),
    "type.mat": (mat(features=X2, bag_ids=[1, 1, 1], labels=[1, 1, 1]).replace(
                 b"features\x09", b"features\x89"), "the MATLAB file cannot be read; it is"),
    "cell.mat": (mat(features=np.array([1, "a"], dtype=object), bag_ids=[1], labels=[1]),
     "the variable 'features' is missing or not a matrix of numbers; the file holds features,"),
    "rows.mat": (_sparse_mat(lambda data: data.replace(struct.pack("<3i", 0, 1, 2),
                                                       struct.pack("<3i", 0, 1, 1 << 30))),
                 "the sparse matrix of features is inconsistent (indices must be < 3); fetch or"),
    # The difference of the pointers overflows.
    "columns.mat": (_sparse_mat(lambda data: data.replace(
                    struct.pack("<4i", 0, 1, 2, 3),
                    struct.pack("<4i", 0, 1_577_058_319, -2_012_329_314, 3))),
                    "the sparse matrix of features is inconsistent (index pointer values must"),
    "huge.mat": (_sparse_mat(lambda data: data.replace(struct.pack("<4i", 5, 8, 3, 3),
                                                       struct.pack("<4i", 5, 8, 2**31 - 1, 3))),
                 "'bag_ids' has 3 entries for 2147483647 rows of 'features'; the arrays have"),
    # -- svmlight
    "column.svmlight": (b"1 qid:1 9223372036854775808:2\n", "line 1: '9223372036854775808:2' has"),
    "width.svmlight": (b"# n_features: " + b"9" * 5000 + b"\n1 qid:1 1:2\n", "line 1 declares "
                       + "9" * 40 + " features, which is not a number between 1 and "
                       "9223372036854775807; correct it."),
    "noqid.svmlight": (b"1 qid:1 1:2\n1 1:2\n", "line 2 names no bag; write qid:<number of the"),
    "first.svmlight": (b"# n_features: 5\n1 qid:1 1:2 7:1\n", "the column numbers run from 1 to"),
    "pair.svmlight": (b"1 qid:1 1:2 3\n", "line 1: '3' is not of the form index:value; the line"),
    "label.svmlight": (b"one qid:1 1:2\n", "line 1: the label 'one' is not a number; correct it,"),
    "inf.svmlight": (b"1 qid:1 1:nan\n", "line 1 holds a value that is not a finite number;"),
    "labels.svmlight": (b"1 qid:4 1:2\n0 qid:4 1:2\n", "bag '4' carries two labels, '1.0' (line"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_clear_sentence(tmp_path, monkeypatch, name):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    monkeypatch.chdir(tmp_path)
    content, sentence = CASES[name]
    path = tmp_path / name
    path.write_bytes(content() if callable(content) else content)
    with pytest.raises(BagFileError) as caught:
        load_bags(path)
    found = str(caught.value).replace("(row index values must", "(indices must")  # SciPy 1.13
    assert found.startswith(f"{path}: {sentence}")
    assert found.endswith(".")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        load_bags(tmp_path / "x.npz")
    assert str(caught.value) == f"{tmp_path / 'x.npz'}: there is no such file; check the path."
    with pytest.raises(FileNotFoundError, match=r": this is a folder .*load_bag_folder\.$"):
        load_bags(tmp_path)
    with pytest.raises(FileNotFoundError, match=r": there is no such folder; create it first\.$"):
        save_bags(tmp_path / "no" / "x.npz", Bags(X2, [0, 3]))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"format": "xls"}, ValueError, "format='xls' is unknown; choose one of npz, npy-folder,"),
        ({"missing": "drop"}, ValueError, "missing='drop' is unknown; choose 'error' or 'nan'."),
        ({"dtype": "int32"}, ValueError, "dtype='int32' is not supported; choose float64,"),
        ({"dtype": np.float16, "as_sparse": True}, ValueError,
         "dtype=float16 is for dense instances; choose float32 or float64."),
        ({"bag_data": "f"}, TypeError, "bag_data must be a list of names of columns, such as"),
        ({"bag_data": ["age"]}, BagFileError, "{path}: there is no column 'age' for bag_data="),
        ({"n_features": 3}, BagFileError, "{path}: n_features= means nothing for the format"),
        ({"mmap": True}, BagFileError, "{path}: mmap= means nothing for the format 'csv'; leave"),
    ],
)  # fmt: skip
def test_options_that_mean_nothing(tmp_path, options, error, sentence):
    path = tmp_path / "x.csv"
    path.write_text("bag,f\na,1\n")
    with pytest.raises(error) as caught:
        load_bags(path, **options)
    assert str(caught.value).startswith(sentence.format(path=path))


DENSE = Bags(np.arange(12.0).reshape(6, 2), [0, 2, 3, 6])
TEXT = Bags.from_documents([["A b.", "C"], ["D"], ["E"]], split=None)
OUTCOMES = survival_outcomes([True, False, True], [1.5, 2.0, 0.25])
SAVED = [
    ("xyz", DENSE, {}, "the format cannot be determined by the suffix '.xyz'; pass format= as"),
    ("csv", DENSE, {"split": [0, 0, 1]}, "the format 'csv' cannot hold split; leave that out or"),
    ("arff", DENSE, {"instance_names": list("abcdef"), "groups": [0, 0, 1]},
     "the format 'arff' cannot hold groups, instance_names; leave that out or save as .npz."),
    ("mat", DENSE.with_bag_data({"age": [1, 2, 3]}), {}, "the format 'mat' cannot hold"),
    ("csv", DENSE.with_bag_data({"box": np.eye(3)}), {}, "bag_data['box'] has 2 dimensions, but"),
    ("mat", DENSE, {"bag_names": ["a", "b", "c"]}, "this format numbers its bags, but bag_names"),
    ("arff", DENSE, {"bag_names": ["a", "b", "a"]}, "two bags have the name 'a', so that they"),
    ("arff", DENSE, {"y": None}, "the format 'arff' needs one label per bag; pass y, or save as"),
    ("svmlight", DENSE, {"y": np.eye(3)}, "the format 'svmlight' holds one label per bag but y"),
    ("csv", DENSE, {"y": OUTCOMES}, "the format 'csv' cannot hold outcomes of survival analysis;"),
    ("csv", DENSE.with_instances(csc_array(DENSE.instances).tocsr()), {},
     "the format 'csv' holds dense instances only; save as .npz, .arff, .mat or .svmlight, or"),
    ("svmlight", TEXT, {}, "the format 'svmlight' cannot hold text; save as .npz or .parquet, or"),
    ("npz", [np.ones((2, 2))], {"y": [1, 0]}, "y has shape (2,) but there are 1 bags."),
    ("csv", DENSE.with_instances(DENSE.instances, feature_names=["bag", "f"]), {},
     "a feature has the name 'bag', which this format uses for its own column; rename the"),
    ("npz", Bags.from_documents([["\ud800"]], split=None), {"y": None},
     "a text holds half a character ('utf-8' codec can't encode character '\\ud800' in position"),
    ("npz", DENSE, {"y": [1, 0]}, "y has shape (2,) but there are 3 bags."),
    ("npz", DENSE, {"split": [0, 1]}, "split has shape (2,) but 3 entries are needed."),
    ("npz", DENSE, {"y": [0, 1, 2], "target_names": ["a", "b"]},
     "y runs from 0 to 2, but with 2 target_names the labels are the codes 0 to 1."),
    ("npz", DENSE, {"y": list("abc"), "target_names": ["a", "b"]},
     "y holds 'c', which is not among target_names."),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "bags", "given", "sentence"), SAVED)
def test_nothing_is_dropped_silently(tmp_path, suffix, bags, given, sentence):
    path = tmp_path / f"x.{suffix}"
    path.write_text("old")
    with pytest.raises(ValueError, match=r"\.$") as caught:
        save_bags(path, bags, **{"y": [1, 0, 1], **given})
    assert str(caught.value).removeprefix(f"{path}: ").startswith(sentence)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_an_unterminated_quote_of_a_megabyte_fails_at_once(tmp_path):
    path = tmp_path / "x.arff"
    path.write_text(ARFF + "p,'" + "1,2\\n" * 250_000)
    with pytest.raises(BagFileError, match="line 9 has a quote that is not closed"):
        load_bags(path)


@pytest.mark.parametrize("form", ["npz", "mat", "npy-folder"])
def test_a_lack_of_memory_is_no_damage(tmp_path, monkeypatch, form):
    def full(*args, **options):
        raise MemoryError("Unable to allocate 1 TiB")

    path = tmp_path / "x"
    save_bags(path, Bags(X2, [0, 3]), [1], format=form)
    monkeypatch.setattr(np, "load", full)
    monkeypatch.setattr(matlab, "loadmat", full)
    with pytest.raises(MemoryError, match="Unable to allocate 1 TiB"):
        load_bags(path, format=form)
