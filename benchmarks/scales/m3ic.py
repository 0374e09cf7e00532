"""M3IC against instances, clusters and features: time, its slope, and memory."""

from __future__ import annotations

import argparse
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np

from milearn import M3IC, Bags

from ..common.map_file import on_memory_map
from ..common.memory import Stopwatch
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration, megabytes
from ..common.tasks import record_of
from ._m3ic_fit import BAG_SIZE, N_CLUSTERS, bag_offsets, write_instances

N_FEATURES = 100
SIZES = (10_000, 31_600, 100_000, 316_000, 1_000_000)
LARGE = 10_000_000
SLOPE_GOAL = 1.1
MEMORY_GOAL_MB = 1024.0
N_BAGS = 600
AT_CLUSTERS, AT_FEATURES = 48, 50
MANY_CLUSTERS = (6, 12, 24, 48, 96)
MANY_FEATURES = (50, 100, 200, 400, 800)
WEIGHTS_GOALS = {"clusters": 1.5, "features": 1.2}
VARIANTS: dict[str, dict[str, Any]] = {
    "C = 1": {},
    "C = 100": {"C": 100.0},
    "C = 100, at least 5 bags": {"C": 100.0, "min_cluster_size": 5},
    "C = 100, runner-up": {"C": 100.0, "margin": "runner-up"},
}


@dataclass(frozen=True)
class ScaleTask:
    """One size: its file is written, fitted from in a fresh process, and removed."""

    report: str
    dataset: str
    method: str
    n_instances: int
    C: float
    fits: int
    seed: int

    @property
    def key(self) -> str:
        settings = digest([N_FEATURES, BAG_SIZE, N_CLUSTERS, self.C, self.fits])
        return f"{self.report}/{self.n_instances}/{self.seed}@{settings}"


def run_scale(task: ScaleTask) -> dict[str, Any]:
    return record_of(task, _measured)


def _measured(task: ScaleTask) -> dict[str, Any]:
    shape = (task.n_instances, N_FEATURES)
    stated = {"C": task.C, "fits": task.fits}
    return on_memory_map("benchmarks.scales._m3ic_fit", write_instances, shape, stated)


def _run(
    args: argparse.Namespace, name: str, tasks: list[ScaleTask]
) -> tuple[dict[str, dict[str, Any]], bool, RecordFile]:
    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label=name, function=run_scale)
    return records, complete, file


def _row(n_instances: int, result: dict[str, Any]) -> list[str]:
    return [
        f"{n_instances:,}",
        f"{4 * n_instances * N_FEATURES / 2**20:,.0f} MB",
        duration(result["cpu_seconds"]),
        f"{1e6 * result['cpu_seconds'] / n_instances:.2f} us",
        str(result["n_iter"]),
        str(result["n_cuts"]),
        megabytes(result["peak_mb"]),
        f"{100 * result['accuracy']:.1f}",
    ]


_HEADER = [
    "instances",
    "data",
    "CPU time",
    "per instance",
    "steps",
    "cuts",
    "anonymous",
    "accuracy %",
]


def run_slope(args: argparse.Namespace) -> int:
    sizes = SIZES[:2] if args.fast else SIZES
    rounds = args.repeats or (1 if args.fast else 3)
    tasks = [
        ScaleTask("m3ic-instances", "concepts", "m3ic", size, 1.0, 1 if size > 10**5 else 3, seed)
        for seed in range(rounds)
        for size in sizes
    ]
    records, complete, file = _run(args, "m3ic-instances", tasks)
    shortest: dict[int, dict[str, Any]] = {}
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        known = shortest.get(task.n_instances)
        if result is not None and (known is None or result["cpu_seconds"] < known["cpu_seconds"]):
            shortest[task.n_instances] = result
    rows = [_row(size, result) for size, result in shortest.items()]
    show(Table(_HEADER, rows))
    if len(shortest) > 1:
        logs = np.log10([[size, result["cpu_seconds"]] for size, result in shortest.items()])
        slope = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        verdict = "" if slope <= SLOPE_GOAL else ", MISSED"
        say(f"\nslope of log time over log instances: {slope:.2f} (goal {SLOPE_GOAL}{verdict})")
    say(
        f"One fit with one random start, C=1, balance 1, {N_CLUSTERS} clusters, {BAG_SIZE} "
        f"instances per bag,\n{N_FEATURES} float32 features from a memory map; shortest of "
        f"{rounds} rounds, each fit in a process of its own."
    )
    return finish(records, complete, file, len(tasks))


