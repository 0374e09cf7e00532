"""Histograms by class, and where the threshold stands."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline

from milearn.baselines import CitationKNN
from milearn.cluster import M3IC
from milearn.inspection import BagScoresDisplay
from milearn.preprocessing import BagStatistics
from tests.toys import LeastSquaresBags, two_level_bags


@pytest.fixture(scope="module")
def data():
    X, y, *_ = two_level_bags(n_bags=40, seed=3)
    return X, y


def test_counts_by_class_and_the_threshold_of_decision_functions(data):
    X, y = data
    model = LeastSquaresBags().fit(X, y)
    display = BagScoresDisplay.from_estimator(model, X, y, bins=7)
    scores = model.decision_function(X)
    edges = np.histogram_bin_edges(scores, bins=7)
    np.testing.assert_allclose(display.bins_, edges)
    for label in np.unique(y):
        counts = np.histogram(scores[y == label], bins=edges)[0]
        np.testing.assert_array_equal(display.counts_[label], counts)
    assert list(display.line_.get_xdata()) == [0.0, 0.0]


def test_area_is_one_where_density_is_asked_for():
    y = np.repeat([0, 1], [30, 5])
    scores = np.linspace(-1, 1, 35)
    display = BagScoresDisplay(scores=scores, labels=y).plot(density=True, bins=10)
    for counts in display.counts_.values():
        assert np.sum(counts * np.diff(display.bins_)) == pytest.approx(1.0)
    assert display.line_ is None


def test_a_tuned_threshold_is_where_it_was_tuned(data):
    X, y = data
    tuned = TunedThresholdClassifierCV(LeastSquaresBags(), cv=2, thresholds=15).fit(X, y)
    display = BagScoresDisplay.from_estimator(tuned, X, y)
    at = display.line_.get_xdata()[0]
    assert at == tuned.best_threshold_
    # On which side of the line a bag lies is what is predicted.
    np.testing.assert_array_equal(display.scores >= at, tuned.predict(X) == tuned.classes_[1])
    turned = BagScoresDisplay.from_estimator(tuned, X, y, class_label=tuned.classes_[0])
    assert turned.line_.get_xdata()[0] == -at


def test_probabilities_have_their_threshold_in_the_middle(data):
    X, y = data
    model = CitationKNN().fit(X, y)
    display = BagScoresDisplay.from_estimator(model, X, y, response_method="predict_proba")
    np.testing.assert_allclose(display.scores, model.predict_proba(X)[:, 1])
    assert display.line_.get_xdata()[0] == 0.5


def test_three_classes_need_a_name():
    X, y, *_ = two_level_bags(n_bags=30, n_classes=3, seed=1)
    model = LeastSquaresBags().fit(X, y)
    with pytest.raises(ValueError, match="name one by class_label="):
        BagScoresDisplay.from_estimator(model, X, y)
    display = BagScoresDisplay.from_estimator(model, X, y, class_label=model.classes_[1])
    np.testing.assert_allclose(display.scores, model.decision_function(X)[:, 1])
    assert len(display.counts_) == 3


def test_wrong_input_is_one_sentence(data):
    X, y = data
    model = LeastSquaresBags().fit(X, y)
    with pytest.raises(AttributeError, match="predict_proba"):
        BagScoresDisplay.from_estimator(model, X, y, response_method="predict_proba")
    with pytest.raises(AttributeError, match="M3IC"):
        BagScoresDisplay.from_estimator(M3IC(random_state=0).fit(X), X, y)


def test_values_of_a_regressor_are_drawn_against_the_true_ones(data):
    X, y = data
    values = y + np.linspace(0.0, 1.0, len(y))
    model = make_pipeline(BagStatistics("mean"), Ridge()).fit(X, values)
    display = BagScoresDisplay.from_estimator(model, list(X), values)
    expected = np.stack([values, model.predict(X)], axis=1)
    np.testing.assert_allclose(display.points_.get_offsets(), expected)
    np.testing.assert_array_equal(*display.line_.get_data())
    labels = display.ax_.get_xlabel(), display.ax_.get_ylabel()
    assert labels == ("true value", "predicted value")
    values[3] = np.nan
    with pytest.raises(ValueError, match=r"y holds 1 missing value\(s\) \(NaN\), .* for bag 3"):
        BagScoresDisplay.from_estimator(model, list(X), values)
