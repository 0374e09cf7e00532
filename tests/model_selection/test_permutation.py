"""Permuted labels: what is exchanged, what is fitted once, and the same result for any n_jobs."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

import joblib
import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import DataConversionWarning
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from milearn import Bags
from milearn._bags.segments import segment_mean
from milearn.embedding import BagOfWords
from milearn.model_selection import BagShuffleSplit, StratifiedBagKFold, label_permutation_test
from milearn.preprocessing import BagStatistics, InstanceTransformer

MEANS = make_pipeline(BagStatistics(("mean",)), LogisticRegression())


def draw(n_bags=40, shift=2.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    sizes = rng.integers(2, 5, size=n_bags)
    X = Bags(rng.normal(size=(sizes.sum(), 2)), np.append(0, np.cumsum(sizes)))
    return X.with_instances(X.instances + shift * y[X.bag_index][:, np.newaxis]), y


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps the labels of all fits."""

    fits: ClassVar[list] = []

    def fit(self, X, y):
        type(self).fits.append(np.array(y))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class CountedScaler(TransformerMixin, BaseEstimator):
    n_fits = 0

    def fit(self, X, y=None):
        assert y is None
        type(self).n_fits += 1
        return self

    def transform(self, X):
        return X


@pytest.fixture(autouse=True)
def _nothing_recorded():
    Recorder.fits, CountedScaler.n_fits = [], 0


def test_equals_fits_from_scratch():
    X, y = draw(shift=0.4)
    cv = StratifiedKFold(4)
    model = make_pipeline(
        InstanceTransformer(StandardScaler()), BagOfWords(4, random_state=0), LogisticRegression()
    )
    found = label_permutation_test(
        model, X, y, cv=cv, scoring="roc_auc", n_permutations=5, random_state=0
    )
    splits = list(cv.split(X, y))
    assert found.score == cross_val_score(model, X, y, cv=splits, scoring="roc_auc").mean()
    # The same permutations, each of the labels of every test set.
    rng = np.random.RandomState(0)
    for expected in found.permutation_scores:
        labels = y.copy()
        for _, test in splits:
            labels[test] = y[rng.permutation(test)]
        refitted = cross_val_score(model, X, labels, cv=splits, scoring="roc_auc").mean()
        assert refitted == pytest.approx(expected, abs=1e-12)
    higher = np.count_nonzero(found.permutation_scores >= found.score - 1e-12)
    assert found.p_value == pytest.approx((1 + higher) / 6)
    assert found.smallest_p_value == 1 / 6


def test_a_signal_has_the_smallest_p_value_and_noise_has_none():
    X, y = draw()
    assert label_permutation_test(MEANS, X, y, n_permutations=19, random_state=0).p_value == 0.05
    half = BagShuffleSplit(1, test_size=0.5, random_state=0)
    found = label_permutation_test(MEANS, X, y, cv=half, random_state=0)
    assert found.p_value == found.smallest_p_value == 0.01
    values = X.instances[X.offsets[:-1], 0]
    ridge = make_pipeline(BagStatistics(("mean",)), Ridge())
    assert (
        label_permutation_test(ridge, X, values, cv=3, n_permutations=19, random_state=0).p_value
        == 0.05
    )
    constant = label_permutation_test(DummyClassifier(), X, y, n_permutations=9)
    assert constant.p_value == 1.0  # equal scores count


def test_labels_stay_in_their_test_sets():
    X, y = draw(n_bags=12)
    splits = list(StratifiedBagKFold(3).split(X, y))
    label_permutation_test(Recorder(), X, y, cv=splits, n_permutations=4, random_state=0)
    assert len(Recorder.fits) == 3 * 5
    fits = np.array(Recorder.fits).reshape(3, 5, -1)
    for (train, _), of_split in zip(splits, fits, strict=True):
        np.testing.assert_array_equal(of_split[0], y[train])
        assert (of_split[1:] != y[train]).any(axis=1).all()
        for _, test in splits:
            inside = np.isin(train, test)
            assert (of_split[:, inside].sum(axis=1) == y[train][inside].sum()).all()


def test_donors_of_several_bags_exchange_their_labels_within_sites():
    donor = np.repeat(np.arange(12), [1, 2, 3, 1, 2, 3, 2, 2, 1, 1, 2, 4])
    site, y = donor // 4, (donor % 4 > 0).astype(int)
    X = Bags.singletons(np.zeros((len(y), 1)))
    splits = list(LeaveOneGroupOut().split(X, groups=site))
    given = {"groups": donor, "strata": site, "random_state": 0, "cv": splits}
    label_permutation_test(Recorder(), X, y, n_permutations=6, **given)
    fits, without = iter(Recorder.fits), set()
    for (train, _), _ in product(splits, range(7)):
        labels = next(fits)
        found = dict(zip(donor[train].tolist(), labels, strict=True))
        assert [found[each] for each in donor[train]] == labels.tolist()
        for each in np.unique(site[train]):
            of_site = [found[number] for number in range(4 * each, 4 * each + 4)]
            assert sorted(of_site) == [0, 1, 1, 1]
            without.add(of_site.index(0))
    assert without == {0, 1, 2, 3}


