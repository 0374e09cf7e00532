"""The folder of .npy files: round trips, memory maps, and saves that end in the middle."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags
from milearn.datasets import BagFileError, load_bags, save_bags
from milearn.datasets._formats import npy_folder
from milearn.datasets._formats.record import BagRecord
from tests._bags.kinds import KINDS, assert_same, matrix_of_bags


def bags_and_labels(dtype=np.float16):
    return KINDS["data"]().with_instances(matrix_of_bags(dtype)), np.array([0, 1, 1, 0])


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_bags_that_are_mapped_are_saved_in_blocks(tmp_path):
    bags, y = bags_and_labels()
    save_bags(tmp_path / "x", bags, y, format="npy-folder")
    mapped = load_bags(tmp_path / "x", mmap=True).data[[2, 0]]
    npy_folder.write_npy_folder(tmp_path / "y", BagRecord(mapped, y[[2, 0]]))
    assert mapped._instances is None
    again = load_bags(tmp_path / "y")
    assert_same(again.data, bags[[2, 0]])


# -- what is there while and after a save ends in the middle ------------------------------------


def test_a_new_version_replaces_the_old_one(tmp_path):
    bags, y = bags_and_labels()
    save_bags(tmp_path / "x", bags, y, format="npy-folder")
    old = load_bags(tmp_path / "x", mmap=True).data
    stored = pickle.dumps(old)
    save_bags(tmp_path / "x", bags[1:], y[1:], format="npy-folder")
    assert_same(load_bags(tmp_path / "x").data, bags[1:])
    assert_same(old, bags)
    # Nothing of the old version is left, so that its pickle does not take the data of the new.
    with pytest.raises(FileNotFoundError, match="to which pickled Bags refer, is gone"):
        pickle.loads(stored)
    assert os.listdir(tmp_path) == ["x"]
    assert len(list((tmp_path / "x").iterdir())) == 1 + len(
        json.loads((tmp_path / "x" / npy_folder.HEAD).read_text())["arrays"]
    )


def test_an_empty_folder_gives_way_and_other_things_do_not(tmp_path):
    bags, y = bags_and_labels()
    (tmp_path / "x").mkdir()
    save_bags(tmp_path / "x", bags, y, format="npy-folder")
    assert_same(load_bags(tmp_path / "x").data, bags)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for name in ("other", "file"):
        with pytest.raises(BagFileError, match="this exists and is not a folder of bags"):
            save_bags(tmp_path / name, bags, y, format="npy-folder")
    assert (tmp_path / "other" / "thesis.tex").read_text() == "precious"
    assert (tmp_path / "file").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["file", "other", "x"]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_version_or_nothing(tmp_path, monkeypatch, there, fails):
    bags, y = bags_and_labels()
    if there:
        save_bags(tmp_path / "x", bags, y, format="npy-folder")
    before = files_of(tmp_path / "x") if there else None
    # With a version there the head is what comes last, else the folder is all.
    real, left = getattr(os, fails), [3 if fails == "fsync" else 5 * there]

    def failing(*args, **options):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, fails, failing)
        with pytest.raises(OSError, match="No space left on device"):
            save_bags(tmp_path / "x", bags[:2], y[:2], format="npy-folder")
    assert os.listdir(tmp_path) == (["x"] if there else [])
    assert not there or files_of(tmp_path / "x") == before


_KILLED = """
import itertools, os, signal
from pathlib import Path
from milearn.datasets import load_bags, save_bags

bags = load_bags({source!r}).data

def until_killed(real, left):
    def call(*args, **options):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return call

for folder, step in itertools.product({folders!r}, range({steps})):
    child = os.fork()
    if child == 0:
        left = [step]
        # Nothing is lost with a process that was written before: the disk need not be waited for.
        os.fsync = lambda file: None
        for name in ("mkdir", "fsync", "replace", "unlink"):
            setattr(os, name, until_killed(getattr(os, name), left))
        save_bags(Path(folder) / f"x{{step}}", bags[:2], [1, 1], format="npy-folder")
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no kill -9 on this system")
def test_a_killed_save_leaves_the_old_version_or_nothing(tmp_path, monkeypatch):
    # Killed before each call that makes something durable or visible; the last one gets through.
    monkeypatch.setattr(os, "fsync", lambda file: None)
    steps = 30
    bags, y = bags_and_labels()
    save_bags(tmp_path / "source", bags, y, format="npy-folder")
    folders = tmp_path / "nothing", tmp_path / "old"
    for folder in folders:
        folder.mkdir()
    for step in range(steps):
        save_bags(folders[1] / f"x{step}", bags, y, format="npy-folder")
    names = [str(folder) for folder in folders]
    code = _KILLED.format(source=str(tmp_path / "source"), folders=names, steps=steps)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=Path(__file__).parents[3], check=True
    )
    ends = done.stdout.decode().split()
    killed = str(signal.SIGKILL.value)
    for folder, parts in zip(folders, (ends[:steps], ends[steps:]), strict=True):
        outcomes = {_outcome(folder / f"x{step}", end) for step, end in enumerate(parts)}
        assert outcomes == {(killed, folder.name), (killed, "new"), ("0", "new")}


