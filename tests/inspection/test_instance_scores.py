"""Scores of one bag: heights of bars, cells of the map, the witness, the threshold."""

from __future__ import annotations

import sys
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest

from milearn import MISVC, Bags, CoupledMISVR
from milearn.datasets import load_digit_bags
from milearn.inspection import InstanceScoresDisplay
from milearn.survival import MICoxPH, survival_outcomes
from tests.toys import LeastSquaresBags, two_level_bags


@pytest.fixture(scope="module")
def data():
    X, y, *_ = two_level_bags(n_bags=30, seed=1, size=4)
    return X, y


@pytest.fixture(scope="module")
def model(data):
    return LeastSquaresBags().fit(*data)


def test_heights_are_scores_and_the_witness_has_its_own_colour(data, model):
    X, _ = data
    display = InstanceScoresDisplay.from_estimator(model, X, bag=-27)
    expected = model.instance_decision_function(X)[X.bag_index == 3]
    np.testing.assert_allclose([bar.get_height() for bar in display.bars_], expected)
    colors = [bar.get_facecolor() for bar in display.bars_]
    witness = int(model.witness(X)[3] - X.offsets[3])
    assert [color == colors[witness] for color in colors] == [
        row == witness for row in range(len(colors))
    ]
    assert list(display.line_.get_ydata()) == [0.0, 0.0]
    assert display.figure_ is display.ax_.figure
    with pytest.raises(IndexError):
        InstanceScoresDisplay.from_estimator(model, X, bag=30)


def test_of_three_classes_the_predicted_one_is_drawn_or_the_one_that_is_named():
    X, y, *_ = two_level_bags(n_bags=30, n_classes=3, seed=1, size=3)
    model = LeastSquaresBags().fit(X, y)
    for bag in range(5):
        display = InstanceScoresDisplay.from_estimator(model, X, bag=bag)
        column = int(np.flatnonzero(model.classes_ == model.predict(X)[bag])[0])
        scores = model.instance_decision_function(X)[X.bag_index == bag]
        np.testing.assert_allclose(display.scores, scores[:, column])
        assert display.witness == model.witness(X)[bag] - X.offsets[bag]
    named = InstanceScoresDisplay.from_estimator(model, X, bag=4, class_label=model.classes_[0])
    np.testing.assert_allclose(named.scores, scores[:, 0])


@pytest.mark.parametrize("model", [CoupledMISVR(kernel="linear"), MICoxPH()], ids=repr)
def test_values_and_risks_have_no_threshold(data, model):
    X, y = data
    values = np.maximum.reduceat(X.instances[:, 0], X.offsets[:-1])
    if isinstance(model, MICoxPH):
        values = survival_outcomes(y == 1, 1.0 + np.arange(len(y)) % 7)
    model.fit(X, values)
    display = InstanceScoresDisplay.from_estimator(model, X, bag=1)
    np.testing.assert_allclose(display.scores, model.predict_instances(X[[1]]))
    assert display.line_ is None
    assert display.ax_.get_ylabel() == "instance value"


def test_a_grid_becomes_a_heat_map_cell_by_cell(data, model):
    X, _ = data
    places = np.tile([[10, 0], [12, 0], [10, 2], [14, 2]], (30, 1))
    placed = Bags(X.instances, X.offsets, instance_data={"coords": places})
    display = InstanceScoresDisplay.from_estimator(model, placed, bag=7, coordinates="coords")
    scores = model.instance_decision_function(X[[7]])
    cells = display.image_.get_array()
    assert cells.shape == (2, 3)
    np.testing.assert_allclose(cells[[0, 0, 1, 1], [0, 1, 0, 2]], scores)
    assert cells.mask.sum() == 2
    low, high = display.image_.get_clim()
    assert low == -high == -np.abs(scores).max()
    (ring,) = {tuple(map(float, np.concatenate(line.get_data()))) for line in display.ax_.lines}
    assert ring == tuple(map(float, places[display.witness]))
    assert display.bars_ is None


