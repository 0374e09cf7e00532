"""Distribution of bag scores by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._plotting import COLORS, Display
from ._scores import class_column


@dataclass(kw_only=True, eq=False, repr=False)
class BagScoresDisplay(Display):
    """Distribution of the scores of bags by class, and the decision threshold.

    A threshold far from the crossing of the distributions explains a high AUC with a low accuracy.
    Overlapping distributions explain a low AUC. Use bags that were not in the training data. It is
    recommended to use :meth:`from_estimator`, and the constructor for scores of a cross-validation.

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
        bins : int or array-like, default=20
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
        bins : int or array-like, default=20
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
