"""Linear models by passes: against ``LinearSVC()``, slopes, memory maps, products with the data."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from milearn.svm import MISVC

from ..common.output import Table, duration, megabytes, say, show
from .series import Report, Series, SizeTask, found_of, gap_of, mapped, slope, task_of, warm_up

SLACKS = ("bag", "instance")
COSTS = (0.1, 1.0, 10.0)
GAP_GOAL, PASSES_GOAL, MEMORY_GOAL_MB = 1e-3, 20, 1024.0

# Title, sizes, and how many times LinearSVC() a fit may take; None for a goal in seconds.
POINTS: dict[str, tuple[str, dict[str, Any], float | None]] = {
    "small": ("9,874 x 10", {"n_bags": 1000, "n_features": 10, "bag_size": (5, 15)}, None),
    "middle": ("200,595 x 100", {"n_bags": 10_000, "n_features": 100, "bag_size": (10, 30)}, 3.0),
    "large": ("1,001,008 x 100", {"n_bags": 50_000, "n_features": 100, "bag_size": (10, 30)}, 3.0),
    "sparse": ("1,000,000 x 50,000, CSR", {"n_bags": 50_000, "n_features": 50_000}, 5.0),
}
SECONDS_GOAL, OTHERS_GOAL = 0.1, 10.0
# Models beside MI-SVM that can be solved by passes.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"CoupledMISVC, {loss}": ("CoupledMISVC", {"loss": loss})
        for loss in ("l1", "l2", "epsilon_insensitive")
    },
    "CoupledMISVR, l1": ("CoupledMISVR", {}),
    "MISVR": ("MISVR", {}),
    "InstanceMISVC": ("InstanceMISVC", {}),
}
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


def _beside_linear_svc(
    dataset: str, method: str, estimator: str, parameters: dict[str, Any], sizes: dict[str, Any]
) -> SizeTask:
    return task_of(
        dataset,
        method,
        data="texts" if dataset == "sparse" else "easy",
        estimator=estimator,
        parameters={"kernel": "linear", **parameters},
        beside={"name": "LinearSVC"},
        **sizes,
    )


def _points(args: argparse.Namespace) -> list[SizeTask]:
    return [
        _beside_linear_svc(name, slack, "MISVC", {"slack": slack, "C": C}, POINTS[name][1])
        for name in (("small",) if args.fast else POINTS)
        for slack in SLACKS
        for C in ((1.0,) if name == "sparse" else COSTS)
    ]


def _others(args: argparse.Namespace) -> list[SizeTask]:
    sizes = {"n_bags": 300, "n_features": 10, "bag_size": (10, 30)}
    return [
        _beside_linear_svc(
            "others", name, *(OTHERS[name][0], OTHERS[name][1] | {"C": C}), sizes=chosen
        )
        for chosen in (sizes if args.fast else POINTS["middle"][1],)
        for name in OTHERS
        for C in COSTS
    ]


def _cost(task: SizeTask) -> str:
    return f"{task['parameters']['C']:g}"


def _ratio(result: dict[str, Any]) -> float:
    return result["cpu_seconds"] / result["beside_cpu_seconds"]


def _missed(task: SizeTask, result: dict[str, Any]) -> str:
    goal = OTHERS_GOAL if task.dataset == "others" else POINTS[task.dataset][2]
    missed = [] if result["converged"] else ["NOT CONVERGED"]
    if goal is None and result["cpu_seconds"] > SECONDS_GOAL:
        missed.append(f"{SECONDS_GOAL:g} s missed")
    if goal is not None and _ratio(result) > goal:
        missed.append(f"{goal:g} x missed")
    if task.dataset != "others" and result["n_passes"] > PASSES_GOAL:
        missed.append(f"{PASSES_GOAL} passes missed")
    if task.dataset != "others" and gap_of(result) > GAP_GOAL:
        missed.append(f"gap {GAP_GOAL:g} missed")
    return ", ".join(missed)


_FIGURES: dict[str, Callable[[SizeTask, dict[str, Any]], str]] = {
    "ratio": lambda task, result: f"{_ratio(result):.2f}",
    "passes": lambda task, result: f"{result['n_passes']:.0f}",
    "gap": lambda task, result: f"{gap_of(result):.0e}",
    "": _missed,
}


def _times(own: str) -> dict[str, Callable[[SizeTask, dict[str, Any]], str]]:
    return {
        "LinearSVC()": lambda task, result: duration(result["beside_cpu_seconds"]),
        own: lambda task, result: duration(result["cpu_seconds"]),
        **_FIGURES,
    }


def run_slopes(args: argparse.Namespace) -> int:
    """A table for each size that grows."""
    grown = {name: sizes[:2] if args.fast else sizes for name, (_, sizes, _, _) in SLOPES.items()}
    tasks = [
        task_of(
            name,
            slack,
            data="easy",
            estimator="MISVC",
            parameters={"kernel": "linear", "slack": slack, "C": 1.0},
            **{**SLOPES[name][2], SLOPES[name][0]: size},
        )
        for name, sizes in grown.items()
        for slack in SLACKS
        for size in sizes
    ]
    found, end = found_of(args, "linear-slopes", tasks)
    for name, (grows, _, fixed, goal) in SLOPES.items():
        rows = []
        for slack in SLACKS:
            known = {
                task[grows]: result["cpu_seconds"]
                for task, result in found
                if (task.dataset, task.method) == (name, slack)
            }
            exponent = slope(list(known), list(known.values()))
            cells = [duration(known[size]) if size in known else "-" for size in grown[name]]
            missed = "MISSED" if exponent > goal else ""
            rows.append([slack, *cells, f"{exponent:.2f}", missed])
        header = [name, *(f"{size:,}" for size in grown[name]), "slope", ""]
        show(Table(header, rows, "l" + "r" * (len(header) - 2) + "l"))
        others = ", ".join(f"{value} {other[2:]}" for other, value in fixed.items())
        say(f"{others.replace('g_size', 'instances per bag')}; goal for the slope {goal:g}\n")
    say("C=1, CPU time with one thread; slope: of log over log, last three sizes.")
    return end()


# -- memory maps -----------------------------------------------------------------------------------

LARGE, N_FEATURES = 10_000_000, 100


def _map_tasks(args: argparse.Namespace) -> list[SizeTask]:
    shape = (LARGE // 1000 if args.fast else LARGE, N_FEATURES, 20)
    return [
        task_of(
            *("map", slack),
            **{"data": "map", "shape": shape, "estimator": "MISVC"},
            parameters={"kernel": "linear", "slack": slack, "C": 1.0},
        )
        for slack in SLACKS
    ]


def _map_remark(task: SizeTask, result: dict[str, Any]) -> str:
    missed = [] if result.get("converged", True) else ["NOT CONVERGED"]
    if result["highest_mb"] > MEMORY_GOAL_MB:
        missed.append(f"{MEMORY_GOAL_MB:g} MB missed")
    return ", ".join(missed)


# -- products --------------------------------------------------------------------------------------

# Instances, features, instances of a bag; type; whether they are in memory.
STORAGES: dict[str, tuple[tuple[int, int, int], str, bool]] = {
    "float64 in memory": ((1_000_000, 100, 20), "float64", True),
    "float32 mapped": ((10_000_000, 100, 20), "float32", False),
    "float16 in memory": ((1_000_000, 1_024, 1_000), "float16", True),
    "float16, a tenth": ((100_000, 1_024, 100), "float16", True),
}
_ROWS_AT_ONCE = 10_000
RATIO_GOAL, THREADS_GOAL, LIMIT_SECONDS = 3.0, 1.6, 3_600.0


def product(task: dict[str, Any]) -> Callable[[], None]:
    """A function that multiplies all rows with a vector, as one does it with NumPy alone."""
    n, d, _ = task["shape"]
    w = np.random.default_rng(0).normal(size=d)
    held = np.load(task["path"]) if task["in_memory"] else None
    if held is not None and held.dtype == np.float64:
        return lambda: held @ w
    single = w.astype(np.float32)

    def multiply() -> None:
        # A map of its own, whose pages are not there yet.
        rows = np.load(task["path"], mmap_mode="r") if held is None else held
        for first in range(0, n, _ROWS_AT_ONCE):
            rows[first : first + _ROWS_AT_ONCE].astype(np.float32, copy=False) @ single

    return multiply


def _shortest(work: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Shortest CPU and wall time."""
    found = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        found.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(each[0] for each in found), min(each[1] for each in found)


