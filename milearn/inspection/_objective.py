"""The objective of a fit after each step, and bounds of its minimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._plotting import COLORS, NEUTRAL, Display
from ._scores import model_with, problem_of

__all__ = ["ObjectiveDisplay"]

_MAX_MARKERS = 60  # maximum number of steps with markers
_ROUNDING = 1e-10  # relative gap that counts as zero


@dataclass(kw_only=True, eq=False, repr=False)
class ObjectiveDisplay(Display):
    """Objective of a fit after each step, with the lower bound of the minimum if it is known.

    The objective of a :term:`CCCP` decreases to a local minimum, and the history does not show how
    far this is from the global minimum. A lower bound does: the shaded band between both is the
    :term:`optimality gap`, which contains the minimum. It is recommended to use
    :meth:`from_estimator` or :meth:`from_history`.

    Parameters
    ----------
    history : ndarray of shape (n_steps,)
        Objective after each step.
    objective : float, default=None
        Objective of the returned solution; by default, the lowest of the history.
    lower_bound : float, default=None
        Lower bound of the minimum.
    lower_bound_history : ndarray of shape (n_bounds,), default=None
        The bound after each step.
    dual_gap : float, default=None
        Duality gap of the last convex problem.
    estimator_name : str, default=None
        Name of the estimator, for the title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        Figure of the display.
    line_ : matplotlib Line2D
        The history of the objective.
    bound_ : matplotlib Line2D or None
        The lower bound.
    gap_band_ : matplotlib PolyCollection or None
        The band between the final bound and objective.

    See Also
    --------
    RegularizationPathDisplay : Coefficients and scores against C.

    Examples
    --------
    >>> from milearn import MISVC
    >>> from milearn.datasets import make_bags
    >>> from milearn.inspection import ObjectiveDisplay
    >>> X, y = make_bags(n_bags=40, random_state=0)
    >>> display = ObjectiveDisplay.from_estimator(MISVC().fit(X, y))  # doctest: +SKIP
    """

    history: Any
    objective: float | None = None
    lower_bound: float | None = None
    lower_bound_history: Any = None
    dual_gap: float | None = None
    estimator_name: str | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, class_label: Any = None, ax: Any = None
    ) -> ObjectiveDisplay:
        """Plot the history and the bounds of the objective of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator with ``objective_history_``; it may be in a pipeline or a search.
        class_label : label, default=None
            Class whose binary problem is plotted; required for three or more classes.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        ObjectiveDisplay
            The display with the plot.
        """
        model = model_with(estimator, "objective_history_", "MISVC, M3IC or DPBoost")
        history = model.objective_history_
        several = isinstance(history, list)
        column = problem_of(model, len(history), class_label) if several else 0

        def one(name: str) -> Any:
            value = getattr(model, name, None)
            return value[column] if several and value is not None else value

        def number(name: str) -> float | None:
            value = one(name)
            return None if value is None else float(value)

        return cls.from_history(
            one("objective_history_"),
            objective=number("objective_"),
            lower_bound=number("lower_bound_"),
            lower_bound_history=one("lower_bound_history_"),
            dual_gap=number("dual_gap_"),
            estimator_name=type(model).__name__,
            ax=ax,
        )

    @classmethod
    def from_history(
        cls,
        history: Any,
        *,
        objective: float | None = None,
        lower_bound: float | None = None,
        lower_bound_history: Any = None,
        dual_gap: float | None = None,
        estimator_name: str | None = None,
        ax: Any = None,
    ) -> ObjectiveDisplay:
        """Plot values of an objective.

        Parameters
        ----------
        history : array-like of shape (n_steps,)
            Objective after each step.
        objective : float, default=None
            Objective of the solution; by default, the lowest of the history.
        lower_bound : float, default=None
            Lower bound of the minimum; by default, the last of its history.
        lower_bound_history : array-like of shape (n_bounds,), default=None
            The bound after each step.
        dual_gap : float, default=None
            Duality gap of the last convex problem, for the title.
        estimator_name : str, default=None
            Name of the estimator, for the title.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        ObjectiveDisplay
            The display with the plot.
        """
        values = np.asarray(history, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"history must hold one value per step, got shape {values.shape}.")
        bounds = None
        if lower_bound_history is not None and len(lower_bound_history):
            bounds = np.asarray(lower_bound_history, dtype=np.float64)
        if lower_bound is None and bounds is not None:
            lower_bound = float(bounds[-1])
        if lower_bound is not None and not np.isfinite(lower_bound):
            lower_bound = None  # the fit was stopped before a bound was computed
        return cls(
            history=values,
            objective=float(values.min()) if objective is None else objective,
            lower_bound=lower_bound,
            lower_bound_history=bounds,
            dual_gap=dual_gap,
            estimator_name=estimator_name,
        ).plot(ax)

    def plot(self, ax: Any = None) -> ObjectiveDisplay:
        """Plot the history and the bound.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        ObjectiveDisplay
            This display.
        """
        ax = self._open(ax)
        steps = np.arange(1, len(self.history) + 1)
        (self.line_,) = ax.plot(
            steps,
            self.history,
            color=COLORS[0],
            marker="o" if len(steps) <= _MAX_MARKERS else None,
            markersize=4,
            label="objective",
        )
        self.bound_ = self.gap_band_ = None
        if self.lower_bound is not None:
            bounds = self.lower_bound_history
            if bounds is None or len(bounds) != len(steps):
                bounds = np.full(len(steps), self.lower_bound)
            x: Any = steps
            if len(steps) == 1:  # a line needs two points
                x, bounds = [0.5, 1.5], np.repeat(bounds, 2)
            style = {"color": COLORS[1], "linestyle": "--", "label": "lower bound"}
            (self.bound_,) = ax.plot(x, bounds, **style)
            self.gap_band_ = self._band(
                x, self.lower_bound, self.objective, NEUTRAL, "optimality gap"
            )
        ax.xaxis.get_major_locator().set_params(integer=True)
        self._label("step", "objective")
        title = ": ".join(filter(None, [self.estimator_name, self._gaps()]))
        if title:
            ax.set_title(title, fontsize=10, loc="left")
        return self

    def _gaps(self) -> str:
        parts = []
        if self.lower_bound is not None and self.objective is not None:
            gap = self.objective - self.lower_bound
            if abs(gap) <= _ROUNDING * abs(self.objective):
                gap = 0.0
            parts.append(f"optimality gap {gap:.3g}")
        if self.dual_gap is not None:
            parts.append(f"dual gap of the last convex step {self.dual_gap:.1g}")
        return ", ".join(parts)
