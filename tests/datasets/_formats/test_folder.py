"""Folders with one file per bag, each layout written by its own library, and what is refused."""

from __future__ import annotations

import errno
import os
import random
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from milearn._bags.rows_on_disk import is_mapped
from milearn.datasets import BagFileError, load_bag_folder, load_bags
from milearn.datasets._formats import folder as reading
from milearn.survival import survival_outcomes
from tests.datasets.fuzz import mutate

SIZES = {"slide_1": 3, "slide_2": 5, "slide_10": 2}


def blocks(dtype=np.float32, sizes=None, width=4):
    rng = np.random.default_rng(0)
    made = {}
    for name, size in (sizes or SIZES).items():
        values = rng.normal(size=(size, width)).astype(dtype)
        made[name] = (values, rng.integers(0, 9999, size=(size, 2)))
    return made


def write_h5(folder, name, lead=False, compression=None, **arrays):
    h5py = pytest.importorskip("h5py", reason="HDF5 files need h5py")
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / f"{name}.h5", "w") as file:
        for key, values in arrays.items():
            values = values[np.newaxis] if lead else values
            chunks = (1,) * (values.ndim - 1) + values.shape[-1:] if values.size else None
            file.create_dataset(key, data=values, chunks=chunks, compression=compression)


def assert_blocks(bunch, made, names, *, coords=True):
    assert bunch.bag_names.tolist() == list(names)
    assert len(bunch.data) == len(names)
    for bag, name in zip(bunch.data, names, strict=True):
        np.testing.assert_array_equal(bag, made[name][0])
    if coords:
        expected = np.concatenate([made[name][1] for name in names])
        found = bunch.data.instance_data[["coords_0", "coords_1"]]
        np.testing.assert_array_equal(found, expected)
    else:
        assert bunch.data.instance_data.empty


def listed(error):
    """Bags that an error names, with what it says of them."""
    lines = str(getattr(error, "value", error)).splitlines()[1:]
    return dict(line.strip().split(": ", 1) for line in lines if ": " in line)


# -- layouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [False, True])
@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_hdf5_as_trident_writes_it(tmp_path, lead, compression, n_jobs):
    made = blocks()
    for name, (features, coords) in made.items():
        write_h5(tmp_path, name, lead, compression, features=features, coords=coords)
    (tmp_path / "config.json").write_text("{}")
    table = pd.DataFrame(
        {
            "case_id": ["p2", "p1", "p2"],
            "slide_id": ["slide_10.svs", "slide_1.svs", "slide_2.svs"],
            "label": ["tumour", "normal", "tumour"],
            "split": ["train", "test", "val"],
        }
    )
    bunch = load_bag_folder(tmp_path, table, n_jobs=n_jobs)
    assert_blocks(bunch, made, ["slide_10", "slide_1", "slide_2"])
    assert bunch.data.dtype == np.float32
    assert bunch.target.tolist() == ["tumour", "normal", "tumour"]
    assert bunch.classes.tolist() == ["normal", "tumour"]
    assert bunch.groups.tolist() == ["p2", "p1", "p2"]
    assert bunch.split.tolist() == [0, 1, 2]
    assert bunch.dropped == {}
    assert bunch.filename == str(tmp_path)


@pytest.mark.parametrize("kind", ["npy", "npz", "compressed"])
def test_arrays_without_a_table_are_in_the_order_of_the_names(tmp_path, kind):
    made = blocks(np.float64)
    for name, (features, coords) in made.items():
        if kind == "npy":
            # Fortran's order and a leading axis are what other programs leave behind.
            np.save(tmp_path / f"{name}.npy", np.asfortranarray(features)[np.newaxis])
        else:
            save = np.savez if kind == "npz" else np.savez_compressed
            save(tmp_path / f"{name}.npz", x=features, coords=coords, other=np.ones(99))
    bunch = load_bag_folder(tmp_path, key="x")
    assert_blocks(bunch, made, sorted(SIZES), coords=kind != "npy")
    assert bunch.target is None
    assert not {"groups", "split"} & {*bunch}
    plain = load_bag_folder(tmp_path, key="x", coords=None)
    assert_blocks(plain, made, sorted(SIZES), coords=False)


