"""Checks that every estimator of bags must pass, in addition to scikit-learn's own.

scikit-learn's checks only use matrices, which are bags of one instance; these checks use bags. A
failed check raises an ``AssertionError``. Checks run for each kind of input and each task that the
estimator supports.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from ._checks import PROBLEMS, REGISTERED, Problem

__all__ = ["applies", "bag_checks", "check_bag_estimator", "parametrize_with_bag_checks"]


class _Check:
    """A check with its problem, which is called with an estimator."""

    def __init__(self, check: Any, problem: Problem) -> None:
        self.check = check
        self.problem = problem
        self.name = check.__name__
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


def applies(check: str, estimator: Any, problem: Problem) -> bool:
    """Tell whether a check of bags applies to an estimator and a problem.

    This depends on the tags, methods and parameters of the estimator, which need not be fitted.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    check : str
        Name of the check, such as ``"check_witness"``.
    estimator : estimator instance
        The estimator.
    problem : problem of a check
        The attribute ``problem`` of a check of :func:`bag_checks`: ``kind`` of input, ``task``,
        bags ``X`` and labels ``y``.

    Returns
    -------
    bool
        Whether the check applies.

    Raises
    ------
    ValueError
        If there is no check with this name.

    See Also
    --------
    bag_checks : Iterate over the checks that apply.

    Examples
    --------
    >>> from milearn.baselines import SingleInstance
    >>> from milearn.utils.estimator_checks import applies, bag_checks
    >>> problem = next(iter(bag_checks(SingleInstance()))).problem
    >>> applies("check_witness", SingleInstance(), problem)
    True
    >>> applies("check_witness", SingleInstance(pooling="mean"), problem)
    False
    """
    for registered in REGISTERED:
        if registered.__name__ == check:
            return _suits(estimator, problem) and registered.applies(estimator, problem)
    raise ValueError(
        f"check={check!r} is unknown: choose from {[each.__name__ for each in REGISTERED]}."
    )


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
    applies : Tell whether one check applies.

    Examples
    --------
    >>> from milearn.utils.estimator_checks import bag_checks
    >>> from sklearn.svm import SVC
    >>> next(iter(bag_checks(SVC()))).id
    'check_clone(dense,binary)'
    """
    # Computed once, because the tags of a nested estimator take a millisecond.
    takes_sparse = get_tags(estimator).input_tags.sparse
    for number, task in enumerate(_tasks(estimator)):
        for check in REGISTERED:
            if check.once and number > 0:
                continue
            for kind in check.kinds:
                problem = PROBLEMS[kind, task]
                if (takes_sparse or kind != "sparse") and check.applies(estimator, problem):
                    yield _Check(check, problem)


def _suits(estimator: Any, problem: Problem) -> bool:
    sparse = problem.kind == "sparse"
    return problem.task in _tasks(estimator) and (
        not sparse or get_tags(estimator).input_tags.sparse
    )


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
    AssertionError: check_clone(dense,binary) of SVC raised TypeError: ...
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
        expected failures. The name of a check has kind and task, ``"check_pickle(dense,binary)"``,
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
