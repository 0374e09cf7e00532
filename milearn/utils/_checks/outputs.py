"""Checks of what estimators return: labels, weights, names, transforms, instances, witnesses."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..._bags import Bags
from ..._bags.segments import segment_max, segment_min
from ...base import highest_class
from .data import Problem
from .registry import always, bag_check, both, classifies, has, takes
from .tools import (
    REFIT,
    SAME,
    assert_close,
    assert_equal,
    ensure,
    fit,
    fitted_on,
    fitted_with,
    fresh,
    methods_of,
    outputs_of,
    reference,
    refuses,
)


def _has_default_pos_label(estimator: Any, problem: Problem) -> bool:
    return estimator.get_params().get("pos_label") is None


def _is_binary(estimator: Any, problem: Problem) -> bool:
    return problem.task == "binary"


def _takes_weights(estimator: Any, problem: Problem) -> bool:
    return "sample_weight" in inspect.signature(estimator.fit).parameters


def _has_instance_level(estimator: Any, problem: Problem) -> bool:
    return any(
        hasattr(estimator, method) and hasattr(estimator, bag_method)
        for method, bag_method in _LEVELS
    )


# Methods for instances, and the methods for bags that agree with them on bags of one instance.
_LEVELS = (
    ("instance_decision_function", "decision_function"),
    ("predict_instances", "predict"),
)


@bag_check("dense", applies=both(classifies, _has_default_pos_label))
def check_string_labels(estimator: Any, problem: Problem) -> None:
    """String labels are equivalent to their codes."""
    names = np.array(["apple", "berry", "cherry"])
    for kind in (str, object):
        named = fitted_on(estimator, problem.X, names[problem.y].astype(kind))
        coded, expected = reference(estimator, problem)
        ensure(
            list(named.classes_) == list(names[coded.classes_]),
            f"classes_ are {list(named.classes_)}",
        )
        found = outputs_of(named, problem.X)
        for method in ("predict", "predict_instances"):
            if method in expected:
                expected[method] = expected[method][0], names[expected[method][1]]
        assert_close(expected, found, SAME, f"labels of type {kind.__name__}")


@bag_check("dense", applies=both(classifies, _is_binary, takes("pos_label")))
def check_pos_label(estimator: Any, problem: Problem) -> None:
    """A positive first class is equivalent to labels in the opposite order."""
    X, y = problem.X, problem.y
    straight = fitted_with(estimator, problem, pos_label=None)
    names = np.array(["z", "a"])[y]
    turned = fitted_on(estimator, X, names, pos_label="a")
    ensure(list(turned.classes_) == ["a", "z"], f"classes_ are {list(turned.classes_)}")
    if hasattr(straight, "decision_function"):
        left, right = straight.decision_function(X), -turned.decision_function(X)
        assert_equal(left, right, REFIT, "pos_label: decision_function")
    expected = np.where(straight.predict(X) == 1, "a", "z")
    ensure((turned.predict(X) == expected).all(), "pos_label: predict is not mirrored")
    named = fitted_on(estimator, X, y, pos_label=1)
    assert_close(
        outputs_of(straight, X), outputs_of(named, X), SAME, "pos_label of the class by default"
    )


@bag_check("noisy", "sparse", applies=_takes_weights)
def check_sample_weight(estimator: Any, problem: Problem) -> None:
    """A weight of two is equivalent to duplicating a bag, a weight of zero to removing it."""
    X, y = problem.X, problem.y
    weight = np.random.default_rng(4).integers(0, 4, size=len(X))
    repeated = np.repeat(np.arange(len(X)), weight)
    weighted = fit(fresh(estimator), X, y, sample_weight=weight)
    copied = fitted_on(estimator, X[repeated], None if y is None else y[repeated])
    what = "sample_weight against repeated bags"
    left, right = outputs_of(copied, X), outputs_of(weighted, X)
    for name in ("predict", "predict_instances") if is_classifier(estimator) else ():
        left.pop(name, None)
        right.pop(name, None)
    assert_close(left, right, REFIT, what)


@bag_check("dense", applies=always)
def check_feature_names(estimator: Any, problem: Problem) -> None:
    """Names of features are kept, checked, and counted by ``get_feature_names_out``."""
    X, y = problem.X, problem.y
    named = Bags(X.instances, X.offsets, feature_names=["a", "b", "c"])
    fitted = fitted_on(estimator, named, y)
    ensure(fitted.n_features_in_ == 3, f"n_features_in_ is {fitted.n_features_in_}")
    names = list(getattr(fitted, "feature_names_in_", ()))
    ensure(names == ["a", "b", "c"], f"feature_names_in_ is {names}")
    for method, call in methods_of(fitted):
        swapped = named[:, [1, 0, 2]]
        pattern = "^The feature names should match those that were passed during fit"
        refuses(partial(call, swapped), ValueError, pattern, f"{method} with other names")
    if hasattr(fitted, "transform") and hasattr(fitted, "get_feature_names_out"):
        out = list(fitted.get_feature_names_out())
        transformed = fitted.transform(named)
        width = transformed.shape[1]
        ensure(len(out) == width, f"get_feature_names_out gives {len(out)} for {width} columns")
        kept = getattr(transformed, "feature_names", None)
        if kept is not None:
            ensure(list(kept) == out, f"the bags are named {list(kept)}, not {out}")


@bag_check("dense", "sparse", "graphs", applies=has("transform"))
def check_transform(estimator: Any, problem: Problem) -> None:
    """``fit_transform`` is ``fit`` and ``transform``; the result has an entry for each bag."""
    X, y = problem.X, problem.y
    fitted, _ = reference(estimator, problem)
    separate = fitted.transform(X)
    ensure(
        len(X) == separate.shape[0], f"transform gives {separate.shape[0]} rows for {len(X)} bags"
    )
    again = fresh(estimator)
    joint = again.fit_transform(X) if y is None else again.fit_transform(X, y)
    ensure(type(joint) is type(separate), "fit_transform gives another type than transform")
    assert_equal(separate, joint, SAME, "fit_transform")
    if isinstance(separate, Bags):
        ensure((separate.offsets == X.offsets).all(), "transform changed the sizes of bags")
        ensure((separate.bag_graph is None) == (X.bag_graph is None), "transform lost the graph")


@bag_check("dense", applies=has("transform", "set_output"), once=True)
def check_set_output(estimator: Any, problem: Problem) -> None:
    """``set_output`` converts rows of bags to a data frame and does not change bags."""
    expected = reference(estimator, problem)[0].transform(problem.X)
    for choice in ("default", "pandas"):
        again = fit(fresh(estimator).set_output(transform=choice), problem.X, problem.y)
        changed = again.transform(problem.X)
        assert_equal(expected, changed, SAME, f"set_output(transform={choice!r})")
        if isinstance(expected, Bags):
            ensure(isinstance(changed, Bags), f"set_output gave {type(changed).__name__} for Bags")
        elif choice == "pandas":
            names = list(again.get_feature_names_out())
            shown = list(getattr(changed, "columns", ()))
            ensure(shown == names, f"set_output gave the columns {shown} instead of {names}")


@bag_check("dense", "sparse", applies=_has_instance_level)
def check_two_levels(estimator: Any, problem: Problem) -> None:
    """Methods of instances have one entry per instance, in the order of ``X.instances``."""
    X = problem.X
    fitted, _ = reference(estimator, problem)
    alone = Bags(X.instances, np.arange(X.n_instances + 1))
    for method, bag_method in _LEVELS:
        if not hasattr(fitted, method):
            continue
        values = np.asarray(getattr(fitted, method)(X))
        ensure(
            len(values) == X.n_instances,
            f"{method} has {len(values)} entries for {X.n_instances} instances",
        )
        if not hasattr(fitted, bag_method):
            continue
        # The score of a bag of one instance is the score of the instance.
        single = getattr(fitted, bag_method)(alone)
        assert_equal(single, values, SAME, f"instances as bags of one: {method}")


@bag_check("dense", "sparse", "graphs", applies=has("witness"))
def check_witness(estimator: Any, problem: Problem) -> None:
    """A witness is in its bag, and no other instance of the bag has a higher score.

    If bag scores are highest instance scores (``_bag_score_is_max`` of the estimator, by default
    True), the score of the bag is that of the witness.
    """
    X = problem.X
    fitted, _ = reference(estimator, problem)
    rows = np.asarray(fitted.witness(X))
    ensure(rows.shape == (len(X),), f"witness has shape {rows.shape} for {len(X)} bags")
    ensure(rows.dtype.kind in "iu", f"witness has type {rows.dtype}")
    inside = (X.offsets[:-1] <= rows) & (rows < X.offsets[1:])
    ensure(inside.all(), f"the witness of bag {int(np.argmin(inside))} lies in another bag")
    methods = fitted.predict, fitted.predict_instances
    if hasattr(fitted, "decision_function"):
        methods = fitted.decision_function, fitted.instance_decision_function
    scores, instances = (np.asarray(call(X)) for call in methods)
    positive = estimator.get_params().get("pos_label")
    turned = positive is not None and positive == fitted.classes_[0]
    pooled = (segment_min if turned else segment_max)(instances, X.offsets)
    name = "lowest" if turned else "highest"
    if getattr(fitted, "_bag_score_is_max", True):
        assert_equal(pooled, scores, SAME, f"the {name} instance score: bag score")
    if scores.ndim == 2:
        best = highest_class(scores)
        pooled, instances = pooled[np.arange(len(X)), best], instances[:, best]
        attained = instances[rows, np.arange(len(X))]
    else:
        attained = instances[rows]
    assert_equal(pooled, attained, SAME, "the witness against its bag: score")
