"""Test whether the score of a model could be due to chance, by permuted labels."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.base import clone, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline
from sklearn.utils import (
    Bunch,
    check_consistent_length,
    check_random_state,
    column_or_1d,
    get_tags,
)
from sklearn.utils.parallel import Parallel, delayed

from .._bags.canonical import check_positive
from .._fit.validation import refuse_outcomes, single_scorer
from ._compare import data_of, fit_params, splits_of
from ._splitters import linked_groups


def label_permutation_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    strata: Any = None,
    cv: Any = 5,
    scoring: Any = None,
    n_permutations: int = 99,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Bunch:
    """Test whether the score of a model could be due to chance, by permuted labels.

    Labels are permuted among the bags of each test set, so that the folds keep their classes, and
    the mean score over the folds is compared with that of the observed labels. It differs from
    :func:`sklearn.model_selection.permutation_test_score` in three points:

    * Steps of a pipeline that do not use labels, such as scalers, codebooks and other embeddings,
      are fitted once per fold, and not once per fold and permutation.
    * With a single split, such as ``cv=BagShuffleSplit(1, test_size=0.5, random_state=0)``, the
      model is fitted once, because the labels of the training bags are not permuted. This takes the
      time of a single fit and of the predictions. It has less power than cross-validation, because
      fewer bags are used for the fit and for the score.
    * The result does not depend on ``n_jobs``, and has the smallest possible p-value.

    Read more in the :ref:`User Guide <guide_compare>`.

    .. versionadded:: 0.3.0

    Parameters
    ----------
    estimator : classifier, regressor or pipeline
        Model that predicts bags. It is cloned.
    X : bags, see :class:`milearn.Bags`
        Bags.
    y : array-like of shape (n_bags,)
        Labels or values of the bags.
    groups : array-like of shape (n_bags,) or (n_bags, n_columns), default=None
        Bags that stay together, such as those of a donor: they have one label, are in one fold, and
        exchange their labels as one. Passed to the splitter, and to ``fit`` of models that have the
        argument. Bags with the same entry in any column are one group.
    strata : array-like of shape (n_bags,) or (n_bags, n_columns), default=None
        Bags or groups exchange their labels with others of their stratum only, such as the batch or
        the site, or the pair of a paired design. A stratum may be divided between folds. Two or
        more columns are combined.
    cv : int, splitter or iterable of splits, default=5
        Folds, whose test sets must not overlap. An integer is the number of shuffled folds, with as
        many bags or groups of each class in each fold, of each stratum too. Strata with fewer bags
        or groups than folds, such as pairs, are not divided. Bags that are in no test set keep
        their labels.
    scoring : str or callable, default=None
        Name of a scorer or a callable ``scorer(estimator, X, y)``; by default, the ``score`` of
        the estimator.
    n_permutations : int, default=99
        Number of permutations; the smallest p-value is ``1 / (n_permutations + 1)``.
    n_jobs : int, default=None
        Number of jobs that run in parallel, over permutations. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.
    random_state : int, RandomState instance or None, default=None
        Determines the permutations, the default folds, and each ``random_state`` of the estimator
        that is None. Pass an int for the same result at every call.

    Returns
    -------
    Bunch
        ``score``, the mean over the folds; ``permutation_scores`` of shape (n_permutations,);
        ``p_value``, the share of scores that are not lower, ``score`` included; and
        ``smallest_p_value``, the smallest p-value of this number of permutations, or of all
        orders of the labels if there are fewer.

    Raises
    ------
    ValueError
        If test sets overlap, the bags of a group differ in their label, test set or stratum, fewer
        bags, groups or undivided strata than folds have a class, no permutation changes a label, or
        the score of a fold is NaN.

    See Also
    --------
    confounder_baseline : Scores of models that see the site, or the sizes of bags, only.
    sklearn.model_selection.permutation_test_score : The function that refits everything.

    Notes
    -----
    The steps before the last are fitted once per fold, without labels, if none of them or of their
    parts selects features or requires a target by its tags. Otherwise all steps are fitted to each
    permutation.

    Predictions of several folds that are compared with permuted labels without a new fit would not
    be a test: each test set is a part of the other training sets, and p-values would be too small.

    The test is exact if the folds do not tell which bag of a test set has which label. The default
    folds use the labels of bags or groups only. :class:`StratifiedBagKFold` also makes the numbers
    of instances of each class similar in all folds, so that p-values are approximate if the model
    uses the size of a bag.

    Kernels do not depend on labels either. Compute them once, and pass the matrix to
    ``BagSVC(bag_kernel="precomputed")`` or ``SVC(kernel="precomputed")``.

    References
    ----------
    M. Ojala and G. C. Garriga. Permutation tests for studying classifier performance. Journal of
    Machine Learning Research 11, 2010.

    Examples
    --------
    >>> from milearn import MISVC
    >>> from milearn.datasets import make_bags
    >>> from milearn.model_selection import BagShuffleSplit, label_permutation_test
    >>> X, y = make_bags(n_bags=60, n_features=4, random_state=0)
    >>> half = BagShuffleSplit(1, test_size=0.5, random_state=0)
    >>> found = label_permutation_test(MISVC(kernel="linear"), X, y, cv=half, random_state=0)
    >>> found.p_value, found.smallest_p_value
    (0.01, 0.01)
    """
    check_positive(n_permutations=n_permutations)
    check_consistent_length(X, y, groups, strata)
    refuse_outcomes(y, estimator)
    single_scorer(estimator, scoring)
    rng, model = check_random_state(random_state), clone(estimator)
    for name, value in model.get_params().items():
        if value is None and name.endswith("random_state"):
            model.set_params(**{name: rng.randint(2**31 - 1)})
    X, _, strata = data_of("X", (X, y, strata), "strata")
    X, y, groups = data_of("X", (X, y, groups))
    if np.ndim(y) != 1:
        y = column_or_1d(y, warn=True)
    labels = np.asarray(y)
    owner, blocks = np.arange(len(labels)), np.zeros(len(labels), dtype=np.intp)
    if groups is not None:
        _, first, inverse = np.unique(linked_groups(groups), return_index=True, return_inverse=True)
        owner = first[inverse]
    if strata is not None:
        blocks = np.unique(strata.astype(str), axis=0, return_inverse=True)[1].ravel()
    if isinstance(cv, (int, np.integer)):
        classes = labels if is_classifier(model) else np.zeros(len(labels))
        splits = _folds(classes, owner, blocks, int(cv), np.random.RandomState(rng.randint(2**31)))
    else:
        splits = splits_of((X, labels, groups), cv, is_classifier(model))
    alike = _exchangeable(labels, owner, blocks, splits)
    drawn = np.tile(labels, (1 + n_permutations, 1))
    for values, rows in product(drawn[1:], alike):
        values[rows] = labels[rng.permutation(rows)]
    head, last = None, model
    if isinstance(model, Pipeline) and len(model) > 1:
        parts = [part for part in model[:-1].get_params().values() if hasattr(part, "fit")]
        # Selectors have no tag of the labels that their scores may need.
        use = (isinstance(p, SelectorMixin) or get_tags(p).target_tags.required for p in parts)
        if not any(use):
            head, last = model[:-1], model[-1]
    given = {"scoring": scoring, "params": fit_params(last, groups), "error_score": "raise"}
    folds, fit = [], delayed(cross_validate)
    table = getattr(X, "iloc", X)
    with Parallel(n_jobs=n_jobs) as parallel:
        for split in splits:
            rows = X if head is None else clone(head).fit(table[split[0]]).transform(X)
            given["cv"] = [split]
            if len(splits) == 1:  # the labels of the training bags are not permuted
                once = cross_validate(last, rows, labels, return_estimator=True, **given)
                last = FrozenEstimator(once["estimator"][0])
            # A Series of ordered classes keeps their order.
            runs = parallel(
                fit(last, rows, values if y is labels else type(y)(values, dtype=y.dtype), **given)
                for values in drawn[:, owner]
            )
            folds.append([run["test_score"][0] for run in runs])
            if np.isnan(folds[-1][0]):
                raise ValueError(
                    f"The score of fold {len(folds)} is NaN, so that nothing can be compared with "
                    "it: use fewer folds, whose test sets have bags of each class, or a scoring "
                    "that is defined for them, such as accuracy."
                )
    score, *others = np.mean(folds, axis=0).tolist()
    # Sums of the same scores in a different order differ in the last digit. NaN is not lower.
    bound = score - 1e-12 * max(1.0, abs(score))
    p = float(np.mean([1, *(not other < bound for other in others)]))
    given = {"score": score, "permutation_scores": np.array(others), "p_value": p}
    counts = [np.unique(labels[rows], return_counts=True)[1] for rows in alike]
    n_orders = np.exp(sum(gammaln(n.sum() + 1) - gammaln(n + 1).sum() for n in counts))
    return Bunch(smallest_p_value=float(max(1 / len(drawn), 1 / n_orders)), **given)


def _folds(
    classes: np.ndarray, owner: np.ndarray, blocks: np.ndarray, n_splits: int, rng: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Shuffled folds with as many bags or groups of each class and stratum in each of them."""
    units, unit = np.unique(owner, return_inverse=True)
    names, codes = np.unique(classes[units], return_inverse=True)
    _, block, counts = np.unique(blocks[units], return_inverse=True, return_counts=True)
    # Undivided strata are dealt by the sum of their codes, which no exchange changes.
    whole = (counts < n_splits)[block]
    value = np.where(whole, np.bincount(block, codes)[block], codes)
    key = np.where(whole, -1 - block, units)
    for code, name in enumerate(names.tolist()):
        if (count := len(np.unique(key[codes == code]))) < n_splits:
            raise ValueError(
                f"Class {name!r} is in {count} bags, groups or strata and needs {n_splits}, one "
                "for every fold: pass a smaller cv or splits of your own."
            )
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    kinds = np.where(whole, -1, block)[first], value[first]
    rank = np.argsort(np.lexsort((rng.permutation(len(first)), *kinds)))
    fold = (rank % n_splits)[place][unit]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_splits)]


def _exchangeable(
    labels: np.ndarray, owner: np.ndarray, blocks: np.ndarray, splits: Any
) -> list[np.ndarray]:
    """Positions of the first bags of the units that exchange their labels, for each exchange."""
    fold = np.full(len(labels), -1)
    for number, (_, test) in enumerate(splits):
        if (fold[test] >= 0).any():
            raise ValueError("The test sets of cv overlap: pass a splitter such as KFold.")
        fold[test] = number
    for values, problem in (
        (labels, "two labels: pass strata= if its bags exchange their labels"),
        (blocks, "bags in two strata: it must be in one of them"),
        (fold, "two test sets: pass a cv that keeps it together"),
    ):
        for bag in np.flatnonzero(values[owner] != values)[:1]:
            raise ValueError(f"The group of bag {bag} has {problem}.")
    units = np.unique(owner[fold >= 0])
    keys = (fold * len(labels) + blocks)[units]
    found = [units[keys == key] for key in np.unique(keys)]
    if all(len(np.unique(labels[rows])) == 1 for rows in found):
        raise ValueError("No permutation changes a label: use fewer folds, or larger strata.")
    return found
