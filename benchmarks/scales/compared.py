"""Boosting and links on real and generated data, compared with other fits in turn."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

from milearn import Bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.preprocessing import BagStatistics
from milearn.structured import MILSD
from milearn.svm import MISVC

from ..common.data import load
from ..common.memory import PeakMemory, Stopwatch
from ..common.output import Table, duration, say, show
from .series import (
    Report,
    Series,
    SizeTask,
    class_graph,
    found_of,
    generated,
    real,
    slope,
    task_of,
    warm_up,
)

_HERE = "benchmarks.scales.compared:"

# -- boosting --------------------------------------------------------------------------------------

BOOSTED = ("musk1", "elephant", "fox", "tiger", "musk2")
# Seconds that a fit may take.
LONGEST = 300.0


def boosting(task: dict[str, Any]) -> dict[str, Any]:
    """CPU time and memory of the boosters and of plain gradient boosting, and bounds."""
    data = load(task["name"])
    bags, y = data.bags, data.y
    inherited = np.asarray(y)[bags.bag_index]
    models = {name: make(C=1.0, time_limit=LONGEST) for name, make in _BOOSTERS.items()}
    statistics = HistGradientBoostingClassifier()
    fits = {
        **{name: (lambda model=model: model.fit(bags, y)) for name, model in models.items()},
        "stumps": lambda: GradientBoostingClassifier(max_depth=1).fit(bags.instances, inherited),
        "histogram": lambda: HistGradientBoostingClassifier().fit(bags.instances, inherited),
        "statistics": lambda: statistics.fit(BagStatistics().fit_transform(bags), y),
    }
    found: dict[str, Any] = {"n_instances": bags.n_instances}
    for name, fit in fits.items():
        with PeakMemory() as memory:
            watch = Stopwatch()
            fit()
            seconds = watch.seconds()
        found[name] = {**seconds, "peak_mb": memory.above / 2**20}
    for name, model in models.items():
        found[name] |= {
            "objective": float(model.objective_),
            "lower_bound": float(model.lower_bound_),
        }
    return found


_BOOSTERS: dict[str, Any] = {"DPBoost": DPBoost, "LPBoost": LPBoost}


def _boosting_tasks(args: argparse.Namespace) -> list[SizeTask]:
    names = BOOSTED[:2] if args.fast else BOOSTED
    return [task_of(name, "boosting", f"{_HERE}boosting", name=name) for name in names]


def _time_of(name: str) -> Any:
    return lambda task, result: duration(result[name]["cpu_seconds"])


def _memory_of(name: str) -> Any:
    return lambda task, result: f"{result[name]['peak_mb']:.0f} MiB"


def _value_of(name: str) -> Any:
    return lambda task, result: (
        f"{result[name]['objective']:.6g} >= {result[name]['lower_bound']:.6g}"
    )


# -- links -----------------------------------------------------------------------------------------

# Joined pairs of generated data, ten for each bag of five instances with 20 features.
PAIRS = (1_000, 10_000, 100_000, 1_000_000)
# Title, joined pairs (0: co-citation), and C a bag.
POINTS: dict[str, tuple[str, int, float]] = {
    "elephant": ("Elephant, links of instances", 100_000, 0.1),
    "student-passages": ("WebKB student, passages, co-citation", 0, 0.1),
    "student-passages+": ("WebKB student, passages, drawn links", 100_000, 0.1),
    "course-pages": ("WebKB course, pages, co-citation", 0, 10.0),
}
_LIMIT = 600.0


def _linked(task: dict[str, Any]) -> tuple[Bags, np.ndarray, dict[str, Any]]:
    """Bags, labels and their graph."""
    name, n_links = task["name"], task["n_links"]
    if name == "generated":
        sizes = {"n_bags": n_links // 10, "bag_size": 5, "n_features": 20}
        bags, y = generated({**sizes, "data": "overlapping"})
        return bags, y, {"bag_graph": class_graph(y, n_links)}
    if name == "elephant":
        bags, y = real(name)
        return bags, y, {"instance_graph": class_graph(y[bags.bag_index], n_links)}
    from ..papers._webkb import pages_of

    category, unit = name.rstrip("+").split("-")
    pages = pages_of(category)
    bags = pages.bags
    if unit == "pages":
        bags = Bags(pages.whole, np.arange(len(pages.y) + 1))
    graph = class_graph(pages.y, n_links) if n_links else pages.graphs["cocitation"]
    return bags, pages.y, {"bag_graph": graph}


def links(task: dict[str, Any]) -> dict[str, Any]:
    """Shortest times of MISVC and of MILSD without and with links in turn, and memory."""
    bags, y, graphs = _linked(task)
    linked = Bags(bags.instances, bags.offsets, **graphs)
    C, n = task["C"], len(bags)
    fits = {
        "misvc": (MISVC(kernel="linear", C=C), bags),
        "unlinked": (MILSD(C=C * n, mu=0.0), bags),
        "linked": (MILSD(C=C * n, mu=C * n), linked),
    }
    warm_up(MISVC(kernel="linear"), bags, y, y)
    warm_up(MILSD(tol=0.1), linked, y, y)
    found: dict[str, Any] = {}
    with PeakMemory() as memory:
        for _ in range(task["rounds"]):
            for name, (model, X) in fits.items():
                watch = Stopwatch()
                model.fit(X, y)
                seconds = watch.seconds()["cpu_seconds"]
                found[name] = min(seconds, found.get(name, seconds))
    model = fits["linked"][0]
    (graph,) = graphs.values()
    found["n_pairs"] = int((graph + graph.T).nnz // 2)
    found["gap"] = float(model.dual_gap_ / model.objective_)
    return {**found, "peak_mb": memory.above / 2**20}


def run_links(args: argparse.Namespace) -> int:
    """Generated data with their slope, then real ones."""
    rounds = args.repeats or (1 if args.fast else 2)
    cases = [(f"generated, {size // 10:,} bags", "generated", size, 0.1) for size in PAIRS]
    points = [(title, name, *rest) for name, (title, *rest) in POINTS.items()]
    cases = cases[:2] if args.fast else [*cases, *points]
    tasks = [
        task_of(
            *(title, "milsd", f"{_HERE}links", _LIMIT),
            **{"name": name, "n_links": size, "C": C},
            rounds=1 if size >= 10**6 else rounds,
        )
        for title, name, size, C in cases
    ]
    found, end = found_of(args, "milsd-links", tasks)
    rows = [_links_row(task.dataset, result) for task, result in found]
    grown = [
        (result["n_pairs"], result["linked"])
        for task, result in found
        if task["name"] == "generated" and "timeout" not in result
    ]
    if len(grown) > 1:
        exponent = slope(*map(list, zip(*grown, strict=True)))
        rows.append(["slope of generated, last three", "", "", "", f"{exponent:.2f}", "", "", ""])
    columns = ["data", "pairs", "MISVC", "mu=0, ratio", "links", "ratio", "gap", "memory"]
    show(Table(columns, rows, "lrrrrrrr"))
    say(
        f"\nCPU time in one process, in turn, shortest of {rounds} (one from 1,000,000 pairs on). "
        "MISVC: linear; mu=0, ratio: MILSD "
        "without links over MISVC;\nlinks: MILSD with links, ratio: over MISVC; "
        "gap: relative duality gap; memory:\npeak above the process with the data. Joined pairs "
        "are two links each. Generated: ten\npairs a "
        "bag, five instances a bag, 20 features, C = 0.1 a bag, mu = C."
    )
    return end()


def _links_row(title: str, result: dict[str, Any]) -> list[str]:
    if "timeout" in result:
        return [title, "", "", "", f"> {result['timeout']:g} s", "", "", ""]
    alone = result["misvc"]
    return [
        title,
        f"{result['n_pairs']:,}",
        duration(alone),
        f"{result['unlinked'] / alone:.1f}",
        duration(result["linked"]),
        f"{result['linked'] / alone:.1f}",
        f"{result['gap']:.0e}",
        f"{result['peak_mb']:.0f} MB",
    ]


REPORTS: tuple[Report, ...] = (
    Series(
        "boosting-sets",
        "DPBoost and LPBoost compared with gradient boosting",
        _boosting_tasks,
        {"data": lambda task: task.dataset},
        {
            "instances": lambda task, result: str(result["n_instances"]),
            **{name: _time_of(name) for name in _BOOSTERS},
            "GB, 100 stumps": _time_of("stumps"),
            "HistGB": _time_of("histogram"),
            "HistGB, statistics": _time_of("statistics"),
            **{f"{name}, memory": _memory_of(name) for name in _BOOSTERS},
            **{f"{name}, value": _value_of(name) for name in _BOOSTERS},
        },
        "\nCPU time of one fit, C = 1, stumps; GB: scikit-learn's gradient boosting on instances "
        "with inherited labels,\nHistGB: its histogram-based boosting with default parameters, "
        "there and on statistics of bags;\nmemory: largest above that before the fit; value: "
        f"objective, lower bound; a fit may take {LONGEST:.0f} s.",
    ).report(),
    Report("milsd-links", "MILSD: time and number of links, compared with MISVC", run_links),
)
