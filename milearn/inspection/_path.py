"""Coefficients and scores against the strength of the regularisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ._plotting import COLORS, LINE, NEUTRAL, Display

_MAX_LINES = 200


@dataclass(kw_only=True, eq=False, repr=False)
class RegularizationPathDisplay(Display):
    """Coefficients of a linear model, or scores of a search, against a parameter such as C.

    It is recommended to use :meth:`from_estimator`, which fits the model at each value and plots
    its coefficients, or :meth:`from_search`, which plots the scores of a search.

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
    features_ : ndarray of int or None
        The plotted features: all, or the 200 features with the largest coefficients on the path.
    band_ : matplotlib PolyCollection or None
        The mean plus and minus one standard deviation of the scores over the splits.
    best_line_ : matplotlib Line2D or None
        The chosen value.

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
                self.best = float(self.param_range[np.argmax(self.scores.mean(axis=1))])

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
