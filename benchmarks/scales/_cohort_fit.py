"""One step on a cohort of slides, in a process of its own: ``python -m ... _cohort_fit JSON``.

Prints one line of JSON.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from milearn import MISVC, Bags, MIClassifier
from milearn.datasets import load_bag_folder, load_bags
from milearn.model_selection import StratifiedBagKFold

from ..common.memory import PeakMemory, Stopwatch, anonymous, limit_memory

__all__ = ["LARGER_STEPS", "STEPS", "measure", "read_cohort", "write_cohort"]

_OF_A_PART = "MIClassifier, a tenth of the bags"
_FOLD = "MISVC, one of five folds"
_FOLDS = "MISVC, five folds"
STEPS = ("load", "map", "MISVC", _FOLDS, "MIClassifier", _OF_A_PART)
# The files and a map of them would be twice the data: this map is written as the data are drawn.
LARGER_STEPS = ("draw and write", _FOLD)
# Folds that each step fits.
_N_FITTED = {_FOLD: 1, _FOLDS: 5}
# Proportion of instances that decide, of bags with the wrong label, and slides of a patient.
_DECIDING, _NOISE, _SLIDES = 0.02, 0.1, 2
_DISTANCE = 4.0
# The cost of a bag for instances whose squared norm is about 2,000.
_COST = 1e-3
_TISSUES = 12
# One bag in so many is fitted where all are too many.
_PART = 10


@dataclass
class _Cohort:
    """Labels, patients, and the instances of one bag after the other.

    Instances are around the centres of a few tissues. In positive bags some are at another centre.
    """

    labels: np.ndarray
    patients: np.ndarray
    bags: Iterator[np.ndarray]


def _draw(n_bags: int, bag_size: int, n_features: int) -> _Cohort:
    rng = np.random.default_rng(0)
    tissues = rng.standard_normal((_TISSUES, n_features), dtype=np.float32)
    concept = rng.standard_normal(n_features, dtype=np.float32)
    concept *= _DISTANCE / np.linalg.norm(concept)
    patients = np.arange(n_bags) // _SLIDES
    classes = patients % 2
    wrong = rng.random(n_bags) < _NOISE

    def bags() -> Iterator[np.ndarray]:
        for label in classes:
            rows = rng.standard_normal((bag_size, n_features), dtype=np.float32)
            rows += tissues[rng.integers(_TISSUES, size=bag_size)]
            if label:
                rows[: max(1, round(_DECIDING * bag_size))] += concept
            yield rows.astype(np.float16)

    return _Cohort(np.where(wrong, 1 - classes, classes), patients, bags())


def write_cohort(folder: Path, n_bags: int, bag_size: int, n_features: int) -> None:
    """One .h5 of float16 features per bag, and a table with labels and patients."""
    import h5py  # an extra that other benchmarks do without

    cohort = _draw(n_bags, bag_size, n_features)
    (folder / "slides").mkdir()
    names = [f"s{bag:05}" for bag in range(n_bags)]
    for name, rows in zip(names, cohort.bags, strict=True):
        with h5py.File(folder / "slides" / f"{name}.h5", "w") as file:
            file["features"] = rows
    columns = zip(names, cohort.labels.tolist(), cohort.patients.tolist(), strict=True)
    with (folder / "slides.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["slide_id", "label", "patient"])
        writer.writerows(columns)


def read_cohort(folder: Path, *, mmap: bool) -> Any:
    """The files of :func:`write_cohort` in memory, or in a map, which the other steps open."""
    target = folder / "map" if mmap else False
    return load_bag_folder(folder / "slides", folder / "slides.csv", mmap=target)


def _write_map(folder: Path, sizes: tuple[int, int, int]) -> dict[str, Any]:
    """The instances of all bags in one file."""
    n_bags, bag_size, n_features = sizes
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(np.float16)),
        "fortran_order": False,
        "shape": (n_bags * bag_size, n_features),
    }
    with (folder / "instances.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for rows in _draw(*sizes).bags:
            file.write(rows.data)
    return {"n_instances": n_bags * bag_size}


def _model(name: str) -> Any:
    if name.startswith("MIClassifier"):
        return MIClassifier(random_state=0)
    return MISVC(kernel="linear", C=_COST)


def _done(step: str, folder: Path, sizes: tuple[int, int, int]) -> dict[str, Any]:
    if step in LARGER_STEPS:
        if step != _FOLD:
            return _write_map(folder, sizes)
        instances = np.load(folder / "instances.npy", mmap_mode="r")
        cohort = _draw(*sizes)
        bags = Bags(instances, sizes[1] * np.arange(sizes[0] + 1))
        return _folds(step, bags, cohort.labels, cohort.patients)
    if step in ("load", "map"):
        return {"n_instances": read_cohort(folder, mmap=step == "map").data.n_instances}
    data = load_bags(folder / "map", mmap=True)
    if step == _FOLDS:
        return _folds(step, data.data, data.target, data.groups)
    every = slice(None, None, _PART if step == _OF_A_PART else None)
    model = _model(step).fit(data.data[every], data.target[every])
    return {"passes": _passes(model)}


def _passes(model: Any) -> list[int]:
    """Passes of the fit; none for an estimator that does not count them."""
    return [int(np.max(model.n_passes_))] if hasattr(model, "n_passes_") else []


def _folds(step: str, bags: Bags, y: np.ndarray, patients: np.ndarray) -> dict[str, Any]:
    """Passes of each fold of the step, and areas under the curve of the bags that it leaves out."""
    found: dict[str, Any] = {"passes": [], "auc": []}
    for train, test in islice(StratifiedBagKFold(5).split(bags, y, patients), _N_FITTED[step]):
        model = _model(step).fit(bags[train], y[train])
        found["passes"] += _passes(model)
        found["auc"].append(float(roc_auc_score(y[test], model.decision_function(bags[test]))))
    return found


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Time and peak anonymous memory of a step; a step beyond the limit is refused."""
    folder, step = Path(task["folder"]), task["step"]
    limit_memory(task["limit_mb"] or None)
    with PeakMemory(anonymous) as memory:
        watch = Stopwatch()
        try:
            found = _done(step, folder, tuple(task["sizes"]))
        except MemoryError as error:
            found = {"refused": f"MemoryError: {error}"}
        seconds = watch.seconds()
    return {**seconds, **found, "before_mb": memory.before / 2**20, "peak_mb": memory.peak / 2**20}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
