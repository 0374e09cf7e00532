"""Missing values in every reader, and bags that are left out because something is missing."""

import io
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from milearn.datasets import BagFileError, load_airr, load_bag_folder, load_bags, save_bags
from milearn.preprocessing import AppendBagData
from milearn.survival import MICoxPH, survival_outcomes
from tests.bags import folder_of_bags, plain_labels

# As R's write.csv writes them.
R = '"","slide_id","{}","age","site"\n"1","s1",{},63,"A"\n"2","s2",{},NA,NA\n"3","s3",{},50,"B"\n'
R += '"4","s4",{},71,"A"\n'
READERS = {
    "path": lambda path: path,
    "pandas": pd.read_csv,
    "arrow types": lambda path: pd.read_csv(path, dtype_backend="pyarrow"),
    "nullable": lambda path: pd.read_csv(path).convert_dtypes(),
    "polars": lambda path: pl.read_csv(path, null_values=["NA", ""]),
}


def of_r(path, header, *cells):
    path.write_text(R.format(header, *cells))
    return path


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("cells", "target"),
    [
        (("1", "NA", "0", "1"), [1, None, 0, 1]),
        (("1.5", "NA", "0.2", "1"), [1.5, None, 0.2, 1]),
        (('"pos"', "NA", '"neg"', '"pos"'), ["pos", None, "neg", "pos"]),
        (("TRUE", "NA", "FALSE", "TRUE"), [True, None, False, True]),
    ],
)
def test_a_path_and_a_frame_of_a_file_of_r(tmp_path, reader, cells, target):
    folder = folder_of_bags(tmp_path / "f", "s1", "s2", "s3", "s4")
    table = READERS[reader](of_r(tmp_path / "r.csv", "label", *cells))
    with pytest.raises(BagFileError, match="s2: the column 'label' is empty"):
        load_bag_folder(folder, table)
    data = load_bag_folder(folder, table, bag_data=["age", "site"], missing="nan")
    assert plain_labels(data.target) == target
    site, age = data.data.bag_data["site"], data.data.bag_data["age"]
    assert site.isna().tolist() == age.isna().tolist() == [False, True, False, False]
    assert site.dropna().tolist() == ["A", "B", "A"]
    assert age.dropna().tolist() == [63, 50, 71]
    assert AppendBagData(["age"]).fit_transform(data.data[[0, 2, 3]]).shape[1] == 4


def test_na_as_a_class_and_as_a_hospital(tmp_path):
    folder = folder_of_bags(tmp_path / "f", "s1", "s2", "s3")
    path = tmp_path / "t.csv"
    path.write_text("slide_id,label,site\ns1,None,NA\ns2,mild,EU\ns3,None,NA\n")
    plain = load_bag_folder(folder, path, bag_data=["site"], missing="nan")
    assert plain_labels(plain.target) == [None, "mild", None]
    frame = pd.read_csv(path, keep_default_na=False)
    kept = load_bag_folder(folder, frame, bag_data=["site"])
    assert kept.target.tolist() == ["None", "mild", "None"]
    assert kept.data.bag_data["site"].tolist() == ["NA", "EU", "NA"]
    for table in (pl.read_csv(path), frame):
        data = load_bag_folder(folder, table, classes=["None", "mild"])
        assert data.target.tolist() == ["None", "mild", "None"]


# -- folders and tables that do not match ---------------------------------------------------------


def mismatched(tmp_path):
    folder = folder_of_bags(tmp_path / "f", "s1", "s2", "s3", "s4", "s5")
    rows = "s9,p,1\ns4,p,0\ns2,q,\ns1,,1\n,r,1\ns3,r,0\n"
    (tmp_path / "t.csv").write_text("slide_id,patient,label\n" + rows)
    return folder, tmp_path / "t.csv"


@pytest.mark.parametrize("reader", ["path", "pandas", "polars"])
@pytest.mark.parametrize("mmap", [False, True])
def test_what_is_missing_is_left_out_and_listed(tmp_path, reader, mmap):
    folder, path = mismatched(tmp_path)
    table = READERS[reader](path)
    with pytest.raises(BagFileError, match="Pass missing='drop' to leave out what has no file"):
        load_bag_folder(folder, table)
    with pytest.warns(
        UserWarning, match=r"^5 of 7 bags are left out\. 1 \(s9\): there is "
    ) as said:
        data = load_bag_folder(folder, table, missing="drop", mmap=mmap and tmp_path / "map")
    assert len(said) == 1
    assert str(said[0].message).endswith("See data.dropped.")
    assert data.data.names.tolist() == ["s4", "s3"]
    assert data.data.instances[:, 0].tolist() == [4.0, 4.0, 3.0, 3.0]
    assert data.target.tolist() == [0, 0]
    assert data.groups.tolist() == ["p", "r"]
    assert data.dropped == {
        "s9": "there is no file for this row",
        "s2": "the column 'label' is empty",
        "s1": "the column 'patient' is empty",
        "row 5 of the table": "it names no bag",
        "s5": "the table has no row for this file",
    }
    assert "5 of 7 bags are left out" in data.DESCR


