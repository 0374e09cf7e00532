"""Folders of AIRR tables: what is read, merged and dropped, and what is refused."""

import random
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from milearn import Bags
from milearn.datasets import BagFileError, load_airr
from milearn.datasets._formats import airr
from tests.datasets.fuzz import mutate

ROWS = {
    "p1": [("CASSF", "TRBV1*01,TRBV2*01", 2), ("CAF", "TRBV1*02", 1), ("CASSF", "TRBV3*01", 3)],
    "p2": [("CAF", "TRBV1*01", 1)],
    "p3": [("CASSWWF", "TRBV9", 7), ("CAF", "TRBV1*01", 1)],
}
METADATA = pd.DataFrame(
    {"filename": ["p2.tsv", "p3.tsv.gz", "p1"], "label": list("bab"), "age": [30, 40, 50]}
)


def write(folder, rows=ROWS, packed=("p3",)):
    for name, cells in rows.items():
        frame = pd.DataFrame(cells, columns=["junction_aa", "v_call", "duplicate_count"])
        frame.insert(0, "sequence_id", range(len(frame)))
        frame["j_call"] = "TRBJ1-1*01"
        suffix = ".tsv.gz" if name in packed else ".tsv"
        frame.to_csv(folder / f"{name}{suffix}", sep="\t", index=False)
    return folder


def table(people):
    """People and receptors as a dense table of counts."""
    X = people.data
    rows = sparse.csr_array(X.instances)
    counts = X.instance_data["duplicate_count"][np.diff(rows.indptr) > 0]
    known = rows.indptr[X.offsets]
    return sparse.csr_array((counts, rows.indices, known), shape=X.shape).toarray()


def test_people_and_receptors(tmp_path):
    people = load_airr(write(tmp_path), METADATA, bag_data=["age"])
    assert people.bag_names.tolist() == ["p2", "p3", "p1"]
    assert people.target.tolist() == ["b", "a", "b"]
    assert people.data.bag_data["age"].tolist() == [30, 40, 50]
    assert people.receptors.tolist() == [b"CAF", b"CASSF", b"CASSWWF"]
    np.testing.assert_array_equal(table(people), [[1, 0, 0], [1, 0, 7], [1, 5, 0]])
    assert people.data.sizes.tolist() == [1, 2, 2]
    assert people.data.dtype == np.float32
    assert (people.data.instances.data == 1).all()
    assert people.n_dropped.tolist() == [0, 0, 0]


def test_genes_distinguish_receptors(tmp_path):
    people = load_airr(write(tmp_path), METADATA, genes=True)
    assert people.receptors.tolist() == [
        b"CAF TRBV1 TRBJ1-1",
        b"CASSF TRBV1 TRBJ1-1",
        b"CASSF TRBV3 TRBJ1-1",
        b"CASSWWF TRBV9 TRBJ1-1",
    ]
    np.testing.assert_array_equal(table(people)[2], [1, 2, 3, 0])


def test_new_people_have_the_columns_of_the_training_data(tmp_path):
    for place in ("old", "new"):
        (tmp_path / place).mkdir()
    old = load_airr(write(tmp_path / "old"))
    rows = {"x": [("CWWWF", "", 4), ("CASSF", "", 2), ("CASSWWWWF", "", 1)]}
    unknown = r"^2 of 3 instances \(67%\) are zeros: .* read new people without receptors="
    with pytest.warns(UserWarning, match=unknown):
        new = load_airr(write(tmp_path / "new", rows), receptors=old.receptors)
    assert new.target is None
    assert new.data.shape == (1, 3)
    np.testing.assert_array_equal(table(new), [[0, 2, 0]])
    # In the order of lengths and letters; unknown receptors are instances of zeros.
    np.testing.assert_array_equal(new.data.instances.toarray().sum(axis=1), [1, 0, 0])
    np.testing.assert_array_equal(new.data.instance_data["duplicate_count"], [2, 4, 1])
    for wrong in (old.receptors[::-1], old.receptors[[0, 0]], old.receptors[:0]):
        with pytest.raises(ValueError, match="not in the order of load_airr"):
            load_airr(tmp_path / "new", receptors=wrong)
    known = load_airr(tmp_path / "old", METADATA, receptors=old.receptors)  # without a warning
    assert known.data.instances.nnz == known.data.n_instances


