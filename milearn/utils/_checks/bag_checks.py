"""The checks of estimators of bags: functions ``check_...(estimator, problem)``."""

from __future__ import annotations

import inspect
import pickle
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from ..._bags import Bags
from ..._bags.segments import segment_max, segment_min
from .data import Problem
from .tools import (
    BAG_METHODS,
    INSTANCE_METHODS,
    REFIT,
    SAME,
    Outputs,
    assert_close,
    fit_outputs,
    fitted_on,
    fresh,
    is_random,
    outputs_of,
    plain,
    refuses,
    refuses_fit,
    reordered,
    rows_of,
    taken,
)

__all__ = ["CHECKS", "ONCE"]

# Bytes above which joblib maps an array into a file: all but the very smallest.
_TINY = 1


# -- order ---------------------------------------------------------------------------------------


def check_order_of_instances(estimator: Any, problem: Problem) -> None:
    """The order of instances inside bags changes nothing, in prediction and in fit."""
    X, everything = problem.X, np.arange(len(problem.X))
    fitted = fitted_on(estimator, X, problem.y)
    moved, rows = reordered(X)
    expected = taken(outputs_of(fitted, X), everything, rows)
    assert_close(expected, outputs_of(fitted, moved), SAME, "instances in another order")
    if is_random(estimator, problem):
        return
    expected = taken(fit_outputs(fitted, X), everything, rows)
    again = fitted_on(estimator, moved, problem.y)
    assert_close(expected, fit_outputs(again, moved), REFIT, "fitted on instances in another order")


def check_order_of_bags(estimator: Any, problem: Problem) -> None:
    """Predictions move along with the bags, and the fit does not depend on their order."""
    X = problem.X
    fitted = fitted_on(estimator, X, problem.y)
    order = np.random.default_rng(2).permutation(len(X))
    rows = rows_of(X, order)
    expected = taken(outputs_of(fitted, X), order, rows)
    assert_close(expected, outputs_of(fitted, X[order]), SAME, "bags in another order")
    if is_random(estimator, problem):
        return
    expected = taken(fit_outputs(fitted, X), order, rows)
    again = fitted_on(estimator, X[order], None if problem.y is None else problem.y[order])
    assert_close(expected, fit_outputs(again, X[order]), REFIT, "fitted on bags in another order")


def check_subset_of_bags(estimator: Any, problem: Problem) -> None:
    """The output for a bag without links does not depend on the bags beside it."""
    X = problem.X
    fitted = fitted_on(estimator, X, problem.y)
    whole = outputs_of(fitted, X)
    for part in (np.arange(3), np.array([len(X) - 1])):
        expected = taken(whole, part, rows_of(X, part))
        assert_close(expected, outputs_of(fitted, X[part]), SAME, f"{len(part)} bag(s) alone")


def check_graphs_are_cut(estimator: Any, problem: Problem) -> None:
    """Selected bags fit and predict as the same bags do with graphs that were cut by hand."""
    X, y = problem.X, problem.y
    keep = np.random.default_rng(3).permutation(len(X))[:18]
    rest = np.setdiff1d(np.arange(len(X)), keep)

    def cut(positions: np.ndarray) -> Bags:
        rows = rows_of(X, positions)
        sizes = X.sizes[positions]
        graphs = (X.bag_graph, positions), (X.instance_graph, rows)
        bag_graph, links = (
            None if graph is None else graph.toarray()[np.ix_(index, index)]
            for graph, index in graphs
        )
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return Bags(X.instances[rows], offsets, bag_graph=bag_graph, instance_graph=links)

    labels = None if y is None else y[keep]
    mine = fitted_on(estimator, X[keep], labels)
    other = fitted_on(estimator, cut(keep), labels)
    for positions in (keep, rest):
        assert_close(
            outputs_of(other, cut(positions)), outputs_of(mine, X[positions]), SAME, "selected bags"
        )


# -- kinds of input ------------------------------------------------------------------------------


def _assert_same_for(estimator: Any, problem: Problem, other: Any, tolerance: float, what: str):
    fitted = fitted_on(estimator, problem.X, problem.y)
    again = fitted_on(estimator, other, problem.y)
    expected = outputs_of(fitted, problem.X)
    assert_close(expected, outputs_of(fitted, other), tolerance, f"predicting for {what}")
    assert_close(
        fit_outputs(fitted, problem.X), fit_outputs(again, other), tolerance, f"fitted on {what}"
    )


