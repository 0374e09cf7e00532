"""Fits and outputs that the checks can compare, and assertions that are counted."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ..._bags import Bags
from ..._compat import has_valid_parameters
from .data import Problem

BAG_METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")
INSTANCE_METHODS = ("instance_decision_function", "predict_instances")
SCORES = ("decision_function", "instance_decision_function", "predict_proba")

# Largest difference between two fits, relative to the largest score, due to tolerances of solvers.
REFIT = 1e-3
SAME = 1e-8

Outputs = dict[str, tuple[str, np.ndarray]]


# -- assertions ----------------------------------------------------------------------------------


class AssertionCount:
    """Number of assertions: a check without assertions is an error."""

    made = 0


def ensure(condition: Any, message: str) -> None:
    """Assert a condition, and count the assertion."""
    AssertionCount.made += 1
    assert condition, message


# -- fits ----------------------------------------------------------------------------------------


def fresh(estimator: Any, /, **parameters: Any) -> Any:
    """A clone with a fixed seed and a tolerance tight enough to compare two fits."""
    estimator = clone(estimator)
    known = estimator.get_params()
    if "random_state" in known:
        parameters.setdefault("random_state", 0)
    if isinstance(known.get("tol"), float):
        parameters.setdefault("tol", min(known["tol"], 1e-6))
    return estimator.set_params(**parameters)


def fitted_on(estimator: Any, X: Any, y: Any, /, **parameters: Any) -> Any:
    """A fresh clone, fitted; ``y`` is None for the unsupervised task."""
    return fit(fresh(estimator, **parameters), X, y)


def fit(estimator: Any, X: Any, y: Any, **arguments: Any) -> Any:
    """The estimator itself, fitted; ``y`` is None for the unsupervised task."""
    return estimator.fit(X, **arguments) if y is None else estimator.fit(X, y, **arguments)


class _Reference:
    """Fits of one estimator, for as long as its parameters stay the same objects."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters
        # Store the problem, so that its id is not reused.
        self.fits: dict[tuple[int, int], tuple[Problem, Any, Outputs]] = {}

    def is_of(self, parameters: dict[str, Any]) -> bool:
        return parameters.keys() == self.parameters.keys() and all(
            value is self.parameters[name] for name, value in parameters.items()
        )


_REFERENCES: WeakKeyDictionary[Any, _Reference] = WeakKeyDictionary()


def reference(estimator: Any, problem: Problem, seed: int = 0) -> tuple[Any, Outputs]:
    """A clone fitted on the problem, and its outputs, both shared by all checks.

    They must not be modified. A check of the fit itself, or a check that changes the estimator
    afterwards, uses :func:`fitted_on`.
    """
    parameters = estimator.get_params()
    held = _REFERENCES.get(estimator)
    if held is None or not held.is_of(parameters):
        held = _REFERENCES[estimator] = _Reference(parameters)
    key = id(problem), seed
    if key not in held.fits:
        chosen = {"random_state": seed} if "random_state" in parameters else {}
        fitted = fitted_on(estimator, problem.X, problem.y, **chosen)
        held.fits[key] = problem, fitted, outputs_of(fitted, problem.X)
    _, fitted, outputs = held.fits[key]
    return fitted, dict(outputs)


def fitted_with(estimator: Any, problem: Problem, /, **parameters: Any) -> Any:
    """A clone fitted with the parameters, which is shared if the estimator has these parameters."""
    held = estimator.get_params()
    if all(held[name] == value for name, value in parameters.items()):
        return reference(estimator, problem)[0]
    return fitted_on(estimator, problem.X, problem.y, **parameters)


def accepts(estimator: Any, /, **parameters: Any) -> bool:
    """Whether the estimator has the parameters and accepts their values."""
    if not set(parameters) <= set(estimator.get_params()):
        return False
    return has_valid_parameters(clone(estimator).set_params(**parameters))


def duplicate(fitted: Any) -> Any:
    """A copy of a fitted estimator that a check may change."""
    return copy.deepcopy(fitted)


# -- outputs -------------------------------------------------------------------------------------


def outputs_of(estimator: Any, X: Any) -> Outputs:
    """Outputs of all methods for ``X``: whether they are per bag or instance, and the arrays."""
    found: Outputs = {}
    for method, call in methods_of(estimator):
        value = call(X)
        level = "instance" if isinstance(value, Bags) or method in INSTANCE_METHODS else "bag"
        found[method] = level, plain(value)
    return found