@pytest.mark.parametrize("genes", [False, True])
def test_new_people_are_read_with_the_genes_of_the_training_people(tmp_path, genes):
    old = load_airr(write(tmp_path), genes=genes)
    new = load_airr(tmp_path, genes=genes, receptors=old.receptors)
    assert new.data.equals(old.data)
    words = f"receptors have {'V and J' if genes else 'no'} genes, .* pass genes={genes}, as for"
    with pytest.raises(ValueError, match=words):
        load_airr(tmp_path, genes=not genes, receptors=old.receptors)


def test_damaged_rows_are_counted_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(airr, "_ROWS_AT_ONCE", 2)
    rows = {
        "p1": [("CAF", "", 1), ("", "", 1), ("CA*F", "", 1), ("CAF", "", 0), ("caf", "", 1)],
        "p2": [("CAF", "", "many"), ("CWF", "", 1)],
    }
    write(tmp_path, rows, packed=())
    with (tmp_path / "p2.tsv").open("a") as file:
        file.write("2\n\n")
    with pytest.warns(UserWarning, match="Rows were left out") as caught:
        people = load_airr(tmp_path)
    assert str(caught[0].message) == (
        "Rows were left out: 3 without junction_aa, 2 with characters other than the 20 amino "
        "acids, 2 with a duplicate_count that is not a whole number above zero, in p1.tsv (line 3, "
        "4, 5, ...), p2.tsv (line 2, 4, 5)."
    )
    assert people.n_dropped.tolist() == [4, 3]
    np.testing.assert_array_equal(table(people), [[1, 0], [0, 1]])


def test_a_row_is_counted_for_the_first_of_its_reasons(tmp_path):
    rows = ["CAF\tT\t1", "\tF\t1", "CA*F\tF\t0", "CAF\tfalse\t1", "\tT\t0", "CA*F\tT\t0"]
    text = "\n".join(["junction_aa\tproductive\tduplicate_count", *rows])
    (tmp_path / "p1.tsv").write_text(text)
    reasons = "3 not productive, 1 without junction_aa, 1 with characters other than the 20 amino "
    with pytest.warns(UserWarning, match=f"out: {reasons}acids, in p1.tsv"):
        people = load_airr(tmp_path)
    assert people.n_dropped.tolist() == [5]


def test_columns_of_labels(tmp_path):
    write(tmp_path)
    metadata = METADATA.rename(columns={"label": "diagnosis"})
    words = "there is no column 'ill' for label= among 'filename', 'diagnosis', 'age'"
    with pytest.raises(BagFileError, match=words):
        load_airr(tmp_path, metadata, label="ill")
    words = "target is None: .* labels among 'filename', 'diagnosis', 'age'; name it as label="
    with pytest.warns(UserWarning, match=words):
        people = load_airr(tmp_path, metadata)
    assert people.target is None
    assert load_airr(tmp_path, metadata, label="diagnosis").target.tolist() == list("bab")
    # New people have no labels.
    load_airr(tmp_path, metadata, receptors=people.receptors)


def of_folder(folder, table):
    return load_airr(folder, table, bag_data=["age"]).data


def of_bags(folder, table):
    return load_airr(folder, METADATA).data.with_bag_data(table[["age"]])


def of_frame(folder, table):
    return Bags.from_frame(table.assign(x=1.0), "filename", features=["x"], bag_data=["age"])


@pytest.mark.parametrize("ages", [[30, None, 50], ["old", None, "young"]])
@pytest.mark.parametrize("other", [of_bags, of_frame])
def test_a_gap_in_bag_data_is_what_it_is_elsewhere(tmp_path, ages, other):
    def gaps(make):
        return make(tmp_path, table).bag_data["age"].isna().tolist()

    write(tmp_path)
    table = METADATA.assign(age=ages)
    assert gaps(of_folder) == gaps(other) == [False, True, False]


def test_columns_of_bag_data_get_other_names(tmp_path):
    people = load_airr(write(tmp_path), METADATA, bag_data={"years": "age"})
    assert people.data.bag_data["years"].tolist() == [30, 40, 50]


