"""One measured fit of M3IC in a process of its own: ``python -m benchmarks.scales._m3ic_fit JSON``.

A fresh process, because memory that an earlier fit left behind would hide the next one's peak.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from milearn import M3IC, Bags
from milearn.metrics import clustering_accuracy

from ..common.memory import PeakMemory, Stopwatch, anonymous

__all__ = ["bag_offsets", "concepts", "measure", "write_instances"]

BAG_SIZE = 10
N_CLUSTERS = 3
_ROWS_AT_ONCE = 100_000


def bag_offsets(n_instances: int) -> np.ndarray:
    return np.arange(0, n_instances + 1, BAG_SIZE)


def concepts(n_features: int) -> np.ndarray:
    """One direction per cluster."""
    return np.random.default_rng(0).normal(size=(N_CLUSTERS, n_features)).astype(np.float32)


def write_instances(path: Path, n_instances: int, n_features: int) -> None:
    """Float32 noise; the first instance of bag i also holds the concept of cluster i mod 3."""
    header = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.float32, shape=(n_instances, n_features)
    )
    offset = header.offset
    del header
    centres = 0.5 * concepts(n_features)
    with open(path, "r+b") as file:
        file.seek(offset)
        for first in range(0, n_instances, _ROWS_AT_ONCE):
            rows = np.arange(first, min(first + _ROWS_AT_ONCE, n_instances))
            rng = np.random.default_rng([1, first])
            block = 0.5 * rng.standard_normal((len(rows), n_features), dtype=np.float32)
            first_rows = np.flatnonzero(rows % BAG_SIZE == 0)
            block[first_rows] += centres[rows[first_rows] // BAG_SIZE % N_CLUSTERS]
            block.tofile(file)


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Times and peak anonymous memory of one fit with one random start on a memory map."""
    instances = np.load(task["path"], mmap_mode="r")
    bags = Bags(instances, bag_offsets(len(instances)))
    # The first fit imports solver libraries: a few bags take that away.
    M3IC(N_CLUSTERS, init="random", n_init=1, random_state=0).fit(bags[: 10 * N_CLUSTERS])
    times = []
    for _ in range(task["fits"]):
        model = M3IC(N_CLUSTERS, C=task["C"], init="random", n_init=1, random_state=0)
        with PeakMemory(anonymous) as memory:
            watch = Stopwatch()
            model.fit(bags)
            times.append(watch.seconds())
    truth = np.arange(len(bags)) % N_CLUSTERS
    return {
        **{name: min(each[name] for each in times) for name in times[0]},
        "before_mb": memory.before / 2**20,
        "peak_mb": memory.peak / 2**20,
        "looks": memory.looks,
        "n_iter": model.n_iter_,
        "n_cuts": model.n_cuts_,
        "objective": float(model.objective_),
        "accuracy": clustering_accuracy(truth, model.labels_),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
