"""Small data sets for the checks of estimators, by kind of input and task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.segments import offsets_of, segment_max
from .._fit.validation import survival_outcomes

TASKS = ("binary", "multiclass", "regression", "survival", "unsupervised")


@dataclass(frozen=True)
class Problem:
    """Bags and targets for one check; ``y`` is None for the unsupervised task."""

    kind: str
    task: str
    X: Bags
    y: Any


def _dense(task: str, size: int | None = None) -> tuple[Bags, np.ndarray]:
    """Two dozen bags whose label depends on one instance, with a large margin."""
    rng = np.random.default_rng(7)
    n_bags = 24
    sizes = rng.integers(1, 5, size=n_bags) if size is None else np.full(n_bags, size)
    offsets = offsets_of(sizes)
    instances = 0.5 * rng.normal(size=(offsets[-1], 3))
    # Zeros, so that the sparse matrix is sparse.
    instances[rng.random(instances.shape) < 0.2] = 0.0
    y = rng.permutation(np.arange(n_bags) % (3 if task == "multiclass" else 2))
    witnesses = offsets[:-1] + rng.integers(0, sizes)
    if task == "multiclass":
        # Every class has its own sign; for pure noise the solution would not be unique.
        instances[witnesses, y] += 3.0
    else:
        instances[witnesses[y == 1], 0] += 3.0
    bags = Bags(instances, offsets)
    values = segment_max(instances @ np.array([1.0, 0.5, -0.5]), offsets)
    if task == "survival":
        return bags, _outcomes(values, rng)
    return bags, values if task == "regression" else y


def _outcomes(risks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Events and times, with ties and one third of censored bags."""
    times = np.ceil(10.0 * rng.exponential(np.exp(-risks)))
    return survival_outcomes(rng.random(len(risks)) < 0.67, times)


def _sparse(task: str) -> tuple[Bags, np.ndarray]:
    bags, y = _dense(task)
    return bags.with_instances(sparse.csr_array(bags.instances)), y


def _graphs(task: str) -> tuple[Bags, np.ndarray]:
    bags, y = _dense(task)
    graphs = {"bag_graph": _ring(len(bags)), "instance_graph": _ring(bags.n_instances)}
    return Bags(bags.instances, bags.offsets, **graphs), y


def _noisy(task: str) -> tuple[Bags, np.ndarray]:
    """Bags whose classes overlap, with a fifth of the labels redrawn, which are not separable."""
    if task == "unsupervised":
        return _dense(task)  # clusters of noise are many local minima
    # Seeds for which fits depended on ties, weights and the order of sums in earlier versions.
    seed, n_bags = (90, 15) if task == "multiclass" else (11, 24)
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng.integers(1, 5, size=n_bags))
    instances = rng.normal(size=(offsets[-1], 3))
    instances[rng.random(instances.shape) < 0.2] = 0.0
    n_classes = 3 if task == "multiclass" else 2
    y = np.arange(n_bags) % n_classes
    instances[offsets[:-1], y] += 1.5
    bags = Bags(instances, offsets)
    if task in ("regression", "survival"):
        values = segment_max(instances[:, 0], offsets) + rng.normal(size=n_bags)
        return bags, values if task == "regression" else _outcomes(values, rng)
    return bags, np.where(rng.random(n_bags) < 0.2, rng.permutation(y), y)


def _ring(n: int) -> sparse.csr_array:
    rows = np.arange(n)
    links = sparse.csr_array((np.ones(n), (rows, (rows + 1) % n)), shape=(n, n))
    return links + links.T


KINDS: dict[str, Callable[[str], tuple[Bags, np.ndarray]]] = {
    "dense": _dense,
    "sparse": _sparse,
    "graphs": _graphs,
    "equal": lambda task: _dense(task, size=3),
    "noisy": _noisy,
    "singletons": lambda task: _dense(task, size=1),
}


def _problem(kind: str, task: str) -> Problem:
    X, y = KINDS[kind](task)
    return Problem(kind, task, X, None if task == "unsupervised" else y)


PROBLEMS: dict[tuple[str, str], Problem] = {
    (kind, task): _problem(kind, task) for kind in KINDS for task in TASKS
}