def check_bags_as_sequences(estimator: Any, problem: Problem) -> None:
    """A list, a tuple or an object array of blocks is the same as Bags."""
    blocks = list(problem.X)
    objects = np.empty(len(blocks), dtype=object)
    for position, block in enumerate(blocks):
        objects[position] = block
    for what, other in (("a list", blocks), ("a tuple", tuple(blocks)), ("objects", objects)):
        _assert_same_for(estimator, problem, other, SAME, what)


def check_bags_as_3d_array(estimator: Any, problem: Problem) -> None:
    """Equal-sized bags are the same as a 3-D array, also one of objects."""
    stack = np.array([np.asarray(block) for block in problem.X])
    for what, other in (("a 3-D array", stack), ("a 3-D object array", stack.astype(object))):
        _assert_same_for(estimator, problem, other, SAME, what)


def check_singletons_as_matrix(estimator: Any, problem: Problem) -> None:
    """Bags of one instance are the same as the rows of a matrix."""
    _assert_same_for(estimator, problem, problem.X.instances, SAME, "a matrix")


def check_sparse_equals_dense(estimator: Any, problem: Problem) -> None:
    """CSR instances are the same as dense ones, or are refused by an estimator without tag."""
    X = problem.X
    csr = X.with_instances(sparse.csr_array(X.instances))
    if get_tags(estimator).input_tags.sparse:
        _assert_same_for(estimator, problem, csr, 1e-5, "CSR instances")
        return
    refuses_fit(estimator, csr, problem.y, (TypeError, ValueError), "(?i)sparse", "CSR instances")


def check_float32(estimator: Any, problem: Problem) -> None:
    """float32 instances give nearly what the same values give in float64."""
    single = problem.X.instances.astype(np.float32)
    double = problem.X.with_instances(single.astype(np.float64))
    rounded = Problem(problem.kind, problem.task, double, problem.y)
    _assert_same_for(estimator, rounded, double.with_instances(single), REFIT, "float32 instances")


# -- memory --------------------------------------------------------------------------------------


