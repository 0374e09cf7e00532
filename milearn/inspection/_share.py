"""Pictures of a share discriminant: scores by share, selected shares of bags, instance scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from .._fit.validation import validate_labels
from ._scores import COLORS, NEUTRAL, Display, final_step, local_bags, model_with, problem_of


@dataclass(kw_only=True, eq=False, repr=False)
class ShareDisplay(Display):
    """How many instances decide: three pictures of a share discriminant.

    The kind "shares" has the score on the inner folds for each share, and the share that was
    chosen. A flat curve means that the data do not tell how many instances decide. The kind "bags"
    has the share of selected instances of each bag, by class or against the value of the bag. The
    kind "instances" has the distribution of the scores of instances by class, with the cut. For
    values, it compares the bags above their mean with the others. It is recommended to use
    :meth:`from_estimator`.

    Read more in the :ref:`User Guide <guide_shares>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    shares : array-like of shape (n_shares,)
        Shares that were compared, in ascending order.
    share_scores : array-like of shape (n_shares,)
        Score of each share.
    share : float
        The chosen one of the shares.
    selected : array-like of shape (n_bags,)
        Share of the instances of each bag that are selected.
    labels : array-like of shape (n_bags,)
        Class or value of each bag.
    scores : array-like of shape (n_instances,)
        Scores of the instances, bag by bag.
    sizes : array-like of shape (n_bags,)
        Number of instances of each bag.
    cut : float
        Instances with a higher score are selected.
    orientation : int, default=1
        -1 if instances with a score lower than the cut are selected.
    score_name : str, default="score of the instance"
        Label of the scores.
    valued : bool, default=False
        Whether labels are values.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        Figure of the display.
    curve_ : matplotlib Line2D
        Scores by share, of the kind "shares". The shares have equal distances.
    chosen_ : matplotlib Line2D
        The chosen share, of the kind "shares".
    points_ : matplotlib PathCollection
        The bags, of the kind "bags".
    counts_ : dict of ndarray of shape (n_bins,)
        Heights of the histogram of each class, of the kind "instances". Each bag has the same
        weight, so that heights are means over bags of shares of their instances.
    bins_ : ndarray of shape (n_bins + 1,)
        Edges of the bins, of the kind "instances". The cut is one of them.
    line_ : matplotlib Line2D
        The cut, of the kind "instances".

    Raises
    ------
    ValueError
        If lengths differ. In ``plot``, for an unknown ``kind``.

    See Also
    --------
    milearn.discriminant_analysis.ShareDiscriminant : The model.
    BagScoresDisplay : Scores of bags.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.discriminant_analysis import ShareDiscriminant
    >>> from milearn.inspection import ShareDisplay
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> changed = [rng.random(100) < (0.1 if label else 0.02) for label in y]
    >>> bags = Bags.from_list([rng.normal(size=(100, 5)) + 3.0 * each[:, None] for each in changed])
    >>> model = ShareDiscriminant().fit(bags, y)
    >>> display = ShareDisplay.from_estimator(model, bags, y)  # doctest: +SKIP
    """

    shares: Any
    share_scores: Any
    share: float
    selected: Any
    labels: Any
    scores: Any
    sizes: Any
    cut: float
    orientation: int = 1
    score_name: str = "score of the instance"
    valued: bool = False

    def __post_init__(self) -> None:
        for name in ("shares", "share_scores", "selected", "labels", "scores", "sizes"):
            setattr(self, name, np.asarray(getattr(self, name)))
        lengths = len(self.share_scores), len(self.selected), len(self.sizes), len(self.scores)
        if lengths != (len(self.shares), *2 * [len(self.labels)], self.sizes.sum()):
            raise ValueError(
                "Lengths differ: pass entries per share, per bag, and for scores per instance."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        kind: str = "bags",
        class_label: Any = None,
        ax: Any = None,
    ) -> ShareDisplay:
        """Plot a fitted share discriminant.

        Parameters
        ----------
        estimator : fitted estimator
            A :class:`~milearn.discriminant_analysis.ShareDiscriminant` or
            :class:`~milearn.discriminant_analysis.ShareRegressor`, a pipeline or a search, or a
            :class:`~milearn.MIClassifier` whose best model is "share".
        X : bags, see :class:`milearn.Bags`
            Bags to score, preferably test bags.
        y : array-like of shape (n_bags,)
            Class or value of each bag.
        kind : {"shares", "bags", "instances"}, default="bags"
            The picture. ``display.plot(kind=...)`` draws the others.
        class_label : label, default=None
            Class of the scores; required for three or more classes. By default, ``classes_[1]``.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.

        Returns
        -------
        ShareDisplay
            The display with the plot.
        """
        return cls._of(estimator, X, y, class_label).plot(ax, kind=kind)

    @classmethod
    def _of(cls, estimator: Any, X: Any, y: Any, class_label: Any = None) -> ShareDisplay:
        """The display of a fitted model without a plot."""
        bags = local_bags(X)
        model, rows = final_step(estimator, bags)
        if hasattr(model, "_share_step"):
            model, rows = model._share_step(rows)
        model = model_with(model, "share_scores_", "ShareDiscriminant")
        valued, score_name = not is_classifier(model), "value"
        labels = validate_labels(model, y, bags, numeric=valued)
        names = ("share_scores", "share", "cut", "orientation")
        found = {name: getattr(model, f"{name}_") for name in names}
        score = model.predict_instances if valued else model.instance_decision_function
        found |= {"selected": model.selected_share(rows).T, "scores": score(rows).T}
        if not valued:
            n = len(model.classes_)
            column = 1 if n == 2 and class_label is None else problem_of(model, n, class_label)
            score_name = f"score for class {model.classes_[column]}"
            if n > 2:
                found = {name: values[column] for name, values in found.items()}
            elif column == 0:
                found |= {name: -found[name] for name in ("scores", "cut", "orientation")}
        found |= {"shares": model.shares_, "labels": labels, "sizes": bags.sizes}
        return cls(score_name=score_name, valued=valued, **found)

    def plot(self, ax: Any = None, *, kind: str = "bags") -> ShareDisplay:
        """Plot one of the pictures.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.
        kind : {"shares", "bags", "instances"}, default="bags"
            The picture.

        Returns
        -------
        ShareDisplay
            This display.
        """
        if kind not in ("shares", "bags", "instances"):
            raise ValueError(f"kind={kind!r} is unknown: use 'shares', 'bags' or 'instances'.")
        self._open(ax)
        getattr(self, f"_plot_{kind}")()
        if kind != "shares":
            self.ax_.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        return self

    def _plot_shares(self) -> None:
        places, at = np.arange(len(self.shares)), np.argmin(np.abs(self.shares - self.share))
        (self.curve_,) = self.ax_.plot(places, self.share_scores, "o-", color=NEUTRAL)
        (self.chosen_,) = self.ax_.plot(at, self.share_scores[at], "D", c=COLORS[1], label="chosen")
        names = {0.0: "highest", 1.0: "all"}
        self.ax_.set_xticks(places, [names.get(q, f"{100 * q:g} %") for q in self.shares])
        score = "correlation on inner folds" if self.valued else "AUC on inner folds"
        self._label("share of the instances of a bag", score)

    def _plot_bags(self) -> None:
        places, colors, name = self.labels, [COLORS[0]], "value of the bag"
        if not self.valued:
            classes, codes = np.unique(self.labels, return_inverse=True)
            colors, name = [COLORS[code % len(COLORS)] for code in codes], "class"
            places = codes + np.random.default_rng(0).uniform(-0.25, 0.25, len(codes))
            middles = np.arange(len(classes))
            means = [self.selected[codes == code].mean() for code in middles]
            self.ax_.hlines(means, middles - 0.35, middles + 0.35, "black", label="mean")
            self.ax_.set_xticks(middles, classes)
        self.points_ = self.ax_.scatter(places, self.selected, s=26, c=colors, alpha=0.7, lw=0)
        self._label(name, f"instances with a\n{self._beyond()}")

    def _beyond(self) -> str:
        """What the selected instances have, for texts."""
        return f"{self.score_name} {'above' if self.orientation > 0 else 'below'} the cut"

    def _plot_instances(self) -> None:
        ax, labels, name = self.ax_, self.labels, "class"
        if self.valued:
            mean, name = labels.mean(), "value"
            labels = np.where(labels > mean, f"above {mean:.3g}", f"up to {mean:.3g}")
        # The cut is an edge, so that no bar has instances of both sides.
        step = np.ptp(self.scores) / 40 or 1.0
        low, high = np.floor((np.array([self.scores.min(), self.scores.max()]) - self.cut) / step)
        self.bins_ = self.cut + step * np.arange(low - 1, high + 2)
        weights, owners = np.repeat(1.0 / self.sizes, self.sizes), np.repeat(labels, self.sizes)
        self.counts_ = {}
        for code, label in enumerate(np.unique(labels).tolist()):
            mine = owners == label
            # Lines distinguish the classes for readers without colours.
            line, color = ("-", ":", "-.")[code % 3], COLORS[code % len(COLORS)]
            style = {"histtype": "step", "log": True, "lw": 2.0, "ls": line, "color": color}
            style |= {
                "label": f"{name} {label}",
                "weights": weights[mine] / (labels == label).sum(),
            }
            self.counts_[label], *_ = ax.hist(self.scores[mine], self.bins_, **style)
        end = (np.max if self.orientation > 0 else np.min)([*self.bins_, self.cut])
        ax.axvspan(self.cut, end, color=NEUTRAL, alpha=0.15, linewidth=0, label="selected")
        self.line_ = self._dashed(self.cut, "cut")
        self._label(self.score_name, "instances of a bag")
