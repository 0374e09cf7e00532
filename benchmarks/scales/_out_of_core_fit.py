"""MISVC from a memory map, in a process of its own: ``python -m ... _out_of_core_fit JSON``.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from milearn import MISVC, Bags

from ..common.memory import PeakMemory, Stopwatch, anonymous

__all__ = ["bag_offsets", "labels_of", "measure", "write_instances"]

BAG_SIZE = 20
_ROWS_AT_ONCE = 100_000
_NOISE = 0.05
_DISTANCE = 4.0


def bag_offsets(n_instances: int) -> np.ndarray:
    return np.arange(0, n_instances + 1, BAG_SIZE)


def labels_of(n_bags: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes of the bags, and their labels: five in a hundred are wrong."""
    classes = np.arange(n_bags) % 2
    wrong = np.random.default_rng(2).random(n_bags) < _NOISE
    return classes, np.where(wrong, 1 - classes, classes)


def write_instances(path: Path, n_instances: int, n_features: int) -> None:
    """Float32 noise; the first instance of a positive bag is that of the concept."""
    header = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.float32, shape=(n_instances, n_features)
    )
    del header
    direction = np.random.default_rng(0).normal(size=n_features)
    concept = (_DISTANCE * direction / np.linalg.norm(direction)).astype(np.float32)
    classes, _ = labels_of(n_instances // BAG_SIZE)
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size - 4 * n_instances * n_features)
        for first in range(0, n_instances, _ROWS_AT_ONCE):
            rows = np.arange(first, min(first + _ROWS_AT_ONCE, n_instances))
            rng = np.random.default_rng([1, first])
            block = rng.standard_normal((len(rows), n_features), dtype=np.float32)
            block[(rows % BAG_SIZE == 0) & (classes[rows // BAG_SIZE] == 1)] += concept
            block.tofile(file)


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Times and peak anonymous memory of one fit on a memory map."""
    instances = np.load(task["path"], mmap_mode="r")
    bags = Bags(instances, bag_offsets(len(instances)))
    _, y = labels_of(len(bags))
    model = MISVC(task["C"], kernel="linear", slack=task["slack"])
    # The first fit imports solver libraries: a few bags take that away.
    model.fit(bags[:200], y[:200])
    with PeakMemory(anonymous) as memory:
        watch = Stopwatch()
        model.fit(bags, y)
        seconds = watch.seconds()
    few = min(len(bags), 10_000)
    return {
        **seconds,
        "before_mb": memory.before / 2**20,
        "peak_mb": memory.peak / 2**20,
        "looks": memory.looks,
        "n_iter": int(model.n_iter_),
        "passes": int(model.n_passes_),
        "gap": float(model.dual_gap_ / model.objective_),
        "objective": float(model.objective_),
        "converged": bool(model.converged_),
        "accuracy": float(model.score(bags[:few], y[:few])),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
