"""Texts: one way for each kernel of bags, MISVC, and the combination of all of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logit
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC

from milearn import MISVC, Bags
from milearn.auto._candidates import CandidateName, FitData
from milearn.auto._judgement import (
    COMBINED,
    Judged,
    calibrate,
    class_judge,
    judge_candidates,
    members,
    weights_of,
)
from milearn.auto._plan import SizeLimits, size_plan
from milearn.preprocessing import BagStatistics
from milearn.svm import BagSVC
from tests.auto.test_ways import kernel_matrix, mean_of_folds
from tests.common.few_trees import AllFolds, MIClassifier

N_WORDS, LONGEST = 200, 6


def texts(n_bags=60, n_classes=2, seed=0):
    """Passages of a few words of 200, each class with a few of its own in some of its passages."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % n_classes
    rows, offsets = [], [0]
    for label in y:
        size = rng.integers(2, LONGEST)
        for _ in range(size):
            words = rng.integers(0, N_WORDS, 8)
            if rng.random() < 0.6:
                words[:3] = 10 * label + rng.integers(0, 10, 3)
            rows.append(np.bincount(words, minlength=N_WORDS))
        offsets.append(offsets[-1] + size)
    return Bags(sparse.csr_array(np.array(rows, dtype=float)), np.array(offsets)), y


@pytest.fixture(scope="module")
def combined():
    bags, y = texts()
    return AllFolds(random_state=0).fit(bags, y), bags, y


def judged(criterion, error=0.04):
    return Judged(criterion, error, {}, None, 0.0, None)


def test_the_best_model_is_combined_with_those_that_may_be_as_good():
    best, close, far = judged(1.80), judged(1.73), judged(1.71)
    assert members({"mean": close, "instance": best, "trees": far}) == [close, best]
    assert members({"instance": best, "trees": far, COMBINED: judged(1.9)}) == [best]
    # The error that counts is that of the best one.
    assert members({"instance": best, "trees": judged(1.71, error=0.2)}) == [best]
    # Without an error, models are equal or do not count.
    exact = [judged(1.8, error=0.0), judged(1.7, error=0.0), judged(1.8, error=0.0)]
    np.testing.assert_array_equal(weights_of(exact), [1.0, 0.0, 1.0])


def test_the_combination_is_the_weighted_mean_of_the_log_odds_of_each_way(combined):
    model, bags, y = combined
    assert model.paradigm_ == "combined"
    names = ["logistic", "mean", "minmax_laplacian", "trees", "instance", "combined"]
    assert list(model.scores_) == names
    unit = bags.with_instances(Normalizer().fit_transform(bags.instances))
    matrices = [
        kernel_matrix(BagSVC(bag_kernel=kernel).fit(bags, y), bags, y)
        for kernel in ("mean", "minmax_laplacian")
    ]
    rows = [
        Normalizer().fit_transform(BagStatistics(statistics).fit_transform(bags))
        for statistics in (("mean",), ("mean", "min", "max", "std"))
    ]
    seed = np.random.RandomState(0).randint(2**31 - 1)

    def logistic(train):
        model = LogisticRegression(C=10.0, tol=1e-6)
        return model.fit(rows[0][train], y[train]).decision_function(rows[0])

    def kernel(matrix, train):
        svc = SVC(C=1.0, kernel="precomputed", tol=1e-8)
        return svc.fit(matrix[np.ix_(train, train)], y[train]).decision_function(matrix[:, train])

    def trees(train):
        forest = ExtraTreesClassifier(10, min_samples_leaf=2, random_state=seed)
        forest.fit(rows[1][train], y[train])
        return logit(np.clip(forest.predict_proba(rows[1])[:, 1], 0.05, 0.95))

    def highest(train):
        # Both classes have words of their own.
        svc = MISVC(C=1.0, kernel="linear", pos_label=model.deciding_class_)
        return svc.fit(unit[train], y[train]).decision_function(unit)

    kernels = [partial(kernel, matrix) for matrix in matrices]
    known = [mean_of_folds(bags, y, fit) for fit in (logistic, *kernels, trees, highest)]
    stated = [
        calibration.slope * scores + calibration.constant
        for calibration, scores in zip(model._function.calibrations, known, strict=True)
    ]
    outer = model._calibration
    alone = [each for name, each in model.scores_.items() if name != "combined"]
    totals = np.array([each["accuracy"] + each["roc_auc"] for each in alone])
    share = (alone[totals.argmax()]["accuracy"] * len(y) + 1) / (len(y) + 2)
    error = 2 * np.sqrt(share * (1 - share) / len(y))
    weights = np.exp((totals - totals.max()) / error)
    assert weights.min() < 0.99
    expected = outer.slope * np.average(stated, axis=0, weights=weights) + outer.constant
    np.testing.assert_allclose(model.decision_function(bags), expected, rtol=1e-3, atol=1e-3)


def test_ways_with_fewer_folds_are_compared_on_the_common_ones():
    y = np.arange(60) % 2
    rng = np.random.default_rng(2)
    folds = [(np.arange(0), part) for part in np.split(np.arange(60), 3)]
    scored = {
        CandidateName(name): [(y[test] + rng.normal(size=20))[:, None] for _, test in folds[:n]]
        for name, n in (("mean", 3), ("instance", 2))
    }
    training = FitData(y, 1, False, np.ones(60), 1.0)
    found = judge_candidates(scored, folds, class_judge(training, "accuracy"))
    assert list(found) == ["mean", "instance", COMBINED]
    calibration = calibrate(np.concatenate(scored[CandidateName("mean")]), y, np.ones(60), False)
    np.testing.assert_allclose(found["mean"].calibration.slope, calibration.slope)
    right = (
        calibration.decisions(np.concatenate(scored[CandidateName("mean")][:2]))[:, 0] > 0
    ) == y[:40]
    assert found["mean"].measures["accuracy"] == pytest.approx(right.mean())
    share = (40 * right.mean() + 1) / 42
    assert found["mean"].error == pytest.approx(2 * np.sqrt(share * (1 - share) / 40))
    alone = {CandidateName("mean"): scored[CandidateName("mean")]}
    assert list(judge_candidates(alone, folds, class_judge(training, "accuracy"))) == ["mean"]


def test_three_classes():
    bags, y = texts(9, n_classes=3)
    model = MIClassifier(random_state=0).fit(bags, np.array(["a", "b", "c"])[y])
    stated = model.predict_proba(bags)
    np.testing.assert_allclose(stated.sum(axis=1), 1.0)
    assert model.score(bags, model.classes_[y]) > 0.8
    # Three classes have no orientation.
    assert model.deciding_class_ is None


def test_texts_without_inner_folds():
    bags, y = texts(2)
    model = MIClassifier().fit(bags, y)
    assert (model.paradigm_, model.scores_) == ("mean", {})
    np.testing.assert_array_equal(model.predict(bags), y)


def test_large_texts_leave_no_kernel_out():
    bags, _ = texts()
    plan = size_plan(bags, SizeLimits(pair_cost=1.0, exact_instances=1, float64_numbers=0))
    assert plan.notes == ()
    assert plan.bag_models == ("mean", "minmax_laplacian")
