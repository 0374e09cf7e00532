"""SingleInstance with a threshold on the proportion of positive instances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.svm import SVC

from milearn import Bags
from milearn.baselines import SingleInstance
from tests.toys import two_level_bags


def mixed(seed=0, n_bags=60):
    """Positive bags have two thirds of positive instances, negative bags one third."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(6, 15, n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    y = np.arange(n_bags) % 2
    proportion = np.repeat(np.where(y == 1, 0.67, 0.33), sizes)
    inside = rng.random(offsets[-1]) < proportion
    return Bags(rng.normal(size=(offsets[-1], 2)) + 3.0 * inside[:, None], offsets), y


@pytest.mark.parametrize("threshold", [0, 0.1, 0.35, 0.5, 0.9])
@pytest.mark.parametrize("pos_label", [None, 0])
def test_a_bag_is_positive_when_more_than_the_proportion_is(threshold, pos_label):
    bags, y = mixed()
    model = SingleInstance(SVC(), threshold=threshold, pos_label=pos_label).fit(bags, y)
    positive = 1 if pos_label is None else pos_label
    inside = model.predict_instances(bags) == positive
    proportion = np.array([part.mean() for part in np.split(inside, bags.offsets[1:-1])])
    np.testing.assert_array_equal(model.predict(bags) == positive, proportion > threshold + 1e-12)
    scores = model.decision_function(bags)
    np.testing.assert_array_equal(scores > 0, model.predict(bags) == 1)


def test_zero_is_the_maximum_and_scores_are_order_statistics():
    bags, y = mixed()
    plain = SingleInstance(SVC()).fit(bags, y)
    zero = SingleInstance(SVC(), threshold=0.0).fit(bags, y)
    np.testing.assert_array_equal(zero.decision_function(bags), plain.decision_function(bags))
    half = SingleInstance(SVC(), threshold=0.5).fit(bags, y)
    parts = np.split(half.instance_decision_function(bags), bags.offsets[1:-1])
    expected = [np.sort(part)[::-1][int(0.5 * len(part))] for part in parts]
    np.testing.assert_array_equal(half.decision_function(bags), expected)
    assert hasattr(plain, "witness")
    assert not hasattr(half, "witness")
    assert not hasattr(SingleInstance(threshold=0.5), "witness")


def test_three_classes_and_values():
    bags, y = two_level_bags(n_classes=3)
    model = SingleInstance(SVC(), threshold=0.3).fit(bags, y)
    assert model.decision_function(bags).shape == (40, 3)
    values = SingleInstance(Ridge(), threshold=0.5).fit(bags, y.astype(float))
    parts = np.split(values.predict_instances(bags), bags.offsets[1:-1])
    expected = [np.sort(part)[::-1][len(part) // 2] for part in parts]
    np.testing.assert_allclose(values.predict(bags), expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": 1.0}, "threshold=1.0 must be a number from 0 to below 1"),
        ({"threshold": "auto"}, "threshold='auto' must be a number from 0 to below 1"),
        ({"threshold": 0.2, "pooling": "mean"}, "it requires pooling='max'"),
    ],
)
def test_bad_thresholds_are_refused(parameters, message):
    bags, y = two_level_bags()
    with pytest.raises(ValueError, match=message):
        SingleInstance(**parameters).fit(bags, y)
