"""``stored-folds``: ten sets on the folds that were published with them, AUC and mean ranks.

The folds are those of MIDatasets.jl: five times ten folds, on which the paths of Kucukasci and
Baydogan (2018) and the trees of Komarek and Somol (2018) were evaluated. Both average the area
under the ROC curve over folds, then over repetitions. No setting is chosen here: every row is a
default, or tunes itself on the training bags of a fold. The folds judge and do not guide: nothing
of the package was chosen by them, although Musk1 and Fox are among the sets of the guiding half.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import cpu_count

from milearn.model_selection import rank_methods

from ..common.data import STORED, load, stored_folds
from ..common.methods import METHODS, select
from ..common.output import Table, add_common_options, add_recorded, duration, say, show
from ..common.protocol import FoldTask, recorded, run
from ..common.records import RecordFile
from ..common.reports import finish, say_states

HELP = "AUC on ten sets with published folds (5 x 10), compared with BLRT, with mean ranks"

NAMES = (
    "default",
    "all-misvc",
    "all-misvc-linear",
    "all-bagsvc",
    "all-blrt",
    "all-mind",
    "plain-trees",
)
REPEATS, FOLDS = 5, 10
FAST = ("stored_folds/musk1", "stored_folds/fox")


@dataclass(frozen=True)
class _Published:
    """The folds of one repetition, as a splitter."""

    dataset: str
    repeat: int

    def split(self, bags: Any, y: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for training in stored_folds(self.dataset)[self.repeat]:
            yield np.flatnonzero(training), np.flatnonzero(~training)


@dataclass(frozen=True)
class StoredTask(FoldTask):
    """A fold that is stored with its data set."""

    @property
    def outer(self) -> Any:
        """The stored folds of the repetition."""
        return _Published(self.dataset, self.repeat)

    def _outer_text(self) -> str:
        return "stored"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument("--datasets", nargs="+", default=list(STORED), metavar="NAME")
    parser.add_argument("--methods", nargs="+", default=list(NAMES), metavar="NAME")
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, metavar="N", help="repetitions (default: all 5)"
    )
    parser.add_argument(
        "--folds", type=int, default=FOLDS, metavar="N", help="of each (default: all 10)"
    )
    parser.add_argument(
        "--fast", action="store_true", help="two folds of two sets: a look, not a result"
    )
    parser.add_argument(
        "--jobs", type=int, default=cpu_count(), metavar="N", help="processes (default: all cores)"
    )
    add_recorded(parser)


def main(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    if args.fast:
        args.datasets, args.repeats, args.folds = list(FAST), 1, 2
        say("--fast: two folds of two sets, a look and not a result.\n")
    unknown = [name for name in args.datasets if name not in STORED]
    if unknown:
        raise SystemExit(f"{unknown[0]!r} has no stored folds: choose from {', '.join(STORED)}.")
    for name in args.datasets:
        load(name)
    tasks = tasks_of(
        args.datasets,
        [method.name for method in select(args.methods)],
        min(args.repeats, REPEATS),
        min(args.folds, FOLDS),
    )
    with RecordFile(args.out / "stored-folds.jsonl", fresh=args.fresh) as file:
        if args.recorded:
            records, complete = recorded(tasks, file), True
        else:
            records, complete = run(tasks, file, jobs=args.jobs, label="stored-folds")
    repeats = min(args.repeats, REPEATS)
    say(f"{repeats} of the {REPEATS} published repetitions of {FOLDS} folds.")
    show_areas(tasks, records)
    show_ranks(tasks, records)
    say_states(records, {name: METHODS[name].title for name in args.methods})
    status = finish(records, complete, file, len(tasks))
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status


def tasks_of(
    datasets: Sequence[str], methods: Sequence[str], repeats: int, folds: int
) -> list[StoredTask]:
    """All tasks, whole repetitions first."""
    return [
        StoredTask("stored-folds", dataset, method, repeat, fold, FOLDS, 5, "quick")
        for repeat in range(repeats)
        for dataset in datasets
        for method in methods
        for fold in range(folds)
    ]


def areas_of(
    tasks: Sequence[StoredTask], records: dict[str, dict[str, Any]]
) -> dict[tuple[str, str], list[float]]:
    """AUC averaged over the folds of each repetition, where all tasks have a result."""
    groups: dict[tuple[str, str], dict[int, list[float]]] = {}
    incomplete = set()
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        if result is None or result["auc"] is None:
            incomplete.add((task.dataset, task.method))
            continue
        here = groups.setdefault((task.dataset, task.method), {})
        here.setdefault(task.repeat, []).append(result["auc"])
    return {
        key: [float(np.mean(values)) for values in repeats.values()]
        for key, repeats in groups.items()
        if key not in incomplete
    }


def show_areas(tasks: Sequence[StoredTask], records: dict[str, dict[str, Any]]) -> None:
    """One row per data set; the best of each is marked."""
    areas = areas_of(tasks, records)
    methods = list(dict.fromkeys(task.method for task in tasks))
    rows = []
    for dataset in dict.fromkeys(task.dataset for task in tasks):
        here = {name: areas[dataset, name] for name in methods if (dataset, name) in areas}
        best = max((np.mean(values) for values in here.values()), default=np.nan)
        cells = [_cell(here[name], best) if name in here else "-" for name in methods]
        rows.append([dataset.removeprefix("stored_folds/"), *cells])
    means = [[np.mean(areas[key]) for key in areas if key[1] == name] for name in methods]
    shown = [f"{100 * np.mean(each):.1f} " if len(each) == len(rows) else "-" for each in means]
    rows.append(["mean", *shown])
    times = [_seconds(records, name) for name in methods]
    rows.append(["fit, CPU time", *(duration(value) if value == value else "-" for value in times)])
    title = "AUC x 100 on the stored folds, +- sd of the repetitions' means; * the best of a set"
    columns = ["data", *(METHODS[name].title for name in methods)]
    show(Table(columns, rows, title=title))


def _cell(values: Sequence[float], best: float) -> str:
    star = "*" if np.mean(values) == best else " "
    spread = f" +- {100 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{100 * np.mean(values):.1f}{spread}{star}"


def _seconds(records: dict[str, dict[str, Any]], method: str) -> float:
    found = [
        record["result"]["fit_cpu_seconds"]
        for record in records.values()
        if record["method"] == method and "result" in record
    ]
    return float(np.mean(found)) if found else float("nan")


def show_ranks(tasks: Sequence[StoredTask], records: dict[str, dict[str, Any]]) -> None:
    """Mean ranks by AUC over the sets on which every method has all its folds."""
    areas = areas_of(tasks, records)
    methods = list(dict.fromkeys(task.method for task in tasks))
    scores = [
        [np.mean(areas[dataset, name]) for name in methods]
        for dataset in dict.fromkeys(task.dataset for task in tasks)
        if all((dataset, name) in areas for name in methods)
    ]
    if len(scores) < 2 or len(methods) < 2:
        say("\nNo ranks: fewer than two data sets with all folds of at least two methods.")
        return
    ranks = rank_methods(np.array(scores), methods)
    wins = np.sum(np.array(scores) == np.max(scores, axis=1, keepdims=True), axis=0)
    rows = [
        [METHODS[name].title, f"{rank:.2f}", str(wins[methods.index(name)])]
        for name, rank in zip(ranks.methods, ranks.ranks, strict=True)
    ]
    title = f"mean rank by AUC over {ranks.n_datasets} sets (1 is best)"
    show(Table(["method", "rank", "first"], rows, title=title))
    say(
        f"Friedman's test: p = {ranks.p_value:.2g}; ranks that differ by less than "
        f"{ranks.critical_difference:.2f} are not distinguished (Nemenyi, 5 %).\n"
        "Every row was computed here: the papers that published these folds were not available."
    )
