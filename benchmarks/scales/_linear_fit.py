"""Linear models of many instances in a process of its own: ``python -m ... _linear_fit JSON``.

A fresh process, because memory that an earlier fit left behind would hide the next one's peak.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import linear_kernel
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import LinearSVC

from milearn import MISVC, MISVR, Bags, CoupledMISVC, CoupledMISVR, InstanceMISVC
from milearn.datasets import make_bags

from ..common.data import load
from ..common.memory import PeakMemory, Stopwatch, measured

__all__ = ["OTHERS", "dense_bags", "measure", "sparse_bags"]

NONZEROS = 50
_ENOUGH_SECONDS, _MAX_FITS = 0.5, 5

# Models beside MI-SVM that can be solved by passes: names and how they are made.
OTHERS: dict[str, Callable[[float], Any]] = {
    **{
        f"CoupledMISVC, {loss}": lambda C, loss=loss: CoupledMISVC(C, kernel="linear", loss=loss)
        for loss in ("l1", "l2", "epsilon_insensitive")
    },
    "CoupledMISVR, l1": lambda C: CoupledMISVR(C=C, kernel="linear"),
    "MISVR": lambda C: MISVR(C=C, kernel="linear"),
    "InstanceMISVC": lambda C: InstanceMISVC(C, kernel="linear"),
}


def dense_bags(
    n_bags: int, n_features: int, bag_size: int | tuple[int, int]
) -> tuple[Bags, np.ndarray]:
    """Bags that no classifier separates: five in a hundred have the wrong label."""
    return make_bags(n_bags, n_features, bag_size=bag_size, flip_y=0.05, random_state=0)


def sparse_bags(n_bags: int, n_features: int) -> tuple[Bags, np.ndarray]:
    """Bags of 20 texts of unit length with few frequent words and many rare ones.

    One text of a positive bag has eight words of the topic; five in a hundred bags have the wrong
    label.
    """
    rng = np.random.default_rng(0)
    n = 20 * n_bags
    words = (n_features * rng.random((n, NONZEROS)) ** 2).astype(np.int32)
    y = np.arange(n_bags) % 2
    topic = rng.choice(n_features, 40, replace=False)
    concepts = 20 * np.flatnonzero(y)
    words[concepts, :8] = rng.choice(topic, size=(len(concepts), 8))
    starts = np.arange(0, NONZEROS * n + 1, NONZEROS, dtype=np.int32)
    counts = rng.exponential(size=n * NONZEROS)
    texts = sparse.csr_array((counts, words.ravel(), starts), shape=(n, n_features))
    texts.sum_duplicates()
    y = np.where(rng.random(n_bags) < 0.05, 1 - y, y)
    return Bags(normalize(texts, copy=False), np.arange(0, n + 1, 20)), y


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Times of fits, and what is said of their solutions, as the task's ``kind`` asks."""
    kinds = {"ratio": ratios, "time": time_of_fit, "others": others, "real": real_set}
    return kinds[task["kind"]](task)


def _bags(task: dict[str, Any]) -> tuple[Bags, np.ndarray]:
    size = task["bag_size"]
    if task.get("sparse"):
        return sparse_bags(task["n_bags"], task["n_features"])
    size = size if isinstance(size, int) else tuple(size)
    return dense_bags(task["n_bags"], task["n_features"], size)


def _linear_svc(bags: Bags, y: np.ndarray) -> float:
    """CPU time of ``LinearSVC()`` on the instances with inherited labels."""
    labels = y[bags.bag_index]
    result, _ = measured(
        lambda: LinearSVC().fit(bags.instances, labels), enough=_ENOUGH_SECONDS, most=_MAX_FITS
    )
    return float(result["cpu_seconds"])


def _outcome(model: Any) -> dict[str, Any]:
    return {
        "passes": int(model.n_passes_),
        "n_iter": int(model.n_iter_),
        "gap": float(model.dual_gap_ / max(model.objective_, 1e-300)),
        "objective": float(model.objective_),
        "converged": bool(model.converged_),
    }


def _first_fit(bags: Bags, y: np.ndarray, model: Any) -> None:
    # The first fit imports solver libraries: a few bags take that away.
    few = np.sort(np.concatenate([np.flatnonzero(y == label)[:20] for label in (0, 1)]))
    model.fit(bags[few], y[few])


def ratios(task: dict[str, Any]) -> dict[str, Any]:
    """MISVC for some C against ``LinearSVC()`` on the same data, in the same process."""
    bags, y = _bags(task)
    _first_fit(bags, y, MISVC(kernel="linear", slack=task["slack"]))
    found: dict[str, Any] = {"n_instances": bags.n_instances, "linear_svc": _linear_svc(bags, y)}
    for C in task["costs"]:
        model = MISVC(C, kernel="linear", slack=task["slack"])
        result, model = measured(
            lambda model=model: model.fit(bags, y), enough=_ENOUGH_SECONDS, most=_MAX_FITS
        )
        found[str(C)] = {**result, **_outcome(model)}
    return found


def time_of_fit(task: dict[str, Any]) -> dict[str, Any]:
    """MISVC for one size: its time is set against those of other sizes."""
    bags, y = _bags(task)
    model = MISVC(1.0, kernel="linear", slack=task["slack"])
    _first_fit(bags, y, model)
    result, model = measured(lambda: model.fit(bags, y), enough=_ENOUGH_SECONDS, most=_MAX_FITS)
    return {**result, **_outcome(model), "n_instances": bags.n_instances}


def others(task: dict[str, Any]) -> dict[str, Any]:
    """Another model by passes against ``LinearSVC()``."""
    bags, y = _bags(task)
    model = OTHERS[task["model"]](task["C"])
    target = np.where(y == 1, 1.0, -1.0) if "MISVR" in task["model"] else y
    _first_fit(bags, y, model)
    watch = Stopwatch()
    model.fit(bags, target)
    return {
        **watch.seconds(),
        **_outcome(model),
        "n_instances": bags.n_instances,
        "linear_svc": _linear_svc(bags, y),
    }


def real_set(task: dict[str, Any]) -> dict[str, Any]:
    """Dual and primal from the means of the bags, and each from its own start."""
    data = load(task["dataset"])
    instances = data.bags.instances
    if not data.text:
        instances = StandardScaler().fit_transform(np.asarray(instances, dtype=np.float64))
    bags = data.bags.with_instances(instances)
    found = {}
    for solver, init in (
        ("dual", "mean"),
        ("primal", "mean"),
        ("dual", "auto"),
        ("primal", "auto"),
    ):
        # A callable kernel goes to the dual.
        kernel = linear_kernel if solver == "dual" else "linear"
        model = MISVC(task["C"], kernel=kernel, slack=task["slack"], init=init)
        with PeakMemory() as memory:
            watch = Stopwatch()
            model.fit(bags, data.y)
            seconds = watch.seconds()
        found[f"{solver}-{init}"] = {
            **seconds,
            "peak_mb": memory.above / 2**20,
            "objective": float(model.objective_),
            "gap": float(model.dual_gap_),
            "converged": bool(model.converged_),
        }
    return found


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
