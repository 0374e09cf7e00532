"""Checks that every estimator of bags must pass, beside scikit-learn's own.

scikit-learn's checks only ever feed matrices, which are bags of one instance; these feed bags.
Every check fails with an ``AssertionError`` and is run for each kind of input and each task that
fits the estimator.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from ._checks.bag_checks import CHECKS, ONCE
from ._checks.data import PROBLEMS, Problem

__all__ = ["bag_checks", "check_bag_estimator", "parametrize_with_bag_checks"]


class _Check:
    """A check bound to its problem, called with the estimator alone."""

    def __init__(self, function: Callable[[Any, Problem], None], problem: Problem) -> None:
        self.function = function
        self.problem = problem
        self.name = function.__name__
        self.id = f"{self.name}({problem.kind},{problem.task})"

    def __call__(self, estimator: Any) -> None:
        title = f"{self.id} of {type(estimator).__name__}"
        with warnings.catch_warnings():
            # Tiny data and tight tolerances: whether it converges is the estimator's own test.
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                self.function(estimator, self.problem)
            except AssertionError as error:
                raise AssertionError(f"{title}: {error}") from error
            except Exception as error:
                raise AssertionError(f"{title} raised {type(error).__name__}: {error}") from error

    def __repr__(self) -> str:
        return self.id


def bag_checks(estimator: Any) -> Iterator[_Check]:
    """All checks that apply to an estimator, one for each kind of input and task.

    Parameters
    ----------
    estimator : estimator instance

    Yields
    ------
    callable
        Takes the estimator; has ``name`` (of the check) and ``id`` (with kind and task).

    Examples
    --------
    >>> from milearn.utils.estimator_checks import bag_checks
    >>> from sklearn.svm import SVC
    >>> next(iter(bag_checks(SVC()))).id
    'check_order_of_instances(dense,binary)'
    """
    tags = get_tags(estimator)
    for task in _tasks(estimator, tags):
        for function, kinds in CHECKS.items():
            for kind in kinds:
                if kind != "sparse" or tags.input_tags.sparse:
                    yield _Check(function, PROBLEMS[kind, task])
    first = next(iter(_tasks(estimator, tags)))
    for function in ONCE:
        yield _Check(function, PROBLEMS["dense", first])


def _tasks(estimator: Any, tags: Any) -> list[str]:
    if is_classifier(estimator):
        return ["binary", "multiclass"] if tags.classifier_tags.multi_class else ["binary"]
    if is_regressor(estimator):
        return ["regression"]
    return ["binary"] if tags.target_tags.required else ["unsupervised"]


def check_bag_estimator(
    estimator: Any, *, expected_failed_checks: Mapping[str, str] | None = None
) -> None:
    """Run all checks of bags on an estimator; the first failure raises.

    Parameters
    ----------
    estimator : estimator instance
    expected_failed_checks : mapping of name to reason, default=None
        Checks that are left out, by name or by name with kind and task.

    Raises
    ------
    AssertionError
        With the check, the kind of input and what differed.

    Examples
    --------
    >>> from milearn.utils.estimator_checks import check_bag_estimator
    >>> from sklearn.svm import SVC
    >>> check_bag_estimator(SVC())  # takes rows only
    Traceback (most recent call last):
    ...
    AssertionError: check_order_of_instances(dense,binary) of SVC raised TypeError: ...
    """
    for check in bag_checks(estimator):
        if _reason(check, expected_failed_checks) is None:
            check(estimator)


def parametrize_with_bag_checks(
    estimators: Iterable[Any],
    *,
    expected_failed_checks: Callable[[Any], Mapping[str, str]] | None = None,
) -> Any:
    """pytest decorator: one test for each estimator and check of bags.

    Parameters
    ----------
    estimators : iterable of estimator instances
    expected_failed_checks : callable, default=None
        Takes an estimator and returns a mapping of check to reason; these are marked to fail.
        A check is named with kind and task, ``"check_pickle(dense,binary)"``, or without them
        for all.

    Returns
    -------
    pytest mark
        For a test function with the arguments ``estimator`` and ``check``.

    Examples
    --------
    >>> from milearn.utils.estimator_checks import parametrize_with_bag_checks
    >>> from sklearn.svm import SVC
    >>> @parametrize_with_bag_checks([SVC()])
    ... def test_bag_checks(estimator, check):
    ...     check(estimator)
    """
    import pytest

    cases = []
    for estimator in estimators:
        failures = expected_failed_checks(estimator) if expected_failed_checks else {}
        shown = re.sub(r"\s+", "", repr(estimator))
        for check in bag_checks(estimator):
            reason = _reason(check, failures)
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason)]
            cases.append(pytest.param(estimator, check, id=f"{shown}-{check.id}", marks=marks))
    return pytest.mark.parametrize(("estimator", "check"), cases)


def _reason(check: _Check, failures: Mapping[str, str] | None) -> str | None:
    failures = failures or {}
    return failures.get(check.id, failures.get(check.name))
