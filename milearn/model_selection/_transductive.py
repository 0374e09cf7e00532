"""Transductive evaluation: all bags are kept, and only labels are hidden."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import Bunch
from sklearn.utils.parallel import Parallel, delayed

from .._bags.names import bag_text
from .._fit.validation import (
    as_bags,
    check_order,
    missing_labels,
    partial_labels,
    refuse_outcomes,
    single_scorer,
)
from ._intervals import KnownPredictions
from ._splitters import StratifiedBagKFold, warn_of_shared_groups


def transductive_cross_val_score(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    scoring: Any = None,
    unlabeled: Any = None,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Cross-validate with hidden labels of the test bags instead of without these bags.

    Ordinary cross-validation removes the test bags and their links. Here every fit uses all bags
    and the whole graph, and only the labels of the test bags are missing. The score measures how
    well missing labels of known bags are predicted. It cannot be compared with a score for new
    bags.

    Read more in the :ref:`User Guide <methods_links>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    estimator : estimator instance
        An estimator that supports missing labels, such as :class:`milearn.structured.MILSD`. Its
        ``transduction_`` is evaluated if it exists, otherwise its predictions for ``X``.
    X : bags, see :class:`milearn.Bags`
        With their graphs.
    y : array-like of shape (n_bags,)
        Class of each bag. Bags without a class (NaN, None, or the value of ``unlabeled``) are
        not tested.
    cv : int or splitter, default=5
        A splitter, or the number of folds of :class:`StratifiedBagKFold`. Only the labels of the
        training bags of a split are used.
    groups : array-like of shape (n_bags,), default=None
        Passed to the splitter.
    scoring : str or callable, default=None
        Name of a scorer, see :func:`sklearn.metrics.get_scorer_names`, or a callable
        ``scorer(estimator, X, y)``, such as those of :func:`sklearn.metrics.make_scorer`. It is
        called with the test bags, but predictions were computed with all bags. By default, the
        accuracy is used.
    unlabeled : label, default=None
        A value of ``y`` that marks bags without a label, in addition to NaN and None. Hidden labels
        are replaced by it. Use the same value as for the estimator.
    n_jobs : int, default=None
        Number of splits that are fitted in parallel. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.

    Returns
    -------
    ndarray of shape (n_splits,)
        Score of each split.

    Raises
    ------
    ValueError
        If a test set contains a bag without a label, or ``scoring`` is unknown or is a metric
        instead of a scorer.

    Warns
    -----
    UserWarning
        If a group is on both sides of a split.

    See Also
    --------
    transductive_grid_search : Parameter search with this score.

    References
    ----------
    D. Zhang, Y. Liu, L. Si, J. Zhang, R. D. Lawrence. Multiple Instance Learning on Structured
    Data. NIPS 24, 2011.

    Examples
    --------
    >>> from milearn import Bags
    >>> from milearn.datasets import make_bags
    >>> from milearn.model_selection import transductive_cross_val_score
    >>> from milearn.structured import MILSD
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> linked = Bags(bags.instances, bags.offsets, bag_graph=y[:, None] == y)
    >>> transductive_cross_val_score(MILSD(), linked, y, cv=4).shape
    (4,)
    """
    options = {"cv": cv, "groups": groups, "scoring": scoring, "unlabeled": unlabeled}
    found = transductive_grid_search(estimator, {}, X, y, refit=False, n_jobs=n_jobs, **options)
    scores: np.ndarray = found.scores[0]
    return scores


