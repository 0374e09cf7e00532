"""``quick``: every family of estimators on small data in half a minute, as a first look."""

from __future__ import annotations

import argparse
import time

from joblib import cpu_count

from ..common.data import available
from ..common.methods import select
from ..common.output import add_common_options, say
from ..common.protocol import print_tables, run, summarise, tasks_for
from ..common.records import RecordFile
from ..common.reports import finish
from ._quick_others import run_others

HELP = "every family of estimators on embedded data (and Musk1 where it is), in half a minute"

DATASETS = ("digits", "concept", "musk1")
METHODS = (
    "plain-mean",
    "plain-minmax",
    "all-single",
    "default",
    "all-bagsvc",
    "all-misvc",
    "all-misvc-l1",
    "all-instancemisvc",
    "all-sdpmil",
    "all-milsd",
    "all-dpboost",
    "all-miles",
    "all-citation",
    "all-dd",
    "all-milboost",
    "all-fisher",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument(
        "--datasets", nargs="+", default=list(DATASETS), metavar="NAME", help="default: %(default)s"
    )
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), metavar="NAME", help="default: %(default)s"
    )
    parser.add_argument(
        "--jobs", type=int, default=cpu_count(), metavar="N", help="processes (default: all cores)"
    )
    parser.add_argument(
        "--fast",
        action="store_true",
        help="tiny data and no search, a few seconds: only shows that everything runs",
    )


def main(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    names = [method.name for method in select(args.methods)]
    if args.fast:
        datasets = [name if name.endswith("-tiny") else f"{name}-tiny" for name in DATASETS[:2]]
        protocol = {"repeats": 1, "n_splits": 2, "n_inner": 2, "level": "tiny"}
    else:
        datasets = list(args.datasets)
        protocol = {"repeats": 1, "n_splits": 5, "n_inner": 3, "level": "quick"}
    if "musk1" in datasets and not available("musk1"):
        datasets.remove("musk1")
        say("musk1 is left out: no data folder (set MILEARN_DATA to one that holds musk1.npz).")
    tasks = tasks_for("quick", datasets, names, **protocol)
    with RecordFile(args.out / "quick.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label="quick")
    summaries, wanted = summarise(tasks, records, over="fold"), len(tasks)
    folds = protocol["n_splits"]
    if args.fast:
        say("\nTiny data, no search (--fast): the figures below say nothing about the methods.")
    print_tables(summaries)
    say(
        f"\n{folds}-fold cross-validation over bags, default settings; for methods that embed "
        "bags,\nC is chosen by inner folds. accuracy: mean +- standard deviation over the folds."
    )
    if complete and list(args.methods) == list(METHODS):
        with RecordFile(args.out / "quick.jsonl") as file:
            others, complete, n_others = run_others(file, args.jobs, args.fast)
        records, wanted = records | others, wanted + n_others
    status = finish(records, complete, file, wanted)
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status