def passes(task: dict[str, Any]) -> dict[str, Any]:
    """CPU and wall time of a product, of a fit, and of the same fit with two threads."""
    bags, y = mapped(task)
    model, two = (
        MISVC(kernel="linear", slack=task["slack"], n_jobs=n_jobs) for n_jobs in (None, 2)
    )
    warm_up(model, bags, y, y)
    once = _shortest(product(task), 3)
    cpu, wall = _shortest(lambda: model.fit(bags, y), task["repeats"])
    return {
        "product": once[0],
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "two_wall_seconds": _shortest(lambda: two.fit(bags, y), task["repeats"])[1],
        "n_passes": int(model.n_passes_),
        "converged": bool(model.converged_),
    }


def _pass_tasks(args: argparse.Namespace) -> list[SizeTask]:
    wanted = list(getattr(args, "only", None) or STORAGES)
    if not set(wanted) <= set(STORAGES):
        raise SystemExit(f"The storages are {', '.join(STORAGES)}.")
    seconds = getattr(args, "seconds", None) or LIMIT_SECONDS
    tasks = []
    for name in wanted:
        (n, d, size), dtype, in_memory = STORAGES[name]
        shape = (1_000, 50, 20) if args.fast else (n, d, size)
        stated = {"shape": shape, "dtype": dtype, "in_memory": in_memory}
        stated["repeats"] = args.repeats or (1 if args.fast else 2)
        tasks += [
            task_of(name, slack, "benchmarks.scales.linear:passes", seconds, slack=slack, **stated)
            for slack in SLACKS
        ]
    return tasks


