"""Classes keep their names from a file to a score, whatever else is in the file."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from milearn import MISVC, MISVR, Bags
from milearn.datasets import (
    BagFileError,
    load_airr,
    load_bag_folder,
    load_bags,
    make_bags,
    save_bags,
)
from milearn.discriminant_analysis import ShareRegressor
from milearn.survival import survival_outcomes
from milearn.svm import BagSVC
from tests.bags import folder_of_bags, plain_labels
from tests.common.few_trees import MIClassifier, MIRegressor

SHIFT = {"normal": 0.0, "tumour": 4.0, "LUAD": 0.0, "LUSC": 4.0, "none": 8.0}


def hospital(folder, labels, seed=0):
    """A folder of slides whose features tell the label, and its table as a frame."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    names = [f"S{at:03}" for at in range(len(labels))]
    for name, label in zip(names, labels, strict=True):
        np.save(folder / f"{name}.npy", rng.normal(SHIFT[label], 0.5, (5, 3)))
    return pd.DataFrame({"slide_id": names, "label": labels})


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet", "polars", "category", "pyarrow"])
def test_a_cohort_without_a_class_is_scored_right(tmp_path, kind):
    train = load_bag_folder(tmp_path / "a", hospital(tmp_path / "a", ["normal", "tumour"] * 8))
    table = hospital(tmp_path / "b", ["tumour"] * 6, seed=1)
    given = {
        "frame": lambda: table,
        "csv": lambda: table.to_csv(tmp_path / "t.csv") or tmp_path / "t.csv",
        "parquet": lambda: table.to_parquet(tmp_path / "t.pq") or tmp_path / "t.pq",
        "polars": lambda: pl.from_pandas(table),
        "category": lambda: table.astype({"label": "category"}),
        "pyarrow": lambda: table.astype({"label": "string[pyarrow]"}),
    }[kind]()
    new = load_bag_folder(tmp_path / "b", given)
    assert train.classes.tolist() == ["normal", "tumour"]
    assert new.target.tolist() == ["tumour"] * 6
    models = [MIClassifier(random_state=0)] if kind == "frame" else []
    for model in (*models, MISVC(kernel="linear", pos_label="tumour")):
        model.fit(train.data, train.target)
        assert model.score(new.data, new.target) == 1.0
        assert (model.predict(new.data) == "tumour").all()


def test_three_classes_without_one_of_them(tmp_path):
    train = load_bag_folder(tmp_path / "a", hospital(tmp_path / "a", ["none", "LUAD", "LUSC"] * 3))
    table = hospital(tmp_path / "b", ["LUAD", "none"] * 3, seed=1)
    new = load_bag_folder(tmp_path / "b", table, classes=train.classes)
    assert new.classes.tolist() == train.classes.tolist() == ["LUAD", "LUSC", "none"]
    model = BagSVC().fit(train.data, train.target)
    assert model.score(new.data, new.target) == 1.0


def test_declared_classes_are_all_and_in_their_order(tmp_path):
    table = hospital(tmp_path / "a", ["tumour", "normal", "tumour"])
    order = ["tumour", "normal", "unknown"]
    data = load_bag_folder(tmp_path / "a", table, classes=order)
    assert data.classes.tolist() == order
    assert data.target.tolist() == ["tumour", "normal", "tumour"]
    message = "the label of bag 'S001' is 'normal', and not one of the classes 'tumour', 'benign'"
    with pytest.raises(BagFileError, match=message):
        load_bag_folder(tmp_path / "a", table, classes=("tumour", "benign"))


@pytest.mark.parametrize("wrong", ["ab", ["a", "a"], [["a"]], 3])
def test_classes_that_are_none(tmp_path, wrong):
    hospital(tmp_path / "a", ["tumour"])
    with pytest.raises(ValueError, match="classes"):
        load_bag_folder(tmp_path / "a", classes=wrong)


ROWS = "bag,label,x,y\nb,{},1,2\na,{},3,4\nb,{},5,6\n"


@pytest.mark.parametrize(
    ("labels", "classes", "target", "listed"),
    [
        (("1", "0"), None, [1, 0], None),
        (("1.5", "-2"), None, [1.5, -2.0], None),
        (("2", "3"), [3, 2, 1], [2, 3], [3, 2, 1]),
        (("2", "3"), ["3", "2", "1"], ["2", "3"], ["3", "2", "1"]),
        (("02", "03"), ["02", "03"], ["02", "03"], ["02", "03"]),
        (("neg", "pos"), None, ["neg", "pos"], ["neg", "pos"]),
        (("neg", ""), None, ["neg", np.nan], ["neg"]),
        (("neg", ""), ["pos", "neg"], ["neg", np.nan], ["pos", "neg"]),
        (("2", ""), ["1", "2"], ["2", np.nan], ["1", "2"]),
        (("True", "False"), None, [True, False], None),
    ],
)
def test_labels_of_a_table_of_instances(tmp_path, labels, classes, target, listed):
    path = tmp_path / "x.csv"
    path.write_text(ROWS.format(labels[0], labels[1], labels[0]))
    data = load_bags(path, classes=classes)
    assert plain_labels(data.target) == plain_labels(target)
    assert [*map(type, data.target.tolist())] == [*map(type, target)]
    assert data.get("classes") is None if listed is None else data.classes.tolist() == listed
    bags, y = load_bags(path, classes=classes, return_X_y=True)
    assert bags.names.tolist() == ["b", "a"]
    assert plain_labels(y) == plain_labels(target)


