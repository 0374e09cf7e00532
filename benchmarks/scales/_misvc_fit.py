"""One measurement in a process of its own: ``python -m benchmarks.scales._misvc_fit JSON``.

A fresh process, because memory that an earlier fit left behind would hide the next one's peak.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from milearn import MISVC, Bags
from milearn.datasets import make_bags
from milearn.metrics import bag_kernel

from ..common.memory import peak, reset_peak

__all__ = ["measure"]

BAG_SIZE = 20
N_FEATURES = 50
N_COMPONENTS = 300
N_NEW = 1000
GAMMA_COST = 1000.0


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """CPU time and peak memory of one fit, or of one matrix of the bag kernel."""
    return (fit if task["kind"] == "fit" else gram)(task["size"], task["seed"])


def fit(size: int, seed: int) -> dict[str, Any]:
    n_bags = size // BAG_SIZE
    every, labels = make_bags(n_bags + N_NEW, N_FEATURES, bag_size=BAG_SIZE, random_state=0)
    bags, y = every[:n_bags], labels[:n_bags]
    # The first fit imports solver libraries: a few bags take that away.
    MISVC(n_components=5, random_state=0).fit(bags[:20], y[:20])
    model = MISVC(C=GAMMA_COST / len(bags), n_components=N_COMPONENTS, random_state=seed)
    reset_peak()
    begin = time.process_time()
    model.fit(bags, y)
    seconds = time.process_time() - begin
    return {
        "seconds": seconds,
        "peak_mb": peak() / 2**20,
        "data_mb": bags.instances.nbytes / 2**20,
        "n_iter": int(model.n_iter_),
        "objective": float(model.objective_),
        "gap": float(model.gap_),
        "accuracy": float(model.score(every[n_bags:], labels[n_bags:])),
    }


def gram(size: int, seed: int) -> dict[str, Any]:
    instances = np.random.RandomState(seed).normal(size=(size * 200, 10))
    bags = Bags(instances, np.arange(0, size * 200 + 1, 200))
    reset_peak()
    begin = time.process_time()
    matrix = bag_kernel(bags, gamma=0.1)
    return {
        "seconds": time.process_time() - begin,
        "peak_mb": peak() / 2**20,
        "data_mb": instances.nbytes / 2**20,
        "trace": float(np.trace(matrix)),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
