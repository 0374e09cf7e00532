"""Callbacks: hooks are called with scikit-learn 1.9 and nothing happens below it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import make_pipeline

from milearn import _compat
from milearn._compat import (
    HAS_CALLBACKS,
    CallbackSupport,
    with_callbacks,
)

needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn 1.9 has callbacks")


class Iterative(CallbackSupport, ClassifierMixin, BaseEstimator):
    """Counts up to ``max_iter``; fails in iteration ``fail_at``."""

    def __init__(self, max_iter=3, fail_at=None):
        self.max_iter = max_iter
        self.fail_at = fail_at

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        task = self._start_task(self.max_iter, X=X, y=y, sample_weight=sample_weight)
        self.classes_ = np.unique(y)
        for iteration in range(self.max_iter):
            if iteration == self.fail_at:
                raise RuntimeError("failed")
            self.n_iter_ = iteration + 1
            if task.step(lambda n=self.n_iter_: {"n_iter_": n}):
                break
        task.end()
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class PerClass(CallbackSupport, BaseEstimator):
    """Parts with steps of their own, as one-vs-rest has."""

    @with_callbacks
    def fit(self, X, y):
        task = self._start_task(2, X=X, y=y)
        for _ in range(2):
            part = task.part("class", 2)
            part.step()
            part.step()
            part.end()
        task.end()
        return self


class Recorder:
    """Writes down the hooks that were called; asks to stop after ``stop_after`` iterations."""

    def __init__(self, stop_after=None):
        self.events = []
        self.stop_after = stop_after

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, y=None, metadata=None, fitted_estimator=None):
        iterations = getattr(fitted_estimator, "n_iter_", None)
        self.events.append(("end", context.task_name, iterations, metadata))
        return self.stop_after is not None and iterations == self.stop_after

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))


class Propagated(Recorder):
    max_propagation_depth = None


@pytest.fixture
def data():
    return np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])


def test_without_callbacks_fit_is_as_ever(data):
    estimator = Iterative().fit(*data)
    assert estimator.n_iter_ == 3
    assert set(vars(estimator)) == {"max_iter", "fail_at", "classes_", "n_iter_"}
    assert hasattr(estimator, "set_callbacks") == HAS_CALLBACKS


def test_older_scikit_learn_is_a_no_op(data, monkeypatch):
    # Run on every version: with 1.9 the flag is all that tells the two apart.
    monkeypatch.setattr(_compat, "HAS_CALLBACKS", False)
    assert Iterative().fit(*data).n_iter_ == 3


@needs_callbacks
def test_hooks_are_called_in_order(data):
    recorder = Recorder()
    Iterative(max_iter=2).set_callbacks(recorder).fit(*data, sample_weight=np.ones(4))
    kinds = [event[:2] for event in recorder.events]
    step = [("begin", "iteration"), ("end", "iteration")]
    assert kinds == [
        ("setup", "fit"),
        ("begin", "fit"),
        *step,
        *step,
        ("end", "fit"),
        ("teardown", "fit"),
    ]
    ends = [event for event in recorder.events if event[0] == "end"]
    assert [event[2] for event in ends] == [1, 2, 2]
    assert all(event[3]["sample_weight"].sum() == 4 for event in ends)


@needs_callbacks
def test_teardown_after_a_failure(data):
    recorder = Recorder()
    with pytest.raises(RuntimeError, match="failed"):
        Iterative(fail_at=1).set_callbacks(recorder).fit(*data)
    assert recorder.events[-1] == ("teardown", "fit")


@needs_callbacks
def test_parts_have_steps(data):
    recorder = Recorder()
    PerClass().set_callbacks(recorder).fit(*data)
    ends = [event[1] for event in recorder.events if event[0] == "end"]
    assert ends == ["iteration", "iteration", "class"] * 2 + ["fit"]


@needs_callbacks
def test_callbacks_travel_through_a_pipeline_and_clone(data):
    recorder = Propagated()
    pipeline = make_pipeline("passthrough", clone(Iterative(max_iter=2)))
    pipeline.set_callbacks(recorder).fit(*data)
    steps = [event for event in recorder.events if event[:2] == ("end", "iteration")]
    assert len(steps) == 2


def test_a_fitted_estimator_pickles(data):
    assert pickle.loads(pickle.dumps(Iterative().fit(*data))).n_iter_ == 3