def _products(task: SizeTask, result: dict[str, Any]) -> str:
    spent = result["n_passes"] * result["product"]
    return f"{result['cpu_seconds'] / spent:.1f}" if spent else "-"


REPORTS: tuple[Report, ...] = (
    Series(
        "linear",
        "MISVC by passes against LinearSVC(): 10^4 to 10^6 instances",
        _points,
        {
            "instances x features": lambda task: POINTS[task.dataset][0],
            "slack": lambda task: task.method,
            "C": _cost,
        },
        _times("MISVC"),
        "\nMISVC(kernel='linear') and LinearSVC() on the instances with inherited labels in one "
        "process,\nCPU time with one thread, shortest of several where one is short; gap: of the "
        "last convex step, relative.",
    ).report(),
    Report("linear-slopes", "MISVC by passes: time against the sizes", run_slopes),
    Series(
        "linear-others",
        "CoupledMISVC, MISVR, InstanceMISVC by passes",
        _others,
        {"model": lambda task: task.method, "C": _cost},
        _times("CPU time"),
        "\n10,000 bags of 10 to 30 instances, 100 features (--fast: 300 bags, 10 features).",
    ).report(),
    Series(
        "out-of-core",
        "MISVC: 10^7 x 100 float32 (4 GB) from a memory map",
        _map_tasks,
        {"slack": lambda task: task.method, "instances": lambda task: f"{task['shape'][0]:,}"},
        {
            "passes": lambda task, result: f"{result.get('n_passes', 0):.0f}",
            "wall time": lambda task, result: duration(result["wall_seconds"]),
            "CPU time": lambda task, result: duration(result["cpu_seconds"]),
            "gap": lambda task, result: f"{gap_of(result):.0e}" if "dual_gap" in result else "",
            "before": lambda task, result: megabytes(result["before_mb"]),
            "peak": lambda task, result: megabytes(result["highest_mb"]),
            "": _map_remark,
        },
        f"\n{N_FEATURES} float32 features from a memory map, 20 instances per bag, each fit in a "
        "process of its own\nwith one thread; before, peak: anonymous memory before "
        "and in the fit. Pages of the memory map\nitself are not counted: the system may take them "
        "back.",
    ).report(),
    Series(
        "passes",
        "MISVC by passes over the time of products with the data",
        _pass_tasks,
        {
            "storage": lambda task: task.dataset,
            "instances": lambda task: f"{task['shape'][0]:,} x {task['shape'][1]:,}",
            "slack": lambda task: task.method,
        },
        {
            "product": lambda task, result: duration(result["product"]),
            "passes": lambda task, result: str(result["n_passes"]),
            "fit": lambda task, result: duration(result["cpu_seconds"]),
            "ratio": _products,
            "two threads": lambda task, result: (
                f"{result['wall_seconds'] / result['two_wall_seconds']:.2f}"
            ),
            "": lambda task, result: "" if result["converged"] else "NOT CONVERGED",
        },
        "\nCPU time of MISVC(1.0, kernel='linear').fit and of one product of all instances with a "
        "vector by NumPy, conversion of\nfloat16 included and a new memory map, the shortest of "
        f"several; ratio: fit over passes x product (goal {RATIO_GOAL:g}); two threads:\nwall time "
        f"of one over that of two (goal {THREADS_GOAL}), which an occupied computer lowers.",
    ).report(),
)
