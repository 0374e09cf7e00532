"""Boosting on real data, compared with plain gradient boosting."""

from __future__ import annotations

import argparse
from typing import Any

from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

from milearn.ensemble import DPBoost, LPBoost
from milearn.preprocessing import BagStatistics

from ..common.data import load
from ..common.fresh import in_fresh_process
from ..common.memory import PeakMemory
from ..common.output import Table, duration, say, show
from ..common.runner import run

DATASETS = ("musk1", "elephant", "fox", "tiger", "musk2")
BOOSTERS: dict[str, Any] = {"DPBoost": DPBoost, "LPBoost": LPBoost}
# Seconds that a fit may take.
LONGEST = 300.0


def fits(task: dict[str, Any]) -> dict[str, Any]:
    """CPU time and memory of the boosters and of plain gradient boosting, and bounds."""
    data = load(task["name"])
    bags, y = data.bags, data.y
    inherited = y[bags.bag_index]
    models = {name: make(C=1.0, time_limit=LONGEST) for name, make in BOOSTERS.items()}
    histogram, statistics = HistGradientBoostingClassifier(), HistGradientBoostingClassifier()
    work = {
        **{name: (lambda model=model: model.fit(bags, y)) for name, model in models.items()},
        "stumps": lambda: GradientBoostingClassifier(max_depth=1).fit(bags.instances, inherited),
        "histogram": lambda: histogram.fit(bags.instances, inherited),
        "statistics": lambda: statistics.fit(BagStatistics().fit_transform(bags), y),
    }
    found: dict[str, Any] = {"n_instances": bags.n_instances}
    for name, call in work.items():
        with PeakMemory() as memory:
            call()
        found[name] = memory.found
    for name, model in models.items():
        found[name]["value"] = f"{model.objective_:.6g} >= {model.lower_bound_:.6g}"
    return found


def of_set(name: str) -> dict[str, Any]:
    return in_fresh_process("benchmarks.scales.boosting:fits", {"name": name})


def boosting(args: argparse.Namespace) -> None:
    tasks = [(name,) for name in DATASETS[: 2 if args.fast else None]]
    rows = []
    for (name,), found in zip(tasks, run(args, of_set, tasks), strict=True):
        if found is not None:
            timed = (*BOOSTERS, "stumps", "histogram", "statistics")
            times = [duration(found[each]["cpu_seconds"]) for each in timed]
            memory = [f"{found[each]['peak_mb']:.0f} MiB" for each in BOOSTERS]
            values = [found[each]["value"] for each in BOOSTERS]
            rows.append([name, str(found["n_instances"]), *times, *memory, *values])
    columns = ["data", "instances", *BOOSTERS, "GB, 100 stumps", "HistGB", "HistGB, statistics"]
    columns += [f"{name}, {what}" for what in ("memory", "value") for name in BOOSTERS]
    show(Table(columns, rows))
    say(
        "\nCPU time of one fit, C = 1, stumps; GB: scikit-learn's gradient boosting on instances "
        "with inherited labels,\nHistGB: its histogram-based boosting with default parameters, "
        "there and on statistics of bags;\nmemory: largest above that before the fit; value: "
        f"objective, lower bound; a fit may take {LONGEST:.0f} s."
    )


REPORTS = {"boosting-sets": ("DPBoost and LPBoost compared with gradient boosting", boosting)}
