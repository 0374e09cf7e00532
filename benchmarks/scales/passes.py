"""Fits by passes near the limit: their time over that of as many products with the data."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..common.fresh import in_fresh_process
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration
from ..common.tasks import record_of
from ._passes_fit import write_rows

__all__ = ["REPORTS", "STORAGES", "PassTask"]

# Instances, features, instances of a bag, type, and whether they stay in the file.
STORAGES = {
    "float64 in memory": (1_000_000, 100, 20, "float64", False),
    "float32 mapped": (10_000_000, 100, 20, "float32", True),
    "float16 in memory": (1_000_000, 1_024, 1_000, "float16", False),
    "float16, a tenth": (100_000, 1_024, 100, "float16", False),
}
FAST = 100
# CPU time after which a process is ended.
LIMIT_SECONDS = 3_600.0
RATIO_GOAL, THREADS_GOAL = 3.0, 1.6


@dataclass(frozen=True)
class PassTask:
    """One storage and one slack."""

    dataset: str
    method: str
    shape: tuple[int, int, int]
    dtype: str
    mapped: bool
    repeats: int = 2
    limit_seconds: float = LIMIT_SECONDS

    @property
    def key(self) -> str:
        settings = digest([asdict(self), source_digest()])
        return f"{self.dataset}/{self.method}/{self.shape[0]}@{settings}"


def run_task(task: PassTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: PassTask) -> dict[str, Any]:
    """What ``_passes_fit`` measures in a fresh process, of a file that is removed afterwards."""
    names = "n_instances", "n_features", "bag_size"
    stated = {**dict(zip(names, task.shape, strict=True)), **asdict(task), "slack": task.method}
    with tempfile.TemporaryDirectory(prefix="milearn-scale-") as folder:
        needed, free = 8 * task.shape[0] * task.shape[1], shutil.disk_usage(folder).free
        if free < needed:
            raise OSError(f"{needed / 2**30:.1f} GiB are needed: set TMPDIR to a larger disk.")
        path = Path(folder) / "instances.npy"
        write_rows(path, stated)
        stated["path"] = str(path)
        try:
            return in_fresh_process(
                "benchmarks.scales._passes_fit", stated, cpu_timeout=task.limit_seconds
            )
        except TimeoutError:
            # This tells how long a fit takes, and is not an error, which would be tried again.
            return {"timeout": task.limit_seconds}


def run_passes(args: argparse.Namespace) -> int:
    wanted = list(getattr(args, "only", None) or STORAGES)
    if not set(wanted) <= set(STORAGES):
        raise SystemExit(f"The storages are {', '.join(STORAGES)}.")
    repeats = args.repeats or PassTask.repeats
    seconds = getattr(args, "seconds", None) or LIMIT_SECONDS
    tasks = []
    for name in wanted:
        n, d, size, dtype, mapped = STORAGES[name]
        shape = (n // FAST, d, size // 10 if size > 100 else size) if args.fast else (n, d, size)
        tasks += [
            PassTask(name, slack, shape, dtype, mapped, repeats, seconds)
            for slack in ("bag", "instance")
        ]
    with RecordFile(args.out / "passes.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label="passes", function=run_task)
    rows = []
    for task in tasks:
        if "result" not in records.get(task.key, {}):
            continue
        found = records[task.key]["result"]
        if "timeout" in found:
            shape = f"{task.shape[0]:,} x {task.shape[1]:,}"
            ended = f"ended after {found['timeout']:g} s"
            rows.append([task.dataset, shape, task.method, *5 * ["-"], ended])
            continue
        # A small problem may go to the dual, without a pass.
        spent = found["passes"] * found["product"]
        ratio = f"{found['cpu_seconds'] / spent:.1f}" if spent else "-"
        faster = found["wall_seconds"] / found["two_wall_seconds"]
        rows.append(
            [
                task.dataset,
                f"{task.shape[0]:,} x {task.shape[1]:,}",
                task.method,
                duration(found["product"]),
                str(found["passes"]),
                duration(found["cpu_seconds"]),
                ratio,
                f"{faster:.2f}",
                "" if found["converged"] else "NOT CONVERGED",
            ]
        )
    header = ["storage", "instances", "slack", "product", "passes", "fit", "ratio", "two threads"]
    show(Table([*header, ""], rows, "lrlrrrrrl"))
    say(
        "\nCPU time of MISVC(1.0, kernel='linear').fit and of one product of all instances with a "
        "vector by NumPy, conversion of\nfloat16 included and a new memory map, the shortest of "
        f"3, and of {repeats} fits; ratio: fit over passes x product (goal {RATIO_GOAL:g}); two "
        f"threads:\nwall time of one over that of two (goal {THREADS_GOAL}), which an occupied "
        "computer lowers."
    )
    return finish(records, complete, file, len(tasks))


REPORTS = (Report("passes", "MISVC by passes over the time of products with the data", run_passes),)