def test_strata_are_divided_between_folds_and_pairs_are_not():
    """Batch B has one control: donors of both batches are in every fold, and a signal is found."""
    y = np.r_[np.zeros(14), np.ones(14), 0, np.ones(11)].astype(int)
    X, batch = draw(len(y), shift=0.0)[0], np.repeat(["A", "B"], [28, 12])
    X = X.with_instances(X.instances + 2.0 * y[X.bag_index][:, np.newaxis])
    given = {"n_permutations": 19, "random_state": 0}
    assert label_permutation_test(MEANS, X, y, strata=batch, **given).p_value == 0.05
    label_permutation_test(Recorder(), X, y, strata=batch, **given)
    for train in np.split(np.array([len(each) for each in Recorder.fits]), 5):
        assert (train == 32).all()  # equal folds, where batches as groups leave two
    for labels in Recorder.fits:
        assert labels.sum() in (20, 21)  # 25 of 40
    Recorder.fits, pair = [], np.arange(40) // 2
    label_permutation_test(Recorder(), X, np.arange(40) % 2, strata=pair, **given)
    assert {tuple(labels[::2] + labels[1::2]) for labels in Recorder.fits} == {(1,) * 16}
    values = label_permutation_test(Ridge(), y[:, None] + 0.0, y + 0.5, strata=batch, **given)
    assert values.p_value == 0.05


