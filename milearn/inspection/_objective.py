"""Objectives of a fit: after each step with bounds of the minimum, and those of its starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._plotting import COLORS, HIGHLIGHT, NEUTRAL, Display
from ._scores import model_with, problem_of

_ROUNDING = 1e-10  # relative gap that counts as zero


@dataclass(kw_only=True, eq=False, repr=False)
class ObjectiveDisplay(Display):
    """Objective of a fit after each step, with the lower bound of the minimum if it is known.

    The objective of a :term:`CCCP` decreases to a local minimum, and the history does not show how
    far this is from the global minimum. A lower bound does: the shaded band between both is the
    :term:`optimality gap`, which contains the minimum. It is recommended to use
    :meth:`from_estimator`.

    Parameters
    ----------
    history : array-like of shape (n_steps,)
        Objective after each step.
    objective : float, default=None
        Objective of the returned solution; by default, the lowest of the history.
    lower_bound : float, default=None
        Lower bound of the minimum; by default, the last of its history.
    lower_bound_history : array-like of shape (n_bounds,), default=None
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

    def __post_init__(self) -> None:
        self.history = np.asarray(self.history, dtype=np.float64)
        if self.history.ndim != 1 or len(self.history) == 0:
            raise ValueError(
                f"history must hold one value per step, got shape {self.history.shape}."
            )
        if self.objective is None:
            self.objective = float(self.history.min())
        bounds = self.lower_bound_history
        self.lower_bound_history = None
        if bounds is not None and len(bounds):
            self.lower_bound_history = np.asarray(bounds, dtype=np.float64)
            if self.lower_bound is None:
                self.lower_bound = float(self.lower_bound_history[-1])
        if self.lower_bound is not None and not np.isfinite(self.lower_bound):
            self.lower_bound = None  # the fit was stopped before a bound was computed

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
        names = ("objective", "lower_bound", "lower_bound_history", "dual_gap")
        history, found = model.objective_history_, {n: getattr(model, f"{n}_", None) for n in names}
        if isinstance(history, list):
            column = problem_of(model, len(history), class_label)
            history = history[column]
            found = {n: None if value is None else value[column] for n, value in found.items()}
        return cls(history=history, estimator_name=type(model).__name__, **found).plot(ax)

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
            marker=".",
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


@dataclass(kw_only=True, eq=False, repr=False)
class StartsDisplay(Display):
    """Objectives that the starts of a fit reached, from the lowest to the highest.

    A problem that is not convex has many local minima. If several starts reach the lowest
    objective, it is likely that no lower one exists. If only one does, or if the objectives are far
    apart, raise ``n_init``. A lower bound shows how far the global minimum can be, see
    :class:`ObjectiveDisplay`. It is recommended to use :meth:`from_estimator`.

    Parameters
    ----------
    objectives : array-like of shape (n_starts,)
        Objective of each start, in any order.
    tol : float, default=0.01
        Starts whose objectives exceed the lowest one by at most this fraction of it are counted in
        the title.
    estimator_name : str, default=None
        Name of the estimator, for the title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        Figure of the display.
    line_ : matplotlib Line2D
        The objectives.
    lowest_ : matplotlib Line2D
        The lowest objective.
    n_near_ : int
        Number of starts that reach the lowest objective up to ``tol``.

    See Also
    --------
    ObjectiveDisplay : The objective after each step, and lower bounds.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.inspection import StartsDisplay
    >>> from milearn.svm import MISVC
    >>> X, y = make_bags(n_bags=40, random_state=0)
    >>> model = MISVC(n_init=10, random_state=0).fit(X, y)
    >>> model.start_objectives_.shape
    (10,)
    >>> display = StartsDisplay.from_estimator(model)  # doctest: +SKIP
    """

    objectives: Any
    tol: float = 0.01
    estimator_name: str | None = None

    def __post_init__(self) -> None:
        self.objectives = np.sort(np.asarray(self.objectives, dtype=np.float64))
        if self.objectives.ndim != 1 or len(self.objectives) == 0:
            raise ValueError(
                f"objectives must hold one value per start, got shape {self.objectives.shape}."
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, tol: float = 0.01, class_label: Any = None, ax: Any = None
    ) -> StartsDisplay:
        """Plot the objectives of the starts of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator with ``start_objectives_``; it may be in a pipeline or a search.
        tol : float, default=0.01
            Relative difference from the lowest objective at which starts are counted as equal.
        class_label : label, default=None
            Class whose binary problem is plotted; required for three or more classes.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        StartsDisplay
            The display with the plot.
        """
        model = model_with(estimator, "start_objectives_", "MISVC or M3IC")
        found = model.start_objectives_
        if found.ndim > 1:
            found = found[problem_of(model, len(found), class_label)]
        return cls(objectives=found, tol=tol, estimator_name=type(model).__name__).plot(ax)

    def plot(self, ax: Any = None) -> StartsDisplay:
        """Plot the objectives.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        StartsDisplay
            This display.
        """
        ax = self._open(ax)
        lowest = float(self.objectives[0])
        near = self.objectives <= lowest + self.tol * abs(lowest)
        self.n_near_ = int(near.sum())
        steps = np.arange(1, len(self.objectives) + 1)
        style = {"color": COLORS[0], "marker": "o", "linestyle": "none", "label": "start"}
        (self.line_,) = ax.plot(steps, self.objectives, **style)
        self.lowest_ = ax.axhline(
            lowest, color=HIGHLIGHT, linestyle="--", linewidth=1.2, label="lowest"
        )
        ax.xaxis.get_major_locator().set_params(integer=True)
        self._label("starts, sorted", "objective")
        found = f"{self.n_near_} of {len(steps)} starts within {100 * self.tol:g} %"
        title = ": ".join(filter(None, [self.estimator_name, found]))
        ax.set_title(title, fontsize=10, loc="left")
        return self