def test_nothing_is_missing_and_nothing_is_said(tmp_path):
    folder = folder_of_bags(tmp_path / "f", "s1", "s2")
    table = pd.DataFrame({"slide_id": ["s2", "s1"], "label": [1, 0]})
    for given in (table, None):
        data = load_bag_folder(folder, given, missing="drop")
        assert data.dropped == {}
    with pytest.raises(ValueError, match="missing='ignore' is unknown; choose one of error, nan"):
        load_bag_folder(folder, table, missing="ignore")


def test_an_empty_label_alone_is_an_unlabelled_bag(tmp_path):
    folder = folder_of_bags(tmp_path / "f", "s1", "s2")
    table = pd.DataFrame({"slide_id": ["s2", "s1"], "label": ["a", None]})
    assert plain_labels(load_bag_folder(folder, table, missing="nan").target) == ["a", None]
    with pytest.raises(BagFileError, match="s1: the column 'label' is empty"):
        load_bag_folder(folder, table)
    with pytest.warns(UserWarning, match="1 of 2 bags are left out"):
        assert load_bag_folder(folder, table, missing="drop").target.tolist() == ["a"]


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


def test_faults_stay_errors(tmp_path):
    folder = folder_of_bags(tmp_path / "f", "s1", "s2")
    (folder / "s2.npy").write_bytes(b"no array")
    table = pd.DataFrame({"slide_id": ["s1", "s2", "s9"], "label": [0, 1, 1]})
    with pytest.raises(BagFileError, match=r"1 of 2 bags cannot be read.*\n  s2: f/s2\.npy"):
        load_bag_folder(folder, table, missing="drop")
    table = pd.DataFrame({"slide_id": ["s1", "s1"], "label": [0, 1]})
    with pytest.raises(BagFileError, match="s1: the table has two rows for it"):
        load_bag_folder(folder, table, missing="drop")


def test_no_bag_with_all_entries(tmp_path):
    folder = folder_of_bags(tmp_path / "f", "s1", "s2")
    table = pd.DataFrame({"slide_id": ["s1", "s2"], "label": [None, None]})
    with pytest.raises(
        BagFileError, match=r"no bag is left\. 2 of 2 bags are left out\. 2 \(s1\): the"
    ):
        load_bag_folder(folder, table, missing="drop")


def test_patients_without_follow_up(tmp_path):
    names = [f"s{at}" for at in range(9)]
    folder = folder_of_bags(tmp_path / "f", *names)
    table = pd.DataFrame({"slide_id": names, "died": [1, 0, None] * 3, "days": np.arange(9.0)})
    table.loc[3, "days"] = np.nan
    path = tmp_path / "t.csv"
    table.to_csv(path, na_rep="NA", index=False)
    label = ("died", "days")
    for given in (table, path, pl.read_csv(path, null_values="NA")):
        with pytest.raises(BagFileError, match="4 of 9 bags cannot be read"):
            load_bag_folder(folder, given, label=label)
        with pytest.warns(UserWarning, match="4 of 9 bags are left out"):
            data = load_bag_folder(folder, given, label=label, missing="drop")
        assert data.data.names.tolist() == ["s0", "s1", "s4", "s6", "s7"]
        expected = survival_outcomes([1, 0, 0, 1, 0], [0, 1, 4, 6, 7])
        np.testing.assert_array_equal(data.target, expected)
        assert data.dropped["s3"] == "the column 'days' is empty"
        assert data.dropped["s8"] == "the column 'died' is empty"
    for column, wrong, what in (
        ("days", -3.0, "time holds -3 for bag 2"),
        ("days", np.inf, "time contains infinity"),
        ("died", 2, "event holds 2.0: pass True"),
    ):
        odd = table.dropna().copy()
        odd.loc[4, column] = wrong
        with pytest.raises(BagFileError, match=what):
            load_bag_folder(folder, odd, label=label, missing="drop")


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
    for given in (folder / "s2.npy", str(folder / "s2.npy")):
        data = load_bag_folder(given)
        assert data.data.names.tolist() == ["s2"]
        assert (data.target, data.dropped, data.data.sizes.tolist()) == (None, {}, [4])
        data = load_bag_folder(given, table)
        assert data.target.tolist() == ["b"]
    with pytest.raises(BagFileError, match="no value of 'slide_id'"):
        load_bag_folder(folder / "s3.npy", table)
    with pytest.warns(UserWarning, match="2 of 3 bags are left out"):
        one = load_bag_folder(folder, pd.DataFrame({"slide_id": ["s2"]}), missing="drop")
    assert one.data.names.tolist() == ["s2"]


