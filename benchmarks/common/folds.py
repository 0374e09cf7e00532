"""Methods on the same folds of data sets, by :func:`milearn.model_selection.compare`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import studentized_range
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import roc_auc_score

from milearn.model_selection import Ranks, StratifiedBagKFold, compare, rank_methods

from .data import DataSet, load
from .methods import METHODS
from .output import Table, duration, percent, say, show
from .runner import bar, memory

# Of stated probabilities: coarse enough for a hundred bags in each.
BINS = tuple(pairwise((0.0, 0.2, 0.4, 0.6, 0.8, 1.0)))

Records = list[dict[str, Any]]
Found = dict[tuple[str, str], Records]


def add_methods(
    parser: argparse.ArgumentParser, datasets: Sequence[str], methods: Sequence[str]
) -> None:
    """``--datasets`` and ``--methods``."""
    parser.add_argument("--datasets", nargs="+", default=list(datasets), metavar="NAME")
    parser.add_argument(
        "--methods", nargs="+", choices=list(METHODS), default=list(methods), metavar="NAME"
    )


def repeated(n_splits: int) -> Callable[[DataSet, int], Any]:
    """A cross-validation whose seed is the number of the repetition."""
    return lambda data, repeat: StratifiedBagKFold(n_splits, shuffle=True, random_state=repeat)


class Timed(BaseEstimator):
    """An estimator that tells the CPU time of its fit."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Timed:
        start = time.process_time()
        self.fitted_ = clone(self.estimator).fit(X, y)
        self.cpu_seconds_ = time.process_time() - start
        return self


def cross_validated(
    args: argparse.Namespace,
    datasets: Sequence[str],
    methods: Sequence[str],
    cv: Callable[[DataSet, int], Any],
    repeats: int = 1,
    make: Callable[[str, DataSet], Any] = lambda name, data: METHODS[name].model(data.text),
) -> Found:
    """Records of all folds by data set and method.

    Whole repetitions come first: a run that is stopped early has compared like with like. ``cv``
    makes the folds of a data set and repetition, ``make`` the estimator of a method.
    """
    for name in datasets:
        load(name)  # a data set that is not there should end the run now, not after an hour
    found: Found = {(data, method): [] for data in datasets for method in methods}
    for repeat, name in bar([(repeat, name) for repeat in range(repeats) for name in datasets]):
        data = load(name)
        compared = compare(
            {method: Timed(make(method, data)) for method in methods},
            {name: (data.bags, data.y)},
            cv=cv(data, repeat),
            scoring=fold_scores,
            memory=memory(args),
            n_jobs=args.jobs,
            error_score=np.nan,
        )
        for record in compared.records:
            args.failed |= record["error"] is not None
            found[name, record["estimator"]].append(record | {"repeat": repeat})
    return found


def scores_of(model: Any, bags: Any) -> np.ndarray:
    """Scores of bags for the second class, whatever method a classifier has for them."""
    if hasattr(model, "decision_function"):
        return model.decision_function(bags)
    return model.predict_proba(bags)[:, 1]


def fold_scores(timed: Timed, bags: Any, y: np.ndarray) -> dict[str, float]:
    """What is kept of a fold: accuracy, AUC, what was chosen, and sums over probabilities."""
    model, two = timed.fitted_, len(np.unique(y)) == 2
    found = {
        "cpu_seconds": timed.cpu_seconds_,
        "accuracy": float(np.mean(model.predict(bags) == y)),
        "auc": float(roc_auc_score(y, scores_of(model, bags))) if two else np.nan,
    }
    if hasattr(model, "paradigm_"):
        found[f"chosen {model.paradigm_}"] = 1.0
    if hasattr(model, "predict_proba") and len(model.classes_) == 2:
        stated = model.predict_proba(bags)[:, 1]
        found["best accuracy"] = best_accuracy(stated, y)
        found |= {"bags": float(len(y)), "squares": float(np.sum((stated - y) ** 2))}
        for low, high in BINS:
            inside = (stated >= low) & ((stated < high) | (high == 1.0))
            found[f"bags {low}"] = float(inside.sum())
            found[f"stated {low}"] = float(stated[inside].sum())
            found[f"positive {low}"] = float(y[inside].sum())
    return found