def transductive_grid_search(
    estimator: Any,
    param_grid: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    scoring: Any = None,
    unlabeled: Any = None,
    refit: bool = True,
    n_jobs: int | None = None,
) -> Bunch:
    """Choose parameters by :func:`transductive_cross_val_score`.

    Read more in the :ref:`User Guide <methods_links>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    estimator : estimator instance
        An estimator that supports missing labels; it is cloned.
    param_grid : dict or list of dict
        As for :class:`~sklearn.model_selection.GridSearchCV`.
    X, y, cv, groups, scoring, unlabeled : see :func:`transductive_cross_val_score`
        Data, splits and score.
    refit : bool, default=True
        Whether to fit an estimator with the best parameters and all labels.
    n_jobs : int, default=None
        Number of fits that run in parallel, over splits and parameters; as for
        :func:`transductive_cross_val_score`.

    Returns
    -------
    Bunch
        ``best_params``, ``best_score``, ``best_estimator`` (fitted, None without ``refit``),
        ``params`` (list of dict), and ``scores`` and ``fit_seconds`` of shape
        (n_params, n_splits). Ties are broken in favour of the first parameters.

    Raises
    ------
    ValueError
        If parameters are unknown, or as in :func:`transductive_cross_val_score`.

    See Also
    --------
    transductive_cross_val_score : Scores of one choice of parameters.
    sklearn.model_selection.GridSearchCV : A search that removes the test bags.

    Notes
    -----
    If parameters are chosen and scored on the labels of the same bags, the score is too high. To
    estimate the accuracy, repeat the search inside every split, with the labels of its test bags
    hidden.

    References
    ----------
    D. Zhang, Y. Liu, L. Si, J. Zhang, R. D. Lawrence. Multiple Instance Learning on Structured
    Data. NIPS 24, 2011.

    Examples
    --------
    >>> from milearn import Bags
    >>> from milearn.datasets import make_bags
    >>> from milearn.model_selection import transductive_grid_search
    >>> from milearn.structured import MILSD
    >>> bags, y = make_bags(n_bags=40, random_state=0)
    >>> linked = Bags(bags.instances, bags.offsets, bag_graph=y[:, None] == y)
    >>> found = transductive_grid_search(MILSD(), {"mu": [0.0, 10.0]}, linked, y, cv=4)
    >>> sorted(found.best_params)
    ['mu']
    """
    refuse_outcomes(y)
    bags = as_bags(X)
    if bags is not None:
        check_order(bags, y=y, groups=groups)
    params, labels = list(ParameterGrid(param_grid)), partial_labels(y)
    if isinstance(cv, (int, np.integer)):
        cv = StratifiedBagKFold(int(cv), unlabeled=unlabeled)
    missing = missing_labels(labels, unlabeled)
    splits = list(cv.split(X, labels, groups))
    warn_of_shared_groups(groups, splits, "The input")
    for number, (_, test) in enumerate(splits):
        if missing[test].any():
            tested = int(test[missing[test]][0])
            raise ValueError(
                f"Split {number} tests {bag_text(bags, tested)}, which has no label: use a "
                "splitter of milearn.model_selection with the same unlabeled."
            )
    data = X if bags is None else bags
    found = Parallel(n_jobs=n_jobs)(
        delayed(_score)(
            clone(estimator).set_params(**each), data, labels, split, scoring, unlabeled
        )
        for each, split in product(params, splits)
    )
    shape = len(params), len(splits), 2
    scores, seconds = np.array(found, dtype=float).reshape(shape).transpose(2, 0, 1)
    means = scores.mean(axis=1)
    if np.isnan(means).all():
        raise ValueError(
            "Every setting has a score that is NaN on a split: use fewer splits, whose test sets "
            "have bags of each class, or a scoring that is defined for them, such as accuracy."
        )
    # Means of the same scores in a different order differ in the last digit. Ignore this. NaN is
    # never the best.
    best = int(np.argmax(means >= np.nanmax(means) - 1e-12))
    model = clone(estimator).set_params(**params[best]).fit(X, y) if refit else None
    return Bunch(
        best_params=params[best],
        best_score=float(means[best]),
        best_estimator=model,
        params=params,
        scores=scores,
        fit_seconds=seconds,
    )


def _score(
    estimator: Any,
    X: Any,
    labels: np.ndarray,
    split: tuple[np.ndarray, np.ndarray],
    scoring: Any,
    unlabeled: Any,
) -> tuple[float, float]:
    """Score and time of a fit that uses only the labels of ``train``."""
    train, test = split
    hide = ~np.isin(np.arange(len(labels)), train)
    if unlabeled is None and labels.dtype.kind == "f":
        known = np.where(hide, np.nan, labels)
    else:
        known = labels.astype(object)
        known[hide] = unlabeled
    begin = time.perf_counter()
    estimator.fit(X, known)
    seconds = time.perf_counter() - begin
    # Convert to plain values: a column that contains None has dtype object.
    truth = np.array(labels[test].tolist())
    view = KnownPredictions(estimator, X, test)
    if getattr(estimator, "transduction_", None) is not None:
        view.known["predict"] = np.asarray(estimator.transduction_)
    return float(single_scorer(view, scoring)(view, X, truth)), seconds
