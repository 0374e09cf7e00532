"""A file that is damaged, unknown or dangerous ends in a sentence that says what is wrong."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import io as matlab
from scipy.sparse import csc_array

from milearn import Bags
from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.datasets._errors import file_name_in_errors
from milearn.survival import survival_outcomes


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def promise(name, dtype):
    """Two bags and an array with a header that has no values: texts of no bytes need none."""
    buffer = io.BytesIO(npz(instances=np.ones((3, 2)), bag_offsets=np.array([0, 3])))
    header = {"descr": dtype, "fortran_order": False, "shape": (2**31,)}
    with zipfile.ZipFile(buffer, "a") as archive, archive.open(f"{name}.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, header)
    return buffer.getvalue()


def mat(**arrays):
    buffer = io.BytesIO()
    matlab.savemat(buffer, arrays)
    return buffer.getvalue()


def parquet(**columns):
    buffer = io.BytesIO()
    pd.DataFrame(columns).to_parquet(buffer)
    return buffer.getvalue()


class _Bomb:
    """Loading its pickle would leave a trace."""

    def __reduce__(self):
        return (Path("exploded").touch, ())


X2 = np.ones((3, 2))
SPARSE_MAT = mat(features=csc_array(np.eye(3)), bag_ids=[1, 1, 1], labels=[1, 1, 1])
PICKLE = "it holds Python objects (a pickle), which are never loaded because a pickle can run code;"
ARFF = (
    "@relation x\n@attribute b {p,q}\n@attribute r relational\n@attribute f numeric\n"
    "@attribute g numeric\n@end r\n@attribute c {0,1}\n@data\n"
)
CASES = {
    "empty.npz": (b"", "the file is empty; if a download was interrupted, fetch it again."),
    "x.xyz": (b"what is this", "the format cannot be determined by the suffix '.xyz' or the"),
    # -- one truncated and one foreign file per format
    "cut.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]))[:-40], "it cannot be read as npz"),
    "text.npz": (b"hello there", PICKLE),
    "other.npz": (npz(a=X2), "a is not a set of bags; write bag files with milearn.datasets.save"),
    "cut.csv": (b"bag,label,f,g\na,1,2,3\na,1,2\n", "row 2, column 'g': the value is missing or"),
    "binary.csv": (b"\xff\xfe\x00a", "it cannot be read as csv (UnicodeDecodeError: "),
    "cut.parquet": (parquet(bag=["a"], x=[1.0])[:-9], "it cannot be read as parquet (ArrowInvalid"),
    "text.parquet": (b"hello there", "it cannot be read as parquet (ArrowInvalid: "),
    "cut.arff": ((ARFF + "p,'1,2',0\nq,'1,2").encode(), "it cannot be read as arff (BadLayout: "),
    "prose.arff": (b"Dear reader,\n", "it cannot be read as arff ("),
    "cut.mat": (mat(features=X2, bag_ids=[1, 1, 2], labels=[1, 1, 0])[:300],
                "it cannot be read as mat (ValueError: a part of a variable is cut off)"),
    "text.mat": (b"hello there", "it cannot be read as mat ("),
    "cut.svmlight": (b"1 qid:1 1:2 3\n", "it cannot be read as svmlight (ValueError: "),
    "prose.svmlight": (b"Dear reader,\n", "it cannot be read as svmlight (ValueError: "),
    "bag.npy": (b"hello there", "this is the file of one bag; read it by load_bag_folder."),
    "codes.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]), y=np.array([2]),
                      class_names=np.array(["a", "b"])),
                  "'y' holds other values than the positions of 2 names."),
    "promise.npz": (promise("feature_names", "<U0"),
                    "the array 'feature_names' is truncated; fetch or save the file again."),
    # -- pickles
    "object.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]),
                       y=np.array([_Bomb()], dtype=object)), PICKLE),
    "pickle.npz": (pickle.dumps(_Bomb()), PICKLE),
    # -- bags and lengths
    "hollow.npz": (npz(instances=X2, bag_offsets=np.array([0, 2, 2, 3])),
                   "Bag 1 is empty: every bag needs at least one instance; remove it."),
    "pointers.npz": (npz(data=np.ones(3), indices=np.zeros(3, dtype=int), shape=np.array([3, 2]),
                         indptr=np.array([0, 3, 65542, 0]), bag_offsets=np.array([0, 3])),
                     "it cannot be read as npz (ValueError: "),
    # -- tables
    "nobag.csv": (b"f,g\n1,2\n", "there is no column 'bag' for bag= among 'f', 'g'; name the"),
    "onlybag.csv": (b"bag,label\na,1\n", "there is no feature column apart from 'bag', 'label';"),
    "header.csv": (b"bag,f\n", "there is not a single instance in it; check the file."),
    "wide.csv": (b"bag,f\na,1,2\nb,1,2\n", "the rows have more columns than the header; check the"),
    "labels.csv": (b"bag,label,f\na,1,2\nb,0,2\na,0,3\n", "Bag 'a' has two labels, 1 and 0: a bag"),
    "text.csv": (b"bag,f\n,\na,1\n\na,red\n", "row 3, column 'f': 'red' is not a number; correct"),
    "noname.csv": (b"bag,label,f\na,1,2\n,1,3\n", "row 2 names no bag; fill the bag column."),
    # -- ARFF
    "flat.arff": (b"@relation x\n@attribute f numeric\n@attribute c {0,1}\n@data\n1,0\n",
                  "the header declares 0 relational attributes but bags need exactly one; for one"),
    "gap.arff": ((ARFF + "p,'1,2\\n3,?',0\n").encode(), "bag 'p', instance 2, column 'g': the val"),
    "extra.arff": (ARFF.replace("@end r", "@end r\n@attribute age numeric").encode(),
                   "the attributes 'b', 'age', 'c' are more than the name of the bag"),
    # -- MATLAB
    "hdf5.mat": (b"MATLAB 7.3".ljust(124) + b"\0\2IM", "this is a MATLAB 7.3 (HDF5) file, which"),
    "other.mat": (mat(X=X2), "the variable 'features' is missing or not a matrix of numbers; the"),
    "short.mat": (mat(features=X2, bag_ids=[1, 1], labels=[1, 1, 0]),
                  "'bag_ids' has 2 entries for 3 rows of 'features'; the arrays have inconsistent"),
    "rows.mat": (SPARSE_MAT.replace(struct.pack("<3i", 0, 1, 2), struct.pack("<3i", 0, 1, 1 << 30)),
                 "it cannot be read as mat (ValueError: "),
    # The difference of the pointers overflows.
    "columns.mat": (SPARSE_MAT.replace(struct.pack("<4i", 0, 1, 2, 3),
                                       struct.pack("<4i", 0, 1_577_058_319, -2_012_329_314, 3)),
                    "it cannot be read as mat (ValueError: "),
    "huge.mat": (SPARSE_MAT.replace(struct.pack("<4i", 5, 8, 3, 3),
                                    struct.pack("<4i", 5, 8, 2**31 - 1, 3)),
                 "'bag_ids' has 3 entries for 2147483647 rows of 'features'; the arrays have"),
    # -- svmlight
    "noqid.svmlight": (b"1 qid:1 1:2\n1 1:2\n", "bag_ids has shape (1,) for 2 instances: give one"),
    "inf.svmlight": (b"1 qid:1 1:nan\n", "a value is not a finite number; correct it."),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_clear_sentence(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, sentence = CASES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BagFileError) as caught:
        load_bags(path)
    assert str(caught.value).startswith(f"{path}: {sentence}")
    assert str(caught.value).endswith(".")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_an_error_without_a_text_is_named():
    """Such as those of liac-arff, whose texts are formats."""

    class Untold(Exception):
        def __str__(self):
            raise ValueError("unsupported format")

    with (
        pytest.raises(BagFileError, match=r"^x: it cannot be read as arff \(Untold\)"),
        file_name_in_errors("x", "arff"),
    ):
        raise Untold


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
        ({"missing": "drop"}, ValueError, "missing='drop' is unknown; choose one of error, nan."),
        ({"dtype": "int32"}, ValueError, "dtype='int32' is not supported; choose float64,"),
        ({"dtype": np.float16, "as_sparse": True}, ValueError,
         "dtype=float16 is for dense instances; choose float32 or float64."),
        ({"bag_data": ["age"]}, BagFileError, "{path}: there is no column 'age' for bag_data="),
        ({"n_features": 3}, BagFileError, "{path}: n_features= means nothing for the format"),
    ],
)  # fmt: skip
def test_options_that_mean_nothing(tmp_path, options, error, sentence):
    path = tmp_path / "x.csv"
    path.write_text("bag,f\na,1\n")
    with pytest.raises(error) as caught:
        load_bags(path, **options)
    assert str(caught.value).startswith(sentence.format(path=path))


DENSE = Bags(np.arange(12.0).reshape(6, 2), [0, 2, 3, 6])
TEXT = Bags.from_list([["A b.", "C"], ["D"], ["E"]])
OUTCOMES = survival_outcomes([True, False, True], [1.5, 2.0, 0.25])
SAVED = [
    ("xyz", DENSE, {}, "the format cannot be determined by the suffix '.xyz'; pass format= as"),
    ("csv", DENSE, {"split": [0, 0, 1]}, "the format 'csv' cannot hold split; leave that out or"),
    ("arff", DENSE, {"instance_names": list("abcdef"), "groups": [0, 0, 1]},
     "the format 'arff' cannot hold groups, instance_names; leave that out or save as .npz."),
    ("arff", DENSE, {"bag_names": ["a", "b", "a"]}, "the format 'arff' cannot hold bags of the sa"),
    ("csv", DENSE, {"y": np.eye(3)}, "the format 'csv' cannot hold several labels per bag; leave"),
    ("csv", DENSE, {"y": OUTCOMES}, "the format 'csv' cannot hold outcomes of survival analysis;"),
    ("csv", DENSE.with_instances(csc_array(DENSE.instances).tocsr()), {},
     "the format 'csv' cannot hold sparse instances; leave that out or save as .npz."),
    ("csv", DENSE.with_instances(DENSE.instances, feature_names=["bag", "f"]), {},
     "Two columns would be named 'bag': rename one."),
    ("npz", Bags.from_list([["\ud800"]]), {"y": None},
     "a text holds half a character ('utf-8' codec can't encode character '\\ud800' in position"),
    ("npz", DENSE, {"y": [1, 0]}, "y has shape (2,) for 3 bags: give one entry per bag."),
    ("npz", DENSE, {"y": [0, 1, 2], "classes": [0, 1]},
     "label 3: 2 is not among the classes 0, 1."),
    ("npz", DENSE, {"y": list("abc"), "classes": ["a", "b"]},
     "label 3: 'c' is not among the classes 'a', 'b'."),
    ("npz", DENSE, {"classes": ["a", "a"]}, "classes=['a', 'a'] must be a list of different texts"),
    ("csv", DENSE, {"y": ["1", "NA", "x"]},
     "the format 'csv' cannot hold texts as labels that read as numbers or missing; leave that"),
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


@pytest.mark.parametrize("form", ["npz", "npy-folder"])
def test_a_lack_of_memory_is_no_damage(tmp_path, monkeypatch, form):
    def full(*args, **options):
        raise MemoryError("Unable to allocate 1 TiB")

    path = tmp_path / "x"
    save_bags(path, Bags(X2, [0, 3]), [1], format=form)
    monkeypatch.setattr(np, "load", full)
    with pytest.raises(MemoryError, match="Unable to allocate 1 TiB"):
        load_bags(path, format=form)
