"""``classical``: every classifier on the classical sets, with ranks over all of them."""

from __future__ import annotations

import argparse

import numpy as np
from joblib import cpu_count

from ..common.carbonneau import ACCURACY, SETS
from ..common.folds import (
    Found,
    add_methods,
    cross_validated,
    friedman,
    mean,
    nemenyi,
    ranks_of,
    repeated,
    show_folds,
    total,
)
from ..common.methods import CLASSIFIERS, METHODS
from ..common.output import Table, say, show
from ..common.runner import add_options

HELP = "10 x 10-fold accuracy of every classifier on the classical sets, with ranks"

# A row of ours that is further below the published row of the same method has to be explained.
_POINTS_BELOW = 2.0
# Further rows in percent, quoted from the source named. None of them was checked against its paper
# here, and their protocols differ: no row may be compared to the digit.
PUBLISHED = (
    ("mi-SVM, Andrews et al. 2003", 87.4, 83.6, 82.2, 58.2, 78.4),
    ("MI-SVM, Andrews et al. 2003", 77.9, 84.3, 81.4, 57.8, 84.0),
    ("miGraph, Zhou et al. 2009", 88.9, 90.3, 86.8, 61.6, 86.0),
    ("MI-Net with DS, Wang et al. 2018", 89.4, 87.4, 87.2, 63.0, 84.5),
    ("gated attention, Ilse et al. 2018", 90.0, 86.3, 85.7, 60.3, 84.5),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, jobs=cpu_count())
    add_methods(parser, SETS, ("plain-mean", "plain-minmax", "plain-linear", *CLASSIFIERS))
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="(default: 10)")
    parser.add_argument("--folds", type=int, default=10, metavar="N", help="(default: 10)")


def main(args: argparse.Namespace) -> None:
    found = cross_validated(args, args.datasets, args.methods, repeated(args.folds), args.repeats)
    show_folds(found)
    say(
        f"\n{args.repeats} x {args.folds}-fold cross-validation over bags; accuracy: mean +- "
        "standard deviation of the\ncross-validations' means; all methods have the same folds."
    )
    rows = [[name, *map(str, row)] for name, row in ACCURACY.items()]
    title = "Carbonneau et al. 2018 (theirs, 10 x 10-fold on folds of their own), accuracy %:"
    show(Table(["method", *SETS], rows, title=title))
    show_below(found)
    rows = [[name, *map(str, row)] for name, *row in PUBLISHED]
    show(Table(["source", *SETS], rows, title="published, not checked, with other protocols:"))
    show_thresholds(found, args.datasets)
    rows = []
    for dataset in args.datasets:
        records = [
            each for (name, _), found_of in found.items() if name == dataset for each in found_of
        ]
        rows.append([dataset, f"{total(records, 'cpu_seconds') / 3600:.2f}"])
    show(Table(["set", "CPU hours"], rows, title="time of all folds, inner searches included:"))
    scores = [[mean(found[d, m], "accuracy") for m in args.methods] for d in args.datasets]
    ranked = ranks_of(scores, args.methods)
    if ranked is None:
        return
    ranks, _ = ranked
    rows = []
    for place, (name, rank) in enumerate(zip(ranks.methods, ranks.ranks, strict=True)):
        p_values = (nemenyi(ranks)[1][place], ranks.wilcoxon[0, place])
        rows.append(
            [METHODS[name].title, f"{rank:.2f}", *(f"{p:.2g}" if place else "" for p in p_values)]
        )
    title = f"average rank over {ranks.n_datasets} data sets (1 is best)"
    show(Table(["method", "rank", "p, Nemenyi", "p, Wilcoxon-Holm"], rows, title=title))
    say(
        f"\n{friedman(ranks)}\np: of the difference to the first row, by Nemenyi's test, and by "
        "Wilcoxon's with Holm's correction over\nall pairs."
    )


def show_below(found: Found) -> None:
    """Rows of ours that are well below the published row of the same method."""
    rows = []
    for (dataset, method), records in found.items():
        theirs = METHODS[method].theirs
        if theirs and dataset in SETS:
            ours = 100 * mean(records, "accuracy")
            published = ACCURACY[theirs][SETS.index(dataset)]
            if ours < published - _POINTS_BELOW:
                title = METHODS[method].title
                rows.append([title, theirs, dataset, f"{ours:.1f}", f"{published:.1f}"])
    if rows:
        columns = ["ours", "theirs", "set", "accuracy", "published"]
        title = f"more than {_POINTS_BELOW:g} points below their row of the same method:"
        show(Table(columns, rows, "lllrr", title=title))


def show_thresholds(found: Found, datasets: list[str]) -> None:
    """Accuracies of rows with probabilities, honest and with the best threshold of each fold."""
    rows = []
    for method in dict.fromkeys(method for _, method in found):
        for name, words in (("accuracy", "honest"), ("best accuracy", "as DSMIL counts")):
            if "best accuracy" in found[datasets[0], method][0]:
                means = [100 * mean(found[dataset, method], name) for dataset in datasets]
                cells = [f"{value:.1f}" for value in (*means, np.sum(means))]
                rows.append([METHODS[method].title, words, *cells])
    if rows:
        show(
            Table(
                ["method", "threshold", *datasets, "sum"],
                rows,
                "ll" + "r" * (len(datasets) + 1),
                title="accuracy %, threshold from the training bags or chosen on each test fold:",
                note="The second row is too high: its thresholds are chosen by the classes of the "
                "bags that it is evaluated on.\nA test fold has few bags, so the best of its "
                "thresholds gains points by chance alone.",
            )
        )
