"""Instance scores, and other methods of the last step, of any fitted estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MISVC, MISVR
from milearn.datasets import make_bags
from milearn.inspection import final_step, instance_scores
from milearn.preprocessing import BagStatistics, InstanceTransformer
from milearn.survival import MICoxPH, survival_outcomes


@pytest.fixture(scope="module")
def data():
    return make_bags(n_bags=24, random_state=0)


def scaled(model):
    return make_pipeline(InstanceTransformer(StandardScaler()), model)


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: GridSearchCV(m, {"misvc__C": [1, 10]})])
def test_scores_of_a_pipeline_are_those_of_its_last_step(data, wrap):
    X, y = data
    model = wrap(scaled(MISVC())).fit(X, y)
    last, bags = final_step(model, X)
    assert type(last) is MISVC
    expected = last.instance_decision_function(bags)
    np.testing.assert_array_equal(instance_scores(model, X), expected)
    rows = last.witness(bags)
    np.testing.assert_allclose(expected[rows], model.decision_function(X))


@pytest.mark.parametrize("positive", ["tumour", "healthy"])
def test_scores_are_high_for_the_positive_class_whatever_its_name(data, positive):
    X, y = data
    other = {"tumour": "healthy", "healthy": "tumour"}[positive]
    names = np.where(y == 1, positive, other)
    scores = instance_scores(scaled(MISVC(pos_label=positive)).fit(X, names), X)
    expected = instance_scores(scaled(MISVC()).fit(X, y), X)
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    model = scaled(MISVC(pos_label=positive)).fit(X, names)
    np.testing.assert_array_equal(instance_scores(model, X, class_label=other), -scores)


def test_three_classes_values_and_risks(data):
    X, y = data
    three = np.arange(24) % 3
    model = MISVC(kernel="linear").fit(X, three)
    columns = model.instance_decision_function(X)
    np.testing.assert_array_equal(instance_scores(model, X, class_label=2), columns[:, 2])
    value = MISVR(kernel="linear").fit(X, y + 0.5)
    np.testing.assert_array_equal(instance_scores(value, X), value.predict_instances(X))
    outcomes = survival_outcomes(event=y == 1, time=1.0 + np.arange(24))
    cox = scaled(MICoxPH()).fit(X, outcomes)
    last, bags = final_step(cox, X)
    np.testing.assert_array_equal(instance_scores(cox, X), last.predict_instances(bags))
    assert last.predict_survival_function(bags, return_array=True).shape[0] == 24


def test_what_has_no_instance_scores_is_refused(data):
    X, y = data
    rows = make_pipeline(BagStatistics("mean"), LogisticRegression()).fit(X, y)
    with pytest.raises(TypeError, match="LogisticRegression has no method instance_decision"):
        instance_scores(rows, X)
    last, matrix = final_step(rows, X)
    np.testing.assert_array_equal(last.predict(matrix), rows.predict(X))
    calibrated = CalibratedClassifierCV(scaled(MISVC()), cv=2).fit(X, y)
    with pytest.raises(TypeError, match="CalibratedClassifierCV has no method instance_decision"):
        instance_scores(calibrated, X)
