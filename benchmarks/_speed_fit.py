"""One measured fit in a process of its own: ``python -m benchmarks._speed_fit '<json>'``.

A fresh process, because memory that an earlier fit left behind would hide the next one's peak.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from milearn import Bags

from ._memory import peak, reset_peak, resident
from .data import load
from .peers import PEERS, hinge_objective

__all__ = ["measure"]

# A short fit is repeated within its process until this much time is spent, and the shortest time
# counts: what else the machine does can only add to it.
_ENOUGH_SECONDS = 1.0
_MOST_FITS = 20


def build(method: str, kernel: str, gamma: float, C: float) -> Any:
    """The estimator of a row."""
    from milearn.svm import MISVC, InstanceMISVC

    if method == "svc":
        return SVC(kernel=kernel, C=C, gamma=gamma)
    if method == "instancemisvc":
        return InstanceMISVC(kernel=kernel, C=C, gamma=gamma)
    slack = method.removeprefix("misvc-")
    return MISVC(kernel=kernel, C=C, gamma=gamma, loss="max", slack=slack)


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Time and peak memory of one fit on standardised instances."""
    data = load(task["dataset"])
    bags = data.bags.with_instances(StandardScaler().fit_transform(data.bags.instances))
    y = data.y
    gamma = 1.0 / bags.shape[1]
    fit, value = _job(task["method"], task["kernel"], gamma, task["C"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The first fit imports solver libraries and fills their caches: a few bags take that away.
        few = np.concatenate([np.flatnonzero(y == label)[:3] for label in (0, 1)])
        fit(bags[few], y[few])
        caught.clear()
        reset_peak()
        before = resident()
        seconds = []
        while sum(seconds) < _ENOUGH_SECONDS and len(seconds) < _MOST_FITS:
            start = time.perf_counter()
            model = fit(bags, y)
            seconds.append(time.perf_counter() - start)
            if len(seconds) == 1:
                most = peak() - before
    return {
        "seconds": min(seconds),
        "fits": len(seconds),
        "peak_mb": max(0.0, most) / 2**20,
        "objective": value(model, bags, y),
        "n_iter": _plain(getattr(model, "n_iter_", None)),
        "warnings": dict(Counter(item.category.__name__ for item in caught)),
    }


def _job(method: str, kernel: str, gamma: float, C: float) -> tuple[Any, Any]:
    """How to fit the row's model, and how to get the value of its objective."""
    if method in PEERS:
        peer = PEERS[method]

        def fit_peer(bags: Bags, y: np.ndarray) -> Any:
            return peer.fit(list(bags), 2 * y - 1, kernel, gamma, C)

        def value_of_peer(model: Any, bags: Bags, y: np.ndarray) -> float:
            square_norm, scores = peer.solution(model, bags.instances)
            return hinge_objective(square_norm, scores, bags, y, C, peer.same_as)

        return fit_peer, value_of_peer
    if method == "svc":
        # The floor: all instances with the labels of their bags, once.
        return (
            lambda bags, y: build(method, kernel, gamma, C).fit(bags.instances, y[bags.bag_index]),
            lambda model, bags, y: None,
        )
    return (
        lambda bags, y: build(method, kernel, gamma, C).fit(bags, y),
        lambda model, bags, y: float(model.objective_),
    )


def _plain(value: Any) -> Any:
    return None if value is None else np.asarray(value).tolist()


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
