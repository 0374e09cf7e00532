"""Linear models by passes: compared with ``LinearSVC()``, and over a memory map."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from milearn import Bags
from milearn.datasets import make_bags
from milearn.svm import MISVC

from ..common.fresh import in_fresh_process, scratch_folder
from ..common.memory import anonymous, measured, resident
from ..common.output import Table, duration, megabytes, say, show
from ..common.runner import run

SLACKS = ("bag", "instance")
COSTS = (0.1, 1.0, 10.0)
GAP_GOAL, PASSES_GOAL, MEMORY_GOAL_MB, SECONDS_GOAL = 1e-3, 20, 1024.0, 0.1
# Bags, features, instances of a bag (None: texts), costs, and how many times LinearSVC() a fit may
# take; None for a goal in seconds.
POINTS: dict[str, tuple[int, int, tuple[int, int] | None, tuple[float, ...], float | None]] = {
    "9,874 x 10": (1000, 10, (5, 15), COSTS, None),
    "200,595 x 100": (10_000, 100, (10, 30), COSTS, 3.0),
    "1,001,008 x 100": (50_000, 100, (10, 30), COSTS, 3.0),
    "1,000,000 x 50,000, CSR": (50_000, 50_000, None, (1.0,), 5.0),
}
LARGE, N_FEATURES, BAG_SIZE = 10_000_000, 100, 20
_NUMBERS_AT_ONCE = 10**7
_WORDS = 50


# -- in a fresh process ----------------------------------------------------------------------------


def fit(task: dict[str, Any]) -> dict[str, Any]:
    """Times and memory of a fit, what the model says of its solution, and LinearSVC's time."""
    if "path" in task:
        instances = np.load(task["path"], mmap_mode="r")
        bags = Bags(instances, np.arange(0, len(instances) + 1, BAG_SIZE))
        y = labels_of(len(bags))[1]
    else:
        n_bags, n_features, bag_size, *_ = POINTS[task["point"]]
        if bag_size is None:
            bags, y = texts(n_bags, n_features)
        else:
            bags, y = make_bags(n_bags, n_features, bag_size=bag_size, flip_y=0.05, random_state=0)
    model = MISVC(kernel="linear", slack=task["slack"], C=task["C"], random_state=0)
    warm_up(model, bags, y)
    found, _ = measured(
        lambda: model.fit(bags, y), reading=anonymous if "path" in task else resident
    )
    found |= {
        "passes": int(np.max(model.n_passes_)),
        "gap": float(model.dual_gap_ / model.objective_),
        "converged": bool(model.converged_),
    }
    if "path" not in task:
        labels = y[bags.bag_index]
        plain, _ = measured(lambda: LinearSVC().fit(bags.instances, labels))
        found["plain_cpu_seconds"] = plain["cpu_seconds"]
    return found


def warm_up(model: Any, bags: Bags, y: np.ndarray) -> None:
    """A fit of a few bags of each class, which imports the libraries of the solvers."""
    few = np.sort(np.concatenate([np.flatnonzero(y == label)[:20] for label in (0, 1)]))
    model.fit(bags[few], y[few])


def texts(n_bags: int, n_features: int) -> tuple[Bags, np.ndarray]:
    """Bags of 20 texts of unit length with few frequent words and many rare ones.

    One text of a positive bag has eight words of the topic; five in a hundred bags have the wrong
    label.
    """
    rng = np.random.default_rng(0)
    n = BAG_SIZE * n_bags
    words = (n_features * rng.random((n, _WORDS)) ** 2).astype(np.int32)
    y = np.arange(n_bags) % 2
    topic = rng.choice(n_features, 40, replace=False)
    concepts = BAG_SIZE * np.flatnonzero(y)
    words[concepts, :8] = rng.choice(topic, size=(len(concepts), 8))
    starts = np.arange(0, _WORDS * n + 1, _WORDS, dtype=np.int32)
    counts = rng.exponential(size=n * _WORDS)
    rows = sparse.csr_array((counts, words.ravel(), starts), shape=(n, n_features))
    rows.sum_duplicates()
    y = np.where(rng.random(n_bags) < 0.05, 1 - y, y)
    return Bags(normalize(rows, copy=False), np.arange(0, n + 1, BAG_SIZE)), y