def test_clam_keeps_coordinates_in_h5_and_features_in_pt_or_in_both(tmp_path):
    made = blocks()
    for name, (features, coords) in made.items():
        write_h5(tmp_path / "h5_files", name, features=features, coords=coords)
    (tmp_path / "pt_files").mkdir()
    (tmp_path / "labels.csv").write_text(
        "case_id,slide_id,label\na,slide_1,1\na,slide_2,0\nb,slide_10,\n"
    )
    with pytest.raises(BagFileError, match="keep bags whose label is an empty cell") as error:
        load_bag_folder(tmp_path, tmp_path / "labels.csv")
    assert listed(error) == {"slide_10": "the column 'label' is empty"}
    bunch = load_bag_folder(tmp_path, tmp_path / "labels.csv", missing="nan")
    assert_blocks(bunch, made, ["slide_1", "slide_2", "slide_10"])
    np.testing.assert_array_equal(bunch.target, [1, 0, np.nan])
    torch = pytest.importorskip("torch", reason=".pt files need torch")
    for name, (features, coords) in made.items():
        torch.save(torch.from_numpy(features), tmp_path / "pt_files" / f"{name}.pt")
        write_h5(tmp_path / "h5_files", name, coords=coords)
    assert_blocks(load_bag_folder(tmp_path), made, sorted(SIZES))


