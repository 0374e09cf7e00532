"""Embeddings of a memory map: learnt on a sample, transformed in one pass."""

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
from ._embeddings_fit import BAG_SIZE, MODELS
from ._out_of_core_fit import write_instances

__all__ = ["REPORTS", "EmbeddingTask"]

N_FEATURES = 100
LARGE = 10_000_000
MEMORY_GOAL_MB = 1024.0


@dataclass(frozen=True)
class EmbeddingTask:
    """One embedding: the file is written, embedded in a fresh process, and removed."""

    dataset: str
    method: str
    n_instances: int
    bag_size: int

    @property
    def key(self) -> str:
        settings = digest([asdict(self), N_FEATURES, source_digest()])
        return f"{self.dataset}/{self.method}/{self.n_instances}@{settings}"


def run_task(task: EmbeddingTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: EmbeddingTask) -> dict[str, Any]:
    """What ``_embeddings_fit`` measures in a fresh process."""
    stated = {"method": task.method, "bag_size": task.bag_size}
    shape = (task.n_instances, N_FEATURES)
    return on_memory_map("benchmarks.scales._embeddings_fit", write_instances, shape, stated)


def run_embeddings(args: argparse.Namespace) -> int:
    size = LARGE // 100 if args.fast else LARGE
    tasks = [EmbeddingTask("memory-map", name, size, BAG_SIZE) for name in MODELS]
    with RecordFile(args.out / "embeddings.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label="embeddings", function=run_task)
    found = {
        task.method: records[task.key]["result"]
        for task in tasks
        if "result" in records.get(task.key, {})
    }
    rows = [
        [
            str(MODELS[name]).split("(")[0],
            f"{result['shape'][0]:,} x {result['shape'][1]:,}",
            duration(result["fit_cpu_seconds"]),
            duration(result["transform_cpu_seconds"]),
            megabytes(result["before_mb"]),
            megabytes(result["peak_mb"]),
            "" if result["peak_mb"] < MEMORY_GOAL_MB else "MISSED",
        ]
        for name, result in found.items()
    ]
    header = ["embedding", "rows", "fit", "transform", "before", "peak", ""]
    show(Table(header, rows, "lrrrrrl"))
    say(
        f"\n{size:,} instances with {N_FEATURES} float32 features from a memory map "
        f"({4 * size * N_FEATURES / 2**20:,.0f} MB), {BAG_SIZE:,} instances per bag; CPU time, "
        "one thread; peak:\nanonymous memory in the fit and the transformation "
        f"(goal {MEMORY_GOAL_MB:.0f} MB), the rows included. Statistics: mean, std and max."
    )
    return finish(records, complete, file, len(tasks))


REPORTS = (
    Report("embeddings", "embeddings of 10^7 x 100 float32 from a memory map", run_embeddings),
)
