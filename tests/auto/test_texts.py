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
from milearn._bags.distinct import merge_bags
from milearn.auto._plan import SizeLimits, size_plan
from milearn.preprocessing import BagStatistics
from milearn.svm import BagSVC
from tests.auto.test_ways import TwoFolds, kernel_matrix, mean_of_folds
from tests.common.few_trees import MIClassifier

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
    bags, y = texts(seed=1)
    return TwoFolds(random_state=0).fit(bags, y), bags, y


def test_the_combination_is_a_sum_of_fits_on_all_bags_and_means_of_folds(combined):
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
    convex, every = (logistic, *kernels, trees), merge_bags(bags, y, np.ones(len(y))).positions
    known = [*(fit(every) for fit in convex), mean_of_folds(bags, y, highest, 2)]
    function = model._function
    # One of them has the coefficient zero, and is left out.
    assert function.slopes.shape == (4, 1)
    left = [function.slopes[:, 0] @ np.delete(known, place, axis=0) for place in range(5)]
    away = np.abs(np.array(left) + function.constant - model.decision_function(bags)).max(axis=1)
    assert np.sum(away < 1e-3) == 1
    assert np.sum(away > 0.1) == 4


def test_three_classes():
    bags, y = texts(6, n_classes=3)
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