def check_read_only_memory_map(estimator: Any, problem: Problem) -> None:
    """Bags in a read-only memory map, as joblib hands them to workers, are the same."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        joblib.dump((problem.X, problem.y), Path(folder) / "bags")
        X, y = joblib.load(Path(folder) / "bags", mmap_mode="r")
        fitted = fitted_on(estimator, problem.X, problem.y)
        again = fitted_on(estimator, X, y)
        expected = outputs_of(fitted, problem.X)
        assert_close(expected, outputs_of(again, X), SAME, "fitted on a read-only memory map")


def check_parallel_workers(estimator: Any, problem: Problem) -> None:
    """Fits in worker processes, on memory maps, are the same as here."""
    expected = outputs_of(fitted_on(estimator, problem.X, problem.y), problem.X)
    found = joblib.Parallel(n_jobs=2, max_nbytes=_TINY)(
        joblib.delayed(_fit_and_output)(estimator, problem.X, problem.y) for _ in range(2)
    )
    for outputs in found:
        assert_close(expected, outputs, SAME, "fitted in a worker process")


def _fit_and_output(estimator: Any, X: Bags, y: Any) -> Outputs:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return outputs_of(fitted_on(estimator, X, y), X)


def check_input_is_untouched(estimator: Any, problem: Problem) -> None:
    """Neither fit nor prediction writes into bags or labels."""
    before = joblib.hash((problem.X, problem.y))
    outputs_of(fitted_on(estimator, problem.X, problem.y), problem.X)
    assert joblib.hash((problem.X, problem.y)) == before, "the bags or labels were changed"


def check_pickle(estimator: Any, problem: Problem) -> None:
    """A fitted estimator comes back from a pickle and predicts the same."""
    fitted = fitted_on(estimator, problem.X, problem.y)
    again = pickle.loads(pickle.dumps(fitted))
    assert_close(outputs_of(fitted, problem.X), outputs_of(again, problem.X), 0.0, "after a pickle")


def check_n_jobs(estimator: Any, problem: Problem) -> None:
    """``n_jobs`` changes nothing but the time, also where workers get memory maps."""
    if "n_jobs" not in estimator.get_params():
        return
    expected = outputs_of(fitted_on(estimator, problem.X, problem.y, n_jobs=1), problem.X)
    # The same limit as in check_parallel_workers: joblib then keeps its worker processes.
    with joblib.parallel_config(max_nbytes=_TINY):
        two = fitted_on(estimator, problem.X, problem.y, n_jobs=2)
        assert_close(expected, outputs_of(two, problem.X), SAME, "n_jobs=2")


def check_fit_again(estimator: Any, problem: Problem) -> None:
    """A second fit starts afresh, whatever was fitted before."""
    X, y = problem.X, problem.y
    part = np.arange(0, len(X), 2) if y is None else np.arange(18)
    other = X[part].with_instances(X[part].instances[:, [0, 1]])
    used = fitted_on(estimator, other, None if y is None else y[part])
    used = used.fit(X) if y is None else used.fit(X, y)
    once = fitted_on(estimator, X, y)
    assert_close(fit_outputs(once, X), fit_outputs(used, X), SAME, "fitted a second time")


def check_clone(estimator: Any, problem: Problem) -> None:
    """A clone of a fitted estimator has its parameters and is not fitted."""
    fitted = fitted_on(estimator, problem.X, problem.y)
    again = clone(fitted)
    assert repr(again) == repr(fitted), f"the clone is {again!r} instead of {fitted!r}"
    learned = [name for name in vars(again) if name.endswith("_") and not name.startswith("_")]
    assert not learned, f"the clone has fitted attributes {learned}"


# -- bad input -----------------------------------------------------------------------------------


def _blocks(problem: Problem) -> list[np.ndarray]:
    return [np.array(block) for block in problem.X]


def check_error_empty_bag(estimator: Any, problem: Problem) -> None:
    """An empty bag is refused by its position."""
    blocks = _blocks(problem)
    blocks[3] = blocks[3][:0]
    refuses_fit(estimator, blocks, problem.y, ValueError, "^Bag 3 is empty:", "an empty bag")


def check_error_not_finite(estimator: Any, problem: Problem) -> None:
    """NaN and infinity are refused by the position of the bag, in fit and in prediction."""
    allow_nan = get_tags(estimator).input_tags.allow_nan
    fitted = fitted_on(estimator, problem.X, problem.y)
    for value, name in ((np.nan, "NaN"), (np.inf, "infinity")):
        if allow_nan and name == "NaN":
            continue
        blocks = _blocks(problem)
        blocks[5][-1, 1] = value
        pattern = f"^Bag 5 contains {name} "
        for what, X in (("", Bags.from_list(blocks)), (" in a list", blocks)):
            refuses_fit(estimator, X, problem.y, ValueError, pattern, name + what)
        for method in (*BAG_METHODS, *INSTANCE_METHODS):
            if hasattr(fitted, method):
                call = getattr(fitted, method)
                refuses(partial(call, X), ValueError, pattern, f"{name}, {method}")


def check_error_feature_counts(estimator: Any, problem: Problem) -> None:
    """Bags that differ in their features are refused by position; so are others than in fit."""
    blocks = _blocks(problem)
    blocks[4] = blocks[4][:, :2]
    pattern = "^Bag 4 has 2 features but bag 0 has 3:"
    refuses_fit(estimator, blocks, problem.y, ValueError, pattern, "differing feature counts")
    fitted = fitted_on(estimator, problem.X, problem.y)
    narrow = problem.X[:, [0, 1]]
    expected = f"^X has 2 features, but {type(estimator).__name__} is expecting 3 features as input"
    for method in (*BAG_METHODS, *INSTANCE_METHODS, "witness"):
        if hasattr(fitted, method):
            call = getattr(fitted, method)
            for what, X in (("bags", narrow), ("a list", list(narrow))):
                message = f"{method} of {what} with two features instead of three"
                refuses(partial(call, X), ValueError, expected, message)


def check_error_string(estimator: Any, problem: Problem) -> None:
    """A string where bags belong is refused with advice."""
    refuses_fit(
        estimator, "musk1.data", problem.y, TypeError, "^X is a string .*load_bags", "a string"
    )
    blocks: list[Any] = _blocks(problem)
    blocks[2] = "text"
    refuses_fit(
        estimator, blocks, problem.y, TypeError, "^Bag 2 is a string:", "a string for a bag"
    )


def check_error_labels(estimator: Any, problem: Problem) -> None:
    """Labels of wrong number, and labels of one class, are refused."""
    X, y = problem.X, problem.y
    if y is None:
        return
    pattern = f"^y has {len(X) - 1} labels for {len(X)} bags:"
    refuses_fit(estimator, X, y[:-1], ValueError, pattern, "a label too few")
    pattern = f"^y has {X.n_instances} labels for {len(X)} bags:"
    refuses_fit(estimator, X, y[X.bag_index], ValueError, pattern, "labels of instances")
    if is_classifier(estimator):
        one = np.full(len(X), y[0])
        refuses_fit(estimator, X, one, ValueError, "one class only", "labels of one class")
        if "pos_label" in estimator.get_params():
            pattern = "^pos_label='no label' is not a label in y:"
            what = "an unknown pos_label"
            refuses_fit(estimator, X, y, ValueError, pattern, what, pos_label="no label")


# -- callbacks -----------------------------------------------------------------------------------


class _Watcher:
    """A callback that notes which tasks begin and end, and what it can predict at the end."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.events: list[str] = []
        self.outputs: Outputs | None = None

    def setup(self, estimator: Any, context: Any) -> None:
        self.events.append("setup")

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.events.append("begin")

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        self.events.append("end")
        if context.parent is None and fitted_estimator is not None:
            self.outputs = outputs_of(fitted_estimator, self.X)

    def teardown(self, estimator: Any, context: Any) -> None:
        self.events.append("teardown")


