"""A cohort of slides on one computer: a folder of .h5, a map, a fit, a fold by patient."""

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
from ..common.table import Table, duration, megabytes
from ..common.tasks import record_of
from ._cohort_fit import STEPS, write_cohort

__all__ = ["REPORTS", "CohortTask"]

# Bags, instances of each, and features; and of a look.
SIZES, FAST_SIZES = (1_000, 1_000, 1_024), (100, 200, 256)
# A whole cohort at a magnification of 20, of which a tenth is measured.
LARGER = 10
# Data that a step may allocate, and CPU time after which it is ended.
LIMIT_MB, LIMIT_SECONDS = 8_192.0, 600.0


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
    stated = {"folder": str(folder), "step": task.method, "limit_mb": task.limit_mb}
    try:
        return in_fresh_process(
            "benchmarks.scales._cohort_fit", stated, cpu_timeout=task.limit_seconds
        )
    except TimeoutError:
        # This tells how far a step goes, and is not an error, which would be tried again.
        return {"timeout": task.limit_seconds}


def run_cohort(args: argparse.Namespace) -> int:
    sizes = FAST_SIZES if args.fast else SIZES
    seconds = getattr(args, "seconds", None) or LIMIT_SECONDS
    steps = list(getattr(args, "only", None) or STEPS)
    if not set(steps) <= set(STEPS):
        raise SystemExit(f"The steps are {', '.join(STEPS)}.")
    tasks = [CohortTask("cohort", step, sizes, limit_seconds=seconds) for step in steps]
    with RecordFile(args.out / "cohort.jsonl", fresh=args.fresh) as file:
        folder, known = Path(tempfile.mkdtemp(prefix="milearn-scale-")), file.read()
        try:
            if any("result" not in known.get(task.key, {}) for task in tasks):
                _check_room(folder, sizes)
                write_cohort(folder, *sizes)
            # One after the other: the map is read by the steps that follow.
            records, complete = run(
                tasks,
                file,
                jobs=1,
                label="cohort",
                function=lambda task: record_of(task, lambda each: measure(each, folder)),
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    found = {
        task.method: records[task.key]["result"]
        for task in tasks
        if "result" in records.get(task.key, {})
    }
    show(_table(found))
    n_bags, bag_size, n_features = sizes
    say(
        f"\n{n_bags:,} bags of {bag_size:,} instances with {n_features:,} float16 features "
        f"({2 * n_bags * bag_size * n_features / 2**20:,.0f} MB), one .h5 per bag; two bags of a "
        "patient; a tenth of\nthe labels are wrong. Each step in a process of its own with one "
        f"thread, {LIMIT_MB:,.0f} MB and {seconds:,.0f} CPU s at most; memory: highest\n"
        f"anonymous memory, with that of the libraries. x {LARGER}: CPU time for {LARGER} times "
        "the instances, extrapolated; five folds take five times as long as one."
    )
    return finish(records, complete, file, len(tasks))


def _check_room(folder: Path, sizes: tuple[int, int, int]) -> None:
    needed, free = 4 * sizes[0] * sizes[1] * sizes[2], shutil.disk_usage(folder).free
    if free < 1.2 * needed:
        raise OSError(
            f"{needed / 2**30:.1f} GiB are needed in {folder.parent} and {free / 2**30:.1f} are "
            "free: set TMPDIR to a larger disk."
        )


def _table(found: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for step, result in found.items():
        # Of a tenth of the bags, the growth is not known.
        known = "refused" not in result and "tenth" not in step
        if "timeout" in result:
            rows.append([step, "-", f"> {result['timeout']:g} s", "-", "-", ""])
            continue
        # NumPy adds the shape of the array.
        remark = result.get("refused", "").split(" for an array")[0]
        if "auc" in result:
            remark = f"AUC {result['auc']:.3f}"
        elif result.get("passes"):
            remark = f"{result['passes']} passes"
        rows.append(
            [
                step,
                duration(result["wall_seconds"]),
                duration(result["cpu_seconds"]),
                megabytes(result["peak_mb"]),
                duration(LARGER * result["cpu_seconds"]) if known else "-",
                remark,
            ]
        )
    return Table(["step", "wall time", "CPU time", "memory", f"x {LARGER}", ""], rows, "lrrrrl")


REPORTS = (
    Report("cohort", "load, map, fit and one fold of 10^6 x 1,024 float16 from .h5", run_cohort),
)
