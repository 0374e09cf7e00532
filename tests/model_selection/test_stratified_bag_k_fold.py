"""StratifiedBagKFold: what every split promises, on drawn data of many kinds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import (
    StratifiedGroupKFold,
    StratifiedKFold,
)

from milearn import Bags
from milearn.model_selection import BagShuffleSplit, StratifiedBagKFold

CLASSES = {"binary": [0.5, 0.5], "rare": [0.85, 0.15], "three": [0.5, 0.3, 0.2]}


def draw(seed: int, n_bags: int = 90, classes: str = "binary"):
    """Bags of log-normal sizes, as skewed as those of Musk2, and labels."""
    rng = np.random.default_rng(seed)
    sizes = np.ceil(rng.lognormal(1.5, 1.0, size=n_bags)).astype(int)
    bags = Bags(np.zeros((sizes.sum(), 1)), np.concatenate([[0], np.cumsum(sizes)]))
    proportions = CLASSES[classes]
    y = rng.choice(len(proportions), size=n_bags, p=proportions)
    # Enough of each for ten folds, whatever was drawn.
    y[: 12 * len(proportions)] = np.repeat(np.arange(len(proportions)), 12)
    return bags, rng.permutation(y)


def table(folds, y, values):
    """Sum of values over folds and classes."""
    return np.array([[values[test][y[test] == c].sum() for c in np.unique(y)] for test in folds])


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("k", [2, 5, 10])
@pytest.mark.parametrize("seed", range(2))
def test_partition_and_balance(seed, k, classes, shuffle):
    bags, y = draw(seed, classes=classes)
    cv = StratifiedBagKFold(k, shuffle=shuffle, random_state=seed if shuffle else None)
    splits = list(cv.split(bags, y))
    assert len(splits) == cv.get_n_splits(bags, y) == k
    folds = [test for _, test in splits]
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(len(y)))
    for train, test in splits:
        np.testing.assert_array_equal(np.union1d(train, test), np.arange(len(y)))
        assert len(np.intersect1d(train, test)) == 0
        assert set(y[train]) == set(y[test]) == set(y)
        assert (np.diff(train) > 0).all()
        assert (np.diff(test) > 0).all()
    counts = table(folds, y, np.ones(len(y)))
    assert (np.ptp(counts, axis=0) <= 1).all()
    assert np.ptp(counts.sum(axis=1)) <= 1
    instances = table(folds, y, bags.sizes)
    largest = [bags.sizes[y == c].max() for c in np.unique(y)]
    assert (np.ptp(instances, axis=0) <= largest).all()


@pytest.mark.parametrize("shuffle", [False, True])
def test_instances_are_better_balanced_than_by_counting_bags(shuffle):
    ours, theirs = [], []
    for seed in range(8):
        bags, y = draw(seed)
        state = seed if shuffle else None
        for cv, spreads in (
            (StratifiedBagKFold(5, shuffle=shuffle, random_state=state), ours),
            (StratifiedKFold(5, shuffle=shuffle, random_state=state), theirs),
        ):
            plain = np.zeros(len(y))
            folds = [t for _, t in cv.split(bags if spreads is ours else plain, y)]
            spreads.append(np.ptp(table(folds, y, bags.sizes).sum(axis=1)))
    assert np.mean(ours) < 0.3 * np.mean(theirs)


def test_every_kind_of_input_and_of_labels_gives_the_same_folds():
    bags, y = draw(0, n_bags=40)
    blocks, names = list(bags), np.array(["musk", "non-musk"])[y]
    objects = np.empty(len(blocks), dtype=object)
    objects[:] = blocks
    thin = bags.with_instances(sparse.csr_array(bags.instances))
    expected = [test.tolist() for _, test in StratifiedBagKFold(3).split(bags, y)]
    for kind in (blocks, tuple(blocks), objects, thin):
        assert [test.tolist() for _, test in StratifiedBagKFold(3).split(kind, y)] == expected
    for labels in (y.tolist(), names, names.astype(object), y.astype(float), y == 1):
        assert [test.tolist() for _, test in StratifiedBagKFold(3).split(bags, labels)] == expected


def test_shuffle_is_random_and_reproducible():
    bags, y = draw(2)

    def folds(state):
        cv = StratifiedBagKFold(5, shuffle=True, random_state=state)
        return [test.tolist() for _, test in cv.split(bags, y)]

    assert folds(0) == folds(0)
    assert folds(0) != folds(1)
    cv = StratifiedBagKFold(5, shuffle=True, random_state=np.random.RandomState(0))
    first, second = (list(cv.split(bags, y)) for _ in range(2))
    assert any(a[1].tolist() != b[1].tolist() for a, b in zip(first, second, strict=True))


# -- groups --------------------------------------------------------------------------------------


def test_groups_balance_against_scikit_learn():
    ours, theirs, bags_ours, bags_theirs = [], [], [], []
    for seed in range(8):
        bags, y = draw(seed, n_bags=120)
        groups = np.random.default_rng(seed).integers(0, 40, size=len(y))
        for cv, spreads, counts in (
            (StratifiedBagKFold(5), ours, bags_ours),
            (StratifiedGroupKFold(5), theirs, bags_theirs),
        ):
            X = bags if spreads is ours else np.zeros(len(y))
            folds = [test for _, test in cv.split(X, y, groups)]
            spreads.append(np.ptp(table(folds, y, bags.sizes).sum(axis=1)))
            counts.append(np.ptp(table(folds, y, np.ones(len(y))), axis=0).max())
    assert np.mean(ours) < 0.5 * np.mean(theirs)
    assert np.mean(bags_ours) < 1.5 * np.mean(bags_theirs)


def test_small_mixed_groups_are_refused_only_where_no_division_exists():
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(100):
        y, groups = rng.integers(0, 3, size=14), rng.integers(0, 6, size=14)
        try:
            splits = list(StratifiedBagKFold(2).split(np.zeros((14, 1)), y, groups))
        except ValueError:
            refused += 1
            names = np.unique(groups)
            for sides in product([False, True], repeat=len(names)):
                left = np.isin(groups, names[np.array(sides)])
                assert set(y[left]) != set(y) or set(y[~left]) != set(y)
            continue
        for train, test in splits:
            assert set(y[train]) == set(y[test]) == set(y)
            assert not set(groups[train]) & set(groups[test])
    assert 0 < refused < 20


def deviation(y, folds):
    """Mean over the classes of the share of bags that would have to change fold."""
    shares = np.array(
        [[np.mean(folds[y == c] == f) for f in np.unique(folds)] for c in np.unique(y)]
    )
    return np.abs(shares - 1 / shares.shape[1]).sum() / (2 * len(shares))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_few_sites_have_nearly_the_best_folds(seed, n_classes):
    rng = np.random.default_rng(seed)
    popular = rng.lognormal(0, 1.2, size=7)
    site = np.append(np.arange(7), rng.choice(7, 33, p=popular / popular.sum()))
    y = np.array([rng.choice(n_classes, p=p) for p in rng.dirichlet([2.0] * n_classes, 7)[site]])
    best = np.inf
    for choice in product(range(3), repeat=7):
        folds = np.array(choice)[site]
        if all(len(set(folds[y == c])) == 3 for c in range(n_classes)):
            best = min(best, deviation(y, folds))
    folds = np.empty(40, dtype=int)
    for fold, (_, test) in enumerate(StratifiedBagKFold(3).split(np.zeros((40, 1)), y, site)):
        folds[test] = fold
    assert best <= deviation(y, folds) <= best + 0.02


def test_patients_of_two_sites_join_the_sites():
    site, y = list("aabbcdef"), [0, 1, 1, 0, 0, 1, 1, 0]
    columns = np.column_stack([site, [1, 2, 2, 3, 4, 5, 6, 7]])
    for cv in (StratifiedBagKFold(2), BagShuffleSplit(2, test_size=0.5, random_state=0)):
        for sides in cv.split(np.zeros((8, 1)), y, columns):
            assert [len(set(side) & {0, 1, 2, 3}) in (0, 4) for side in sides] == [True, True]


# -- unlabelled bags -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["nan", "NA", "word"])
def test_unlabelled_bags_train_always_and_are_never_tested(how):
    bags, y = draw(4)
    hidden = np.random.default_rng(0).random(len(y)) < 0.4
    unlabeled = None
    if how == "nan":
        labels = np.where(hidden, np.nan, y)
    elif how == "NA":
        pd = pytest.importorskip("pandas")
        labels = pd.Series(y, dtype="Int64").mask(hidden)
    else:
        labels = np.where(hidden, "?", np.array(["a", "b"])[y])
        unlabeled = "?"
    splits = list(StratifiedBagKFold(4, unlabeled=unlabeled).split(bags, labels))
    for train, test in splits:
        assert hidden[train].sum() == hidden.sum()
        assert not hidden[test].any()
        assert set(y[test]) == set(y)
    tested = np.sort(np.concatenate([test for _, test in splits]))
    np.testing.assert_array_equal(tested, np.flatnonzero(~hidden))
    balance = table([test for _, test in splits], y, np.ones(len(y)))
    assert (np.ptp(balance, axis=0) <= 1).all()


# -- errors --------------------------------------------------------------------------------------

ZEROS, HALVES = np.zeros((12, 1)), np.repeat([0, 1], 6)
TWO_OF_THREE = [0, 1, 0, 2, 1, 2] * 2  # each class is in two groups of three


@pytest.mark.parametrize(
    ("n_splits", "y", "groups", "sentence"),
    [
        (5, None, None, r"StratifiedBagKFold needs y: pass the class of each bag\."),
        (5, np.linspace(0, 1, 12), None, "needs classes in y, got continuous values: for regr"),
        (5, ["neg"] * 12, None, r"only one class \('neg'\): every split needs bags of at least"),
        (5, [None] * 12, None, "y contains no labels: every bag is unlabelled"),
        (5, [0] * 9 + [1] * 3, None, r"1 is in 3 labelled bag\(s\) and needs 5, .* n_splits=3, "),
        (5, ["a"] * 11 + ["b"], None, "'b' is in 1 labelled bag.* add bags of this class or leave"),
        (5, HALVES, np.arange(12) // 3, r"Class 0 is in 2 group\(s\) .* use n_splits=2, "),
        (5, HALVES, [1.0, np.nan] * 6, "groups is missing for bag 1: give every"),
        (2, TWO_OF_THREE, list("aabbcc") * 2, "leave a fold without a bag of class .* n_splits=2"),
        (5, HALVES, np.arange(3), "inconsistent numbers of samples"),
    ],
)
def test_impossible_splits(n_splits, y, groups, sentence):
    with pytest.raises(ValueError, match=sentence):
        list(StratifiedBagKFold(n_splits).split(ZEROS, y, groups))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"random_state": 0}, ValueError, "no effect since shuffle is False"),
        ({"shuffle": "yes"}, TypeError, "shuffle must be True or False; got"),
    ],
)
def test_bad_parameters(options, error, sentence):
    with pytest.raises(error, match=sentence):
        StratifiedBagKFold(**options)
