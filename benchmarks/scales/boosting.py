"""DPBoost and LPBoost with stumps compared with plain gradient boosting, and with more bags."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

from milearn.datasets import make_bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.preprocessing import BagStatistics

from ..common.data import load
from ..common.memory import PeakMemory, Stopwatch
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration
from ..common.tasks import record_of

__all__ = ["REPORTS"]

SETS = ("musk1", "elephant", "fox", "tiger", "musk2")
SIZES = (100, 400, 1600, 6400)
# Seconds that a fit may take: a size at which it takes more is where a method ends.
LONGEST = 300.0


@dataclass(frozen=True)
class BoostingTask:
    """One method on one data set, or on as many bags of ten instances."""

    dataset: str
    method: str

    @property
    def key(self) -> str:
        return f"boosting/{self.dataset}/{self.method}@{digest([asdict(self), source_digest()])}"


METHODS = ("DPBoost", "LPBoost", "stumps", "histogram", "histogram on statistics")
COLUMNS = {
    "DPBoost": "DPBoost",
    "LPBoost": "LPBoost",
    "stumps": "GB, 100 stumps",
    "histogram": "HistGB",
    "histogram on statistics": "HistGB, statistics",
}


def run_task(task: BoostingTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: BoostingTask) -> dict[str, Any]:
    """CPU time and peak memory above what was there before, and the gap of a booster."""
    if task.dataset.isdigit():
        bags, y = make_bags(int(task.dataset), n_features=50, bag_size=10, random_state=0)
    else:
        data = load(task.dataset)
        bags, y = data.bags, data.y
    inherited = np.asarray(y)[bags.bag_index]
    found: dict[str, Any] = {"n_bags": len(bags), "n_instances": bags.n_instances}
    with PeakMemory() as memory:
        watch = Stopwatch()
        if task.method in ("DPBoost", "LPBoost"):
            booster = DPBoost if task.method == "DPBoost" else LPBoost
            model = booster(C=1.0, time_limit=LONGEST).fit(bags, y)
            found["objective"] = float(model.objective_)
            found["lower_bound"] = float(model.lower_bound_)
            found["stopped"] = not model.converged_ and task.method == "LPBoost"
        elif task.method == "stumps":
            GradientBoostingClassifier(max_depth=1).fit(bags.instances, inherited)
        elif task.method == "histogram":
            HistGradientBoostingClassifier().fit(bags.instances, inherited)
        else:
            HistGradientBoostingClassifier().fit(BagStatistics().fit_transform(bags), y)
        found |= watch.seconds()
    return found | {"peak_bytes": memory.above}


def report(args: argparse.Namespace, name: str, sets: tuple[str, ...], note: str) -> int:
    tasks = [BoostingTask(data, method) for data in sets for method in METHODS]
    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label=name, function=run_task)
    rows = []
    for data in sets:
        found = {
            method: records.get(BoostingTask(data, method).key, {}).get("result", {})
            for method in METHODS
        }
        size = found["stumps"]
        row = [data, str(size.get("n_instances", "-"))]
        row += [_time(found[method]) for method in METHODS]
        row += [_memory(found[method]) for method in ("DPBoost", "LPBoost")]
        rows.append([*row, *(_objective(found[method]) for method in ("DPBoost", "LPBoost"))])
    columns = ["data", "instances", *(COLUMNS[method] for method in METHODS)]
    columns += ["DPBoost, memory", "LPBoost, memory", "DPBoost, value", "LPBoost, value"]
    show(Table(columns, rows))
    say(note)
    return finish(records, complete, file, len(tasks))


def _time(result: dict[str, Any]) -> str:
    if not result:
        return "-"
    return duration(result["cpu_seconds"]) + (" (stopped)" if result.get("stopped") else "")


def _memory(result: dict[str, Any]) -> str:
    return f"{result['peak_bytes'] / 2**20:.0f} MiB" if result else "-"


def _objective(result: dict[str, Any]) -> str:
    return f"{result['objective']:.6g} >= {result['lower_bound']:.6g}" if result else "-"


NOTE = (
    "\nCPU time of one fit, C = 1, stumps; GB: scikit-learn's gradient boosting on instances with "
    "inherited labels,\nHistGB: its histogram-based boosting with default parameters, there and on "
    "statistics of bags;\nmemory: largest above that before the fit; value: objective, lower "
    f"bound; a fit may take {LONGEST:.0f} s."
)


def run_sets(args: argparse.Namespace) -> int:
    return report(args, "boosting-sets", SETS[:2] if args.fast else SETS, NOTE)


def run_sizes(args: argparse.Namespace) -> int:
    sizes = tuple(map(str, SIZES[:2] if args.fast else SIZES))
    note = NOTE + "\nmake_bags, 50 features, ten instances a bag; data: number of bags."
    return report(args, "boosting-bags", sizes, note)


REPORTS = (
    Report("boosting-sets", "DPBoost and LPBoost compared with gradient boosting", run_sets),
    Report("boosting-bags", "DPBoost and LPBoost with more bags", run_sizes),
)
