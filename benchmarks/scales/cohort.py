"""A cohort of slides on one computer: a folder of .h5, a map, a fit, folds by patient."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..common.fresh import in_fresh_process
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration, megabytes
from ..common.tasks import record_of
from ._cohort_fit import LARGER_STEPS, STEPS, read_cohort, write_cohort

__all__ = ["REPORTS", "CohortTask"]

# Bags, instances of each, and features; and of a look.
SIZES, FAST_SIZES = (1_000, 1_000, 1_024), (100, 200, 256)
# A whole cohort at a magnification of 20 has so many times the instances.
LARGER = 10
# Data that a step may allocate, and CPU time after which it is ended.
LIMIT_MB, LIMIT_SECONDS, LARGER_SECONDS = 8_192.0, 600.0, 1_800.0


@dataclass(frozen=True)
class CohortTask:
    """One step on the cohort of a folder."""

    dataset: str
    method: str
    sizes: tuple[int, int, int]
    limit_mb: float = LIMIT_MB
    limit_seconds: float = LIMIT_SECONDS

    @property
    def key(self) -> str:
        name = "x".join(map(str, self.sizes))
        return f"{self.dataset}/{self.method}/{name}@{digest([asdict(self), source_digest()])}"


def measure(task: CohortTask, folder: Path) -> dict[str, Any]:
    """What ``_cohort_fit`` measures in a fresh process."""
    stated = {
        "folder": str(folder),
        "step": task.method,
        "sizes": list(task.sizes),
        "limit_mb": task.limit_mb,
    }
    try:
        return in_fresh_process(
            "benchmarks.scales._cohort_fit", stated, cpu_timeout=task.limit_seconds
        )
    except TimeoutError:
        # This tells how far a step goes, and is not an error, which would be tried again.
        return {"timeout": task.limit_seconds}


def run_cohort(args: argparse.Namespace) -> int:
    """Every step, from the files of the slides on."""
    sizes = FAST_SIZES if args.fast else SIZES
    seconds = getattr(args, "seconds", None) or LIMIT_SECONDS
    steps = list(getattr(args, "only", None) or STEPS)
    if not set(steps) <= set(STEPS):
        raise SystemExit(f"The steps are {', '.join(STEPS)}.")
    tasks = [CohortTask("cohort", step, sizes, limit_seconds=seconds) for step in steps]

    with RecordFile(args.out / "cohort.jsonl", fresh=args.fresh) as file, _folder() as folder:
        known = file.read()
        missing = [task.method for task in tasks if "result" not in known.get(task.key, {})]
        if missing:
            _check_room(folder, 2 * _bytes(sizes))
            write_cohort(folder, *sizes)
            if "map" not in missing:
                read_cohort(folder, mmap=True)
        # One after the other: the map is read by the steps that follow.
        records, complete = run(
            tasks,
            file,
            jobs=1,
            label="cohort",
            function=lambda task: record_of(task, lambda each: measure(each, folder)),
        )
    found = {
        task.method: records[task.key]["result"]
        for task in tasks
        if "result" in records.get(task.key, {})
    }
    show(_table(found, extrapolated=True))
    say(
        f"\n{_words(sizes)}, one .h5 per bag; two bags of a patient; a tenth of\nthe labels are "
        f"wrong. Each step in a process of its own with one thread, {LIMIT_MB:,.0f} MB and "
        f"{seconds:,.0f} CPU s at most; memory: highest\nanonymous memory, with that of the "
        f"libraries. x {LARGER}: CPU time for {LARGER} times the instances, extrapolated. Folds "
        "by patient; AUC of their\nbags that are not fitted: mean, lowest and highest."
    )
    return finish(records, complete, file, len(tasks))


def run_larger(args: argparse.Namespace) -> int:
    """A fold of ten times the instances, from a map that is written as they are drawn."""
    n_bags, bag_size, n_features = FAST_SIZES if args.fast else SIZES
    sizes = n_bags, LARGER * bag_size, n_features
    seconds = getattr(args, "seconds", None) or LARGER_SECONDS
    name = "cohort-larger"
    task = CohortTask(name, "all steps", sizes, limit_seconds=seconds)

    def function(each: CohortTask) -> dict[str, Any]:
        # One record: the map of an earlier run is gone.
        steps = [replace(each, method=step) for step in LARGER_STEPS]
        with _folder() as folder:
            _check_room(folder, _bytes(sizes))
            return record_of(each, lambda _: {step.method: measure(step, folder) for step in steps})

    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run([task], file, jobs=1, label=name, function=function)
    result = records.get(task.key, {}).get("result", {})
    # The names in a record are sorted.
    found = {step: result[step] for step in LARGER_STEPS if step in result}
    show(_table(found, extrapolated=False))
    say(
        f"\n{_words(sizes)}, drawn as for 'cohort', but\nwritten to a map at once. Limits and "
        f"memory as there, and {seconds:,.0f} CPU s at most; pages of the map are not counted."
    )
    return finish(records, complete, file, 1)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="milearn-scale-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _bytes(sizes: tuple[int, int, int]) -> int:
    return 2 * sizes[0] * sizes[1] * sizes[2]


def _words(sizes: tuple[int, int, int]) -> str:
    return (
        f"{sizes[0]:,} bags of {sizes[1]:,} instances with {sizes[2]:,} float16 features "
        f"({_bytes(sizes) / 2**20:,.0f} MB)"
    )


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < 1.2 * needed:
        raise OSError(
            f"{needed / 2**30:.1f} GiB are needed in {folder.parent} and {free / 2**30:.1f} are "
            "free: set TMPDIR to a larger disk."
        )


def _table(found: dict[str, dict[str, Any]], *, extrapolated: bool) -> Table:
    rows = []
    for step, result in found.items():
        if "timeout" in result:
            cells = ["-", f"> {result['timeout']:g} s", "-", "-", ""]
        else:
            # Of a tenth of the bags, the growth is not known.
            known = "refused" not in result and "tenth" not in step
            cells = [
                duration(result["wall_seconds"]),
                duration(result["cpu_seconds"]),
                megabytes(result["peak_mb"]),
                duration(LARGER * result["cpu_seconds"]) if known else "-",
                _remark(result),
            ]
        rows.append([step, *(cells if extrapolated else [*cells[:3], *cells[4:]])])
    larger = [f"x {LARGER}"] if extrapolated else []
    columns = ["step", "wall time", "CPU time", "memory", *larger, ""]
    return Table(columns, rows, "l" + "r" * (len(columns) - 2) + "l")


def _remark(result: dict[str, Any]) -> str:
    if "refused" in result:
        # NumPy adds the shape of the array.
        return result["refused"].split(" for an array")[0]
    remarks = []
    # None are counted where the dual is solved.
    if any(passes := result.get("passes", [])):
        few, many = min(passes), max(passes)
        remarks.append(f"{few} passes" if few == many else f"{few} to {many} passes")
    if aucs := result.get("auc", []):
        spread = f" ({min(aucs):.3f} to {max(aucs):.3f})" if len(aucs) > 1 else ""
        remarks.append(f"AUC {np.mean(aucs):.3f}{spread}")
    return ", ".join(remarks)


REPORTS = (
    Report("cohort", "load, map and five folds of 10^6 x 1,024 float16 from .h5", run_cohort),
    Report("cohort-larger", "a fold of 10^7 x 1,024 float16 (20 GB) from a map", run_larger),
)
