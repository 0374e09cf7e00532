"""Checks of a running fit: parallel jobs, callbacks, and where its warnings point."""

from __future__ import annotations

import warnings
from typing import Any

import joblib
import numpy as np
from joblib.parallel import ThreadingBackend
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

from .data import Problem
from .inputs import MAPPED_BYTES
from .registry import bag_check, both, has, predicts, takes
from .tools import (
    SAME,
    Outputs,
    assert_close,
    ensure,
    fit,
    fit_outputs,
    fitted_on,
    fitted_with,
    fresh,
    outputs_of,
    reference,
)

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


def _has_most_classes(estimator: Any, problem: Problem) -> bool:
    multi_class = is_classifier(estimator) and get_tags(estimator).classifier_tags.multi_class
    return problem.task == "multiclass" or not multi_class


@bag_check("dense", applies=both(predicts, takes("n_jobs")))
def check_n_jobs(estimator: Any, problem: Problem) -> None:
    """``n_jobs`` does not change results, also if workers get memory maps."""
    expected = fit_outputs(fitted_on(estimator, problem.X, problem.y, n_jobs=1), problem.X)
    with joblib.parallel_config(max_nbytes=MAPPED_BYTES):
        two = fitted_on(estimator, problem.X, problem.y, n_jobs=2)
        assert_close(expected, fit_outputs(two, problem.X), SAME, "n_jobs=2")


@bag_check("dense", applies=both(predicts, takes("n_jobs"), _has_most_classes))
def check_parallel_config(estimator: Any, problem: Problem) -> None:
    """``parallel_config`` applies to ``n_jobs=None`` and does not change results."""
    parameters = {"n_jobs": None, **_several_fits(estimator)}
    X, y = problem.X, problem.y
    serial = fit_outputs(fitted_with(estimator, problem, **parameters), X)
    threads = _Threads()
    with joblib.parallel_config(backend=threads, n_jobs=2):
        found = fit_outputs(fitted_on(estimator, X, y, **parameters), X)
    ensure(2 in threads.asked, "parallel_config(n_jobs=2): no two jobs were asked for")
    assert_close(serial, found, SAME, 'under parallel_config(backend="threading", n_jobs=2)')
    with joblib.parallel_config(n_jobs=2, max_nbytes=MAPPED_BYTES):
        found = fit_outputs(fitted_on(estimator, X, y, **parameters), X)
    assert_close(serial, found, SAME, "under parallel_config(n_jobs=2)")


# -- warnings ------------------------------------------------------------------------------------

_CALLER = "<the user's file>"


def _warnings_of_fit(estimator: Any, problem: Problem) -> list[warnings.WarningMessage]:
    """Warnings of a fit that is called from a file outside of any package."""
    call = "estimator.fit(X)" if problem.y is None else "estimator.fit(X, y)"
    names = {"__name__": "__main__", "estimator": estimator, "X": problem.X, "y": problem.y}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exec(compile(call, _CALLER, "exec"), names)
    return [each for each in seen if issubclass(each.category, ConvergenceWarning)]


def _iterations(estimator: Any) -> int:
    return int(np.max(getattr(estimator, "n_iter_", 0)))


@bag_check("dense", applies=takes("max_iter"))
def check_max_iter(estimator: Any, problem: Problem) -> None:
    """``max_iter=1`` is respected, and its warning points at the line that called ``fit``."""
    stopped = fresh(estimator, max_iter=1)
    seen = _warnings_of_fit(stopped, problem)
    ensure(_iterations(stopped) <= 1, f"max_iter=1, but n_iter_ is {_iterations(stopped)}")
    for each in seen:
        ensure(
            each.filename == _CALLER,
            f"the warning {str(each.message)[:60]!r} points at {each.filename}, line {each.lineno}",
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


class _Stopper:
    """A callback that asks every task except the fit to stop."""

    def setup(self, estimator: Any, context: Any) -> None:
        self.stops = 0

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        self.stops += context.parent is not None
        return context.parent is not None

    def teardown(self, estimator: Any, context: Any) -> None:
        pass


@bag_check("dense", applies=has("set_callbacks"))
def check_callbacks(estimator: Any, problem: Problem) -> None:
    """Callbacks see the begin and end of every task, and finally the fitted estimator."""
    watcher = _Watcher(problem.X)
    fit(fresh(estimator).set_callbacks(watcher), problem.X, problem.y)
    events = watcher.events
    ensure(events[:2] == ["setup", "begin"], f"the fit began with {events[:2]}")
    ensure(events[-2:] == ["end", "teardown"], f"the fit ended with {events[-2:]}")
    counts = events.count("begin"), events.count("end")
    ensure(counts[0] == counts[1], f"{counts[0]} tasks began and {counts[1]} ended")
    ensure(watcher.outputs is not None, "the end of the fit gave callbacks no fitted estimator")
    _, expected = reference(estimator, problem)
    assert_close(expected, watcher.outputs or {}, SAME, "with callbacks")


@bag_check("dense", applies=both(has("set_callbacks"), takes("max_iter")))
def check_callback_stop(estimator: Any, problem: Problem) -> None:
    """A fit that is stopped by a callback has a warning that does not mention ``max_iter``."""
    whole, _ = reference(estimator, problem)
    stopper = _Stopper()
    stopped = fresh(estimator).set_callbacks(stopper)
    messages = [str(each.message) for each in _warnings_of_fit(stopped, problem)]
    ensure(stopper.stops > 0, "the callback saw no step after which it could stop the fit")
    for message in messages:
        ensure("max_iter" not in message, f"after the stop of a callback: {message!r}")
    if _iterations(stopped) < _iterations(whole):
        named = any("callback" in message for message in messages)
        ensure(named, f"the fit was stopped early, and the warnings are {messages}")
