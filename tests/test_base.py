"""Decisions between classes, and arguments of prediction."""

from __future__ import annotations

from inspect import signature
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from milearn import Bags, MIRegressor
from milearn.base import highest_class
from milearn.baselines import MILES
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


@pytest.mark.parametrize(
    ("model", "method"),
    [(MISVR(), "predict"), (MISVC(), "decision_function"), (MIRegressor(), "predict_instances")],
)
def test_arguments_of_prediction_that_do_not_exist(model, method):
    with pytest.raises(TypeError, match=rf"{method}\(\) got an unexpected .* 'return_std'$"):
        getattr(model, method)([np.eye(2)], return_std=True)
    assert list(signature(getattr(model, method)).parameters) == ["X"]