def test_one_hdf5_file(tmp_path):
    h5py = pytest.importorskip("h5py", reason="HDF5 files need h5py")
    path = tmp_path / "C0001-1.h5"
    with h5py.File(path, "w") as file:
        file["features"], file["coords"] = np.ones((1, 5, 3)), np.ones((1, 5, 2))
    with pytest.raises(BagFileError, match="this is the file of one bag; read it by load_bag_fold"):
        load_bags(path)
    X = load_bag_folder(path).data
    assert (X.shape, X.names.tolist()) == ((1, 3), ["C0001-1"])
    assert X.instance_data[["coords_0", "coords_1"]].shape == (5, 2)


@pytest.mark.parametrize("name", ["x.txt", "none.npy", "none"])
def test_no_file_of_a_bag(tmp_path, name):
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(
        FileNotFoundError, match=f"{name}: there is no such folder or file of a bag"
    ):
        load_bag_folder(tmp_path / name)


# -- receptors and rows of zeros -------------------------------------------------------------------


def airr(folder, *rows, header="junction_aa\tproductive\tduplicate_count"):
    folder.mkdir(exist_ok=True)
    (folder / "p1.tsv").write_text("\n".join([header, *rows]) + "\n")
    return folder


@pytest.mark.parametrize("no", ["F", "false", "FALSE", "False"])
def test_receptors_that_are_not_productive(tmp_path, no):
    rows = "CASSF\tT\t2", f"CAF\t{no}\t5", "CAWF\ttrue\t1", "CAAF\t\t1", f"CASSF\t{no}\t9"
    with pytest.warns(UserWarning, match=r"2 not productive, in p1.tsv \(line 3, 6\)"):
        people = load_airr(airr(tmp_path / "f", *rows))
    assert people.receptors.tolist() == [b"CAAF", b"CAWF", b"CASSF"]
    assert people.data.instance_data["duplicate_count"].tolist() == [1, 1, 2]
    assert people.n_dropped.tolist() == [2]


def test_na_is_no_receptor(tmp_path):
    """Its letters are those of two amino acids."""
    folder = airr(tmp_path / "f", "NA\tT\t2", "CAF\tNA\t5", "CAWF\tT\tNA")
    with pytest.warns(UserWarning, match=r"1 without junction_aa, .*line 2, 4"):
        assert load_airr(folder).receptors.tolist() == [b"CAF"]


def test_people_without_a_file_or_an_outcome(tmp_path):
    folder = airr(tmp_path / "f", "CAF\tT\t5")
    for name in ("p2", "p3"):
        (folder / f"{name}.tsv").write_text((folder / "p1.tsv").read_text())
    metadata = pd.DataFrame({"filename": ["p1", "p2", "p9"], "label": ["ill", None, "ill"]})
    with pytest.warns(UserWarning, match="3 of 4 bags are left out"):
        people = load_airr(folder, metadata, missing="drop")
    assert people.target.tolist() == ["ill"]
    assert [*people.dropped] == ["p2", "p9", "p3"]
    assert people.data.names.tolist() == ["p1"]
    with pytest.raises(BagFileError, match="no repertoire has a row"):
        load_airr(folder, metadata.assign(label=None), missing="drop")


def test_rows_of_zeros_among_others(tmp_path):
    values = np.arange(18.0).reshape(6, 3) + 1
    values[[1, 4]] = 0
    np.save(tmp_path / "mol_1.npy", values)
    np.save(tmp_path / "mol_2.npy", values[:1])
    with pytest.warns(UserWarning, match="2 of 7 instances consist of zeros, .* 'mol_1'") as said:
        X = load_bag_folder(tmp_path).data
    assert len(said) == 1
    (tmp_path / "many").mkdir()
    save_bags(tmp_path / "many/x.npz", X, [1, 0])
    X.to_frame(y=[1, 0]).to_csv(tmp_path / "many/x.csv", index=False)
    for name in ("many/x.npz", "many/x.csv"):
        with pytest.warns(UserWarning, match="2 of 7 instances consist of zeros, .* 'mol_1'"):
            load_bags(tmp_path / name)
    # A bag of nothing but zeros, and sparse rows, are usual.
    np.save(tmp_path / "mol_1.npy", np.zeros((2, 3)))
    load_bag_folder(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_bags(tmp_path / "many/x.npz", as_sparse=True).data.is_sparse


def test_a_frame_of_semicolons_with_gaps(tmp_path):
    text = "slide_id;label;age\ns1;1;60,5\ns2;NA;NA\ns3;0;71\n"
    folder = folder_of_bags(tmp_path / "f", "s1", "s2", "s3")
    frame = pd.read_csv(io.StringIO(text), sep=";", decimal=",")
    with pytest.warns(UserWarning, match="1 of 3 bags are left out"):
        data = load_bag_folder(folder, frame, bag_data=["age"], missing="drop")
    assert data.data.bag_data["age"].tolist() == [60.5, 71.0]
    again = pickle.loads(pickle.dumps(data))
    assert again.dropped == data.dropped == {"s2": "the column 'label' is empty"}
