"""Ranks of methods over data sets, and tests of the differences between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range, wilcoxon

_EXACT = 50  # maximum number of data sets for the exact distribution of signed ranks
_EQUAL_SCORES = 1e-12  # scores that differ by less than this fraction of the largest are equal


@dataclass(frozen=True, eq=False)
class Ranks:
    """Average ranks of methods over data sets, best first, with p-values of all pairs.

    Parameters
    ----------
    methods : tuple of str
        Names, from the best average rank to the worst.
    ranks : ndarray of shape (n_methods,)
        Average ranks; 1 is the best, and methods with equal scores share the mean of their ranks.
    n_datasets : int
        Number of data sets.
    alpha : float
        Level of the tests.
    p_value : float
        Result of Friedman's test that all methods are equal; NaN with fewer than three methods or
        two data sets, or if all scores are equal.
    critical_difference : float
        Two average ranks that differ by less are not significantly different by Nemenyi's test.
    nemenyi : ndarray of shape (n_methods, n_methods)
        Nemenyi's test: p-values of all pairs.
    wilcoxon : ndarray of shape (n_methods, n_methods)
        Wilcoxon's signed-rank test with Holm's correction: p-values of all pairs.
    """

    methods: tuple[str, ...]
    ranks: np.ndarray
    n_datasets: int
    alpha: float
    p_value: float
    critical_difference: float
    nemenyi: np.ndarray
    wilcoxon: np.ndarray

    def __repr__(self) -> str:
        lines = ["mean rank  method"]
        for name, rank in zip(self.methods, self.ranks, strict=True):
            lines.append(f"{rank:9.2f}  {name}")
        pairs = self.wilcoxon[np.triu_indices(len(self.methods), 1)]
        friedman = f"{self.p_value:.2g}" if self.p_value == self.p_value else "not defined"
        lines += [
            f"Number of data sets: {self.n_datasets}",
            f"p-value of Friedman's test: {friedman}",
            f"Significant differences (Wilcoxon-Holm, level {self.alpha:g}): "
            f"{np.count_nonzero(pairs <= self.alpha)} of {len(pairs)} pairs",
        ]
        return "\n".join(lines)

    def cliques(self, test: str = "wilcoxon") -> list[tuple[int, int]]:
        """Longest runs of consecutive methods without a significant difference in any pair.

        Parameters
        ----------
        test : {"wilcoxon", "nemenyi"}, default="wilcoxon"
            The test of the pairs.

        Returns
        -------
        list of (int, int)
            Positions in ``methods`` of the first and the last method of each run of at least two.

        Raises
        ------
        ValueError
            For an unknown test.
        """
        if test == "wilcoxon":
            alike = self.wilcoxon > self.alpha
        elif test == "nemenyi":
            alike = self.nemenyi > self.alpha
        else:
            raise ValueError(f"test={test!r} is unknown: use 'wilcoxon' or 'nemenyi'.")
        runs: list[tuple[int, int]] = []
        for first in range(len(self.methods)):
            last = first
            while last + 1 < len(alike) and alike[first : last + 1, last + 1].all():
                last += 1
            if last > first and not (runs and runs[-1][1] >= last):
                runs.append((first, last))
        return runs


def rank_methods(scores: Any, methods: Sequence[str], *, alpha: float = 0.05) -> Ranks:
    r"""Rank methods by their scores on several data sets, and test the differences.

    On each data set the best method has rank 1. Friedman's test answers whether the average ranks
    differ at all. Nemenyi's test compares all pairs: the average ranks of :math:`k` methods over
    :math:`N` data sets differ significantly if their difference is at least

    .. math:: q_\alpha \sqrt{\frac{k (k + 1)}{6 N}},

    where :math:`q_\alpha` is the quantile of the studentised range divided by :math:`\sqrt 2`.
    Wilcoxon's signed-rank test compares each pair without the other methods; its p-values have
    Holm's correction.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_methods)
        Larger is better.
    methods : sequence of n_methods str
        Names of the columns.
    alpha : float, default=0.05
        Level of the tests, between 0 and 1.

    Returns
    -------
    Ranks
        Average ranks, best first, and p-values.

    Raises
    ------
    ValueError
        For scores of another shape or with NaN or infinity, fewer than two methods, or an ``alpha``
        that is not between 0 and 1.

    See Also
    --------
    compare : Scores of estimators on data sets.
    milearn.inspection.CriticalDifferenceDisplay : Plot of the ranks.

    Notes
    -----
    Data sets on which two methods have equal scores count half for each of them in Wilcoxon's test.
    It does not depend on which other methods are compared, as Nemenyi's does. Its p-values are
    exact for up to 50 data sets. Scores are equal if they differ by less than about 1e-12 of the
    largest one.

    References
    ----------
    J. Demsar. Statistical comparisons of classifiers over multiple data sets. Journal of Machine
    Learning Research 7, 2006.

    A. Benavoli, G. Corani and F. Mangili. Should we really use post-hoc tests based on mean-ranks?
    Journal of Machine Learning Research 17, 2016.

    Examples
    --------
    >>> from milearn.model_selection import rank_methods
    >>> scores = [[0.9, 0.8, 0.7], [0.8, 0.9, 0.6], [0.7, 0.6, 0.5], [0.9, 0.8, 0.8]]
    >>> found = rank_methods(scores, ["A", "B", "C"])
    >>> found.methods, found.ranks
    (('A', 'B', 'C'), array([1.25 , 1.875, 2.875]))
    >>> print(found)
    mean rank  method
         1.25  A
         1.88  B
         2.88  C
    Number of data sets: 4
    p-value of Friedman's test: 0.057
    Significant differences (Wilcoxon-Holm, level 0.05): 0 of 3 pairs
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(methods) or len(methods) < 2 or not len(values):
        raise ValueError(
            f"scores has the shape {values.shape} for {len(methods)} method(s): pass one row per "
            "data set and one column per method, of at least two methods."
        )
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"The score of {methods[column]!r} on data set {row} is {values[row, column]}: leave "
            "out data sets on which a method has no score."
        )
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha!r} must be between 0 and 1.")
    n_datasets, k = values.shape
    # Means of the same folds in another order differ in the last digit.
    tie = _EQUAL_SCORES * float(np.abs(values).max())
    p_values = _wilcoxon_holm(values, tie)
    values = np.array([_levels(row, tie) for row in values])
    mean = rankdata(-values, axis=1).mean(axis=0)
    order = np.argsort(mean, kind="stable")
    values, mean = values[:, order], mean[order]
    equal = bool((values == values[:, :1]).all())
    tested = k > 2 and n_datasets > 1 and not equal
    unit = np.sqrt(k * (k + 1) / (6.0 * n_datasets))  # standard error of a difference of ranks
    quantile = studentized_range.ppf(1.0 - alpha, k, np.inf) / np.sqrt(2.0)
    distances = np.abs(np.subtract.outer(mean, mean)) / unit
    nemenyi = studentized_range.sf(distances * np.sqrt(2.0), k, np.inf)
    np.fill_diagonal(nemenyi, 1.0)
    return Ranks(
        methods=tuple(str(methods[i]) for i in order),
        ranks=mean,
        n_datasets=n_datasets,
        alpha=alpha,
        p_value=float(friedmanchisquare(*values.T).pvalue) if tested else float("nan"),
        critical_difference=float(quantile * unit),
        nemenyi=nemenyi,
        wilcoxon=p_values[np.ix_(order, order)],
    )


