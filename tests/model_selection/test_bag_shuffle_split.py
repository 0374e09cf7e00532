"""BagShuffleSplit: class-wise proportions, groups, missing labels."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from milearn import Bags
from milearn.model_selection import BagShuffleSplit, StratifiedBagKFold
from milearn.preprocessing import BagStatistics

Y = np.repeat([0, 1, 2], [60, 30, 10])
X = np.zeros((100, 1))
# Each class is in two of three groups.
TWO_OF_THREE = np.repeat([0, 1, 0, 2, 1, 2], [10, 20, 10, 20, 20, 20])
THREE = np.repeat(["a", "b", "c"], [30, 30, 40])


@pytest.mark.parametrize(
    ("sizes", "train", "test"),
    [
        ({}, [54, 27, 9], [6, 3, 1]),
        ({"train_size": 0.3}, [18, 9, 3], [42, 21, 7]),
        ({"test_size": 0.2}, [48, 24, 8], [12, 6, 2]),
        ({"test_size": 10, "train_size": 20}, [12, 6, 2], [6, 3, 1]),
        ({"test_size": 0.2, "train_size": 0.2}, [12, 6, 2], [12, 6, 2]),
        ({"test_size": 4}, [58, 29, 9], [2, 1, 1]),
        ({"train_size": 3}, [1, 1, 1], [59, 29, 9]),
    ],
)
def test_proportions_of_every_class(sizes, train, test):
    cv = BagShuffleSplit(5, random_state=0, **sizes)
    for left, right in cv.split(X, Y):
        assert np.bincount(Y[left]).tolist() == train
        assert np.bincount(Y[right]).tolist() == test
        assert len(np.intersect1d(left, right)) == 0


@pytest.mark.parametrize("seed", range(10))
def test_whole_numbers_near_the_proportions(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 40, size=rng.integers(2, 6))
    y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    n, k = len(y), len(counts)
    test = int(rng.integers(k, n - k + 1))
    for train, tested in BagShuffleSplit(2, test_size=test).split(np.zeros((n, 1)), y):
        drawn = np.bincount(y[tested], minlength=k)
        assert drawn.sum() == test
        assert len(train) == n - test
        assert (drawn >= 1).all()
        assert (drawn < counts).all()
        ideal = test * counts / n
        inner = (ideal >= 1) & (ideal <= counts - 1)
        if inner.all():
            assert (np.abs(drawn - ideal) < 1).all()


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("sizes", [{"test_size": 0.3}, {"test_size": 0.2, "train_size": 0.4}])
def test_groups_stay_together(sizes, mixed):
    groups = np.random.default_rng(0).integers(0, 25, size=100)
    if not mixed:
        groups = groups + 100 * Y
    for train, test in BagShuffleSplit(20, random_state=0, **sizes).split(X, Y, groups):
        assert not set(groups[train]) & set(groups[test])
        assert set(Y[train]) == set(Y[test]) == {0, 1, 2}
        assert abs(len(test) - 100 * sizes["test_size"]) <= 12
        wanted = 100 * sizes.get("train_size", 1 - sizes["test_size"])
        assert abs(len(train) - wanted) <= 12


def test_unlabelled_bags_train_and_are_not_tested():
    y = np.where(np.arange(100) % 3 == 0, np.nan, Y)
    hidden = np.isnan(y)
    for train, test in BagShuffleSplit(5, train_size=0.3, random_state=0).split(X, y):
        assert hidden[train].sum() == hidden.sum()
        assert not hidden[test].any()
        assert (~hidden[train]).sum() == int(0.3 * (~hidden).sum())
    groups = np.random.default_rng(0).integers(0, 25, size=100)
    for train, test in BagShuffleSplit(5, random_state=0).split(X, y, groups):
        assert not set(groups[train]) & set(groups[test])
    for train, test in BagShuffleSplit(5, unlabeled=2, random_state=0).split(X, Y):
        assert np.sum(Y[train] == 2) == 10
        assert set(Y[test]) == {0, 1}


@pytest.mark.parametrize(
    "cv",
    [
        BagShuffleSplit(3, test_size=0.25, random_state=0),
        StratifiedBagKFold(3, shuffle=True, random_state=0),
    ],
    ids=["shuffled", "folds"],
)
def test_within_scikit_learn(cv):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    bags = Bags.from_list([rng.normal(label, 1, size=(3, 2)) for label in y])
    groups = np.arange(40) // 2
    first, again = (list(cv.split(bags, y)) for _ in range(2))
    assert [test.tolist() for _, test in first] == [test.tolist() for _, test in again]
    assert first[0][1].tolist() != first[1][1].tolist()
    model = make_pipeline(BagStatistics(), SVC())
    expected = list(cv.split(bags, y, groups))
    plain = cross_validate(model, bags, y, groups=groups, cv=cv, return_indices=True)
    for test, (_, wanted) in zip(plain["indices"]["test"], expected, strict=True):
        np.testing.assert_array_equal(test, wanted)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_validate(model, bags, y, params={"groups": groups}, cv=cv)
    np.testing.assert_array_equal(plain["test_score"], routed["test_score"])
    assert cv.get_n_splits() == 3


@pytest.mark.parametrize(
    ("options", "y", "groups", "sentence"),
    [
        ({"test_size": 2}, Y, None, r"2 test bag\(s\) cannot hold 3 classes: raise the share"),
        ({"train_size": 0.02}, Y, None, r"2 training bag\(s\) cannot hold 3 classes"),
        ({"test_size": 100}, Y, None, "test_size=100 should be either positive and smaller"),
        (
            {"test_size": 0.6, "train_size": 0.6},
            Y,
            None,
            "The sum of test_size and train_size = 1.2",
        ),
        ({"test_size": 90, "train_size": 20}, Y, None, "The sum of train_size and test_size = 110"),
        ({}, np.arange(100) == 3, None, r"True is in 1 labelled bag\(s\) and needs 2, one for ev"),
        ({}, Y, Y, r"Class 0 is in 1 group\(s\) and needs 2, one for every fold: add"),
        ({}, TWO_OF_THREE, THREE, "were drawn 100 times and always left a class out of the train"),
        ({}, None, None, "BagShuffleSplit needs y: pass the class of each bag"),
    ],
)
def test_impossible_splits(options, y, groups, sentence):
    with pytest.raises(ValueError, match=sentence):
        list(BagShuffleSplit(**options).split(X, y, groups))


@pytest.mark.parametrize("size", [0.0, 1.0, 0, -3, "half", True])
def test_bad_sizes(size):
    for name in ("test_size", "train_size"):
        with pytest.raises(ValueError, match=f"{name}.*{size}"):
            list(BagShuffleSplit(**{name: size}).split(X, Y))
