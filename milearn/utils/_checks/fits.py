"""Checks of clones, fits, refits, failed fits, and changed parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_clusterer
from sklearn.utils import get_tags

from ..._bags import Bags
from .data import PROBLEMS, Problem
from .registry import always, bag_check, both, predicts
from .tools import (
    SAME,
    accepts,
    assert_close,
    duplicate,
    ensure,
    fit,
    fit_outputs,
    fitted_on,
    fitted_with,
    fresh,
    outputs_of,
    reference,
    refuses,
)

# Pairs of settings with different fitted attributes, which a refit has to remove. The small numbers
# keep the fits small.
SWITCHES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"kernel": "linear"}, {"kernel": "rbf"}),
    ({"n_components": None}, {"n_components": 5}),
    ({"loss": "l1"}, {"loss": "l2"}),
    ({"bag_kernel": "set"}, {"bag_kernel": "minmax"}),
    ({"bag_kernel": "mean"}, {"bag_kernel": "minmax_laplacian"}),
    ({"relaxation": "guo"}, {"relaxation": "tight"}),
    ({"polish": False}, {"polish": True}),
    ({"graph": "auto"}, {"graph": "knn"}),
    ({"estimator": "stump"}, {"estimator": "rbf", "n_prototypes": 10, "n_estimators": 20}),
    ({"metric": "min"}, {"metric": "max"}),
    ({"pooling": "max"}, {"pooling": "mean"}),
    ({"n_clusters": 2}, {"n_clusters": 3}),
    ({"balance": None}, {"balance": 1.0}),
    ({"statistics": ("min",)}, {"statistics": ("mean", "count")}),
)

# Values of parameters that a prediction must not read, because they are fixed by the fit.
CHANGES: dict[str, tuple[Any, ...]] = {
    "kernel": ("linear", "rbf"),
    "gamma": (0.01, 0.5),
    "C": (0.01, 1.0),
    "loss": ("l1", "l2"),
    "bag_kernel": ("set", "minmax", "mean", "minmax_laplacian"),
    "coupling": (0.0, 0.5),
    "n_components": (None, 5),
    "relaxation": ("guo", "tight"),
    "graph": ("auto", "knn"),
    "estimator": ("stump", "rbf"),
    "metric": ("min", "max"),
    "pooling": ("max", "mean"),
    "n_clusters": (2, 3),
    "statistics": (("min",), ("mean", "count")),
    "fit_intercept": (True, False),
    "pos_label": (0,),
    "class_weight": (None, "balanced"),
    "sparse_output": (True, False),
}


def _assert_as_fresh(refitted: Any, once: Any, X: Any, what: str) -> None:
    """A second fit must have the attributes and the outputs of a first fit."""
    left, right = set(vars(once)), set(vars(refitted))
    ensure(
        left == right,
        f"{what}: the attributes {sorted(right - left)} are left over and {sorted(left - right)} "
        "are missing",
    )
    assert_close(fit_outputs(once, X), fit_outputs(refitted, X), SAME, what)


@bag_check("dense", applies=always)
def check_clone(estimator: Any, problem: Problem) -> None:
    """A clone of a fitted estimator has its parameters and is not fitted."""
    fitted, _ = reference(estimator, problem)
    again = clone(fitted)
    ensure(repr(again) == repr(fitted), f"the clone is {again!r} instead of {fitted!r}")
    learned = [name for name in vars(again) if name.endswith("_") and not name.startswith("_")]
    ensure(not learned, f"the clone has fitted attributes {learned}")


@bag_check("dense", "sparse", applies=always)
def check_fit_again(estimator: Any, problem: Problem) -> None:
    """A second fit does not depend on an earlier fit with other bags, features and classes."""
    X, y = problem.X, problem.y
    first = problem
    if is_classifier(estimator) and get_tags(estimator).classifier_tags.multi_class:
        other_task = "multiclass" if problem.task == "binary" else "binary"
        first = PROBLEMS[problem.kind, other_task]
    part = np.arange(0, len(X), 2) if y is None else np.arange(18)
    other = Bags(
        first.X[part].instances[:, [0, 1]], first.X[part].offsets, feature_names=["a", "b"]
    )
    used = fitted_on(estimator, other, None if y is None else first.y[part])
    once, _ = reference(estimator, problem)
    _assert_as_fresh(fit(used, X, y), once, X, "fitted a second time")


def _switches(estimator: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    return (pair for pair in SWITCHES if all(accepts(estimator, **each) for each in pair))


def _can_switch(estimator: Any, problem: Problem) -> bool:
    return any(True for _ in _switches(estimator))


@bag_check("dense", applies=_can_switch, once=True)
def check_refit_with_other_settings(estimator: Any, problem: Problem) -> None:
    """A refit with other settings is equivalent to a first fit with these settings."""
    X, y = problem.X, problem.y
    for before, after in _switches(estimator):
        first = fitted_with(estimator, problem, **before)
        second = fitted_with(estimator, problem, **after)
        moved = fit(duplicate(first).set_params(**after), X, y)
        _assert_as_fresh(moved, second, X, f"refitted with {after} after {before}")
        moved = fit(moved.set_params(**fresh(estimator, **before).get_params(deep=False)), X, y)
        _assert_as_fresh(moved, first, X, f"refitted with {before} after {after}")


def _changes(estimator: Any) -> Iterator[tuple[str, Any]]:
    held = estimator.get_params()
    return (
        (name, value)
        for name, values in CHANGES.items()
        for value in values
        if name in held and held[name] != value and accepts(estimator, **{name: value})
    )


def _can_change(estimator: Any, problem: Problem) -> bool:
    return any(True for _ in _changes(estimator))


@bag_check("dense", applies=both(predicts, _can_change))
def check_parameters_after_fit(estimator: Any, problem: Problem) -> None:
    """Parameters that are changed after the fit affect the next fit but not predictions."""
    fitted, expected = reference(estimator, problem)
    for name, value in _changes(estimator):
        changed = duplicate(fitted).set_params(**{name: value})
        what = f"{name}={value!r} set after the fit"
        assert_close(expected, outputs_of(changed, problem.X), 0.0, what)


@bag_check("dense", "sparse", applies=always)
def check_refused_refit(estimator: Any, problem: Problem) -> None:
    """A failed fit does not change the results of an earlier fit."""
    X, y = problem.X, problem.y
    shared, expected = reference(estimator, problem)
    fitted = duplicate(shared)
    names = set(vars(fitted))
    for what, bags, labels, params in _refusals(estimator, problem):
        given = None if y is None else labels
        refuses(partial(fit, fitted, bags, given, **params), ValueError, "", what)
        ensure(
            fitted.n_features_in_ == X.shape[1],
            f"a fit refused for {what} set n_features_in_ to {fitted.n_features_in_}",
        )
        changed = set(vars(fitted)) ^ names
        ensure(not changed, f"a fit refused for {what} changed the attributes {sorted(changed)}")
        after = outputs_of(fitted, X)
        assert_close(expected, after, 0.0, f"after a fit refused for {what}")


def _refusals(estimator: Any, problem: Problem) -> list[tuple[str, Any, Any, dict[str, Any]]]:
    """Invalid input for a fit, with fewer features: reason, bags, labels, other arguments."""
    narrow, y = problem.X[:, [0, 1]], problem.y
    instances = problem.X.instances[:, [0, 1]].astype(np.float64)
    values = instances if isinstance(instances, np.ndarray) else instances.data
    values.flat[0] = np.inf
    found: list[tuple[str, Any, Any, dict[str, Any]]] = [
        ("infinity", narrow.with_instances(instances), y, {})
    ]
    if y is not None:
        found.append(("one label too few", narrow, y[:-1], {}))
    if is_classifier(estimator):
        found.append(("one class", narrow, np.full(len(narrow), y[0]), {}))
    if is_clusterer(estimator) and "n_clusters" in estimator.get_params():
        found.append(("fewer bags than clusters", narrow[[0]], None, {}))
    return found