def check_callbacks(estimator: Any, problem: Problem) -> None:
    """Callbacks see every task begin and end, and at last the fitted estimator."""
    if not hasattr(estimator, "set_callbacks"):
        return
    watcher = _Watcher(problem.X)
    watched = fresh(estimator).set_callbacks(watcher)
    watched = watched.fit(problem.X) if problem.y is None else watched.fit(problem.X, problem.y)
    events = watcher.events
    assert events[:2] == ["setup", "begin"], f"the fit began with {events[:2]}"
    assert events[-2:] == ["end", "teardown"], f"the fit ended with {events[-2:]}"
    counts = events.count("begin"), events.count("end")
    assert counts[0] == counts[1], f"{counts[0]} tasks began and {counts[1]} ended"
    assert watcher.outputs is not None, "the end of the fit gave callbacks no fitted estimator"
    unwatched = fitted_on(estimator, problem.X, problem.y)
    assert_close(outputs_of(unwatched, problem.X), watcher.outputs, SAME, "with callbacks")


# -- labels, weights, transformers ---------------------------------------------------------------


def check_string_labels(estimator: Any, problem: Problem) -> None:
    """Labels may be strings: the fit is that of their numbers."""
    if not is_classifier(estimator) or estimator.get_params().get("pos_label") is not None:
        return
    names = np.array(["apple", "berry", "cherry"])
    for kind in (str, object):
        named = fitted_on(estimator, problem.X, names[problem.y].astype(kind))
        coded = fitted_on(estimator, problem.X, problem.y)
        assert list(named.classes_) == list(names[coded.classes_]), (
            f"classes_ are {list(named.classes_)}"
        )
        found, expected = outputs_of(named, problem.X), outputs_of(coded, problem.X)
        for method in ("predict", "predict_instances"):
            if method in expected:
                expected[method] = expected[method][0], names[expected[method][1]]
        assert_close(expected, found, SAME, f"labels of type {kind.__name__}")


def check_pos_label(estimator: Any, problem: Problem) -> None:
    """Naming the first class as positive is the mirror image of labels in the other order."""
    if problem.task != "binary" or "pos_label" not in estimator.get_params():
        return
    X, y = problem.X, problem.y
    straight = fitted_on(estimator, X, y, pos_label=None)
    names = np.array(["z", "a"])[y]
    turned = fitted_on(estimator, X, names, pos_label="a")
    assert list(turned.classes_) == ["a", "z"], f"classes_ are {list(turned.classes_)}"
    if hasattr(straight, "decision_function"):
        left = {"decision_function": ("bag", straight.decision_function(X))}
        right = {"decision_function": ("bag", -turned.decision_function(X))}
        assert_close(left, right, REFIT, "pos_label")
    expected = np.where(straight.predict(X) == 1, "a", "z")
    assert (turned.predict(X) == expected).all(), "pos_label: predict is not mirrored"
    named = fitted_on(estimator, X, y, pos_label=1)
    assert_close(
        outputs_of(straight, X), outputs_of(named, X), SAME, "pos_label of the class by default"
    )


