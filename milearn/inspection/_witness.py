"""The deciding instances of many bags, as thumbnails or as lines over features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from .._bags import Bags
from .._bags.kinds import targets
from .._bags.segments import bag_ranges, without_rounding
from .._fit.outcomes import has_outcomes
from .._fit.validation import check_n_labels, check_order, refuse_gaps, validate_bags
from ._scores import (
    COLORS,
    NEUTRAL,
    Display,
    evenly_spaced,
    given_bags,
    scored_instances,
)

_ROWS_AT_ONCE = 100_000
_MAX_THUMBNAILS = 120  # if there are more, evenly spaced ones are plotted
_MAX_LINES = 200


@dataclass(kw_only=True, eq=False, repr=False)
class WitnessDisplay(Display):
    """The deciding instances of many bags.

    Instances that are pictures are plotted as thumbnails, each with the score of its bag's
    :term:`witness`. Other instances are lines over their features, in standard deviations from the
    mean of all instances of ``X``. Features in which the lines of a class are outside of the grey
    band are relevant for the model. It is recommended to use :meth:`from_estimator`.

    Read more in the :ref:`User Guide <guide_instance_scores>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    instances : ndarray of shape (n_bags, n_features)
        The deciding instance of each plotted bag.
    scores : ndarray of shape (n_bags,)
        Their scores.
    labels : ndarray of shape (n_bags,), default=None
        Classes of the bags.
    instance_shape : tuple of int, default=None
        Shape of an instance as a picture.
    mean, std : ndarray of shape (n_features,), default=None
        Mean and standard deviation of the features over all instances.
    feature_names : ndarray of shape (n_features,), default=None
        Names of the features.
    bags : ndarray of shape (n_bags,), default=None
        Positions of the bags.
    classes : ndarray of shape (n_classes,), default=None
        All classes, of which ``labels`` may contain some, so that the colours of classes do not
        change.
    label_name : str, default="class"
        Name of the labels, for titles and legend.
    score_name : str, default="score"
        Name of the scores, for the title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display, which contain the thumbnails.
    figure_ : matplotlib Figure
        Figure of the display.
    shown_ : ndarray of int of shape (n_shown,)
        The plotted instances: all, or 120 thumbnails or 200 lines if there are more, evenly spaced
        from the first to the last.
    images_ : list of matplotlib AxesImage
        Thumbnails, in the order of ``shown_``.
    lines_ : list of matplotlib Line2D
        Lines over the features, in the order of ``shown_``.
    features_ : ndarray of int of shape (n_features_shown,) or None
        The features on the axis.

    See Also
    --------
    InstanceScoresDisplay : All instances of one bag.

    Examples
    --------
    >>> from milearn import MISVC
    >>> from milearn.datasets import load_digit_bags
    >>> from milearn.inspection import WitnessDisplay
    >>> X, y = load_digit_bags(n_bags=40, return_X_y=True)
    >>> model = MISVC().fit(X, y)
    >>> display = WitnessDisplay.from_estimator(
    ...     model, X, y, instance_shape=(8, 8)
    ... )  # doctest: +SKIP
    """

    instances: Any
    scores: Any
    labels: Any = None
    instance_shape: tuple[int, ...] | None = None
    mean: Any = None
    std: Any = None
    feature_names: Any = None
    bags: Any = None
    classes: Any = None
    label_name: str = "class"
    score_name: str = "score"

    def __post_init__(self) -> None:
        self.instances = np.asarray(self.instances, dtype=np.float64)
        self.scores = np.asarray(self.scores, dtype=np.float64)
        if self.labels is not None:
            self.labels = np.asarray(self.labels)
            self.classes = np.unique(self.labels if self.classes is None else self.classes)
        self.mean = self.instances.mean(axis=0) if self.mean is None else np.asarray(self.mean)
        self.std = self.instances.std(axis=0) if self.std is None else np.asarray(self.std)
        self.bags = np.arange(len(self.instances)) if self.bags is None else np.asarray(self.bags)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        bags: Any = None,
        max_bags: int = 24,
        class_label: Any = None,
        instance_shape: tuple[int, ...] | None = None,
        max_features: int = 20,
        ax: Any = None,
    ) -> WitnessDisplay:
        """Plot the deciding instances of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator that scores instances; it may be in a pipeline or a search.
        X : bags, see :class:`milearn.Bags`
            The bags. Mean and deviation of the features are computed from all instances.
        y : array-like of shape (n_bags,), default=None
            Classes of the bags, for colours and titles.
        bags : array-like of int, default=None
            Positions of the plotted bags, in this order. By default, the ``max_bags`` bags whose
            witnesses have the highest scores.
        max_bags : int, default=24
            Maximum number of plotted bags if ``bags`` is None.
        class_label : label, default=None
            Class of the scores, as for :func:`instance_scores`.
        instance_shape : tuple of int, default=None
            Shape of an instance as a picture. If None, lines over the features are plotted.
        max_features : int, default=20
            Maximum number of features on the axis, see :meth:`plot`.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        WitnessDisplay
            The display with the plot.

        Raises
        ------
        ValueError
            If ``y`` has another length than ``X``, has gaps, or is outcomes of survival analysis.
        """
        container = given_bags(X)
        if instance_shape is None:
            validate_bags(None, container, accept_sparse=True, ensure_all_finite=False)
        labels = None
        if y is not None:
            if has_outcomes(y):
                raise ValueError("y holds outcomes of survival: pass classes, or y=None.")
            check_order(container, y=y)
            labels = np.asarray(targets(y))
            check_n_labels(labels, container)
            refuse_gaps(labels)
        chosen = np.arange(len(container))
        chosen = chosen if bags is None else chosen[np.asarray(bags)]
        drawn = container if bags is None else container[chosen]
        found = scored_instances(estimator, drawn, class_label)
        values, rows = found.scores[found.witnesses], found.witnesses
        if bags is None:
            chosen = np.argsort(-values, kind="stable")[:max_bags]
            values, rows = values[chosen], rows[chosen]
        mean, std = (None, None) if instance_shape is not None else _moments(container)
        picked = drawn.instances[rows]
        return cls(
            instances=picked.toarray() if hasattr(picked, "toarray") else picked,
            scores=values,
            labels=None if labels is None else labels[chosen],
            instance_shape=instance_shape,
            mean=mean,
            std=std,
            feature_names=container.feature_names,
            bags=chosen,
            classes=None if labels is None else np.unique(labels),
            label_name=found.label_name,
            score_name=found.name,
        ).plot(ax, max_features=max_features)

    def plot(self, ax: Any = None, *, max_features: int = 20) -> WitnessDisplay:
        """Plot the instances.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.
        max_features : int, default=20
            Maximum number of features on the axis: those whose mean over the plotted instances has
            the largest distance from the mean of all instances, in standard deviations.

        Returns
        -------
        WitnessDisplay
            This display.
        """
        self.images_: list[Any] = []
        self.lines_: list[Any] = []
        self.features_: np.ndarray | None = None
        if self.instance_shape is not None:
            self._plot_thumbnails(ax)
        else:
            self._plot_lines(ax, max_features)
        return self

    def _plot_thumbnails(self, ax: Any) -> None:
        total = len(self.instances)
        pictures = self.instances.reshape(total, *(self.instance_shape or ()))
        self.shown_ = evenly_spaced(total, _MAX_THUMBNAILS)
        pictures = pictures[self.shown_]
        n = len(pictures)
        n_columns = min(n, 8)
        n_rows = -(-n // n_columns)
        self._open(ax, (1.1 * n_columns, 1.45 * n_rows + 0.1)).set_axis_off()
        low, high = float(pictures.min()), float(pictures.max())
        part = "" if n == total else f"; {n} of {total:,} bags, evenly spaced"
        self._title(part)
        for number, (place, picture) in enumerate(zip(self.shown_, pictures, strict=True)):
            row, column = divmod(number, n_columns)
            corner = (column + 0.06) / n_columns, 1.0 - (row + 1.0) / n_rows
            inset = self.ax_.inset_axes((*corner, 0.88 / n_columns, 0.68 / n_rows))
            self.images_.append(inset.imshow(picture, cmap="gray_r", vmin=low, vmax=high))
            inset.set_xticks([])
            inset.set_yticks([])
            title, color = f"{self.scores[place]:+.2f}", "black"
            if self.labels is not None:
                color = self._color(place)
                title = f"{self.label_name} {self.labels[place]}\n{title}"
            inset.set_title(title, fontsize=8, color=color, pad=3)
            for spine in inset.spines.values():
                spine.set_edgecolor(color)
                spine.set_linewidth(1.5)

    def _title(self, part: str) -> None:
        self.ax_.set_title(f"highest {self.score_name}{part}", loc="left", fontsize=9)

    def _color(self, place: int) -> str:
        """Colour of the class of a bag."""
        if self.labels is None:
            return COLORS[0]
        return COLORS[list(self.classes).index(self.labels[place]) % len(COLORS)]

    def _plot_lines(self, ax: Any, max_features: int) -> None:
        spread = without_rounding(self.std, self.mean)
        # A constant feature is at its mean.
        values = (self.instances - self.mean) / np.where(spread > 0, spread, np.inf)
        kept = np.argsort(-np.abs(values.mean(axis=0)), kind="stable")[:max_features]
        self.features_ = features = np.sort(kept)
        self.shown_ = evenly_spaced(len(values), _MAX_LINES)
        few = len(self.shown_) == len(values)
        part = "" if few else f"\n({len(self.shown_)} of {len(values):,} drawn)"
        values = values[np.ix_(self.shown_, features)]
        ax = self._open(ax, (9.4, 4.2))
        ax.axhspan(-1.0, 1.0, color=NEUTRAL, alpha=0.25, linewidth=0, label="all instances,\n±1 sd")
        for place, line in zip(self.shown_, values, strict=True):
            style = {"alpha": 0.6, "linewidth": 1.2} if few else {"alpha": 0.3, "linewidth": 0.8}
            self.lines_ += ax.plot(line, color=self._color(place), **style)
        if self.labels is None:
            ax.plot([], [], color=COLORS[0], label=f"witnesses{part}")
        else:
            labels, first = np.unique(self.labels[self.shown_], return_index=True)
            for label, place in zip(labels, self.shown_[first], strict=True):
                name = f"witnesses,\n{self.label_name} {label}"
                ax.plot([], [], color=self._color(place), label=name)
            if part:
                ax.plot([], [], linestyle="none", label=part.strip())
        names = self.feature_names
        shown = [str(f) if names is None else str(names[f]) for f in features]
        # A character is about 0.6 times as wide as high.
        letters = 0.6 * ax.xaxis.label.get_size() * (max(map(len, shown)) + 1) * len(shown)
        crowded = letters > 72.0 * ax.get_position().width * ax.figure.get_size_inches()[0]
        ax.set_xticks(np.arange(len(shown)), shown, rotation=90 if crowded else 0)
        ax.set_xlim(-0.5, len(shown) - 0.5)
        self._label("feature", "standard deviations\nfrom the mean")
        self._title("")


def _moments(bags: Bags) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature, read in blocks."""
    scaler = StandardScaler(with_mean=not bags.is_sparse)
    for first, last in bag_ranges(bags.offsets, _ROWS_AT_ONCE):
        scaler.partial_fit(bags[first:last].instances.astype(np.float64))
    return scaler.mean_, np.sqrt(scaler.var_)
