"""One step on a cohort of slides, in a process of its own: ``python -m ... _cohort_fit JSON``.

Prints one line of JSON.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from milearn import MISVC, MIClassifier
from milearn.datasets import load_bag_folder, load_bags
from milearn.model_selection import StratifiedBagKFold

from ..common.memory import PeakMemory, Stopwatch, anonymous, limit_memory

__all__ = ["STEPS", "measure", "write_cohort"]

_OF_A_PART = "MIClassifier, a tenth of the bags"
STEPS = ("load", "map", "MISVC", "MISVC, one of five folds", "MIClassifier", _OF_A_PART)
# Proportion of instances that decide, of bags with the wrong label, and slides of a patient.
_DECIDING, _NOISE, _SLIDES = 0.02, 0.1, 2
_DISTANCE = 4.0
# The cost of a bag for instances whose squared norm is about 2,000.
_COST = 1e-3
_TISSUES = 12
# One bag in so many is fitted where all are too many.
_PART = 10


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
    for bag, label in enumerate(classes):
        rows = rng.standard_normal((bag_size, n_features), dtype=np.float32)
        rows += tissues[rng.integers(_TISSUES, size=bag_size)]
        if label:
            rows[: max(1, round(_DECIDING * bag_size))] += concept
        with h5py.File(folder / "slides" / f"s{bag:05}.h5", "w") as file:
            file["features"] = rows.astype(np.float16)
    names = [f"s{bag:05}" for bag in range(n_bags)]
    labels = np.where(wrong, 1 - classes, classes)
    with (folder / "slides.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["slide_id", "label", "patient"])
        writer.writerows(zip(names, labels.tolist(), patients.tolist(), strict=True))


def _model(name: str) -> Any:
    if name.startswith("MIClassifier"):
        return MIClassifier(random_state=0)
    return MISVC(kernel="linear", C=_COST)


def _done(step: str, folder: Path) -> dict[str, Any]:
    if step in ("load", "map"):
        target = folder / "map" if step == "map" else False
        data = load_bag_folder(folder / "slides", folder / "slides.csv", mmap=target)
        return {"n_instances": data.data.n_instances}
    data = load_bags(folder / "map", mmap=True)
    if step.endswith("folds"):
        train, test = next(StratifiedBagKFold(5).split(data.data, data.target, data.groups))
        model = _model(step).fit(data.data[train], data.target[train])
        scores = model.decision_function(data.data[test])
        return {"auc": float(roc_auc_score(data.target[test], scores))}
    every = slice(None, None, _PART if step == _OF_A_PART else None)
    model = _model(step).fit(data.data[every], data.target[every])
    return {"passes": int(np.max(getattr(model, "n_passes_", 0)))}


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Time and peak anonymous memory of a step; a step beyond the limit is refused."""
    folder, step = Path(task["folder"]), task["step"]
    limit_memory(task["limit_mb"] or None)
    with PeakMemory(anonymous) as memory:
        watch = Stopwatch()
        try:
            found = _done(step, folder)
        except MemoryError as error:
            found = {"refused": f"MemoryError: {error}"}
        seconds = watch.seconds()
    return {**seconds, **found, "before_mb": memory.before / 2**20, "peak_mb": memory.peak / 2**20}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
