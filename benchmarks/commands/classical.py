"""``classical``: every classifier on the classical sets, with ranks over all of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import cpu_count

from milearn.model_selection import Ranks, rank_methods

from ..common.carbonneau import PUBLISHED as CARBONNEAU
from ..common.carbonneau import SETS
from ..common.classifiers import CLASSIFIERS
from ..common.data import load
from ..common.methods import LEVELS, METHODS, select
from ..common.output import Table, add_common_options, say, show
from ..common.protocol import Summary, print_tables, run, summarise, tasks_for
from ..common.records import RecordFile
from ..common.reports import finish

HELP = "10 x 10-fold nested accuracy of every classifier on the classical sets, with ranks"

# Plain scikit-learn, then every classifier of the package.
METHODS_OF_TABLE = (
    "plain-mean",
    "plain-minmax",
    "plain-linear",
    *(each.name for each in CLASSIFIERS),
)
# A row of ours that is further below the published row of the same method has to be explained.
_POINTS_BELOW = 2.0

# Further rows in percent, quoted from the source named. None of them was checked against its paper
# here, and their protocols differ: no row may be compared to the digit.
PUBLISHED_SETS = ("musk1", "musk2", "elephant", "fox", "tiger")
PUBLISHED = (
    ("mi-SVM, Andrews et al. 2003", (87.4, 83.6, 82.2, 58.2, 78.4)),
    ("MI-SVM, Andrews et al. 2003", (77.9, 84.3, 81.4, 57.8, 84.0)),
    ("miGraph, Zhou et al. 2009", (88.9, 90.3, 86.8, 61.6, 86.0)),
    ("MI-Net with DS, Wang et al. 2018", (89.4, 87.4, 87.2, 63.0, 84.5)),
    ("gated attention, Ilse et al. 2018", (90.0, 86.3, 85.7, 60.3, 84.5)),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument(
        "--datasets", nargs="+", default=list(SETS), metavar="NAME", help="default: %(default)s"
    )
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS_OF_TABLE), metavar="NAME", help="default: all"
    )
    parser.add_argument(
        "--repeats", type=int, default=10, metavar="N", help="cross-validations (default: 10)"
    )
    parser.add_argument("--folds", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument(
        "--grid",
        choices=sorted(LEVELS),
        default="full",
        help="width of the inner search (default: full)",
    )
    parser.add_argument(
        "--jobs", type=int, default=cpu_count(), metavar="N", help="processes (default: all cores)"
    )


def run_folds(args: argparse.Namespace) -> tuple[int, list[Summary], list[dict[str, Any]]]:
    """The protocol with these data sets and methods; exit status, summaries and records."""
    start = time.perf_counter()
    for name in args.datasets:
        load(name)  # a data set that is not there should end the run now, not after an hour
    tasks = tasks_for(
        "nested",
        args.datasets,
        [method.name for method in select(args.methods)],
        repeats=args.repeats,
        n_splits=args.folds,
        n_inner=5,
        level=args.grid,
    )
    with RecordFile(args.out / "nested.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label="classical")
    summaries = summarise(tasks, records, over="repeat")
    print_tables(summaries)
    say(
        f"\n{args.repeats} x {args.folds}-fold cross-validation over bags, C and gamma by an "
        f"inner 5-fold GridSearchCV (grid: {args.grid});\naccuracy: mean +- standard deviation "
        "of the cross-validations' means; the baselines ran on the same folds."
    )
    status = finish(records, complete, file, len(tasks))
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status, summaries, list(records.values())


def main(args: argparse.Namespace) -> int:
    status, summaries, records = run_folds(args)
    theirs = {name: [cell[0] for cell in row] for name, row in CARBONNEAU.items()}
    rows = [[name, *(f"{value:.1f}" for value in row)] for name, row in theirs.items()]
    title = "Carbonneau et al. 2018 (theirs, 10 x 10-fold on folds of their own), accuracy %:"
    show(Table(["method", *SETS], rows, title=title))
    below = list(rows_below(summaries))
    if below:
        columns = ["ours", "theirs", "set", "accuracy", "published"]
        title = f"more than {_POINTS_BELOW:g} points below their row of the same method:"
        show(Table(columns, below, "lllrr", title=title))
    rows = [[name, *map(str, row)] for name, row in PUBLISHED]
    title = "published, not checked, with other protocols:"
    show(Table(["source", *PUBLISHED_SETS], rows, title=title))
    chosen = threshold_table(records)
    if chosen is not None:
        show(chosen)
    show(cost_table(records))
    ranks = ranks_of(summaries, args.methods)
    if ranks is None:
        say("\nNo ranks: fewer than two data sets with all folds of at least two methods.")
        return status
    show(rank_table(ranks))
    say(
        f"\nFriedman's test: p = {ranks.p_value:.2g}; ranks that differ by less than "
        f"{ranks.critical_difference:.2f} are not distinguished (Nemenyi, 5 %).\np: of the "
        "difference to the first row, by Nemenyi's test, and by Wilcoxon's with Holm's correction "
        "over\nall pairs."
    )
    return status


def cost_table(records: list[dict[str, Any]]) -> Table:
    """Hours of all folds, their inner searches included, one row per data set."""
    hours: dict[str, float] = {}
    for record in records:
        name = record["dataset"]
        hours[name] = hours.get(name, 0.0) + record["cpu_seconds"] / 3600
    rows = [[name, f"{value:.2f}"] for name, value in hours.items()]
    return Table(["set", "CPU hours"], rows, title="time of all folds, inner searches included:")


def threshold_table(records: list[dict[str, Any]]) -> Table | None:
    """Accuracies of rows with probabilities, honest and with the best threshold of each test fold.

    None where no record has probabilities of two classes.
    """
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for record in records:
        result = record.get("result", {})
        if "probabilities" in result:
            scores, truth = np.array(result["probabilities"]), np.array(result["truth"])
            pair = result["accuracy"], best_accuracy(scores, truth)
            sets = found.setdefault(record["method"], {})
            sets.setdefault(record["dataset"], []).append(pair)
    if not found:
        return None
    names = list(dict.fromkeys(record["dataset"] for record in records))
    rows = []
    for method, sets in found.items():
        for column, words in enumerate(("honest", "as DSMIL counts")):
            means = [
                np.mean(sets[name], axis=0)[column] if name in sets else None for name in names
            ]
            cells = ["-" if mean is None else f"{100 * mean:.1f}" for mean in means]
            total = "-" if None in means else f"{100 * sum(means):.1f}"
            rows.append([METHODS[method].title, words, *cells, total])
    return Table(
        ["method", "threshold", *names, "sum"],
        rows,
        "ll" + "r" * (len(names) + 1),
        title="accuracy %, threshold from the training bags or chosen on each test fold:",
        note="The second row is too high: its thresholds are chosen by the classes of the bags "
        "that it is evaluated on.\nA test fold has few bags, so the best of its thresholds gains "
        "points by chance alone.",
    )


def best_accuracy(scores: np.ndarray, truth: np.ndarray) -> float:
    """Highest accuracy of any threshold on the scores."""
    thresholds = np.append(np.unique(scores), np.inf)
    predicted = scores >= thresholds[:, None]
    return float((predicted == truth).mean(axis=1).max())


def rows_below(summaries: list[Summary]) -> Iterator[list[str]]:
    """Rows of ours that are well below the published row of the same method."""
    ours = {each.name: each for each in CLASSIFIERS}
    for item in summaries:
        classifier = ours.get(item.method)
        if classifier is None or classifier.theirs is None or item.dataset not in SETS:
            continue
        published = CARBONNEAU[classifier.theirs][SETS.index(item.dataset)][0]
        accuracy = 100 * item.accuracy
        if item.folds and accuracy < published - _POINTS_BELOW:
            names = [classifier.title, classifier.theirs, item.dataset]
            yield [*names, f"{accuracy:.1f}", f"{published:.1f}"]


def rank_table(ranks: Ranks) -> Table:
    """One row per method, with the p-values of its difference to the best one."""
    rows = []
    for place, (name, rank) in enumerate(zip(ranks.methods, ranks.ranks, strict=True)):
        p_values = [test[0, place] for test in (ranks.nemenyi, ranks.wilcoxon)]
        cells = [f"{value:.2g}" if place else "" for value in p_values]
        rows.append([METHODS[name].title, f"{rank:.2f}", *cells])
    title = f"average rank over {ranks.n_datasets} data sets (1 is best)"
    return Table(["method", "rank", "p, Nemenyi", "p, Wilcoxon-Holm"], rows, title=title)


def ranks_of(summaries: list[Summary], methods: list[str]) -> Ranks | None:
    """Ranks over the data sets on which every method has all its folds."""
    complete = {
        (item.dataset, item.method): item.accuracy
        for item in summaries
        if item.folds and not item.missing and not item.failed
    }
    rows = [
        [complete[dataset, method] for method in methods]
        for dataset in dict.fromkeys(item.dataset for item in summaries)
        if all((dataset, method) in complete for method in methods)
    ]
    if len(rows) < 2 or len(methods) < 2:
        return None
    return rank_methods(np.array(rows), methods)
