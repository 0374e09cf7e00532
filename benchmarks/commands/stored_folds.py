"""``stored-folds``: ten sets on the folds that were published with them, AUC and mean ranks.

The folds are those of MIDatasets.jl: five times ten folds, on which the paths of Kucukasci and
Baydogan (2018) and the trees of Komarek and Somol (2018) were evaluated. Both average the area
under the ROC curve over folds, then over repetitions. No setting is chosen here: every row is a
default, or tunes itself on the training bags of a fold. The folds judge and do not guide: nothing
of the package was chosen by them, although Musk1 and Fox are among the sets of the guiding half.
"""

from __future__ import annotations

import argparse

import numpy as np
from joblib import cpu_count

from ..common.data import STORED, DataSet, path_of
from ..common.folds import (
    add_methods,
    cross_validated,
    mean,
    repeat_means,
    show_ranks,
    spread,
)
from ..common.methods import METHODS
from ..common.output import Table, duration, say, show
from ..common.runner import add_options

HELP = "AUC on ten sets with published folds (5 x 10), compared with BLRT, with mean ranks"

NAMES = (
    *("default", "all-misvc", "all-misvc-linear", "all-bagsvc", "all-blrt", "all-mind"),
    "plain-trees",
)
REPEATS, FOLDS = 5, 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, jobs=cpu_count())
    add_methods(parser, STORED, NAMES)
    for name, number in (("repeats", REPEATS), ("folds", FOLDS)):
        parser.add_argument(f"--{name}", type=int, default=number, metavar="N")


def main(args: argparse.Namespace) -> None:
    def published(data: DataSet, repeat: int) -> list[tuple[np.ndarray, np.ndarray]]:
        with np.load(path_of(data.name)) as file:
            training = np.unpackbits(file["folds"], axis=2, count=len(data.bags)).astype(bool)
        folds = training[repeat, : args.folds]
        return [(np.flatnonzero(each), np.flatnonzero(~each)) for each in folds]

    found = cross_validated(args, args.datasets, args.methods, published, args.repeats)
    say(f"{args.repeats} of the {REPEATS} published repetitions of {FOLDS} folds.")
    areas = {key: repeat_means(records, "auc") for key, records in found.items()}
    scores = [[np.mean(areas[name, each]) for each in args.methods] for name in args.datasets]
    rows = []
    for name, row in zip(args.datasets, scores, strict=True):
        cells = []
        for method, score in zip(args.methods, row, strict=True):
            sd = spread(areas[name, method])
            words = "" if sd != sd else f" +- {100 * sd:.1f}"
            cells.append(f"{100 * score:.1f}{words}{'*' if score == max(row) else ' '}")
        rows.append([name.removeprefix("stored_folds/"), *cells])
    rows.append(["mean", *(f"{100 * each:.1f} " for each in np.mean(scores, axis=0))])
    times = [
        mean([record for name in args.datasets for record in found[name, method]], "cpu_seconds")
        for method in args.methods
    ]
    rows.append(["fit, CPU time", *map(duration, times)])
    titles = {name: METHODS[name].title for name in args.methods}
    title = "AUC x 100 on the stored folds, +- sd of the repetitions' means; * the best of a set"
    show(Table(["data", *titles.values()], rows, title=title))
    note = "Every row was computed here: the papers that published these folds were not available."
    show_ranks(scores, titles, "mean rank by AUC over {} sets (1 is best)", note)
