"""Registration of the checks: on which input each runs, and to which estimators it applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.base import is_classifier, is_clusterer
from sklearn.utils import get_tags

from .data import Problem
from .tools import BAG_METHODS, INSTANCE_METHODS

__all__ = ["REGISTERED", "BagCheck", "Predicate", "bag_check"]

Function = Callable[[Any, Problem], None]
Predicate = Callable[[Any, Problem], bool]


@dataclass(frozen=True)
class BagCheck:
    """A check ``function(estimator, problem)`` and the problems for which it runs."""

    function: Function
    # Kinds of input for which the check runs.
    kinds: tuple[str, ...]
    # ``applies(estimator, problem)`` depends on the tags, methods and parameters of an estimator
    # that is not fitted.
    applies: Predicate
    # Whether the check only runs for the first task of the estimator.
    once: bool

    @property
    def name(self) -> str:
        return self.function.__name__


REGISTERED: list[BagCheck] = []


def bag_check(
    *kinds: str, applies: Predicate | None = None, once: bool = False
) -> Callable[[Function], Function]:
    """Decorator that registers a check for the given kinds of input."""

    def register(function: Function) -> Function:
        REGISTERED.append(BagCheck(function, kinds, applies or compares, once))
        return function

    return register


# -- predicates ------------------------------------------------------------------------------------


def predicts(estimator: Any, problem: Problem) -> bool:
    """Whether the estimator has a method that predicts for bags or instances."""
    return any(hasattr(estimator, method) for method in BAG_METHODS + INSTANCE_METHODS)


def compares(estimator: Any, problem: Problem) -> bool:
    """Whether two fits can be compared by what they return."""
    return predicts(estimator, problem) or is_clusterer(estimator)


def compares_order(estimator: Any, problem: Problem) -> bool:
    """Whether the order of the data can be checked: in predictions, or in fits without a seed."""
    draws = "random_state" in estimator.get_params() or get_tags(estimator).non_deterministic
    return predicts(estimator, problem) or (is_clusterer(estimator) and not draws)


def always(estimator: Any, problem: Problem) -> bool:
    return True


def has(*methods: str) -> Predicate:
    """Predicate of the estimators that have all of the methods."""

    def applies(estimator: Any, problem: Problem) -> bool:
        return all(hasattr(estimator, method) for method in methods)

    return applies


def takes(*parameters: str) -> Predicate:
    """Predicate of the estimators that have all of the parameters."""

    def applies(estimator: Any, problem: Problem) -> bool:
        return set(parameters) <= set(estimator.get_params())

    return applies


def both(*predicates: Predicate) -> Predicate:
    """Predicate that is true if all given predicates are."""

    def applies(estimator: Any, problem: Problem) -> bool:
        return all(each(estimator, problem) for each in predicates)

    return applies


def is_supervised(estimator: Any, problem: Problem) -> bool:
    return problem.y is not None


def classifies(estimator: Any, problem: Problem) -> bool:
    return is_classifier(estimator)