def _outcome(target, end):
    """How a save ended and which version is there; the next save succeeds, whatever is left."""
    if not target.exists():
        return end, "nothing"
    bags, y = bags_and_labels()
    found = load_bags(target)
    whole = len(found.data) == 4
    assert_same(found.data, bags if whole else bags[:2])
    assert found.target.tolist() == (y.tolist() if whole else [1, 1])
    save_bags(target, bags, y, format="npy-folder")
    assert_same(load_bags(target).data, bags)
    return end, "old" if whole else "new"


# -- damaged folders ---------------------------------------------------------------------------


def file_of(folder, key):
    head = json.loads((folder / npy_folder.HEAD).read_text())
    return folder / head["arrays"][key]["file"]


@pytest.fixture
def folder(tmp_path):
    bags, y = bags_and_labels()
    save_bags(tmp_path / "x", bags, y, format="npy-folder")
    return tmp_path / "x"


def changed_head(folder, change):
    head = json.loads((folder / npy_folder.HEAD).read_text())
    change(head)
    (folder / npy_folder.HEAD).write_text(json.dumps(head))


def test_files_that_are_missing_elsewhere_cut_or_of_another_type(folder):
    shutil.copy(file_of(folder, "y"), folder.parent / "y.npy")
    file = file_of(folder, "instances")
    whole = file.read_bytes()
    file.write_bytes(whole[:-2])
    with pytest.raises(BagFileError, match=r"instances-\w+\.npy has \d+ bytes instead of \d+"):
        load_bags(folder)
    file.write_bytes(whole.replace(b"<f2", b"<i2"))
    with pytest.raises(BagFileError, match=r"is not the array that bags\.json describes"):
        load_bags(folder, mmap=True)
    file.write_bytes(whole)
    for name in ("../y.npy", str(folder.parent / "y.npy"), "gone.npy", ""):
        changed_head(folder, lambda head, name=name: head["arrays"]["y"].update(file=name))
        with pytest.raises(BagFileError, match="of the array 'y' is missing"):
            load_bags(folder)


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"n_bags": "gone"}, "lacks an entry or has one of the wrong type"),
        ({"arrays": "gone"}, "lacks an entry or has one of the wrong type"),
        ({"format": "other"}, "is not the head of a folder of bags"),
        ({"version": 2}, "has the version 2, but this milearn knows 1 to 1"),
        ({"n_bags": 5}, r"declares \(5, 8, 3\) bags, instances and features but"),
        ({"n_bags": -1}, r"declares \(-1, 8, 3\) bags, instances and features but"),
        ({"feature_names": 3}, "lacks an entry or has one of the wrong type"),
        ({"instance_data": [3]}, "lacks an entry or has one of the wrong type"),
        ({"instance_data": ["a", "b", "c"]}, "names 3 arrays, of which one is missing"),
        ({"arrays": {}}, "neither 'instances' nor"),
        ({"feature_names": ["a"]}, "feature_names has 1 names for 3 features"),
    ],
)
def test_a_head_that_is_wrong(folder, entries, sentence):
    def change(head):
        head.update(entries)
        for name in [name for name, value in head.items() if value == "gone"]:
            del head[name]

    changed_head(folder, change)
    with pytest.raises(BagFileError, match=sentence):
        load_bags(folder)


def test_a_head_that_is_no_json(folder):
    for text in ("", "{", "[" * 100_000, "[1]", '{"n_bags": ' + "9" * 5000 + "}"):
        (folder / npy_folder.HEAD).write_text(text)
        with pytest.raises(BagFileError, match=r"bags\.json (cannot be read|is not the head)"):
            load_bags(folder)


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
