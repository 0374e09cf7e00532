"""Every method against one size of the data at a time: bags, instances, features, clusters, links.

Each fit runs in a process of its own. A method that took long at one size is left out at the larger
ones, so that a slow one does not keep the others waiting.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..common.fresh import in_fresh_process
from ..common.output import short_path
from ..common.page import say, show
from ..common.plots import plot_sizes
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration, megabytes
from ..common.tasks import record_of
from ._size_fit import ESTIMATORS

__all__ = ["AXES", "REPORTS", "Axis", "SizeTask", "slope"]

# The larger sizes are left out after a fit of more than this; and a fit is ended after that.
_LONG_SECONDS = 3.0
_TIMEOUT = 60.0
_FAST = ("misvc", "sdpmil", "m3ic", "milsd-bag")
_CLASSIFIERS = (
    *("misvc", "misvc-bag", "misvc-instance", "misvc-rbf", "instancemisvc"),
    *("sdpmil", "wellsvc", "milsd", "dpboost", "lpboost", "bagsvc", "miclassifier"),
    *("miles", "citationknn", "emdd", "milboost", "miforest"),
)


@dataclass(frozen=True)
class Axis:
    """One size that grows.

    Attributes
    ----------
    name : str
        ``"bags"``: the report, too.
    grows : str
        The size of ``_size_fit`` that grows, and its values.
    sizes : tuple of int
    fixed : dict of int
        The other sizes.
    methods : tuple of str
    per : int
        Units of the axis for one of ``grows``: instances grow with the size of a bag.
    """

    name: str
    grows: str
    sizes: tuple[int, ...]
    fixed: dict[str, int]
    methods: tuple[str, ...]
    per: int = 1


AXES = (
    Axis(
        "bags",
        "n_bags",
        (32, 100, 316, 1000, 3162, 10_000),
        {"bag_size": 10, "n_features": 20},
        (*_CLASSIFIERS, "m3ic", "bamic"),
    ),
    Axis(
        "instances",
        "bag_size",
        (10, 32, 100, 316, 1000, 3162, 10_000),
        {"n_bags": 100, "n_features": 20},
        (*_CLASSIFIERS, "m3ic", "bamic"),
        per=100,
    ),
    Axis(
        "features",
        "n_features",
        (10, 32, 100, 316, 1000, 3162, 10_000),
        {"n_bags": 100, "bag_size": 10},
        (*_CLASSIFIERS, "m3ic", "bamic"),
    ),
    Axis(
        "clusters",
        "n_clusters",
        (3, 6, 12, 24, 48),
        {"n_bags": 600, "bag_size": 10, "n_features": 50},
        ("m3ic", "bamic"),
    ),
    Axis(
        "links",
        "n_links",
        (316, 1000, 3162, 10_000, 31_623),
        {"n_bags": 300, "bag_size": 5, "n_features": 20},
        ("milsd-bag", "milsd-instance", "linkcontentmf"),
    ),
)


@dataclass(frozen=True)
class SizeTask:
    """One method at one size; ``dataset`` is the axis."""

    dataset: str
    method: str
    sizes: tuple[tuple[str, int], ...]

    @property
    def key(self) -> str:
        name = "-".join(str(value) for _, value in self.sizes)
        return f"{self.dataset}/{self.method}/{name}@{digest([asdict(self), source_digest()])}"


def run_task(task: SizeTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: SizeTask) -> dict[str, Any]:
    """What ``_size_fit`` measures in a fresh process."""
    stated = {"method": task.method, **dict(task.sizes)}
    try:
        return in_fresh_process("benchmarks.scales._size_fit", stated, timeout=_TIMEOUT)
    except TimeoutError:
        # Not an error, which would be tried again: it says how the method grows.
        return {"timeout": _TIMEOUT}


def run_axis(args: argparse.Namespace, *, axis: Axis) -> int:
    """The table and the plot of an axis."""
    sizes = axis.sizes[:2] if args.fast else axis.sizes
    left = [name for name in axis.methods if name in _FAST or not args.fast]
    found: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in left}
    complete = True
    with RecordFile(args.out / f"{axis.name}.jsonl", fresh=args.fresh) as file:
        # All methods at one size before the next: what is left out depends on it.
        for number, size in enumerate(sizes):
            tasks = [_task(axis, name, size) for name in left]
            label = f"{axis.name} {number + 1}/{len(sizes)}"
            records, complete = run(tasks, file, jobs=1, label=label, function=run_task)
            for task in tasks:
                if task.key in records:
                    found[task.method][size] = records[task.key]
            if not complete:
                break
            left = [name for name in left if _seconds(found[name][size]) <= _LONG_SECONDS]
    show(_table(axis, found, sizes))
    plot = _plot(axis, found, args.out / f"{axis.name}.png")
    say(_legend(axis))
    if plot is not None:
        print(f"plot:    {short_path(plot)}")
    every = {record["key"]: record for records in found.values() for record in records.values()}
    return finish(every, complete, file, len(every))


def _task(axis: Axis, method: str, size: int) -> SizeTask:
    return SizeTask(axis.name, method, tuple({**axis.fixed, axis.grows: size}.items()))


def _seconds(record: dict[str, Any]) -> float:
    """CPU time of a fit; of one that failed or was ended, more than any."""
    return record.get("result", {}).get("cpu_seconds", np.inf)


def slope(sizes: list[int], values: list[float]) -> float:
    """Exponent of the growth over the last three sizes by least squares."""
    sizes, values = sizes[-3:], values[-3:]
    if len(sizes) < 2 or min(values) <= 0:
        return np.nan
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _table(
    axis: Axis, found: dict[str, dict[int, dict[str, Any]]], sizes: tuple[int, ...]
) -> Table:
    """Two lines per method: times with their slope, memory with its own."""
    rows = []
    for method, records in found.items():
        title = ESTIMATORS[method][0]
        good = {size: each["result"] for size, each in records.items() if _seconds(each) < np.inf}
        remarks = [each["error"] for each in records.values() if "error" in each]
        remarks += sorted({name for result in good.values() for name in result["warnings"]})
        for what, unit in (("cpu_seconds", duration), ("peak_mb", megabytes)):
            cells = [
                unit(good[size][what]) if size in good else _word(records.get(size), what)
                for size in sizes
            ]
            exponent = slope(list(good), [result[what] for result in good.values()])
            slope_cell = "" if np.isnan(exponent) else f"{exponent:.2f}"
            name = title if what == "cpu_seconds" else ""
            remark = ", ".join(remarks)[:60] if what == "cpu_seconds" else ""
            kind = "CPU time" if what == "cpu_seconds" else "memory"
            rows.append([name, kind, *cells, slope_cell, remark])
    header = [axis.name, "", *(f"{size * axis.per:,}" for size in sizes), "slope", ""]
    return Table(header, rows, "ll" + "r" * len(sizes) + "rl")


def _word(record: dict[str, Any] | None, what: str) -> str:
    """What stands in the place of a figure."""
    if record is None:
        return "-"
    if "error" in record:
        return "failed"
    return f"> {record['result']['timeout']:g} s" if what == "cpu_seconds" else "-"


def _plot(axis: Axis, found: dict[str, dict[int, dict[str, Any]]], path: Path) -> Path | None:
    curves = {
        ESTIMATORS[method][0]: [
            (size * axis.per, _seconds(each))
            for size, each in records.items()
            if _seconds(each) < np.inf
        ]
        for method, records in found.items()
    }
    return plot_sizes(curves, path, size=axis.name)


def _legend(axis: Axis) -> str:
    words = {
        "n_bags": "bags",
        "bag_size": "instances per bag",
        "n_features": "features",
    }
    fixed = ", ".join(f"{value} {words[name]}" for name, value in axis.fixed.items())
    return (
        f"\nGenerated data, {fixed}; each fit in a process of its own.\nCPU time: shortest "
        "of several where one is short; memory: peak above the process with the data;\nslope: of "
        "log over log, last three sizes; -: left out because the size before took more than "
        f"{_LONG_SECONDS:g} s."
    )


def _report(axis: Axis) -> Report:
    title = f"every method: time and memory against {axis.name}"
    if len(axis.methods) < 5:
        title = f"time and memory against {axis.name}"
    run_it: Callable[[argparse.Namespace], int] = partial(run_axis, axis=axis)
    return Report(axis.name, title, run_it)


REPORTS = tuple(_report(axis) for axis in AXES)
