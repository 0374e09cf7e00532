"""Unit tests of the multiple-instance assumption after Raff & Holt (arXiv:2310.17867).

A model whose bag score is its highest instance score must find a single concept although another
pattern indicates the negative class in training and turns up in positive bags at test, and must
not be misled when test bags hold many more background instances. It promises nothing where two
concepts have to meet in a bag.
"""

from __future__ import annotations

import pytest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from milearn.preprocessing import BagStatistics
from milearn.svm import MISVC, InstanceMISVC
from tests.bags import false_frequency, single_concept, threshold_concepts

MODELS = [
    MISVC(kernel="linear", C=1.0),
    MISVC(kernel="linear", C=1.0, slack="instance"),
    MISVC(),
    MISVC(slack="instance"),
    InstanceMISVC(),
]
CHEAT = make_pipeline(BagStatistics(("mean",)), StandardScaler(), SVC(kernel="linear"))


def auc(model, data):
    X_train, y_train, X_test, y_test = data
    return roc_auc_score(y_test, model.fit(X_train, y_train).decision_function(X_test))


@pytest.mark.parametrize("make", [single_concept, false_frequency])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_models_of_the_maximum_pass(model, make):
    assert auc(model, make(random_state=0)) > 0.97


@pytest.mark.parametrize("make", [single_concept, false_frequency])
def test_a_mean_of_the_bag_fails(make):
    # The test above would be empty if this passed.
    assert auc(CHEAT, make(random_state=0)) < 0.8


def test_two_concepts_are_beyond_a_maximum():
    """Recorded, not promised: the score of one instance cannot say that two kinds are there."""
    value = auc(MISVC(kernel="linear", C=1.0), threshold_concepts(random_state=0))
    assert value < 0.97
