"""SequenceAbundanceClassifier: Fisher's test, the beta-binomial fit, and odds, against SciPy."""

import tracemalloc

import numpy as np
import pytest
from scipy import optimize, sparse, stats

from milearn import Bags
from milearn._solvers.baselines.sequence_abundance import (
    associations,
    fisher_p_values,
    fit_beta_binomial,
)
from milearn.baselines import SequenceAbundanceClassifier


def draw(n_people=80, n_sequences=1000, n_associated=50, seed=0):
    """Rows of people; positive ones have more of the first sequences."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_people) % 2
    rate = np.where(np.arange(n_sequences) < n_associated, 0.02 + 0.2 * y[:, None], 0.03)
    return sparse.csr_array((rng.random(rate.shape) < rate).astype(float)), y


def fisher(present, positive):
    """One-sided p-value of each column by SciPy."""
    found = []
    for column in present.T:
        a, b = column[positive].sum(), column[~positive].sum()
        table = [[a, positive.sum() - a], [b, (~positive).sum() - b]]
        found.append(stats.fisher_exact(table, alternative="greater").pvalue)
    return np.array(found)


@pytest.mark.parametrize("numbers", [(7, 11, 7, 11), (300, 340, 20, 9), (0, 5, 0, 5), (4, 0, 4, 0)])
def test_p_values_of_fishers_test(numbers):
    n_positive, n_negative, *most = numbers
    a, b = (each.ravel() for each in np.indices(np.add(most, 1)))
    found = fisher_p_values(n_positive, n_negative, a, b)
    for p, *pair in zip(found, a, b, strict=True):
        table = [pair, [n_positive - pair[0], n_negative - pair[1]]]
        expected = stats.fisher_exact(table, alternative="greater").pvalue
        assert p == pytest.approx(expected, rel=1e-11)


def test_sequences_of_many_people_need_no_table_of_all_counts():
    # A table would have 10^8 entries.
    rng, n = np.random.default_rng(0), 10_000
    a, b = rng.integers(0, n + 1, size=(2, 50))
    tracemalloc.start()
    found = fisher_p_values(n, n, a, b)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**23
    expected = stats.hypergeom.sf(a - 1, 2 * n, n, a + b)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-300)


def test_counts_use_the_sequences_that_other_folds_select():
    X, y = draw(20, 40, 10)
    present, positive = X.toarray().astype(bool), y == 1
    folds, thresholds = np.arange(20) // 2 % 5, np.array([0.09, 0.45])
    found = associations(X.astype(bool), positive, folds, thresholds)
    np.testing.assert_allclose(found.p_values, fisher(present, positive), rtol=1e-11)
    for fold in range(5):
        own = folds == fold
        p = fisher(present[~own], positive[~own])
        for row, threshold in enumerate(thresholds):
            selected = p <= threshold
            np.testing.assert_array_equal(
                found.counts[row, own], present[own][:, selected].sum(axis=1)
            )
            of_all = present[:, found.p_values <= threshold].sum(axis=1).mean()
            expected = present[~own][:, selected].sum(axis=1).mean() / of_all or 1.0
            np.testing.assert_allclose(found.yields[row, own], expected, rtol=1e-12)


@pytest.mark.parametrize("parameters", [(6.79, 35_330), (4.2, 148_472), (0.5, 50), (3.0, 4.0)])
def test_beta_binomial_has_the_maximum_likelihood(parameters):
    rng = np.random.default_rng(0)
    depths = (
        rng.integers(50_000, 300_000, size=60) if parameters[1] > 1000 else rng.integers(5, 90, 60)
    )
    counts = stats.betabinom.rvs(depths, *parameters, random_state=1)

    def loss(logarithms):
        return -stats.betabinom.logpmf(counts, depths, *np.exp(logarithms)).sum()

    naive = optimize.minimize(
        loss, np.log(parameters), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}
    )
    found = fit_beta_binomial(counts, depths)
    assert loss(np.log(found)) == pytest.approx(naive.fun, rel=1e-8)
    np.testing.assert_allclose(found, np.exp(naive.x), rtol=0.01)


def test_beta_binomial_without_spread_or_counts():
    depths = np.full(30, 1000.0)
    alpha, beta = fit_beta_binomial(np.full(30, 10.0), depths)
    assert alpha / (alpha + beta) == pytest.approx(0.01, rel=1e-4)
    assert stats.betabinom.var(1000, alpha, beta) == pytest.approx(9.9, rel=0.01)  # binomial
    alpha, beta = fit_beta_binomial(np.zeros(30), depths)
    assert 30_000 * alpha / (alpha + beta) == pytest.approx(0.5, rel=1e-3)


def test_probabilities_are_those_of_beta_binomial_counts():
    X, y = draw()
    model = SequenceAbundanceClassifier().fit(X[:61], y[:61])
    present, new = X[:61].toarray() > 0, X[61:]
    np.testing.assert_allclose(model.p_values_, fisher(present, y[:61] == 1), rtol=1e-11)
    assert model.threshold_ == model.thresholds_[model.threshold_scores_.argmax()]
    np.testing.assert_array_equal(
        model.associated_, np.flatnonzero(model.p_values_ <= model.threshold_)
    )
    k, n = model.counts(new).T
    np.testing.assert_array_equal(k, new.toarray()[:, model.associated_].sum(axis=1))
    np.testing.assert_array_equal(n, new.toarray().sum(axis=1))
    prior = np.array([31, 30]) / 61
    chances = prior * np.stack(
        [stats.betabinom.pmf(k, n, *each) for each in zip(model.alpha_, model.beta_, strict=True)],
        1,
    )
    expected = chances / chances.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(new), expected, rtol=1e-8)
    assert model.score(new, y[61:]) > 0.85


def test_receptors_of_a_bag_are_its_row():
    X, y = draw(40, 300, 30)
    sizes = np.diff(X.indptr)
    # One instance for each receptor, one of them twice, and two without a known sequence.
    indices, offsets, ends = [], [0], [0]
    for row in np.split(X.indices, X.indptr[1:-1]):
        indices += [*row, row[0]]
        ends += [*range(ends[-1] + 1, ends[-1] + len(row) + 2), *[ends[-1] + len(row) + 1] * 2]
        offsets.append(len(ends) - 1)
    one_hot = sparse.csr_array((np.ones(len(indices)), indices, ends), shape=(offsets[-1], 300))
    bags = Bags(one_hot, offsets)
    model = SequenceAbundanceClassifier().fit(bags, y)
    np.testing.assert_array_equal(model.counts(bags)[:, 1], sizes + 2)
    assert model.counts(bags)[:, 0].sum() > 0
    np.testing.assert_array_equal(
        model.counts(bags)[:, 0], X.toarray()[:, model.associated_].sum(axis=1)
    )
    scores = model.instance_decision_function(bags)
    known = np.isin(bags.instances.indices, model.associated_)
    of_known = scores[np.diff(bags.instances.indptr) > 0]
    assert of_known[known].min() > of_known[~known].max()


def test_no_association_is_found_where_there_is_none():
    X, y = draw(60, 2000, 0)
    y = np.random.default_rng(1).permutation(y)
    model = SequenceAbundanceClassifier().fit(X, y)
    assert model.threshold_scores_.max() < np.log(0.5) + 0.05
    empty = SequenceAbundanceClassifier(1e-12).fit(X, y)
    assert len(empty.associated_) == 0
    assert abs(empty.decision_function(X)).max() < 0.2


@pytest.mark.parametrize("n_positive", [5, 10, 50])
def test_without_an_associated_sequence_the_depth_says_nothing(n_positive):
    rng, y = np.random.default_rng(0), (np.arange(60) < n_positive).astype(int)
    X = sparse.csr_array((rng.random((60, 400)) < 0.5).astype(float))
    model = SequenceAbundanceClassifier(thresholds=1e-12).fit(X, y)
    assert len(model.associated_) == 0
    prior = np.log(n_positive / (60 - n_positive))
    np.testing.assert_allclose(model.decision_function(X), prior, rtol=1e-12, atol=1e-12)


def test_a_p_value_may_equal_a_threshold():
    # One of ten pairs of five people are the two positive ones: its p-value is .1.
    y = np.array([1, 1, 0, 0, 0])
    model = SequenceAbundanceClassifier(thresholds=0.1).fit(y[:, None].astype(float), y)
    assert model.p_values_ == pytest.approx([0.1], rel=1e-12)
    assert model.associated_.tolist() == [0]


def test_refused_parameters_and_classes():
    X, y = draw(20, 30, 5)
    for wrong in ([0.0, 0.1], [], [1.5]):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            SequenceAbundanceClassifier(wrong).fit(X, y)
    with pytest.raises(ValueError, match="y has 3 classes"):
        SequenceAbundanceClassifier().fit(X, np.arange(20) % 3)
