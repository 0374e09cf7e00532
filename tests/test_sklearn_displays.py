"""scikit-learn's displays take bags: what they plot is what the predictions give."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibrationDisplay
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    ConfusionMatrixDisplay,
    DetCurveDisplay,
    PrecisionRecallDisplay,
    RocCurveDisplay,
)
from sklearn.model_selection import (
    LearningCurveDisplay,
    ValidationCurveDisplay,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline

from milearn.preprocessing import BagStatistics
from tests.toys import LeastSquaresBags, two_level_bags

X, Y = two_level_bags(n_bags=60, seed=0, shift=1.5)
MODEL = LeastSquaresBags().fit(X[:30], Y[:30])
MEAN = make_pipeline(BagStatistics(("max",)), LogisticRegression()).fit(X[:30], Y[:30])
TEST, TRUTH = X[30:], Y[30:]


@pytest.mark.parametrize("display", [RocCurveDisplay, PrecisionRecallDisplay, DetCurveDisplay])
def test_curves(display):
    found = display.from_estimator(MODEL, TEST, TRUTH)
    expected = display.from_predictions(TRUTH, MODEL.decision_function(TEST))
    np.testing.assert_array_equal(found.line_.get_xydata(), expected.line_.get_xydata())
    assert len(found.line_.get_xydata()) > 3


def test_confusion_matrix_and_reliability():
    found = ConfusionMatrixDisplay.from_estimator(MODEL, TEST, TRUTH)
    predicted = MODEL.predict(TEST)
    expected = [[np.sum((i == TRUTH) & (predicted == j)) for j in (0, 1)] for i in (0, 1)]
    np.testing.assert_array_equal(found.confusion_matrix, expected)
    found = CalibrationDisplay.from_estimator(MEAN, TEST, TRUTH, n_bins=3)
    probabilities = MEAN.predict_proba(TEST)[:, 1]
    bins = np.digitize(probabilities, [1 / 3, 2 / 3])
    for k, (x, y) in enumerate(zip(found.prob_pred, found.prob_true, strict=True)):
        assert (x, y) == pytest.approx((probabilities[bins == k].mean(), TRUTH[bins == k].mean()))


def test_curves_of_cross_validation():
    found = LearningCurveDisplay.from_estimator(MODEL, X, Y, cv=3, train_sizes=[0.5, 1.0])
    np.testing.assert_allclose(found.test_scores[-1], cross_val_score(MODEL, X, Y, cv=3))
    options = {"param_name": "alpha", "param_range": [0.1, 1.0], "cv": 3}
    found = ValidationCurveDisplay.from_estimator(MODEL, X, Y, **options)
    np.testing.assert_allclose(found.test_scores[1], cross_val_score(MODEL, X, Y, cv=3))
    runs = cross_validate(MODEL, X, Y, cv=3, return_estimator=True, return_indices=True)
    curves = RocCurveDisplay.from_cv_results(runs, X, Y)
    assert len(curves.line_) == 3
