"""Names of bags beside values that scikit-learn divides, also in workers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from milearn import MISVC, MISVR, Bags
from milearn.discriminant_analysis import ShareDiscriminant
from milearn.inspection import instance_scores, share_report
from milearn.model_selection import StratifiedBagKFold, confounder_baseline
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
        lambda: cross_val_score(MISVC(), X, SORTED, cv=3, n_jobs=2),
        lambda: cross_val_score(MISVC(), X, Y, groups=SORTED, cv=StratifiedBagKFold(2)),
        lambda: cross_val_score(
            MICoxPH(), X, survival_outcomes(np.ones(24), SORTED + 1.0), cv=3, n_jobs=2
        ),
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
    of_series = Bags.from_list(pd.Series(BLOCKS, index=PATIENTS))
    assert of_series.equals(X)


def test_names_as_bytes_are_text():
    found = Bags.from_ids(X.instances, np.array([p.encode() for p in X.names[X.bag_index]]))
    assert found.names.tolist() == PATIENTS


def test_names_as_tuples_are_tuples_of_texts():
    found = Bags(np.ones((2, 1)), [0, 1, 2], names=[("a", 0), ("a", 1)])
    assert found.names.tolist() == [("a", "0"), ("a", "1")]


def test_instance_scores_of_a_regressor_are_its_values():
    model = MISVR().fit(X, LABELS.astype(float))
    np.testing.assert_array_equal(instance_scores(model, X), model.predict_instances(X))
