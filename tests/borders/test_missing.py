"""Missing values in tables, and bags that are left out because something is missing."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from milearn import Bags
from milearn.datasets import BagFileError, load_airr, load_bag_folder, load_bags, save_bags
from milearn.preprocessing import AppendBagData
from milearn.survival import MICoxPH, survival_outcomes
from tests.bags import folder_of_bags, plain_labels

# As R's write.csv writes them.
R = '"","slide_id","label","age","site"\n"1","s1",{},63,"A"\n"2","s2",{},NA,NA\n'
R += '"3","s3",{},50,"B"\n'
READERS = {
    "path": lambda path: path,
    "pandas": pd.read_csv,
    "nullable": lambda path: pd.read_csv(path, dtype_backend="pyarrow"),
    "polars": lambda path: pl.read_csv(path, null_values="NA"),
}


def written(path, text):
    path.write_text(text)
    return path


@pytest.fixture
def folder(tmp_path):
    return folder_of_bags(tmp_path / "f", "s1", "s2", "s3")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("cells", "target"),
    [
        (("1", "NA", "0"), [1, None, 0]),
        (("1.5", "NA", "0.2"), [1.5, None, 0.2]),
        (('"pos"', "NA", '"neg"'), ["pos", None, "neg"]),
        (("TRUE", "NA", "FALSE"), [True, None, False]),
    ],
)
def test_a_path_and_a_frame_of_a_file_of_r(tmp_path, folder, reader, cells, target):
    table = READERS[reader](written(tmp_path / "r.csv", R.format(*cells)))
    with pytest.raises(BagFileError, match=r"\n  s2: the column 'label' is empty\n.*missing='nan'"):
        load_bag_folder(folder, table)
    data = load_bag_folder(folder, table, bag_data=["age", "site"], missing="nan")
    found = plain_labels(data.target)
    assert found == (["TRUE", None, "FALSE"] if found[0] == "TRUE" else target)
    assert plain_labels(data.data.bag_data["site"]) == ["A", None, "B"]
    assert plain_labels(data.data.bag_data["age"]) == [63, None, 50]
    assert AppendBagData(["age"]).fit_transform(data.data[[0, 2]]).shape[1] == 4
    with pytest.warns(UserWarning, match="1 of 3 bags are left out"):
        data = load_bag_folder(folder, table, missing="drop")
    assert data.dropped == {"s2": "the column 'label' is empty"}


def test_na_as_a_class_and_as_a_hospital(tmp_path, folder):
    path = written(tmp_path / "t.csv", "slide_id,label,site\ns1,None,NA\ns2,mild,EU\ns3,None,NA\n")
    table = pd.read_csv(path, keep_default_na=False)
    for options in ({}, {"classes": ["mild", "None"]}):
        kept = load_bag_folder(folder, table, bag_data=["site"], **options)
        assert kept.target.tolist() == ["None", "mild", "None"]
        assert kept.data.bag_data["site"].tolist() == ["NA", "EU", "NA"]
    path = written(tmp_path / "x.csv", "bag,label,x\na,None,1\nb,mild,2\nc,,2\n")
    assert plain_labels(load_bags(path).target) == [None, "mild", None]
    kept = load_bags(path, keep_default_na=False, na_values=[""])
    assert plain_labels(kept.target) == ["None", "mild", None]
    with pytest.raises(BagFileError, match=r"label is missing for 2 bag.* 'a'.*missing='drop'"):
        load_bags(path, missing="error")
    assert load_bags(path, missing="drop").data.names.tolist() == ["b"]


@pytest.mark.parametrize("word", ["unknown", ">90", "NA"])
def test_one_word_among_numbers_is_named(tmp_path, folder, word):
    table = pl.DataFrame({"bag": ["s1", "s2", "s3"], "label": ["1", word, "2"], "x": [1, 2, 3]})
    for call in (
        lambda **options: load_bag_folder(folder, table, **options).target,
        lambda **options: Bags.from_frame(table, "bag", label="label", **options)[1],
    ):
        with pytest.raises(ValueError, match=f"'{word}' among numbers such as '1': .* na_values="):
            call()
        assert call(classes=["1", "2", word]).tolist() == ["1", word, "2"]
    wanted = f"label of bag 's2' is '{word}', .* not one of (the )?classes"
    with pytest.raises(ValueError, match=wanted):
        call(classes=["1", "2"])
    X = load_bag_folder(folder, table, bag_data={"age": "label"}, label="x").data
    with pytest.raises(ValueError, match=f"text .* pandas.to_numeric.column. .'{word}' would be"):
        AppendBagData(["age"]).fit(X)
    path = written(tmp_path / "x.csv", f"bag,label,x\na,1,1\nb,0,{word}\nb,0,3\n")
    if word == "NA":
        assert np.isnan(load_bags(path).data[1][0, 0])
        return
    with pytest.raises(BagFileError, match=f"Column 'x' holds text .*'{word}' would be in na_val"):
        load_bags(path)
    assert np.isnan(load_bags(path, na_values=[word]).data[1][0, 0])


# -- folders and tables that do not match ---------------------------------------------------------


@pytest.mark.parametrize("mmap", [False, True])
def test_what_is_missing_is_left_out_and_listed(tmp_path, mmap):
    folder = folder_of_bags(tmp_path / "f", "s1", "s2", "s3", "s4", "s5")
    rows = "s9,p,1\ns4,p,0\ns2,q,\ns1,,1\n,r,1\ns3,r,0\n"
    table = written(tmp_path / "t.csv", "slide_id,patient_id,label\n" + rows)
    with pytest.raises(BagFileError, match="Pass missing='drop' to leave out what has no file"):
        load_bag_folder(folder, table)
    with pytest.raises(BagFileError, match="s1: the column 'patient_id' is empty"):
        load_bag_folder(folder, table, missing="nan")
    said = r"^5 of 7 bags are left out\. 1 \(s9\): there is no file .* See data\.dropped\.$"
    with pytest.warns(UserWarning, match=said):
        data = load_bag_folder(folder, table, missing="drop", mmap=mmap and tmp_path / "map")
    assert data.data.names.tolist() == ["s4", "s3"]
    assert data.data.instances[:, 0].tolist() == [4.0, 4.0, 3.0, 3.0]
    assert data.target.tolist() == [0, 0]
    assert data.groups.tolist() == ["p", "r"]
    assert data.dropped == {
        "s9": "there is no file for this row",
        "s2": "the column 'label' is empty",
        "s1": "the column 'patient_id' is empty",
        "row 5 of the table": "it names no bag",
        "s5": "the table has no row for this file",
    }
    assert "5 of 7 bags are left out" in data.DESCR


def test_nothing_is_missing_and_nothing_is_said(folder):
    table = pd.DataFrame({"slide_id": ["s2", "s1", "s3"], "label": [1, 0, 1]})
    for given in (table, None):
        assert load_bag_folder(folder, given, missing="drop").dropped == {}
    with pytest.raises(ValueError, match="missing='ignore' is unknown; choose one of error, nan,"):
        load_bag_folder(folder, table, missing="ignore")


def test_a_label_that_is_a_file_of_its_own(tmp_path):
    for folder in ("features", "labels"):
        (tmp_path / folder).mkdir()
    for at, name in enumerate("abc"):
        np.save(tmp_path / f"features/{name}.npy", np.ones((2, 2)))
        np.save(tmp_path / f"labels/{name}.npy", np.array([at]))
    (tmp_path / "labels/b.npy").unlink()
    with pytest.raises(BagFileError, match="1 of 3 bags cannot be read"):
        load_bag_folder(tmp_path)
    with pytest.warns(UserWarning, match=r"1 \(b\): there is no file of its label"):
        data = load_bag_folder(tmp_path, missing="drop")
    assert (data.bag_names.tolist(), data.target.tolist()) == (["a", "c"], [0, 2])


def test_faults_stay_errors(folder):
    table = pd.DataFrame({"slide_id": ["s1", "s1"], "label": [0, 1]})
    with pytest.raises(BagFileError, match="s1: the table has two rows for it"):
        load_bag_folder(folder, table, missing="drop")
    table = pd.DataFrame({"slide_id": ["s1", "s2", "s9"], "label": [None, None, 1]})
    with pytest.raises(
        BagFileError, match=r"no bag is left\. 4 of 4 bags are left out\. 2 \(s1\): "
    ):
        load_bag_folder(folder, table, missing="drop")
    (folder / "s2.npy").write_bytes(b"no array")
    with pytest.raises(BagFileError, match=r"1 of 2 bags cannot be read.*\n  s2: f/s2\.npy"):
        load_bag_folder(folder, table.assign(label=1), missing="drop")


def test_patients_without_follow_up(tmp_path):
    names = [f"s{at}" for at in range(9)]
    folder = folder_of_bags(tmp_path / "f", *names)
    table = pd.DataFrame({"slide_id": names, "died": [1, 0, None] * 3, "days": np.arange(9.0)})
    table.loc[3, "days"] = np.nan
    table.to_csv(tmp_path / "t.csv", na_rep="NA", index=False)
    label = ("died", "days")
    for given in (table, tmp_path / "t.csv", pl.DataFrame(table)):
        for missing in ("error", "nan"):  # a fit needs both
            with pytest.raises(
                BagFileError, match=r"4 of 9 .*\n  s2: the column 'died' is empty\n"
            ):
                load_bag_folder(folder, given, label=label, missing=missing)
        with pytest.warns(UserWarning, match="4 of 9 bags are left out"):
            data = load_bag_folder(folder, given, label=label, missing="drop")
        assert data.data.names.tolist() == ["s0", "s1", "s4", "s6", "s7"]
        expected = survival_outcomes([1, 0, 0, 1, 0], [0, 1, 4, 6, 7])
        np.testing.assert_array_equal(data.target, expected)
        assert data.dropped["s3"] == "the column 'days' is empty"
    for column, wrong in (("days", -3.0), ("days", np.inf), ("died", 2)):
        odd = table.dropna().copy()
        odd.loc[4, column] = wrong
        with pytest.raises(BagFileError, match=rf"(time|event) holds {wrong:g}(\.0)? for bag 's4'"):
            load_bag_folder(folder, odd, label=label, missing="drop")
    with pytest.raises(ValueError, match=r"more than one column: .* survival_outcomes\(X.bag_data"):
        Bags.from_frame(table, "slide_id", label=label)


@pytest.mark.parametrize("time", [[1.0, -2.0], np.array([1, -2]), pd.Series([1, -2])])
def test_times_are_not_negative(time):
    with pytest.raises(ValueError, match="time holds -2 for bag 1: a time is counted from the st"):
        survival_outcomes([True, False], time)
    y = np.array(list(zip([True, False], time, strict=True)), dtype=[("e", bool), ("t", float)])
    with pytest.raises(ValueError, match="y holds -2 for bag 1"):
        MICoxPH().fit([np.eye(2), np.ones((1, 2))], y)
    assert survival_outcomes([True], [0.0])["time"].tolist() == [0.0]


# -- one bag of many -------------------------------------------------------------------------------


def test_one_slide_of_a_folder(tmp_path):
    folder = folder_of_bags(tmp_path / "f", "s1", "s2", "s3", sizes={"s2": 4})
    table = pd.DataFrame({"slide_id": ["s1", "s2.svs", "s7"], "label": ["a", "b", "c"]})
    data = load_bag_folder(folder / "s2.npy", table)
    assert (data.data.names.tolist(), data.target.tolist()) == (["s2"], ["b"])
    assert (data.dropped, data.data.sizes.tolist()) == ({}, [4])
    assert load_bag_folder(str(folder / "s2.npy")).data.equals(data.data)
    with pytest.raises(BagFileError, match="no value of 'slide_id'"):
        load_bag_folder(folder / "s3.npy", table)
    for name in ("x.txt", "none.npy", "none"):
        (tmp_path / "x.txt").write_text("x")
        with pytest.raises(FileNotFoundError, match=f"{name}: there is no such folder or file of"):
            load_bag_folder(tmp_path / name)


# -- receptors and rows of zeros -------------------------------------------------------------------


def test_na_is_no_receptor(tmp_path):
    """Its letters are those of two amino acids."""
    written(tmp_path / "p1.tsv", "junction_aa\tproductive\nNA\tT\nCAF\tNA\n")
    with pytest.warns(UserWarning, match=r"1 without junction_aa, in p1.tsv \(line 2\)"):
        assert load_airr(tmp_path).receptors.tolist() == [b"CAF"]


def test_people_without_a_file_or_an_outcome(tmp_path):
    for name in ("p1", "p2", "p3"):
        written(tmp_path / f"{name}.tsv", "junction_aa\nCAF\n")
    metadata = pd.DataFrame({"filename": ["p1", "p2", "p9"], "label": ["ill", None, "ill"]})
    with pytest.warns(UserWarning, match="3 of 4 bags are left out"):
        people = load_airr(tmp_path, metadata, missing="drop")
    assert (people.data.names.tolist(), people.target.tolist()) == (["p1"], ["ill"])
    assert [*people.dropped] == ["p2", "p9", "p3"]
    with pytest.raises(BagFileError, match="no repertoire has a row"):
        load_airr(tmp_path, metadata.assign(label=None), missing="drop")


def test_rows_of_zeros_among_others(tmp_path):
    values = np.arange(18.0).reshape(6, 3) + 1
    values[[1, 4]] = 0
    np.save(tmp_path / "mol_1.npy", values)
    np.save(tmp_path / "mol_2.npy", values[:1])
    zeros = "2 of 7 instances consist of zeros, .* 'mol_1'"
    with pytest.warns(UserWarning, match=zeros):
        X = load_bag_folder(tmp_path).data
    (tmp_path / "many").mkdir()
    save_bags(tmp_path / "many/x.npz", X)
    X.to_frame().to_csv(tmp_path / "many/x.csv", index=False)
    for path in (tmp_path / "many").iterdir():
        with pytest.warns(UserWarning, match=zeros):
            load_bags(path)
    # A bag of nothing but zeros, and sparse rows, are usual.
    np.save(tmp_path / "mol_1.npy", np.zeros((2, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_bag_folder(tmp_path)
        assert load_bags(tmp_path / "many/x.npz", as_sparse=True).data.is_sparse
