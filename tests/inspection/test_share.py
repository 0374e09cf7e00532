"""Pictures and tables of a share discriminant: they equal what SciPy and the model return."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, false_discovery_control, ks_2samp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC, Bags, MIClassifier, MIRegressor
from milearn.auto._candidates import CandidateName
from milearn.discriminant_analysis import ShareDiscriminant, ShareRegressor
from milearn.inspection import ShareDisplay, _share, share_report
from milearn.preprocessing import InstanceTransformer
from tests.common import few_trees

pytest.importorskip("pandas")
SCALED = make_pipeline(
    InstanceTransformer(StandardScaler()), ShareDiscriminant(share=0.3, n_parts=0)
)


def cells(rates, seed=0):
    """Bags of 30 to 49 instances, of which a share is shifted in two of four features."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(30, 50, len(rates))
    changed = rng.random(sizes.sum()) < np.repeat(rates, sizes)
    rows = rng.normal(size=(sizes.sum(), 4)) + np.outer(changed, [3.0, -3.0, 0.0, 0.0])
    return Bags(
        rows * [1.0, 10.0, 1.0, 1.0],
        np.append(0, sizes.cumsum()),
        feature_names=["CD3", "CD4", "CD8", "CD19"],
        instance_data={"row": np.arange(sizes.sum())[::-1], "xy": rows[:, :2]},
        bag_data={"donor": [f"d{n}" for n in range(len(rates))]},
    )


@pytest.fixture(scope="module")
def data():
    y = np.arange(30) % 2
    return cells(np.where(y == 1, 0.3, 0.05)), y


def test_scores_by_share_and_the_chosen_one(data):
    model = ShareDiscriminant(n_parts=0).fit(*data)
    display = ShareDisplay.from_estimator(model, *data, kind="shares")
    np.testing.assert_array_equal(display.curve_.get_ydata(), model.share_scores_)
    (at,), (height,) = display.chosen_.get_data()
    assert model.shares_[at] == model.share_
    assert height == model.share_scores_[at]


@pytest.mark.parametrize("names", [("low", "many"), ("some", "a few")])
def test_shares_of_bags_by_class_with_words_in_either_order(data, names):
    X, y = data
    words = np.array(names)[y]
    model = ShareDiscriminant(share=0.3, n_parts=0).fit(X, words)
    assert model.orientation_ == (1 if names[0] == "low" else -1)
    display = ShareDisplay.from_estimator(model, X, words)
    drawn = display.points_.get_offsets()
    np.testing.assert_allclose(drawn[:, 1], model.selected_share(X))
    codes = (words == model.classes_[1]).astype(int)
    assert np.abs(drawn[:, 0] - codes).max() <= 0.25
    side = "above" if model.orientation_ == 1 else "below"
    label = f"instances with a\nscore of {model.classes_[1]} {side} the cut"
    assert display.ax_.get_ylabel() == label


@pytest.mark.parametrize("reverse", [False, True], ids=["1", "-1"])
@pytest.mark.parametrize("column", [0, 1])
def test_instances_beyond_the_cut_are_the_selected_shares(data, reverse, column):
    X, y = data
    y = 1 - y if reverse else y
    model = ShareDiscriminant(share=0.3, n_parts=0).fit(X, y)
    assert model.orientation_ == (-1 if reverse else 1)
    display = ShareDisplay.from_estimator(model, X, y, kind="instances", class_label=column)
    sign = 2 * column - 1
    np.testing.assert_array_equal(display.scores, sign * model.instance_decision_function(X))
    assert list(display.line_.get_xdata()) == [sign * model.cut_] * 2
    assert display.ax_.get_xlabel() == f"score of class {column}"
    beyond = (display.bins_[:-1] + display.bins_[1:]) / 2 > display.cut
    beyond = beyond if sign * model.orientation_ > 0 else ~beyond
    for label, counts in display.counts_.items():
        assert counts.sum() == pytest.approx(1.0)
        expected = model.selected_share(X)[y == label].mean()
        assert counts[beyond].sum() == pytest.approx(expected)


def test_of_three_classes_one_is_named():
    y = np.arange(36) % 3
    X = cells(np.array([0.05, 0.3, 0.8])[y], seed=1)
    model = ShareDiscriminant(share=0.3, n_parts=0).fit(X, y)
    with pytest.raises(ValueError, match="name one by class_label="):
        ShareDisplay.from_estimator(model, X, y)
    display = ShareDisplay.from_estimator(model, X, y, class_label=2)
    np.testing.assert_allclose(display.selected, model.selected_share(X)[:, 2])
    np.testing.assert_array_equal(display.scores, model.instance_decision_function(X)[:, 2])
    assert (display.cut, display.orientation) == (model.cut_[2], model.orientation_[2])
    assert len(display.plot(kind="instances").counts_) == 3
    np.testing.assert_array_equal(
        display.plot(kind="shares").curve_.get_ydata(), model.share_scores_[2]
    )


