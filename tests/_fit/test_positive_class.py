"""Two classes with names and no ``pos_label``: which one an instance makes positive."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from milearn import MIClassifier
from milearn.baselines import CitationKNN, MIForest, MILBoost
from milearn.datasets import make_bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.structured import MILSD
from milearn.svm import MISVC, SDPMIL, BagSVC, CoupledMISVC, InstanceMISVC

DIRECTED = [
    MISVC(),
    InstanceMISVC(),
    CoupledMISVC(),
    SDPMIL(),
    MILSD(),
    DPBoost(),
    LPBoost(),
    MILBoost(n_estimators=3),
    MIForest(n_estimators=3),
]
ALIKE = [BagSVC(), CitationKNN(), MIClassifier(time_limit=1e-9)]


def fit(estimator, labels, **params):
    bags, y = make_bags(n_bags=8, n_features=2, random_state=0)
    estimator.set_params(**params).fit(bags, np.array(labels)[y])


@pytest.mark.parametrize("estimator", DIRECTED, ids=lambda each: type(each).__name__)
def test_names_without_pos_label_are_warned_about(estimator):
    with pytest.warns(UserWarning, match="The positive class is 'normal', the last") as caught:
        fit(estimator, ["normal", "cancer"])
    assert "pos_label='cancer' if it is 'cancer'" in str(caught[0].message)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(estimator, ["normal", "cancer"], pos_label="cancer")
        fit(estimator, [0, 1], pos_label=None)


@pytest.mark.parametrize("estimator", ALIKE, ids=lambda each: type(each).__name__)
def test_classes_that_are_treated_alike_need_no_name(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "time_limit")
        fit(estimator, ["normal", "cancer"])


def test_three_classes_have_no_positive_one():
    bags, y = make_bags(n_bags=24, random_state=0)
    names = np.array(["a", "b", "c"])[(y + (np.arange(24) % 4 == 0)) % 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MISVC().fit(bags, names)
