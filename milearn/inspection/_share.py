"""Pictures and tables of a share discriminant: how many instances decide, and which."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import binomtest, false_discovery_control, ks_2samp
from sklearn.base import is_classifier
from sklearn.utils import check_consistent_length, gen_batches

from .._bags import Bags
from .._bags.canonical import check_choice, check_columns
from .._bags.kinds import ids as ids_of
from .._bags.names import bag_text
from .._bags.segments import without_rounding
from .._compat import need_module
from .._fit.validation import check_order, refuse_gaps, validate_labels
from ._scores import (
    COLORS,
    LINE,
    NEUTRAL,
    PYPLOT,
    Display,
    class_column,
    final_step,
    given_bags,
    label_text,
)

# Bytes of the features that are compared at once.
_AT_ONCE = 2**27


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
        In ``plot``, for an unknown ``kind``.

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
            Class of the scores; required for three or more classes. By default, ``classes_[1]``,
            or ``pos_label`` of :class:`~milearn.MIClassifier` if it was set.
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
        bags = given_bags(X)
        model, rows = final_step(estimator, bags)
        if hasattr(model, "_share_step"):
            model, rows = model._share_step(rows)
        if not hasattr(model, "share_scores_"):
            raise TypeError(
                f"{type(model).__name__} has no share_scores_: fit it first, or plot a model that "
                "has it, such as ShareDiscriminant."
            )
        valued, score_name = not is_classifier(model), "value"
        labels = validate_labels(model, y, bags, numeric=valued)
        refuse_gaps(labels)
        names = ("share_scores", "share", "cut", "orientation")
        found = {name: getattr(model, f"{name}_") for name in names}
        score = model.predict_instances if valued else model.instance_decision_function
        found |= {"selected": model.selected_share(rows).T, "scores": score(rows).T}
        if not valued:
            n = len(model.classes_)
            if n > 2 and class_label is None:
                raise ValueError(
                    f"The model solved {n} binary problems, one per class: name one by "
                    "class_label=."
                )
            column = class_column(model, class_label)
            score_name = f"score of {label_text(model.classes_[column])}"
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
        check_choice("kind", kind, ("shares", "bags", "instances"))
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


@dataclass(kw_only=True, eq=False, repr=False)
class ShareReport(Display):
    """Tables of the instances that a model selects, as returned by :func:`share_report`.

    Its text is a summary.

    Read more in the :ref:`User Guide <tutorial_cells>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    bags : pandas.DataFrame
        One row per bag: the columns of ``bag_data`` with one dimension, "group" if groups were
        passed, "label", "n_instances", "n_selected", "share" of the selected instances, the bounds
        "low" and "high" of its interval, and the "score" of the bag by the estimator.
    features : pandas.DataFrame
        One row per feature: its "mean_selected" and "mean_all" over instances, their difference in
        standard deviations of all instances ("effect"), the Kolmogorov-Smirnov statistic "ks"
        between selected and other instances, and its "p_value", adjusted by Benjamini and Hochberg.
        With ``within``, "mean_all" has as many instances of each type as are selected, the others
        are of these types too, and deviations are those from the mean of the type.
    instances : pandas.DataFrame
        One row per selected instance: the name or number of its "bag", its "position" in the bag,
        arrays of ``instance_data`` with one dimension, its "score", and its features. A feature or
        an entry of data with the name of another column, such as "score", is in the column
        "feature:score", "instance_data:score" or "bag_data:score". The index is that of
        ``instance_data``, such as the names of cells, if it is not 0, 1, ...
    display : ShareDisplay
        The scores of all instances, for further pictures.
    types : pandas.DataFrame, default=None
        With ``within``, one row per type, most selected first: "n_instances", "n_selected", the
        "share" of its instances that are selected, and its share "of_selected" instances.

    Attributes
    ----------
    axes_ : ndarray of two matplotlib Axes
        Shares by class, and effects of features.
    figure_ : matplotlib Figure
        Figure of the report.

    See Also
    --------
    share_report : Make a report.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.discriminant_analysis import ShareDiscriminant
    >>> from milearn.inspection import share_report
    >>> y = [0, 1] * 4
    >>> X = Bags.from_list([np.arange(10.0)[:, None] + label for label in y])
    >>> report = share_report(ShareDiscriminant(share=0.1).fit(X, y), X, y)
    >>> report.bags["n_selected"].tolist()
    [0, 1, 0, 1, 0, 1, 0, 1]
    >>> report.plot()  # doctest: +SKIP
    """

    bags: Any
    features: Any
    instances: Any
    display: ShareDisplay
    types: Any = None

    def plot(self, axes: Any = None, *, max_features: int = 20) -> ShareReport:
        """Plot the share of each bag by class, and the largest effects of features.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            Axes to plot on. If None, a new figure and axes are created.
        max_features : int, default=20
            Number of features with the largest absolute effects.

        Returns
        -------
        ShareReport
            This report.
        """
        if axes is None:
            _, axes = need_module(*PYPLOT).subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
        left, right = self.axes_ = np.asarray(axes)
        self.display.plot(left, kind="bags")
        effects = self._strongest(max_features)["effect"].iloc[::-1]
        right.barh(np.arange(len(effects)), effects, color=NEUTRAL)
        right.set_yticks(np.arange(len(effects)), [str(name) for name in effects.index])
        self._open(right)
        right.axvline(0.0, color=LINE, linewidth=0.8)
        self._label("effect, in standard deviations", "")
        return self

    def _strongest(self, count: int) -> Any:
        return self.features.sort_values("effect", key=lambda each: -each.abs()).head(count)

    def __repr__(self) -> str:
        bags, valued = self.bags, self.display.valued
        labels = np.full(len(bags), "all") if valued else bags["label"]
        of_labels = {"number": "size", "mean share": "mean", "lowest": "min", "highest": "max"}
        shares = bags["share"].groupby(labels).agg(**of_labels)
        tables = [_text(shares, "bags" if valued else "class", "{:.2%}")]
        if self.types is not None:
            some = self.types[["n_selected", "share"]].head(5)
            tables.append(_text(some, self.types.index.name, "{:.2%}"))
        tables.append(_text(self._strongest(5)[["effect", "ks"]], "feature", "{:.2f}"))
        return "\n".join(
            [
                f"{bags['n_selected'].sum():,} of {bags['n_instances'].sum():,} instances have a "
                f"{self.display._beyond()} {self.display.cut:.3g}.",
                *tables,
            ]
        )


def _text(table: Any, name: str, style: str) -> str:
    return str(table.rename_axis(index=None, columns=name).to_string(float_format=style.format))


def share_report(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    within: str | None = None,
    class_label: Any = None,
    confidence_level: float = 0.95,
) -> ShareReport:
    """Report which instances a share discriminant selects, how many, and how they differ.

    Read more in the :ref:`User Guide <tutorial_cells>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    estimator : fitted estimator
        A :class:`~milearn.discriminant_analysis.ShareDiscriminant` or
        :class:`~milearn.discriminant_analysis.ShareRegressor`, a pipeline or a search of one, or a
        :class:`~milearn.MIClassifier` or :class:`~milearn.MIRegressor` whose best model is "share".
        The steps of a pipeline have to keep the instances.
    X : bags, see :class:`milearn.Bags`
        Bags to describe, preferably bags that were not used in ``fit``.
    y : array-like of shape (n_bags,)
        Class or value of each bag.
    groups : array-like of shape (n_bags,), default=None
        Group of each bag, such as its donor, for a column of the table of bags.
    within : str, default=None
        Column of ``instance_data``, such as the type of each cell. Selected instances are compared
        with others of their type, so that features of a type that is selected more often have no
        effect by themselves. By default, with all others.
    class_label : label, default=None
        Class of the scores; required for three or more classes. By default, ``classes_[1]``, or
        ``pos_label`` of :class:`~milearn.MIClassifier` if it was set.
    confidence_level : float, default=0.95
        Level of the intervals of shares, between 0 and 1.

    Returns
    -------
    ShareReport
        Data frames ``bags``, ``features`` and ``instances``, and ``plot``.

    Raises
    ------
    TypeError
        If the model does not select a share of the instances.
    ValueError
        If all or none of the instances, or of those of each type, are selected, labels or groups
        have another length, there is no column ``within``, or ``confidence_level`` is not between 0
        and 1.
    ImportError
        Without pandas.

    See Also
    --------
    ShareDisplay : Pictures of the same model.
    milearn.model_selection.label_permutation_test : Test whether the score of a model is chance.

    Notes
    -----
    Selected instances are those beyond ``cut_``, as in ``selected_share``. Features are those of
    ``X``, also if a pipeline scales them.

    The p-values describe how well single features separate the selected instances. They are not a
    test of the classes, because the model chose these instances by their features. Instances of one
    bag are also not independent. Test the whole procedure by
    :func:`~milearn.model_selection.label_permutation_test`.

    The intervals are those of Clopper and Pearson for a binomial share. They contain the error that
    is due to the number of instances of the bag, and not that of the cut.

    Features are read a few at a time, and may be in a memory map.

    References
    ----------
    C. J. Clopper and E. S. Pearson. The use of confidence or fiducial limits illustrated in the
    case of the binomial. Biometrika 26(4), 1934.

    Y. Benjamini and Y. Hochberg. Controlling the false discovery rate: a practical and powerful
    approach to multiple testing. Journal of the Royal Statistical Society B 57(1), 1995.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn import Bags
    >>> from milearn.discriminant_analysis import ShareDiscriminant
    >>> from milearn.inspection import share_report
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> changed = [rng.random(200) < (0.1 if label else 0.02) for label in y]
    >>> shift = np.array([3.0, 0.0, 0.0])
    >>> cells = [rng.normal(size=(200, 3)) + shift * each[:, None] for each in changed]
    >>> bags = Bags.from_list(cells)
    >>> model = ShareDiscriminant().fit(bags[:40], y[:40])
    >>> report = share_report(model, bags[40:], y[40:])
    >>> report.features["effect"].abs().idxmax()
    'x0'
    >>> report.bags.groupby("label")["share"].mean().round(1).tolist()
    [0.0, 0.1]
    """
    import pandas

    if not 0.0 < confidence_level < 1.0:
        raise ValueError(f"confidence_level={confidence_level!r} must be between 0 and 1.")
    bags = given_bags(X)
    check_order(bags, groups=groups)
    check_consistent_length(bags, groups)
    display = ShareDisplay._of(estimator, bags, y, class_label)
    chosen = display.orientation * display.scores > display.orientation * display.cut
    rows, types = np.flatnonzero(chosen), np.zeros(len(chosen), dtype=np.intp)
    if within is not None:
        check_columns("instance_data", [within], list(bags.instance_data))
        types, names = pandas.factorize(bags.instance_data[within], use_na_sentinel=False)
    of_types = np.bincount(types), np.bincount(types[rows], minlength=types.max() + 1)
    if len(rows) == 0 or not (of_types[0] > of_types[1])[types[rows]].any():
        raise ValueError(
            f"The model selects {len(rows)} of {len(chosen)} instances: there is nothing to "
            "compare. Pass bags of both classes, such as those of the fit."
        )
    owners = bags.bag_index[rows]
    ids = np.arange(len(bags)) if bags.names is None else bags.names
    counts = np.bincount(owners, minlength=len(bags))
    pairs = zip(counts.tolist(), bags.sizes.tolist(), strict=True)
    low, high = np.transpose([binomtest(*p).proportion_ci(confidence_level) for p in pairs])
    of_bags = {} if groups is None else {"group": ids_of(groups, "groups", partial(bag_text, bags))}
    of_bags |= {"label": display.labels, "n_instances": bags.sizes, "n_selected": counts}
    of_bags |= {"share": display.selected, "low": low, "high": high}
    of_bags["score"] = _bag_scores(estimator, bags, display.valued, class_label)
    of_rows = {"bag": ids[owners], "position": rows - bags.offsets[owners]}
    of_rows["score"] = display.scores[rows]
    listed = _columns("instance_data", bags.instance_data.iloc[rows], of_rows) | of_rows
    given = bags.feature_names
    known = [f"x{n}" for n in range(bags.shape[1])] if given is None else given.tolist()
    taken = pandas.DataFrame(
        _dense(bags.source().gather(rows)),
        columns=[_distinct("feature", name, listed) for name in known],
    )
    table = pandas.concat([pandas.DataFrame(listed), taken], axis=1)
    own = bags.instance_data.index
    if not own.equals(pandas.RangeIndex(len(own))):
        table.index = own[rows]
    features = pandas.DataFrame(_features(bags, chosen, types), index=known)
    by_type = None
    if within is not None:
        by_type = pandas.DataFrame(index=pandas.Index(names, name=within))
        by_type["n_instances"], by_type["n_selected"] = of_types
        by_type["share"] = by_type["n_selected"] / by_type["n_instances"]
        by_type["of_selected"] = by_type["n_selected"] / len(rows)
        by_type = by_type.sort_values("n_selected", ascending=False, kind="stable")
    return ShareReport(
        bags=pandas.DataFrame(
            _columns("bag_data", bags.bag_data, {"bag", *of_bags}) | of_bags, index=ids
        ).rename_axis("bag"),
        features=features.rename_axis("feature"),
        instances=table,
        display=display,
        types=by_type,
    )


def _distinct(kind: str, name: str, taken: Container[str]) -> str:
    """The name of a column, after its kind if the name is taken."""
    return f"{kind}:{name}" if name in taken else name


def _columns(kind: str, data: Any, taken: Container[str]) -> dict[str, Any]:
    return {_distinct(kind, name, taken): data[name].array for name in data.columns}


def _dense(rows: Any) -> np.ndarray:
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


def _bag_scores(estimator: Any, bags: Bags, valued: bool, class_label: Any) -> np.ndarray:
    """Values of the bags, or their scores for a class."""
    if valued:
        return np.asarray(estimator.predict(bags))
    scores = np.asarray(estimator.decision_function(bags))
    column = class_column(estimator, class_label)
    return (2 * column - 1) * scores if scores.ndim == 1 else scores[:, column]


def _features(bags: Bags, chosen: np.ndarray, types: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of the table of features, which are read a few at a time."""
    found: list[tuple[float, ...]] = []
    sizes = np.bincount(types)
    # Instances of the types of which some are selected.
    alike = (np.bincount(types[chosen], minlength=len(sizes)) > 0)[types]
    for some in gen_batches(bags.shape[1], max(1, _AT_ONCE // (8 * bags.n_instances))):
        blocks = bags.source().blocks(in_parts=True)
        values = np.concatenate([_dense(block.instances[:, some]) for block in blocks])
        for column in values.T:
            column = column.astype(np.float64)
            of_type = (np.bincount(types, column) / sizes)[types]
            means, centred = (column[chosen].mean(), of_type[chosen].mean()), column - of_type
            spread = float(without_rounding(centred[alike].std(), means[1]))
            effect = (means[0] - means[1]) / spread if spread > 0 else 0.0
            # Means of types of a constant differ in the last digit.
            parts = [(spread > 0) * centred[each] for each in (chosen, alike & ~chosen)]
            found.append((*means, effect, *ks_2samp(*parts, method="asymp")))
    names = ("mean_selected", "mean_all", "effect", "ks", "p_value")
    table = dict(zip(names, np.transpose(found), strict=True))
    return table | {"p_value": false_discovery_control(table["p_value"])}
