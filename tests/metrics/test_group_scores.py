"""Scores of groups: equal to their definitions, in the order of merged bags."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mean_absolute_error, roc_auc_score
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

from milearn import Bags
from milearn.metrics import group_scores, make_group_scorer
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import BagStatistics

GROUPS = np.array(["b", "a", "b", "c", "a", "b"])
RULES = {
    "max": lambda part: part.max(axis=0),
    "mean": lambda part: part.mean(axis=0),
    "min": lambda part: part.min(axis=0),
    "noisy_or": lambda part: 1 - np.prod(1 - part, axis=0),
}


@pytest.mark.parametrize("shape", [(6,), (6, 3)])
@pytest.mark.parametrize("how", RULES)
def test_by_definition(how, shape):
    scores = np.random.default_rng(0).random(shape)
    scores[2] = 1.0
    found, names = group_scores(scores, GROUPS, how=how)
    assert names.tolist() == ["b", "a", "c"]
    expected = [RULES[how](scores[name == GROUPS]) for name in names]
    np.testing.assert_allclose(found, expected, atol=1e-15)


@pytest.mark.parametrize(
    ("scores", "groups", "options", "sentence"),
    [
        ([1.0, 1.5], ["a", "a"], {"how": "noisy_or"}, "score of bag 1 is not between 0 and 1"),
        ([1.0, np.nan], ["a", "a"], {}, r"scores holds 1 missing value\(s\)"),
        (["ben", "mal"], ["a", "a"], {}, "scores holds 'ben': combine decision values"),
    ],
)
def test_what_is_refused(scores, groups, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        group_scores(scores, groups, **options)


# -- scorers ---------------------------------------------------------------------------------------


def slides():
    rng = np.random.default_rng(0)
    patient = np.repeat([f"P{at}" for at in range(20)], 3)
    y = (rng.random(60) < 0.4).astype(int)
    rows = rng.normal(size=(60, 2)) + y[:, None]
    return Bags.singletons(rows, bag_data={"patient": patient}), y, patient


@pytest.mark.parametrize("method", ["decision_function", "predict_proba"])
def test_scorer_in_cross_validation(method):
    X, y, patient = slides()
    model = make_pipeline(BagStatistics("mean"), LogisticRegression())
    how = "noisy_or" if method == "predict_proba" else "max"
    scorer = make_group_scorer(
        roc_auc_score, "patient", how=how, labels="any", response_method=method
    )
    cv = StratifiedBagKFold(3)
    found = cross_validate(model, X, y, groups=patient, cv=cv, scoring={"auc": scorer})
    expected = []
    for train, test in cv.split(X, y, patient):
        values = getattr(model.fit(X[train], y[train]), method)(X[test])
        values = values[:, 1] if values.ndim == 2 else values
        names = np.unique(patient[test])
        parts = [patient[test] == name for name in names]
        of_groups = [RULES[how](values[part]) for part in parts]
        expected.append(roc_auc_score([y[test][part].max() for part in parts], of_groups))
    np.testing.assert_allclose(found["test_auc"], expected)


def test_scorer_of_a_loss_and_what_it_refuses():
    X, y, _ = slides()
    model = make_pipeline(BagStatistics("mean"), LogisticRegression()).fit(X, y)
    scorer = make_group_scorer(mean_absolute_error, "patient", labels="mean", how="mean",
                               response_method="predict", greater_is_better=False)  # fmt: skip
    expected = np.abs(y.reshape(20, 3).mean(axis=1) - model.predict(X).reshape(20, 3).mean(axis=1))
    np.testing.assert_allclose(scorer(model, X, y), -expected.mean())
    for column, options, error, sentence in (
        ("patient", {}, ValueError, "of group 'P0' have two labels"),
        ("site", {}, ValueError, "bag_data has no column 'site': its columns"),
        ("patient", {"response_method": "score_samples"}, TypeError, "has no score_samples"),
    ):
        with pytest.raises(error, match=sentence):
            make_group_scorer(roc_auc_score, column, **options)(model, X, y)
    with pytest.raises(ValueError, match=r"^y of labels='any' holds text \('0', '1'\)"):
        make_group_scorer(roc_auc_score, "patient", labels="any")(model, X, y.astype("U1"))
