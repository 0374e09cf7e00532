"""Columns of a person's tables in situations that the searches of 0.4.0 found."""

from __future__ import annotations

import pickle
import unicodedata
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from milearn import Bags, MIClassifier
from milearn.baselines import MIForest
from milearn.datasets import BagFileError, load_bags, make_bags
from milearn.discriminant_analysis import ShareDiscriminant
from milearn.inspection import share_report
from milearn.metrics import concordance_index, group_scores
from milearn.model_selection import (
    BagShuffleSplit,
    StratifiedBagKFold,
    compare,
    confounder_baseline,
    label_permutation_test,
)
from milearn.preprocessing import BagData, BagStatistics
from milearn.survival import MICoxPH, survival_outcomes
from milearn.svm import MISVC, MISVR, BagSVC

pytestmark = pytest.mark.usefixtures("no_intervals")

# -- names of bags and groups (rows 1 and 2) -------------------------------------------------------

SPELLINGS = [
    lambda number: number,
    lambda number: str(number),
    lambda number: f"{number} ",
    lambda number: float(number),
    lambda number: Decimal(f"{number}.0"),
]


def mixed(numbers):
    """Numbers as a reader of a large file, two sites, and a spreadsheet write them."""
    return [SPELLINGS[at % len(SPELLINGS)](int(number)) for at, number in enumerate(numbers)]


def test_a_column_of_numbers_that_was_read_in_pieces():
    """1,254 bags of 1,001 patients: pandas reads 7 in one piece of a file and "7" in another."""
    patient = np.repeat(np.arange(1001), 3)
    frame = pd.DataFrame({"x": np.arange(3003.0), "patient": mixed(patient)})
    X = Bags.from_frame(frame, "patient")
    assert len(X) == 1001
    assert X.names.tolist() == [*map(str, range(1001))]
    np.testing.assert_array_equal(X.instances[:, 0], np.arange(3003.0))


def test_letters_with_accents_of_two_systems():
    """Two bags of one patient: a file system writes ü as one sign, and another one as two."""
    names = [unicodedata.normalize(form, "Jürgen") for form in ("NFC", "NFD")]
    assert len(Bags.from_ids(np.eye(2), names)) == 1


