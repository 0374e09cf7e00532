"""Checks that every estimator of bags must pass, in addition to scikit-learn's own.

scikit-learn's checks only use matrices, which are bags of one instance; these checks use bags. A
failed check raises an ``AssertionError``. Checks run for each kind of input and each task that the
estimator supports.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from ._checks import PROBLEMS, REGISTERED, Problem

__all__ = ["bag_checks", "check_bag_estimator", "parametrize_with_bag_checks"]


class _Check:
    """A check with its problem, which is called with an estimator."""

    def __init__(self, check: Any, problem: Problem) -> None:
        self.check = check
        self.problem = problem
        self.name, self.kinds = check.__name__, check.kinds
        self.id = f"{self.name}({problem.kind},{problem.task})"

    def __call__(self, estimator: Any) -> None:
        title = f"{self.id} of {type(estimator).__name__}"
        with warnings.catch_warnings():
            # Convergence on tiny data with tight tolerances is not checked.
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                self.check(estimator, self.problem)
            except AssertionError as error:
                raise AssertionError(f"{title}: {error}") from error
            except Exception as error:
                raise AssertionError(f"{title} raised {type(error).__name__}: {error}") from error

    def __repr__(self) -> str:
        return self.id


def bag_checks(estimator: Any) -> Iterator[_Check]:
    """Iterate over the checks that apply to an estimator, for each kind of input and task.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    estimator : estimator instance
        The checks depend on its tags, methods and parameters.

    Yields
    ------
    callable
        Called with the estimator; it has a ``name`` and an ``id`` (with kind and task).

    See Also
    --------
    check_bag_estimator : Run all checks.

    Examples
    --------
    >>> from milearn.utils.estimator_checks import bag_checks
    >>> from sklearn.svm import SVC
    >>> next(iter(bag_checks(SVC()))).id
    'check_bags_as_sequences(dense,binary)'
    """
    # Computed once, because the tags of a nested estimator take a millisecond.
    takes_sparse = get_tags(estimator).input_tags.sparse
    first, *others = _tasks(estimator)
    # Fits are shared by the checks of one call.
    problems = {key: replace(problem, fits={}) for key, problem in PROBLEMS.items()}
    for task in (first, *others):
        for check in REGISTERED:
            for kind in check.kinds:
                only_first = check.once or kind == "sparse"
                problem = problems[kind, task]
                if (only_first and task != first) or (kind == "sparse" and not takes_sparse):
                    continue
                if check.applies(estimator, problem):
                    yield _Check(check, problem)


def _tasks(estimator: Any) -> list[str]:
    tags = get_tags(estimator)
    if is_classifier(estimator):
        return ["binary", "multiclass"] if tags.classifier_tags.multi_class else ["binary"]
    if is_regressor(estimator):
        return ["regression"]
    if hasattr(estimator, "predict_survival_function"):
        return ["survival"]
    return ["binary"] if tags.target_tags.required else ["unsupervised"]


def check_bag_estimator(
    estimator: Any, *, expected_failed_checks: Mapping[str, str] | None = None
) -> None:
    """Run all checks of bags on an estimator, and raise the first failure.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    estimator : estimator instance
        It is cloned for every check.
    expected_failed_checks : mapping of name to reason, default=None
        Checks that are skipped, by name or by name with kind and task.

    Raises
    ------
    AssertionError
        With the check, the kind of input and the difference.

    See Also
    --------
    parametrize_with_bag_checks : One test per check.

    Examples
    --------
    >>> from milearn.utils.estimator_checks import check_bag_estimator
    >>> from sklearn.svm import SVC
    >>> check_bag_estimator(SVC())  # takes rows only
    Traceback (most recent call last):
    ...
    AssertionError: check_bags_as_sequences(dense,binary) of SVC raised ...
    """
    for check in bag_checks(estimator):
        if _reason(check, expected_failed_checks) is None:
            check(estimator)


def parametrize_with_bag_checks(
    estimators: Iterable[Any],
    *,
    expected_failed_checks: Callable[[Any], Mapping[str, str]] | None = None,
) -> Any:
    """Parametrize a pytest test over estimators and checks of bags.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    estimators : iterable of estimator instances
        Estimators to test.
    expected_failed_checks : callable, default=None
        Called with an estimator; returns a mapping of check to reason. These checks are marked as
        expected failures. The name of a check has kind and task, ``"check_witness(dense,binary)"``,
        or is without them for all of them.

    Returns
    -------
    pytest mark
        For a test function with the arguments ``estimator`` and ``check``.

    See Also
    --------
    check_bag_estimator : Run all checks in one call.

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
