"""MISVC by passes over a memory map that is larger than what it may hold."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

from ..common.map_file import on_memory_map
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration, megabytes
from ..common.tasks import record_of
from ._out_of_core_fit import BAG_SIZE, write_instances

__all__ = ["REPORTS", "MapTask"]

N_FEATURES = 100
LARGE = 10_000_000
MEMORY_GOAL_MB = 1024.0


@dataclass(frozen=True)
class MapTask:
    """One slack: the file is written, fitted from in a fresh process, and removed."""

    dataset: str
    method: str
    n_instances: int
    C: float

    @property
    def key(self) -> str:
        settings = digest([asdict(self), N_FEATURES, BAG_SIZE, source_digest()])
        return f"{self.dataset}/{self.method}/{self.n_instances}@{settings}"


def run_task(task: MapTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: MapTask) -> dict[str, Any]:
    """What ``_out_of_core_fit`` measures in a fresh process."""
    shape = (task.n_instances, N_FEATURES)
    stated = {"C": task.C, "slack": task.method}
    return on_memory_map("benchmarks.scales._out_of_core_fit", write_instances, shape, stated)


def run_map(args: argparse.Namespace) -> int:
    name = "out-of-core"
    size = LARGE // 100 if args.fast else LARGE
    tasks = [MapTask("memory-map", slack, size, 1.0) for slack in ("bag", "instance")]
    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label=name, function=run_task)
    found = {
        task.method: records[task.key]["result"]
        for task in tasks
        if "result" in records.get(task.key, {})
    }
    rows = [
        [
            f"{size:,}",
            slack,
            f"{4 * size * N_FEATURES / 2**20:,.0f} MB",
            str(result["passes"]),
            duration(result["wall_seconds"]),
            duration(result["cpu_seconds"]),
            f"{result['gap']:.0e}",
            megabytes(result["before_mb"]),
            megabytes(result["peak_mb"]),
            "" if result["converged"] else "NOT CONVERGED",
        ]
        for slack, result in found.items()
    ]
    header = ["instances", "slack", "data", "passes", "wall time", "CPU time", "gap"]
    show(Table([*header, "before", "peak", ""], rows, "rlrrrrrrrl"))
    if found:
        peak = max(result["peak_mb"] for result in found.values())
        verdict = "" if peak < MEMORY_GOAL_MB else ", MISSED"
        say(f"\npeak anonymous memory {peak:.0f} MB (goal {MEMORY_GOAL_MB:.0f}{verdict})")
    say(
        f"MISVC(1.0, kernel='linear'), {N_FEATURES} float32 features from a memory map, {BAG_SIZE} "
        "instances per bag, each fit\nin a process of its own with one thread; before, peak: "
        "anonymous memory before and in the fit. Pages of the memory\nmap itself are not counted: "
        "the system may take them back."
    )
    return finish(records, complete, file, len(tasks))


REPORTS = (Report("out-of-core", "MISVC: 10^7 x 100 float32 (4 GB) from a memory map", run_map),)