X = Bags(np.arange(12.0).reshape(6, 2) + 1, [0, 2, 3, 6], names=["p", "q", "r"])


@pytest.mark.parametrize("y", [
    np.array([b"b", b"a", b"b"]),
    pd.Series(["b", None, "a"], index=["p", "q", "r"], dtype="string"),
    pd.Categorical(["b", "a", "b"]),
])  # fmt: skip
def test_bytes_and_columns_of_pandas_are_texts(tmp_path, y):
    save_bags(tmp_path / "x", X, y, format="npy-folder")
    data = load_bags(tmp_path / "x")
    texts = [label.decode() if isinstance(label, bytes) else label for label in y]
    assert plain_labels(data.target) == plain_labels(texts)
    assert data.classes.tolist() == ["a", "b"]


def test_outcomes_and_several_labels_have_no_classes(tmp_path):
    for y in (survival_outcomes([1, 0, 1], [1, 2, 3]), np.eye(3)):
        save_bags(tmp_path / "x.npz", X, y)
        with pytest.raises(BagFileError, match="classes= is for one label per bag"):
            load_bags(tmp_path / "x.npz", classes=[0, 1])
    save_bags(tmp_path / "x.npz", X)
    assert load_bags(tmp_path / "x.npz", classes=[0, 1]).target is None


def test_patients_are_the_same_in_two_folders(tmp_path):
    tables = [hospital(tmp_path / name, ["normal", "tumour"]) for name in "ab"]
    tables[0]["patient_id"], tables[1]["patient_id"] = ["007", "12"], ["12", "7"]
    parts = [load_bag_folder(tmp_path / n, t) for n, t in zip("ab", tables, strict=True)]
    assert np.concatenate([part.groups for part in parts]).tolist() == ["007", "12", "12", "7"]
    tables[1].to_csv(tmp_path / "t.csv", index=False)
    assert load_bag_folder(tmp_path / "b", tmp_path / "t.csv").groups.tolist() == ["12", "7"]
    numbers = tables[1].assign(patient_id=[12.0, 7.0])
    assert load_bag_folder(tmp_path / "b", numbers).groups.tolist() == [12, 7]  # as text, 12


def test_a_search_and_a_curve_of_text_labels(tmp_path):
    data = load_bag_folder(tmp_path / "a", hospital(tmp_path / "a", ["tumour", "normal"] * 8))
    model = MISVC(kernel="linear", pos_label="tumour")
    assert cross_val_score(model, data.data, data.target, scoring="roc_auc", cv=3).min() == 1.0
    search = GridSearchCV(model, {"C": [0.1, 1]}, cv=2).fit(data.data, data.target)
    assert search.score(data.data, data.target) == 1.0
    scores = search.decision_function(data.data)
    assert roc_auc_score(data.target, scores) == 1.0
    assert search.best_estimator_.classes_.tolist() == data.classes.tolist()


def test_people_of_a_second_study(tmp_path):
    for name in ("p1", "p2"):
        (tmp_path / f"{name}.tsv").write_text("junction_aa\nCASSF\n")
    metadata = pd.DataFrame({"filename": ["p2", "p1"], "label": ["ill", "ill"]})
    people = load_airr(tmp_path, metadata, classes=["healthy", "ill"])
    assert people.target.tolist() == ["ill", "ill"]
    assert people.classes.tolist() == ["healthy", "ill"]


def bag_rows(tmp_path, *rows, header="bag,label,x"):
    (tmp_path / "bags.csv").write_text("\n".join([header, *rows]) + "\n")
    return tmp_path / "bags.csv"


def test_underscores_make_no_numbers(tmp_path):
    assert plain_labels(load_bags(bag_rows(tmp_path, "a,3_4,1", "b,4_3,2")).target) == plain_labels(
        ["3_4", "4_3"]
    )
    folder = folder_of_bags(tmp_path / "f", "a", "b")
    table = pd.DataFrame({"bag": ["a", "b"], "label": ["3_4", "4_3"]})
    for given in (table, pl.from_pandas(table)):
        assert load_bag_folder(folder, given).classes.tolist() == ["3_4", "4_3"]
    table["time"], table["event"] = ["1_0", "2"], [1, 0]
    with pytest.raises(
        BagFileError, match=r"time holds text \('1_0', '2'\), which is not a number"
    ):
        load_bag_folder(folder, table, label=("event", "time"))
    numbers = load_bags(bag_rows(tmp_path, "a,-1.5e1,1", "b,.5,2", "c,+3.,3")).target
    assert numbers.tolist() == [-15, 0.5, 3]


