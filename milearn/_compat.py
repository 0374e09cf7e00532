"""The only module for scikit-learn's private names, versions and optional libraries.

Parameter constraints are checked by private functions of scikit-learn. The names that the package
uses are imported in this module.

Callbacks came with scikit-learn 1.9. An iterative estimator of this package is written once::

    class Estimator(CallbackSupport, BagClassifier):
        @with_callbacks
        def fit(self, X, y):
            ...
            task = self._start_task(self.max_iter, X=bags, y=y)
            for iteration in range(self.max_iter):
                ...
                if task.step():
                    break
            task.end()
            return self

With an older scikit-learn the estimator has no ``set_callbacks`` and the task does nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.base import _fit_context as fit_context  # noqa: F401
from sklearn.model_selection._split import _validate_shuffle_split as split_counts  # noqa: F401
from sklearn.utils._param_validation import Interval, StrOptions  # noqa: F401
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight as check_sample_weight  # noqa: F401

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn < 1.9
    CallbackSupportMixin = object
    HAS_CALLBACKS = False

    def with_callbacks(method: Callable) -> Callable:
        """The method, unchanged: this scikit-learn has no callbacks."""
        return method


def need_module(name: str, what: str, package: str | None = None) -> Any:
    """An optional library, or an error with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} needs {name}: pip install '{package or name}'.") from error


def output_container(transformer: BaseEstimator) -> str:
    """What ``transform`` returns by ``set_output`` or the configuration, such as "pandas"."""
    return str(_get_output_config("transform", transformer)["dense"])


# The limit of LIBSVM, which scikit-learn lifts. With a very large C its steps are tiny.
LIBSVM_STEPS = 10_000_000


Fitted = Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None


class FitTask:
    """A fit, or a part of it, for scikit-learn's callbacks.

    ``task.step`` is a callable that returns whether to stop, so that a solver can use it as its
    ``callback`` without depending on estimators.

    Parameters
    ----------
    context : sklearn.callback.CallbackContext or None
        With None all methods have no effect.
    estimator : estimator instance
    data : mapping
        ``X``, ``y`` and ``metadata``, passed to every hook.
    whole : bool, default=False
        Whether the estimator is fitted when this task ends.

    Examples
    --------
    >>> task = FitTask(None, None, {})
    >>> task.step()
    False
    """

    def __init__(
        self, context: Any, estimator: Any, data: Mapping[str, Any], whole: bool = False
    ) -> None:
        self._context = context
        self._estimator = estimator
        self._data = data
        self._whole = whole
        # Without a callback the contexts of steps are not created, because there are many steps.
        self._watched = context is not None and hasattr(estimator, "_skl_callbacks")

    def step(self, fitted: Fitted = None, name: str = "iteration") -> bool:
        """Report the end of a step; True if a callback asks to stop.

        Parameters
        ----------
        fitted : mapping or callable that returns one, default=None
            Fitted attributes with which the estimator can already predict, for callbacks that
            score. A callable is only called for such callbacks.
        name : str, default="iteration"
        """
        if not self._watched:
            return False
        child = self._context.subcontext(task_name=name)
        child.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return bool(
            child.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=fitted, **self._data
            )
        )

    def part(self, name: str, max_steps: int | None = 0, task_id: int | None = None) -> FitTask:
        """A part with its own steps (a class, a restart), which has to be ended by ``end``.

        Parameters
        ----------
        name : str
        max_steps : int or None, default=0
            Maximum number of steps of the part; None if unknown, 0 for a part without steps.
        task_id : int, default=None
            Number of the part if parts run in parallel; None if they run in sequence.
        """
        if not self._watched:
            return FitTask(None, self._estimator, self._data)
        child = self._context.subcontext(task_name=name, task_id=task_id, max_subtasks=max_steps)
        child.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return FitTask(child, self._estimator, self._data)

    def end(self, fitted: Fitted = None) -> bool:
        """Report the end of the task; True if a callback asks to stop its siblings."""
        if self._context is None:
            return False
        if fitted is None and self._whole:
            fitted = {}
        return bool(
            self._context.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=fitted, **self._data
            )
        )


class CallbackSupport(CallbackSupportMixin):
    """Mixin for iterative estimators: ``set_callbacks``, if scikit-learn supports callbacks."""

    def _start_task(
        self,
        max_steps: int | None = 0,
        *,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        parallel: bool = False,
    ) -> FitTask:
        """Begin the task of ``fit``; call it once, in a method decorated by ``with_callbacks``.

        Parameters
        ----------
        max_steps : int or None, default=0
            Maximum number of steps or parts; None if unknown.
        X, y, sample_weight
            Passed to callbacks that score.
        parallel : bool, default=False
            Whether parts run in parallel, each with its ``task_id``.
        """
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        data = {"X": X, "y": y, "metadata": metadata}
        if not HAS_CALLBACKS:
            return FitTask(None, self, data)
        context = self._init_callback_context(
            max_subtasks=max_steps, sequential_subtasks=not parallel
        )
        context.call_on_fit_task_begin(estimator=self, **data)
        return FitTask(context, self, data, whole=True)