def test_clam_with_files_in_one_of_both_folders(tmp_path):
    """Any suffix is read in both folders, and positions may be missing."""
    made = blocks()
    for (name, (features, _)), folder in zip(
        made.items(), ("h5_files", "pt_files", "pt_files"), strict=True
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        np.savez(tmp_path / folder / f"{name}.npz", features=features)
    assert_blocks(load_bag_folder(tmp_path), made, sorted(SIZES), coords=False)


def test_pt_tensors_dicts_and_bfloat16(tmp_path):
    torch = pytest.importorskip("torch", reason=".pt files need torch")
    made = blocks(np.float16)
    for number, (name, (features, coords)) in enumerate(made.items()):
        tensors = {"features": torch.from_numpy(features), "coords": torch.from_numpy(coords)}
        torch.save(tensors, tmp_path / f"{name}.pt", _use_new_zipfile_serialization=number > 0)
    bunch = load_bag_folder(tmp_path)
    assert_blocks(bunch, made, sorted(SIZES))
    assert bunch.data.dtype == np.float16
    for name, (features, _) in made.items():
        # Few digits: bfloat16 has 8 bits.
        made[name] = (np.round(features.astype(np.float32)), None)
        torch.save(torch.from_numpy(made[name][0]).bfloat16(), tmp_path / f"{name}.pt")
    bunch = load_bag_folder(tmp_path)
    assert_blocks(bunch, made, sorted(SIZES), coords=False)
    assert bunch.data.dtype == np.float32


def test_pt_files_with_code_in_them_are_refused_and_nothing_runs(tmp_path):
    torch = pytest.importorskip("torch", reason=".pt files need torch")

    class Bomb:
        def __reduce__(self):
            return (Path(tmp_path / "exploded").touch, ())

    torch.save(Bomb(), tmp_path / "a.pt")
    torch.save([1, 2], tmp_path / "b.pt")
    with pytest.raises(BagFileError) as error:
        load_bag_folder(tmp_path)
    assert set(listed(error)) == {"a", "b"}
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", ["npy", "h5"])
def test_torchmil_folders_and_splits(tmp_path, nested, kind):
    made = blocks()
    labels = {"slide_1": 1, "slide_2": 0, "slide_10": 1}
    features = tmp_path / "features" / ("features_UNI" if nested else "")
    instance_labels = {}
    for name, (values, coords) in made.items():
        instance_labels[name] = np.arange(len(values)) % 2
        parts = {
            features: ("features", values),
            tmp_path / "coords": ("coords", coords),
            tmp_path / "labels": ("labels", np.array([labels[name]])),
            tmp_path / "inst_labels": ("inst_labels", instance_labels[name][:, np.newaxis]),
        }
        for folder, (key, array) in parts.items():
            folder.mkdir(parents=True, exist_ok=True)
            if kind == "npy":
                np.save(folder / f"{name}.npy", array)
            else:
                write_h5(folder, name, **{key: array})
    names = ["slide_2", "slide_1", "slide_10"]
    rows = [f"{name},{part}" for name, part in zip(names, ("train", "test", "train"), strict=True)]
    (tmp_path / "splits.csv").write_text("\n".join(["bag_name,split", *rows]))
    bunch = load_bag_folder(tmp_path)
    assert_blocks(bunch, made, names)
    assert bunch.split.tolist() == [0, 1, 0]
    assert bunch.target.tolist() == [labels[name] for name in names]
    expected = np.concatenate([instance_labels[name] for name in names])
    np.testing.assert_array_equal(bunch.instance_labels, expected)
    (tmp_path / "labels" / f"slide_1.{kind}").unlink()
    with pytest.raises(BagFileError, match="1 of 3 bags") as error:
        load_bag_folder(tmp_path)
    assert f"labels/slide_1.{kind}" in listed(error)["slide_1"]


# -- tables --------------------------------------------------------------------------------------


TABLES = {
    "pandas": lambda frame, path: frame,
    "polars": lambda frame, path: pl.from_pandas(frame),
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "parquet": lambda frame, path: frame.to_parquet(path),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("mmap", [False, True])
def test_a_path_and_a_frame_of_one_table(tmp_path, kind, mmap):
    (tmp_path / "bags").mkdir()
    for name in ("007", "7", "008"):
        np.save(tmp_path / "bags" / f"{name}.npy", np.full((1, 2), float(name)))
    frame = pd.DataFrame(
        {
            "slide": ["7", "008", "007"],
            "grade": [True, False, True],
            "hospital": ["01", "1", "x"],
            "fold": [0, 1, 2],
            "site": ["y", "x", None],
            "age": [71.0, None, 64.5],
        }
    )
    path = tmp_path / f"t.{kind}"
    table = TABLES[kind](frame, path)
    bunch = load_bag_folder(
        tmp_path / "bags", path if table is None or kind == "parquet" else table, bag="slide",
        label="grade", group="hospital", split="fold", bag_data=["age", "site"],
        mmap=mmap and tmp_path / "map",
    )  # fmt: skip
    assert bunch.bag_names.tolist() == ["7", "008", "007"]
    assert bunch.data.instances[:, 0].tolist() == [7.0, 8.0, 7.0]
    assert bunch.target.tolist() == [True, False, True]
    assert bunch.groups.tolist() == ["01", "1", "x"]
    assert bunch.split.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(bunch.data.bag_data["age"], [71, np.nan, 64.5])
    assert bunch.data.bag_data["site"].isna().tolist() == [False, False, True]
    assert bunch.data.bag_data["site"].tolist()[:2] == ["y", "x"]


def test_paths_and_numbers_name_files(tmp_path):
    for name in ("1", "2"):
        np.save(tmp_path / f"{name}.npy", np.ones((1, 2)))
    table = pd.DataFrame({"filename": ["raw/2.svs", "C:\\raw\\1.ome.tiff"]})
    assert load_bag_folder(tmp_path, table).bag_names.tolist() == ["2", "1"]
    numbers = pd.DataFrame({"Slide_ID": [2.0, 1.0], "label": [5, 6]})
    for frame in (numbers, numbers.set_index("Slide_ID")):
        bunch = load_bag_folder(tmp_path, frame)
        assert bunch.bag_names.tolist() == ["2", "1"]
        assert bunch.target.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("table", "options", "error", "match"),
    [
        ({"x": ["a"]}, {}, BagFileError, "no column 'bag' for bag= among 'x'; .* with bag="),
        ({"x;bag": ["1;a"]}, {}, BagFileError, r"separated by ';': pass the frame of pandas"),
        ({"bag": ["z"]}, {}, BagFileError, r"value of 'bag' \('z'\) is the name of a file \('a'\)"),
        ({"bag": ["a"]}, {"label": "y"}, BagFileError, "no column 'y' for label= among 'bag'"),
        ({"bag": ["a"]}, {"bag": "y"}, BagFileError, "no column 'y' for bag= among 'bag'"),
        ({"bag": ["a"]}, {"bag_data": ["y"]}, BagFileError, "no column 'y' for bag_data= among"),
        ("none.csv", {}, FileNotFoundError, "there is no such table"),
        ("a.npy", {}, BagFileError, "a table is one of '.csv', '.tsv', "),
        ("cut.csv", {}, BagFileError, r"cannot be read as csv by pandas \(ParserError: "),
        (None, {"label": "y"}, ValueError, "label= without a table"),
        (None, {"bag_data": ["age"]}, BagFileError, "bag_data= without a table"),
    ],
)
def test_tables_that_do_not_fit(tmp_path, table, options, error, match):
    np.save(tmp_path / "a.npy", np.ones((1, 2)))
    (tmp_path / "cut.csv").write_text('bag,label\na,1\n"b')
    table = tmp_path / table if isinstance(table, str) else table
    with pytest.raises(error, match=match):
        load_bag_folder(
            tmp_path, pd.DataFrame(table) if isinstance(table, dict) else table, **options
        )


def outcome_folder(folder, events, times):
    for name in "abc":
        np.save(folder / f"{name}.npy", np.ones((2, 2)))
    return pd.DataFrame({"bag": list("cab"), "died": events, "days": times})


@pytest.mark.parametrize("events", [[1, 0, 1], [True, False, True], [1.0, 0.0, 1.0]])
def test_two_columns_are_outcomes(tmp_path, events):
    table = outcome_folder(tmp_path, events, [3.5, 2.0, 9.0])
    table.to_csv(tmp_path / "t.csv", index=False)
    expected = survival_outcomes([True, False, True], [3.5, 2.0, 9.0])
    for given, mmap in ((table, False), (tmp_path / "t.csv", False), (table, tmp_path / "map")):
        bunch = load_bag_folder(tmp_path, given, label=("died", "days"), mmap=mmap)
        np.testing.assert_array_equal(bunch.target, expected)
        assert bunch.target.dtype == expected.dtype
        assert "classes" not in bunch


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        (("died", "days"), "a: the column 'days' is empty\n  b: the column 'died' is empty"),
        (("two", "ill"), "event holds 2 for bag 'a': pass True for an observed"),
        (("ill", "soon"), r"time holds text \('x', 'y', \.\.\.\), which is not a number"),
        (("died", "hours"), "no column 'hours' for label= among 'bag', 'died'"),
        (("died", "days", "bag"), "must be one column, or the event and the time"),
    ],
)
def test_columns_that_are_no_outcomes(tmp_path, label, sentence):
    table = outcome_folder(tmp_path, [1, 0, None], [3.5, np.nan, 2.0])
    table = table.assign(ill=[1, 0, 1], two=[1, 2, 0], soon=["x", "y", "z"])
    with pytest.raises(BagFileError, match=sentence):
        load_bag_folder(tmp_path, table, label=label)


