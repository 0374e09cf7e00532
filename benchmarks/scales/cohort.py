"""A cohort of slides on one computer: a folder of .h5, a map, a fit, folds by patient."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from milearn import MISVC, Bags, MIClassifier
from milearn.datasets import load_bag_folder, load_bags
from milearn.model_selection import StratifiedBagKFold

from ..common.fresh import in_fresh_process, scratch_folder
from ..common.memory import PeakMemory, Stopwatch, anonymous, limit_memory
from ..common.output import Table, duration, megabytes, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of, source_digest
from ..common.reports import Report, finish

# Bags, instances of each, and features; and of a look.
SIZES, FAST_SIZES = (1_000, 1_000, 1_024), (100, 200, 256)
# A whole cohort at a magnification of 20 has so many times the instances.
LARGER = 10
# Data that a step may allocate, and CPU time after which it is ended.
LIMIT_MB, LIMIT_SECONDS = 8_192.0, 1_500.0
_OF_A_PART = "MIClassifier, a tenth of the bags"
_FOLDS = "MISVC, five folds"
STEPS = ("load", "map", "MISVC", _FOLDS, "MIClassifier", _OF_A_PART)
# Proportion of instances that decide, of bags with the wrong label, and slides of a patient.
_DECIDING, _NOISE, _SLIDES = 0.02, 0.1, 2
_DISTANCE = 4.0
# The cost of a bag for instances whose squared norm is about 2,000.
_COST = 1e-3
_TISSUES = 12
# One bag in so many is fitted where all are too many.
_PART = 10


@dataclass(frozen=True)
class CohortTask:
    """One step on the cohort of a folder."""

    dataset: str
    method: str
    sizes: tuple[int, int, int]
    limit_mb: float = LIMIT_MB
    limit_seconds: float = LIMIT_SECONDS

    @property
    def key(self) -> str:
        name = "x".join(map(str, self.sizes))
        return f"{self.dataset}/{self.method}/{name}@{digest([asdict(self), source_digest()])}"


def measure(task: CohortTask, folder: Path) -> dict[str, Any]:
    """What :func:`timed_step` measures in a fresh process."""
    stated = {
        "folder": str(folder),
        "step": task.method,
        "sizes": list(task.sizes),
        "limit_mb": task.limit_mb,
    }
    try:
        return in_fresh_process(
            "benchmarks.scales.cohort:timed_step", stated, cpu_timeout=task.limit_seconds
        )
    except TimeoutError:
        # This tells how far a step goes, and is not an error, which would be tried again.
        return {"timeout": task.limit_seconds}


def run_cohort(args: argparse.Namespace) -> int:
    """Every step, from the files of the slides on."""
    sizes = FAST_SIZES if args.fast else SIZES
    seconds = getattr(args, "seconds", None) or LIMIT_SECONDS
    steps = list(getattr(args, "only", None) or STEPS)
    if not set(steps) <= set(STEPS):
        raise SystemExit(f"The steps are {', '.join(STEPS)}.")
    tasks = [CohortTask("cohort", step, sizes, limit_seconds=seconds) for step in steps]

    with (
        RecordFile(args.out / "cohort.jsonl", fresh=args.fresh) as file,
        scratch_folder(2 * _bytes(sizes)) as folder,
    ):
        known = file.read()
        missing = [task.method for task in tasks if "result" not in known.get(task.key, {})]
        if missing:
            write_cohort(folder, *sizes)
            if "map" not in missing:
                read_cohort(folder, mmap=True)
        # One after the other: the map is read by the steps that follow.
        records, complete = run(
            tasks,
            file,
            jobs=1,
            label="cohort",
            function=lambda task: record_of(task, lambda each: measure(each, folder)),
        )
    found = {
        task.method: records[task.key]["result"]
        for task in tasks
        if "result" in records.get(task.key, {})
    }
    show(_table(found))
    say(
        f"\n{_words(sizes)}, one .h5 per bag; two bags of a patient; a tenth of\nthe labels are "
        f"wrong. Each step in a process of its own with one thread, {LIMIT_MB:,.0f} MB and "
        f"{seconds:,.0f} CPU s at most; memory: highest\nanonymous memory, with that of the "
        f"libraries. x {LARGER}: CPU time for {LARGER} times the instances, extrapolated. Folds "
        "by patient; AUC of their\nbags that are not fitted: mean, lowest and highest."
    )
    return finish(records, complete, file, len(tasks))


def _bytes(sizes: tuple[int, int, int]) -> int:
    return 2 * sizes[0] * sizes[1] * sizes[2]


def _words(sizes: tuple[int, int, int]) -> str:
    return (
        f"{sizes[0]:,} bags of {sizes[1]:,} instances with {sizes[2]:,} float16 features "
        f"({_bytes(sizes) / 2**20:,.0f} MB)"
    )


def _table(found: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for step, result in found.items():
        if "timeout" in result:
            cells = ["-", f"> {result['timeout']:g} s", "-", "-", ""]
        else:
            # Of a tenth of the bags, the growth is not known.
            known = "refused" not in result and "tenth" not in step
            cells = [
                duration(result["wall_seconds"]),
                duration(result["cpu_seconds"]),
                megabytes(result["peak_mb"]),
                duration(LARGER * result["cpu_seconds"]) if known else "-",
                _remark(result),
            ]
        rows.append([step, *cells])
    columns = ["step", "wall time", "CPU time", "memory", f"x {LARGER}", ""]
    return Table(columns, rows, "l" + "r" * (len(columns) - 2) + "l")


def _remark(result: dict[str, Any]) -> str:
    if "refused" in result:
        # NumPy adds the shape of the array.
        return result["refused"].split(" for an array")[0]
    remarks = []
    # None are counted where the dual is solved.
    if any(passes := result.get("passes", [])):
        few, many = min(passes), max(passes)
        remarks.append(f"{few} passes" if few == many else f"{few} to {many} passes")
    if aucs := result.get("auc", []):
        spread = f" ({min(aucs):.3f} to {max(aucs):.3f})" if len(aucs) > 1 else ""
        remarks.append(f"AUC {np.mean(aucs):.3f}{spread}")
    return ", ".join(remarks)


# -- steps, each in a fresh process ---------------------------------------------------------------


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


def _model(name: str) -> Any:
    if name.startswith("MIClassifier"):
        return MIClassifier(random_state=0)
    return MISVC(kernel="linear", C=_COST)


def _done(step: str, folder: Path) -> dict[str, Any]:
    if step in ("load", "map"):
        return {"n_instances": read_cohort(folder, mmap=step == "map").data.n_instances}
    data = load_bags(folder / "map", mmap=True)
    if step == _FOLDS:
        return _folds(data.data, data.target, data.groups)
    every = slice(None, None, _PART if step == _OF_A_PART else None)
    model = _model(step).fit(data.data[every], data.target[every])
    return {"passes": _passes(model)}


def _passes(model: Any) -> list[int]:
    """Passes of the fit; none for an estimator that does not count them."""
    return [int(np.max(model.n_passes_))] if hasattr(model, "n_passes_") else []


def _folds(bags: Bags, y: np.ndarray, patients: np.ndarray) -> dict[str, Any]:
    """Passes of each fold, and areas under the curve of the bags that it leaves out."""
    found: dict[str, Any] = {"passes": [], "auc": []}
    for train, test in StratifiedBagKFold(5).split(bags, y, patients):
        model = _model(_FOLDS).fit(bags[train], y[train])
        found["passes"] += _passes(model)
        found["auc"].append(float(roc_auc_score(y[test], model.decision_function(bags[test]))))
    return found


def timed_step(task: dict[str, Any]) -> dict[str, Any]:
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


REPORTS = (
    Report("cohort", "load, map and five folds of 10^6 x 1,024 float16 from .h5", run_cohort),
)