def check_sample_weight(estimator: Any, problem: Problem) -> None:
    """A weight of two is a bag that is there twice, a weight of zero one that is left out."""
    if "sample_weight" not in inspect.signature(estimator.fit).parameters:
        return
    X, y = problem.X, problem.y
    for low, high in ((1, 4), (0, 3)):
        weight = np.random.default_rng(4).integers(low, high, size=len(X))
        repeated = np.repeat(np.arange(len(X)), weight)
        weighted, copied = fresh(estimator), fresh(estimator)
        if y is None:
            weighted.fit(X, sample_weight=weight)
            copied.fit(X[repeated])
        else:
            weighted.fit(X, y, sample_weight=weight)
            copied.fit(X[repeated], y[repeated])
        what = "sample_weight against repeated bags"
        left, right = outputs_of(copied, X), outputs_of(weighted, X)
        for name in ("predict", "predict_instances") if is_classifier(estimator) else ():
            left.pop(name, None)
            right.pop(name, None)
        assert_close(left, right, REFIT, what)


def check_feature_names(estimator: Any, problem: Problem) -> None:
    """Names of features are kept, checked, and counted by ``get_feature_names_out``."""
    X, y = problem.X, problem.y
    named = Bags(X.instances, X.offsets, feature_names=["a", "b", "c"])
    fitted = fitted_on(estimator, named, y)
    assert fitted.n_features_in_ == 3, f"n_features_in_ is {fitted.n_features_in_}"
    names = list(getattr(fitted, "feature_names_in_", ()))
    assert names == ["a", "b", "c"], f"feature_names_in_ is {names}"
    for method in (*BAG_METHODS, *INSTANCE_METHODS):
        if hasattr(fitted, method):
            call = getattr(fitted, method)
            swapped = named[:, [1, 0, 2]]
            pattern = "^The feature names should match those that were passed during fit"
            refuses(partial(call, swapped), ValueError, pattern, f"{method} with other names")
    if hasattr(fitted, "transform") and hasattr(fitted, "get_feature_names_out"):
        out = list(fitted.get_feature_names_out())
        transformed = fitted.transform(named)
        width = transformed.shape[1]
        assert len(out) == width, f"get_feature_names_out gives {len(out)} for {width} columns"
        kept = getattr(transformed, "feature_names", None)
        assert kept is None or list(kept) == out, f"the bags are named {list(kept)}, not {out}"


def check_transform(estimator: Any, problem: Problem) -> None:
    """``fit_transform`` is ``fit`` and ``transform``; the outcome has an entry for each bag."""
    if not hasattr(estimator, "transform"):
        return
    X, y = problem.X, problem.y
    fitted = fitted_on(estimator, X, y)
    separate = fitted.transform(X)
    assert len(X) == separate.shape[0], (
        f"transform gives {separate.shape[0]} rows for {len(X)} bags"
    )
    again = fresh(estimator)
    joint = again.fit_transform(X) if y is None else again.fit_transform(X, y)
    assert type(joint) is type(separate), "fit_transform gives another type than transform"
    left, right = {"transform": ("", plain(separate))}, {"transform": ("", plain(joint))}
    assert_close(left, right, SAME, "fit_transform")
    if isinstance(separate, Bags):
        assert (separate.offsets == X.offsets).all(), "transform changed the sizes of bags"
        assert (separate.bag_graph is None) == (X.bag_graph is None), "transform lost the graph"


def check_set_output(estimator: Any, problem: Problem) -> None:
    """``set_output`` turns one row a bag into a frame and leaves bags alone."""
    if not hasattr(estimator, "transform") or not hasattr(estimator, "set_output"):
        return
    expected = fitted_on(estimator, problem.X, problem.y).transform(problem.X)
    for choice in ("default", "pandas"):
        again = fresh(estimator).set_output(transform=choice)
        again.fit(problem.X) if problem.y is None else again.fit(problem.X, problem.y)
        changed = again.transform(problem.X)
        left, right = {"transform": ("", plain(expected))}, {"transform": ("", plain(changed))}
        assert_close(left, right, SAME, f"set_output(transform={choice!r})")
        if isinstance(expected, Bags):
            assert isinstance(changed, Bags), f"set_output gave {type(changed).__name__} for Bags"
        elif choice == "pandas":
            names = list(again.get_feature_names_out())
            shown = list(getattr(changed, "columns", ()))
            assert shown == names, f"set_output gave the columns {shown} instead of {names}"


