"""Linear models by passes: compared with ``LinearSVC()``, and over a memory map."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..common.output import duration, megabytes
from .series import Report, Series, SizeTask, gap_of, task_of

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
SECONDS_GOAL = 0.1


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


def _cost(task: SizeTask) -> str:
    return f"{task['parameters']['C']:g}"


def _ratio(result: dict[str, Any]) -> float:
    return result["cpu_seconds"] / result["beside_cpu_seconds"]


def _missed(task: SizeTask, result: dict[str, Any]) -> str:
    goal = POINTS[task.dataset][2]
    missed = [] if result["converged"] else ["NOT CONVERGED"]
    if goal is None and result["cpu_seconds"] > SECONDS_GOAL:
        missed.append(f"{SECONDS_GOAL:g} s missed")
    if goal is not None and _ratio(result) > goal:
        missed.append(f"{goal:g} x missed")
    if result["n_passes"] > PASSES_GOAL:
        missed.append(f"{PASSES_GOAL} passes missed")
    if gap_of(result) > GAP_GOAL:
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
)
