"""One measurement in a process of its own: ``python -m benchmarks.scales._misvc_fit JSON``.

A fresh process, because memory that an earlier fit left behind would hide the next one's peak.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from milearn import Bags, CoupledMISVC
from milearn.datasets import make_bags
from milearn.metrics import bag_kernel

from ..common.memory import PeakMemory, Stopwatch
from ..common.methods import gap_of

__all__ = ["measure"]

BAG_SIZE = 20
N_FEATURES = 50
N_COMPONENTS = 300
N_NEW = 1000
GAMMA_COST = 1000.0


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Times and peak memory of one fit, or of one matrix of the bag kernel."""
    return (fit if task["kind"] == "fit" else gram)(task["size"], task["seed"])


def fit(size: int, seed: int) -> dict[str, Any]:
    n_bags = size // BAG_SIZE
    every, labels = make_bags(n_bags + N_NEW, N_FEATURES, bag_size=BAG_SIZE, random_state=0)
    bags, y = every[:n_bags], labels[:n_bags]
    # The first fit imports solver libraries: a few bags take that away.
    CoupledMISVC(n_components=5, random_state=0).fit(bags[:20], y[:20])
    model = CoupledMISVC(C=GAMMA_COST / len(bags), n_components=N_COMPONENTS, random_state=seed)
    with PeakMemory() as memory:
        watch = Stopwatch()
        model.fit(bags, y)
        seconds = watch.seconds()
    return {
        **seconds,
        "peak_mb": memory.peak / 2**20,
        "data_mb": bags.instances.nbytes / 2**20,
        "n_iter": int(model.n_iter_),
        "objective": float(model.objective_),
        "gap": gap_of(model),
        "accuracy": float(model.score(every[n_bags:], labels[n_bags:])),
    }


def gram(size: int, seed: int) -> dict[str, Any]:
    instances = np.random.RandomState(seed).normal(size=(size * 200, 10))
    bags = Bags(instances, np.arange(0, size * 200 + 1, 200))
    with PeakMemory() as memory:
        watch = Stopwatch()
        matrix = bag_kernel(bags, gamma=0.1)
        seconds = watch.seconds()
    return {
        **seconds,
        "peak_mb": memory.peak / 2**20,
        "data_mb": instances.nbytes / 2**20,
        "trace": float(np.trace(matrix)),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