def labels_of(n_bags: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes of the bags of a map, and their labels: five in a hundred are wrong."""
    classes = np.arange(n_bags) % 2
    wrong = np.random.default_rng(2).random(n_bags) < 0.05
    return classes, np.where(wrong, 1 - classes, classes)


def write_rows(path: Path, n: int) -> None:
    """Noise; one instance of a positive bag is at the concept."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, N_FEATURES))
    direction = np.random.default_rng(0).normal(size=N_FEATURES)
    concept = (4.0 * direction / np.linalg.norm(direction)).astype(np.float32)
    classes, _ = labels_of(n // BAG_SIZE)
    step = _NUMBERS_AT_ONCE // N_FEATURES
    for first in range(0, n, step):
        rows = np.arange(first, min(first + step, n))
        rng = np.random.default_rng([1, first])
        block = rng.standard_normal((len(rows), N_FEATURES), dtype=np.float32)
        block[(rows % BAG_SIZE == 0) & (classes[rows // BAG_SIZE] == 1)] += concept
        out[first : first + len(rows)] = block
    del out


# -- tables ----------------------------------------------------------------------------------------


def beside_linear_svc(point: str, slack: str, C: float) -> dict[str, Any]:
    task = {"point": point, "slack": slack, "C": C}
    return in_fresh_process("benchmarks.scales.linear:fit", task)


def linear(args: argparse.Namespace) -> None:
    tasks = [
        (point, slack, C)
        for point in list(POINTS)[: 1 if args.fast else None]
        for slack in SLACKS
        for C in POINTS[point][3]
    ]
    rows = []
    for (point, slack, C), found in zip(tasks, run(args, beside_linear_svc, tasks), strict=True):
        if found is None:
            continue
        ratio, goal = found["cpu_seconds"] / found["plain_cpu_seconds"], POINTS[point][4]
        missed = {
            "NOT CONVERGED": not found["converged"],
            f"{SECONDS_GOAL:g} s missed": goal is None and found["cpu_seconds"] > SECONDS_GOAL,
            f"{goal or 0:g} x missed": goal is not None and ratio > goal,
            f"{PASSES_GOAL} passes missed": found["passes"] > PASSES_GOAL,
            f"gap {GAP_GOAL:g} missed": found["gap"] > GAP_GOAL,
        }
        times = [duration(found[name]) for name in ("plain_cpu_seconds", "cpu_seconds")]
        remark = ", ".join(words for words, holds in missed.items() if holds)
        figures = [f"{ratio:.2f}", str(found["passes"]), f"{found['gap']:.0e}", remark]
        rows.append([point, slack, f"{C:g}", *times, *figures])
    columns = ["instances x features", "slack", "C", "LinearSVC()", "MISVC", "ratio", "passes"]
    show(Table([*columns, "gap", ""], rows, "lllrrrrrl"))
    say(
        "\nMISVC(kernel='linear') and LinearSVC() on the instances with inherited labels in one "
        "process,\nCPU time with one thread, shortest of several where one is short; gap: of the "
        "last convex step, relative."
    )


def from_map(n: int, slack: str) -> dict[str, Any]:
    with scratch_folder(4 * n * N_FEATURES) as folder:
        write_rows(folder / "instances.npy", n)
        task = {"path": str(folder / "instances.npy"), "slack": slack, "C": 1.0}
        return in_fresh_process("benchmarks.scales.linear:fit", task)


def out_of_core(args: argparse.Namespace) -> None:
    tasks = [(LARGE // 1000 if args.fast else LARGE, slack) for slack in SLACKS]
    rows = []
    for (n, slack), found in zip(tasks, run(args, from_map, tasks), strict=True):
        if found is not None:
            missed = [] if found["converged"] else ["NOT CONVERGED"]
            missed += [f"{MEMORY_GOAL_MB:g} MB missed"] * (found["highest_mb"] > MEMORY_GOAL_MB)
            times = [duration(found[name]) for name in ("wall_seconds", "cpu_seconds")]
            memory = [megabytes(found[name]) for name in ("before_mb", "highest_mb")]
            figures = [str(found["passes"]), *times, f"{found['gap']:.0e}", *memory]
            rows.append([slack, f"{n:,}", *figures, ", ".join(missed)])
    columns = ["slack", "instances", "passes", "wall time", "CPU time", "gap", "before", "peak", ""]
    show(Table(columns, rows, "llrrrrrrl"))
    say(
        f"\n{N_FEATURES} float32 features from a memory map, {BAG_SIZE} instances per bag, each "
        "fit in a process of its own\nwith one thread; before, peak: anonymous memory before and "
        "in the fit. Pages of the memory map\nitself are not counted: the system may take them "
        "back."
    )


REPORTS = {
    "linear": ("MISVC by passes against LinearSVC(): 10^4 to 10^6 instances", linear),
    "out-of-core": ("MISVC: 10^7 x 100 float32 (4 GB) from a memory map", out_of_core),
}
