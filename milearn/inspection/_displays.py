"""Displays of bag scores and of ranks, and importances of features by permutation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import t
from sklearn.base import is_regressor
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.parallel import Parallel, delayed

from .._bags import Bags
from .._bags.canonical import check_choice, check_positive, column_key
from .._bags.kinds import targets
from .._fit.validation import (
    check_n_labels,
    check_order,
    refuse_outcomes,
    single_scorer,
    validate_bags,
    validate_labels,
)
from ..model_selection import Ranks
from ..model_selection._intervals import KnownPredictions, dealt, influences
from ._scores import COLORS, LINE, NEUTRAL, Display, class_column, given_bags, label_text


@dataclass(kw_only=True, eq=False, repr=False)
class BagScoresDisplay(Display):
    """Scores of bags by class and the decision threshold, or predicted against true values.

    A threshold far from the crossing of the distributions explains a high AUC with a low accuracy.
    Overlapping distributions explain a low AUC. Use bags that were not in the training data. It is
    recommended to use :meth:`from_estimator`, and the constructor for scores of a cross-validation.
    The values that a regressor predicts are drawn against the true ones.

    Read more in the :ref:`User Guide <guide_probabilities>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    scores : array-like of shape (n_bags,)
        Score, or predicted value, of each bag.
    labels : array-like of shape (n_bags,)
        Class, or true value, of each bag.
    threshold : float, default=None
        Score above which a bag is predicted positive; None for no line.
    score_name : str, default="score of the bag"
        Label of the scores.
    valued : bool, default=False
        Whether labels are values.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the display.
    figure_ : matplotlib Figure
        Figure of the display.
    points_ : matplotlib PathCollection
        The bags; only for values.
    bins_ : ndarray of shape (n_bins + 1,)
        Edges of the bins, the same for all classes.
    counts_ : dict of ndarray of shape (n_bins,)
        Heights of the bars by class.
    patches_ : dict of list of matplotlib Polygon
        The histogram of each class.
    line_ : matplotlib Line2D or None
        The threshold, or the line on which predicted values are right.

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
    valued: bool = False

    def __post_init__(self) -> None:
        self.labels = np.asarray(self.labels)
        self.scores = np.asarray(self.scores, dtype=np.float64)

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
        """Plot the bag scores of a fitted classifier, or the predictions of a regressor.

        Parameters
        ----------
        estimator : fitted classifier or regressor
            A classifier has ``decision_function`` or ``predict_proba``.
        X : bags, see :class:`milearn.Bags`
            Bags to score, preferably test bags.
        y : array-like of shape (n_bags,)
            Class or value of each bag.
        response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
            The scores; "auto" uses ``decision_function`` if there is one. For
            :class:`~sklearn.model_selection.TunedThresholdClassifierCV` it uses the scores for
            which the threshold was tuned.
        class_label : label, default=None
            Class of the scores; required for three or more classes. By default, ``classes_[1]``,
            or ``pos_label`` if it was set.
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
        AttributeError
            If the estimator is neither classifier nor regressor, or lacks the response method.
        ValueError
            For an unknown ``response_method``, three or more classes without ``class_label``, or
            values that are not finite.
        """
        if isinstance(X, Bags):
            check_order(X, y=y)
        refuse_outcomes(y, estimator)
        if is_regressor(estimator):
            labels = validate_labels(estimator, y, given_bags(X), numeric=True)
            found, name = estimator.predict(X), "predicted value"
            return cls(scores=found, labels=labels, score_name=name, valued=True).plot(ax)
        order = ["decision_function", "predict_proba"]
        check_choice("response_method", response_method, ["auto", *order])
        tuned = getattr(estimator, "best_threshold_", None)
        if tuned is not None:
            # scikit-learn's order for "auto" in the tuning of thresholds.
            given = getattr(estimator, "response_method", "auto")
            order = order[::-1] if given == "auto" else [given]
        tuned_on = next((name for name in order if hasattr(estimator, name)), " or ".join(order))
        name = tuned_on if response_method == "auto" else response_method
        values = np.asarray(getattr(estimator, name)(X), dtype=np.float64)
        classes = estimator.classes_
        column = class_column(estimator, class_label)
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
        what = "probability" if name == "predict_proba" else "score"
        what = f"{what} of {label_text(classes[column])}"
        display = cls(scores=values, labels=y, threshold=threshold, score_name=what)
        return display.plot(ax, bins=bins, density=density)

    def plot(self, ax: Any = None, *, bins: Any = 20, density: bool = False) -> BagScoresDisplay:
        """Plot the histograms, or the values.

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
        ax = self._open(ax, (4.6, 4.2) if self.valued else (7.4, 3.8))
        if self.valued:
            self.points_ = ax.scatter(self.labels, self.scores, s=26, c=COLORS[0], alpha=0.7, lw=0)
            ends = [each([*self.labels, *self.scores]) for each in (min, max)]
            (self.line_,) = ax.plot(ends, ends, "--", color=LINE, lw=1.2, label="predicted = true")
            self._label("true value", self.score_name)
            return self
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


@dataclass(kw_only=True, eq=False, repr=False)
class CriticalDifferenceDisplay(Display):
    """Average ranks of methods over data sets, and which of them do not differ significantly.

    A row is a method, and rank 1 is the best. A bar to the right joins methods that are next to
    each other in the ranking, and of which no pair is significantly different by Wilcoxon's
    signed-rank test with Holm's correction.

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
        The average ranks, best first.
    texts_ : list of matplotlib Text
        Names of the methods, best first.
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
        found, titles = self.ranks, self.titles or {}
        rows = np.arange(len(found.methods))
        ax = self._open(ax, (6.8, 1.4 + 0.3 * len(rows)))
        self.points_ = ax.scatter(found.ranks, rows, s=30, color=COLORS[0], zorder=3)
        ax.hlines(rows, 1, found.ranks, color=NEUTRAL, linewidth=0.8)
        ax.set_yticks(rows, [titles.get(each, each) for each in found.methods])
        self.texts_ = ax.get_yticklabels()
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.xaxis.get_major_locator().set_params(integer=True)
        self.bars_ = []
        for number, ends in enumerate(found.cliques()):
            style = {"color": LINE, "linewidth": 3.5, "solid_capstyle": "butt"}
            place = len(rows) * (1.04 + 0.03 * number)
            self.bars_ += ax.plot([place] * 2, np.add(ends, [-0.2, 0.2]), **style)
        title = f"bars join what does not differ (Wilcoxon and Holm, level {found.alpha:g})"
        ax.set_title(title, fontsize=9, loc="left")
        self._label(f"average rank over {found.n_datasets} data sets", "")
        return self


_PARTS = 20  # of the bags, for intervals


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
        :obj:`joblib.parallel_config` context; -1 means all processors.
    random_state : int, RandomState instance or None, default=None
        Determines the permutations. Pass an int for reproducible results.

    Returns
    -------
    Bunch
        ``importances`` of shape (n_features, n_repeats), the decreases of the score, with their
        ``importances_mean`` and ``importances_std`` over repeats; ``intervals`` of shape
        (n_features, 2), the 95 % intervals of the means over bags; ``feature_names`` of shape
        (n_features,); and ``baseline_score``, the score without a permutation.

    Raises
    ------
    ValueError
        If ``n_repeats`` is below 1, a group is empty, or the number of labels is not that of the
        bags.
    IndexError
        If there is no feature of a name or number.

    See Also
    --------
    sklearn.inspection.permutation_importance : The function for rows.

    Notes
    -----
    The intervals are for this fitted model and other bags of the same kind. They are those of the
    jackknife, which leaves out one of at most 20 parts of the bags at a time, and of the repeats.
    They are NaN for a score that is not a function of predictions, or not defined without a part,
    and where all bags are right with and without a feature.

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
    check_positive(n_repeats=n_repeats)
    # Values that are missing are the matter of the estimator, which may impute them.
    bags = validate_bags(None, X, ensure_all_finite="allow-nan")
    check_order(bags, y=y)
    refuse_outcomes(y, estimator)
    labels = np.atleast_1d(np.asarray(targets(y)))
    check_n_labels(labels, bags)
    names, columns = _groups(bags, features)
    scorer = single_scorer(estimator, scoring)
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    score = partial(_score, scorer, estimator, labels, weights)
    baseline, own = score(bags)
    seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=len(columns))
    found = Parallel(n_jobs=n_jobs)(
        delayed(_permuted_scores)(score, bags, group, int(seed), n_repeats)
        for group, seed in zip(columns, seeds, strict=True)
    )
    importances = baseline - np.array([[each for each, _ in one] for one in found])
    means, spreads = importances.mean(axis=1), importances.std(axis=1)
    error = np.full(len(means), np.nan)
    if own and all(each for one in found for _, each in one):
        parts = np.array([[[*each.values()] for _, each in one] for one in found])
        error = np.linalg.norm([*own.values()] - parts.mean(axis=1), axis=1)
    half = np.hypot(error, spreads / np.sqrt(max(n_repeats - 1, 1)))
    half *= t.ppf(0.975, min(len(bags), _PARTS) - 1)
    if own and not any(own.values()):
        half[half == 0] = np.nan  # other bags would not all be right
    return Bunch(
        importances=importances,
        importances_mean=means,
        intervals=np.stack([means - half, means + half], axis=1),
        importances_std=spreads,
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
) -> tuple[float, dict[int, float] | None]:
    """The score, and what parts of the bags add to it."""
    view, rows = KnownPredictions(estimator, bags, np.arange(len(y))), np.arange(len(y))

    def of_rows(view: Any, some: np.ndarray, labels: np.ndarray) -> float:
        return float(
            scorer(view, some, labels, **{n: np.asarray(w)[some] for n, w in weights.items()})
        )

    # Scorers of metrics use predictions only, which the view computes once.
    value = float(scorer(view if hasattr(scorer, "_score_func") else estimator, bags, y, **weights))
    return value, influences(of_rows, view, y, dealt(rows, _PARTS), value)


def _permuted_scores(
    score: Callable[[Bags], Any], bags: Bags, columns: np.ndarray, seed: int, n_repeats: int
) -> list[Any]:
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
