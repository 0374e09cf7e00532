"""Tables of a share discriminant: shares of bags, features and list of the selected instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import beta, false_discovery_control, ks_2samp
from sklearn.utils import check_consistent_length, gen_batches

from .._bags import Bags
from .._bags.arrow import need_module
from ._scores import LINE, NEUTRAL, Display, class_column, local_bags, pyplot
from ._share import ShareDisplay

# Bytes of the features that are compared at once.
_AT_ONCE = 2**27


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
    instances : pandas.DataFrame
        One row per selected instance: the number of its "bag", its "position" in the bag, arrays of
        ``instance_data`` with one dimension, its "score", and its features. In both tables a column
        of yours with the name of another one is named with its origin, as "score (feature)".
    display : ShareDisplay
        The scores of all instances, for further pictures.

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
            _, axes = pyplot().subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
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
        shares = bags["share"].groupby(labels).agg(["size", "mean", "min", "max"])
        side = "above" if self.display.orientation > 0 else "below"
        lines = [
            f"{bags['n_selected'].sum():,} of {bags['n_instances'].sum():,} instances have a score "
            f"{side} the cut {self.display.cut:.3g}.",
            f"{'bags' if valued else 'class':<18}{'number':>8}{'mean share':>12}"
            f"{'lowest':>10}{'highest':>10}",
        ]
        for label, count, mean, low, high in shares.itertuples():
            lines.append(f"{label!s:<18}{count:>8}{mean:>12.2%}{low:>10.2%}{high:>10.2%}")
        lines.append(f"{'feature':<18}{'effect':>8}{'KS':>12}")
        for name, effect, ks in self._strongest(5)[["effect", "ks"]].itertuples():
            lines.append(f"{name!s:<18}{effect:>+8.2f}{ks:>12.2f}")
        return "\n".join(lines)


def share_report(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
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
    class_label : label, default=None
        Class of the scores; required for three or more classes. By default, ``classes_[1]``.
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
        If all or none of the instances are selected, labels or groups have another length, or
        ``confidence_level`` is not between 0 and 1.
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
    pandas = need_module("pandas", "share_report")
    if not 0.0 < confidence_level < 1.0:
        raise ValueError(f"confidence_level={confidence_level!r} must be between 0 and 1.")
    bags = local_bags(X)
    check_consistent_length(bags, groups)
    display = ShareDisplay._of(estimator, bags, y, class_label)
    chosen = display.orientation * display.scores > display.orientation * display.cut
    rows = np.flatnonzero(chosen)
    if len(rows) in (0, len(chosen)):
        raise ValueError(
            f"The model selects {len(rows)} of {len(chosen)} instances: there is nothing to "
            "compare. Pass bags of both classes, such as those of the fit."
        )
    owners = bags.bag_index[rows]
    counts = np.bincount(owners, minlength=len(bags))
    low, high = _interval(counts, bags.sizes, confidence_level)
    found = {} if groups is None else {"group": np.asarray(groups)}
    found |= {"label": display.labels, "n_instances": bags.sizes, "n_selected": counts}
    found |= {"share": display.selected, "low": low, "high": high}
    found["score"] = _bag_scores(estimator, bags, display.valued, class_label)
    of_bags = _columns(bags.bag_data, ("bag", *found), "bag_data") | found
    selected = {"bag": owners, "position": rows - bags.offsets[owners]}
    selected["score"] = display.scores[rows]
    given = bags.feature_names
    names = [f"x{n}" for n in range(bags.shape[1])] if given is None else given.tolist()
    of_rows = _columns(bags.instance_data, (*selected, *names), "instance_data")
    listed = {name: values[rows] for name, values in of_rows.items()} | selected
    taken = pandas.DataFrame(_dense(bags.source().gather(rows)))
    taken.columns = [_beside(name, selected, "feature") for name in names]
    features = pandas.DataFrame(_features(bags, chosen), index=names)
    return ShareReport(
        bags=pandas.DataFrame(of_bags).rename_axis("bag"),
        features=features.rename_axis("feature"),
        instances=pandas.concat([pandas.DataFrame(listed), taken], axis=1),
        display=display,
    )


def _columns(data: Any, others: Any, what: str) -> dict[str, np.ndarray]:
    """The arrays of one dimension, by names beside those of the other columns."""
    return {_beside(name, others, what): each for name, each in data.items() if each.ndim == 1}


def _beside(name: str, others: Any, what: str) -> str:
    return f"{name} ({what})" if name in others else name


def _dense(rows: Any) -> np.ndarray:
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


def _interval(counts: Any, sizes: Any, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The interval of Clopper and Pearson for each share."""
    tail = (1.0 - level) / 2.0
    low = beta.ppf(tail, counts, sizes - counts + 1)
    high = beta.ppf(1.0 - tail, counts + 1, sizes - counts)
    return np.where(counts == 0, 0.0, low), np.where(counts == sizes, 1.0, high)


def _bag_scores(estimator: Any, bags: Bags, valued: bool, class_label: Any) -> np.ndarray:
    """Values of the bags, or their scores for a class."""
    if valued:
        return np.asarray(estimator.predict(bags))
    scores = np.asarray(estimator.decision_function(bags))
    column = 1 if class_label is None else class_column(estimator, class_label)
    return (2 * column - 1) * scores if scores.ndim == 1 else scores[:, column]


def _features(bags: Bags, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of the table of features, which are read a few at a time."""
    found: list[tuple[float, ...]] = []
    for some in gen_batches(bags.shape[1], max(1, _AT_ONCE // (8 * bags.n_instances))):
        blocks = bags.source().blocks(in_parts=True)
        values = np.concatenate([_dense(block.instances[:, some]) for block in blocks])
        for column in values.T:
            column = column.astype(np.float64)
            selected, others = column[chosen], column[~chosen]
            means, spread = (selected.mean(), column.mean()), column.std()
            effect = (means[0] - means[1]) / spread if spread > 0 else 0.0
            found.append((*means, effect, *ks_2samp(selected, others, method="asymp")))
    names = ("mean_selected", "mean_all", "effect", "ks", "p_value")
    table = dict(zip(names, np.transpose(found), strict=True))
    return table | {"p_value": false_discovery_control(table["p_value"])}
