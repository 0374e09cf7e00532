"""Every public estimator under scikit-learn's checks and under those of bags."""

from __future__ import annotations

import pytest
from sklearn.utils import estimator_checks

from milearn.utils import all_estimators
from milearn.utils.estimator_checks import bag_checks
from tests.common.common_checks import (
    OF_MANY_FITS,
    SCIKIT_LEARN_OF_SETTINGS,
    SMALLER,
    all_of_many_fits,
    all_with_small_fits,
    with_bag_checks,
    with_scikit_learn_checks,
)
from tests.toys import OFTEN_CONSTANT

pytestmark = OFTEN_CONSTANT


@pytest.fixture(scope="module", autouse=True)
def few_formats():
    """Sparse input with long indices: tests/_bags has all formats."""
    every, kept = estimator_checks._generate_sparse_data, {"csr_64"}
    few = "_generate_sparse_data", lambda X: (each for each in every(X) if each[0] in kept)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(estimator_checks, *few)
        yield


@with_scikit_learn_checks(all_with_small_fits())
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@with_bag_checks(all_with_small_fits())
def test_checks_of_bags(estimator, check):
    check(estimator)


@with_scikit_learn_checks(
    all_of_many_fits(),
    only=SCIKIT_LEARN_OF_SETTINGS | {"check_estimators_pickle(readonly_memmap=True)"},
)
def test_checks_of_scikit_learn_of_many_fits(estimator, check):
    check(estimator)


@with_bag_checks(all_of_many_fits(), of_settings=True)
def test_checks_of_bags_of_many_fits(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", SMALLER)
def test_ensembles_with_their_defaults(name):
    # All but the number of trees, which no check sees: a fit of all takes a second.
    trees = {"n_estimators": 3} if name == "MIForest" else {}
    estimator = dict(all_estimators())[name](**trees)
    chosen = [
        check
        for check in bag_checks(estimator)
        if check.name in ("check_order_of_bags", "check_sample_weight")
        and (check.problem.kind, check.problem.task) == ("noisy", "binary")
    ]
    assert len(chosen) == 2
    for check in chosen:
        check(estimator)
    estimator_checks.check_estimators_pickle(name, estimator)


def test_small_fits_name_estimators_that_exist():
    names = {name for name, _ in all_estimators()}
    assert set(OF_MANY_FITS | SMALLER) <= names
