"""Checks of estimators on bags, each a function of an estimator and a problem."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from .._bags import Bags
from .._bags.segments import gather_rows, offsets_of, segment_max, segment_min
from .._fit.outcomes import survival_outcomes
from ..base import highest_class
from ..inspection import instance_scores

TASKS = ("binary", "multiclass", "regression", "survival", "unsupervised")


@dataclass(frozen=True)
class Problem:
    """Bags and targets for one check; ``y`` is None for the unsupervised task."""

    kind: str
    task: str
    X: Bags
    y: Any
    # Fits of the estimators that are checked, by their text and seed.
    fits: dict[Any, Any] = field(default_factory=dict)


def _dense(task: str, size: int | None = None) -> tuple[Bags, np.ndarray]:
    """Two dozen bags whose label depends on one instance, with a large margin."""
    rng = np.random.default_rng(7)
    n_bags = 24
    sizes = rng.integers(1, 5, size=n_bags) if size is None else np.full(n_bags, size)
    offsets = offsets_of(sizes)
    instances = 0.5 * rng.normal(size=(offsets[-1], 3))
    if size is None:  # zeros, so that the sparse matrix is sparse
        instances[rng.random(instances.shape) < 0.2] = 0.0
    y = rng.permutation(np.arange(n_bags) % (3 if task == "multiclass" else 2))
    witnesses = offsets[:-1] + rng.integers(0, sizes)
    if task == "multiclass":
        # Every class has its own sign; for pure noise the solution would not be unique.
        instances[witnesses, y] += 3.0
    else:
        instances[witnesses[y == 1], 0] += 3.0
    bags = Bags(instances, offsets)
    values = segment_max(instances @ np.array([1.0, 0.5, -0.5]), offsets)
    if task == "survival":
        return bags, _outcomes(values, rng)
    return bags, values if task == "regression" else y


def _outcomes(risks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Events and times, with ties and one third of censored bags."""
    times = np.ceil(10.0 * rng.exponential(np.exp(-risks)))
    return survival_outcomes(rng.random(len(risks)) < 0.67, times)


def _sparse(task: str) -> tuple[Bags, np.ndarray]:
    bags, y = _dense(task)
    return bags.with_instances(sparse.csr_array(bags.instances)), y


def _graphs(task: str) -> tuple[Bags, np.ndarray]:
    bags, y = _dense(task)
    graphs = {"bag_graph": _ring(len(bags)), "instance_graph": _ring(bags.n_instances)}
    return Bags(bags.instances, bags.offsets, **graphs), y


def _noisy(task: str) -> tuple[Bags, np.ndarray]:
    """Bags whose classes overlap, with a fifth of the labels redrawn, which are not separable."""
    if task == "unsupervised":
        return _dense(task)  # clusters of noise are many local minima
    # Seeds for which fits depended on ties, weights and the order of sums in earlier versions.
    seed, n_bags = (90, 15) if task == "multiclass" else (11, 24)
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng.integers(1, 5, size=n_bags))
    instances = rng.normal(size=(offsets[-1], 3))
    instances[rng.random(instances.shape) < 0.2] = 0.0
    n_classes = 3 if task == "multiclass" else 2
    y = np.arange(n_bags) % n_classes
    instances[offsets[:-1], y] += 1.5
    bags = Bags(instances, offsets)
    if task in ("regression", "survival"):
        values = segment_max(instances[:, 0], offsets) + rng.normal(size=n_bags)
        return bags, values if task == "regression" else _outcomes(values, rng)
    return bags, np.where(rng.random(n_bags) < 0.2, rng.permutation(y), y)


def _ring(n: int) -> sparse.csr_array:
    rows = np.arange(n)
    links = sparse.csr_array((np.ones(n), (rows, (rows + 1) % n)), shape=(n, n))
    return links + links.T


KINDS: dict[str, Callable[[str], tuple[Bags, np.ndarray]]] = {
    "dense": _dense,
    "sparse": _sparse,
    "graphs": _graphs,
    "equal": lambda task: _dense(task, size=3),
    "noisy": _noisy,
}


def _problem(kind: str, task: str) -> Problem:
    X, y = KINDS[kind](task)
    return Problem(kind, task, X, None if task == "unsupervised" else y)


PROBLEMS: dict[tuple[str, str], Problem] = {
    (kind, task): _problem(kind, task) for kind in KINDS for task in TASKS
}