def test_scattered_places_and_two_instances_in_one_place_are_points():
    places = np.random.default_rng(0).random((9, 2))
    display = InstanceScoresDisplay(scores=np.arange(9.0), coordinates=places).plot()
    assert display.image_ is None
    np.testing.assert_allclose(display.points_.get_offsets(), places)
    np.testing.assert_allclose(display.points_.get_array(), np.arange(9.0))
    assert display.ax_.yaxis_inverted()
    places = [[0, 0], [0, 0], [1, 1]]
    display = InstanceScoresDisplay(scores=[1.0, 2.0, 3.0], coordinates=places).plot()
    assert display.image_ is None
    assert len(display.points_.get_offsets()) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coordinates": "coords"}, "instance_data of coordinates= has no column 'coords'"),
        ({"coordinates": [[0, 0]]}, r"coordinates must have shape \(4, 2\)"),
        ({"kind": "map"}, "A map needs coordinates"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(data, model, options, message):
    with pytest.raises(ValueError, match=message):
        InstanceScoresDisplay.from_estimator(model, data[0], **options)


def test_without_matplotlib_one_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'milearn\[plot\]'"):
        InstanceScoresDisplay(scores=[1.0, 2.0]).plot()


def test_a_large_bag_has_a_bar_for_several_instances_and_a_mark_at_the_witness():
    scores = np.random.default_rng(0).normal(size=1003) - 5.0
    scores[502] = 1.0
    display = InstanceScoresDisplay(scores=scores).plot()
    groups = np.split(scores, np.arange(4, 1003, 4))
    assert [bar.get_height() for bar in display.bars_] == [group.max() for group in groups]
    (mark,) = (line for line in display.ax_.lines if line.get_marker() == "v")
    assert (*mark.get_xdata(), *mark.get_ydata()) == (502, 1.0)


def test_the_bar_of_a_witness_that_is_not_the_highest_has_its_score():
    display = InstanceScoresDisplay(scores=np.arange(600.0), witness=6).plot()
    assert len(display.bars_) == 300
    assert [bar.get_height() for bar in display.bars_][2:5] == [5.0, 6.0, 9.0]


def test_scores_are_those_of_the_positive_class_with_its_name():
    # "cancer" is the first class: its witness must have the highest of the drawn scores.
    X, y = load_digit_bags(n_bags=40, return_X_y=True)
    names = np.where(y == 1, "cancer", "normal")
    model = MISVC(pos_label="cancer").fit(X, names)
    display = InstanceScoresDisplay.from_estimator(model, X, bag=4)
    np.testing.assert_array_equal(display.scores, -model.instance_decision_function(X[[4]]))
    assert display.witness == np.argmax(display.scores)
    assert display.ax_.get_ylabel() == "score of cancer"
    other = InstanceScoresDisplay.from_estimator(model, X, bag=4, class_label="normal")
    np.testing.assert_array_equal(other.scores, -display.scores)
    assert other.ax_.get_ylabel() == "score of normal"
    with pytest.raises(ValueError, match="is not a class of the model"):
        InstanceScoresDisplay.from_estimator(model, X, class_label="a stranger")


def test_a_merged_bag_has_a_heat_map_for_each_of_its_parts(model):
    X, *_ = two_level_bags(n_bags=6, seed=1, size=4)
    places = np.tile([[0, 0], [256, 0], [0, 256], [256, 256]], (6, 1))
    slides = Bags(X.instances, X.offsets, instance_data={"coords": places, "slide": X.bag_index})
    patients = slides.merge(["b", "a", "b", "a", "b", "b"])
    map_of = partial(
        InstanceScoresDisplay.from_estimator, model, coordinates="coords", patch_size=256
    )
    display = map_of(patients, bag=0)
    assert [each.axes.get_title() for each in display.maps_] == ["0", "2", "4", "5"]
    scores = model.instance_decision_function(slides[[0, 2, 4, 5]]).reshape(4, 2, 2)
    np.testing.assert_array_equal([each.get_array() for each in display.maps_], scores)
    assert display.image_ is display.points_ is None
    assert len({each.get_clim() for each in display.maps_}) == 1
    named = map_of(patients, bag=1, parts="slide")
    assert [each.axes.get_title() for each in named.maps_] == ["1", "3"]
    whole = map_of(slides, bag=5)
    assert whole.maps_ == [whole.image_]
    assert map_of(patients, bag=1, kind="bars").maps_ == []
    with pytest.raises(ValueError, match="instance_data of parts= has no column 'stain'"):
        map_of(patients, parts="stain")
    with pytest.raises(ValueError, match=r"parts must have shape \(16,\), got \(2,\)"):
        map_of(patients, parts=[0, 1])
    with pytest.raises(
        ValueError, match="The map has 4 parts, which need axes of a grid: pass one"
    ):
        map_of(patients, ax=plt.figure().add_axes((0, 0, 1, 1)))


def test_one_tile_needs_its_size():
    for size in (None, 256):
        display = InstanceScoresDisplay(scores=[1.0], coordinates=[[0, 0]], patch_size=size).plot()
        assert (display.image_ is None) == (size is None)
    assert list(display.image_.get_extent()) == [0.0, 256.0, 256.0, 0.0]
