"""The checks that depend on settings, for other settings than the defaults: losses, kernels, ways.

A file of its own, so that the oldest supported versions can run the checks of the defaults alone:
what differs between versions shows there already.
"""

from __future__ import annotations

from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from milearn.cluster import M3IC
from milearn.utils import all_estimators
from tests.common.common_checks import (
    QUICK,
    SCIKIT_LEARN_OF_SETTINGS,
    with_bag_checks,
    with_scikit_learn_checks,
)
from tests.toys import OFTEN_CONSTANT

pytestmark = OFTEN_CONSTANT

# Settings besides the defaults, which test_defaults.py checks. C = 1 with linear kernels: under the
# class weights of 1000 of one of scikit-learn's checks the default C makes a problem that double
# precision solves to a gap of 1.5e-6, and the warning that says so is an error here; MILSD takes
# seconds to solve its own.
SETTINGS: dict[str, list[dict]] = {
    "InstanceTransformer": [
        {"transformer": MaxAbsScaler()},
        {"transformer": StandardScaler(with_mean=False)},
        {"transformer": "passthrough"},
        {"transformer": None},
    ],
    "BagStatistics": [{"statistics": ("mean", "std", "sum", "count")}],
    "SingleInstance": [
        {"estimator": RidgeClassifier()},
        {"estimator": DecisionTreeClassifier(random_state=0), "pooling": "mean"},
        {"estimator": Ridge()},
    ],
    "MISVC": [
        {"kernel": "linear", "C": 1.0},
        {"slack": "instance"},
        {"kernel": "linear", "slack": "instance", "C": 1.0},
        {"n_components": 5},
    ],
    "MISVR": [{"kernel": "linear"}, {"n_components": 20}],
    "CoupledMISVC": [
        {"kernel": "linear"},
        {"loss": "l2", "coupling": 1.0},
        {"loss": "epsilon_insensitive"},
        {"coupling": 0.0, "bag_kernel": "minmax", "C": 1.0},
        {"n_components": 5},
        {"kernel": "linear", "n_components": 1},
    ],
    "CoupledMISVR": [
        {"kernel": "linear"},
        {"loss": "l2"},
        {"loss": "epsilon_insensitive", "bag_kernel": "minmax"},
        {"n_components": 20},
    ],
    "InstanceMISVC": [{"kernel": "linear", "C": 1.0}],
    "SDPMIL": [
        {"kernel": "linear", "selection": "at_least_one", "C": 1.0},
        {"polish": True},
    ],
    "MICoxPH": [{"ties": "efron", "C": 10.0}, {"pooling": "mean"}],
    "MILSD": [{"graph": "knn", "C": 10.0}],
    "M3IC": [{"n_clusters": 3, "balance": None, "C": 10.0}],
    "BAMIC": [{"metric": "min", "init": "k-means++"}, {"metric": "max", "n_clusters": 3}],
    "DPBoost": [
        {"estimator": DecisionTreeClassifier(max_depth=2, random_state=0), "C": 0.1, **QUICK},
    ],
    "LPBoost": [{"estimator": "rbf", **QUICK}],
}

ESTIMATORS = [
    each(**settings)
    for name, each in all_estimators()
    for settings in SETTINGS.get(name, [])
    # One of them is the default.
    if repr(each(**settings)) != repr(each())
]


@with_scikit_learn_checks(ESTIMATORS, only=SCIKIT_LEARN_OF_SETTINGS)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


# scikit-learn's checks find fewer groups at these settings, and fit one sample.
OF_BAGS = [M3IC(3, balance=0.0), M3IC(3, min_cluster_size=2)]


@with_bag_checks([*ESTIMATORS, *OF_BAGS], of_settings=True)
def test_checks_of_bags(estimator, check):
    check(estimator)


def test_settings_name_estimators_that_exist():
    assert set(SETTINGS) <= {name for name, _ in all_estimators()}
