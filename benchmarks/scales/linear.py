"""Linear models by passes: time against ``LinearSVC()``, slopes, and the dual's objectives."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

from ..common.data import available
from ..common.fresh import in_fresh_process
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration
from ..common.tasks import record_of
from ._linear_fit import OTHERS
from .sizes import slope

__all__ = ["REPORTS", "LinearTask"]

SLACKS = ("bag", "instance")
COSTS = (0.1, 1.0, 10.0)
GAP_GOAL, PASSES_GOAL = 1e-3, 20
REAL = ("musk1", "elephant", "fox", "trec9/tst1")

# Title, sizes, and how many times LinearSVC() a fit may take; None for a goal in seconds.
POINTS: dict[str, tuple[str, dict[str, Any], float | None]] = {
    "small": ("9,874 x 10", {"n_bags": 1000, "n_features": 10, "bag_size": [5, 15]}, None),
    "middle": ("200,595 x 100", {"n_bags": 10_000, "n_features": 100, "bag_size": [10, 30]}, 3.0),
    "large": ("1,001,008 x 100", {"n_bags": 50_000, "n_features": 100, "bag_size": [10, 30]}, 3.0),
    "sparse": (
        "1,000,000 x 50,000, CSR",
        {"n_bags": 50_000, "n_features": 50_000, "bag_size": 20, "sparse": True},
        5.0,
    ),
}
SECONDS_GOAL, OTHERS_GOAL = 0.1, 10.0

# What grows, its values, the other sizes, and the goal for the slope.
SLOPES: dict[str, tuple[str, tuple[int, ...], dict[str, int], float]] = {
    "bags": ("n_bags", (1000, 3162, 10_000, 31_623), {"bag_size": 20, "n_features": 20}, 1.1),
    "instances per bag": (
        "bag_size",
        (10, 32, 100, 316, 1000),
        {"n_bags": 1000, "n_features": 20},
        1.1,
    ),
    "features": ("n_features", (125, 250, 500, 1000, 2000), {"n_bags": 1000, "bag_size": 10}, 2.0),
}


@dataclass(frozen=True)
class LinearTask:
    """One process: a point, a size of a slope, another model or a real set.

    Attributes
    ----------
    dataset : str
        A name of ``POINTS`` or ``SLOPES``, or a real set.
    method : str
        The slack, or the name of another model.
    stated : tuple of (name, value)
        What the process is asked for.
    """

    dataset: str
    method: str
    stated: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, dataset: str, method: str, /, **stated: Any) -> LinearTask:
        def plain(value: Any) -> Any:
            return tuple(value) if isinstance(value, list) else value

        return cls(dataset, method, tuple((name, plain(value)) for name, value in stated.items()))

    @property
    def key(self) -> str:
        return f"{self.dataset}/{self.method}@{digest([asdict(self), source_digest()])}"


def run_task(task: LinearTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: LinearTask) -> dict[str, Any]:
    """What ``_linear_fit`` measures in a fresh process."""
    return in_fresh_process("benchmarks.scales._linear_fit", dict(task.stated))


def run_points(args: argparse.Namespace) -> int:
    names = ("small",) if args.fast else tuple(POINTS)
    tasks = [
        LinearTask.of(name, slack, kind="ratio", slack=slack, costs=_costs(name), **POINTS[name][1])
        for name in names
        for slack in SLACKS
    ]
    records, complete, file = _run(args, "linear", tasks)
    rows = []
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        if result is not None:
            rows += [_point_row(task, C, result) for C in _costs(task.dataset)]
    header = ["instances x features", "slack", "C", "LinearSVC()", "MISVC", "ratio", "passes"]
    show(Table([*header, "gap", "", "missed"], rows, "llrrrrrrll"))
    say(
        "\nMISVC(kernel='linear') and LinearSVC() on the instances with inherited "
        "labels in one process,\nCPU time with one thread, shortest of several where one is short; "
        "gap: of the last convex step, relative."
    )
    return finish(records, complete, file, len(tasks))


def _costs(point: str) -> tuple[float, ...]:
    return (1.0,) if point == "sparse" else COSTS


def _point_row(task: LinearTask, C: float, result: dict[str, Any]) -> list[str]:
    title, _, goal = POINTS[task.dataset]
    found, svc = result[str(C)], result["linear_svc"]
    ratio = found["cpu_seconds"] / svc
    missed = []
    if goal is None and found["cpu_seconds"] > SECONDS_GOAL:
        missed.append(f"{SECONDS_GOAL:g} s")
    if goal is not None and ratio > goal:
        missed.append(f"{goal:g} x")
    if found["passes"] > PASSES_GOAL:
        missed.append(f"{PASSES_GOAL} passes")
    if found["gap"] > GAP_GOAL:
        missed.append(f"gap {GAP_GOAL:g}")
    return [
        title,
        task.method,
        f"{C:g}",
        duration(svc),
        duration(found["cpu_seconds"]),
        f"{ratio:.2f}",
        str(found["passes"]),
        f"{found['gap']:.0e}",
        "converged" if found["converged"] else "NOT CONVERGED",
        ", ".join(missed),
    ]


def run_slopes(args: argparse.Namespace) -> int:
    tasks = {
        (name, slack, size): LinearTask.of(
            name, slack, kind="time", slack=slack, **{**fixed, grows: size}
        )
        for name, (grows, sizes, fixed, _) in SLOPES.items()
        for slack in SLACKS
        for size in (sizes[:2] if args.fast else sizes)
    }
    records, complete, file = _run(args, "linear-slopes", list(tasks.values()))
    for name, (_, sizes, fixed, goal) in SLOPES.items():
        sizes = sizes[:2] if args.fast else sizes
        rows = []
        for slack in SLACKS:
            found = [records.get(tasks[name, slack, size].key, {}).get("result") for size in sizes]
            known = {
                size: each["cpu_seconds"]
                for size, each in zip(sizes, found, strict=True)
                if each is not None
            }
            exponent = slope(list(known), list(known.values()))
            cells = [duration(known[size]) if size in known else "-" for size in sizes]
            missed = "MISSED" if exponent > goal else ""
            rows.append([slack, *cells, f"{exponent:.2f}", missed])
        others = ", ".join(f"{value} {other[2:]}" for other, value in fixed.items())
        header = [name, *(f"{size:,}" for size in sizes), "slope", ""]
        show(Table(header, rows, "l" + "r" * (len(header) - 2) + "l"))
        say(f"{others.replace('g_size', 'instances per bag')}; goal for the slope {goal:g}\n")
    say("C=1, CPU time with one thread; slope: of log over log, last three sizes.")
    return finish(records, complete, file, len(tasks))


def run_others(args: argparse.Namespace) -> int:
    sizes = {"n_bags": 300, "n_features": 10, "bag_size": [10, 30]} if args.fast else {}
    sizes = sizes or POINTS["middle"][1]
    tasks = [
        LinearTask.of("others", name, kind="others", model=name, C=C, **sizes)
        for name in OTHERS
        for C in COSTS
    ]
    records, complete, file = _run(args, "linear-others", tasks)
    rows = []
    for task in tasks:
        record, C = records.get(task.key, {}), f"{dict(task.stated)['C']:g}"
        if "result" not in record:
            rows.append([task.method, C, "-", "-", "-", "-", "-", record.get("error", "")[:60]])
            continue
        result = record["result"]
        ratio = result["cpu_seconds"] / result["linear_svc"]
        remark = "" if result["converged"] else "NOT CONVERGED"
        rows.append(
            [
                task.method,
                C,
                duration(result["linear_svc"]),
                duration(result["cpu_seconds"]),
                f"{ratio:.1f}",
                str(result["passes"]),
                f"{result['gap']:.0e}",
                remark + (f" {OTHERS_GOAL:g} x MISSED" if ratio > OTHERS_GOAL else ""),
            ]
        )
    header = ["", "C", "LinearSVC()", "CPU time", "ratio", "passes", "gap", ""]
    show(Table(header, rows, "lrrrrrrl"))
    say(f"\n{sizes['n_bags']:,} bags of 10 to 30 instances, {sizes['n_features']} features.")
    return finish(records, complete, file, len(tasks))


def run_real(args: argparse.Namespace) -> int:
    names = [name for name in (REAL[:1] if args.fast else REAL) if available(name)]
    tasks = [
        LinearTask.of(name, slack, kind="real", dataset=name, slack=slack, C=C)
        for name in names
        for slack in SLACKS
        for C in COSTS
    ]
    records, complete, file = _run(args, "linear-real", tasks)
    same, own = [], []
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        if result is None:
            continue
        named = [task.dataset, task.method, f"{dict(task.stated)['C']:g}"]
        dual, primal = result["dual-mean"], result["primal-mean"]
        apart = abs(dual["objective"] - primal["objective"])
        within = apart <= max(dual["gap"], 0.0) + primal["gap"] + 1e-9 * dual["objective"]
        same.append(
            [
                *named,
                *(f"{each['objective']:.6f}" for each in (dual, primal)),
                f"{apart / dual['objective']:.0e}",
                *(duration(each["cpu_seconds"]) for each in (dual, primal)),
                "" if within else "another minimum",
            ]
        )
        dual, primal = result["dual-auto"], result["primal-auto"]
        ratio = primal["objective"] / dual["objective"]
        own.append(
            [
                *named,
                *(f"{each['objective']:.6f}" for each in (dual, primal)),
                f"{ratio:.5f}",
                *(duration(each["cpu_seconds"]) for each in (dual, primal)),
                "" if ratio <= 1 + 1e-5 else "HIGHER",
            ]
        )
    header = ["data set", "slack", "C", "dual", "primal"]
    times = ["dual, CPU time", "primal"]
    show(Table([*header, "apart", *times, ""], same, "llrrrrrrl", title="from the means"))
    show(Table([*header, "ratio", *times, ""], own, "llrrrrrrl", title="each from its own start"))
    say("\nObjectives; standardised instances, texts of unit length.")
    return finish(records, complete, file, len(tasks))


def _run(
    args: argparse.Namespace, name: str, tasks: list[LinearTask]
) -> tuple[dict[str, dict[str, Any]], bool, RecordFile]:
    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label=name, function=run_task)
    return records, complete, file


REPORTS = (
    Report("linear", "MISVC by passes against LinearSVC(): 10^4 to 10^6 instances", run_points),
    Report("linear-slopes", "MISVC by passes: time against the sizes", run_slopes),
    Report("linear-others", "CoupledMISVC, MISVR, InstanceMISVC by passes", run_others),
    Report("linear-real", "primal and dual on real sets: objectives", run_real),
)
