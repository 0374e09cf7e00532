"""SiteKFold: sites are never cut, folds are improved; the test whether a site predicts a class."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_validate

from milearn import Bags
from milearn.model_selection import SiteKFold, StratifiedBagKFold, site_label_test
from milearn.survival import survival_outcomes


def draw(seed, n_sites=12, n_bags=60, n_classes=2):
    """Bags of sites of very different sizes and class proportions."""
    rng = np.random.default_rng(seed)
    popular = rng.lognormal(0, 1.2, size=n_sites)
    site = np.append(
        np.arange(n_sites), rng.choice(n_sites, n_bags - n_sites, p=popular / popular.sum())
    )
    proportions = rng.dirichlet(np.full(n_classes, 2.0), size=n_sites)
    y = np.array([rng.choice(n_classes, p=proportions[each]) for each in site])
    sizes = rng.integers(1, 9, size=n_bags)
    bags = Bags(np.zeros((sizes.sum(), 1)), np.concatenate([[0], np.cumsum(sizes)]))
    return bags, y, np.array([f"site {each}" for each in site])


def deviation(folds, y, k):
    """Mean over the classes of the share of bags that would have to change fold."""
    proportions = [np.bincount(folds[y == c], minlength=k) / np.sum(y == c) for c in np.unique(y)]
    return np.mean([np.abs(share - 1 / k).sum() / 2 for share in proportions])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_sites_are_not_cut_and_folds_are_the_best(seed, n_classes):
    bags, y, site = draw(seed, n_sites=7, n_bags=40, n_classes=n_classes)
    found = SiteKFold(3).assign(bags, y, site)
    names = np.unique(site)
    best = np.inf
    for choice in product(range(3), repeat=len(names)):
        folds = np.array(choice)[np.searchsorted(names, site)]
        if all(set(folds[y == c]) == {0, 1, 2} for c in np.unique(y)):
            best = min(best, deviation(folds, y, 3))
    # Exchanges end at the best folds of few sites, whether or not the bound proves it.
    np.testing.assert_allclose(found.deviation, best, rtol=0, atol=1e-9)
    np.testing.assert_allclose(deviation(found.folds, y, 3), best, rtol=0, atol=1e-9)
    assert found.bound <= best + 1e-12
    assert found.is_optimal == (found.gap == 0) == (best <= found.bound + 1e-8)
    assert found.deviation <= found.greedy_deviation
    for fold, (train, test) in enumerate(SiteKFold(3).split(bags, y, site)):
        np.testing.assert_array_equal(test, np.flatnonzero(found.folds == fold))
        np.testing.assert_array_equal(train, np.flatnonzero(found.folds != fold))
        assert not set(site[train]) & set(site[test])
        np.testing.assert_array_equal(np.bincount(y[test]), found.counts[fold])


def test_two_hundred_sites():
    bags, y, site = draw(2, n_sites=200, n_bags=2000, n_classes=4)
    found = SiteKFold(5).assign(bags, y, site)
    # As equal as if single bags were divided.
    assert np.ptp(found.counts, axis=0).max() <= 1
    assert found.is_optimal
    greedy = np.full(len(y), -1)
    for fold, (_, test) in enumerate(StratifiedBagKFold(5).split(bags, y, site)):
        greedy[test] = fold
    np.testing.assert_allclose(found.greedy_deviation, deviation(greedy, y, 5))
    assert found.deviation < found.greedy_deviation


def test_instances_with_a_weight():
    bags, y, site = draw(1, n_sites=8)
    plain = SiteKFold(2).assign(bags, y, site)
    both = SiteKFold(2, instance_weight=2.0).assign(bags, y, site)

    def of_instances(folds):
        return abs(bags.sizes[folds == 0].sum() / bags.n_instances - 0.5)

    assert of_instances(both.folds) < of_instances(plain.folds)
    assert deviation(plain.folds, y, 2) < deviation(both.folds, y, 2)
    np.testing.assert_allclose(
        both.deviation, deviation(both.folds, y, 2) + 2 * of_instances(both.folds)
    )


def test_patients_of_two_sites_join_the_sites():
    site = np.array(["a", "a", "b", "b", "c", "d", "e", "f"])
    patient = np.array([1, 2, 2, 3, 4, 5, 6, 7])
    y = np.array([0, 1, 1, 0, 0, 1, 1, 0])
    columns = np.column_stack([site, patient.astype(str)])
    found = SiteKFold(2).assign(np.zeros((8, 1)), y, columns)
    assert set(found.folds[:4]) == {found.folds[0]}
    assert found.deviation == 0
    assert len(set(SiteKFold(2).assign(np.zeros((8, 1)), y, patient).folds[:4])) == 2


def test_unlabelled_bags_train_unless_their_site_is_tested():
    bags, y, site = draw(2)
    labels = y.astype(float)
    labels[:6] = np.nan
    found = SiteKFold(3).assign(bags, labels, site)
    assert set(found.folds[:6]) == {-1}
    for train, test in SiteKFold(3).split(bags, labels, site):
        assert not set(test) & set(range(6))
        left_out = set(range(len(y))) - set(train) - set(test)
        assert left_out == {at for at in range(6) if site[at] in set(site[test])}


def test_with_scikit_learn():
    bags, y, site = draw(3)
    cv = SiteKFold(4)
    assert cv.get_n_splits() == 4
    for copy in (clone(cv, safe=False), pickle.loads(pickle.dumps(cv))):
        np.testing.assert_array_equal(
            copy.assign(bags, y, site).folds, cv.assign(bags, y, site).folds
        )
    rows = np.zeros((len(y), 1))
    scores = cross_validate(DummyClassifier(), rows, y, cv=cv, groups=site)
    assert len(scores["test_score"]) == 4


def test_data_are_checked():
    y = np.array([0, 1, 0, 1, 0, 1])
    rows = np.zeros((6, 1))
    with pytest.raises(ValueError, match="n_splits must be a whole number of at least 2, got 1"):
        SiteKFold(n_splits=1)
    with pytest.raises(ValueError, match="instance_weight must be a nonnegative number, got nan"):
        SiteKFold(instance_weight=np.nan)
    with pytest.raises(ValueError, match="SiteKFold needs groups"):
        next(SiteKFold(2).split(rows, y))
    with pytest.raises(ValueError, match="groups is missing for bag 2"):
        next(SiteKFold(2).split(rows, y, ["a", "a", None, "b", "b", "b"]))
    with pytest.raises(ValueError, match="needs classes in y, got continuous values"):
        next(SiteKFold(2).split(rows, y + 0.5, list("aabbcc")))
    # Every class is in two of three sites, and one side lacks the class of a single site's rest.
    with pytest.raises(ValueError, match="The groups leave a fold without a bag of class"):
        next(SiteKFold(2).split(rows, [0, 1, 0, 2, 1, 2], list("aabbcc")))


# -- does the site predict the class? --------------------------------------------------------------


def test_accuracy_of_the_site_by_its_definition():
    rng = np.random.default_rng(0)
    y, site = rng.integers(0, 3, size=30), rng.integers(0, 8, size=30)
    hits = np.zeros(30)
    for bag in range(30):
        others = np.arange(30) != bag
        proportions = np.array(
            [np.sum((y == c) & (site == site[bag]) & others) / np.sum(y == c) for c in range(3)]
        )  # fmt: skip
        best = np.flatnonzero(np.isclose(proportions, proportions.max()))
        hits[bag] = (y[bag] in best) / len(best)
    expected = np.mean([hits[y == c].mean() for c in range(3)])
    found = site_label_test(y, site, n_permutations=9, random_state=0)
    np.testing.assert_allclose(found.score, expected)
    assert found.n_sites == len(np.unique(site))


def test_a_site_that_knows_the_class_and_one_that_does_not():
    rng = np.random.default_rng(1)
    site = rng.integers(0, 10, size=200)
    knows = site_label_test(np.array(["no", "yes"])[site % 2], site, random_state=0)
    assert knows.score == balanced_accuracy_score(site % 2, site % 2) == 1
    assert knows.p_value == 1 / 1000
    assert str(knows).startswith("The site predicts the class: balanced accuracy 1.000")
    p_values = [
        site_label_test(rng.integers(0, 2, size=60), rng.integers(0, 6, size=60),
                        n_permutations=99, random_state=seed).p_value
        for seed in range(40)
    ]  # fmt: skip
    # Uniform for labels that do not depend on the site.
    assert 0.3 < np.mean(p_values) < 0.7
    assert np.sum(np.array(p_values) <= 0.1) <= 10
    # A bag does not decide ties of its own site.
    assert site_label_test(np.arange(60) % 2, np.arange(60) // 5, random_state=0).null_score < 0.5
    chance = site_label_test(rng.permutation(site % 2), site, random_state=0)
    assert str(chance).startswith("The site does not measurably predict the class")


def test_bags_without_a_label_do_not_count_in_the_test():
    site = np.repeat([0, 1, 2, 3], 5)
    y = (site % 2).astype(float)
    hidden = y.copy()
    hidden[[0, 7]] = np.nan
    kept = ~np.isnan(hidden)
    expected = site_label_test(y[kept], site[kept], random_state=0)
    assert site_label_test(hidden, site, random_state=0) == expected
    with pytest.raises(ValueError, match="y contains 1 class"):
        site_label_test(np.zeros(20), site)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        site_label_test(y, site[1:])


def test_balanced_sites_have_their_reason():
    found = site_label_test(np.tile([0, 1], 20), np.repeat(np.arange(4), 10), random_state=0)
    assert found.score == 0.0
    assert found.p_value == 1.0
    assert str(found).endswith("p = 1. It is lower if classes are balanced within sites.")


def test_outcomes_are_no_classes():
    y = survival_outcomes([True, False, True], [3.0, 4.0, 5.0])
    message = r"^y holds outcomes of survival: compare their times by a log-rank test\.$"
    with pytest.raises(ValueError, match=message):
        site_label_test(y, [0, 1, 1])
