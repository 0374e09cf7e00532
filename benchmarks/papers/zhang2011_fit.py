"""Fits of MILSD in a process of its own: ``python -m benchmarks.papers.zhang2011_fit '<json>'``.

A fresh process, because memory that an earlier fit left behind would hide the next one's peak.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from ..common.memory import PeakMemory, Stopwatch
from ._webkb import pages_of, with_graph
from .zhang2011 import WebTask, known_labels, labelled

__all__ = ["measure"]


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Shortest times of fits with and without the graph in turn, and peak memory of the first."""
    from milearn.structured import MILSD

    pages = pages_of(task["dataset"])
    train = labelled(WebTask(task["dataset"], "", task["ratio"], task["repeat"]), pages.y)
    known = known_labels(pages.y, train)
    X = with_graph(pages, "cocitation")
    C = task["cost"] * len(train)

    def fit(share: float) -> Any:
        return MILSD(C=C, mu=share * C, tol=task["tol"]).fit(X, known)

    # What is imported at the first fit does not count: a few pages take that away.
    few = np.concatenate([train[pages.y[train] == side][:5] for side in (0, 1)])
    MILSD(tol=0.1).fit(X[few], pages.y[few])
    with PeakMemory() as memory:
        fit(task["graph_weights"][0])
    times: list[list[dict[str, float]]] = [[] for _ in task["graph_weights"]]
    for _ in range(task["rounds"]):
        for share, each in zip(task["graph_weights"], times, strict=True):
            watch = Stopwatch()
            fit(share)
            each.append(watch.seconds())
    instances = X.instances
    return {
        "n_labelled": len(train),
        "n_bags": len(X),
        "n_instances": X.n_instances,
        "n_features": X.shape[1],
        "n_links": int(X.bag_graph.nnz),
        "data_mb": (instances.data.nbytes + instances.indices.nbytes) / 2**20,
        "dense_mb": 8 * X.n_instances * X.shape[1] / 2**20,
        "peak_mb": memory.above / 2**20,
        "process_mb": memory.peak / 2**20,
        "fits": [
            {name: min(time[name] for time in each) for name in each[0]} if each else {}
            for each in times
        ],
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