@pytest.mark.parametrize("kind", ["pandas", "enum", "parquet"])
def test_the_order_of_categories_is_the_order_of_classes(tmp_path, kind):
    folder, ranks = folder_of_bags(tmp_path / "f", "a", "b", "c"), ["low", "mid", "high", "top"]
    y = pd.Categorical(["mid", "low", "high"], ranks, ordered=True)
    table = pd.DataFrame({"bag": ["a", "b", "c"], "label": y})
    if kind == "enum":
        table = pl.DataFrame(
            {"bag": ["a", "b", "c"], "label": pl.Series([*y], dtype=pl.Enum(ranks))}
        )
    elif kind == "parquet":
        table.assign(x=[1.0, 2.0, 3.0]).to_parquet(tmp_path / "t.parquet")
        table = tmp_path / "t.parquet"
        assert load_bags(table).classes.tolist() == ranks
    found = load_bag_folder(folder, table)
    assert found.classes.tolist() == ranks
    assert found.target.tolist() == ["mid", "low", "high"]
    asked = load_bag_folder(folder, table, classes=["top", "high", "mid", "low"])
    assert asked.classes.tolist() == ["top", "high", "mid", "low"]
    for given in (y, pd.Series(y)):
        save_bags(tmp_path / "s.npz", found.data, given)
        saved = load_bags(tmp_path / "s.npz")
        assert (saved.classes.tolist(), saved.target.tolist()) == (ranks, [*y])


def test_ordered_numbers_keep_their_order(tmp_path):
    folder = folder_of_bags(tmp_path / "f", "a", "b")
    y = pd.Categorical([1, 2], [3, 2, 1], ordered=True)
    found = load_bag_folder(folder, pd.DataFrame({"bag": ["a", "b"], "label": y}))
    assert (found.classes.tolist(), found.target.tolist()) == ([3, 2, 1], [1, 2])
    save_bags(tmp_path / "s.npz", found.data, y)
    saved = load_bags(tmp_path / "s.npz")
    assert (saved.classes.tolist(), saved.target.tolist()) == ([3, 2, 1], [1, 2])


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "category", "polars"])
def test_blanks_around_words_are_no_part_of_them(tmp_path, kind):
    cells = {
        "bag": ["a", "b ", " c", "d"],
        "label": ["neg", "neg ", " pos", "pos"],
        "group": ["g", "g ", "h", " h"],
        "split": ["train", "train ", " test", "test"],
    }
    table = pd.DataFrame(cells)
    given = {
        "csv": lambda: table.to_csv(tmp_path / "t.csv", index=False) or tmp_path / "t.csv",
        "parquet": lambda: table.to_parquet(tmp_path / "t.pq") or tmp_path / "t.pq",
        "pandas": lambda: table,
        "category": lambda: table.astype("category"),
        "polars": lambda: pl.DataFrame(cells),
    }[kind]()
    found = load_bag_folder(folder_of_bags(tmp_path / "f", "a", "b", "c", "d"), given)
    assert found.bag_names.tolist() == ["a", "b", "c", "d"]
    assert found.groups.tolist() == ["g", "g", "h", "h"]
    # Labels stay as they are written, and a classifier refuses them.
    with pytest.raises(ValueError, match="y holds 'neg' and 'neg ', which differ in blanks"):
        BagSVC().fit(found.data, found.target)
    assert found.split.tolist() == [0, 0, 1, 1]


def test_blanks_in_tables_of_instances():
    frame = pd.DataFrame({"b": ["a", "a ", " c"], "l": ["n", "n", "p "], "x": [1.0, 2, 3]})
    for given in (frame, pl.from_pandas(frame), frame.astype({"b": "category"})):
        bags, y, ids = Bags.from_frame(given, "b", label="l", return_ids=True)
        assert (bags.sizes.tolist(), y.tolist(), ids.tolist()) == ([2, 1], ["n", "p "], ["a", "c"])
    frame["l"] = ["n", "n ", "p"]
    with pytest.raises(ValueError, match=r"^Bag 'a' has two labels, n and n : a bag"):
        Bags.from_frame(frame, "b", label="l")


def test_a_regressor_takes_no_names():
    X, y = make_bags(n_bags=12, random_state=0)
    with pytest.raises(ValueError, match=r"^y holds text \('GG[12]', 'GG[12]'\), which is"):
        ShareRegressor().fit(X, np.array(["GG1", "GG2"])[y])
    with pytest.raises(ValueError, match=r"^y holds categories \('low', 'high'\)"):
        MIRegressor().fit(X, pd.Series(["low", "high"] * 6, dtype="category"))
    with pytest.raises(ValueError, match=r"^y holds text .* convert it by pandas\.to_numeric"):
        MISVR().fit(X, (y - 0.5).astype(str))
