"""Every method against one size of the data at a time: bags, instances, features, clusters, links.

A method that took long at one size is left out at the larger ones, so that a slow one does not keep
the others waiting.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..common.output import Table, duration, megabytes, say, show
from ..common.protocol import run
from ..common.records import RecordFile
from ..common.reports import Report, finish
from .series import FIT, SizeTask, run_task, slope, task_of

# The larger sizes are left out after a fit of more than this; and a fit is ended after that.
_LONG_SECONDS, _LIMIT = 3.0, 60.0
_FAST = ("misvc", "sdpmil", "m3ic", "milsd-bag")

_LINEAR = {"kernel": "linear", "C": 0.1}
# How each is printed, its estimator and parameters.
ESTIMATORS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "misvc": ("CoupledMISVC, rbf", "CoupledMISVC", {"C": 1.0}),
    "misvc-landmarks": ("CoupledMISVC, 300 landmarks", "CoupledMISVC", {"n_components": 300}),
    "misvc-bag": ("MISVC, max, bag slack, linear", "MISVC", {"slack": "bag", **_LINEAR}),
    "misvc-instance": (
        "MISVC, max, instance slack, linear",
        "MISVC",
        {"slack": "instance", **_LINEAR},
    ),
    "misvc-rbf": ("MISVC, max, bag slack, rbf", "MISVC", {"C": 1.0}),
    "instancemisvc": ("InstanceMISVC, linear", "InstanceMISVC", _LINEAR),
    "sdpmil": ("SDPMIL, linear", "SDPMIL", _LINEAR),
    "wellsvc": ("WellSVC, rbf", "WellSVC", {}),
    "milsd": ("MILSD, no graph", "MILSD", {"graph": "auto"}),
    "dpboost": ("DPBoost", "DPBoost", {}),
    "lpboost": ("LPBoost", "LPBoost", {}),
    "bagsvc": ("BagSVC", "BagSVC", {}),
    "miclassifier": ("MIClassifier", "MIClassifier", {}),
    "miles": ("MILES", "MILES", {}),
    "citationknn": ("CitationKNN", "CitationKNN", {}),
    "emdd": ("EMDD, 3 starts", "EMDD", {"n_init": 3}),
    "milboost": ("MILBoost, stumps", "MILBoost", {}),
    "miforest": ("MIForest, 50 trees", "MIForest", {"n_estimators": 50}),
    "m3ic": ("M3IC, one random start", "M3IC", {"init": "random", "n_init": 1}),
    "bamic": ("BAMIC, one random start", "BAMIC", {"n_init": 1}),
    "milsd-bag": ("MILSD, links of bags", "MILSD", {"graph": "bag", "mu": 1.0}),
    "milsd-instance": ("MILSD, links of instances", "MILSD", {"graph": "instance", "mu": 1.0}),
    "linkcontentmf": ("LinkContentMF, links of bags", "LinkContentMF", {"n_components": 10}),
}
_CLUSTERERS = ("m3ic", "bamic")
_LINKED = ("milsd-bag", "milsd-instance", "linkcontentmf")
_EVERY = tuple(name for name in ESTIMATORS if name not in _LINKED)


@dataclass(frozen=True)
class Axis:
    """One size that grows.

    Attributes
    ----------
    name : str
        ``"bags"``: the report, too.
    grows : str
        The size that grows, and its values.
    sizes : tuple of int
    fixed : dict of int
        The other sizes.
    methods : tuple of str
    data : str
        As :mod:`.series` calls them.
    per : int
        Units of the axis for one of ``grows``: instances grow with the size of a bag.
    """

    name: str
    grows: str
    sizes: tuple[int, ...]
    fixed: dict[str, int]
    methods: tuple[str, ...] = _EVERY
    data: str = "overlapping"
    per: int = 1


_GROWN = (10, 32, 100, 316, 1000, 3162, 10_000)
AXES = (
    Axis("bags", "n_bags", (32, *_GROWN[2:]), {"bag_size": 10, "n_features": 20}),
    Axis("instances", "bag_size", _GROWN, {"n_bags": 100, "n_features": 20}, per=100),
    Axis("features", "n_features", _GROWN, {"n_bags": 100, "bag_size": 10}),
    Axis(
        "clusters",
        "n_clusters",
        (3, 6, 12, 24, 48),
        {"n_bags": 600, "bag_size": 10, "n_features": 50},
        _CLUSTERERS,
        "clusters",
    ),
    Axis(
        "links",
        "n_links",
        (316, 1000, 3162, 10_000, 31_623),
        {"n_bags": 300, "bag_size": 5, "n_features": 20},
        _LINKED,
        "linked",
    ),
)


def task_at(axis: Axis, method: str, size: int) -> SizeTask:
    """A method at one size."""
    _, estimator, parameters = ESTIMATORS[method]
    if method in _CLUSTERERS:
        n_clusters = size if axis.grows == "n_clusters" else 2
        parameters = {"n_clusters": n_clusters, **parameters}
    stated = {**axis.fixed, axis.grows: size, "data": axis.data}
    return task_of(
        f"{axis.name} {size}",
        method,
        FIT,
        _LIMIT,
        estimator=estimator,
        parameters=parameters,
        **stated,
    )


def run_axis(args: argparse.Namespace, *, axis: Axis) -> int:
    """The table of an axis."""
    sizes = axis.sizes[:2] if args.fast else axis.sizes
    left = [name for name in axis.methods if name in _FAST or not args.fast]
    found: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in left}
    complete = True
    with RecordFile(args.out / f"{axis.name}.jsonl", fresh=args.fresh) as file:
        # All methods at one size before the next: what is left out depends on it.
        for number, size in enumerate(sizes):
            tasks = {name: task_at(axis, name, size) for name in left}
            label = f"{axis.name} {number + 1}/{len(sizes)}"
            records, complete = run(
                list(tasks.values()), file, jobs=1, label=label, function=run_task
            )
            for name, task in tasks.items():
                if task.key in records:
                    found[name][size] = records[task.key]
            if not complete:
                break
            left = [name for name in left if _seconds(found[name][size]) <= _LONG_SECONDS]
    show(_table(axis, found, sizes))
    words = {"n_bags": "bags", "bag_size": "instances per bag", "n_features": "features"}
    fixed = ", ".join(f"{value} {words[name]}" for name, value in axis.fixed.items())
    say(
        f"\nGenerated data, {fixed}; each fit in a process of its own.\nCPU time: shortest "
        "of several where one is short; memory: peak above the process with the data;\nslope: of "
        "log over log, last three sizes; -: left out because the size before took more than "
        f"{_LONG_SECONDS:g} s."
    )
    every = {record["key"]: record for records in found.values() for record in records.values()}
    return finish(every, complete, file, len(every))


def _seconds(record: dict[str, Any]) -> float:
    """CPU time of a fit; of one that failed or was ended, more than any."""
    return record.get("result", {}).get("cpu_seconds", np.inf)


def _table(
    axis: Axis, found: dict[str, dict[int, dict[str, Any]]], sizes: tuple[int, ...]
) -> Table:
    """Two lines per method: times with their slope, memory with its own."""
    rows = []
    for method, records in found.items():
        good = {size: each["result"] for size, each in records.items() if _seconds(each) < np.inf}
        remarks = [each["error"] for each in records.values() if "error" in each]
        remarks += sorted({name for result in good.values() for name in result["warnings"]})
        for what, unit in (("cpu_seconds", duration), ("peak_mb", megabytes)):
            cells = [
                unit(good[size][what]) if size in good else _word(records.get(size), what)
                for size in sizes
            ]
            exponent = slope(list(good), [result[what] for result in good.values()])
            cells.append("" if np.isnan(exponent) else f"{exponent:.2f}")
            if what == "cpu_seconds":
                remark = ", ".join(remarks)[:60]
                rows.append([ESTIMATORS[method][0], "CPU time", *cells, remark])
            else:
                rows.append(["", "memory", *cells, ""])
    header = [axis.name, "", *(f"{size * axis.per:,}" for size in sizes), "slope", ""]
    return Table(header, rows, "ll" + "r" * len(sizes) + "rl")


def _word(record: dict[str, Any] | None, what: str) -> str:
    """What stands in the place of a figure."""
    if record is None:
        return "-"
    if "error" in record:
        return "failed"
    return f"> {record['result']['timeout']:g} s" if what == "cpu_seconds" else "-"


def _report(axis: Axis) -> Report:
    title = "every method: " if axis.methods == _EVERY else ""
    return Report(
        axis.name, f"{title}time and memory against {axis.name}", partial(run_axis, axis=axis)
    )


REPORTS = tuple(_report(axis) for axis in AXES)
