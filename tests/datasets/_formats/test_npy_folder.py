"""The folder of .npy files: memory maps, folders that exist, and damaged ones."""

from __future__ import annotations

import errno
import json
import os
import pickle

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags
from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.datasets._formats.npy_folder import HEAD
from tests._bags.kinds import KINDS, assert_same, matrix_of_bags


def bags_and_labels(dtype=np.float16):
    return KINDS["data"]().with_instances(matrix_of_bags(dtype)), np.array([0, 1, 1, 0])


def test_bags_that_are_mapped_are_saved_in_blocks(tmp_path):
    bags, y = bags_and_labels()
    save_bags(tmp_path / "x", bags, y, format="npy-folder")
    mapped = load_bags(tmp_path / "x", mmap=True).data[[2, 0]]
    save_bags(tmp_path / "y", mapped, y[[2, 0]], format="npy-folder")
    assert mapped._instances is None
    assert_same(load_bags(tmp_path / "y").data, bags[[2, 0]])


def test_a_folder_is_written_once(tmp_path):
    bags, y = bags_and_labels()
    save_bags(tmp_path / "x", bags, y, format="npy-folder")
    before = {path.name: path.read_bytes() for path in (tmp_path / "x").iterdir()}
    for name in ("empty", "x"):
        (tmp_path / name).mkdir(exist_ok=True)
        with pytest.raises(FileExistsError, match=f"{name}: this exists already; choose another"):
            save_bags(tmp_path / name, bags[1:], y[1:], format="npy-folder")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "x").iterdir()}


def test_a_failing_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    bags, y = bags_and_labels()
    for name in ("save", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(np if name == "save" else os, name, full)
            with pytest.raises(OSError, match="No space left on device"):
                save_bags(tmp_path / "x", bags, y, format="npy-folder")
        assert list(tmp_path.iterdir()) == []


def test_folders_of_version_0_3(tmp_path):
    bags, y = bags_and_labels()
    bags = Bags(bags.instances, bags.offsets, feature_names=list("abc"))
    bags = bags.with_bag_data({"age": [1, 2, 3, 4]})
    save_bags(tmp_path / "x", bags, y, format="npy-folder", descr="words")
    head = json.loads((tmp_path / "x" / HEAD).read_text())
    head |= {"feature_names": ["a", "b", "c"], "bag_data": ["age"], "descr": "words"}
    for name in ("feature_names.json", "bag_data.json", "bag_data_kinds", "DESCR"):
        (tmp_path / "x" / head["arrays"].pop(name)["file"]).unlink()
    (tmp_path / "x" / HEAD).write_text(json.dumps(head | {"version": 1, "instance_data": []}))
    again = load_bags(tmp_path / "x", mmap=True)
    assert_same(again.data, bags)
    assert again.DESCR == "words"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda head: "{", "it cannot be read as npy-folder"),
        (lambda head: json.dumps({"arrays": {}}), "no array is not a set of bags"),
        # No file outside of the folder is read.
        (lambda head: head.replace('"y.npy"', '"../z.npy"'), "FileNotFoundError"),
    ],
)
def test_damaged_folders(tmp_path, change, sentence):
    bags, y = bags_and_labels()
    save_bags(tmp_path / "x", bags, y, format="npy-folder")
    np.save(tmp_path / "z.npy", y)
    head, file = tmp_path / "x" / HEAD, tmp_path / "x" / "instances.npy"
    whole = head.read_text()
    head.write_text(change(whole))
    with pytest.raises(BagFileError, match=sentence):
        load_bags(tmp_path / "x")
    head.write_text(whole)
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(BagFileError, match="it cannot be read as npy-folder"):
        load_bags(tmp_path / "x", mmap=True)


@pytest.mark.parametrize("form", ["npy-folder", "npz"])
def test_characters_that_do_not_exist(tmp_path, form):
    bags, y = bags_and_labels()
    save_bags(tmp_path / "x", bags, y, format="npy-folder", descr="words")
    text = np.load(tmp_path / "x" / "DESCR.npy").reshape(1)
    text.view("u4")[0] = 0x110000
    np.save(tmp_path / "x" / "DESCR.npy", text)
    path = tmp_path / "x"
    if form == "npz":
        path = tmp_path / "x.npz"
        np.savez(path, **{each.stem: np.load(each) for each in (tmp_path / "x").glob("*.npy")})
    with pytest.raises(BagFileError, match="the texts of 'DESCR' are damaged"):
        load_bags(path)


def test_sparse_parts_are_mapped(tmp_path):
    matrix = sparse.random_array((50, 7), density=0.3, format="csr", random_state=0)
    bags = Bags(matrix, [0, 20, 50], bag_graph=np.eye(2))
    save_bags(tmp_path / "x", bags, format="npy-folder")
    mapped = load_bags(tmp_path / "x", mmap=True).data
    base = mapped.instances.data
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert base is not None
    assert_same(mapped[[1]], bags[[1]])


def test_offsets_of_many_bags_stay_in_the_file(tmp_path):
    n = 200_000
    bags = Bags(np.arange(n, dtype=np.float16).reshape(-1, 1), np.arange(n + 1))
    save_bags(tmp_path / "x", bags, format="npy-folder")
    mapped = load_bags(tmp_path / "x", mmap=True).data
    assert len(pickle.dumps(mapped)) < 10_000
    part = mapped[1_000:-1_000][5:]
    # First row and offset of each bag, and no row.
    assert len(pickle.dumps(part)) < 8 * len(part) + 10_000
    again = pickle.loads(pickle.dumps(part))
    assert_same(again, bags[1_005:-1_000])
