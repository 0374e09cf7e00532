"""Pictures of a share discriminant: what is drawn equals the numbers of the model."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC, Bags
from milearn.discriminant_analysis import ShareDiscriminant, ShareRegressor
from milearn.inspection import ShareDisplay
from milearn.preprocessing import InstanceTransformer


def cells(rates, seed=0):
    """Bags of 30 to 49 instances, of which a share is shifted."""
    rng = np.random.default_rng(seed)
    bags = []
    for rate in rates:
        size = rng.integers(30, 50)
        bags.append(rng.normal(size=(size, 3)) + 3.0 * (rng.random((size, 1)) < rate))
    return Bags.from_list(bags)


@pytest.fixture(scope="module")
def data():
    y = np.arange(30) % 2
    return cells(np.where(y == 1, 0.3, 0.05)), y


@pytest.fixture(scope="module")
def model(data):
    return ShareDiscriminant().fit(*data)


def test_scores_by_share_and_the_chosen_one(data, model):
    display = ShareDisplay.from_estimator(model, *data, kind="shares")
    np.testing.assert_array_equal(display.curve_.get_ydata(), model.share_scores_)
    (at,), (height,) = display.chosen_.get_data()
    assert model.shares_[at] == model.share_
    assert height == model.share_scores_[at]
    names = [tick.get_text() for tick in display.ax_.get_xticklabels()]
    assert (names[0], names[-1], len(names)) == ("highest", "all", len(model.shares_))
    assert "3 %" in names or "10 %" in names
    assert display.ax_.get_ylabel() == "AUC on inner folds"


@pytest.mark.parametrize("names", [("low", "many"), ("some", "a few")])
def test_shares_of_bags_by_class_with_words_in_either_order(data, names):
    X, y = data
    words = np.array(names)[y]
    model = ShareDiscriminant(share=0.3).fit(X, words)
    assert model.orientation_ == (1 if names[0] == "low" else -1)
    display = ShareDisplay.from_estimator(model, X, words)
    drawn = display.points_.get_offsets()
    np.testing.assert_allclose(drawn[:, 1], model.selected_share(X))
    codes = (words == model.classes_[1]).astype(int)
    assert np.abs(drawn[:, 0] - codes).max() <= 0.25
    (bars,) = (each for each in display.ax_.collections if each is not display.points_)
    means = [drawn[codes == code, 1].mean() for code in range(2)]
    np.testing.assert_allclose([bar[:, 1] for bar in bars.get_segments()], np.c_[means, means])
    colors = np.unique(display.points_.get_facecolors(), axis=0, return_inverse=True)[1].ravel()
    assert len(set(zip(colors, codes, strict=True))) == 2
    side = "above" if model.orientation_ == 1 else "below"
    label = f"instances with a\nscore for class {model.classes_[1]} {side} the cut"
    assert display.ax_.get_ylabel() == label
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == sorted(names)


@pytest.mark.parametrize("reverse", [False, True], ids=["1", "-1"])
@pytest.mark.parametrize("column", [0, 1])
def test_instances_beyond_the_cut_are_the_selected_shares(data, reverse, column):
    X, y = data
    y = 1 - y if reverse else y
    model = ShareDiscriminant(share=0.3).fit(X, y)
    assert model.orientation_ == (-1 if reverse else 1)
    display = ShareDisplay.from_estimator(model, X, y, kind="instances", class_label=column)
    sign = 2 * column - 1
    np.testing.assert_array_equal(display.scores, sign * model.instance_decision_function(X))
    assert list(display.line_.get_xdata()) == [sign * model.cut_] * 2
    assert display.ax_.get_xlabel() == f"score for class {column}"
    beyond = (display.bins_[:-1] + display.bins_[1:]) / 2 > display.cut
    beyond = beyond if sign * model.orientation_ > 0 else ~beyond
    for label, counts in display.counts_.items():
        assert counts.sum() == pytest.approx(1.0)
        expected = model.selected_share(X)[y == label].mean()
        assert counts[beyond].sum() == pytest.approx(expected)
    handles, texts = display.ax_.get_legend_handles_labels()
    area = handles[texts.index("selected")].get_window_extent()
    cut = display.ax_.transData.transform((display.cut, 1.0))[0]
    assert (area.x0 >= cut - 1e-6) == (sign * model.orientation_ > 0)


def test_of_three_classes_one_is_named():
    y = np.arange(36) % 3
    X = cells(np.array([0.05, 0.3, 0.8])[y], seed=1)
    model = ShareDiscriminant(share=0.3).fit(X, y)
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
    model = ShareRegressor(share=0.3).fit(X, y)
    display = ShareDisplay.from_estimator(model, X, y)
    expected = np.stack([y, model.selected_share(X)], axis=1)
    np.testing.assert_allclose(display.points_.get_offsets(), expected)
    assert display.ax_.get_xlabel() == "value of the bag"
    display.plot(kind="instances")
    above = (display.bins_[:-1] + display.bins_[1:]) / 2 > model.cut_
    high, low = (counts[above].sum() for counts in display.counts_.values())
    assert high == pytest.approx(model.selected_share(X)[y > y.mean()].mean())
    assert low == pytest.approx(model.selected_share(X)[y <= y.mean()].mean())
    assert display.plot(kind="shares").ax_.get_ylabel() == "correlation on inner folds"


def test_a_pipeline_draws_what_its_last_step_sees(data):
    X, y = data
    scaled = InstanceTransformer(StandardScaler())
    pipeline = make_pipeline(scaled, ShareDiscriminant(share=0.3)).fit(X, y)
    last, seen = pipeline[-1], pipeline[:-1].transform(X)
    display = ShareDisplay.from_estimator(pipeline, X, y)
    np.testing.assert_array_equal(display.selected, last.selected_share(seen))
    np.testing.assert_array_equal(display.scores, last.instance_decision_function(seen))


def test_what_cannot_be_drawn_is_one_sentence(data, model):
    X, y = data
    with pytest.raises(TypeError, match="MISVC has no share_scores_: fit it first, or plot"):
        ShareDisplay.from_estimator(MISVC(kernel="linear").fit(X, y), X, y)
    with pytest.raises(ValueError, match="kind='pie' is unknown: use 'shares', 'bags' or"):
        ShareDisplay.from_estimator(model, X, y, kind="pie")
    with pytest.raises(ValueError, match="y has 29 labels for 30 bags"):
        ShareDisplay.from_estimator(model, X, y[:29])
    with pytest.raises(ValueError, match="Lengths differ"):
        ShareDisplay(
            shares=[0.1],
            share_scores=[0.9],
            share=0.1,
            selected=[0.5],
            labels=[1],
            scores=[0.0, 1.0],
            sizes=[3],
            cut=0.5,
        )


@pytest.mark.parametrize("orientation", [1, -1])
def test_a_cut_beyond_all_scores_and_equal_scores(orientation):
    display = ShareDisplay(
        shares=[0.1],
        share_scores=[0.9],
        share=0.1,
        selected=[0.0, 0.0],
        labels=["a", "b"],
        scores=[2.0, 2.0, 2.0],
        sizes=[1, 2],
        cut=2.0 + 9.0 * orientation,
        orientation=orientation,
    ).plot(kind="instances")
    assert {label: counts.sum() for label, counts in display.counts_.items()} == {"a": 1, "b": 1}
    handles, texts = display.ax_.get_legend_handles_labels()
    area = handles[texts.index("selected")].get_window_extent()
    assert area.width == pytest.approx(0.0)
