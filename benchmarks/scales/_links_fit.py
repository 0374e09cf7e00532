"""Fits of MILSD compared with linear MISVC: ``python -m benchmarks.scales._links_fit '<json>'``.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from milearn import Bags
from milearn.structured import MILSD
from milearn.svm import MISVC

from ..common.data import load
from ..common.memory import PeakMemory, Stopwatch
from ._size_fit import bags_of

__all__ = ["class_graph", "measure"]


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


def _problem(task: dict[str, Any]) -> tuple[Bags, np.ndarray, Any, Any]:
    """Bags, labels, and graphs on bags and on instances, one of which is None."""
    name, n_links = task["data"], task["n_links"]
    if name == "generated":
        sizes = {"n_bags": task["n_bags"], "bag_size": 5, "n_features": 20}
        bags, y = bags_of(**sizes)
        return bags, y, class_graph(y, n_links), None
    if name == "elephant":
        data = load(name)
        bags = data.bags.with_instances(StandardScaler().fit_transform(data.bags.instances))
        return bags, data.y, None, class_graph(data.y[bags.bag_index], n_links)
    from ..papers._webkb import pages_of

    category, unit = name.split("-")
    pages = pages_of(category)
    graph = class_graph(pages.y, n_links) if n_links else pages.graphs["cocitation"]
    if unit == "pages":
        return Bags(pages.whole, np.arange(len(pages.y) + 1)), pages.y, graph, None
    return pages.bags, pages.y, graph, None


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Shortest times of the three in turn, and peak memory of the fit with links.

    The task names ``data``, ``n_links`` (0: the graph of the data), ``C`` a bag, ``mu`` over C,
    ``rounds``, and ``n_bags`` of generated data.
    """
    bags, y, of_bags, of_instances = _problem(task)
    linked = Bags(bags.instances, bags.offsets, bag_graph=of_bags, instance_graph=of_instances)
    n, C = len(bags), task["C"]
    fits = {
        "misvc": lambda: MISVC(kernel="linear", C=C).fit(bags, y),
        "unlinked": lambda: MILSD(C=C * n, mu=0.0).fit(bags, y),
        "linked": lambda: MILSD(C=C * n, mu=task["mu"] * C * n).fit(linked, y),
    }
    # What the first fits import does not count.
    few = np.concatenate([np.flatnonzero(y == side)[:5] for side in np.unique(y)])
    MISVC(kernel="linear").fit(bags[few], y[few])
    MILSD(tol=0.1).fit(linked[few], y[few])
    times: dict[str, list[dict[str, float]]] = {name: [] for name in fits}
    models: dict[str, Any] = {}
    with PeakMemory() as memory:
        for _ in range(task["rounds"]):
            for name, fit in fits.items():
                watch = Stopwatch()
                models[name] = fit()
                times[name].append(watch.seconds())
    graph = of_bags if of_bags is not None else of_instances
    return {
        "n_bags": n,
        "n_instances": bags.n_instances,
        "n_pairs": int((graph + graph.T).nnz // 2),
        "peak_mb": memory.above / 2**20,
        **{
            f"{name}_{kind}": min(time[kind] for time in each)
            for name, each in times.items()
            for kind in each[0]
        },
        **{
            f"{name}_gap": float(model.dual_gap_ / model.objective_)
            for name, model in models.items()
        },
        **{f"{name}_objective": float(model.objective_) for name, model in models.items()},
        "n_iter": int(models["linked"].n_iter_),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