def test_values_are_drawn_against_shares_and_split_at_their_mean():
    rng = np.random.default_rng(0)
    y = rng.random(30)
    X = cells(y / 2)
    model = ShareRegressor(share=0.3, n_parts=0).fit(X, y)
    display = ShareDisplay.from_estimator(model, X, y)
    expected = np.stack([y, model.selected_share(X)], axis=1)
    np.testing.assert_allclose(display.points_.get_offsets(), expected)
    display.plot(kind="instances")
    above = (display.bins_[:-1] + display.bins_[1:]) / 2 > model.cut_
    high, low = (counts[above].sum() for counts in display.counts_.values())
    assert high == pytest.approx(model.selected_share(X)[y > y.mean()].mean())
    assert low == pytest.approx(model.selected_share(X)[y <= y.mean()].mean())


def test_what_cannot_be_drawn_is_one_sentence(data):
    X, y = data
    model = ShareDiscriminant(share=0.3, n_parts=0).fit(X, y)
    with pytest.raises(TypeError, match="MISVC has no share_scores_: fit it first, or plot"):
        ShareDisplay.from_estimator(MISVC(kernel="linear").fit(X, y), X, y)
    with pytest.raises(ValueError, match="y has 29 labels for 30 bags"):
        ShareDisplay.from_estimator(model, X, y[:29])


# -- tables ----------------------------------------------------------------------------------------


def test_no_column_is_replaced_or_there_twice(data):
    X, y = data
    bags = Bags(
        X.instances,
        X.offsets,
        feature_names=["score", "CD4", "row", "bag"],
        instance_data={"bag": X.instance_data["row"], "row": X.instance_data["row"]},
        bag_data={"bag": y + 5, "score": y + 6, "group": y + 7},
    )
    report = share_report(ShareDiscriminant(share=0.3, n_parts=0).fit(bags, y), bags, y)
    assert list(report.instances) == (
        ["instance_data:bag", "row", "bag", "position", "score", "feature:score", "CD4"]
        + ["feature:row", "feature:bag"]
    )
    rows = X.offsets[report.instances["bag"]] + report.instances["position"]
    np.testing.assert_array_equal(
        report.instances["instance_data:bag"], bags.instance_data["bag"][rows]
    )
    assert list(report.bags)[:4] == ["bag_data:bag", "bag_data:score", "group", "label"]
    np.testing.assert_array_equal(report.bags["bag_data:score"], y + 6)


def test_constant_features_have_no_effect(data):
    X, y = data
    constants = np.linspace(0.1, 0.9, 9)
    bags = Bags(np.hstack([X.instances, np.tile(constants, (X.n_instances, 1))]), X.offsets)
    report = share_report(ShareDiscriminant(share=0.3, n_parts=0).fit(bags, y), bags, y)
    assert (report.features["effect"][4:] == 0).all()