# -- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        (("f2", "f2"), "f2"),
        (("f4", "f4"), "f4"),
        (("f8", "f8"), "f8"),
        (("f2", "f4"), "f4"),
        ((">f4", ">f4"), "f4"),
        (("u1", "i2"), "f4"),
        (("i4", "f2"), "f8"),
        (("?", "f2"), "f4"),
    ],
)
def test_types_are_kept_where_bags_hold_them(tmp_path, stored, kept):
    made = {}
    for name, dtype in zip("ab", stored, strict=True):
        values = np.array([[0, 1], [1, 1]]).astype(dtype)
        made[name] = (values, None)
        np.save(tmp_path / f"{name}.npy", values)
    bunch = load_bag_folder(tmp_path)
    assert_blocks(bunch, made, "ab", coords=False)
    assert bunch.data.dtype == np.dtype(kept)
    for wanted in (np.float16, "float32", float):
        bunch = load_bag_folder(tmp_path, dtype=wanted)
        assert_blocks(bunch, made, "ab", coords=False)
        assert bunch.data.dtype == np.dtype(wanted)


# -- everything that is wrong, in one error ------------------------------------------------------


def test_all_that_is_wrong_with_a_folder_stands_in_one_error(tmp_path):
    two, places = np.ones((2, 4)), np.ones((2, 2))
    for name, features, coords in (
        *((name, two, places) for name in ("good", "fine", "unlisted")),
        ("empty", np.ones((0, 4)), np.ones((0, 2))),
        ("wide", np.ones((2, 5)), places),
        ("flat", np.ones(4), np.ones((4, 2))),
        ("off", two, np.ones((3, 2))),
        ("cube", two, np.ones((2, 3))),
    ):
        write_h5(tmp_path, name, features=features, coords=coords)
    write_h5(tmp_path, "deep", features=np.ones((2, 2, 4)))
    write_h5(tmp_path, "nameless", feats=two)
    write_h5(tmp_path, "lost", features=two)
    write_h5(tmp_path, "text", features=np.full((2, 4), b"x"))
    (tmp_path / "broken.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"x" * 90)
    np.save(tmp_path / "cut.npy", np.ones((2, 4)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-8])
    np.save(tmp_path / "pickle.npy", np.array([[{}]]), allow_pickle=True)
    (tmp_path / "zip.npz").write_bytes(b"PK\3\4 and no more")
    names = [path.stem for path in tmp_path.iterdir() if path.stem != "unlisted"]
    table = pd.DataFrame({"bag": [*names, "gone", "good", None], "label": 1, "case_id": "p"})
    table.loc[table.bag == "fine", "case_id"] = None
    with pytest.raises(BagFileError) as error:
        load_bag_folder(tmp_path, table)
    found = listed(error)
    expected = {
        "unlisted": "no row",
        "gone": "no file",
        "good": "two rows",
        "row 18 of the table": "names no bag",
        "fine": "'case_id' is empty",
        "empty": "empty='drop'",
        "wide": "5 features but",
        "flat": r"shape (4,)",
        "deep": r"shape (2, 2, 4)",
        "nameless": "no array 'features' among 'feats'",
        "lost": "no coords but",
        "off": "coords have the type float64 and the shape (3, 2) instead of that of 2 instances",
        "cube": "3 coords but",
        "text": "the type |S1",
        "broken": "cannot be read",
        "cut": "cannot be read",
        "pickle": "cannot be read",
        "zip": "cannot be read",
    }
    assert set(found) == set(expected)
    for name, said in expected.items():
        assert said in found[name], name
    assert str(error.value).startswith(f"{tmp_path}: 18 of 18 bags cannot be read")
    assert str(error.value).endswith("pass them as key and coords.")


def test_at_most_twenty_are_shown_and_all_are_counted(tmp_path):
    for number in range(30):
        np.save(tmp_path / f"{number:02}.npy", np.ones((1, 4)) if number < 2 else np.ones(7))
    with pytest.raises(BagFileError, match="28 of 30 bags") as error:
        load_bag_folder(tmp_path)
    lines = str(error.value).splitlines()
    assert (len(lines), lines[-1]) == (22, "  and 8 more")


@pytest.mark.parametrize("kind", ["npy", "npz", "h5", "csv"])
def test_a_damaged_file_is_read_or_named_and_nothing_else(tmp_path, kind):
    for name in "abc":
        values, places = np.arange(12.0).reshape(4, 3), np.arange(8).reshape(4, 2)
        if kind == "npz":
            np.savez(tmp_path / f"{name}.npz", features=values, coords=places)
        elif kind == "h5":
            write_h5(tmp_path, name, features=values, coords=places)
        else:
            np.save(tmp_path / f"{name}.npy", values)
    table = tmp_path / "labels.csv"
    table.write_text("bag,label,case_id,split\na,x,p,train\nb,y,q,test\nc,y,q,test\n")
    damaged = table if kind == "csv" else tmp_path / f"b.{kind}"
    content = damaged.read_bytes()
    refusals = []
    for seed in range(60):
        damaged.write_bytes(mutate(content, random.Random(seed)))
        try:
            load_bag_folder(tmp_path, table)
        except BagFileError as error:
            refusals.append(error)
    assert all(str(tmp_path) in str(error) for error in refusals)
    assert kind == "csv" or all(list(listed(error)) == ["b"] for error in refusals)
    assert 12 < len(refusals) < 60


def test_an_error_of_the_package_is_not_one_of_the_file(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.ones((1, 2)))
    monkeypatch.setattr(reading, "_Part", lambda *given: {}["mine"])
    with pytest.raises(KeyError, match="mine"):
        load_bag_folder(tmp_path)


@pytest.mark.parametrize("shape", [(0, 4), (1, 0, 4), (0,)])
def test_empty_files_are_dropped_with_their_rows_and_named(tmp_path, shape):
    write_h5(tmp_path, "a", features=np.ones((2, 4)), coords=np.ones((2, 2)))
    write_h5(tmp_path, "b", features=np.ones(shape), coords=np.ones((0, 2)))
    write_h5(tmp_path, "c", features=np.full((3, 4), 3.0), coords=np.ones((3, 2)))
    table = pd.DataFrame({"bag": list("cba"), "label": [2, 1, 0], "group": list("xyz")})
    with pytest.raises(BagFileError, match="1 of 3 bags"):
        load_bag_folder(tmp_path, table)
    said = r"1 of 3 bags are left out\. 1 \(b\): it has no instances\."
    with pytest.warns(UserWarning, match=said):
        bunch = load_bag_folder(tmp_path, table, empty="drop")
    assert bunch.bag_names.tolist() == ["c", "a"]
    assert bunch.target.tolist() == [2, 0]
    assert bunch.groups.tolist() == ["x", "z"]
    assert bunch.data.sizes.tolist() == [3, 2]
    assert bunch.dropped == {"b": "it has no instances"}
    assert bunch.DESCR.endswith("left out. 1 (b): it has no instances.")
    for name in "ac":
        (tmp_path / f"{name}.h5").unlink()
    with pytest.raises(BagFileError, match="no bag is left"):
        load_bag_folder(tmp_path, empty="drop")


@pytest.mark.parametrize(
    ("folder", "options", "error", "match"),
    [
        ("none", {}, FileNotFoundError, "no such folder"),
        ("x.csv", {}, FileNotFoundError, "load_bags reads a file"),
        ("void", {}, BagFileError, "no file of a bag .* check it"),
        (".", {}, BagFileError, "pass one of its folders: 'conch', 'uni'"),
        ("twice", {}, BagFileError, r"'a\.npy' and 'a\.npz' are two files for one bag"),
        ("uni", {"empty": "keep"}, ValueError, "choose one of raise, drop"),
        ("uni", {"dtype": int}, ValueError, "choose float64"),
        ("uni", {"mmap": True}, ValueError, "pass the path"),
        ("uni", {"mmap": "x.csv"}, FileExistsError, r"x\.csv: this exists already"),
        ("uni", {"mmap": "none/mapped"}, FileNotFoundError, "no such folder; create it first"),
    ],
)
def test_folders_and_options_that_are_refused(tmp_path, monkeypatch, folder, options, error, match):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("bag\n")
    for name in ("uni", "conch", "void", "deep/twice"):
        Path(name).mkdir(parents=True)
    for name in ("uni", "conch", "deep/twice"):
        np.save(Path(name, "a.npy"), np.ones((1, 2)))
    np.savez(Path("deep/twice/a.npz"), features=np.ones((1, 2)))
    with pytest.raises(error, match=match):
        load_bag_folder("deep/twice" if folder == "twice" else folder, **options)


@pytest.mark.parametrize(("suffix", "library"), [(".h5", "h5py"), (".pt", "torch")])
def test_a_library_that_is_missing_is_named_with_the_remedy(tmp_path, monkeypatch, suffix, library):
    (tmp_path / f"a{suffix}").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"a\{suffix} needs {library}: pip install .*"):
        load_bag_folder(tmp_path)


