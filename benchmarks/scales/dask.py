"""Distributed bags: two worker processes against two threads, and the bytes of a pass."""

from __future__ import annotations

import argparse
from typing import Any

from ..common.output import Table, duration, say, show
from .series import Report, found_of, task_of

# Of instances; bags have 20 on average.
N_BAGS, FAST = 50_000, 100
TIME_GOAL, PASS_GOAL, GAP = 1.5, 2**20, 1e-3


def run_dask(args: argparse.Namespace) -> int:
    """Wall times and bytes of a fit."""
    size = {"n_bags": FAST, "rounds": 1} if args.fast else {"n_bags": N_BAGS, "rounds": 2}
    task = task_of("concepts", "workers", "benchmarks.scales._workers:workers", **size)
    found, end = found_of(args, "dask", [task])
    for _, result in found:
        _show_times(result)
    return end()


def _show_times(found: dict[str, Any]) -> None:
    """Both fits, and what a pass sends."""
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


REPORTS = (Report("dask", "MISVC over two worker processes: 10^6 x 100", run_dask),)
