"""Importance of features by permutation of their values over all instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.utils import Bunch, check_random_state

from .._bags import Bags
from .._bags.index import column_key
from .._fit.validation import single_scorer, validate_bags
from ..model_selection._problem import check_count
from ._plotting import COLORS, LINE, Display


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
    """Decrease of a score if the values of features are permuted over all instances.

    The values of a feature, or the rows of a group of features, are exchanged between instances of
    all bags. Bags keep their sizes and their other features. scikit-learn's function of this name
    permutes rows of a matrix, and raises a TypeError for bags.

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
        kept = np.ones(bags.shape[1])
        kept[columns] = 0.0
        chosen = sparse.diags_array(1.0 - kept)
        instances = bags.instances @ sparse.diags_array(kept) + (bags.instances @ chosen)[order]
        instances = sparse.csr_array(instances)
        instances.eliminate_zeros()
    else:
        instances = bags.instances.copy()
        instances[:, columns] = instances[order][:, columns]
    return bags.with_instances(instances, feature_names=bags.feature_names)


@dataclass(kw_only=True, eq=False, repr=False)
class PermutationImportanceDisplay(Display):
    """Importances of features or groups of features, the most important first.

    It is recommended to use :meth:`from_estimator`.

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
