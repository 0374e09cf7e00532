"""Displays of fits and comparisons: paths, objectives, bag scores, importances, ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.parallel import Parallel, delayed

from .._bags import Bags
from .._bags.canonical import column_key
from .._fit.validation import single_scorer, validate_bags
from ..model_selection import Ranks
from ..model_selection._splitters import check_count
from ._scores import COLORS, HIGHLIGHT, LINE, NEUTRAL, Display, class_column, model_with, problem_of

_MAX_LINES = 200


@dataclass(kw_only=True, eq=False, repr=False)
class RegularizationPathDisplay(Display):
    """Coefficients of a linear model, or scores of a search, against a parameter such as C.

    It is recommended to use :meth:`from_estimator`, which fits the model at each value and plots
    its coefficients, or :meth:`from_search`, which plots the scores of a search.

    Read more in the :ref:`User Guide <methods_svm>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    param_name : str
        Name of the parameter.
    param_range : ndarray of shape (n_values,)
        Its values in ascending order.
    coefs : ndarray of shape (n_values, n_features), default=None
        Coefficients at each value.
    scores : ndarray of shape (n_values, n_splits), default=None
        Test scores at each value.
    best : float, default=None
        The chosen value; by default, the one with the highest mean score.
    feature_names : ndarray of shape (n_features,), default=None
        Names of the features.
    score_name : str, default="score"
        Label of the scores.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        Figure of the display.
    lines_ : list of matplotlib Line2D
        One line per entry of ``features_``, or one line of the mean scores.
    features_ : ndarray of int of shape (n_shown,) or None
        The plotted features: all, or the 200 features with the largest coefficients on the path.
    band_ : matplotlib PolyCollection or None
        The mean plus and minus one standard deviation of the scores over the splits.
    best_line_ : matplotlib Line2D or None
        The chosen value.

    Raises
    ------
    ValueError
        If the values do not increase, or scores have another number of rows than values.

    See Also
    --------
    sklearn.model_selection.ValidationCurveDisplay : Training and test scores against a parameter.

    Examples
    --------
    >>> from milearn import MISVC
    >>> from milearn.datasets import make_bags
    >>> from milearn.inspection import RegularizationPathDisplay
    >>> X, y = make_bags(n_bags=40, random_state=0)
    >>> display = RegularizationPathDisplay.from_estimator(
    ...     MISVC(kernel="linear"), X, y, param_range=[0.01, 0.1, 1.0, 10.0]
    ... )  # doctest: +SKIP
    """

    param_name: str
    param_range: Any
    coefs: Any = None
    scores: Any = None
    best: float | None = None
    feature_names: Any = None
    score_name: str = "score"

    def __post_init__(self) -> None:
        self.param_range = _rising(self.param_range)
        if self.scores is not None:
            self.scores = np.asarray(self.scores, dtype=np.float64)
            n = len(self.param_range)
            if self.scores.ndim != 2 or len(self.scores) != n:
                raise ValueError(
                    f"scores must have shape ({n}, n_splits), one row per value of the parameter, "
                    f"got {self.scores.shape}."
                )
            if self.best is None:
                self.best = float(self.param_range[np.nanargmax(self.scores.mean(axis=1))])

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        param_range: Any,
        param_name: str = "C",
        n_labels: int = 5,
        ax: Any = None,
    ) -> RegularizationPathDisplay:
        """Fit a linear model at each value of a parameter and plot its coefficients.

        Parameters
        ----------
        estimator : estimator
            A linear model with ``coef_``, such as ``MISVC(kernel="linear")``; it may be the last
            step of a pipeline. It is cloned.
        X : bags, see :class:`milearn.Bags`
            Bags to fit on.
        y : array-like of shape (n_bags,)
            Labels of two classes, or values.
        param_range : array-like of shape (n_values,)
            Values of the parameter, which must be positive.
        param_name : str, default="C"
            Name of the parameter, or of a parameter of the last step of a pipeline.
        n_labels : int, default=5
            Number of features with labels: those with the largest coefficients at the end.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        RegularizationPathDisplay
            The display with the plot.

        Raises
        ------
        TypeError
            If the model has no ``coef_``.
        ValueError
            If the model has three or more classes.
        """
        values = _rising(param_range)
        steps = getattr(estimator, "steps", None)
        whole = param_name if steps is None else f"{steps[-1][0]}__{param_name}"
        coefs = []
        for value in values:
            fitted = clone(estimator).set_params(**{whole: value}).fit(X, y)
            model = fitted if steps is None else fitted[-1]
            if not hasattr(model, "coef_"):
                raise TypeError(
                    f"{type(model).__name__} has no coef_: a path of coefficients needs a linear "
                    'model, such as MISVC(kernel="linear").'
                )
            coefs.append(np.atleast_2d(model.coef_))
        if coefs[0].shape[0] != 1:
            raise ValueError(
                f"The model has {coefs[0].shape[0]} rows of coefficients, one per class: draw two "
                "classes at a time."
            )
        return cls(
            param_name=param_name,
            param_range=values,
            coefs=np.concatenate(coefs),
            feature_names=getattr(model, "feature_names_in_", None),
        ).plot(ax, n_labels=n_labels)

    @classmethod
    def from_search(
        cls, search: Any, *, param_name: str | None = None, ax: Any = None
    ) -> RegularizationPathDisplay:
        """Plot the scores of a search over a parameter.

        Parameters
        ----------
        search : fitted GridSearchCV or RandomizedSearchCV
            The search. Other parameters are fixed at their best values.
        param_name : str, default=None
            The parameter, as in the grid. By default, the one that ends in "C", or the only one.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        RegularizationPathDisplay
            The display with the plot.

        Raises
        ------
        TypeError
            If the search is not fitted.
        ValueError
            If ``param_name`` was not searched, or is missing and several parameters were searched.
        """
        if not hasattr(search, "cv_results_"):
            raise TypeError(f"{type(search).__name__} has no cv_results_: fit a search first.")
        names = sorted(search.best_params_)
        if param_name is None:
            likely = [name for name in names if name.split("__")[-1] == "C"] or names
            if len(likely) != 1:
                raise ValueError(f"name the parameter by param_name=, one of {', '.join(names)}.")
            param_name = likely[0]
        if param_name not in names:
            raise ValueError(
                f"param_name={param_name!r} was not searched: use one of {', '.join(names)}."
            )
        best = search.best_params_
        rows = [
            row
            for row, params in enumerate(search.cv_results_["params"])
            if param_name in params
            and all(params.get(name) == best[name] for name in names if name != param_name)
        ]
        values = np.array([search.cv_results_["params"][row][param_name] for row in rows], float)
        metric = search.refit if isinstance(search.refit, str) else "score"
        splits = [
            search.cv_results_[f"split{split}_test_{metric}"][rows]
            for split in range(search.n_splits_)
        ]
        order = np.argsort(values, kind="stable")
        label = search.scoring if isinstance(search.scoring, str) else metric
        return cls(
            param_name=param_name,
            param_range=values[order],
            scores=np.stack(splits, axis=1)[order],
            best=float(best[param_name]),
            score_name=label.replace("_", " "),
        ).plot(ax)

    def plot(self, ax: Any = None, *, n_labels: int = 5) -> RegularizationPathDisplay:
        """Plot the path.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.
        n_labels : int, default=5
            Number of features with labels.

        Returns
        -------
        RegularizationPathDisplay
            This display.
        """
        self._open(ax).set_xscale("log")
        self.band_ = None
        self.features_: np.ndarray | None = None
        if self.coefs is not None:
            self._plot_coefs(n_labels)
        else:
            self._plot_scores()
        self.best_line_ = self._dashed(self.best, "chosen")
        name = self.score_name if self.coefs is None else "coefficient"
        self._label(self.param_name.split("__")[-1], name)
        return self

    def _plot_coefs(self, n_labels: int) -> None:
        size = np.abs(self.coefs)
        named = np.argsort(-size[-1], kind="stable")[:n_labels]
        n_features = self.coefs.shape[1]
        features = np.arange(n_features)
        if n_features > _MAX_LINES:
            largest = size.max(axis=0)
            largest[named] = np.inf
            features = np.sort(np.argsort(-largest, kind="stable")[:_MAX_LINES])
        self.features_ = features
        self.lines_ = []
        for path in self.coefs.T[features]:
            (line,) = self.ax_.plot(self.param_range, path, color=NEUTRAL, alpha=0.5, linewidth=0.9)
            self.lines_.append(line)
        for rank, feature in enumerate(named):
            names = self.feature_names
            line = self.lines_[np.searchsorted(features, feature)]
            line.set(color=COLORS[rank % len(COLORS)], alpha=1.0, linewidth=1.8, zorder=3)
            line.set_label(f"feature {feature}" if names is None else str(names[feature]))
        if n_features > _MAX_LINES:
            label = f"the largest {_MAX_LINES}\nof {n_features:,} features"
            self.ax_.plot([], [], color=NEUTRAL, label=label)
        self.ax_.axhline(0.0, color=LINE, linewidth=0.8)

    def _plot_scores(self) -> None:
        x, mean, spread = self.param_range, self.scores.mean(axis=1), self.scores.std(axis=1)
        self.lines_ = self.ax_.plot(
            x, mean, color=COLORS[0], marker="o", markersize=4, label="mean"
        )
        band = (mean - spread, mean + spread)
        self.band_ = self._band(x, *band, COLORS[0], "±1 sd over the splits")


def _rising(param_range: Any) -> np.ndarray:
    """Values for a logarithmic axis."""
    values = np.asarray(param_range, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not (values > 0).all():
        raise ValueError("param_range must hold values above zero, as the axis is logarithmic.")
    if (np.diff(values) <= 0).any():
        raise ValueError("param_range must rise from value to value.")
    return values


_ROUNDING = 1e-10  # relative gap that counts as zero


@dataclass(kw_only=True, eq=False, repr=False)
class ObjectiveDisplay(Display):
    """Objective of a fit after each step, with the lower bound of the minimum if it is known.

    The objective of a :term:`CCCP` decreases to a stationary point. The history does not show how
    far this is from the global minimum. A lower bound does: the shaded band between both is the
    :term:`optimality gap`, which contains the minimum. It is recommended to use
    :meth:`from_estimator`.

    Read more in the :ref:`User Guide <methods_svm>`.

    .. versionadded:: 0.1.0

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

    Raises
    ------
    ValueError
        If ``history`` is not one-dimensional.

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

    Read more in the :ref:`User Guide <methods_svm>`.

    .. versionadded:: 0.2.0

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

    Raises
    ------
    ValueError
        If ``objectives`` is not one-dimensional.

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


@dataclass(kw_only=True, eq=False, repr=False)
class BagScoresDisplay(Display):
    """Distribution of the scores of bags by class, and the decision threshold.

    A threshold far from the crossing of the distributions explains a high AUC with a low accuracy.
    Overlapping distributions explain a low AUC. Use bags that were not in the training data. It is
    recommended to use :meth:`from_estimator`, and the constructor for scores of a cross-validation.

    Read more in the :ref:`User Guide <guide_probabilities>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    scores : array-like of shape (n_bags,)
        Score of each bag.
    labels : array-like of shape (n_bags,)
        Class of each bag.
    threshold : float, default=None
        Score above which a bag is predicted positive; None for no line.
    score_name : str, default="score of the bag"
        Label of the scores.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        Figure of the display.
    bins_ : ndarray of shape (n_bins + 1,)
        Edges of the bins, the same for all classes.
    counts_ : dict of ndarray of shape (n_bins,)
        Heights of the bars by class.
    patches_ : dict of list of matplotlib Polygon
        The histogram of each class.
    line_ : matplotlib Line2D or None
        The threshold.

    Raises
    ------
    ValueError
        If scores and labels have different lengths, or a score is not finite.

    See Also
    --------
    InstanceScoresDisplay : Scores of the instances of one bag.

    Examples
    --------
    >>> from milearn.inspection import BagScoresDisplay
    >>> display = BagScoresDisplay(
    ...     scores=[-1.0, 0.2, 0.4, 2.0], labels=[0, 0, 1, 1], threshold=0.0
    ... )
    >>> display.plot()  # doctest: +SKIP
    """

    scores: Any
    labels: Any
    threshold: float | None = None
    score_name: str = "score of the bag"

    def __post_init__(self) -> None:
        self.labels = np.asarray(self.labels)
        self.scores = np.asarray(self.scores, dtype=np.float64)
        shapes = self.labels.shape, self.scores.shape
        if self.labels.ndim != 1 or shapes[0] != shapes[1] or len(self.labels) == 0:
            raise ValueError(
                f"labels and scores must hold one entry per bag, got shapes {shapes[0]} and "
                f"{shapes[1]}."
            )
        if not np.isfinite(self.scores).all():
            raise ValueError("scores holds values that are not finite: leave out these bags.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        response_method: str = "auto",
        class_label: Any = None,
        threshold: float | None = None,
        bins: Any = 20,
        density: bool = False,
        ax: Any = None,
    ) -> BagScoresDisplay:
        """Plot the bag scores of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            A classifier with ``decision_function`` or ``predict_proba``.
        X : bags, see :class:`milearn.Bags`
            Bags to score, preferably test bags.
        y : array-like of shape (n_bags,)
            Class of each bag.
        response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
            The scores; "auto" uses ``decision_function`` if there is one. For
            :class:`~sklearn.model_selection.TunedThresholdClassifierCV` it uses the scores for
            which the threshold was tuned.
        class_label : label, default=None
            Class of the scores; required for three or more classes. By default, ``classes_[1]``.
        threshold : float, default=None
            Position of the line. By default, the threshold of the classifier: ``best_threshold_``
            if it was tuned, otherwise zero for decision functions and one half for probabilities.
        bins : int or array-like of shape (n_bins + 1,), default=20
            Number of bins, or their edges.
        density : bool, default=False
            Whether the histogram of each class has an area of one, so that rare classes are
            visible.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        BagScoresDisplay
            The display with the plot.

        Raises
        ------
        TypeError
            If the estimator is not a classifier or does not have the response method.
        ValueError
            For an unknown ``response_method``, or three or more classes without ``class_label``.
        """
        if response_method not in ("auto", "decision_function", "predict_proba"):
            raise ValueError(
                f"response_method={response_method!r} is unknown: use 'auto', 'decision_function' "
                "or 'predict_proba'."
            )
        order = ["decision_function", "predict_proba"]
        tuned = getattr(estimator, "best_threshold_", None)
        if tuned is not None:
            # scikit-learn's order for "auto" in the tuning of thresholds.
            given = getattr(estimator, "response_method", "auto")
            order = order[::-1] if given == "auto" else [given]
        tuned_on = next((name for name in order if hasattr(estimator, name)), " or ".join(order))
        name = tuned_on if response_method == "auto" else response_method
        if not hasattr(estimator, name):
            raise TypeError(
                f"{type(estimator).__name__} has no method {name}: there are no scores of bags to "
                "draw."
            )
        values = np.asarray(getattr(estimator, name)(X), dtype=np.float64)
        if not hasattr(estimator, "classes_"):
            raise TypeError(
                f"{type(estimator).__name__} has no classes_: draw the scores of a classifier."
            )
        classes = estimator.classes_
        column = len(classes) - 1 if class_label is None else class_column(estimator, class_label)
        if len(classes) > 2 and class_label is None:
            raise ValueError(
                f"The model has {len(classes)} classes: name one by class_label=, its scores are "
                "then drawn against those of the others."
            )
        if values.ndim == 2:
            values = values[:, column]
        elif column == 0:
            values = -values
        if threshold is None:
            threshold = 0.0 if name == "decision_function" else 0.5
            if tuned is not None and name == tuned_on:
                threshold = float(tuned)
                if column == 0:
                    threshold = -threshold if name == "decision_function" else 1.0 - threshold
        what = "score of the bag"
        if name == "predict_proba":
            what = f"probability of {classes[column]}"
        display = cls(scores=values, labels=y, threshold=threshold, score_name=what)
        return display.plot(ax, bins=bins, density=density)

    def plot(self, ax: Any = None, *, bins: Any = 20, density: bool = False) -> BagScoresDisplay:
        """Plot the histograms.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.
        bins : int or array-like of shape (n_bins + 1,), default=20
            Number of bins, or their edges.
        density : bool, default=False
            Whether the histogram of each class has an area of one.

        Returns
        -------
        BagScoresDisplay
            This display.
        """
        ax = self._open(ax)
        self.bins_ = np.histogram_bin_edges(self.scores, bins=bins)
        self.counts_, self.patches_ = {}, {}
        for code, label in enumerate(np.unique(self.labels)):
            mine, color = self.scores[self.labels == label], COLORS[code % len(COLORS)]
            counts, _, patches = ax.hist(
                mine,
                bins=self.bins_,
                density=density,
                histtype="stepfilled",
                color=color,
                edgecolor=color,
                alpha=0.55,
                # Hatches distinguish the classes for readers without colours.
                hatch=("", "///", "...", "xxx")[code % 4],
                label=f"class {label} ({len(mine):,} bags)",
            )
            key = label.item() if hasattr(label, "item") else label
            self.counts_[key], self.patches_[key] = counts, patches
        self.line_ = self._dashed(self.threshold, "threshold")
        self._label(self.score_name, "density" if density else "bags")
        return self


_ROW = 0.62  # distance of two names, in heights of the rank axis' labels
_BAR = 0.3  # distance of two bars
_TICKS = 12  # maximum number of ticks


@dataclass(kw_only=True, eq=False, repr=False)
class CriticalDifferenceDisplay(Display):
    """Average ranks of methods over data sets, as a critical difference diagram.

    The axis has the average ranks, and 1 is the best. A bar joins methods that are next to each
    other in the ranking, and of which no pair is significantly different by Wilcoxon's signed-rank
    test with Holm's correction.

    Read more in the :ref:`User Guide <guide_compare>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    ranks : Ranks
        Ranks and p-values: ``comparison.ranks()`` of the result of
        :func:`~milearn.model_selection.compare`, or the result of
        :func:`~milearn.model_selection.rank_methods` for a table of scores.
    titles : mapping of str to str, default=None
        Names of methods in the plot, by their names in ``ranks``.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        Figure of the display.
    points_ : matplotlib PathCollection
        The average ranks on the axis.
    texts_ : list of matplotlib Text
        Names and average ranks of the methods, best first.
    bars_ : list of matplotlib Line2D
        Bars that join methods without a significant difference.

    See Also
    --------
    milearn.model_selection.compare : Scores of estimators on data sets.
    milearn.model_selection.rank_methods : Ranks and p-values.

    References
    ----------
    J. Demsar. Statistical comparisons of classifiers over multiple data sets. Journal of Machine
    Learning Research 7, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.inspection import CriticalDifferenceDisplay
    >>> from milearn.model_selection import rank_methods
    >>> scores = np.random.default_rng(0).uniform(size=(10, 3)) + [0.0, 0.4, 0.5]
    >>> ranks = rank_methods(scores, ["mean", "kernel", "MI-SVM"])
    >>> display = CriticalDifferenceDisplay(ranks=ranks).plot()  # doctest: +SKIP
    """

    ranks: Ranks
    titles: Mapping[str, str] | None = None

    def plot(self, ax: Any = None) -> CriticalDifferenceDisplay:
        """Plot the ranks.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        CriticalDifferenceDisplay
            This display.
        """
        ranks, k = self.ranks.ranks, len(self.ranks.methods)
        cliques = self.ranks.cliques()
        rows = _rows(cliques)
        half = (k + 1) // 2  # methods with their names on the left
        top = 1.0 + _BAR * (2 + max(rows, default=-1))
        ax = self._open(ax, (8.0, 1.3 + 0.27 * (top + _ROW * half)))
        self._plot_axis(ax, k)
        self.points_ = ax.scatter(
            ranks, np.zeros(k), s=24, color=COLORS[0], zorder=3, clip_on=False
        )
        self.texts_ = []
        for place, (name, rank) in enumerate(zip(self.ranks.methods, ranks, strict=True)):
            left = place < half
            row = place if left else k - 1 - place
            self.texts_.append(self._plot_name(ax, name, float(rank), top + _ROW * row, left))
        self.bars_ = []
        for row, (first, last) in zip(rows, cliques, strict=True):
            span = (float(ranks[first]) - 0.03, float(ranks[last]) + 0.03)
            height = -(0.6 + _BAR * row)
            self.bars_ += ax.plot(
                span, (height, height), color=LINE, linewidth=3.5, solid_capstyle="butt"
            )
        ax.set_ylim(-(top + _ROW * (half - 0.4)), 0.5)
        return self

    def _plot_axis(self, ax: Any, k: int) -> None:
        margin = 0.06 * (k - 1)
        ax.set_xlim(1 - margin, k + margin)
        ax.spines[["left", "right", "bottom"]].set_visible(False)
        ax.spines["top"].set_position(("data", 0.0))
        ax.spines["top"].set_bounds(1, k)
        ax.xaxis.tick_top()
        ax.set_xticks(np.arange(1, k + 1, -(-k // _TICKS)))
        ax.yaxis.set_visible(False)
        title = (
            f"average rank over {self.ranks.n_datasets} data sets; bars join methods that do not "
            f"differ\nsignificantly (Wilcoxon and Holm, level {self.ranks.alpha:g})"
        )
        ax.set_title(title, fontsize=10, loc="left", pad=18)

    def _plot_name(self, ax: Any, name: str, rank: float, depth: float, left: bool) -> Any:
        """A line from the rank downwards and to the side, where the name is."""
        side = 0.0 if left else 1.0
        edge = ax.get_xlim()[0 if left else 1]
        ax.plot((rank, rank, edge), (0.0, -depth, -depth), color=LINE, linewidth=0.8, clip_on=False)
        shown = (self.titles or {}).get(name, name)
        return ax.text(
            side + (-0.01 if left else 0.01),
            -depth,
            f"{shown}  {rank:.2f}" if left else f"{rank:.2f}  {shown}",
            ha="right" if left else "left",
            va="center",
            transform=ax.get_yaxis_transform(),
        )


def _rows(cliques: list[tuple[int, int]]) -> list[int]:
    """The first row below the axis in which each bar does not touch another one."""
    ends: list[int] = []
    rows = []
    for first, last in cliques:
        row = next((row for row, end in enumerate(ends) if end < first), len(ends))
        ends[row : row + 1] = [last]
        rows.append(row)
    return rows


def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    features: Any = None,
    scoring: Any = None,
    n_repeats: int = 5,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Bunch:
    """Compute the decrease of a score if the values of features are permuted.

    The values of a feature, or the rows of a group of features, are exchanged between instances of
    all bags. Bags keep their sizes and their other features. scikit-learn's function of this name
    permutes rows of a matrix, and raises a TypeError for bags.

    Read more in the :ref:`User Guide <guide_instance_scores>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    estimator : fitted estimator
        A classifier, regressor or pipeline that predicts bags.
    X : bags, see :class:`milearn.Bags`
        Bags, preferably test bags: on training bags the importance also shows overfitting.
    y : array-like of shape (n_bags,)
        Labels or values of the bags.
    features : sequence, or mapping of str to sequence, default=None
        Names or numbers of the features, or named groups of them, which are permuted together.
        Permute correlated features as a group: a single one can be replaced by the others. By
        default, every feature.
    scoring : str or callable, default=None
        Name of a scorer or a callable ``scorer(estimator, X, y)``; by default, the ``score`` of
        the estimator.
    n_repeats : int, default=5
        Number of permutations of each feature or group.
    sample_weight : array-like of shape (n_bags,), default=None
        Weights of the bags, passed to the scorer.
    n_jobs : int, default=None
        Number of jobs that run in parallel, over features. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means using all processors.
    random_state : int, RandomState instance or None, default=None
        Determines the permutations. Pass an int for reproducible results.

    Returns
    -------
    Bunch
        ``importances`` of shape (n_features, n_repeats), the decreases of the score, with their
        ``importances_mean`` and ``importances_std``; ``feature_names`` of shape (n_features,); and
        ``baseline_score``, the score without a permutation.

    Raises
    ------
    ValueError
        If ``n_repeats`` is below 1, a group is empty, or the number of labels is not that of the
        bags.
    IndexError
        If there is no feature of a name or number.

    See Also
    --------
    PermutationImportanceDisplay : Plot of the importances.
    sklearn.inspection.permutation_importance : The function for rows.

    References
    ----------
    L. Breiman. Random Forests. Machine Learning 45, 2001.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.inspection import permutation_importance
    >>> from milearn.svm import MISVC
    >>> X, y = make_bags(n_bags=60, n_features=4, random_state=0)
    >>> model = MISVC(kernel="linear").fit(X[:40], y[:40])
    >>> groups = {"first": [0, 1], "last": [2, 3]}
    >>> found = permutation_importance(
    ...     model, X[40:], y[40:], features=groups, random_state=0
    ... )
    >>> found.importances.shape, found.feature_names.tolist()
    ((2, 5), ['first', 'last'])
    """
    n_repeats = check_count("n_repeats", n_repeats, 1)
    # Values that are missing are the matter of the estimator, which may impute them.
    bags = validate_bags(None, X, ensure_all_finite="allow-nan")
    labels = np.asarray(y)
    if labels.ndim == 0 or len(labels) != len(bags):
        raise ValueError(
            f"y has shape {labels.shape} for {len(bags)} bags: pass one label per bag."
        )
    names, columns = _groups(bags, features)
    scorer = single_scorer(estimator, scoring)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    score = partial(_score, scorer, estimator, labels, weights)
    baseline = score(bags)
    seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=len(columns))
    found = Parallel(n_jobs=n_jobs)(
        delayed(_permuted_scores)(score, bags, group, int(seed), n_repeats)
        for group, seed in zip(columns, seeds, strict=True)
    )
    importances = baseline - np.array(found).reshape(len(columns), n_repeats)
    return Bunch(
        importances=importances,
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        feature_names=np.array(names, dtype=str),
        baseline_score=baseline,
    )


def _groups(bags: Bags, features: Any) -> tuple[list[str], list[np.ndarray]]:
    """Names and columns of the features or groups."""
    known = bags.feature_names
    shown = [f"x{at}" for at in range(bags.shape[1])] if known is None else known.tolist()
    if features is None:
        return shown, [np.array([at]) for at in range(bags.shape[1])]
    named = features.items() if isinstance(features, Mapping) else [(None, [f]) for f in features]
    names, columns = [], []
    for name, group in named:
        found = np.arange(bags.shape[1])[column_key(list(group), known)]
        if len(found) == 0:
            raise ValueError(f"The group {name!r} has no features.")
        names.append(shown[found[0]] if name is None else str(name))
        columns.append(found)
    return names, columns


def _score(
    scorer: Any, estimator: Any, y: np.ndarray, weights: dict[str, Any], bags: Bags
) -> float:
    return float(scorer(estimator, bags, y, **weights))


def _permuted_scores(
    score: Callable[[Bags], float], bags: Bags, columns: np.ndarray, seed: int, n_repeats: int
) -> list[float]:
    rng = np.random.RandomState(seed)
    # Memory maps are read once.
    if not bags.is_sparse:
        bags = bags.with_instances(np.array(bags.instances), feature_names=bags.feature_names)
    return [
        score(_permuted(bags, columns, rng.permutation(bags.n_instances))) for _ in range(n_repeats)
    ]


def _permuted(bags: Bags, columns: np.ndarray, order: np.ndarray) -> Bags:
    """The bags with columns in another order of rows."""
    if bags.is_sparse:
        chosen = np.bincount(columns, minlength=bags.shape[1]).astype(np.float64)
        part = bags.instances @ sparse.diags_array(chosen)
        instances = sparse.csr_array(bags.instances - part + part[order])
        instances.eliminate_zeros()
    else:
        instances = bags.instances.copy()
        instances[:, columns] = instances[order][:, columns]
    return bags.with_instances(instances, feature_names=bags.feature_names)


@dataclass(kw_only=True, eq=False, repr=False)
class PermutationImportanceDisplay(Display):
    """Importances of features or groups of features, the most important first.

    It is recommended to use :meth:`from_estimator`.

    Read more in the :ref:`User Guide <guide_instance_scores>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    importances : ndarray of shape (n_features, n_repeats)
        Decreases of the score.
    feature_names : sequence of str
        Names of the features or groups.
    score_name : str, default="score"
        Name of the score.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        Figure of the display.
    bars_ : matplotlib BarContainer
        Mean importances, from the highest to the lowest.
    points_ : matplotlib Line2D
        The importance in each repeat.
    order_ : ndarray of shape (n_shown,)
        Positions of the features that are shown.

    Raises
    ------
    ValueError
        In ``plot``, if ``importances`` does not have one row per feature.

    See Also
    --------
    permutation_importance : The importances.

    Examples
    --------
    >>> from milearn.inspection import PermutationImportanceDisplay
    >>> display = PermutationImportanceDisplay(
    ...     importances=[[0.1, 0.2], [0.0, 0.0]], feature_names=["width", "height"]
    ... )
    >>> display.plot()  # doctest: +SKIP
    """

    importances: Any
    feature_names: Any
    score_name: str = "score"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        max_features: int = 20,
        ax: Any = None,
        **options: Any,
    ) -> PermutationImportanceDisplay:
        """Compute the importances of a fitted estimator and plot them.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator that predicts bags.
        X : bags, see :class:`milearn.Bags`
            Bags, preferably test bags.
        y : array-like of shape (n_bags,)
            Their labels or values.
        max_features : int, default=20
            Maximum number of features that are shown.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.
        **options : dict
            Further arguments of :func:`permutation_importance`.

        Returns
        -------
        PermutationImportanceDisplay
            The display with the plot.
        """
        found = permutation_importance(estimator, X, y, **options)
        scoring = options.get("scoring")
        display = cls(
            importances=found.importances,
            feature_names=found.feature_names,
            score_name=scoring if isinstance(scoring, str) else "score",
        )
        return display.plot(ax, max_features=max_features)

    def plot(self, ax: Any = None, *, max_features: int = 20) -> PermutationImportanceDisplay:
        """Plot the mean importances as bars, and those of the repeats as points.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.
        max_features : int, default=20
            Maximum number of features that are shown.

        Returns
        -------
        PermutationImportanceDisplay
            This display.
        """
        values = np.asarray(self.importances, dtype=np.float64)
        if values.ndim != 2 or len(values) != len(self.feature_names):
            raise ValueError(
                f"importances has shape {values.shape} for {len(self.feature_names)} features."
            )
        self.order_ = np.argsort(-values.mean(axis=1), kind="stable")[:max_features]
        shown, places = values[self.order_], np.arange(len(self.order_))
        ax = self._open(ax, (7.4, max(2.4, 0.9 + 0.28 * len(places))))
        self.bars_ = ax.barh(places, shown.mean(axis=1), color=COLORS[0], alpha=0.55)
        spread = np.repeat(places, shown.shape[1])
        (self.points_,) = ax.plot(shown.ravel(), spread, ".", color=LINE, markersize=4)
        ax.set_yticks(places, [str(self.feature_names[at]) for at in self.order_])
        ax.invert_yaxis()
        ax.axvline(0.0, color=LINE, linewidth=0.8)
        self._label(f"decrease of the {self.score_name}", "")
        return self
