"""Objectives that the starts of a fit reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._plotting import COLORS, HIGHLIGHT, Display
from ._scores import model_with, problem_of

__all__ = ["StartsDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class StartsDisplay(Display):
    """Objectives that the starts of a fit reached, from the lowest to the highest.

    A problem that is not convex has many local minima. If several starts reach the lowest
    objective, it is likely that no lower one exists. If only one does, or if the objectives are far
    apart, raise ``n_init``. A lower bound shows how far the global minimum can be, see
    :class:`ObjectiveDisplay`. It is recommended to use :meth:`from_estimator` or
    :meth:`from_objectives`.

    Parameters
    ----------
    objectives : ndarray of shape (n_starts,)
        Objective of each start, in increasing order.
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
        return cls.from_objectives(found, tol=tol, estimator_name=type(model).__name__, ax=ax)

    @classmethod
    def from_objectives(
        cls,
        objectives: Any,
        *,
        tol: float = 0.01,
        estimator_name: str | None = None,
        ax: Any = None,
    ) -> StartsDisplay:
        """Plot objectives of starts.

        Parameters
        ----------
        objectives : array-like of shape (n_starts,)
            Objective of each start, in any order.
        tol : float, default=0.01
            Relative difference from the lowest objective at which starts are counted as equal.
        estimator_name : str, default=None
            Name of the estimator, for the title.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        StartsDisplay
            The display with the plot.
        """
        values = np.asarray(objectives, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"objectives must hold one value per start, got shape {values.shape}.")
        return cls(objectives=np.sort(values), tol=tol, estimator_name=estimator_name).plot(ax)

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
