"""Every public estimator under scikit-learn's checks and under those of bags."""

from __future__ import annotations

import pytest
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from milearn.utils import all_estimators
from milearn.utils.estimator_checks import parametrize_with_bag_checks

# Settings under which an estimator is checked; an estimator that is not listed runs as it is.
SETTINGS: dict[str, list[dict]] = {
    "InstanceTransformer": [
        {},
        {"transformer": MaxAbsScaler()},
        {"transformer": StandardScaler(with_mean=False)},
    ],
    "BagStatistics": [
        {},
        {"statistics": ("mean", "std", "sum", "count")},
    ],
    "SingleInstance": [
        {},
        {"estimator": RidgeClassifier()},
        {"estimator": DecisionTreeClassifier(random_state=0), "pooling": "mean"},
        {"estimator": Ridge()},
    ],
    "MISVC": [
        {},
        {"kernel": "linear"},
        {"loss": "l2", "coupling": 1.0},
        {"loss": "epsilon_insensitive"},
        {"bag_kernel": "minmax"},
        {"coupling": 0.0, "bag_kernel": "mean_set"},
        {"n_components": 20},
        {"kernel": "linear", "n_components": 1},
        {"loss": "max"},
        {"loss": "max", "kernel": "linear"},
        {"loss": "max", "slack": "instance"},
        {"loss": "max", "kernel": "linear", "slack": "instance"},
    ],
    "MISVR": [
        {},
        {"kernel": "linear"},
        {"loss": "l2"},
        {"loss": "epsilon_insensitive", "bag_kernel": "minmax"},
        {"n_components": 20},
        {"loss": "max"},
    ],
    "InstanceMISVC": [{}, {"kernel": "linear"}],
    "SDPMIL": [
        {},
        {"kernel": "linear", "selection": "at_least_one"},
        {"polish": True},
        {"relaxation": "tight"},
    ],
    "MILSD": [{}, {"graph": "knn"}],
    "M3IC": [{}, {"n_clusters": 3, "balance": None, "C": 10.0}],
    "BAMIC": [{}, {"metric": "min", "init": "k-means++"}, {"metric": "max", "n_clusters": 3}],
    "LinkContentMF": [{}],
    "DPBoost": [
        {},
        {"learner": "rbf"},
        {"learner": DecisionTreeClassifier(max_depth=2, random_state=0), "max_rows": 20},
    ],
    "LPBoost": [{}, {"learner": "rbf"}],
}

# Checks that fail for a reason, by estimator; empty but for what scikit-learn's own counterpart
# is excused from too.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}


def _instances():
    for name, each in all_estimators():
        for settings in SETTINGS.get(name, [{}]):
            yield each(**settings)


def _expected_failures(estimator):
    return EXPECTED_FAILURES.get(type(estimator).__name__, {})


def _with_checks(estimators):
    made = parametrize_with_checks(estimators, expected_failed_checks=_expected_failures)
    names, cases = made.args
    # A list: pytest 9 warns of the generator that scikit-learn 1.7 hands over.
    return pytest.mark.parametrize(names, list(cases), **made.kwargs)


@_with_checks(list(_instances()))
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_bag_checks(list(_instances()), expected_failed_checks=_expected_failures)
def test_checks_of_bags(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", [name for name, _ in all_estimators()])
def test_settings_have_a_default(name):
    assert dict(all_estimators())[name]() is not None


def test_tables_name_estimators_that_exist():
    known = {name for name, _ in all_estimators()}
    assert set(SETTINGS) <= known
    assert set(EXPECTED_FAILURES) <= known
