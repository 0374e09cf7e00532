"""Columns of bags in every format: aligned, or refused by name; and in the folder reader."""

from __future__ import annotations

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from milearn import Bags
from milearn.datasets import BagFileError, load_bag_folder, load_bags, save_bags
from tests._bags.kinds import assert_same

EXACT = ("x.npz", "folder")
TABLES = ("x.csv", "x.tsv", "x.parquet")


def tagged(sizes):
    """Bags in which every column tells the first value of the bag."""
    tags = np.arange(1, len(sizes) + 1)
    matrix = np.repeat(tags, sizes).astype(float)[:, None]
    return Bags(matrix, np.concatenate([[0], np.cumsum(sizes)]), bag_data=columns_of(tags))


def columns_of(tags):
    return {
        "age": np.asarray(tags, dtype=np.int64),
        "site": np.array([f"s{int(tag)}" for tag in tags]),
        "dose": np.where(np.asarray(tags) % 2 == 0, np.nan, np.asarray(tags) / 3),
    }


def assert_aligned(bags):
    tags = bags.instances[bags.offsets[:-1], 0]
    assert list(bags.bag_data) == ["age", "site", "dose"]
    for name, expected in columns_of(tags).items():
        np.testing.assert_array_equal(bags.bag_data[name], expected)
        assert bags.bag_data[name].dtype.kind == expected.dtype.kind


def saved(path, bags, y=None):
    save_bags(path, bags, y, format=None if path.suffix else "npy-folder")


@hypothesis.given(st.lists(st.integers(1, 3), min_size=2, max_size=6), st.sampled_from(TABLES))
@hypothesis.settings(max_examples=20, deadline=None, derandomize=True)
def test_tables_keep_them_aligned(tmp_path_factory, sizes, name):
    path = tmp_path_factory.mktemp("x") / name
    bags = tagged(sizes)
    saved(path, bags, np.arange(len(bags)) % 2)
    found = load_bags(path)
    assert_aligned(found.data)
    assert found.data.shape == bags.shape
    assert_aligned(found.data[::-1])


@pytest.mark.parametrize("name", EXACT)
def test_arrays_are_exact(tmp_path, name):
    bags = tagged([2, 1, 3])
    bags = bags.with_bag_data({**bags.bag_data, "box": np.arange(6, dtype=np.int8).reshape(3, 2)})
    saved(tmp_path / name, bags)
    assert_same(load_bags(tmp_path / name).data, Bags(bags.instances, bags.offsets,
                                                      bag_data=bags.bag_data))  # fmt: skip
    if name == "folder":
        mapped = load_bags(tmp_path / name, mmap=True).data
        assert_same(mapped[[2, 0]], bags[[2, 0]])


@pytest.mark.parametrize("suffix", ["data", "arff", "mat", "svmlight"])
def test_other_formats_refuse(tmp_path, suffix):
    with pytest.raises(BagFileError, match=r"cannot hold bag_data\['age'\], bag_data\['site'\]"):
        save_bags(tmp_path / f"x.{suffix}", tagged([2, 1]), [0, 1])
    assert not (tmp_path / f"x.{suffix}").exists()


def test_columns_are_chosen_by_name(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("bag,f,age,sex\nb,1,5,f\na,2,,m\nb,3,5,f\n")
    bags = load_bags(path, bag_data=["age", "sex"]).data
    assert bags.shape == (2, 1)
    np.testing.assert_array_equal(bags.bag_data["age"], [5, np.nan])
    assert bags.bag_data["sex"].tolist() == ["f", "m"]
    with pytest.raises(BagFileError, match="there is no column 'site' for bag_data= among 'bag'"):
        load_bags(path, bag_data=["site"])
    with pytest.raises(TypeError, match="bag_data must be a list of names of columns, such as"):
        load_bags(path, bag_data="age")
    path.write_text("bag,f,age\nb,1,5\na,2,6\nb,3,7\n")
    with pytest.raises(BagFileError, match="bag 'b' has two entries in the column 'age' of bag_da"):
        load_bags(path, bag_data=["age"])


def test_two_dimensions_do_not_fit_into_a_table(tmp_path):
    bags = tagged([1, 1]).with_bag_data({"box": np.eye(2)})
    with pytest.raises(BagFileError, match=r"bag_data\['box'\] has 2 dimensions"):
        save_bags(tmp_path / "x.csv", bags)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("kind", ["csv", "frame"])
def test_folders(tmp_path, kind, mmap):
    folder = tmp_path / "slides"
    folder.mkdir()
    bags = tagged([2, 1, 3, 1])
    for number, block in enumerate(bags):
        np.save(folder / f"slide_{number}.npy", block)
    np.save(folder / "slide_9.npy", np.empty((0, 1)))
    rows = {"slide_id": [f"slide_{n}" for n in (3, 9, 0, 2, 1)]}
    for name, values in columns_of([4, 9, 1, 3, 2]).items():
        rows[name] = values
    table = pd.DataFrame(rows)
    if kind == "csv":
        table.to_csv(tmp_path / "table.csv", index=False)
        table = tmp_path / "table.csv"
    settings = {"empty": "drop", "mmap": tmp_path / "map" if mmap else False}
    found = load_bag_folder(folder, table, bag_data=["age", "site", "dose"], **settings)
    assert found.data.instances[found.data.offsets[:-1], 0].tolist() == [4, 1, 3, 2]
    assert_aligned(found.data)
    if mmap:
        assert_aligned(load_bags(tmp_path / "map", mmap=True).data)


def test_folders_without_the_column(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((1, 1)))
    with pytest.raises(BagFileError, match="bag_data= without a table"):
        load_bag_folder(tmp_path, bag_data=["age"])
    with pytest.raises(TypeError, match="bag_data must be a list of names of columns, such as"):
        load_bag_folder(tmp_path, bag_data="age")
    table = pd.DataFrame({"bag": ["a"]})
    with pytest.raises(BagFileError, match="there is no column 'age' for bag_data= among 'bag'"):
        load_bag_folder(tmp_path, table, bag_data=["age"])


def test_texts_of_digits_stay_texts_where_the_format_has_types(tmp_path):
    bags = tagged([1, 1]).with_bag_data({"code": ["01", "02"]})
    save_bags(tmp_path / "x.parquet", bags)
    assert load_bags(tmp_path / "x.parquet").data.bag_data["code"].tolist() == ["01", "02"]
    save_bags(tmp_path / "x.csv", bags)
    assert load_bags(tmp_path / "x.csv").data.bag_data["code"].tolist() == [1, 2]