def methods_of(fitted: Any, *others: str) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Names and functions of the outputs of a fitted estimator, and of further methods."""
    for name in (*BAG_METHODS, *INSTANCE_METHODS, *others):
        if hasattr(fitted, name):
            yield name, getattr(fitted, name)


def plain(value: Any) -> np.ndarray:
    """Bags, sparse matrices and frames as one dense array."""
    value = value.instances if isinstance(value, Bags) else value
    return value.toarray() if sparse.issparse(value) else np.asarray(value)


def fit_outputs(estimator: Any, X: Any) -> Outputs:
    """Outputs of a fit, for comparison with another fit."""
    return comparable(estimator, outputs_of(estimator, X))


def comparable(estimator: Any, outputs: Outputs) -> Outputs:
    """The outputs of a fitted estimator that are the same for equivalent fits."""
    found = dict(outputs)
    if is_clusterer(estimator):
        # Numbers of clusters are arbitrary: compare which bags are in the same cluster.
        if hasattr(estimator, "labels_"):
            found["labels_"] = "bag", np.asarray(estimator.labels_)
        for name in ("labels_", "predict", "predict_instances"):
            if name in found:
                level, labels = found[name]
                found[name] = level, (labels[:, None] == labels[None, :]).astype(float)
    elif getattr(estimator, "_columns_follow_bags", False):
        # Columns depend on the order of training bags: compare sorted values of rows.
        level, rows = found["transform"]
        found["transform"] = level, np.sort(rows, axis=1)
    elif is_classifier(estimator) and any(name in found for name in SCORES):
        # Predictions near the boundary may differ; the scores are compared instead.
        found.pop("predict", None)
        found.pop("predict_instances", None)
    return found


def assert_close(left: Outputs, right: Outputs, tolerance: float, what: str) -> None:
    """Assert that the outputs have the same methods and are equal within the tolerance."""
    assert set(left) == set(right), f"{what}: methods differ, {sorted(left)} and {sorted(right)}"
    for method, (_, mine) in left.items():
        assert_equal(mine, right[method][1], tolerance, f"{what}: {method}")


def assert_equal(mine: Any, other: Any, tolerance: float, what: str) -> None:
    """Assert that two arrays have the same shape and values, numbers within the tolerance."""
    mine, other = plain(mine), plain(other)
    ensure(mine.shape == other.shape, f"{what} has shape {other.shape} instead of {mine.shape}")
    if mine.dtype.kind != "f" or other.dtype.kind != "f":
        same = mine == other
        ensure(same.all(), f"{what} differs in {int((~same).sum())} entries")
        return
    scale = max(1.0, float(np.abs(mine).max(initial=0.0)))
    largest = float(np.abs(mine - other).max(initial=0.0)) / scale
    ensure(
        largest <= tolerance,
        f"{what} differs by {largest:.2g}, relative to its largest value; {tolerance:.2g} is "
        "allowed",
    )


def taken(outputs: Outputs, bags: np.ndarray, rows: np.ndarray) -> Outputs:
    """The outputs of the given bags and rows; on both axes for outputs of pairs."""
    found: Outputs = {}
    for method, (level, values) in outputs.items():
        picked = bags if level == "bag" else rows
        pairs = method in ("labels_", "predict", "predict_instances") and values.ndim == 2
        found[method] = level, values[np.ix_(picked, picked)] if pairs else values[picked]
    return found


def is_random(estimator: Any, problem: Problem) -> bool:
    """Whether the fit depends on the seed, and therefore on the order of the data."""
    if "random_state" not in estimator.get_params():
        return bool(get_tags(estimator).non_deterministic)
    draws = [reference(estimator, problem, seed=seed) for seed in (0, 1)]
    first, second = (comparable(fitted, outputs) for fitted, outputs in draws)
    # Not assert_close, because a dependence on the seed is not an error.
    return set(first) != set(second) or any(
        values.shape != second[method][1].shape
        or not np.allclose(values, second[method][1], rtol=SAME, atol=SAME)
        for method, (_, values) in first.items()
    )


def reordered(bags: Bags) -> tuple[Bags, np.ndarray]:
    """The instances of each bag in another order, and the old row of each new row."""
    rng = np.random.default_rng(1)
    blocks = [np.arange(*pair) for pair in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)]
    rows = np.concatenate([rng.permutation(block) for block in blocks])
    links = bags.instance_graph
    moved = Bags(
        bags.instances[rows],
        bags.offsets,
        bag_graph=bags.bag_graph,
        instance_graph=None if links is None else links[rows][:, rows],
    )
    return moved, rows


def rows_of(bags: Bags, positions: np.ndarray) -> np.ndarray:
    """Rows of the instances of the given bags, in their order."""
    parts = [np.arange(bags.offsets[bag], bags.offsets[bag + 1]) for bag in positions]
    return np.concatenate(parts)


def refuses(call: Callable[[], Any], kinds: Any, pattern: str, what: str) -> None:
    """Fail unless the call raises one of the kinds with a message that matches the pattern."""
    message = None
    try:
        call()
    except kinds as error:
        message = str(error)
    except Exception as error:
        raise AssertionError(
            f"{what}: raised {type(error).__name__} ({error}) instead of a plain refusal"
        ) from error
    ensure(message is not None, f"{what}: was not refused")
    ensure(
        re.search(pattern, str(message)),
        f"{what}: the message {message!r} does not match {pattern!r}",
    )


def refuses_fit(
    estimator: Any, X: Any, y: Any, kinds: Any, pattern: str, what: str, **parameters: Any
) -> None:
    """Fail unless ``fit`` raises an error and does not change the estimator."""
    estimator = fresh(estimator, **parameters)
    refuses(lambda: fit(estimator, X, y), kinds, pattern, what)
    if not get_tags(estimator).requires_fit:
        return
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return
    raise AssertionError(f"{what}: the refused fit left the estimator fitted")
