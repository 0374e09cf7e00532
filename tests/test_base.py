"""Decisions between classes, and matrices for prediction."""

from __future__ import annotations

import pickle
import warnings
from inspect import signature
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags, MIRegressor
from milearn.base import highest_class
from milearn.baselines import MILES, SingleInstance
from milearn.cluster import BAMIC
from milearn.embedding import BagOfWords
from milearn.preprocessing import InstanceTransformer
from milearn.svm import MISVC, MISVR


def test_the_first_of_classes_that_are_equal_up_to_rounding():
    scores = np.array(
        [
            [-1.0000000000000029, -1.0000000000000013, -1.32],
            [-1.0, -0.999, -2.0],
            [0.0, 0.0, 0.0],
            [1e-20, 2e-20, -1.0],
            [-np.inf, 1.0, 1.0],
            [3.0, 2.0, 3.0 + 1e-12],
        ]
    )
    assert highest_class(scores).tolist() == [0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize("estimator", [MISVC(kernel="linear"), MILES()], ids=["MISVC", "MILES"])
def test_rounding_decides_no_class(estimator):
    """Constant one-vs-rest functions score all bags -1."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 5, 24)
    offsets = np.r_[0, np.cumsum(sizes)]
    X = Bags(rng.normal(size=(offsets[-1], 3)), offsets)
    y = rng.permutation(np.arange(24) % 3)
    predicted, witnesses = estimator.fit(X, y).predict(X), estimator.witness(X)
    rows = np.concatenate([rng.permutation(np.arange(*pair)) for pair in pairwise(offsets)])
    order = rng.permutation(24)
    for other, labels in (
        (Bags(X.instances[rows], offsets), y),
        (Bags(sparse.csr_array(X.instances), offsets), y),
        (X[order], y[order]),
    ):
        model = estimator.fit(other, labels)
        np.testing.assert_array_equal(model.predict(X), predicted)
        np.testing.assert_array_equal(model.witness(X), witnesses)


# -- a matrix for prediction ---------------------------------------------------------------------

MODELS = {
    "MISVC": (MISVC(kernel="linear"), "predict"),
    "SingleInstance": (SingleInstance(), "decision_function"),
    "BAMIC": (BAMIC(), "predict"),
    "BagOfWords": (BagOfWords(2), "transform"),
}


def _bags(sizes):
    offsets = np.r_[0, np.cumsum(sizes)]
    return Bags(np.random.default_rng(0).normal(size=(offsets[-1], 2)), offsets)


@pytest.mark.parametrize("name", MODELS)
def test_a_matrix_after_a_fit_on_larger_bags_gives_one_warning(name):
    model, method = MODELS[name]
    bags = _bags([2, 3, 1, 3, 2, 1, 4, 4])
    model = pickle.loads(pickle.dumps(model.fit(bags, [0, 1] * 4)))
    slide = np.array(bags[3])
    for matrix in (slide, slide.tolist()):
        with pytest.warns(UserWarning, match="X is a matrix") as caught:
            getattr(model, method)(matrix)
        expected = (
            f"X is a matrix, and each of its 3 rows is a bag of one instance, but {name} was "
            "fitted on bags of 2.5 instances on average: for one bag pass [X], for bags of one "
            "instance Bags.singletons(X)."
        )
        assert [str(each.message) for each in caught] == [expected]


def test_matrices_that_are_meant_give_no_warning():
    slide = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0]])
    large, small = _bags([2, 3] * 4), _bags([1] * 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MISVC(kernel="linear").fit(large, [0, 1] * 4)
        model.predict([slide])
        model.predict(slide[np.newaxis])
        model.predict(slide[:, np.newaxis])
        model.predict(Bags.singletons(slide))
        model.predict(slide[:1])
        # Instances are the same in bags of one instance.
        np.testing.assert_array_equal(
            model.instance_decision_function(slide), model.instance_decision_function([slide])
        )
        InstanceTransformer().fit(large).transform(slide)
        for X in (small, small.instances):  # a second fit replaces the size
            model.fit(X, [0, 1] * 4).predict(slide)


@pytest.mark.parametrize(
    ("model", "method"),
    [(MISVR(), "predict"), (MISVC(), "decision_function"), (MIRegressor(), "predict_instances")],
)
def test_arguments_of_prediction_that_do_not_exist(model, method):
    message = rf"^{type(model).__name__}: {method} has no 'return_std'\.$"
    with pytest.raises(TypeError, match=message):
        getattr(model, method)([np.eye(2)], return_std=True)
    assert list(signature(getattr(model, method)).parameters) == ["X"]
