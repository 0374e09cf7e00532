"""A cohort of slides on one computer: a folder of .h5, a map, a fit, folds by patient."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from milearn import MISVC, MIClassifier
from milearn.datasets import load_bag_folder, load_bags
from milearn.model_selection import StratifiedBagKFold

from ..common.fresh import scratch_folder, within
from ..common.memory import PeakMemory, anonymous, limit_memory
from ..common.output import Table, duration, megabytes, say, show
from ..common.runner import run

# Bags, instances of each, and features; and of a look.
SIZES, FAST_SIZES = (1_000, 1_000, 1_024), (100, 200, 256)
# A whole cohort at a magnification of 20 has so many times the instances.
LARGER = 10
# Data that a step may allocate, and CPU time after which it is ended.
LIMIT_MB, LIMIT_SECONDS = 8_192.0, 1_500.0
# One bag in so many is fitted where all are too many.
_PART = 10
_OF_A_PART = "MIClassifier, a tenth of the bags"
_FOLDS = "MISVC, five folds"
STEPS = ("load", "map", "MISVC", _FOLDS, "MIClassifier", _OF_A_PART)
# Proportion of instances that decide, of bags with the wrong label, and slides of a patient.
_DECIDING, _NOISE, _SLIDES = 0.02, 0.1, 2
_DISTANCE = 4.0
# The cost of a bag for instances whose squared norm is about 2,000.
_COST = 1e-3
_TISSUES = 12


def cohort(args: argparse.Namespace) -> None:
    """Every step, from the files of the slides on."""
    sizes = FAST_SIZES if args.fast else SIZES
    n_bytes = 2 * sizes[0] * sizes[1] * sizes[2]
    steps = args.only or STEPS
    rows = []
    with scratch_folder(2 * n_bytes) as folder:

        def measure(step: str, sizes: tuple[int, int, int]) -> dict[str, Any]:
            if not (folder / "slides").exists():
                write_cohort(folder, *sizes)
            if step not in ("load", "map") and not (folder / "map").exists():
                read_cohort(folder, "map")
            task = {"folder": str(folder), "step": step}
            return within("benchmarks.scales.cohort:timed_step", task, LIMIT_SECONDS)

        for step, found in zip(steps, run(args, measure, [(s, sizes) for s in steps]), strict=True):
            if found is None:
                continue
            cells = ["-", f"> {LIMIT_SECONDS:g} s", "-", "-", ""]
            if "timeout" not in found:
                # Of a tenth of the bags, the growth is not known.
                known = "refused" not in found and "tenth" not in step
                times = [found["wall_seconds"], found["cpu_seconds"]]
                more = duration(LARGER * times[1]) if known else "-"
                memory = megabytes(found["highest_mb"])
                cells = [*map(duration, times), memory, more, _remark(found)]
            rows.append([step, *cells])
    columns = ["step", "wall time", "CPU time", "memory", f"x {LARGER}", ""]
    show(Table(columns, rows, "lrrrrl"))
    say(
        f"\n{sizes[0]:,} bags of {sizes[1]:,} instances with {sizes[2]:,} float16 features "
        f"({n_bytes / 2**20:,.0f} MB), one .h5 per bag; two bags of a patient; a tenth of\nthe "
        f"labels are wrong. Each step in a process of its own with one thread, {LIMIT_MB:,.0f} MB "
        f"and {LIMIT_SECONDS:,.0f} CPU s at most; memory: highest\nanonymous memory, with that of "
        f"the libraries. x {LARGER}: CPU time for {LARGER} times the instances, extrapolated. "
        "Folds by patient; AUC of their\nbags that are not fitted: mean, lowest and highest."
    )


def _remark(found: dict[str, Any]) -> str:
    if "refused" in found:
        # NumPy adds the shape of the array.
        return found["refused"].split(" for an array")[0]
    remarks = []
    # None are counted where the dual is solved.
    if any(passes := found.get("passes", [])):
        few, many = min(passes), max(passes)
        remarks.append(f"{few} passes" if few == many else f"{few} to {many} passes")
    if aucs := found.get("auc", []):
        remarks.append(f"AUC {np.mean(aucs):.3f} ({min(aucs):.3f} to {max(aucs):.3f})")
    return ", ".join(remarks)


def write_cohort(folder: Path, n_bags: int, bag_size: int, n_features: int) -> None:
    """One .h5 of float16 features per bag, and a table with labels and patients.

    Instances are around the centres of a few tissues. In positive bags some are at another centre.
    """
    import h5py  # an extra that other benchmarks do without

    rng = np.random.default_rng(0)
    tissues = rng.standard_normal((_TISSUES, n_features), dtype=np.float32)
    concept = rng.standard_normal(n_features, dtype=np.float32)
    concept *= _DISTANCE / np.linalg.norm(concept)
    patients = np.arange(n_bags) // _SLIDES
    classes = patients % 2
    wrong = rng.random(n_bags) < _NOISE
    (folder / "slides").mkdir()
    names = [f"s{bag:05}" for bag in range(n_bags)]
    for name, label in zip(names, classes, strict=True):
        rows = rng.standard_normal((bag_size, n_features), dtype=np.float32)
        rows += tissues[rng.integers(_TISSUES, size=bag_size)]
        if label:
            rows[: max(1, round(_DECIDING * bag_size))] += concept
        with h5py.File(folder / "slides" / f"{name}.h5", "w") as file:
            file["features"] = rows.astype(np.float16)
    labels = np.where(wrong, 1 - classes, classes)
    with (folder / "slides.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["slide_id", "label", "patient"])
        writer.writerows(zip(names, labels.tolist(), patients.tolist(), strict=True))


def read_cohort(folder: Path, step: str) -> Any:
    """The files of :func:`write_cohort` in memory, or in a map, which the other steps open."""
    target = folder / "map" if step == "map" else False
    return load_bag_folder(folder / "slides", folder / "slides.csv", mmap=target)


# -- in a fresh process ----------------------------------------------------------------------------


def timed_step(task: dict[str, Any]) -> dict[str, Any]:
    """Time and peak anonymous memory of a step; a step beyond the limit is refused."""
    limit_memory(LIMIT_MB)
    with PeakMemory(anonymous) as memory:
        try:
            found = _done(task["step"], Path(task["folder"]))
        except MemoryError as error:
            found = {"refused": f"MemoryError: {error}"}
    return {**memory.found, **found}


def _done(step: str, folder: Path) -> dict[str, Any]:
    if step in ("load", "map"):
        return {"n_instances": read_cohort(folder, step).data.n_instances}
    data = load_bags(folder / "map", mmap=True)
    bags, y = data.data, data.target
    if step == _FOLDS:
        found: dict[str, Any] = {"passes": [], "auc": []}
        for train, test in StratifiedBagKFold(5).split(bags, y, data.groups):
            model = MISVC(kernel="linear", C=_COST).fit(bags[train], y[train])
            found["passes"] += _passes(model)
            found["auc"].append(float(roc_auc_score(y[test], model.decision_function(bags[test]))))
        return found
    every = slice(None, None, _PART if step == _OF_A_PART else None)
    model = MISVC(kernel="linear", C=_COST) if step == "MISVC" else MIClassifier(random_state=0)
    return {"passes": _passes(model.fit(bags[every], y[every]))}


def _passes(model: Any) -> list[int]:
    """Passes of the fit; none for an estimator that does not count them."""
    return [int(np.max(model.n_passes_))] if hasattr(model, "n_passes_") else []


REPORTS = {"cohort": ("load, map and five folds of 10^6 x 1,024 float16 from .h5", cohort)}
