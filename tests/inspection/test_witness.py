"""The deciding instances: which they are, in which order, over which features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from milearn import M3IC, Bags
from milearn.inspection import WitnessDisplay
from milearn.survival import survival_outcomes
from tests.toys import LeastSquaresBags, two_level_bags


@pytest.fixture(scope="module")
def data():
    X, y, *_ = two_level_bags(n_bags=30, seed=2)
    return X, y, LeastSquaresBags().fit(X, y)


def test_thumbnails_are_the_witnesses_from_the_highest_down(data):
    X, y, model = data
    display = WitnessDisplay.from_estimator(model, X, y, instance_shape=(3, 1), max_bags=10)
    order = np.argsort(-model.decision_function(X), kind="stable")[:10]
    assert list(display.bags) == list(order)
    rows = model.witness(X)[order]
    for drawn, row in zip(display.images_, rows, strict=True):
        np.testing.assert_allclose(drawn.get_array(), X.instances[row].reshape(3, 1))
    titles = [drawn.axes.get_title() for drawn in display.images_]
    scores = model.decision_function(X)[order]
    assert titles == [
        f"class {y[bag]}\n{score:+.2f}" for bag, score in zip(order, scores, strict=True)
    ]
    assert display.lines_ == []
    clusters = M3IC(2, C=10.0, random_state=0).fit(X)
    display = WitnessDisplay.from_estimator(clusters, X, clusters.labels_, instance_shape=(1, 3))
    assert display.images_[0].axes.get_title().startswith(f"cluster {display.labels[0]}\n")


def test_lines_are_standardised_features_of_the_bags_that_are_named(data):
    X, y, model = data
    display = WitnessDisplay.from_estimator(model, X, y, bags=[4, 1, 7])
    rows = X.instances[model.witness(X)[[4, 1, 7]]]
    expected = (rows - X.instances.mean(axis=0)) / X.instances.std(axis=0)
    for line, values in zip(display.lines_, expected, strict=True):
        np.testing.assert_allclose(line.get_ydata(), values)


def test_features_that_witnesses_differ_in_are_chosen_and_named():
    rng = np.random.default_rng(0)
    instances = rng.normal(size=(10, 6))
    instances[:, [1, 4]] += 5
    given = {"mean": np.zeros(6), "std": np.ones(6), "feature_names": list("abcdef")}
    display = WitnessDisplay(instances=instances, scores=np.ones(10), **given).plot(max_features=2)
    assert list(display.features_) == [1, 4]
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["b", "e"]
    np.testing.assert_allclose(display.lines_[3].get_ydata(), instances[3, [1, 4]])


def test_sparse_bags_and_constant_features_are_drawn_as_dense_ones(data):
    X, y, model = data
    # The mean of .7 has a rounding error.
    columns = np.column_stack([X.instances, np.full(X.n_instances, 0.7)])
    dense = Bags(columns, X.offsets)
    model = LeastSquaresBags().fit(dense, y)
    drawn = [
        WitnessDisplay.from_estimator(model, bags, y)
        for bags in (dense, Bags(sparse.csr_array(columns), X.offsets))
    ]
    for ours, theirs in zip(drawn[0].lines_, drawn[1].lines_, strict=True):
        np.testing.assert_allclose(ours.get_ydata(), theirs.get_ydata(), atol=1e-12)
        assert ours.get_ydata()[-1] == 0.0
    display = WitnessDisplay(instances=columns, scores=np.ones(len(columns))).plot()
    assert {line.get_ydata()[-1] for line in display.lines_} == {0.0}


@pytest.mark.parametrize("bags", [[-1, 0, 7], np.arange(30) % 10 == 3])
def test_bags_are_named_by_numbers_or_a_mask_and_only_they_are_scored(data, bags):
    X, y, model = data
    positions = np.arange(30)[np.asarray(bags)]
    seen = []

    class Counting(LeastSquaresBags):
        def instance_decision_function(self, X):
            seen.append(len(X))
            return super().instance_decision_function(X)

    display = WitnessDisplay.from_estimator(Counting().fit(X, y), X, y, bags=bags)
    assert list(display.bags) == list(positions)
    assert set(seen) == {len(positions)}
    np.testing.assert_array_equal(display.instances, X.instances[model.witness(X)[positions]])
    np.testing.assert_array_equal(display.labels, y[positions])


def test_of_many_lines_some_are_drawn_evenly_and_the_legend_says_so():
    instances = np.random.default_rng(0).normal(size=(1000, 4))
    labels = np.repeat([0, 1], 500)
    display = WitnessDisplay(instances=instances, scores=np.ones(1000), labels=labels).plot()
    assert len(display.shown_) == len(display.lines_) == 200
    assert (display.shown_[0], display.shown_[-1]) == (0, 999)
    assert set(np.diff(display.shown_)) == {5, 6}
    expected = (instances - instances.mean(axis=0)) / instances.std(axis=0)
    for line, place in zip(display.lines_, display.shown_, strict=True):
        np.testing.assert_allclose(line.get_ydata(), expected[place])


def test_labels_of_another_length_are_refused(data):
    X, y, model = data
    with pytest.raises(ValueError, match="one label per bag"):
        WitnessDisplay.from_estimator(model, X, y[:-1])
    outcomes = survival_outcomes(np.ones(len(X), dtype=bool), np.arange(1.0, len(X) + 1))
    with pytest.raises(ValueError, match="outcomes of survival: pass classes, or y=None"):
        WitnessDisplay.from_estimator(model, X, outcomes)


@pytest.mark.parametrize("gap", [None, np.nan], ids=str)
def test_classes_with_gaps_are_refused(data, gap):
    """NaN in a list of words was drawn as the class "nan"."""
    X, y, model = data
    words = [gap, *(f"class {label}" for label in y[1:])]
    for given in (words, np.array(words, dtype=object)):
        with pytest.raises(ValueError, match="1 missing label"):
            WitnessDisplay.from_estimator(model, X, given)
