"""Every public estimator under scikit-learn's checks and under those of bags."""

from __future__ import annotations

from milearn.utils import all_estimators
from tests.common.common_checks import (
    EXPECTED_FAILURES,
    OF_MANY_FITS,
    SCIKIT_LEARN_OF_SETTINGS,
    all_checked_in_full,
    all_of_many_fits,
    with_bag_checks,
    with_scikit_learn_checks,
)


@with_scikit_learn_checks(all_checked_in_full())
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@with_bag_checks(all_checked_in_full())
def test_checks_of_bags(estimator, check):
    check(estimator)


@with_scikit_learn_checks(all_of_many_fits(), only=SCIKIT_LEARN_OF_SETTINGS)
def test_checks_of_scikit_learn_of_many_fits(estimator, check):
    check(estimator)


@with_bag_checks(all_of_many_fits(), of_settings=True)
def test_checks_of_bags_of_many_fits(estimator, check):
    check(estimator)


def test_exceptions_name_estimators_that_exist():
    names = {name for name, _ in all_estimators()}
    assert set(EXPECTED_FAILURES) <= names
    assert set(OF_MANY_FITS) <= names


def test_every_estimator_is_checked_as_it_is_or_with_settings_for_a_small_fit():
    as_it_is = {
        type(each).__name__ for each in all_checked_in_full() if repr(each) == repr(type(each)())
    }
    others = {type(each).__name__ for each in all_of_many_fits()}
    assert as_it_is | others == {name for name, _ in all_estimators()}
    assert not as_it_is & others