def test_progress_goes_to_stderr_alone(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.ones((1, 2)))
    for verbose in (False, True):
        load_bag_folder(tmp_path, verbose=verbose)
        out, err = capsys.readouterr()
        assert out == ""
        assert ("sizes" in err and "1/1" in err) == verbose


# -- memory maps ---------------------------------------------------------------------------------


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_map_holds_the_same_bags_and_opens_again(tmp_path, n_jobs):
    made = blocks(np.float16, {f"s{number:02}": number + 1 for number in range(12)})
    slides = tmp_path / "slides"
    for name, (features, coords) in made.items():
        write_h5(slides, name, features=features, coords=coords)
    write_h5(slides, "empty", features=np.ones((0, 4)), coords=np.ones((0, 2)))
    names = [*list(made)[::-1], "empty"]
    table = pd.DataFrame({"bag": names, "label": list("ab" * 6 + "a"), "group": range(13)})
    place = tmp_path / "mapped"
    with pytest.warns(UserWarning, match="1 of 13 bags are left out"):
        plain = load_bag_folder(slides, table, empty="drop")
    with pytest.warns(UserWarning, match="1 of 13 bags are left out"):
        mapped = load_bag_folder(slides, table, empty="drop", mmap=place, n_jobs=n_jobs)
    again = load_bags(place, mmap=True)
    for bunch in (mapped, again):
        assert_blocks(bunch, made, names[:-1])
        assert bunch.data.dtype == np.float16
        assert is_mapped(bunch.data.instances)
        for name in ("target", "classes", "groups"):
            np.testing.assert_array_equal(bunch[name], plain[name])
        assert bunch.DESCR == plain.DESCR
        assert bunch.filename == str(place)
    assert [*mapped.dropped] == ["empty"]
    assert listing(tmp_path) == ["mapped", "slides"]


