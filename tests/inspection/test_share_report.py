"""Tables of a share discriminant: they equal what SciPy and the model return for each bag."""

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
from milearn.inspection import ShareDisplay, _share_report, share_report
from milearn.preprocessing import InstanceTransformer
from tests.common import few_trees

pytest.importorskip("pandas")
SCALED = make_pipeline(InstanceTransformer(StandardScaler()), ShareDiscriminant(share=0.3))


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


@pytest.mark.parametrize("names", [("low", "many"), ("some", "a few")])
def test_tables_of_bags_features_and_instances(data, names, tmp_path, monkeypatch):
    monkeypatch.setattr(_share_report, "_AT_ONCE", 1)
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
    assert list(listed)[:4] == ["row", "bag", "position", "score"]
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


def test_columns_of_the_user_stay_beside_those_of_the_report(data):
    X, y = data
    cells = Bags(
        X.instances,
        X.offsets,
        feature_names=["CD3", "score", "CD8", "CD19"],
        instance_data={"bag": np.arange(X.n_instances), "CD3": X.instance_data["row"]},
        bag_data={"bag": np.arange(30.0), "score": np.arange(30.0)[::-1]},
    )
    report, plain = (share_report(clone(SCALED).fit(each, y), each, y) for each in (cells, X))
    np.testing.assert_array_equal(report.bags["score"], plain.bags["score"])
    np.testing.assert_array_equal(report.bags["bag (bag_data)"], np.arange(30.0))
    np.testing.assert_array_equal(report.bags["score (bag_data)"], np.arange(30.0)[::-1])
    listed = report.instances
    assert listed.columns.is_unique
    np.testing.assert_array_equal(listed["CD3 (instance_data)"], plain.instances["row"])
    for name, expected in (("bag", "bag"), ("score (feature)", "CD4"), ("CD3", "CD3")):
        np.testing.assert_array_equal(listed[name], plain.instances[expected])


def test_text_and_picture(data):
    X, y = data
    report = share_report(clone(SCALED).fit(X, y), X, y)
    first, head, *rest = str(report).splitlines()
    n = report.bags["n_selected"].sum()
    assert first.startswith(f"{n} of {X.n_instances:,} instances have a score above the cut")
    assert head.split() == ["class", "number", "mean", "share", "lowest", "highest"]
    order = report.features["effect"].abs().sort_values()[::-1].index
    assert [line.split()[0] for line in rest] == ["0", "1", "feature", *order]
    assert rest[1].split()[1:3] == ["15", f"{report.bags['share'][y == 1].mean():.2%}"]
    report.plot(max_features=2)
    bars = [bar.get_width() for bar in report.axes_[1].patches]
    np.testing.assert_array_equal(bars, report.features["effect"][order[[1, 0]]])
    np.testing.assert_array_equal(
        report.display.points_.get_offsets()[:, 1], report.bags["share"].to_numpy()
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_default_classifier_reports_its_model_of_shares(n_classes, monkeypatch):
    monkeypatch.setattr(MIClassifier, "_candidates", lambda *_: [CandidateName("share")])
    y = np.arange(36) % n_classes
    X = cells(np.array([0.05, 0.3, 0.8])[y], seed=1)
    model = MIClassifier(random_state=0).fit(X, y)
    report = share_report(model, X, y, class_label=1)
    scores = model.decision_function(X).reshape(len(X), -1)
    np.testing.assert_array_equal(report.bags["score"], scores[:, -1 if n_classes == 2 else 1])
    # Scores of the reported model are those of the default before the calibration.
    share, seen = model._share_step(X)
    columns = share.decision_function(seen).reshape(len(X), -1)
    np.testing.assert_allclose(columns, model._function.bag_scores(X), rtol=1e-6)
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
    for model in (ShareRegressor(share=0.3), MIRegressor(random_state=0)):
        report = share_report(model.fit(X, y), X, y)
        np.testing.assert_array_equal(report.bags["label"], y)
        np.testing.assert_array_equal(report.bags["score"], model.predict(X))
        assert np.corrcoef(report.bags["share"], y)[0, 1] > 0.8
        assert str(report).splitlines()[2].startswith("all ")


def test_what_is_refused(data, monkeypatch):
    X, y = data
    model = ShareDiscriminant(share=0.3).fit(X, y)
    with pytest.raises(TypeError, match="MISVC has no share_scores_: fit it first, or plot"):
        share_report(MISVC(kernel="linear").fit(X, y), X, y)
    monkeypatch.setattr(MIClassifier, "_candidates", lambda *_: [CandidateName("trees")])
    with pytest.raises(TypeError, match=r"^The best model of this MIClassifier does not select .*"):
        share_report(few_trees.MIClassifier().fit(X, y), X, y)
    with pytest.raises(ValueError, match=r"^confidence_level=1.0 must be between 0 and 1\.$"):
        share_report(model, X, y, confidence_level=1.0)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        share_report(model, X, y, groups=y[1:])
    model.cut_ = np.inf
    with pytest.raises(ValueError, match=r"^The model selects 0 of 1204 instances: there is"):
        share_report(model, X, y)
