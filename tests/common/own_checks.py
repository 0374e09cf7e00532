"""Checks of our own parameters, jobs, warnings and callbacks, which run with the package's."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import joblib
import numpy as np
from joblib.parallel import ThreadingBackend
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from milearn import Bags
from milearn._bags.segments import gather_rows, offsets_of
from milearn.utils._checks import (
    SAME,
    Outputs,
    Problem,
    assert_close,
    bag_check,
    comparable,
    compares,
    fit,
    fit_outputs,
    fitted_on,
    fitted_with,
    fresh,
    outputs_of,
    predicts,
    reference,
)
from tests.toys import Callback

# Pairs of settings with different fitted attributes, which a refit has to remove. The small numbers
# keep the fits small.
SWITCHES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"kernel": "linear"}, {"kernel": "rbf"}),
    ({"n_components": None}, {"n_components": 5}),
    ({"loss": "l1"}, {"loss": "l2"}),
    ({"bag_kernel": "set"}, {"bag_kernel": "minmax"}),
    ({"bag_kernel": "mean"}, {"bag_kernel": "minmax_laplacian"}),
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


def accepts(estimator: Any, /, **parameters: Any) -> bool:
    """Whether the estimator has the parameters and accepts their values."""
    if not set(parameters) <= set(estimator.get_params()):
        return False
    changed = clone(estimator).set_params(**parameters)
    # Estimators without declared constraints accept any value.
    with suppress(AttributeError):
        try:
            changed._validate_params()
        except ValueError:
            return False
    return True


def assert_as_fresh(refitted: Any, once: Any, X: Any, what: str) -> None:
    """A second fit must have the attributes and the outputs of a first fit."""
    left, right = set(vars(once)), set(vars(refitted))
    assert left == right, (
        f"{what}: the attributes {sorted(right - left)} are left over and {sorted(left - right)} "
        "are missing"
    )
    assert_close(fit_outputs(once, X), fit_outputs(refitted, X), SAME, what)


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
        moved = fit(copy.deepcopy(first).set_params(**after), X, y)
        assert_as_fresh(moved, second, X, f"refitted with {after} after {before}")
        moved = fit(moved.set_params(**fresh(estimator, **before).get_params(deep=False)), X, y)
        assert_as_fresh(moved, first, X, f"refitted with {before} after {after}")


def _changes(estimator: Any) -> Iterator[tuple[str, Any]]:
    held = estimator.get_params()
    return (
        (name, value)
        for name, values in CHANGES.items()
        for value in values
        if name in held and held[name] != value and accepts(estimator, **{name: value})
    )


def _can_change(estimator: Any, problem: Problem) -> bool:
    return predicts(estimator, problem) and any(True for _ in _changes(estimator))


@bag_check("dense", applies=_can_change, once=True)
def check_parameters_after_fit(estimator: Any, problem: Problem) -> None:
    """Parameters that are changed after the fit affect the next fit but not predictions."""
    fitted, expected = reference(estimator, problem)
    for name, value in _changes(estimator):
        changed = copy.deepcopy(fitted).set_params(**{name: value})
        what = f"{name}={value!r} set after the fit"
        assert_close(expected, outputs_of(changed, problem.X), 0.0, what)


# -- jobs ----------------------------------------------------------------------------------------


class _Threads(ThreadingBackend):
    """A joblib backend with threads that records the requested number of jobs."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.asked: list[int] = []

    def configure(self, n_jobs: int = 1, *args: Any, **parameters: Any) -> Any:
        self.asked.append(n_jobs)
        return super().configure(n_jobs, *args, **parameters)


def _several_fits(estimator: Any) -> dict[str, Any]:
    """Parameters with which a fit has several parts that may run at the same time."""
    known = estimator.get_params()
    return {"n_init": 2} if "n_init" in known else {}


def _has_most_jobs(estimator: Any, problem: Problem) -> bool:
    """The jobs of a classifier are its classes, and those of a search are its models."""
    multi_class = is_classifier(estimator) and get_tags(estimator).classifier_tags.multi_class
    less = "binary" if multi_class and not hasattr(estimator, "_size_limits") else "multiclass"
    return predicts(estimator, problem) and problem.task != less


@bag_check("dense", needs=("n_jobs",), applies=_has_most_jobs)
def check_parallel_config(estimator: Any, problem: Problem) -> None:
    """``parallel_config`` applies to ``n_jobs=None`` and does not change results."""
    parameters = {"n_jobs": None, **_several_fits(estimator)}
    X, y = problem.X, problem.y
    serial = fit_outputs(fitted_with(estimator, problem, **parameters), X)
    threads = _Threads()
    with joblib.parallel_config(backend=threads, n_jobs=2):
        found = fit_outputs(fitted_on(estimator, X, y, **parameters), X)
    assert 2 in threads.asked, "parallel_config(n_jobs=2): no two jobs were asked for"
    assert_close(serial, found, SAME, 'under parallel_config(backend="threading", n_jobs=2)')


# -- configuration -------------------------------------------------------------------------------