def slides():
    """Three slides of each of 12 patients, who have a label and a look of their own."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(12), 3)
    look = rng.normal(size=(12, 3))[patient]
    X = Bags.from_list([rng.normal(size=(3, 3)) * 0.1 + each for each in look])
    return X, rng.permutation(np.repeat([0, 1], 6))[patient], patient


@pytest.mark.parametrize("cv", [StratifiedBagKFold(3), BagShuffleSplit(3, random_state=0)])
def test_no_patient_is_on_both_sides_of_a_split(cv):
    """Half of the patients were: an AUC of .74 for .57 of the others."""
    X, y, patient = slides()
    for train, test in cv.split(X, y, mixed(patient)):
        assert not {*patient[train]} & {*patient[test]}
    for several in (
        np.column_stack([np.array(mixed(patient), dtype=object), np.array(mixed(patient // 2))]),
        pd.DataFrame({"patient": mixed(patient), "site": mixed(patient // 2)}),
    ):
        for train, test in cv.split(X, y, several):
            assert not {*(patient[train] // 2)} & {*(patient[test] // 2)}


def test_spellings_of_a_patient_change_nothing():
    """Each function took 7, "7", "7 " and 7.0 for four patients."""
    X, y, patient = slides()
    groups = mixed(patient)
    scores = np.random.default_rng(0).normal(size=len(X))
    share = ShareDiscriminant(share=0.3).fit(X, y)
    ridge = make_pipeline(BagStatistics("mean"), LogisticRegression())
    quick = MIClassifier(random_state=0, time_limit=1e-9)
    for call in (
        lambda g: X.merge(g, y)[0].instances,
        lambda g: group_scores(scores, g)[0],
        lambda g: pd.factorize(share_report(share, X, y, groups=g).bags["group"])[0],
        lambda g: ShareDiscriminant().fit(X, y, groups=g).share_scores_,
        lambda g: quick.fit(X, y, groups=g).decision_function(X),
        lambda g: compare({"m": ridge}, {"d": (X, y, g)}, cv=2).table(),
        lambda g: confounder_baseline(X, y, covariates={"a": scores}, groups=g, cv=2).table(),
        lambda g: (
            label_permutation_test(
                ridge, X, y, groups=g, n_permutations=1, cv=2, random_state=0
            ).permutation_scores
        ),
    ):
        # Names in the order of the numbers, which are texts among texts.
        np.testing.assert_array_equal(call(groups), call([f"{each}" for each in patient]))


# -- covariates (rows 3 to 6) ----------------------------------------------------------------------


def cohort(n=120):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, n)
    return Bags.from_list([rng.normal(size=(3, 2)) for _ in range(n)]), y, rng


def auc(X, y, column):
    found = confounder_baseline(X, y, covariates={"column": column})
    return found.table()[0, 1], found.estimators[1]


@pytest.mark.parametrize(
    ("write", "remedy"),
    [
        (lambda v: f"2024-{1 + int(v) // 28:02}-{1 + int(v) % 28:02}", r"pandas\.to_datetime"),
        (lambda v: f"{1 + int(v) % 28}.{1 + int(v) // 28}.2024", r"pandas\.to_datetime"),
        (lambda v: f"{v / 7:.1f}", r"pandas\.to_numeric"),
        (lambda v: f"{v / 7:.1f}".replace(".", ","), "decimal=','"),
        (lambda v: f"{1000 + 9 * v:,.0f}", "thousands=','"),
    ],
)
def test_dates_and_numbers_as_texts_are_named(write, remedy):
    """.60 and .68 to .71 for 1.00: each text was a category, which no other bag has.

    The remedy of "1,234" was decimal=',' alone, by which it is 1.234 (row 16).
    """
    X, y, rng = cohort()
    texts = [write(value) for value in 150 * y + rng.uniform(0, 140, len(y))]
    for column in (texts, np.array(texts), pd.Series(texts)):
        with pytest.raises(ValueError, match=rf"'column'.*{texts[0]!r}.*{remedy}"):
            auc(X, y, column)
    with pytest.raises(ValueError, match=rf"bag_data\['column'\].*{remedy}"):
        BagData().fit(X.with_bag_data({"column": texts}))


def batches(y, rng):
    """Batches 1 and 4 have one class, and 2 and 3 the other, so that no line separates them."""
    return np.where(y == 1, rng.choice([1, 4], len(y)), rng.choice([2, 3], len(y)))


def test_integers_that_may_be_codes_are_tried_as_both():
    """.49 for .96."""
    X, y, rng = cohort()
    assert auc(X, y, batches(y, rng)) == (1.0, "column (as categories)")
    found, name = auc(X, y, 3 * y + rng.integers(0, 3, len(y)))
    assert found == 1.0
    assert name == "column"


# -- durations (rows 7 and 8) ----------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["D", "h", "ns"])
def test_durations_are_days(unit):
    """Predictions of -1.5e17 after a gap, and 5 days were 5, 4.3e11 or 4.3e14."""
    rng = np.random.default_rng(2)
    days = rng.integers(1, 400, 40)
    X = Bags.from_list([rng.normal(size=(3, 1)) * 5 + each for each in days])
    span = days.astype("m8[D]").astype(f"m8[{unit}]")
    ridge, model = make_pipeline(BagStatistics("mean"), Ridge()), MISVR(kernel="linear")
    np.testing.assert_array_equal(model.fit(X, span).predict(X), model.fit(X, days).predict(X))
    assert model.score(X, span) == model.score(X, pd.Series(span)) == model.score(X, days) > 0.9
    found = [compare({"m": ridge}, {"d": (X, y)}).table() for y in (span, days)]
    assert found[0] == found[1] > 0.9
    weighted = [MISVC(kernel="linear").fit(X, days > 200, w).coef_ for w in (span, days)]
    np.testing.assert_array_equal(*weighted)

    y = survival_outcomes(np.ones(40, dtype=bool), span)
    np.testing.assert_array_equal(y["time"], days)
    assert concordance_index(y, MICoxPH().fit(X, y).predict(X)) > 0.99
    gaps = np.where(np.arange(40) == 7, np.timedelta64("NaT", unit), span)
    message = r"holds 1 missing value\(s\) \(NaN\), the first for bag 7: leave these out, or fill"
    for call in (
        lambda: model.fit(X, gaps),
        lambda: model.score(X, gaps),
        lambda: model.fit(X, days, sample_weight=gaps),
        lambda: survival_outcomes(np.ones(40, dtype=bool), gaps),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_dates_are_no_times_values_or_classes():
    """A concordance of .598 for .999; and a missing date was a class of its own."""
    dates = pd.Series(pd.date_range("2024-01-01", periods=6))
    X, y = Bags.singletons(np.arange(6.0)[:, None]), [0, 1] * 3
    for call in (
        lambda: survival_outcomes([True] * 6, dates),
        lambda: MISVR().fit(X, dates),
        lambda: MISVC().fit(X, y, sample_weight=dates),
    ):
        with pytest.raises(ValueError, match=r"holds dates \(2024-01-01, .* such as end - start"):
            call()
    for given in (dates, dates - dates[0], dates.dt.date, dates.to_numpy()):
        with pytest.raises(ValueError, match=r"^y holds dates or durations .* a class is a n"):
            MISVC().fit(X, given)
    with pytest.raises(ValueError, match=r"^y holds 1 missing label\(s\)"):
        MISVC().fit(X, dates.where(dates.index != 2))


@pytest.mark.parametrize("read", [
    lambda X: MISVC(max_iter=2).fit(X, [0, 1] * 3),
    Bags.singletons,
    lambda X: Bags.from_list([X, X]),
    lambda X: Bags.from_frame(X.assign(bag=range(6)), "bag"),
    lambda X: group_scores(X["c"], [*"aabbcc"]),
], ids=["fit", "singletons", "from_list", "from_frame", "group_scores"])  # fmt: skip
def test_features_and_scores_are_numbers(read):
    """Categories of integers were numbers in a fit, and dates nanoseconds."""
    frame = pd.DataFrame({"a": np.arange(6.0), "c": np.arange(6)})
    dates = pd.date_range("2024-01-01", periods=6)
    for values, message in (
        (pd.Categorical(np.arange(6)), "c.* holds categories .0, 1"),
        (dates, "c.* holds dates .2024-01-01"),
    ):
        with pytest.raises(ValueError, match=message):
            read(frame.assign(c=values))
    expected, found = read(frame), read(frame.assign(c=dates - dates[0]))
    if isinstance(found, Bags):
        assert found.equals(expected)
    if isinstance(found, tuple):
        np.testing.assert_array_equal(found[0], expected[0])


def test_an_array_of_dates_is_no_matrix():
    dates = np.array(["2024-01-01", "2024-01-03"], dtype="M8[D]")[:, None]
    with pytest.raises(ValueError, match="instances holds dates"):
        MISVC().fit(dates, [0, 1])


# -- AnnData (row 11) ------------------------------------------------------------------------------


def cells(n=60):
    rng = np.random.default_rng(3)
    obs = pd.DataFrame(
        {"donor": [f"d{each}" for each in rng.integers(0, 6, n)], "kind": rng.random(n) < 0.4},
        index=[f"cell{each}" for each in rng.permutation(n)],
    )
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return SimpleNamespace(X=X, obs=obs, var_names=["CD3", "CD4", "CD8"], uns={})


def taken(adata, rows):
    return SimpleNamespace(X=adata.X[rows], obs=adata.obs.iloc[rows].copy(), uns={})


def test_scores_of_cells_go_to_the_cells():
    """After cells were sorted within donors: an AUC of 1.000 in the bags, and .535 in obs."""
    adata = cells()
    X = Bags.from_anndata(adata, "donor", instance_data=["kind"])
    scores = X.instance_data["kind"].astype(float) + 0.1
    for rows in (
        np.lexsort([adata.X[:, 0], adata.obs["donor"]]),
        np.arange(0, 60, 3),
        np.random.default_rng(0).permutation(60)[:40],
    ):
        other = taken(adata, rows)
        X.to_anndata(other, instance_data={"score": scores.to_numpy()})
        np.testing.assert_array_equal(other.obs["milearn_score"] > 1, other.obs["kind"])
    some = X[[0, 1]]
    some.to_anndata(adata, instance_data={"score": np.ones(some.n_instances)})
    assert adata.obs["milearn_score"].notna().sum() == some.n_instances
    other = taken(adata, np.arange(40))
    other.obs.index = ["new", *other.obs.index[1:]]
    with pytest.raises(ValueError, match="cells of the bags are not in adata, such as 'cell"):
        X.to_anndata(other, instance_data={"score": scores.to_numpy()})


# -- gaps of texts (row 17) ------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_a_missing_text_is_a_gap_everywhere(gap):
    """An error of "instance 21", one of "bag 19", or the text ''."""
    sites = pd.Series(["A", gap, "B"], dtype=object)
    frame = pd.DataFrame({"bag": [*"abc"], "x": [1.0, 2.0, 3.0], "site": sites})
    adata = SimpleNamespace(X=np.ones((3, 1)), obs=frame, var_names=["x"])
    for X in (
        Bags.from_frame(frame, "bag", bag_data=["site"]),
        Bags.from_anndata(adata, "bag", bag_data=["site"]),
        Bags.from_ids(np.ones((3, 1)), [*"abc"], bag_data={"site": sites}),
        Bags.singletons(np.ones((3, 1))).with_bag_data({"site": sites}),
    ):
        assert X.bag_data["site"].isna().tolist() == [False, True, False]
        found = BagData(["site"]).fit_transform(X)[:, 0]
        assert found[[0, 2]].tolist() == ["A", "B"]
        assert np.isnan(found[1])
    X, y = Bags.singletons(np.ones((12, 1))), np.arange(12) % 3 == 1
    found = confounder_baseline(X, y, covariates={"site": [*sites] * 4}, cv=2)
    assert found.table()[0, 1] == 1.0


# -- units, markers and words (rows 15, 18, 19, 20 and 21) -----------------------------------------


@pytest.mark.parametrize("change", [lambda x: x * 1e-8, lambda x: x + 1e9, lambda x: x * 1e8])
def test_units_of_the_features_of_trees(change):
    """An AUC of .50 for .98: trees have single precision, and do not divide less than 1e-7."""
    X, y = make_bags(n_bags=80, random_state=0)
    X = X.with_instances(change(X.instances))
    model = MIForest(n_estimators=20, random_state=0).fit(X[:50], y[:50])
    assert roc_auc_score(y[50:], model.decision_function(X[50:])) > 0.95


def test_a_marker_that_a_second_cohort_lacks():
    """The message was that of another order, and CD57 was not named."""
    X, y = make_bags(n_bags=20, n_features=3, random_state=0)
    X = Bags(X.instances, X.offsets, feature_names=["CD3", "CD57", "CD8"])
    model = MISVC().fit(X, y)
    new = Bags(X.instances, X.offsets, feature_names=["CD3", "CD99", "CD8"])
    with pytest.raises(ValueError, match=r"'CD57' missing, 'CD99' new\. Pass X\[:, model\.f"):
        model.predict(new)
    with pytest.raises(ValueError, match=r"the order differs\. Pass X\[:, model\.f"):
        model.predict(X[:, ["CD8", "CD57", "CD3"]])
    turned = X[:, ["CD8", "CD57", "CD3"]]
    assert model.predict(turned[:, model.feature_names_in_]).tolist() == model.predict(X).tolist()


def test_a_class_weight_without_effect_is_told():
    """It was silent: no dual variable is at its bound with the default C."""
    X, y = make_bags(n_bags=60, random_state=0)
    with pytest.warns(UserWarning, match="class_weight has no effect on BagSVC with C=10"):
        BagSVC(class_weight={0: 1, 1: 5}).fit(X, y)
    plain, weighted = (BagSVC(C=0.1, class_weight=w).fit(X, y) for w in (None, {0: 1, 1: 5}))
    assert (weighted.decision_function(X) > plain.decision_function(X)).mean() > 0.9


def test_padding_of_an_array_is_told():
    """The witness was padding in 32 % of the bags."""
    rng = np.random.default_rng(0)
    padded = rng.normal(size=(12, 5, 3))
    padded[::3, 3:] = 0.0
    with pytest.warns(UserWarning, match="8 of 60 instances consist of zeros, the first in bag 0"):
        MISVC().fit(padded, np.arange(12) % 2)
    left = Bags.from_padded(padded, lengths=np.where(np.arange(12) % 3, 5, 3))
    assert left.sizes.tolist() == [3, 5, 5] * 4
    MISVC().fit(left, np.arange(12) % 2)


def test_classes_in_two_spellings_are_refused():
    X, y = make_bags(n_bags=12, random_state=0)
    words = np.where(y == 1, "Tumor", np.where(np.arange(12) % 3, "tumor", "normal"))
    with pytest.raises(ValueError, match="'Tumor' and 'tumor', which differ in"):
        MISVC().fit(X, words)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_files_of_other_systems(tmp_path, encoding):
    """pandas reads them, or says what it cannot decode."""
    text = "bag;Größe\nMüller;1,5\nMüller;2,5\nHuber;3,5\n"
    (tmp_path / "x.csv").write_text(text, encoding=encoding)
    with pytest.raises(BagFileError, match=r"x\.csv: it cannot be read as csv by pandas \(Unicode"):
        load_bags(tmp_path / "x.csv")
    data = load_bags(tmp_path / "x.csv", encoding=encoding, sep=";", decimal=",")
    assert data.data.names.tolist() == ["Müller", "Huber"]
    assert data.data.feature_names.tolist() == ["Größe"]
    assert data.data.instances.ravel().tolist() == [1.5, 2.5, 3.5]


def test_a_frame_that_polars_has_not_read_yet():
    lazy = pl.LazyFrame({"bag": ["a", "a", "b"], "x": [1.0, 2.0, 3.0], "empty": [None] * 3})
    X = Bags.from_frame(lazy, "bag", features=["x"])
    assert X.sizes.tolist() == [2, 1]


# -- the index of a column that goes with another one, and parts that are joined -------------------


def test_columns_with_one_index_in_another_order_are_refused():
    """Every instance was in the wrong bag, and scores of patients were those of others."""
    cells = pd.DataFrame({"x": [0.0, 1.0, 10.0, 11.0]}, index=["c1", "c2", "c3", "c4"])
    bag = pd.Series(list("bbaa"), index=["c3", "c4", "c1", "c2"])
    in_another_order = "is that of .* in another order: pass"
    with pytest.raises(ValueError, match=in_another_order):
        Bags.from_ids(cells, bag)
    X = Bags.from_ids(cells, bag.loc[cells.index], instance_data=cells)
    assert X[:1].instances.ravel().tolist() == [0.0, 1.0]
    outcomes = survival_outcomes(pd.Series([1, 1], index=["p", "q"]), [1.0, 2.0])
    for call in (
        lambda: Bags.from_ids(cells, bag.loc[cells.index], instance_data=cells[::-1]),
        lambda: X.select_instances(cells["x"][::-1] > 5),
        lambda: X.with_instance_data(q=cells["x"][::-1]),
        lambda: group_scores(
            pd.Series([1, 2], index=["p", "q"]), pd.Series(["A", "B"], index=["q", "p"])
        ),
        lambda: concordance_index(outcomes, pd.Series([2.0, 1.0], index=["q", "p"])),
    ):
        with pytest.raises(ValueError, match=f"{in_another_order}|differs from the names"):
            call()


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (pd.Categorical([1, 2]), pd.Categorical([3, 4]), "category"),
        ([True, False], [True, None], "boolean"),
        (pd.Categorical([1, 2]), pd.Categorical(["3", "4"]), None),
        (pd.Categorical([1, 2], ordered=True), pd.Categorical([1, 2], [2, 1], ordered=True), None),
        (pd.to_datetime(["2024-01-01"] * 2), pd.to_datetime(["2024-01-01"] * 2, utc=True), None),
    ],
)
def test_columns_of_two_cohorts_are_joined_as_what_they_are(one, other, joined):
    """Categories of integers became integers, and an order was lost."""
    parts = [Bags(np.eye(2), [0, 1, 2], bag_data={"site": each}) for each in (one, other)]
    if joined is None:
        with pytest.raises(ValueError, match=r"^bag_data\['site'\] cannot be joined"):
            Bags.concatenate(parts)
    else:
        assert Bags.concatenate(parts).bag_data["site"].dtype == joined


def test_names_of_two_cohorts_are_one_kind():
    parts = [Bags(np.eye(2), [0, 1, 2], names=names) for names in ([7, 8], ["9", "p"])]
    assert Bags.concatenate(parts).names.tolist() == ["7", "8", "9", "p"]
    with pytest.raises(ValueError, match="Two keys name one bag"):
        Bags.from_list({7: [[1.0]], "7": [[2.0]]})
    with pytest.raises(ValueError, match="Two bags have one name"):
        parts[0][[0, 0]].to_frame()
    with pytest.raises(ValueError, match="Two bags have one name"):
        parts[0][:2].to_frame(ids=["p1", "p1 "])
    assert parts[0][:2].to_frame(ids=[1.0, 2.0])["bag"].unique().tolist() == [1, 2]


def test_columns_of_arrow_are_those_of_pandas():
    """Durations of Arrow were categories, and pickles of integers of Arrow failed."""
    days = pd.Series(pd.to_timedelta([1, 2], unit="D"))
    frame = pd.DataFrame({"days": days, "n": [1, 2], "at": pd.to_datetime(["2024-01-01"] * 2)})
    arrow = frame.convert_dtypes(dtype_backend="pyarrow").astype({"days": "duration[us][pyarrow]"})
    X = Bags(np.eye(2), [0, 1, 2], bag_data=arrow)
    assert BagData().fit_transform(X)[:, :2].tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert pickle.loads(pickle.dumps(X)).equals(X)
    with pytest.raises(TypeError, match=r"has the type period\[D\]: convert it"):
        X.with_bag_data({"at": pd.period_range("2024-01-01", periods=2)})
