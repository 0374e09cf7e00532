"""Checks of invalid input, for which the error message contains the bag and advice."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import get_tags

from ..._bags import Bags
from .data import Problem
from .registry import always, bag_check, is_supervised
from .tools import methods_of, reference, refuses, refuses_fit


def _blocks(problem: Problem) -> list[np.ndarray]:
    return [np.array(block) for block in problem.X]


@bag_check("dense", applies=always, once=True)
def check_error_empty_bag(estimator: Any, problem: Problem) -> None:
    """An empty bag is an error with its position."""
    blocks = _blocks(problem)
    blocks[3] = blocks[3][:0]
    refuses_fit(estimator, blocks, problem.y, ValueError, "^Bag 3 is empty:", "an empty bag")


@bag_check("dense", applies=always, once=True)
def check_error_not_finite(estimator: Any, problem: Problem) -> None:
    """NaN and infinity are errors with the position of the bag, in fit and prediction."""
    allow_nan = get_tags(estimator).input_tags.allow_nan
    fitted, _ = reference(estimator, problem)
    for value, name in ((np.nan, "NaN"), (np.inf, "infinity")):
        if allow_nan and name == "NaN":
            continue
        blocks = _blocks(problem)
        blocks[5][-1, 1] = value
        pattern = f"^Bag 5 contains {name} "
        for what, X in (("", Bags.from_list(blocks)), (" in a list", blocks)):
            refuses_fit(estimator, X, problem.y, ValueError, pattern, name + what)
        for method, call in methods_of(fitted):
            refuses(partial(call, X), ValueError, pattern, f"{name}, {method}")


@bag_check("dense", applies=always, once=True)
def check_error_feature_counts(estimator: Any, problem: Problem) -> None:
    """Bags with different numbers of features, or not those of ``fit``, are errors."""
    blocks = _blocks(problem)
    blocks[4] = blocks[4][:, :2]
    pattern = "^Bag 4 has 2 features but bag 0 has 3:"
    refuses_fit(estimator, blocks, problem.y, ValueError, pattern, "differing feature counts")
    fitted, _ = reference(estimator, problem)
    narrow = problem.X[:, [0, 1]]
    expected = f"^X has 2 features, but {type(estimator).__name__} is expecting 3 features as input"
    for method, call in methods_of(fitted, "witness"):
        for what, X in (("bags", narrow), ("a list", list(narrow))):
            message = f"{method} of {what} with two features instead of three"
            refuses(partial(call, X), ValueError, expected, message)


@bag_check("dense", applies=always, once=True)
def check_error_string(estimator: Any, problem: Problem) -> None:
    """A string instead of bags is an error with advice."""
    refuses_fit(
        estimator, "musk1.data", problem.y, TypeError, "^X is a string .*load_bags", "a string"
    )
    blocks: list[Any] = _blocks(problem)
    blocks[2] = "text"
    refuses_fit(
        estimator, blocks, problem.y, TypeError, "^Bag 2 is a string:", "a string for a bag"
    )


@bag_check("dense", applies=is_supervised)
def check_error_labels(estimator: Any, problem: Problem) -> None:
    """A wrong number of labels, and labels of one class, are errors."""
    X, y = problem.X, problem.y
    pattern = f"^y has {len(X) - 1} labels for {len(X)} bags:"
    refuses_fit(estimator, X, y[:-1], ValueError, pattern, "one label too few")
    pattern = f"^y has {X.n_instances} labels for {len(X)} bags:"
    refuses_fit(estimator, X, y[X.bag_index], ValueError, pattern, "labels of instances")
    if is_classifier(estimator):
        one = np.full(len(X), y[0])
        refuses_fit(estimator, X, one, ValueError, "one class only", "labels of one class")
        if "pos_label" in estimator.get_params():
            pattern = "^pos_label='no label' is not a label in y:"
            what = "an unknown pos_label"
            refuses_fit(estimator, X, y, ValueError, pattern, what, pos_label="no label")