def _levels(values: np.ndarray, tie: float) -> np.ndarray:
    """The values, where neighbours that differ by at most ``tie`` get the lowest of their run."""
    order = np.argsort(values, kind="stable")
    ordered, levels = values[order], np.empty_like(values)
    new = np.r_[True, np.diff(ordered) > tie]
    levels[order] = ordered[new][np.cumsum(new) - 1]
    return levels


def _wilcoxon_holm(values: np.ndarray, tie: float) -> np.ndarray:
    """Symmetric matrix of the corrected p-values of all pairs of columns."""
    first, second = np.triu_indices(values.shape[1], 1)
    pairs = (values[:, first] - values[:, second]).T
    # Equal differences have equal ranks in any unit, and those near zero are zero.
    sizes = [_levels(np.append(np.abs(each), 0.0), 2.0 * tie)[:-1] for each in pairs]
    plain = np.array([_signed_rank(each) for each in np.sign(pairs) * sizes])
    order = np.argsort(plain, kind="stable")
    factors = np.arange(len(plain), 0, -1)
    corrected = np.empty_like(plain)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * plain[order]))
    found = np.ones((values.shape[1], values.shape[1]))
    found[first, second] = found[second, first] = corrected
    return found


def _signed_rank(differences: np.ndarray) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test; zeros count half for both signs.

    It is exact for up to 50 data sets, with equal differences too, where SciPy's method depends on
    its version and on the number of data sets.
    """
    if not differences.any():
        return 1.0
    if len(differences) > _EXACT:
        return float(wilcoxon(differences, zero_method="zsplit").pvalue)
    # Twice the ranks are integers. Given the sizes of the differences, each sign has probability
    # 1/2; the sum of the ranks of positive ones is a sum of independent variables.
    ranks = np.rint(2 * rankdata(np.abs(differences))).astype(np.intp)
    free = ranks[differences != 0]
    observed = ranks[differences > 0].sum()
    weights = np.ones(1)
    for rank in free:
        longer = np.zeros(len(weights) + rank)
        longer[: len(weights)] += 0.5 * weights
        longer[rank:] += 0.5 * weights
        weights = longer
    tails = weights[: observed + 1].sum(), weights[observed:].sum()
    return float(min(1.0, 2 * min(tails)))