# -- two levels ----------------------------------------------------------------------------------


def check_two_levels(estimator: Any, problem: Problem) -> None:
    """Methods of instances have one entry an instance, in the order of ``X.instances``."""
    X = problem.X
    fitted = fitted_on(estimator, X, problem.y)
    alone = Bags(X.instances, np.arange(X.n_instances + 1))
    for method, bag_method in (
        ("instance_decision_function", "decision_function"),
        ("predict_instances", "predict"),
    ):
        if not hasattr(fitted, method):
            continue
        values = np.asarray(getattr(fitted, method)(X))
        assert len(values) == X.n_instances, (
            f"{method} has {len(values)} entries for {X.n_instances} instances"
        )
        if not hasattr(fitted, bag_method):
            continue
        # An instance on its own is a bag of one, so its score is the bag's.
        single = getattr(fitted, bag_method)(alone)
        left, right = {method: ("", np.asarray(single))}, {method: ("", values)}
        assert_close(left, right, SAME, "instances as bags of one")


def check_witness(estimator: Any, problem: Problem) -> None:
    """A witness lies in its bag, whose other instances do not exceed its score.

    Where a bag scores as its highest instance does (``_bag_score_is_max`` of the estimator, true
    unless it says otherwise), its score is the witness's.
    """
    X = problem.X
    fitted = fitted_on(estimator, X, problem.y)
    if not hasattr(fitted, "witness"):
        return
    rows = np.asarray(fitted.witness(X))
    assert rows.shape == (len(X),), f"witness has shape {rows.shape} for {len(X)} bags"
    assert rows.dtype.kind in "iu", f"witness has type {rows.dtype}"
    inside = (X.offsets[:-1] <= rows) & (rows < X.offsets[1:])
    assert inside.all(), f"the witness of bag {int(np.argmin(inside))} lies in another bag"
    if hasattr(fitted, "decision_function"):
        scores = np.asarray(fitted.decision_function(X))
        instances = np.asarray(fitted.instance_decision_function(X))
    else:
        scores, instances = (
            np.asarray(call(X)) for call in (fitted.predict, fitted.predict_instances)
        )
    positive = estimator.get_params().get("pos_label")
    turned = positive is not None and positive == fitted.classes_[0]
    pooled = (segment_min if turned else segment_max)(instances, X.offsets)
    name = "lowest" if turned else "highest"
    if getattr(fitted, "_bag_score_is_max", True):
        left, right = {"bag score": ("", pooled)}, {"bag score": ("", scores)}
        assert_close(left, right, SAME, f"the {name} instance score")
    if scores.ndim == 2:
        best = scores.argmax(axis=1)
        pooled, instances = pooled[np.arange(len(X)), best], instances[:, best]
        attained = instances[rows, np.arange(len(X))]
    else:
        attained = instances[rows]
    left, right = {"score": ("", pooled)}, {"score": ("", attained)}
    assert_close(left, right, SAME, "the witness against its bag")


_ALL = ("dense", "sparse", "graphs")
_PLAIN = ("dense", "sparse")

# The kinds of input on which each check runs for every task of the estimator.
CHECKS: dict[Callable[[Any, Problem], None], tuple[str, ...]] = {
    check_order_of_instances: _ALL,
    check_order_of_bags: _ALL,
    check_subset_of_bags: _PLAIN,
    check_graphs_are_cut: _ALL,
    check_bags_as_sequences: _PLAIN,
    check_bags_as_3d_array: ("equal",),
    check_singletons_as_matrix: ("singletons",),
    check_sparse_equals_dense: ("dense", "graphs"),
    check_float32: ("dense",),
    check_read_only_memory_map: _ALL,
    check_input_is_untouched: _ALL,
    check_pickle: _ALL,
    check_n_jobs: ("dense",),
    check_fit_again: _PLAIN,
    check_clone: ("dense",),
    check_callbacks: ("dense",),
    check_error_labels: ("dense",),
    check_string_labels: ("dense",),
    check_pos_label: ("dense",),
    check_sample_weight: _PLAIN,
    check_feature_names: ("dense",),
    check_transform: _ALL,
    check_two_levels: _PLAIN,
    check_witness: _ALL,
}

# Checks that need no second task.
ONCE = (
    check_parallel_workers,
    check_error_empty_bag,
    check_error_not_finite,
    check_error_feature_counts,
    check_error_string,
    check_set_output,
)
