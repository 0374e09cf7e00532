"""Every public estimator under scikit-learn's checks and under those of bags, as it is.

Ensembles are smaller than by default, as scikit-learn makes its own for its checks.
"""

from __future__ import annotations

from milearn.utils import all_estimators
from tests.common.common_checks import (
    EXPECTED_FAILURES,
    SMALLER,
    with_bag_checks,
    with_scikit_learn_checks,
)

ESTIMATORS = [each(**SMALLER.get(name, {})) for name, each in all_estimators()]


@with_scikit_learn_checks(ESTIMATORS)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@with_bag_checks(ESTIMATORS)
def test_checks_of_bags(estimator, check):
    check(estimator)


def test_expected_failures_name_estimators_that_exist():
    assert set(EXPECTED_FAILURES) | set(SMALLER) <= {name for name, _ in all_estimators()}
