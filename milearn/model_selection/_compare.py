"""Comparison of estimators on several data sets, their ranks, and tests of the differences."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import joblib
import numpy as np
from scipy.stats import friedmanchisquare, rankdata, wilcoxon
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold, KFold, check_cv, cross_validate
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_memory, has_fit_parameter

from .._bags.canonical import check_choice
from .._bags.kinds import columns_of, ids, targets
from .._bags.names import bag_text
from .._fit.validation import as_bags, check_order
from ._intervals import KnownPredictions, dealt, influences, interval
from ._splitters import StratifiedBagKFold, linked_groups, warn_of_shared_groups

_DIGITS = 12  # of scores in units of the largest one


@dataclass(frozen=True, eq=False)
class Ranks:
    """Average ranks of methods over data sets, best first, with p-values of all pairs.

    Read more in the :ref:`User Guide <guide_compare>`.

    .. versionadded:: 0.2.0

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
    wilcoxon : ndarray of shape (n_methods, n_methods)
        Wilcoxon's signed-rank test with Holm's correction: p-values of all pairs.

    See Also
    --------
    rank_methods : Computes the ranks.
    milearn.inspection.CriticalDifferenceDisplay : Plot of the ranks.

    Examples
    --------
    >>> from milearn.model_selection import rank_methods
    >>> found = rank_methods([[0.9, 0.8], [0.8, 0.7], [0.7, 0.6]], ["A", "B"])
    >>> found.methods, found.ranks
    (('A', 'B'), array([1., 2.]))
    >>> found.cliques()
    [(0, 1)]
    """

    methods: tuple[str, ...]
    ranks: np.ndarray
    n_datasets: int
    alpha: float
    p_value: float
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

    def cliques(self) -> list[tuple[int, int]]:
        """Longest runs of consecutive methods without a significant difference in any pair.

        Returns
        -------
        list of (int, int)
            Positions in ``methods`` of the first and the last method of each run of at least two.
        """
        alike = self.wilcoxon > self.alpha
        runs: list[tuple[int, int]] = []
        for first in range(len(self.methods)):
            last = first
            while last + 1 < len(alike) and alike[first : last + 1, last + 1].all():
                last += 1
            if last > first and not (runs and runs[-1][1] >= last):
                runs.append((first, last))
        return runs


def rank_methods(scores: Any, methods: Sequence[str], *, alpha: float = 0.05) -> Ranks:
    """Rank methods by their scores on several data sets, and test the differences.

    On each data set the best method has rank 1. Friedman's test answers whether the average ranks
    differ at all. Wilcoxon's signed-rank test compares each pair without the other methods; its
    p-values have Holm's correction.

    Read more in the :ref:`User Guide <guide_compare>`.

    .. versionadded:: 0.2.0

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
    It does not depend on which other methods are compared, as tests of mean ranks do. It is
    :func:`scipy.stats.wilcoxon` with ``zero_method="zsplit"``: p-values are exact for up to 50 data
    sets without equal differences, and approximations otherwise. Scores are equal if they have the
    same twelve digits in units of the largest one.

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
    values = np.round(values / (float(np.abs(values).max()) or 1.0), _DIGITS)
    p_values = _wilcoxon_holm(values)
    mean = rankdata(-values, axis=1).mean(axis=0)
    order = np.argsort(mean, kind="stable")
    values, mean = values[:, order], mean[order]
    equal = bool((values == values[:, :1]).all())
    tested = k > 2 and n_datasets > 1 and not equal
    return Ranks(
        methods=tuple(str(methods[i]) for i in order),
        ranks=mean,
        n_datasets=n_datasets,
        alpha=alpha,
        p_value=float(friedmanchisquare(*values.T).pvalue) if tested else float("nan"),
        wilcoxon=p_values[np.ix_(order, order)],
    )