def best_accuracy(scores: np.ndarray, truth: np.ndarray) -> float:
    """Highest accuracy of any threshold on the scores."""
    predicted = scores >= np.append(np.unique(scores), np.inf)[:, None]
    return float((predicted == truth).mean(axis=1).max())


def mean(records: Records, name: str) -> float:
    """Mean over folds, NaN where one failed or has none."""
    return float(np.mean([record.get(name, np.nan) for record in records]))


def total(records: Records, name: str) -> float:
    return float(sum(record[name] for record in records))


def repeat_means(records: Records, name: str) -> list[float]:
    """Mean over the folds of each repetition, as published tables of 10 x 10 folds average."""
    repeats = sorted({record["repeat"] for record in records})
    return [mean([each for each in records if each["repeat"] == r], name) for r in repeats]


def spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else np.nan


def accuracy(records: Records) -> str:
    """Mean and standard deviation of the repetitions in percent, or that folds failed."""
    failed = sum(record["error"] is not None for record in records)
    values = repeat_means(records, "accuracy")
    return f"{failed} FAILED" if failed else percent(float(np.mean(values)), spread(values))


def show_folds(found: Found, over: Callable[[Records], str] = accuracy) -> None:
    """One table per data set."""
    for dataset in dict.fromkeys(dataset for dataset, _ in found):
        rows = [
            [
                METHODS[method].title,
                over(records),
                f"{mean(records, 'auc'):.3f}",
                duration(mean(records, "cpu_seconds")),
            ]
            for (name, method), records in found.items()
            if name == dataset
        ]
        columns = ["method", "accuracy %", "AUC", "fit, CPU time"]
        show(Table(columns, rows, title=str(load(dataset))))


def ranks_of(
    scores: Iterable[Sequence[float]], methods: Sequence[str]
) -> tuple[Ranks, np.ndarray] | None:
    """Ranks over the data sets on which every method has a score, and how often each is first."""
    rows = np.array(list(scores), dtype=float)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) < 2 or len(methods) < 2:
        say("\nNo ranks: fewer than two data sets with all folds of at least two methods.")
        return None
    ranks = rank_methods(rows, methods)
    first = np.sum(rows == rows.max(axis=1, keepdims=True), axis=0)
    return ranks, first[[list(methods).index(name) for name in ranks.methods]]


def show_ranks(
    scores: Iterable[Sequence[float]], titles: dict[str, str], title: str, note: str = ""
) -> None:
    """Mean ranks of the methods, best first, and how often each is first."""
    found = ranks_of(scores, list(titles))
    if found is None:
        return
    ranks, first = found
    rows = [
        [titles[name], f"{rank:.2f}", str(wins)]
        for name, rank, wins in zip(ranks.methods, ranks.ranks, first, strict=True)
    ]
    show(Table(["method", "rank", "first"], rows, title=title.format(ranks.n_datasets)))
    say(f"{friedman(ranks)}\n{note}".rstrip())


def friedman(ranks: Ranks) -> str:
    return (
        f"Friedman's test: p = {ranks.p_value:.2g}; ranks that differ by less than "
        f"{nemenyi(ranks)[0]:.2f} are not distinguished (Nemenyi, 5 %)."
    )


def nemenyi(ranks: Ranks) -> tuple[float, np.ndarray]:
    """The critical difference at 5 %, and p-values of the differences to the best method."""
    k = len(ranks.methods)
    unit = np.sqrt(k * (k + 1) / (12.0 * ranks.n_datasets))
    gaps = (ranks.ranks - ranks.ranks[0]) / unit
    quantile = studentized_range.ppf(0.95, k, np.inf)
    return float(quantile * unit), studentized_range.sf(gaps, k, np.inf)
