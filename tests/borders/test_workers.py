"""Names of bags beside values that scikit-learn takes without their index."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import VotingClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, cross_val_predict, cross_val_score

from milearn import MISVC, MISVR, Bags
from milearn.discriminant_analysis import ShareDiscriminant
from milearn.inspection import instance_scores, share_report
from milearn.model_selection import confounder_baseline
from milearn.survival import MICoxPH, survival_outcomes

rng = np.random.default_rng(0)
PATIENTS = [f"P{number:02}" for number in rng.permutation(24)]
LABELS = np.arange(24) % 2
BLOCKS = [rng.normal(size=(3, 2)) + 3 * label for label in LABELS]
X = Bags.from_list(dict(zip(PATIENTS, BLOCKS, strict=True)))
Y = pd.Series(LABELS, index=PATIENTS)
SORTED = Y.sort_index()
MESSAGE = r"The index of \w+ .*differs from the names of the bags"


@pytest.mark.parametrize(
    "call",
    [
        lambda: VotingClassifier([("a", MISVC()), ("b", MISVC())], n_jobs=2).fit(X, SORTED),
        lambda: cross_val_score(MISVC(), X, Y, groups=SORTED, cv=GroupKFold(2), n_jobs=2),
        lambda: cross_val_predict(MISVC(), X, SORTED, cv=3, n_jobs=2, method="decision_function"),
        lambda: cross_val_score(
            MICoxPH(), X, survival_outcomes(np.ones(24), SORTED + 1.0), cv=3, n_jobs=2
        ),
        lambda: get_scorer("roc_auc")(MISVC().fit(X, Y), X, SORTED),
        lambda: share_report(ShareDiscriminant().fit(X, Y), X, Y, groups=SORTED),
        lambda: confounder_baseline(X, LABELS, covariates=pd.DataFrame({"age": SORTED})),
        lambda: X[SORTED == 1],
        lambda: cross_val_score(MISVC(), pd.Series(BLOCKS, index=PATIENTS), SORTED, cv=3),
        lambda: MICoxPH().fit(X, survival_outcomes(np.ones(24), SORTED + 1.0)),
    ],
)
def test_a_table_in_another_order_is_refused(call):
    with pytest.raises(ValueError, match=MESSAGE):
        call()


def test_the_same_values_in_the_order_of_the_bags_are_right():
    assert cross_val_score(MISVC(), X, Y, cv=3, n_jobs=2).mean() == 1.0
    assert X[Y == 1].names.tolist() == [p for p in PATIENTS if Y[p] == 1]
    assert get_scorer("roc_auc")(MISVC().fit(X, Y), X, Y) == 1.0
    of_series = Bags.from_list(pd.Series(BLOCKS, index=PATIENTS))
    assert of_series.equals(X)


def test_names_as_bytes_are_text():
    found = Bags.from_ids(X.instances, np.array([p.encode() for p in X.names[X.bag_index]]))
    assert found.names.tolist() == PATIENTS


def test_names_as_tuples_stay_tuples():
    names = [("a", 0), ("a", 1)]
    found = Bags(np.ones((2, 1)), [0, 1, 2], names=names)
    assert found.names.tolist() == names


def test_a_count_beside_texts_that_are_numbers_is_a_count_with_a_warning():
    names = [str(number) for number in rng.permutation(24)]
    numbered = Bags.from_list(dict(zip(names, BLOCKS, strict=True)))
    with pytest.warns(UserWarning, match="The index of y counts from 0"):
        assert MISVC().fit(numbered, pd.Series(LABELS)).score(numbered, LABELS) == 1.0


def test_instance_scores_of_a_regressor_are_its_values():
    model = MISVR().fit(X, LABELS.astype(float))
    np.testing.assert_array_equal(instance_scores(model, X), model.predict_instances(X))
