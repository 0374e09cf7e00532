"""Numbers of rows in tables are no features; parts agree in their features."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import polars as pl
import pytest

from milearn import Bags
from milearn.datasets import load_bags
from milearn.svm import MISVC

NUMBERS = "numbers the rows"


@pytest.fixture
def noise():
    """Forty bags of noise, sorted by class, with a column of labels."""
    values = np.random.default_rng(0).normal(size=(200, 3)).round(4)
    frame = pd.DataFrame(values, columns=["CD3", "CD4", "CD8"])
    frame.insert(0, "bag", [f"p{at:02d}" for at in np.repeat(np.arange(40), 5)])
    frame["label"] = np.repeat([0, 1], 100)
    return frame


def assert_noise(noise, X, y):
    """Nothing is left of the numbers of the rows."""
    assert X.feature_names.tolist() == ["CD3", "CD4", "CD8"]
    assert np.isin(X.instances, noise[X.feature_names]).all()
    np.testing.assert_array_equal(y, noise.groupby("bag")["label"].first().loc[X.names])


def by_r(frame):
    return frame.set_index(np.arange(1, len(frame) + 1).astype(str))


@pytest.mark.parametrize("change", [
    lambda frame: frame,
    by_r,
    lambda frame: frame.sample(frac=1.0, random_state=0),
    lambda frame: frame[np.arange(200) % 5 > 1],
    lambda frame: pd.concat([frame[:100], frame[100:].reset_index(drop=True)]),
    lambda frame: frame.set_index("cell_" + frame.index.astype(str)),
], ids=["pandas", "R", "sorted", "filtered", "joined", "barcodes"])  # fmt: skip
def test_a_table_written_with_its_index(noise, change, tmp_path):
    change(noise).to_csv(tmp_path / "cells.csv")
    with pytest.warns(UserWarning, match=NUMBERS):
        data = load_bags(tmp_path / "cells.csv")
    assert_noise(noise, data.data, data.target)
    for read in (pd.read_csv, pl.read_csv):
        with pytest.warns(UserWarning, match=NUMBERS):
            X, y = Bags.from_frame(read(tmp_path / "cells.csv"), "bag", label="label")
        assert_noise(noise, X, y)


@pytest.mark.parametrize("name", ["twice.csv", "reset.csv", "r.parquet", "own.csv"])
def test_other_columns_of_numbers(noise, name, tmp_path):
    path = tmp_path / name
    noise.to_csv(path)
    if name == "twice.csv":
        pd.read_csv(path).to_csv(path)
    elif name == "reset.csv":
        noise.reset_index().to_csv(path, index=False)
    elif name == "r.parquet":
        by_r(noise).reset_index(names="X").to_parquet(path)
    else:
        X, y = Bags.from_frame(noise, "bag", label="label")
        X.to_frame(y=y).to_csv(path)
    with pytest.warns(UserWarning, match=NUMBERS):
        assert_noise(noise, *load_bags(path, return_X_y=True))


def test_columns_that_stay(noise):
    """Measurements without a name, and numbers of rows that the user calls features."""
    frame = noise.drop(columns="label").rename(columns={"CD8": "Unnamed: 3", "CD4": "index"})
    frame["X"] = np.arange(200) % 7
    assert Bags.from_frame(frame, "bag").shape == (40, 4)
    frame["Unnamed: 0"] = np.arange(200)
    kept = Bags.from_frame(frame, "bag", features=["Unnamed: 0", "CD3"])
    assert kept.feature_names.tolist() == ["Unnamed: 0", "CD3"]
    kept = Bags.from_frame(frame, "bag", instance_data={"row": "Unnamed: 0"})
    assert kept.instance_data["row"].tolist() == list(range(200))


def test_another_number_of_labels_than_rows_names_from_frame(noise):
    with pytest.raises(ValueError, match=r"40 labels for 200 bags.*Bags.from_frame\(X, column\)"):
        MISVC().fit(noise[["CD3", "CD4"]], np.arange(40) % 2)


# -- parts with the same features -----------------------------------------------------------------


def test_batches_with_their_markers_in_another_order():
    values = np.random.default_rng(0).normal(size=(40, 6, 3))
    first = Bags.from_list([*values[:20]], feature_names=["CD3", "CD16", "CD56"])
    second = Bags.from_list([*values[20:, :, [0, 2, 1]]], feature_names=["CD3", "CD56", "CD16"])
    with pytest.raises(ValueError, match=r"Part 1 has its columns in another order \('CD56' for"):
        Bags.concatenate([first, second])
    joined = Bags.concatenate([first, second[:, first.feature_names]])
    assert joined.feature_names.tolist() == ["CD3", "CD16", "CD56"]
    assert np.array_equal(joined.instances, values.reshape(-1, 3))
    unnamed = Bags(second.instances, second.offsets)
    assert Bags.concatenate([first, unnamed]).feature_names is None
    with pytest.raises(
        ValueError, match=r"Part 2 has other columns \('CD56', 'CD16'\) than part 1"
    ):
        Bags.concatenate([unnamed[:, [0, 1]], first[:, [0, 1]], second[:, ["CD3", "CD56"]]])
    frames = [pd.DataFrame(b, columns=p.feature_names) for p in (first, second) for b in p]
    with pytest.raises(ValueError, match=r"Bag 20 has its columns in another order .* than bag 0"):
        Bags.from_list(frames)


def test_an_empty_last_column_of_a_spreadsheet():
    frame = pd.read_csv(io.StringIO("bag,x,\na,1,\na,3,\nb,2,\n"))
    frame["Unnamed: 0"] = range(3)
    with pytest.warns(UserWarning, match="'Unnamed: 2', 'Unnamed: 0' numbers the rows, or is emp"):
        X = Bags.from_frame(frame, "bag")
    assert X.instances.ravel().tolist() == [1.0, 3.0, 2.0]