def _wilcoxon_holm(values: np.ndarray) -> np.ndarray:
    """Symmetric matrix of the corrected p-values of all pairs of columns."""
    first, second = np.triu_indices(values.shape[1], 1)
    # Equal differences have equal ranks in any unit.
    pairs = np.round(values[:, first] - values[:, second], _DIGITS).T
    with warnings.catch_warnings():
        # Older versions of SciPy warn of few data sets, which the docstring names.
        warnings.filterwarnings("ignore", "Sample size too small", UserWarning)
        plain = np.array(
            [wilcoxon(each, zero_method="zsplit").pvalue if each.any() else 1.0 for each in pairs]
        )
    order = np.argsort(plain, kind="stable")
    factors = np.arange(len(plain), 0, -1)
    corrected = np.empty_like(plain)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * plain[order]))
    found = np.ones((values.shape[1], values.shape[1]))
    found[first, second] = found[second, first] = corrected
    return found


_KEYS = ("dataset", "estimator", "fold")
_NO_SCORES = {*_KEYS, "fit_seconds", "score_seconds", "error", "units", "influences"}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of estimators on the folds of data sets, as returned by :func:`compare`.

    Read more in the :ref:`User Guide <guide_compare>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    records : list of dict
        One per data set, estimator and fold, with the keys "dataset", "estimator", "fold", the
        names of the scores, "fit_seconds", "score_seconds" and "error": None, or the message of a
        fit that failed, whose scores are NaN. Intervals are computed from "units", which is "bags"
        or "groups", and from the "influences" of these units on each score.
    datasets : tuple of str
        Names of the data sets.
    estimators : tuple of str
        Names of the estimators.
    scores : tuple of str
        Names of the scores.

    See Also
    --------
    compare : Computes the scores.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.model_selection import compare
    >>> from milearn.svm import BagSVC, MISVC
    >>> data = {"generated": make_bags(n_bags=30, random_state=0)}
    >>> found = compare({"MI-SVM": MISVC(), "kernel": BagSVC()}, data, cv=3)
    >>> found.table().shape
    (1, 2)
    """

    records: list[dict[str, Any]]
    datasets: tuple[str, ...]
    estimators: tuple[str, ...]
    scores: tuple[str, ...]

    def to_frame(self) -> Any:
        """The records as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row per record.
        """
        import pandas

        return pandas.DataFrame(self.records).drop(columns=["units", "influences"])

    def table(self, score: str | None = None) -> np.ndarray:
        """Mean score over the folds of each data set.

        It is not the score of the predictions of all folds together: each fold has its own model,
        and scores of bags by different models cannot be ranked together, so that such an AUC or
        concordance would usually be too low.

        Parameters
        ----------
        score : str, default=None
            Name of the score; by default, the first.

        Returns
        -------
        ndarray of shape (n_datasets, n_estimators)
            NaN where a fold failed.

        Raises
        ------
        ValueError
            For an unknown score.
        """
        return np.array([[np.mean(part) for part in row] for row in self._folds(score)])

    def intervals(self, score: str | None = None) -> np.ndarray:
        """The 95 % interval of each mean of :meth:`table`, over bags, or over groups.

        Parameters
        ----------
        score : str, default=None
            Name of the score; by default, the first.

        Returns
        -------
        ndarray of shape (n_datasets, n_estimators, 2)
            Lower and upper ends; NaN where a fold failed, and where folds that overlap, as those of
            repeated splits, have a score that is no function of predictions.

        Raises
        ------
        ValueError
            For an unknown score.

        Notes
        -----
        The intervals are for the score of these fitted models on new bags. They do not contain the
        variation between training sets. In simulations with 30 to 100 bags or groups (``python -m
        benchmarks scale coverage``), 90.5 to 99 % of 200 intervals contained this score.

        The standard error is that of the jackknife: one bag, or one group, is left out of the
        predictions of its fold at a time, or one of 200 parts if there are more. Where scores are
        not defined without it, or are not functions of predictions, the error is that of the mean
        of folds, unless these are repeated. If all folds have scores from 0 to 1, the interval is
        Wilson's for the number of trials that has this error, otherwise a multiple of the error,
        both with quantiles of the t distribution.

        References
        ----------
        B. Efron and C. Stein. The jackknife estimate of variance. The Annals of Statistics 9(3),
        1981.

        E. B. Wilson. Probable inference, the law of succession, and statistical inference. Journal
        of the American Statistical Association 22(158), 1927.
        """
        parts = zip(self._folds(score), self._folds(score, influences=True), strict=True)
        return np.array([list(map(interval, *part)) for part in parts])

    def ranks(self, score: str | None = None, *, alpha: float = 0.05) -> Ranks:
        """Average ranks of the estimators, and tests of the differences.

        Parameters
        ----------
        score : str, default=None
            Name of the score; by default, the first.
        alpha : float, default=0.05
            Level of the tests.

        Returns
        -------
        Ranks
            Over the data sets on which no fold failed, see :func:`rank_methods`.

        Raises
        ------
        ValueError
            For an unknown score, fewer than two estimators, or if a fold failed on every data set.
        """
        table = self.table(score)
        complete = ~np.isnan(table).any(axis=1)
        if not complete.any():
            raise ValueError('A fold failed on every data set: "error" in the records says why.')
        return rank_methods(table[complete], self.estimators, alpha=alpha)

    def __repr__(self) -> str:
        import pandas

        cells = np.concatenate([self.table()[..., np.newaxis], self.intervals()], axis=2)
        texts = [[f"{m:.3f} [{low:.2f}, {high:.2f}]" for m, low, high in row] for row in cells]
        table = pandas.DataFrame(texts, self.datasets, self.estimators)
        units = [
            record["units"] if found else "folds"
            for record in self.records
            if (found := record["influences"].get(self.scores[0])) is not None
        ]
        over = " or ".join(dict.fromkeys(units)) or "bags"
        note = f"{self.scores[0]}: mean over folds, and its 95 % interval over {over}"
        return f"{table.to_string(line_width=None)}\n{note}"

    def _folds(self, score: str | None, influences: bool = False) -> list[list[list[Any]]]:
        """Scores by data set, estimator and fold, or influences on them."""
        name = self.scores[0] if score is None else score
        check_choice("score", name, self.scores)
        found: dict[tuple[str, str], list[Any]] = {}
        for record in self.records:
            value = record["influences"].get(name) if influences else record[name]
            found.setdefault((record["dataset"], record["estimator"]), []).append(value)
        return [[found[each, one] for one in self.estimators] for each in self.datasets]


def compare(
    estimators: Mapping[str, Any],
    datasets: Mapping[str, Any],
    *,
    cv: Any = 5,
    scoring: Any = None,
    memory: Any = None,
    n_jobs: int | None = None,
    verbose: int | bool = 0,
    error_score: Any = "raise",
) -> Comparison:
    """Cross-validate estimators on data sets, all of them on the same folds.

    Read more in the :ref:`User Guide <guide_compare>`.

    .. versionadded:: 0.2.0

    Parameters
    ----------
    estimators : mapping of str to estimator
        Estimators or pipelines by name. They are cloned.
    datasets : mapping of str to data set
        Each is ``(X, y)``, ``(X, y, groups)``, a Bunch with ``data``, ``target`` and perhaps
        ``groups``, as returned by the loaders of :mod:`milearn.datasets`, or a function without
        arguments that returns one of these. Functions are called one after the other, so that one
        data set is in memory at a time.
    cv : int, splitter or iterable of (train, test), default=5
        An int is the number of folds of :class:`StratifiedBagKFold` for classifiers, and of
        :class:`~sklearn.model_selection.KFold` otherwise, or
        :class:`~sklearn.model_selection.GroupKFold` for data sets with groups. An iterable is for
        a single data set.
    scoring : str, callable, or list or mapping of these, default=None
        One or several scores as for :func:`~sklearn.model_selection.cross_validate`; larger is
        better. By default, the ``score`` of the estimator, with the name "score".
    memory : str, path or joblib.Memory, default=None
        Folder that keeps each result as soon as it is computed. Results that it holds are not
        computed again, so that the same call continues an interrupted run.
    n_jobs : int, default=None
        Number of fits of one data set that run in parallel. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.
    verbose : int or bool, default=0
        Whether to print a line for each result.
    error_score : "raise" or NaN, default="raise"
        Whether the error of a fit or of its scores is raised, or is a warning and a score of NaN.

    Returns
    -------
    Comparison
        The scores of all folds, with methods for a data frame, a table of means, their intervals
        over bags or groups, and ranks. Printing it shows means and intervals of the first score.

    Raises
    ------
    ValueError
        For data sets or estimators that are empty, or a wrong ``memory`` or ``error_score``.
    TypeError
        For estimators or data sets that are not a mapping, or a data set of another form.

    Warns
    -----
    UserWarning
        If a group of a data set is on both sides of a split.
    FitFailedWarning
        For each failed fit, if ``error_score`` is not "raise".

    See Also
    --------
    rank_methods : Ranks and tests of a table of scores.
    milearn.inspection.CriticalDifferenceDisplay : Plot of the ranks.

    Notes
    -----
    Groups are passed to the splitter, and to ``fit`` of estimators that have the argument
    ``groups``; with metadata routing, to those that request it.

    Two results are taken for the same if joblib's hashes of the estimator, the data, the fold and
    ``scoring`` are the same. Changes of the code of an estimator are not noticed. A fit that failed
    is repeated. Folds only repeat if ``cv`` has a fixed ``random_state``.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.model_selection import compare
    >>> from milearn.svm import BagSVC, MISVC
    >>> datasets = {f"seed {k}": make_bags(n_bags=30, random_state=k) for k in range(3)}
    >>> found = compare({"MI-SVM": MISVC(), "kernel": BagSVC()}, datasets, cv=3)
    >>> found.table().shape, len(found.records)
    ((3, 2), 18)
    >>> found.ranks().n_datasets
    3
    """
    for name, given in (("estimators", estimators), ("datasets", datasets)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} is {type(given).__name__}: pass a dict with a name for each.")
        if not given:
            raise ValueError(f"{name} is empty: pass at least one.")
    if not (isinstance(error_score, str) and error_score == "raise") and error_score == error_score:
        raise ValueError(f"error_score={error_score!r} must be 'raise' or numpy.nan.")
    # The data are hashed once, in ``of_data``, and not for each result.
    cached = check_memory(os.fspath(memory) if isinstance(memory, os.PathLike) else memory).cache(
        _scored, ignore=["data"], verbose=0
    )
    records: dict[tuple[Any, ...], dict[str, Any]] = {}
    with Parallel(n_jobs=n_jobs, return_as="generator_unordered") as parallel:
        for name, given in datasets.items():
            data = data_of(name, given)
            splits = splits_of(data, cv, all(is_classifier(each) for each in estimators.values()))
            warn_of_shared_groups(data[2], splits, f"datasets[{name!r}]")
            of_data = None if memory is None else joblib.hash(data)
            tested = np.concatenate([test for _, test in splits])
            apart = len(np.unique(tested)) == len(tested)
            # Fold by fold, so that interrupted results can be compared.
            runs = parallel(
                delayed(_run)(
                    cached,
                    dict(zip(_KEYS, (name, label, fold), strict=True)),
                    isinstance(error_score, str),
                    (estimator, split, data, of_data, scoring),
                )
                for (fold, split), (label, estimator) in product(
                    enumerate(splits), estimators.items()
                )
            )
            for number, record in enumerate(runs, start=1):
                for name_of, found in record.get("influences", {}).items():
                    # Folds are units if they are independent, and there are no others.
                    record["influences"][name_of] = {} if found is None and apart else found
                records[tuple(record[key] for key in _KEYS)] = record
                _report(record, f"{number}/{len(splits) * len(estimators)}", verbose)
    names = _score_names(records.values())
    no_scores: dict[str, Any] = {"units": None, "influences": {}}
    no_scores |= dict.fromkeys((*names, "fit_seconds", "score_seconds"), float("nan"))
    places = list(datasets), list(estimators)
    ordered = sorted(records, key=lambda key: (*map(list.index, places, key[:2]), key[2]))
    return Comparison(
        records=[dict.fromkeys(_KEYS) | no_scores | records[key] for key in ordered],
        datasets=tuple(datasets),
        estimators=tuple(estimators),
        scores=names,
    )


# -- data sets and folds ---------------------------------------------------------------------------

Data = tuple[Any, np.ndarray, Any]  # X, y and groups


def data_of(name: str, given: Any, what: str = "groups") -> Data:
    if callable(given):
        given = given()
    if hasattr(given, "data") and hasattr(given, "target"):
        given = (given.data, given.target, getattr(given, "groups", None))
    if not isinstance(given, tuple) or len(given) not in (2, 3):
        raise TypeError(
            f"datasets[{name!r}] is {type(given).__name__}: pass (X, y), (X, y, groups), a "
            "Bunch with data and target, or a function that returns one of these."
        )
    X, y, groups = (*given, None)[:3]
    bags = as_bags(X)
    if bags is not None:
        check_order(bags, **{"y": y, what: groups})
        X = bags
    if groups is not None:
        columns = [ids(each, what, partial(bag_text, bags)) for each in columns_of(groups)]
        groups = columns[0] if len(columns) == 1 else np.column_stack(columns)
    return X, targets(y), groups


def splits_of(data: Data, cv: Any, classify: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    X, y, groups = data
    if isinstance(cv, (int, np.integer)):
        if classify:
            cv = StratifiedBagKFold(int(cv))
        else:
            cv = KFold(int(cv)) if groups is None else GroupKFold(int(cv))
    given = () if groups is None else (groups,)
    return list(check_cv(cv, y).split(X, y, *given))


# -- one result ------------------------------------------------------------------------------------


def _run(
    cached: Any, record: dict[str, Any], raises: bool, arguments: tuple[Any, ...]
) -> dict[str, Any]:
    """The record with the scores, or with the message of the error."""
    try:
        return record | cached(*arguments) | {"error": None}
    except Exception as error:
        if raises:
            raise
        return record | {"error": f"{type(error).__name__}: {error}"}


def _scored(
    estimator: Any, split: Any, data: Data, of_data: str | None, scoring: Any
) -> dict[str, Any]:
    """Scores and times of one estimator on one fold."""
    X, y, groups = data
    given = {"scoring": scoring, "params": fit_params(estimator, groups), "error_score": "raise"}
    given |= {"cv": [split], "return_estimator": True}
    found: Any = cross_validate(clone(estimator), X, y, **given)
    name = scoring if isinstance(scoring, str) else "score"
    scores = {
        name if key == "test_score" else key.removeprefix("test_"): float(value[0])
        for key, value in found.items()
        if key.startswith("test_")
    }
    for taken in sorted(_NO_SCORES & scores.keys()):
        raise ValueError(
            f"A score cannot be named {taken!r}, as another field of a record: rename it."
        )
    test, scorers = split[1], scoring if isinstance(scoring, Mapping) else {name: scoring}
    if isinstance(scoring, (list, tuple, set)):
        scorers = {each: each for each in scoring}
    rows: Any = getattr(X, "iloc", X)
    view = KnownPredictions(found["estimator"][0], rows[test], np.arange(len(test)))
    units: Any = dealt(np.arange(len(y)) if groups is None else linked_groups(groups))
    by_unit = {
        key: influences(
            check_scoring(view, scorers[key]), view, np.asarray(y)[test], units[test], scores[key]
        )
        if key in scorers
        else None
        for key in scores
    }
    seconds = {f"{key}_seconds": float(found[f"{key}_time"][0]) for key in ("fit", "score")}
    return (
        scores | seconds | {"units": "bags" if groups is None else "groups", "influences": by_unit}
    )


def fit_params(estimator: Any, groups: Any) -> dict[str, Any] | None:
    if groups is None:
        return None
    if get_config()["enable_metadata_routing"]:
        takes = bool(get_routing_for_object(estimator).consumes("fit", ["groups"]))
    else:
        takes = has_fit_parameter(estimator, "groups")
    return {"groups": groups} if takes else None


def _score_names(records: Any) -> tuple[str, ...]:
    for record in records:
        if record["error"] is None:
            return tuple(name for name in record if name not in _NO_SCORES)
    return ("score",)  # every fit failed


def _report(record: dict[str, Any], count: str, verbose: int | bool) -> None:
    where = f"{record['dataset']}, {record['estimator']}, fold {record['fold']}"
    if record["error"] is not None:
        message = f"{where} failed and has the score NaN. {record['error']}"
        warnings.warn(message, FitFailedWarning, stacklevel=3)
    elif verbose:
        scores = ", ".join(f"{name} {record[name]:.3f}" for name in _score_names([record]))
        print(f"[compare] {count} {where}: {scores} ({record['fit_seconds']:.2f} s)", flush=True)