@pytest.mark.parametrize("names", [("low", "many"), ("some", "a few")])
def test_tables_of_bags_features_and_instances(data, names, tmp_path, monkeypatch):
    monkeypatch.setattr(_share, "_AT_ONCE", 1)
    X, y = data
    y = np.array(names)[y]
    model = GridSearchCV(SCALED, {"sharediscriminant__share": [0.3]}, cv=2).fit(X, y)
    last, seen = model.best_estimator_[-1], model.best_estimator_[:-1].transform(X)
    assert last.orientation_ == (1 if names[0] == "low" else -1)
    report = share_report(model, X, y, groups=y, confidence_level=0.9)

    bags = report.bags
    assert list(bags) == (
        ["donor", "group", "label", "n_instances", "n_selected", "share", "low", "high", "score"]
    )
    np.testing.assert_array_equal(bags["group"], bags["label"])
    np.testing.assert_allclose(bags["share"], last.selected_share(seen))
    np.testing.assert_array_equal(bags["score"], model.decision_function(X))
    for row in bags.itertuples():
        exact = binomtest(row.n_selected, row.n_instances).proportion_ci(0.9, method="exact")
        np.testing.assert_allclose((row.low, row.high), exact, atol=1e-12)

    scores = last.instance_decision_function(seen)
    chosen = (scores > last.cut_) if last.orientation_ == 1 else (scores < last.cut_)
    assert list(report.features.index) == ["CD3", "CD4", "CD8", "CD19"]
    tests = [ks_2samp(c[chosen], c[~chosen], method="asymp") for c in X.instances.T]
    deviations = (X.instances[chosen].mean(0) - X.instances.mean(0)) / X.instances.std(0)
    np.testing.assert_allclose(report.features["effect"], deviations)
    np.testing.assert_allclose(report.features["ks"], [each.statistic for each in tests])
    adjusted = false_discovery_control([each.pvalue for each in tests])
    np.testing.assert_allclose(report.features["p_value"], adjusted)
    assert set(report.features["effect"].abs().nlargest(2).index) == {"CD3", "CD4"}

    listed = report.instances
    assert list(listed)[:6] == ["row", "xy_0", "xy_1", "bag", "position", "score"]
    assert len(listed) == bags["n_selected"].sum()
    np.testing.assert_array_equal(listed[["CD3", "CD4", "CD8", "CD19"]], X.instances[chosen])
    rows = X.offsets[listed["bag"]] + listed["position"]
    np.testing.assert_array_equal(X.instance_data["row"][rows], listed["row"])
    np.testing.assert_array_equal(scores[rows], listed["score"])

    np.save(tmp_path / "cells.npy", X.instances)
    mapped = np.load(tmp_path / "cells.npy", mmap_mode="r")
    again = share_report(model, Bags(mapped, X.offsets, feature_names=X.feature_names), y)
    np.testing.assert_array_equal(again.bags["n_selected"], bags["n_selected"])
    np.testing.assert_allclose(again.features, report.features)
    other = share_report(model, X, y, class_label=last.classes_[0])
    np.testing.assert_array_equal(other.bags["score"], -bags["score"])
    np.testing.assert_array_equal(other.bags["share"], bags["share"])


@pytest.mark.parametrize(
    ("names", "beyond"),
    [(("low", "many"), "of many above"), (("some", "a few"), "of some below")],
)
def test_text_and_picture(data, names, beyond):
    X, y = data
    labels = np.array(names)[y]
    report = share_report(clone(SCALED).fit(X, labels), X, labels)
    first, head, *rest = str(report).splitlines()
    n = report.bags["n_selected"].sum()
    assert first.startswith(f"{n} of {X.n_instances:,} instances have a score {beyond} the cut")
    assert head.split() == ["class", "number", "mean", "share", "lowest", "highest"]
    order = report.features["effect"].abs().sort_values()[::-1].index
    for name, line in zip(sorted(names), rest[:2], strict=True):
        mean = report.bags["share"][labels == name].mean()
        assert line.startswith(name)
        assert line.removeprefix(name).split()[:2] == ["15", f"{mean:.2%}"]
    assert [line.split()[0] for line in rest[2:]] == ["feature", *order]
    report.plot(max_features=2)
    bars = [bar.get_width() for bar in report.axes_[1].patches]
    np.testing.assert_array_equal(bars, report.features["effect"][order[[1, 0]]])
    np.testing.assert_array_equal(
        report.display.points_.get_offsets()[:, 1], report.bags["share"].to_numpy()
    )


