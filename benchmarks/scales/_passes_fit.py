"""One fit by passes against products with the data, in a process of its own.

``python -m benchmarks.scales._passes_fit JSON`` prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from milearn import MISVC, Bags

from ._out_of_core_fit import labels_of

__all__ = ["measure", "product", "write_rows"]

_ROWS_AT_ONCE = 10_000
_DISTANCE = 4.0


def write_rows(path: Path, task: dict[str, Any]) -> None:
    """Noise in the type of the task; one instance in twenty of a positive bag is at the concept."""
    n, d, size = task["n_instances"], task["n_features"], task["bag_size"]
    out = np.lib.format.open_memmap(path, mode="w+", dtype=task["dtype"], shape=(n, d))
    direction = np.random.default_rng(0).normal(size=d)
    concept = (_DISTANCE * direction / np.linalg.norm(direction)).astype(np.float32)
    classes, _ = labels_of(n // size)
    for first in range(0, n, _ROWS_AT_ONCE):
        rows = np.arange(first, min(first + _ROWS_AT_ONCE, n))
        block = np.random.default_rng([1, first]).standard_normal((len(rows), d), dtype=np.float32)
        deciding = (rows % size < max(1, size // 20)) & (classes[rows // size] == 1)
        block[deciding] += concept
        out[first : first + len(rows)] = block
    del out


def product(path: Path, task: dict[str, Any]) -> Callable[[], None]:
    """A function that multiplies all rows with a vector, as one does it with NumPy alone."""
    n, d, mapped = task["n_instances"], task["n_features"], task["mapped"]
    w = np.random.default_rng(0).normal(size=d)
    held = None if mapped else np.load(path)
    if held is not None and held.dtype == np.float64:
        return lambda: held @ w
    single, step = w.astype(np.float32), _ROWS_AT_ONCE

    def multiply() -> None:
        # A map of its own, whose pages are not there yet.
        rows = np.load(path, mmap_mode="r") if held is None else held
        for first in range(0, n, step):
            rows[first : first + step].astype(np.float32, copy=False) @ single

    return multiply


def _shortest(work: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Shortest CPU and wall time."""
    found = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        found.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(each[0] for each in found), min(each[1] for each in found)


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """CPU and wall time of a product, of a fit, and of the same fit with two threads."""
    path = Path(task["path"])
    instances = np.load(path, mmap_mode="r" if task["mapped"] else None)
    bags = Bags(instances, np.arange(0, len(instances) + 1, task["bag_size"]))
    _, y = labels_of(len(bags))
    model = MISVC(kernel="linear", slack=task["slack"])
    # The first fit imports solver libraries.
    few = slice(0, min(200, len(bags) // 2))
    model.fit(bags[few], y[few])
    once = _shortest(product(path, task), 3)
    found = _shortest(lambda: model.fit(bags, y), task["repeats"])
    two = MISVC(kernel="linear", slack=task["slack"], n_jobs=2)
    threads = _shortest(lambda: two.fit(bags, y), task["repeats"])
    return {
        "product": once[0],
        "cpu_seconds": found[0],
        "wall_seconds": found[1],
        "two_wall_seconds": threads[1],
        "passes": int(model.n_passes_),
        "gap": float(model.dual_gap_ / model.objective_),
        "converged": bool(model.converged_),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