@pytest.mark.parametrize("ends", [("\t", ""), ("\t\t", ""), ("", "\t"), ("\t", "\t\t\t")])
def test_rows_with_more_fields_than_the_header(tmp_path, ends):
    header = "sequence_id\tjunction_aa\tcdr3_aa\tduplicate_count\tconsensus_count"
    rows = [f"{n}\t{name}\tASS\t{n}\t900{end}" for n, (name, end) in
            enumerate(zip(["CASSF", "CAF"], ends, strict=True), 7)]  # fmt: skip
    (tmp_path / "p1.tsv").write_text("\n".join([header, *rows, "9\tCA*\tA\t1\t1"]))
    with pytest.warns(UserWarning, match=r"out: 1 with characters .* p1.tsv \(line 4\)"):
        people = load_airr(tmp_path)
    assert people.receptors.tolist() == [b"CAF", b"CASSF"]
    assert people.data.instance_data["duplicate_count"].tolist() == [8, 7]


@pytest.mark.parametrize("count", ["0.5", "2.7", "inf", "-inf", "1e20", str(2**53), "nan", "-3"])
def test_a_count_that_is_not_whole_is_left_out_and_named(tmp_path, count):
    write(tmp_path, {"p1": [("CAF", "", "2.0"), ("CWF", "", count), ("CAF", "", 1)]})
    reason = r"out: 1 with a duplicate_count that is not a whole .* p1.tsv \(line 3\)"
    with pytest.warns(UserWarning, match=reason):
        people = load_airr(tmp_path)
    assert people.receptors.tolist() == [b"CAF"]
    assert people.data.instance_data["duplicate_count"].tolist() == [3]


def test_columns_other_than_the_sequence_are_optional(tmp_path):
    for name in ("p1", "p2"):
        (tmp_path / f"{name}.tsv").write_text("junction_aa\nCAF\nCAF\n")
    people = load_airr(tmp_path, METADATA[METADATA.filename != "p3.tsv.gz"])
    assert people.data.instance_data.empty
    assert people.data.sizes.tolist() == [1, 1]


def test_metadata_in_the_folder_are_no_repertoire(tmp_path):
    METADATA.to_csv(write(tmp_path) / "metadata.tsv", sep="\t", index=False)
    assert len(load_airr(tmp_path, tmp_path / "metadata.tsv").data) == 3


def test_all_problems_are_named(tmp_path):
    def check(metadata, *problems):
        with pytest.raises(BagFileError, match=f"{len(problems)} of .* bags cannot") as error:
            load_airr(tmp_path, metadata)
        assert all(problem in str(error.value) for problem in problems)

    write(tmp_path)
    check(
        pd.DataFrame({"repertoire_id": ["p1", "p1", "p2", "p3", "p6"]}),
        "p1: the table has two rows for it",
        "p6: there is no file for this row",
    )
    (tmp_path / "p2.tsv").write_text("sequence\tv_call\nCAF\t\n")
    (tmp_path / "p4.tsv.gz").write_bytes(b"junction_aa\nCAF\n")
    (tmp_path / "p5.tsv").write_text("")
    check(
        None,
        "p2: there is no column 'junction_aa' among 'sequence', 'v_call'",
        "p4: it cannot be read (Not a gzipped file",
        "p5: it cannot be read (No columns to parse",
    )
    (tmp_path / "p4.tsv.gz").unlink()
    (tmp_path / "p5.tsv").unlink()
    (tmp_path / "p2.tsv").write_text("junction_aa\nCAF\n")
    check(None, "p2: there is no column 'duplicate_count', which other files have")


def test_other_refusals(tmp_path):
    with pytest.raises(BagFileError, match="there is no repertoire"):
        load_airr(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        load_airr(tmp_path / "nowhere")
    write(tmp_path, packed=())
    with pytest.raises(ValueError, match="label= without a table"):
        load_airr(tmp_path, label="label")
    write(tmp_path, packed=("p1",))
    with pytest.raises(BagFileError, match=r"'p1.tsv' and 'p1.tsv.gz' are two files"):
        load_airr(tmp_path)
    (tmp_path / "p1.tsv.gz").unlink()
    (tmp_path / "p1.tsv").write_text("junction_aa\tduplicate_count\nCA*\t1\n")
    with pytest.raises(BagFileError, match="p1: it has no receptor: 1 with characters other"):
        load_airr(tmp_path)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", ["p1.tsv", "p3.tsv.gz"])
def test_damaged_bytes_are_an_error_or_left_out(tmp_path, seed, name):
    write(tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(mutate(content, random.Random(seed)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Rows were left out")
        try:
            people = load_airr(tmp_path)
        except BagFileError:
            return
    assert len(people.data) == 3