def test_a_failure_leaves_no_map_behind(tmp_path, monkeypatch):
    slides = tmp_path / "slides"
    slides.mkdir()
    for name in "ab":
        np.savez(slides / f"{name}.npz", features=np.ones((50, 4)))
    data = bytearray((slides / "b.npz").read_bytes())
    data[len(data) // 2] ^= 255
    (slides / "b.npz").write_bytes(bytes(data))
    with pytest.raises(BagFileError, match="1 of 2 bags"):
        load_bag_folder(slides, mmap=tmp_path / "mapped")
    assert listing(tmp_path) == ["slides"]
    (slides / "b.npz").unlink()
    # The room for the map is asked for before a page of it is written.
    for number in (errno.ENOSPC, errno.EOPNOTSUPP):

        def without_room(*descriptor_and_size, number=number):
            raise OSError(number, "no room")

        monkeypatch.setattr(os, "posix_fallocate", without_room, raising=False)
        if number == errno.ENOSPC:
            with pytest.raises(OSError, match="no room"):
                load_bag_folder(slides, mmap=tmp_path / "mapped")
            assert listing(tmp_path) == ["slides"]
    assert load_bag_folder(slides, mmap=tmp_path / "mapped").data.n_instances == 50


def test_memory_is_that_of_the_bags_and_of_one_file(tmp_path):
    pytest.importorskip("h5py", reason="HDF5 files need h5py")
    for number in range(10):
        values = np.full((250, 512), number, dtype=np.float32)  # half a megabyte each
        write_h5(tmp_path / "big", f"b{number}", features=values)
    peaks = []
    for options in ({}, {"mmap": tmp_path / "mapped"}):
        tracemalloc.start()
        size = load_bag_folder(tmp_path / "big", **options).data.instances.nbytes
        peaks.append(tracemalloc.get_traced_memory()[1] / size)
        tracemalloc.stop()
    assert size == 10 * 250 * 512 * 4
    assert 1.0 <= peaks[0] <= 1.15
    assert peaks[1] <= 0.25
