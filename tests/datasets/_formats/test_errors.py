"""A file that is damaged, unknown or dangerous ends in a sentence that says what is wrong."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from milearn import Bags
from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.datasets._errors import file_name_in_errors


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


def parquet(**columns):
    buffer = io.BytesIO()
    pd.DataFrame(columns).to_parquet(buffer)
    return buffer.getvalue()


class _Bomb:
    """Loading its pickle would leave a trace."""

    def __reduce__(self):
        return (Path("exploded").touch, ())


X2 = np.ones((3, 2))
PICKLE = "it holds Python objects (a pickle), which are never loaded because a pickle can run code;"
SUFFIXES = "is not one of .npz, .csv, .tsv and .parquet; for ARFF, MATLAB and svmlight files see"
CASES = {
    "empty.npz": (b"", "the file is empty; if a download was interrupted, fetch it again."),
    "x.xyz": (b"what is this", f"the suffix '.xyz' {SUFFIXES}"),
    "musk.arff": (b"@relation musk", f"the suffix '.arff' {SUFFIXES}"),
    "musk.mat": (b"MATLAB 5.0", f"the suffix '.mat' {SUFFIXES}"),
    "bag.npy": (b"hello there", "this is the file of one bag; read it by load_bag_folder."),
    # -- npz
    "cut.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]))[:-40], "it cannot be read as npz"),
    "text.npz": (b"hello there", PICKLE),
    "other.npz": (npz(a=X2), "a is not a set of bags; write bag files with milearn.datasets.save"),
    "codes.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]), y=np.array([2]),
                      class_names=np.array(["a", "b"])),
                  "'y' holds other values than positions of 2 names."),
    "promise.npz": (promise("feature_names", "<U0"),
                    "the array 'feature_names' is truncated; fetch or save the file again."),
    "object.npz": (npz(instances=X2, bag_offsets=np.array([0, 3]),
                       y=np.array([_Bomb()], dtype=object)), PICKLE),
    "pickle.npz": (pickle.dumps(_Bomb()), PICKLE),
    "hollow.npz": (npz(instances=X2, bag_offsets=np.array([0, 2, 2, 3])),
                   "Bag 1 is empty: every bag needs at least one instance; remove it."),
    "pointers.npz": (npz(data=np.ones(3), indices=np.zeros(3, dtype=int), shape=np.array([3, 2]),
                         indptr=np.array([0, 3, 65542, 0]), bag_offsets=np.array([0, 3])),
                     "it cannot be read as npz (ValueError: "),
    # -- tables
    "quote.csv": (b'bag,f\na,"1\n', "it cannot be read as csv by pandas (ParserError: "),
    "binary.csv": (b"\xff\xfe\x00a", "it cannot be read as csv by pandas (UnicodeDecodeError: "),
    "cut.parquet": (parquet(bag=["a"], x=[1.0])[:-9],
                    "it cannot be read as parquet by pandas (ArrowInvalid"),
    "nobag.csv": (b"f,g\n1,2\n", "there is no column 'bag' for bag= among 'f', 'g'; name the c"),
    "semicolon.csv": (b"bag;f\na;2\n", "the columns are separated by ';': pass the frame of"),
    "onlybag.csv": (b"bag,label\na,1\n", "The frame has no feature columns: bags need at least"),
    "header.csv": (b"bag,f\n", "there is not a single instance in it; check the file."),
    "wide.csv": (b"bag,f\na,1,2\nb,1,2\n", "the rows have more columns than the header; check sep"),
    "labels.csv": (b"bag,label,f\na,1,2\nb,0,2\na,0,3\n", "Bag 'a' has two labels, 1 and 0: a bag"),
    "text.csv": (b"bag,f\na,1\na,red\n", "Column 'f' holds text ('1', 'red'), which is not a num"),
    "noname.csv": (b"bag,label,f\na,1,2\n,1,3\n", "bag_ids (column 'bag') is missing for row 1"),
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
    class Untold(Exception):
        def __str__(self):
            raise ValueError("unsupported format")

    with (
        pytest.raises(BagFileError, match=r"^x: it cannot be read as csv \(Untold\)"),
        file_name_in_errors("x", "csv"),
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
    ("name", "options", "error", "sentence"),
    [
        ("x.csv", {"format": "csv"}, TypeError, "There is no 'format' of load_bags"),
        ("x.csv", {"rows": 3}, TypeError, "got an unexpected keyword argument 'rows'"),
        ("x.csv", {"sep": 3}, BagFileError, "{path}: it cannot be read as csv by pandas ("),
        ("x.csv", {"missing": "no"}, BagFileError, "{path}: missing='no' is unknown; choose one"),
        ("x.csv", {"dtype": "int32"}, ValueError, "dtype='int32' is not supported; choose float"),
        ("x.csv", {"dtype": np.float16, "as_sparse": True}, ValueError,
         "dtype=float16 is for dense instances; choose float32 or float64."),
        ("x.csv", {"bag_data": ["age"]}, BagFileError, "{path}: The table has no column 'age'"),
        ("x.csv", {"label": "age"}, BagFileError, "{path}: there is no column 'age' for label="),
        ("x.csv", {"mmap": True}, BagFileError, "{path}: only a folder of save_bags(..., form"),
        ("x.npz", {"sep": ";"}, BagFileError, "{path}: sep= is for tables, and this is npz; leave"),
        ("x.npz", {"bag": "b"}, BagFileError, "{path}: bag= is for tables, and this is npz; leave"),
        ("x.npz", {"classes": ["a", "a"]}, ValueError, "classes=['a', 'a'] must be a list of diff"),
    ],
)  # fmt: skip
def test_options_that_mean_nothing(tmp_path, name, options, error, sentence):
    path = tmp_path / name
    path.write_text("bag,f\na,1\n")
    with pytest.raises(error) as caught:
        load_bags(path, **options)
    assert str(caught.value).startswith(sentence.format(path=path))


DENSE = Bags(np.arange(12.0).reshape(6, 2), [0, 2, 3, 6])
TABLE = "save_bags writes .npz, or a folder with format='npy-folder'; a table is written by X.to_"
SAVED = [
    ("csv", DENSE, {}, TABLE),
    ("arff", DENSE, {}, TABLE),
    ("npz", DENSE, {"format": "csv"}, "format='csv' is unknown; choose one of npz, npy-folder."),
    ("npz", DENSE, {"y": [1, 0]}, "y has shape (2,) for 3 bags: give one entry per bag."),
    ("npz", DENSE, {"y": [0, 1, 2], "classes": [0, 1]},
     "the label of bag 2 is 2, and not one of the classes 0, 1."),
    ("npz", DENSE, {"y": list("abc"), "classes": ["a", "b"]},
     "the label of bag 2 is 'c', and not one of the classes 'a', 'b'."),
    ("npz", DENSE, {"y": [1, "a", None]}, "label holds Python objects (int, str): pass numbers, "),
    ("npz", DENSE, {"groups": ["a", None, "b"]}, "groups is missing for row 1: give every row an"),
    ("npz", DENSE, {"classes": ["a", "a"]}, "classes=['a', 'a'] must be a list of different texts"),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "bags", "given", "sentence"), SAVED)
def test_nothing_is_dropped_silently(tmp_path, suffix, bags, given, sentence):
    path = tmp_path / f"x.{suffix}"
    path.write_text("old")
    with pytest.raises((ValueError, TypeError), match=r"\.$") as caught:
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
        load_bags(path)