def run_memory(args: argparse.Namespace) -> int:
    size = LARGE // 100 if args.fast else LARGE
    task = ScaleTask("m3ic-memory-map", "concepts", "m3ic", size, 1.0, 1, 0)
    records, complete, file = _run(args, "m3ic-memory-map", [task])
    result = records.get(task.key, {}).get("result")
    if result is not None:
        show(Table(_HEADER, [_row(size, result)]))
        verdict = "" if result["peak_mb"] < MEMORY_GOAL_MB else ", MISSED"
        say(
            f"\npeak anonymous memory {result['peak_mb']:.0f} MB (goal {MEMORY_GOAL_MB:.0f}"
            f"{verdict}), {result['before_mb']:.0f} MB of it before the fit;\nmeasured "
            f"{result['looks']} times in {result['wall_seconds']:.0f} s. Pages of the memory map "
            "itself are not counted: the system may\ntake them back."
        )
    return finish(records, complete, file, 1)


# -- clusters and features -------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightsTask:
    """Fits of M3IC with one number of clusters and of features, all rounds in one process."""

    report: str
    dataset: str
    method: str
    n_clusters: int
    n_features: int
    rounds: int

    @property
    def key(self) -> str:
        sizes = f"{self.n_clusters}/{self.n_features}"
        settings = digest([N_BAGS, BAG_SIZE, self.rounds, source_digest()])
        return f"{self.report}/{sizes}/{self.method}@{settings}"


def run_weights(task: WeightsTask) -> dict[str, Any]:
    return record_of(task, _fitted)


def _fitted(task: WeightsTask) -> dict[str, Any]:
    """Shortest CPU time of the rounds, and the largest memory of one more."""
    rng = np.random.default_rng(0)
    instances = rng.normal(size=(N_BAGS * BAG_SIZE, task.n_features))
    centres = rng.normal(size=(task.n_clusters, task.n_features))
    places = np.arange(N_BAGS) * BAG_SIZE + rng.integers(BAG_SIZE, size=N_BAGS)
    instances[places] += centres[np.arange(N_BAGS) % task.n_clusters]
    bags = Bags(instances, bag_offsets(len(instances)))
    model = M3IC(task.n_clusters, n_init=1, random_state=0, **VARIANTS[task.method])
    seconds = []
    for _ in range(task.rounds):
        watch = Stopwatch()
        model.fit(bags)
        seconds.append(watch.seconds()["cpu_seconds"])
    tracemalloc.start()
    model.fit(bags)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "cpu_seconds": min(seconds),
        "peak_bytes": peak,
        "n_iter": model.n_iter_,
        "n_cuts": model.n_cuts_,
        "used": len(np.unique(model.labels_)),
    }


def run_many(args: argparse.Namespace) -> int:
    rounds = args.repeats or (1 if args.fast else 3)
    clusters, features = MANY_CLUSTERS, MANY_FEATURES
    if args.fast:
        clusters, features = clusters[:2], features[:2]
    sizes = {
        "clusters": [(k, AT_FEATURES) for k in clusters],
        "features": [(AT_CLUSTERS, d) for d in features],
    }
    tasks = {
        (title, what, size): WeightsTask("m3ic-weights", "concepts", title, *size, rounds)
        for title in VARIANTS
        for what, grown in sizes.items()
        for size in grown
    }
    # The size that both series have is measured once.
    every = list(dict.fromkeys(tasks.values()))
    with RecordFile(args.out / "m3ic-weights.jsonl", fresh=args.fresh) as file:
        records, complete = run(every, file, jobs=1, label="m3ic-weights", function=run_weights)
    rows, slopes = [], []
    for title in VARIANTS:
        for what, grown in sizes.items():
            logs = []
            for size in grown:
                result = records.get(tasks[title, what, size].key, {}).get("result")
                if result is None:
                    continue
                grows = size[0] if what == "clusters" else size[1]
                logs.append(np.log([grows, result["cpu_seconds"]]))
                rows.append(
                    [
                        title,
                        *map(str, size),
                        duration(result["cpu_seconds"]),
                        str(result["n_iter"]),
                        str(result["n_cuts"]),
                        megabytes(result["peak_bytes"] / 2**20),
                        str(result["used"]),
                    ]
                )
            if len(logs) > 1:
                slope = float(np.polyfit(*np.array(logs).T, 1)[0])
                verdict = "" if slope <= WEIGHTS_GOALS[what] else ", MISSED"
                slopes.append(
                    f"{title}, {what}: slope {slope:.2f} (goal {WEIGHTS_GOALS[what]}{verdict})"
                )
    header = ["", "clusters", "features", "CPU time", "steps", "cuts", "memory", "used"]
    show(Table(header, rows))
    say(
        "\n" + "\n".join(slopes) + f"\nOne start from k-means, {N_BAGS} bags of {BAG_SIZE} "
        f"instances, shortest of {rounds} rounds; memory: largest that Python\nallocated during a "
        "fit; used: clusters with a bag; slope: of log time over log size by least squares."
    )
    return finish(records, complete, file, len(every))


REPORTS = (
    Report("m3ic-instances", "M3IC: time against instances, 10^4 to 10^6", run_slope),
    Report("m3ic-weights", "M3IC: time and memory against clusters and features", run_many),
    Report("m3ic-memory-map", "M3IC: 10^7 x 100 float32 (4 GB) from a memory map", run_memory),
)