class SignedColumn(ClassifierMixin, BaseEstimator):
    """The mean of a column of the bags, or their size, with the sign of the training bags."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.sign_ = np.sign(np.corrcoef(self.column(X), y)[0, 1])
        return self

    def decision_function(self, X):
        return self.sign_ * self.column(X)

    def column(self, X):
        return np.log(X.sizes) + segment_mean(X.instances[:, 0], X.offsets)


def difference(model, X, y):
    scores = model.decision_function(X)
    return scores[y == 1].mean() - scores[y == 0].mean()


def test_p_values_are_uniform_without_signal():
    """Two sites with other classes and other values, donors of one to three bags of other sizes."""
    p_values, site = [], np.arange(20) // 5 % 2
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ill = rng.permuted([[1, 0, 0, 0, 0], [1, 1, 1, 0, 0]] * 2, axis=1).ravel()
        donor = np.repeat(np.arange(20), rng.integers(1, 4, 20))
        sizes = rng.geometric(0.2, size=len(donor))
        values = (2.0 * site + rng.normal(size=20))[np.repeat(donor, sizes)]
        X = Bags(values[:, None], np.append(0, sizes.cumsum()))
        found = label_permutation_test(
            SignedColumn(),
            X,
            ill[donor],
            groups=donor,
            strata=site[donor],
            cv=2 if seed % 2 else list(PredefinedSplit(donor // 10).split()),
            scoring=difference,
            n_permutations=9,
            random_state=seed,
        )
        # Uniform between this p-value and the next lower one, so that the law is continuous.
        p_values.append(found.p_value - rng.random() / 10)
    assert kstest(p_values, "uniform").pvalue > 0.05


def test_what_does_not_use_labels_is_fitted_once_per_fold():
    X, y = draw(n_bags=12)
    scaled = make_pipeline(CountedScaler(), BagStatistics(("mean",)), Recorder())
    label_permutation_test(scaled, X, y, cv=3, n_permutations=4)
    assert (CountedScaler.n_fits, len(Recorder.fits)) == (3, 15)
    # One split: its training labels are never permuted.
    half = StratifiedBagKFold(2).split(X, y)
    label_permutation_test(scaled, X, y, cv=[next(half)], n_permutations=4)
    assert (CountedScaler.n_fits, len(Recorder.fits)) == (4, 16)


def test_columns_of_bag_data_predict_the_labels():
    X, y = draw()
    X = X.with_bag_data({"site": np.where(y, "a", "b")})
    model = make_pipeline(OneHotEncoder(), LogisticRegression())
    for rows in (X.bag_data[["site"]], X.bag_data[["site"]].to_numpy()):
        found = label_permutation_test(model, rows, y, n_permutations=19, random_state=0)
        assert (found.score, found.p_value) == (1.0, 0.05)


@pytest.mark.parametrize("wrap", [lambda part: part, lambda part: make_pipeline(part)])
def test_a_step_that_uses_labels_is_fitted_to_each_permutation(wrap):
    y = np.arange(40) % 2
    rows = np.random.default_rng(0).normal(size=(40, 200))
    model = make_pipeline(wrap(SelectKBest(k=3)), LogisticRegression())
    found = label_permutation_test(
        model, rows, y, cv=StratifiedKFold(2), n_permutations=19, random_state=0
    )
    assert found.p_value > 0.05
    assert found.permutation_scores.std() > 0


class Drawn(Recorder):
    def __init__(self, random_state=None):
        self.random_state = random_state

    def predict(self, X):
        return np.random.RandomState(self.random_state).choice(self.classes_, size=len(X))


def test_the_result_does_not_depend_on_jobs():
    X, y = draw(n_bags=16)
    model, found = make_pipeline(BagStatistics(("mean",)), Drawn()), []
    for n_jobs in (1, 2):
        with joblib.parallel_config(backend="threading", n_jobs=n_jobs):
            found.append(label_permutation_test(model, X, y, n_permutations=5, random_state=3))
    assert found[0].score == found[1].score
    np.testing.assert_array_equal(*(each.permutation_scores for each in found))


# The test set of the second fold has one class.
_ONE_CLASS = PredefinedSplit([0, 0, 0, 0, -1, -1, -1, -1, 1, -1, 1, -1])


@pytest.mark.filterwarnings(
    "ignore:Only one class is present:sklearn.exceptions.UndefinedMetricWarning"
)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"cv": ShuffleSplit(3, random_state=0)},
            r"^The test sets of cv overlap: pass a splitter such as KFold\.$",
        ),
        (
            {"groups": np.arange(12) // 2},
            r"^The group of bag 1 has two labels: pass strata= if its bags exchange their labels",
        ),
        (
            {"groups": np.arange(12) % 4, "cv": list(KFold(2).split(range(12)))},
            r"^The group of bag 6 has two test sets: pass a cv that keeps it together\.$",
        ),
        (
            {"groups": np.arange(12) % 2, "strata": np.arange(12) // 6, "cv": [([0], range(12))]},
            r"^The group of bag 6 has bags in two strata: it must be in one of them\.$",
        ),
        (
            {"strata": np.arange(12) % 4},
            r"^No permutation changes a label: use fewer folds, or larger strata\.$",
        ),
        ({"strata": np.arange(24)}, r"inconsistent numbers of samples: \[12, 12, 24\]"),
        ({"cv": 7}, r"^Class 0 is in 6 bags, groups or strata and needs 7, one for every fold"),
        (
            {"cv": _ONE_CLASS, "scoring": "roc_auc"},
            r"^The score of fold 2 is NaN, so that nothing can be compared",
        ),
    ],
)
def test_what_is_refused(given, message):
    X, y = draw(n_bags=12)
    with pytest.raises(ValueError, match=message):
        label_permutation_test(MEANS, X, y, **({"cv": 2, "n_permutations": 3} | given))


def test_an_undefined_score_of_permuted_labels_is_no_evidence():
    X, y = draw(n_bags=12)
    half = list(BagShuffleSplit(1, test_size=0.5, random_state=0).split(X, y))

    def undefined_if_permuted(model, X, labels):
        return 1.0 if np.array_equal(labels, y[half[0][1]]) else np.nan

    given = {"cv": half, "scoring": undefined_if_permuted, "n_permutations": 9, "random_state": 0}
    found = label_permutation_test(MEANS, X, y, **given)
    assert np.isnan(found.permutation_scores).sum() > 4
    assert found.p_value == 1.0


def test_the_smallest_p_value_counts_the_orders_of_the_labels():
    """One pair in the only test set has two orders; it was 0.01 for 99 permutations."""
    X, y = draw(n_bags=12)
    given = {"cv": [(np.arange(2, 12), np.arange(2))], "scoring": "accuracy", "random_state": 0}
    found = label_permutation_test(MEANS, X, y, strata=np.arange(12) // 2, **given)
    assert found.smallest_p_value == pytest.approx(0.5)
    assert found.p_value > 0.3


def test_two_columns_of_strata_are_combined_and_named():
    X, y = draw(n_bags=40)
    site, sex = np.arange(40) // 20, np.arange(40) // 10 % 2
    given = {"cv": 2, "n_permutations": 9, "random_state": 0}
    both = label_permutation_test(MEANS, X, y, strata=np.column_stack([site, sex]), **given)
    one = label_permutation_test(MEANS, X, y, strata=2 * site + sex, **given)
    assert (both.permutation_scores == one.permutation_scores).all()
    with pytest.raises(ValueError, match="strata is missing for bag 0"):
        label_permutation_test(MEANS, X, y, strata=np.where(np.arange(40), 1.0, np.nan), **given)


def test_several_scores_and_a_column_of_labels():
    X, y = draw(n_bags=12)
    given = {"cv": 2, "n_permutations": 3, "random_state": 0}
    with pytest.raises(TypeError, match="scoring is a list: pass the name of one score"):
        label_permutation_test(MEANS, X, y, scoring=["roc_auc", "accuracy"], **given)
    with pytest.warns(DataConversionWarning):
        found = label_permutation_test(MEANS, X, y[:, np.newaxis], **given)
    assert found.score == label_permutation_test(MEANS, X, y, **given).score