def test_selected_instances_are_compared_with_others_of_their_type(data):
    """CD8 marks the type of which more are changed, CD3 what changes; CD19 differs by the type."""
    rng, y = np.random.default_rng(0), data[1]
    types = rng.permuted(np.repeat(["T", "B", "NK"], [400, 400, 400]))
    X = Bags(
        rng.normal(size=(1200, 4)),
        np.arange(0, 1201, 40),
        feature_names=["CD3", "CD4", "CD8", "CD19"],
    )
    ill = y[X.bag_index] * (rng.random(1200) < np.where(types == "T", 0.5, 0.02)) == 1
    rows = X.instances + np.stack(
        [4.0 * ill, 0.0 * ill, 9.0 * (types == "T"), 1.0 * (types == "B")], axis=1
    )
    X = X.with_instances(rows, feature_names=X.feature_names).with_instance_data(type=types)
    model = ShareDiscriminant(share=0.3, n_parts=0).fit(X[:, ["CD3", "CD4"]], y)
    model.n_features_in_, model.coef_ = 4, np.append(model.coef_, [0.0, 0.0])
    model.feature_names_in_ = np.array(X.feature_names, dtype=object)
    plain, report = (share_report(model, X, y, within=each) for each in (None, "type"))
    assert plain.features["effect"]["CD8"] > 0.5
    assert abs(report.features["effect"]["CD8"]) < 0.3 < 1.0 < report.features["effect"]["CD3"]
    chosen = model.instance_decision_function(X) > model.cut_
    for name, column in zip(X.feature_names, rows.T, strict=True):
        parts = [column[types == each] for each in ("T", "B", "NK")]
        weights = [chosen[types == each].sum() for each in ("T", "B", "NK")]
        alike = np.average([part.mean() for part in parts], weights=weights)
        spread = np.sqrt(np.mean([part.var() for part in parts]))
        found = report.features.loc[name]
        assert found["mean_all"] == pytest.approx(alike)
        assert found["effect"] == pytest.approx((column[chosen].mean() - alike) / spread)
    assert report.types.index[0] == "T"
    assert report.types["n_selected"].sum() == chosen.sum()
    assert report.types["share"]["T"] == pytest.approx(chosen[types == "T"].mean())
    assert report.types["of_selected"].sum() == pytest.approx(1.0)
    lines = str(report).splitlines()
    assert lines[4].split() == ["type", "n_selected", "share"]
    assert lines[5].split() == ["T", str(weights[0]), f"{report.types['share']['T']:.2%}"]
    with pytest.raises(ValueError, match="instance_data has no column"):
        share_report(model, X, y, within="cell")
    with pytest.raises(ValueError, match="there is nothing to compare"):
        share_report(model, X.with_instance_data(type=np.arange(1200)), y, within="type")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_default_classifier_reports_its_model_of_shares(n_classes, monkeypatch):
    monkeypatch.setattr(MIClassifier, "_candidates", lambda *_: [CandidateName("share")])
    y = np.arange(36) % n_classes
    X = cells(np.array([0.05, 0.3, 0.8])[y], seed=1)
    model = MIClassifier(random_state=0).fit(X, y)
    report = share_report(model, X, y, class_label=1)
    scores = model.decision_function(X).reshape(len(X), -1)
    np.testing.assert_array_equal(report.bags["score"], scores[:, -1 if n_classes == 2 else 1])
    # Scores of the reported model are those of the default before the regression.
    share, seen = model._share_step(X)
    columns = share.decision_function(seen).reshape(len(X), -1)
    known = model._function.functions[0].bag_scores(X)
    np.testing.assert_allclose(columns, known, rtol=1e-6)
    display = ShareDisplay.from_estimator(model, X, y, kind="shares", class_label=1)
    assert display.share in display.shares
    assert display.share_scores[list(display.shares).index(display.share)] > 0.6
    if n_classes == 2:
        assert np.corrcoef(report.bags["share"], y)[0, 1] > 0.8
        best = display.share_scores.max()
        assert best == pytest.approx(model.scores_["share"]["roc_auc"], abs=0.05)


def test_values(monkeypatch):
    monkeypatch.setattr(MIRegressor, "_candidates", lambda *_: [CandidateName("share")])
    y = np.random.default_rng(0).random(30)
    X = cells(y / 2)
    for model in (ShareRegressor(share=0.3, n_parts=0), MIRegressor(random_state=0)):
        report = share_report(model.fit(X, y), X, y)
        np.testing.assert_array_equal(report.bags["label"], y)
        np.testing.assert_array_equal(report.bags["score"], model.predict(X))
        assert np.corrcoef(report.bags["share"], y)[0, 1] > 0.8
        assert str(report).splitlines()[2].startswith("all ")


def test_what_has_no_report_is_refused(data, monkeypatch):
    X, y = data
    model = ShareDiscriminant(share=0.3, n_parts=0).fit(X, y)
    monkeypatch.setattr(MIClassifier, "_candidates", lambda *_: [CandidateName("trees")])
    with pytest.raises(TypeError, match=r"^The best model of this MIClassifier does not select .*"):
        share_report(few_trees.MIClassifier().fit(X, y), X, y)
    with pytest.raises(ValueError, match=r"^confidence_level=1.0 must be between 0 and 1\.$"):
        share_report(model, X, y, confidence_level=1.0)
    model.cut_ = np.inf
    with pytest.raises(ValueError, match=r"^The model selects 0 of 1204 instances: there is"):
        share_report(model, X, y)


@pytest.mark.parametrize("gap", [None, np.nan], ids=str)
def test_classes_with_gaps_are_refused(gap):
    X = cells([0.1] * 6 + [0.5] * 6)
    words = ["no"] * 6 + ["yes"] * 6
    model = clone(SCALED).fit(X, words)
    for given in ([gap, *words[1:]], np.array([gap, *words[1:]], dtype=object)):
        with pytest.raises(ValueError, match="1 missing label"):
            ShareDisplay.from_estimator(model, X, given)