@bag_check("dense", applies=compares, once=True)
def check_output_configuration(estimator: Any, problem: Problem) -> None:
    """``transform_output`` is for what the user's transformers return, and changes no model."""
    fitted, expected = reference(estimator, problem)
    with config_context(transform_output="pandas"):
        assert_close(expected, outputs_of(fitted, problem.X), SAME, "outputs with pandas")
    # With NumPy 1, polars makes no array of a frame without columns.
    other = "pandas" if np.__version__.startswith("1.") else "polars"
    with config_context(transform_output=other):
        again = fitted_on(estimator, problem.X, problem.y)
        found = fit_outputs(again, problem.X)
    assert_close(comparable(fitted, expected), found, SAME, f"fit and outputs with {other}")


# -- warnings ------------------------------------------------------------------------------------


def warnings_of_fit(estimator: Any, problem: Problem) -> list[warnings.WarningMessage]:
    """Warnings of a fit that did not converge."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fit(estimator, problem.X, problem.y)
    return [each for each in seen if issubclass(each.category, ConvergenceWarning)]


def iterations_of(estimator: Any) -> int:
    return int(np.max(getattr(estimator, "n_iter_", 0)))


@bag_check("dense", needs=("max_iter",))
def check_max_iter(estimator: Any, problem: Problem) -> None:
    """``max_iter=1`` is respected; the fit warns if it has not converged."""
    stopped = fresh(estimator, max_iter=1)
    seen = warnings_of_fit(stopped, problem)
    assert iterations_of(stopped) <= 1, f"max_iter=1, but n_iter_ is {iterations_of(stopped)}"
    whole, _ = reference(estimator, problem)
    # Its last step may show that it had converged before.
    if hasattr(stopped, "converged_"):
        converged = bool(np.all(stopped.converged_))
        assert converged != bool(seen), f"converged_ is {converged} with {len(seen)} warnings"
    assert seen or hasattr(stopped, "converged_") or iterations_of(whole) <= 1, (
        "max_iter=1 stopped the fit without a ConvergenceWarning"
    )


# -- selected bags ------------------------------------------------------------------------------


@bag_check("graphs", applies=predicts, once=True)
def check_graphs_are_cut(estimator: Any, problem: Problem) -> None:
    """Selected bags are equivalent to bags whose graphs were sliced explicitly."""
    X, y = problem.X, problem.y
    keep = np.random.default_rng(3).permutation(len(X))[:18]
    rest = np.setdiff1d(np.arange(len(X)), keep)

    def cut(positions: np.ndarray) -> Bags:
        rows = gather_rows(X.offsets, positions)[0]
        graphs = (X.bag_graph, positions), (X.instance_graph, rows)
        bag_graph, links = (
            None if graph is None else graph.toarray()[np.ix_(index, index)]
            for graph, index in graphs
        )
        offsets = offsets_of(X.sizes[positions])
        return Bags(X.instances[rows], offsets, bag_graph=bag_graph, instance_graph=links)

    labels = None if y is None else y[keep]
    mine = fitted_on(estimator, X[keep], labels)
    other = fitted_on(estimator, cut(keep), labels)
    for positions in (keep, rest):
        assert_close(
            outputs_of(other, cut(positions)), outputs_of(mine, X[positions]), SAME, "selected bags"
        )


# -- callbacks -----------------------------------------------------------------------------------


class _Watcher:
    """A callback that records the begin and end of tasks, and the predictions at the end."""

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


class _Stopper(Callback):
    """A callback that asks every task except the fit to stop."""

    def setup(self, estimator: Any, context: Any) -> None:
        self.stops = 0

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        self.stops += context.parent is not None
        return context.parent is not None


@bag_check("dense", needs=("set_callbacks",), once=True)
def check_callbacks(estimator: Any, problem: Problem) -> None:
    """Callbacks see the begin and end of every task, and finally the fitted estimator."""
    watcher = _Watcher(problem.X)
    fit(fresh(estimator).set_callbacks(watcher), problem.X, problem.y)
    events = watcher.events
    assert events[:2] == ["setup", "begin"], f"the fit began with {events[:2]}"
    assert events[-2:] == ["end", "teardown"], f"the fit ended with {events[-2:]}"
    counts = events.count("begin"), events.count("end")
    assert counts[0] == counts[1], f"{counts[0]} tasks began and {counts[1]} ended"
    assert watcher.outputs is not None, "the end of the fit gave callbacks no fitted estimator"
    _, expected = reference(estimator, problem)
    assert_close(expected, watcher.outputs or {}, SAME, "with callbacks")


@bag_check("dense", needs=("set_callbacks", "max_iter"), once=True)
def check_callback_stop(estimator: Any, problem: Problem) -> None:
    """A fit that is stopped by a callback has a warning that does not mention ``max_iter``."""
    whole, _ = reference(estimator, problem)
    stopper = _Stopper()
    stopped = fresh(estimator).set_callbacks(stopper)
    messages = [str(each.message) for each in warnings_of_fit(stopped, problem)]
    assert stopper.stops > 0, "the callback saw no step after which it could stop the fit"
    for message in messages:
        assert "max_iter" not in message, f"after the stop of a callback: {message!r}"
    if iterations_of(stopped) < iterations_of(whole):
        named = any("callback" in message for message in messages)
        assert named, f"the fit was stopped early, and the warnings are {messages}"
