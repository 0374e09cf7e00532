"""scikit-learn's checks and those of bags as marks of tests, for the two files that use them."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from milearn.utils.estimator_checks import parametrize_with_bag_checks

# Checks that fail for a reason, by estimator; empty but for what scikit-learn's own counterpart
# is excused from too.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}


def _expected_failures(estimator):
    return EXPECTED_FAILURES.get(type(estimator).__name__, {})


def with_scikit_learn_checks(estimators):
    made = parametrize_with_checks(estimators, expected_failed_checks=_expected_failures)
    names, cases = made.args
    # A list: pytest 9 warns of the generator that scikit-learn 1.7 hands over.
    return pytest.mark.parametrize(names, list(cases), **made.kwargs)


def with_bag_checks(estimators):
    return parametrize_with_bag_checks(estimators, expected_failed_checks=_expected_failures)
