"""``nested``: nested cross-validation on the real sets, MISVC compared with plain baselines."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from joblib import cpu_count

from ..common.data import load
from ..common.methods import LEVELS, select
from ..common.output import (
    add_common_options,
    print_tables,
    write_plot,
)
from ..common.page import say
from ..common.protocol import (
    Summary,
    run,
    summarise,
    tasks_for,
)
from ..common.records import RecordFile
from ..common.reports import finish

HELP = "10 x 10-fold nested accuracy on Musk1, Elephant, Fox, Tiger, with baselines"

DATASETS = ("musk1", "elephant", "fox", "tiger")
METHODS = (
    "baseline-minmax",
    "baseline-mean",
    "baseline-setkernel",
    "misvc-bag-rbf",
    "misvc-instance-rbf",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_nested_options(parser, DATASETS, METHODS)


def add_nested_options(
    parser: argparse.ArgumentParser, datasets: Sequence[str], methods: Sequence[str]
) -> None:
    """The options of the protocol."""
    add_common_options(parser)
    parser.add_argument(
        "--datasets", nargs="+", default=list(datasets), metavar="NAME", help="default: %(default)s"
    )
    parser.add_argument(
        "--methods", nargs="+", default=list(methods), metavar="NAME", help="default: %(default)s"
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


def main(args: argparse.Namespace) -> int:
    return run_nested(args, "nested", "nested")[0]


def run_nested(
    args: argparse.Namespace, command: str, plot: str, tables: bool = True
) -> tuple[int, list[Summary], list[dict[str, Any]]]:
    """The protocol with the command's data sets and methods; exit status, summaries and records.

    The records belong to the protocol, not to the command: what ``nested`` has run,
    ``classical`` need not run again. ``tables=False`` leaves the tables and the plot to the caller.
    """
    start = time.perf_counter()
    for name in args.datasets:
        load(name)  # a data set that is not there should end the run now, not after an hour
    names = [method.name for method in select(args.methods)]
    tasks = tasks_for(
        "nested",
        args.datasets,
        names,
        repeats=args.repeats,
        n_splits=args.folds,
        n_inner=5,
        level=args.grid,
    )
    with RecordFile(args.out / "nested.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label=command)
    summaries = summarise(tasks, records, over="repeat")
    if tables:
        print_tables(summaries)
        say(
            f"\n{args.repeats} x {args.folds}-fold cross-validation over bags, C and gamma by an "
            f"inner 5-fold GridSearchCV (grid: {args.grid});\naccuracy: mean +- standard deviation "
            "of the cross-validations' means; the baselines ran on the same folds."
        )
    status = finish(records, complete, file, len(tasks))
    if tables:
        title = f"python -m benchmarks {command}, {args.repeats} x {args.folds}-fold"
        write_plot(summaries, args.out / f"{plot}.png", title=title, spread="sd over repetitions")
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status, summaries, list(records.values())
