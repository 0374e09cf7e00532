"""Folds that keep sites together, and a test whether the site predicts the class."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import column_or_1d

from .._fit.validation import missing_labels
from .._solvers.model_selection.group_folds import deviation_of, division_bound, exchanged
from ._problem import BagSplitter, Problem, check_count, group_codes, read_problem
from ._stratified import check_feasible, place_groups

# Gaps below this value are rounding.
_NO_GAP = 1e-8
# Random starts after the greedy folds.
_N_STARTS = 10


@dataclass(frozen=True)
class SiteFolds:
    """Folds of :class:`SiteKFold`, and a bound of how close they are to the best folds.

    A deviation is the share of the bags of a class that would have to change fold for folds with
    equal counts, averaged over the classes.

    Parameters
    ----------
    folds : ndarray of shape (n_bags,)
        Fold of each bag, from 0; -1 for bags without a label.
    counts : ndarray of shape (n_splits, n_classes)
        Number of bags of each class in each fold.
    deviation : float
        Deviation of these folds, with the instances if they have a weight.
    bound : float
        No folds have a deviation below this value. It is that of folds of single bags, so a gap
        does not mean that better folds exist.
    greedy_deviation : float
        Deviation of the folds of :class:`StratifiedBagKFold`, NaN if it found none.
    """

    folds: np.ndarray
    counts: np.ndarray
    deviation: float
    bound: float
    greedy_deviation: float

    @property
    def gap(self) -> float:
        """Difference of ``deviation`` and ``bound``; 0 if there are certainly no better folds."""
        gap = self.deviation - self.bound
        return gap if gap > _NO_GAP else 0.0

    @property
    def is_optimal(self) -> bool:
        """Whether the folds attain ``bound``, so that none have a smaller deviation."""
        return self.gap == 0.0


class SiteKFold(BagSplitter):
    r"""K folds that keep sites together, with class counts that are as equal as possible.

    Data of several hospitals, scanners or laboratories carry traces of their site. If bags of one
    site are on both sides of a split, a model can recognise the site instead of the disease, and
    its score is too high [1]_. Here whole sites are assigned to folds, with a small deviation

    .. math:: \frac{1}{C} \sum_{c=1}^{C} \frac{1}{2 N_c} \sum_{f=1}^{K} | n_{fc} - N_c / K |

    of the numbers :math:`n_{fc}` of bags of class :math:`c` in fold :math:`f`, where :math:`N_c` is
    the number of all bags of the class. The folds of :class:`StratifiedBagKFold` are improved by
    moves of sites and exchanges of two sites, until none of them lowers the deviation. The best of
    eleven starts is returned, the others of which place the sites in random order. :meth:`assign`
    returns the folds with their deviation and a lower bound.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    instance_weight : float, default=0.0
        Weight of the deviation of the numbers of instances, which is added to the above. By
        default, only bags are counted.
    unlabeled : label, default=None
        A value of ``y`` that marks unlabelled bags, in addition to NaN and None. Unlabelled bags
        are treated as in :class:`StratifiedBagKFold`.

    Raises
    ------
    ValueError
        At construction, for parameters out of range. In ``split`` and ``assign``, without
        ``groups``, if all labels have the same class, the length of labels or groups is not the
        number of bags, or no folds with all classes were found.

    See Also
    --------
    StratifiedBagKFold : Folds by a greedy rule; also without groups.
    site_label_test : Test whether the site predicts the class.

    References
    ----------
    .. [1] F. M. Howard et al. The impact of site-specific digital histology signatures on deep
       learning model accuracy and bias. Nature Communications 12, 4423, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.model_selection import SiteKFold
    >>> y = np.array([1, 1, 0, 1, 0, 0, 1, 0, 0, 0])
    >>> site = np.array(["a", "a", "a", "b", "b", "b", "c", "c", "d", "d"])
    >>> found = SiteKFold(n_splits=2).assign(np.zeros((10, 1)), y, site)
    >>> found.counts
    array([[3, 2],
           [3, 2]])
    >>> found.deviation, found.is_optimal
    (0.0, True)
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        instance_weight: float = 0.0,
        unlabeled: Any = None,
    ) -> None:
        self.n_splits = check_count("n_splits", n_splits, 2)
        number = isinstance(instance_weight, Real) and not isinstance(instance_weight, bool)
        if not number or not 0 <= float(instance_weight) < math.inf:
            raise ValueError(
                f"instance_weight must be a nonnegative number, got {instance_weight!r}."
            )
        self.instance_weight = instance_weight
        self.unlabeled = unlabeled

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generate the indices of the training and test bags of each fold.

        Parameters
        ----------
        X : Bags, 3-D array, sequence of 2-D blocks, or any data of n_bags rows
            Only the numbers of instances are used; a row of a matrix is one instance.
        y : array-like of shape (n_bags,)
            Class of each bag.
        groups : array-like of shape (n_bags,) or (n_bags, n_columns)
            Site of each bag, or several columns, such as site and patient: bags that have the same
            entry in any column stay together.

        Yields
        ------
        train : ndarray of shape (n_train,), sorted
        test : ndarray of shape (n_test,), sorted
        """
        yield from super().split(X, y, self._sites(groups))

    def assign(self, X: Any, y: Any, groups: Any) -> SiteFolds:
        """The folds, with their counts, their deviation and a lower bound of it.

        Parameters
        ----------
        X, y, groups : see :meth:`split`
            Bags, classes and sites.

        Returns
        -------
        SiteFolds
            The folds and how close they are to the best ones.
        """
        name = type(self).__name__
        return self._assigned(read_problem(name, X, y, self._sites(groups), self.unlabeled))

    def _sites(self, groups: Any) -> np.ndarray:
        if groups is None:
            raise ValueError(
                f"{type(self).__name__} needs groups: pass the site of each bag, or use "
                "StratifiedBagKFold."
            )
        columns = np.asarray(groups)
        return connected_groups(columns) if columns.ndim == 2 else columns

    def _masks(self, problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        folds = self._assigned(problem).folds[problem.labelled]
        for fold in range(self.n_splits):
            yield problem.mask(folds == fold), problem.mask(folds != fold)

    def _assigned(self, problem: Problem) -> SiteFolds:
        k = self.n_splits
        check_feasible(problem, k)
        bags = problem.unit_table().astype(np.int64)
        n_classes = bags.shape[1]
        table, weights = bags, np.full(n_classes, 1 / n_classes)
        if self.instance_weight:
            instances = problem.unit_table(problem.sizes).sum(axis=1).astype(np.int64)
            table = np.column_stack([bags, instances])
            weights = np.append(weights, self.instance_weight)
        required = np.arange(table.shape[1]) < n_classes
        bound, greedy, deviation = division_bound(table, weights, k), math.nan, math.inf
        rng = np.random.RandomState(0)
        for attempt in range(1 + _N_STARTS):
            try:
                start = place_groups(problem, k, rng if attempt else None)
            except ValueError:
                # A placement in another order may give every fold all classes.
                if attempt == _N_STARTS and not math.isfinite(deviation):
                    raise
                continue
            if not attempt:
                greedy = deviation_of(table, weights, k, start)
            moved = exchanged(table, weights, k, start, required)
            value = deviation_of(table, weights, k, moved)
            if value < deviation - _NO_GAP:
                units, deviation = moved, value
            if deviation <= bound + _NO_GAP:
                break
        folds = np.full(problem.n_bags, -1)
        folds[problem.labelled] = units[problem.units]
        counts = np.zeros((k, n_classes), dtype=np.intp)
        np.add.at(counts, units, bags)
        return SiteFolds(folds, counts, deviation, bound, greedy)


def connected_groups(columns: np.ndarray) -> np.ndarray:
    """Numbers of the groups of bags that are linked by equal entries in any of the columns."""
    n_bags = len(columns)
    bags, entries, first = [], [], n_bags
    for column in columns.T:
        codes = group_codes(column)
        bags.append(np.arange(n_bags))
        entries.append(first + codes)
        first += int(codes.max(initial=-1)) + 1
    links = sparse.coo_array(
        (np.ones(n_bags * len(bags)), (np.concatenate(bags), np.concatenate(entries))),
        shape=(first, first),
    )
    return sparse.csgraph.connected_components(links, directed=False)[1][:n_bags]


# -- does the site predict the class? --------------------------------------------------------------


@dataclass(frozen=True)
class SiteTest:
    """Result of :func:`site_label_test`.

    Parameters
    ----------
    score : float
        Balanced accuracy of predicting the class of each bag from the other bags of its site.
    null_score : float
        Mean of this accuracy if the labels are permuted.
    p_value : float
        Share of permutations with an accuracy that is at least as high, the observed labels
        included.
    n_sites : int
        Number of sites.
    """

    score: float
    null_score: float
    p_value: float
    n_sites: int

    def __str__(self) -> str:
        relation = "predicts" if self.p_value <= 0.05 else "does not measurably predict"
        return (
            f"The site {relation} the class: balanced accuracy {self.score:.3f} from the site "
            f"alone, {self.null_score:.3f} with permuted labels, p = {self.p_value:.3g}."
        )


def site_label_test(
    y: Any, sites: Any, *, n_permutations: int = 999, random_state: Any = None
) -> SiteTest:
    """Test whether the class can be predicted from the site alone.

    If it can, scores of ordinary folds are too high for models that recognise the site: use
    :class:`SiteKFold`. The class of each bag is predicted as the most frequent class among the
    other bags of its site, relative to the frequencies of the classes among all bags; ties count in
    parts. The balanced accuracy is compared with that of permuted labels.

    Parameters
    ----------
    y : array-like of shape (n_bags,)
        Class of each bag. Pass one entry per patient if patients have several bags with the same
        class. Bags without a label (NaN, None) are left out.
    sites : array-like of shape (n_bags,)
        Site of each bag.
    n_permutations : int, default=999
        Number of permutations; the smallest p-value is ``1 / (n_permutations + 1)``.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same p-value at every call.

    Returns
    -------
    SiteTest
        With ``score``, ``null_score``, ``p_value`` and ``n_sites``. ``print`` shows them in a
        sentence.

    Raises
    ------
    ValueError
        If there are fewer than two classes, a site is missing, the lengths differ, or
        ``n_permutations`` is below 1.

    See Also
    --------
    SiteKFold : Folds that keep sites together.

    Examples
    --------
    >>> import numpy as np
    >>> from milearn.model_selection import site_label_test
    >>> site = np.repeat(["a", "b", "c", "d"], 10)
    >>> y = np.repeat([1, 1, 0, 0], 10)
    >>> found = site_label_test(y, site, random_state=0)
    >>> found.score, found.p_value
    (1.0, 0.001)
    """
    n_permutations = check_count("n_permutations", n_permutations, 1)
    check_consistent_length(y, sites)
    labels = column_or_1d(np.asarray(y))
    known = ~missing_labels(labels)
    classes, codes = np.unique(np.array(labels[known].tolist()), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y contains {len(classes)} class(es): the test needs at least two.")
    groups = group_codes(np.asarray(sites)[known])
    rng = check_random_state(random_state)
    score = _site_accuracy(groups, codes, len(classes))
    permuted = np.array(
        [
            _site_accuracy(groups, rng.permutation(codes), len(classes))
            for _ in range(n_permutations)
        ]
    )
    # Sums of the same accuracies in a different order differ in the last digit.
    higher = np.count_nonzero(permuted >= score - 1e-12)
    return SiteTest(
        score=score,
        null_score=float(permuted.mean()),
        p_value=float((1 + higher) / (1 + n_permutations)),
        n_sites=int(groups.max()) + 1,
    )


def _site_accuracy(groups: np.ndarray, codes: np.ndarray, n_classes: int) -> float:
    """Balanced accuracy of the most frequent class of each site without the bag itself."""
    n_sites = int(groups.max()) + 1
    table = np.bincount(groups * n_classes + codes, minlength=n_sites * n_classes)
    table = table.reshape(n_sites, n_classes)
    totals = table.sum(axis=0)
    accuracy = 0.0
    for code in range(n_classes):
        own = np.arange(n_classes) == code
        # A bag is left out of its site but not of the sums of the classes, with which a tie would
        # be decided by the class that has to be predicted.
        proportions = (table - own) / totals
        best = proportions >= proportions.max(axis=1, keepdims=True) - 1e-12
        accuracy += float(table[:, code] @ (best[:, code] / best.sum(axis=1))) / totals[code]
    return float(accuracy / n_classes)
