"""Time and number of links: MILSD on generated and real data, compared with MISVC."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from milearn import Bags
from milearn.datasets import make_bags
from milearn.structured import MILSD
from milearn.svm import MISVC

from ..common.data import load
from ..common.fresh import within
from ..common.memory import PeakMemory, Stopwatch
from ..common.output import Table, duration, say, show
from ..common.runner import run
from .linear import warm_up

# Joined pairs of generated data, ten for each bag of five instances with 20 features.
PAIRS = (1_000, 10_000, 100_000, 1_000_000)
# Joined pairs (0: co-citation), and C a bag.
REAL: dict[str, tuple[str, int, float]] = {
    "Elephant, links of instances": ("elephant", 100_000, 0.1),
    "WebKB student, passages, co-citation": ("student-passages", 0, 0.1),
    "WebKB student, passages, drawn links": ("student-passages", 100_000, 0.1),
    "WebKB course, pages, co-citation": ("course-pages", 0, 10.0),
}
_LIMIT = 600.0


def class_graph(labels: np.ndarray, n_links: int) -> sparse.csr_array:
    """A symmetric graph of so many joined pairs, four of five within a class."""
    rng, n = np.random.default_rng(1), len(labels)
    found = np.zeros(0, dtype=np.int64)
    while len(found) < n_links:
        pairs = np.sort(rng.integers(n, size=(2, 2 * n_links)), axis=0)
        same = labels[pairs[0]] == labels[pairs[1]]
        kept = (pairs[0] < pairs[1]) & (same | (rng.random(pairs.shape[1]) < 0.25))
        found = np.union1d(found, pairs[0, kept] * n + pairs[1, kept])
    found = rng.permutation(found)[:n_links]
    half = sparse.coo_array((np.ones(n_links), (found // n, found % n)), shape=(n, n))
    return sparse.csr_array(half + half.T)


def _linked(name: str, n_links: int) -> tuple[Bags, np.ndarray, dict[str, Any]]:
    """Bags, labels and their graph."""
    if name == "generated":
        sizes = {"bag_size": 5, "concept_distance": 3.0, "flip_y": 0.1}
        bags, y = make_bags(n_links // 10, 20, random_state=0, **sizes)
        return bags, y, {"bag_graph": class_graph(y, n_links)}
    if name == "elephant":
        bags, y = load(name).bags, load(name).y
        bags = bags.with_instances(StandardScaler().fit_transform(bags.instances))
        return bags, y, {"instance_graph": class_graph(y[bags.bag_index], n_links)}
    from ..papers.zhang2011 import pages_of

    category, unit = name.split("-")
    pages = pages_of(category)
    bags = pages.bags
    if unit == "pages":
        bags = Bags(pages.whole, np.arange(len(pages.y) + 1))
    graph = class_graph(pages.y, n_links) if n_links else pages.graphs["cocitation"]
    return bags, pages.y, {"bag_graph": graph}


def fits(task: dict[str, Any]) -> dict[str, Any]:
    """Shortest times of MISVC and of MILSD without and with links in turn, and memory."""
    bags, y, graphs = _linked(task["name"], task["n_links"])
    linked = Bags(bags.instances, bags.offsets, **graphs)
    C, n = task["C"], len(bags)
    models = {
        "misvc": (MISVC(kernel="linear", C=C), bags),
        "unlinked": (MILSD(C=C * n, mu=0.0), bags),
        "linked": (model := MILSD(C=C * n, mu=C * n), linked),
    }
    warm_up(MISVC(kernel="linear"), bags, y)
    warm_up(MILSD(tol=0.1), linked, y)
    found: dict[str, Any] = {}
    with PeakMemory() as memory:
        for _ in range(task["rounds"]):
            for name, (each, X) in models.items():
                watch = Stopwatch()
                each.fit(X, y)
                seconds = watch.seconds()["cpu_seconds"]
                found[name] = min(seconds, found.get(name, seconds))
    (graph,) = graphs.values()
    found["n_pairs"] = int((graph + graph.T).nnz // 2)
    found["gap"] = float(model.dual_gap_ / model.objective_)
    return {**memory.found, **found}


def of_links(name: str, n_links: int, C: float, rounds: int) -> dict[str, Any]:
    task = {"name": name, "n_links": n_links, "C": C, "rounds": rounds}
    return within("benchmarks.scales.links:fits", task, _LIMIT)


def links(args: argparse.Namespace) -> None:
    """Generated data with their slope, then real ones."""
    rounds = args.repeats or (1 if args.fast else 2)
    cases = {f"generated, {size // 10:,} bags": ("generated", size, 0.1) for size in PAIRS}
    cases = dict(list(cases.items())[:2]) if args.fast else cases | REAL
    tasks = [(*case, 1 if case[1] >= 10**6 else rounds) for case in cases.values()]
    rows, grown = [], []
    for title, task, found in zip(cases, tasks, run(args, of_links, tasks), strict=True):
        if found is None:
            continue
        if "timeout" in found:
            rows.append([title, "", "", "", f"> {_LIMIT:g} s", "", "", ""])
            continue
        alone = found["misvc"]
        pairs, times = (
            f"{found['n_pairs']:,}",
            [duration(alone), f"{found['unlinked'] / alone:.1f}"],
        )
        times += [duration(found["linked"]), f"{found['linked'] / alone:.1f}"]
        rows.append([title, pairs, *times, f"{found['gap']:.0e}", f"{found['peak_mb']:.0f} MB"])
        if task[0] == "generated":
            grown.append([found["n_pairs"], found["linked"]])
    if len(grown) > 1:
        slope, _ = np.polyfit(*np.log(np.transpose(grown[-3:])), 1)
        rows.append(["slope of generated, last three", "", "", "", f"{slope:.2f}", "", "", ""])
    columns = ["data", "pairs", "MISVC", "mu=0, ratio", "links", "ratio", "gap", "memory"]
    show(Table(columns, rows))
    say(
        f"\nCPU time in one process, in turn, shortest of {rounds} (one from 1,000,000 pairs on). "
        "MISVC: linear; mu=0, ratio: MILSD without links over MISVC;\nlinks: MILSD with links, "
        "ratio: over MISVC; gap: relative duality gap; memory:\npeak above the process with the "
        "data. Joined pairs are two links each. Generated: ten\npairs a bag, five instances a bag, "
        "20 features, C = 0.1 a bag, mu = C."
    )


REPORTS = {"milsd-links": ("MILSD: time and number of links, compared with MISVC", links)}
