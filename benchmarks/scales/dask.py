"""Distributed bags: two worker processes against two threads, a killed worker, bytes of a pass."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from ..common.fresh import in_fresh_process
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration
from ..common.tasks import record_of

__all__ = ["REPORTS"]

# Bags of 20 instances on average, by what is measured: in full, and with --fast.
SIZES = {
    "workers": (50_000, 2_000),
    "killed": (2_000, 300),
    "search": (300, 100),
    "clusters": (10_000, 1_000),
    "refused": (100, 100),
}
TIME_GOAL = 1.5
PASS_GOAL = 2**20
GAP = 1e-3


@dataclass(frozen=True)
class DaskTask:
    """One measurement in a process of its own."""

    report: str
    dataset: str
    method: str
    size: int
    seed: int

    @property
    def key(self) -> str:
        """Of the code too: a ratio of times needs both of one state."""
        return f"{self.report}/{self.dataset}/{self.method}/{self.size}@{source_digest()}"


def run_task(task: DaskTask) -> dict[str, Any]:
    return record_of(task, in_process)


def in_process(task: DaskTask) -> dict[str, Any]:
    """What ``_dask_fit`` measures in a fresh process."""
    stated = {"kind": task.method, "n_bags": task.size}
    return in_fresh_process("benchmarks.scales._dask_fit", stated)


def run_dask(args: argparse.Namespace) -> int:
    tasks = [
        DaskTask("dask", "concepts", kind, sizes[1 if args.fast else 0], 0)
        for kind, sizes in SIZES.items()
    ]
    with RecordFile(args.out / "dask.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label="dask", function=run_task)
    found = {
        task.method: records[task.key]["result"]
        for task in tasks
        if "result" in records.get(task.key, {})
    }
    if "workers" in found:
        _show_times(found["workers"])
    if "killed" in found:
        _say_killed(found["killed"])
    if "search" in found:
        _say_search(found["search"])
    if "clusters" in found:
        result = found["clusters"]
        say(
            f"M3IC, {result['n_instances']:,} instances: objective {result['here']:.6f} here, "
            f"{result['workers']:.6f} over the workers."
        )
    if "refused" in found:
        say(f"The error of a kernel: {found['refused']['sentence']}")
    return finish(records, complete, file, len(tasks))


def _show_times(found: dict[str, Any]) -> None:
    local, workers = found["here"], found["workers"]
    header = ["", "wall time", "CPU time here", "passes", "objective", "gap"]
    rows = [
        [
            name,
            duration(result["wall_seconds"]),
            duration(result["cpu_seconds"]),
            str(result["n_passes"]),
            f"{result['objective']:.4f}",
            f"{result['gap'] / abs(result['objective']):.1e}",
        ]
        for name, result in (("two threads", local), ("two worker processes", workers))
    ]
    show(Table(header, rows))
    ratio = workers["wall_seconds"] / local["wall_seconds"]
    late = "" if ratio <= TIME_GOAL else ", MISSED"
    apart = abs(workers["objective"] / local["objective"] - 1.0)
    other = "" if apart <= GAP else ", MISSED"
    large = "" if found["largest_pass"] <= PASS_GOAL else ", MISSED"
    say(
        f"\n{found['n_instances']:,} x 100, MISVC(C=1, kernel='linear'), slack 'bag': ratio of "
        f"wall times {ratio:.2f} (goal {TIME_GOAL}{late}); objectives differ by {apart:.0e} (goal "
        f"{GAP:g}{other}).\nLargest pass without the working set: {found['largest_pass']:,} bytes "
        f"(goal {PASS_GOAL:,}{large}), of which {found['largest_down']:,} at most are "
        f"sent to the workers and {found['largest_up']:,} are sent back;\nlargest working set: "
        f"{found['largest_rows'] / 2**20:.1f} MiB. {found['n_partitions']} partitions, sent "
        f"once in {duration(found['send_seconds'])}. Times are the shorter of two, in turn."
    )


def _say_killed(result: dict[str, Any]) -> None:
    calm, disturbed = result["undisturbed"], result["disturbed"]
    apart = abs(disturbed["objective"] / calm["objective"] - 1.0)
    fate = "was replaced" if result["replaced"] else "WAS NOT REPLACED"
    say(
        f"A worker killed (SIGKILL) in round {result['round']} of a fit of "
        f"{duration(calm['wall_seconds'])} ({result['n_instances']:,} instances): the fit took "
        f"{duration(disturbed['wall_seconds'])}, objectives differ by {apart:.0e}, the worker "
        f"{fate}."
    )


def _say_search(result: dict[str, Any]) -> None:
    pairs = zip(result["workers"]["scores"], result["here"]["scores"], strict=True)
    apart = max(abs(there - here) for there, here in pairs)
    say(
        f"GridSearchCV of two C and three folds, {result['n_instances']:,} instances: "
        f"{duration(result['workers']['wall_seconds'])} over the workers, "
        f"{duration(result['here']['wall_seconds'])} here; scores differ by {apart:.0e}, best C "
        f"{result['workers']['best']:g} and {result['here']['best']:g}."
    )


REPORTS = (Report("dask", "MISVC over two worker processes: 10^6 x 100", run_dask),)
