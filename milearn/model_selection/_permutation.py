"""Test whether the score of a model could be due to chance, by permuted labels."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch, check_consistent_length, check_random_state, get_tags
from sklearn.utils.parallel import Parallel, delayed

from .._bags.canonical import check_choice, check_positive
from .._fit.validation import refuse_outcomes
from ._compare import data_of, fit_params, splits_of
from ._splitters import group_codes


def label_permutation_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    permute: str = "between",
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
    groups : array-like of shape (n_bags,) or (n_bags, 2), default=None
        Group of each bag, such as a donor, a pair or a site. It is passed to the splitter, and to
        ``fit`` of models that have the argument. Two columns, such as the site and the donor of
        each bag, are for "within": the bags of a donor have one label, and donors of one site
        exchange their labels. The splitter then gets the first column.
    permute : {"between", "within"}, default="between"
        With "between", the bags of a group have one label, and groups exchange their labels. With
        "within", bags exchange their labels with others of their group only: for paired designs,
        and for sites that differ in their classes.
    cv : int, splitter or iterable of splits, default=5
        Folds, whose test sets must not overlap. An integer is the number of shuffled folds for a
        classifier, with as many bags or groups of each class in each fold, and of folds in the
        order of the bags for a regressor. Folds keep groups together. Bags that are in no test set
        keep their labels.
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
        ``smallest_p_value``, the smallest p-value of this number of permutations.

    Raises
    ------
    ValueError
        If test sets overlap, bags that have to exchange their labels as one differ in their label,
        test set or site, no permutation changes a label, the score of a fold is NaN, or for an
        unknown ``permute``.

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
    check_choice("permute", permute, ("between", "within"))
    check_consistent_length(X, y, groups)
    refuse_outcomes(y, estimator)
    rng, model = check_random_state(random_state), clone(estimator)
    for name, value in model.get_params().items():
        if value is None and name.endswith("random_state"):
            model.set_params(**{name: rng.randint(2**31 - 1)})
    X, y, groups = data_of("X", (X, y, groups))
    labels = np.asarray(y)
    within, units = permute == "within", groups
    if within:
        groups, units = groups.T if np.ndim(groups) == 2 else (groups, None)
    owner = np.arange(len(labels))
    if units is not None:
        _, first, inverse = np.unique(group_codes(units), return_index=True, return_inverse=True)
        owner = first[inverse]
    if not (isinstance(cv, (int, np.integer)) and is_classifier(model)):
        splits = splits_of((X, labels, groups), cv, is_classifier(model))
    else:
        given = {"shuffle": True, "random_state": rng.randint(2**31 - 1)}
        if within and groups is not None:
            # Its folds depend on the classes of a block, which no exchange changes.
            stratified = StratifiedGroupKFold(int(cv), **given)
            splits = list(stratified.split(labels, labels, group_codes(groups)))
        else:
            distinct = np.unique(owner)
            folded = StratifiedKFold(int(cv), **given).split(distinct, labels[distinct])
            tested = [np.isin(owner, distinct[test]) for _, test in folded]
            splits = [(np.flatnonzero(~test), np.flatnonzero(test)) for test in tested]
    blocks = _exchangeable(labels, owner, groups if within else None, splits)
    drawn = np.tile(labels, (1 + n_permutations, 1))
    for values, rows in product(drawn[1:], blocks):
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
    return Bunch(smallest_p_value=1 / len(drawn), **given)


def _exchangeable(
    labels: np.ndarray, owner: np.ndarray, blocks: Any, splits: Any
) -> list[np.ndarray]:
    """Positions of the first bags of the units that exchange their labels, for each exchange."""
    fold = np.full(len(labels), -1)
    for number, (_, test) in enumerate(splits):
        if (fold[test] >= 0).any():
            raise ValueError("The test sets of cv overlap: pass a splitter such as KFold.")
        fold[test] = number
    codes = np.zeros_like(owner) if blocks is None else group_codes(blocks)
    for values, problem in (
        (labels, "two labels: pass permute='within' if its bags exchange their labels"),
        (codes, "bags in two groups of the first column: it must be in one of them"),
        (fold, "two test sets: pass a cv that keeps it together"),
    ):
        for bag in np.flatnonzero(values[owner] != values)[:1]:
            raise ValueError(f"The group of bag {bag} has {problem}.")
    units = np.unique(owner[fold >= 0])
    keys = (fold * len(labels) + codes)[units]
    found = [units[keys == key] for key in np.unique(keys)]
    if all(len(np.unique(labels[rows])) == 1 for rows in found):
        raise ValueError("No permutation changes a label: use fewer folds, or another permute.")
    return found
