"""Gain by links on WebKB, paired over draws of labels, and a control with permuted links."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from ..common.memory import Stopwatch
from ..common.output import Table, duration, percent, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of
from ..common.reports import Report, finish
from ._webkb import CATEGORIES, Pages, pages_of
from .zhang2011 import WebTask, known_labels, labelled

UNITS = {"pages": "whole pages, bags of one", "passages": "passages"}
DRAWS = 20
GRAPHS = ("none", "cocitation", "direct", "permuted")
RATIOS = (0.05, 0.2)
# The same for every row: nothing is chosen, so that a difference is one of the links.
COST, SHARE, TOL = 1.0, 1.0, 0.1
_LEVEL = 0.05


def permuted_nodes(graph: Any, rng: np.random.Generator) -> sparse.csr_array:
    """The graph after its nodes were permuted: its degrees, weights and groups, at other nodes."""
    links = sparse.coo_array(graph)
    place = rng.permutation(graph.shape[0])
    return sparse.csr_array((links.data, (place[links.row], place[links.col])), links.shape)


@dataclass(frozen=True)
class LinkTask:
    """One draw of labels; ``method`` is the graph."""

    dataset: str
    unit: str
    method: str
    ratio: float
    repeat: int

    @property
    def settings(self) -> dict[str, Any]:
        return {"C over labels": COST, "mu over C": SHARE, "tol": TOL}

    @property
    def key(self) -> str:
        name = f"{self.dataset}/{self.unit}/{self.ratio:g}/{self.method}/{self.repeat}"
        return f"webkb-links/{name}@{digest(self.settings)}"


def run_link(task: LinkTask) -> dict[str, Any]:
    return record_of(task, _result, parameters=task.settings)


def _result(task: LinkTask) -> dict[str, Any]:
    from milearn.structured import MILSD, homophily

    pages = pages_of(task.dataset)
    train = labelled(WebTask(task.dataset, "", task.ratio, task.repeat), pages.y)
    C = COST * len(train)
    graph = graph_of(pages, task.method, task.repeat)
    X = _bags(pages, task.unit, graph)
    watch = Stopwatch()
    model = MILSD(C=C, mu=0.0 if graph is None else SHARE * C, tol=TOL)
    model.fit(X, known_labels(pages.y, train))
    seconds = watch.seconds("fit_")
    hidden = np.ones(len(pages.y), dtype=bool)
    hidden[train] = False
    return {
        "accuracy": float(np.mean(model.transduction_[hidden] == pages.y[hidden])),
        "homophily": None if graph is None else homophily(graph, pages.y),
        "n_links": 0 if graph is None else int(graph.nnz),
        "n_labelled": len(train),
        "gap": float(model.dual_gap_ / model.objective_),
        **seconds,
    }


def graph_of(pages: Pages, name: str, repeat: int) -> Any:
    """One of the graphs; the control is the co-citation graph between permuted pages."""
    if name == "none":
        return None
    if name == "permuted":
        return permuted_nodes(pages.graphs["cocitation"], np.random.default_rng(repeat))
    return pages.graphs[name]


def _bags(pages: Pages, unit: str, graph: Any) -> Any:
    from milearn import Bags

    if unit == "passages":
        return Bags(pages.bags.instances, pages.bags.offsets, bag_graph=graph)
    return Bags(pages.whole, np.arange(len(pages.y) + 1), bag_graph=graph)


# -- the tables ----------------------------------------------------------------------------------


def link_tasks(repeats: int | None, fast: bool) -> list[LinkTask]:
    """All rows of a draw before the next draw: a run that is stopped early has every row."""
    draws = 1 if fast else min(repeats or DRAWS, DRAWS)
    categories = CATEGORIES[:1] if fast else CATEGORIES
    return [
        LinkTask(category, unit, graph, ratio, repeat)
        for unit in UNITS
        for repeat in range(draws)
        for category in categories
        for ratio in RATIOS
        for graph in GRAPHS
    ]


def holm(values: Sequence[float]) -> np.ndarray:
    """Probabilities, each multiplied by the number of tests that it has still to pass."""
    p = np.asarray(values, dtype=float)
    order = np.argsort(p)
    scaled = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(scaled, 1.0)
    return adjusted


@lru_cache(maxsize=1)
def _paired_test() -> Any:
    from scipy.stats import ttest_1samp

    return ttest_1samp


def link_table(tasks: Sequence[LinkTask], records: dict[str, Any]) -> Table:
    """Accuracy of every row, and its difference to no links on the same draws."""
    cells: dict[tuple[str, str, float, str], dict[int, dict[str, Any]]] = {}
    for task in tasks:
        found = records.get(task.key, {}).get("result")
        if found is not None:
            cell = (task.unit, task.dataset, task.ratio, task.method)
            cells.setdefault(cell, {})[task.repeat] = found
    steps = {
        cell: [
            each["accuracy"] - cells[(*cell[:3], "none")][repeat]["accuracy"]
            for repeat, each in found.items()
            if repeat in cells.get((*cell[:3], "none"), {})
        ]
        for cell, found in cells.items()
        if cell[3] != "none"
    }
    tested = [cell for cell, each in steps.items() if len(each) > 2 and np.ptp(each) > 1e-12]
    chances = [float(_paired_test()(steps[cell], 0.0).pvalue) for cell in tested]
    adjusted = dict(zip(tested, holm(chances), strict=True))
    rows = []
    for cell in sorted(cells, key=lambda cell: (*map(_place, cell[:3]), GRAPHS.index(cell[3]))):
        found = list(cells[cell].values())
        values = [each["accuracy"] for each in found]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        seconds = float(np.mean([each["fit_cpu_seconds"] for each in found]))
        rows.append(
            [
                UNITS[cell[0]],
                cell[1],
                f"{100 * cell[2]:g} %",
                cell[3],
                percent(float(np.mean(values)), spread),
                *_step(steps.get(cell, []), adjusted.get(cell)),
                str(len(found)),
                duration(seconds),
            ]
        )
    columns = ["bags", "category", "labelled", "links", "accuracy %", "over none", "p"]
    return Table([*columns, "draws", "fit, CPU time"], rows, "llrlrrrrr")


def _place(value: Any) -> Any:
    return list(UNITS).index(value) if value in UNITS else value


def _step(steps: list[float], chance: float | None) -> tuple[str, str]:
    if len(steps) < 2:
        return (f"{100 * steps[0]:+.1f}" if steps else ""), ""
    error = 100 * np.std(steps, ddof=1) / len(steps) ** 0.5
    lead = f"{100 * np.mean(steps):+.1f} +- {error:.1f}"
    if chance is None:
        return lead, ""
    return lead + (" *" if chance < _LEVEL else ""), f"{chance:.1g}"


def run_links(args: argparse.Namespace) -> int:
    tasks = link_tasks(args.repeats, args.fast)
    with RecordFile(args.out / "zhang2011-links.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label="webkb-links", function=run_link)
    show(link_table(tasks, records))
    say(
        "Accuracy over the pages without label (transductive), mean +- standard deviation over "
        "draws of labels, pages fixed.\nover none: mean difference to no links on the same draws, "
        "+- its standard error; p: paired t test, Holm over all rows;\n*: below "
        f"{_LEVEL}. The test is about draws of labels from these pages, not about other pages.\n"
        "permuted: the co-citation graph between permuted pages. Every row: "
        f"C of {COST:g} a label, mu = {SHARE:g} C, tol={TOL}; no parameter is chosen."
    )
    return finish(records, complete, file, len(tasks))


REPORTS = (
    Report(
        "zhang2011-links",
        "gain by links on WebKB, paired over draws, with a control of permuted links",
        run_links,
    ),
)
