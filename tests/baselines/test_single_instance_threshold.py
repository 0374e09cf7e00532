"""SingleInstance with a threshold on the proportion of positive instances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC

from milearn import Bags
from milearn._bags.distinct import bag_fingerprints
from milearn.baselines import SingleInstance
from milearn.model_selection import StratifiedBagKFold
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
    assert model.threshold_ == threshold


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


def test_auto_takes_the_most_accurate_threshold_of_the_inner_folds():
    bags, y = mixed(n_bags=30)
    model = SingleInstance(SVC(), threshold="auto").fit(bags, y)
    thresholds, right = np.arange(20) / 20, np.zeros(20)
    # The folds are those of the bags in an order of their own.
    order = np.argsort(bag_fingerprints(bags))
    for kept, left in StratifiedBagKFold(5).split(bags[order], y[order]):
        kept, left = order[kept], order[left]
        for number, threshold in enumerate(thresholds):
            inner = SingleInstance(SVC(), threshold=threshold).fit(bags[kept], y[kept])
            right[number] += (inner.predict(bags[left]) == y[left]).sum()
    best = thresholds[right == right.max()]
    assert model.threshold_ == best[len(best) // 2]
    fresh, truth = mixed(seed=1)
    plain = SingleInstance(SVC()).fit(bags, y)
    assert model.score(fresh, truth) > plain.score(fresh, truth) + 0.2


def test_auto_slices_the_weights_of_the_bags():
    bags, y = mixed()
    weight = np.random.default_rng(0).integers(1, 4, len(bags)).astype(float)
    model = SingleInstance(LogisticRegression(), threshold="auto")
    assert model.fit(bags, y, sample_weight=weight).score(bags, y) > 0.8


@pytest.mark.parametrize("seed", range(4))
def test_auto_takes_weights_for_repetitions_and_ignores_the_order(seed):
    bags, y = mixed(seed, n_bags=24)
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(24) < 0.25, 1 - y, y)
    weights = rng.integers(0, 4, 24)
    model = SingleInstance(LogisticRegression(), threshold="auto")
    expected = model.fit(bags, y, sample_weight=weights.astype(float)).threshold_
    repeated = rng.permutation(np.repeat(np.arange(24), weights))
    assert model.fit(bags[repeated], y[repeated]).threshold_ == expected
    order = rng.permutation(24)
    weighted = model.fit(bags[order], y[order], sample_weight=weights[order].astype(float))
    assert weighted.threshold_ == expected


def test_three_classes_and_values():
    bags, y = two_level_bags(n_classes=3)
    model = SingleInstance(SVC(), threshold="auto").fit(bags, y)
    assert model.decision_function(bags).shape == (40, 3)
    values = SingleInstance(Ridge(), threshold=0.5).fit(bags, y.astype(float))
    parts = np.split(values.predict_instances(bags), bags.offsets[1:-1])
    expected = [np.sort(part)[::-1][len(part) // 2] for part in parts]
    np.testing.assert_allclose(values.predict(bags), expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": 1.0}, "threshold=1.0 must be a number from 0 to below 1"),
        ({"threshold": "half"}, "threshold='half' is unknown: use a number"),
        ({"threshold": 0.2, "pooling": "mean"}, "it requires pooling='max'"),
        ({"threshold": "auto", "estimator": Ridge()}, "pass a number for a regressor"),
    ],
)
def test_bad_thresholds_are_refused(parameters, message):
    bags, y = two_level_bags()
    with pytest.raises(ValueError, match=message):
        SingleInstance(**parameters).fit(bags, y)


def test_auto_needs_two_bags_of_each_class():
    bags, _ = two_level_bags(n_bags=5)
    with pytest.raises(ValueError, match="two different bags of each class"):
        SingleInstance(threshold="auto").fit(bags, [1, 0, 0, 0, 0])