Function = Callable[[Any, Problem], None]
Predicate = Callable[[Any, Problem], bool]

BAG_METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")
INSTANCE_METHODS = ("instance_decision_function", "predict_instances")
SCORES = ("decision_function", "instance_decision_function", "predict_proba")

# Largest difference between two fits, relative to the largest score, due to tolerances of solvers.
REFIT = 1e-3
SAME = 1e-8

Outputs = dict[str, tuple[str, np.ndarray]]


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


def reference(estimator: Any, problem: Problem, seed: int = 0) -> tuple[Any, Outputs]:
    """Copies of a clone fitted on the problem, once for all checks, and of its outputs.

    A check of the fit itself uses :func:`fitted_on`.
    """
    parameters = estimator.get_params()
    key = seed, type(estimator), repr(parameters)
    if key not in problem.fits:
        chosen = {"random_state": seed} if "random_state" in parameters else {}
        fitted = fitted_on(estimator, problem.X, problem.y, **chosen)
        problem.fits[key] = fitted, outputs_of(fitted, problem.X)
    return copy.deepcopy(problem.fits[key])


def fitted_with(estimator: Any, problem: Problem, /, **parameters: Any) -> Any:
    """A clone fitted with the parameters, which is shared if the estimator has these parameters."""
    held = estimator.get_params()
    if all(held[name] == value for name, value in parameters.items()):
        return reference(estimator, problem)[0]
    return fitted_on(estimator, problem.X, problem.y, **parameters)


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
    assert mine.shape == other.shape, f"{what} has shape {other.shape} instead of {mine.shape}"
    if mine.dtype.kind != "f" or other.dtype.kind != "f":
        same = mine == other
        assert same.all(), f"{what} differs in {int((~same).sum())} entries"
        return
    scale = max(1.0, float(np.abs(mine).max(initial=0.0)))
    largest = float(np.abs(mine - other).max(initial=0.0)) / scale
    assert largest <= tolerance, (
        f"{what} differs by {largest:.2g}, relative to its largest value; {tolerance:.2g} is "
        "allowed"
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
    assert message is not None, f"{what}: was not refused"
    assert re.search(pattern, str(message)), (
        f"{what}: the message {message!r} does not match {pattern!r}"
    )


# -- registration ----------------------------------------------------------------------------------

# Every check is a function of an estimator and a problem, with three attributes: the ``kinds`` of
# input for which it runs; ``applies``, a function of the same arguments that depends on the tags,
# methods and parameters of an estimator that is not fitted; and ``once``, whether it only runs for
# the first task, as every check does for sparse input.
REGISTERED: list[Any] = []


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


def bag_check(
    *kinds: str,
    needs: tuple[str, ...] = (),
    applies: Predicate = lambda estimator, problem: True,
    once: bool = False,
) -> Callable[[Function], Function]:
    """Decorator that registers a check for the given kinds of input.

    It runs for estimators that have all methods and parameters that it ``needs``, where ``applies``
    is true.
    """

    def register(function: Any) -> Function:
        def suits(estimator: Any, problem: Problem) -> bool:
            return all(hasattr(estimator, name) for name in needs) and applies(estimator, problem)

        function.kinds, function.applies, function.once = kinds, suits, once
        REGISTERED.append(function)
        return function

    return register


# -- kinds of input --------------------------------------------------------------------------------


# Bytes above which joblib maps an array into a file, which includes most arrays. The same limit for
# all checks, so that joblib keeps its worker processes.
MAPPED_BYTES = 1


def _assert_same_for(
    estimator: Any, problem: Problem, other: Any, tolerance: float, what: str, *alike: Any
) -> None:
    """Compare predictions for bags of other kinds, and a fit on bags of the first of these."""
    fitted, expected = reference(estimator, problem)
    for each in (other, *alike):
        assert_close(expected, outputs_of(fitted, each), tolerance, f"predicting for {what}")
    again = fitted_on(estimator, other, problem.y)
    assert_close(
        comparable(fitted, expected), fit_outputs(again, other), tolerance, f"fitted on {what}"
    )


@bag_check("dense", applies=compares, once=True)
def check_bags_as_sequences(estimator: Any, problem: Problem) -> None:
    """A list, a tuple or an object array of blocks is equivalent to Bags."""
    blocks = list(problem.X)
    objects = np.empty(len(blocks), dtype=object)
    for position, block in enumerate(blocks):
        objects[position] = block
    what = "a list, a tuple or an array of objects"
    _assert_same_for(estimator, problem, blocks, SAME, what, tuple(blocks), objects)


@bag_check("equal", applies=compares, once=True)
def check_bags_as_3d_array(estimator: Any, problem: Problem) -> None:
    """A 3-D array, also of objects, is equivalent to bags of equal size."""
    stack = np.array([np.asarray(block) for block in problem.X])
    _assert_same_for(estimator, problem, stack, SAME, "a 3-D array", stack.astype(object))


@bag_check("noisy", "graphs", applies=compares, once=True)
def check_sparse_equals_dense(estimator: Any, problem: Problem) -> None:
    """CSR instances are equivalent to dense ones, or an error for an estimator without the tag."""
    X = problem.X
    csr = X.with_instances(sparse.csr_array(X.instances))
    if get_tags(estimator).input_tags.sparse:
        _assert_same_for(estimator, problem, csr, 1e-5, "CSR instances")
        return
    call = partial(fit, fresh(estimator), csr, problem.y)
    refuses(call, (TypeError, ValueError), "(?i)sparse", "CSR instances")


@bag_check("dense", "sparse", "graphs", applies=predicts, once=True)
def check_read_only_memory_map(estimator: Any, problem: Problem) -> None:
    """Bags in a read-only memory map, as joblib passes them to workers, are supported."""
    _, expected = reference(estimator, problem)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        joblib.dump((problem.X, problem.y), Path(folder) / "bags")
        X, y = joblib.load(Path(folder) / "bags", mmap_mode="r")
        again = fitted_on(estimator, X, y)
        assert_close(expected, outputs_of(again, X), SAME, "fitted on a read-only memory map")


# -- order -----------------------------------------------------------------------------------------


def _assert_follows(
    estimator: Any, problem: Problem, X: Bags, order: np.ndarray, rows: np.ndarray, what: str
) -> None:
    """Assert that outputs follow the order of bags and rows, also after a fit in this order."""
    fitted, outputs = reference(estimator, problem)
    assert_close(taken(outputs, order, rows), outputs_of(fitted, X), SAME, what)
    if is_random(estimator, problem):
        return
    again = fitted_on(estimator, X, None if problem.y is None else problem.y[order])
    expected = taken(comparable(fitted, outputs), order, rows)
    assert_close(expected, fit_outputs(again, X), REFIT, f"fitted on {what}")


@bag_check("noisy", "graphs", applies=compares_order, once=True)
def check_order_of_instances(estimator: Any, problem: Problem) -> None:
    """The order of instances within bags has no effect on fits and predictions."""
    moved, rows = reordered(problem.X)
    order = np.arange(len(moved))
    _assert_follows(estimator, problem, moved, order, rows, "instances in another order")


@bag_check("noisy", "graphs", applies=compares_order)
def check_order_of_bags(estimator: Any, problem: Problem) -> None:
    """Predictions follow the order of the bags, and the fit does not depend on it."""
    X = problem.X
    order = np.random.default_rng(2).permutation(len(X))
    rows, _ = gather_rows(X.offsets, order)
    _assert_follows(estimator, problem, X[order], order, rows, "bags in another order")


@bag_check("dense", "sparse", applies=predicts)
def check_subset_of_bags(estimator: Any, problem: Problem) -> None:
    """The output for a bag without links does not depend on the other bags."""
    X = problem.X
    fitted, whole = reference(estimator, problem)
    for part in (np.arange(3), np.array([len(X) - 1])):
        expected = taken(whole, part, gather_rows(X.offsets, part)[0])
        assert_close(expected, outputs_of(fitted, X[part]), SAME, f"{len(part)} bag(s) alone")


# -- outputs ---------------------------------------------------------------------------------------


def _is_binary_classifier(estimator: Any, problem: Problem) -> bool:
    return is_classifier(estimator) and problem.task == "binary"


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


@bag_check("dense", needs=("pos_label",), applies=_is_binary_classifier)
def check_pos_label(estimator: Any, problem: Problem) -> None:
    """A positive first class is equivalent to labels in the opposite order."""
    X, y = problem.X, problem.y
    straight = fitted_with(estimator, problem, pos_label=None)
    names = np.array(["z", "a"])[y]
    turned = fitted_on(estimator, X, names, pos_label="a")
    assert list(turned.classes_) == ["a", "z"], f"classes_ are {list(turned.classes_)}"
    if hasattr(straight, "decision_function"):
        left, right = straight.decision_function(X), -turned.decision_function(X)
        assert_equal(left, right, REFIT, "pos_label: decision_function")
    expected = np.where(straight.predict(X) == 1, "a", "z")
    assert (turned.predict(X) == expected).all(), "pos_label: predict is not mirrored"
    named = fitted_on(estimator, X, y, pos_label=1)
    assert_close(
        outputs_of(straight, X), outputs_of(named, X), SAME, "pos_label of the class by default"
    )


@bag_check("noisy", applies=_takes_weights)
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


@bag_check("dense", once=True)
def check_feature_names(estimator: Any, problem: Problem) -> None:
    """Names of features are kept, checked, and counted by ``get_feature_names_out``."""
    X, y = problem.X, problem.y
    named = Bags(X.instances, X.offsets, feature_names=["a", "b", "c"])
    fitted = fitted_on(estimator, named, y)
    assert fitted.n_features_in_ == 3, f"n_features_in_ is {fitted.n_features_in_}"
    names = list(getattr(fitted, "feature_names_in_", ()))
    assert names == ["a", "b", "c"], f"feature_names_in_ is {names}"
    for method, call in methods_of(fitted):
        swapped = named[:, [1, 0, 2]]
        pattern = "^The feature names should match those that were passed during fit"
        refuses(partial(call, swapped), ValueError, pattern, f"{method} with other names")
    if hasattr(fitted, "transform") and hasattr(fitted, "get_feature_names_out"):
        out = list(fitted.get_feature_names_out())
        transformed = fitted.transform(named)
        width = transformed.shape[1]
        assert len(out) == width, f"get_feature_names_out gives {len(out)} for {width} columns"
        kept = getattr(transformed, "feature_names", None)
        if kept is not None:
            assert list(kept) == out, f"the bags are named {list(kept)}, not {out}"


@bag_check("dense", once=True)
def check_bag_names(estimator: Any, problem: Problem) -> None:
    """Bags are called by their names, which decide the order of labels and weights.

    Labels and weights are series of pandas, without which only messages are checked.
    """
    X, y = problem.X, problem.y
    ids = [f"S{number:02}" for number in range(len(X))]
    named = Bags(X.instances, X.offsets, names=ids)
    blocks = list(X)
    blocks[5] = np.full_like(blocks[5], np.inf)
    bad = Bags.from_list(dict(zip(ids, blocks, strict=True)))
    fitted = fitted_on(estimator, named, y)
    calls: dict[str, Callable] = dict(methods_of(fitted)) | {
        "fit": partial(fit, fresh(estimator), y=y)
    }
    for method, call in calls.items():
        refuses(partial(call, bad), ValueError, "^Bag 'S05' contains inf", f"{method} of infinity")
    if hasattr(fitted, "transform") and isinstance(found := fitted.transform(named), Bags):
        kept = None if found.names is None else found.names.tolist()
        assert kept == ids, "transform lost the names of the bags"
    if y is None or y.dtype.names or importlib.util.find_spec("pandas") is None:
        return
    labels = importlib.import_module("pandas").Series(y, index=ids)
    with_series = fitted_on(estimator, named, labels)
    assert_close(fit_outputs(fitted, named), fit_outputs(with_series, named), REFIT, "a series y")
    given = {"y": labels[::-1]}
    if _takes_weights(estimator, problem):
        given["sample_weight"] = 0 * labels[::-1] + 1.0
    for what, values in given.items():
        call = partial(fit, fresh(estimator), named, **({"y": y} | {what: values}))
        refuses(call, ValueError, rf"{what}\.loc\[X\.names\]", f"{what} in another order")


@bag_check("dense", "sparse", "graphs", needs=("transform",))
def check_transform(estimator: Any, problem: Problem) -> None:
    """``fit_transform`` is ``fit`` and ``transform``; the result has an entry for each bag."""
    X, y = problem.X, problem.y
    fitted, _ = reference(estimator, problem)
    separate = fitted.transform(X)
    assert len(X) == separate.shape[0], (
        f"transform gives {separate.shape[0]} rows for {len(X)} bags"
    )
    again = fresh(estimator)
    joint = again.fit_transform(X) if y is None else again.fit_transform(X, y)
    assert type(joint) is type(separate), "fit_transform gives another type than transform"
    assert_equal(separate, joint, SAME, "fit_transform")
    if isinstance(separate, Bags):
        assert (separate.offsets == X.offsets).all(), "transform changed the sizes of bags"
        assert (separate.bag_graph is None) == (X.bag_graph is None), "transform lost the graph"


@bag_check("dense", needs=("transform", "set_output"), once=True)
def check_set_output(estimator: Any, problem: Problem) -> None:
    """``set_output`` converts rows of bags to a data frame and does not change bags."""
    expected = reference(estimator, problem)[0].transform(problem.X)
    for choice in ("default", "pandas"):
        again = fit(fresh(estimator).set_output(transform=choice), problem.X, problem.y)
        changed = again.transform(problem.X)
        assert_equal(expected, changed, SAME, f"set_output(transform={choice!r})")
        if isinstance(expected, Bags):
            assert isinstance(changed, Bags), f"set_output gave {type(changed).__name__} for Bags"
        elif choice == "pandas":
            names = list(again.get_feature_names_out())
            shown = list(getattr(changed, "columns", ()))
            assert shown == names, f"set_output gave the columns {shown} instead of {names}"


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
        assert len(values) == X.n_instances, (
            f"{method} has {len(values)} entries for {X.n_instances} instances"
        )
        if not hasattr(fitted, bag_method):
            continue
        # The score of a bag of one instance is the score of the instance.
        single = getattr(fitted, bag_method)(alone)
        assert_equal(single, values, SAME, f"instances as bags of one: {method}")


@bag_check("dense", "sparse", "graphs", needs=("witness",))
def check_witness(estimator: Any, problem: Problem) -> None:
    """A witness is in its bag, and no other instance of the bag has a higher score.

    If bag scores are highest instance scores (``_bag_score_is_max`` of the estimator, by default
    True), the score of the bag is that of the witness.
    """
    X = problem.X
    fitted, _ = reference(estimator, problem)
    rows = np.asarray(fitted.witness(X))
    assert rows.shape == (len(X),), f"witness has shape {rows.shape} for {len(X)} bags"
    assert rows.dtype.kind in "iu", f"witness has type {rows.dtype}"
    inside = (X.offsets[:-1] <= rows) & (rows < X.offsets[1:])
    assert inside.all(), f"the witness of bag {int(np.argmin(inside))} lies in another bag"
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


def _scores_two_classes(estimator: Any, problem: Problem) -> bool:
    return _is_binary_classifier(estimator, problem) and _has_instance_level(estimator, problem)


@bag_check("dense", applies=_scores_two_classes)
def check_class_of_scores(estimator: Any, problem: Problem) -> None:
    """Scores of instances are those of ``classes_[1]``, or of ``pos_label`` if it was set.

    So are witnesses. Swapped labels, after which the first class has the instances that decide, do
    not change this.
    """
    X = problem.X
    takes = "pos_label" in estimator.get_params()
    for given in ({"pos_label": None}, {"pos_label": 0}) if takes else ({},):
        for turned in (problem, replace(problem, y=1 - problem.y, fits={})):
            fitted = fitted_with(estimator, turned, **given)
            scores, own = instance_scores(fitted, X), 0 if given.get("pos_label") == 0 else 1
            what = f"instance_scores of class {own}"
            if hasattr(fitted, "instance_decision_function"):
                values = fitted.instance_decision_function(X)
                assert_equal(values if own else -values, scores, SAME, what)
            if hasattr(fitted, "predict_instances"):
                clear = np.abs(scores) > SAME * np.abs(scores).max()
                agree = (scores > 0) == (fitted.predict_instances(X) == own)
                assert agree[clear].all(), f"{what} contradict predict_instances"
            if hasattr(fitted, "witness"):
                highest = segment_max(scores, X.offsets)
                assert_equal(highest, scores[fitted.witness(X)], SAME, f"{what}: the witness")


@bag_check("dense", needs=("n_jobs",), applies=predicts, once=True)
def check_n_jobs(estimator: Any, problem: Problem) -> None:
    """``n_jobs`` does not change results, also if workers get memory maps."""
    expected = fit_outputs(fitted_on(estimator, problem.X, problem.y, n_jobs=1), problem.X)
    with joblib.parallel_config(max_nbytes=MAPPED_BYTES):
        two = fitted_on(estimator, problem.X, problem.y, n_jobs=2)
        assert_close(expected, fit_outputs(two, problem.X), SAME, "n_jobs=2")


# -- refusals --------------------------------------------------------------------------------------


def _with(blocks: list[Any], position: int, block: Any) -> list[Any]:
    return [*blocks[:position], block, *blocks[position + 1 :]]


def _not_finite(estimator: Any, blocks: list[Any]) -> Iterator[tuple[str, Any, str]]:
    """Bags with NaN or infinity: what is wrong with them, the bags, and the message."""
    allowed = get_tags(estimator).input_tags.allow_nan
    for value, name in ((np.nan, "NaN"), (np.inf, "infinity")):
        if not (allowed and name == "NaN"):
            block = blocks[5].copy()
            block[-1, 1] = value
            bad = _with(blocks, 5, block)
            yield f"{name} in a list", bad, f"^Bag 5 contains {name} "
            yield name, Bags.from_list(bad), f"^Bag 5 contains {name} "


def _refused(estimator: Any, problem: Problem) -> Iterator[tuple[str, Any, Any, Any, str]]:
    """Fits on two features that are refused: what for, bags, labels, kind of error, message."""
    X, y = problem.X[:, [0, 1]], problem.y
    blocks = list(X)
    yield "an empty bag", _with(blocks, 3, blocks[3][:0]), y, ValueError, "^Bag 3 is empty:"
    for what, bad, pattern in _not_finite(estimator, blocks):
        yield what, bad, y, ValueError, pattern
    narrow, pattern = _with(blocks, 4, blocks[4][:, :1]), "^Bag 4 has 1 features but bag 0 has 2:"
    yield "differing feature counts", narrow, y, ValueError, pattern
    yield "a string", "musk1.data", y, TypeError, "^X is a string .*load_bags"
    yield (
        "a string for a bag",
        _with(blocks, 2, "text"),
        y,
        ValueError,
        "^Bag 2 is a text or a path",
    )
    if y is not None:
        for what, labels in (("too few", y[:-1]), ("of instances", y[X.bag_index])):
            pattern = f"^y has {len(labels)} labels for {len(X)} bags:"
            yield f"labels {what}", X, labels, ValueError, pattern
    if is_classifier(estimator):
        yield "labels of one class", X, np.full(len(X), y[0]), ValueError, "one class only"
    if is_clusterer(estimator) and "n_clusters" in estimator.get_params():
        yield "fewer bags than clusters", X[[0]], y, ValueError, ""


@bag_check("dense", once=True)
def check_refused_fit(estimator: Any, problem: Problem) -> None:
    """Wrong input is an error that says what is wrong, and changes no fitted estimator."""
    fitted, expected = reference(estimator, problem)
    names = set(vars(fitted))
    for what, X, y, kind, pattern in _refused(estimator, problem):
        new = fresh(estimator)
        refuses(partial(fit, new, X, y), kind, pattern, what)
        if get_tags(estimator).requires_fit:
            refuses(partial(check_is_fitted, new), NotFittedError, "", f"{what}: is fitted")
        refuses(partial(fit, fitted, X, y), kind, pattern, what)
        assert fitted.n_features_in_ == 3, f"{what}: a refused fit changed n_features_in_"
        changed = set(vars(fitted)) ^ names
        assert not changed, f"{what}: a refused fit changed the attributes {sorted(changed)}"
    assert_close(expected, outputs_of(fitted, problem.X), 0.0, "after refused fits")
    if is_classifier(estimator) and "pos_label" in estimator.get_params():
        call = partial(fit, fresh(estimator, pos_label="other"), problem.X, problem.y)
        refuses(call, ValueError, "^pos_label='other' is not a label", "an unknown pos_label")


@bag_check("dense", once=True)
def check_refused_prediction(estimator: Any, problem: Problem) -> None:
    """NaN, infinity and another number of features are errors in predictions."""
    fitted, _ = reference(estimator, problem)
    narrow = problem.X[:, [0, 1]]
    expected = f"^X has 2 features, but {type(estimator).__name__} is expecting 3 features as input"
    cases = [*_not_finite(estimator, list(problem.X))]
    cases += [("two features", narrow, expected), ("two in a list", list(narrow), expected)]
    for what, X, pattern in cases:
        for method, call in methods_of(fitted, "witness"):
            refuses(partial(call, X), ValueError, pattern, f"{method} of {what}")
