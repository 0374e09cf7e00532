"""Every public estimator with its defaults at three sizes: it ends in time, or refuses to begin.

Each fit, with the prediction for the same bags, runs in a process of its own with limits of CPU
time and memory.
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from milearn import Bags
from milearn.survival import survival_outcomes
from milearn.utils import all_estimators

from ..common.fresh import in_fresh_process
from ..common.memory import PeakMemory, Stopwatch, limit_cpu, limit_memory
from ..common.output import Table, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of, source_digest
from ..common.reports import Report, finish, say_states
from .series import estimator_of, generated

# Bags, instances of a bag, features.
SIZES = ((2000, 10, 20), (300, 300, 50), (20_000, 10, 50))
SECONDS, MEMORY = 60.0, 2048.0
# Largest part of the fit that a prediction should take, unless it is short.
_PREDICTION, _SHORT = 0.1, 0.5
# Factor on the goal at which the system refuses memory: the peak is then known.
_ROOM = 2.0
# A refusal after a longer part of the time is one in the middle of the work.
_AT_ONCE = 0.1
# How a process ends at its limit of CPU time, where the system has one.
_OUT_OF_TIME = f"exit status {-getattr(signal, 'SIGXCPU', 0)}"
# Seconds beyond the limits of the fit and the prediction: data, imports and a first fit.
_AROUND = 60.0
# Bags of a first fit, which imports the libraries of the solvers, and instances of a bag: more
# might be refused there.
_WARM_UP_BAGS, _WARM_UP_SIZE = 40, 10


@dataclass(frozen=True)
class DefaultTask:
    """One estimator at one size; ``dataset`` is the size."""

    dataset: str
    method: str
    size: tuple[int, int, int]
    seconds: float
    memory: float

    @property
    def key(self) -> str:
        return f"{self.dataset}/{self.method}@{digest([asdict(self), source_digest()])}"


def run_task(task: DefaultTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: DefaultTask) -> dict[str, Any]:
    """What :func:`limited` measures in a fresh process, or how it ended."""
    n_bags, bag_size, n_features = task.size
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress.json"
        stated = {
            "estimator": task.method,
            "n_bags": n_bags,
            "bag_size": bag_size,
            "n_features": n_features,
            "seconds": task.seconds,
            "memory": _ROOM * task.memory,
            "progress": str(progress),
        }
        try:
            return in_fresh_process(
                "benchmarks.scales.estimators:limited",
                stated,
                cpu_timeout=2 * task.seconds + _AROUND,
            )
        except (RuntimeError, TimeoutError) as error:
            if not progress.exists():
                raise
            # Ended by a limit: not an error, which would be tried again.
            timed_out = isinstance(error, TimeoutError) or str(error) == _OUT_OF_TIME
            return {
                **json.loads(progress.read_text()),
                "ended": "time" if timed_out else str(error),
            }


def run_defaults(args: argparse.Namespace) -> int:
    """The table of all estimators; ``only`` names those that are fitted."""
    seconds = getattr(args, "seconds", None) or SECONDS
    names = [name for name, _ in all_estimators()]
    only = list(getattr(args, "only", None) or names)
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise SystemExit(f"Unknown estimators: {', '.join(unknown)}.")
    sizes = dict(zip("ABC", SIZES[:1] if args.fast else SIZES, strict=False))
    every = {
        (name, size): DefaultTask(_words(size), name, size, seconds, MEMORY)
        for name in names
        for size in sizes.values()
    }
    wanted = [task for (name, _), task in every.items() if name in only]
    if getattr(args, "recorded", False):
        wanted = []
    with RecordFile(args.out / "estimators.jsonl", fresh=args.fresh) as file:
        records, complete = run(wanted, file, jobs=1, label="estimators", function=run_task)
        # Of the estimators that were not asked for, what earlier runs found.
        latest = {
            (each["method"], tuple(each["size"])): each
            for each in file.read().values()
            if each.get("seconds") == seconds and each.get("memory") == MEMORY
        }
    latest |= {(each["method"], tuple(each["size"])): each for each in records.values()}
    found = {key: latest[key] for key in every if key in latest}
    show(_table(names, sizes, found, seconds))
    for line in _findings(sizes, found, seconds):
        say(line)
    meaning = "; ".join(
        f"{letter}: {n_bags:,} bags of {bag_size} instances with {n_features} features"
        for letter, (n_bags, bag_size, n_features) in sizes.items()
    )
    say(
        f"\n{meaning}.\nCPU seconds of fit and prediction (of transform where there is none), peak "
        "memory of the process in MiB. Defaults,\nrandom_state=0; bags of make_bags("
        "concept_distance=3, flip_y=0.1, random_state=0), the prediction for the same bags; one\n"
        "thread, a process each."
    )
    by_key = {each["key"]: each for each in found.values()}
    say_states(by_key, dict(zip(names, names, strict=True)))
    return finish(by_key, complete, file, len(found) if not wanted else len(every))


Sizes = dict[str, tuple[int, int, int]]
Found = dict[tuple[str, tuple[int, int, int]], dict[str, Any]]


def _table(names: list[str], sizes: Sizes, found: Found, seconds: float) -> Table:
    """One row per estimator: fit, prediction and peak at each size, and remarks."""
    rows = []
    for name in names:
        records = {letter: found.get((name, size)) for letter, size in sizes.items()}
        if not any(records.values()):
            continue
        cells: list[str] = []
        remarks: dict[str, list[str]] = {}
        for letter, record in records.items():
            *figures, remark = _cells(record, seconds)
            cells += figures
            for each in filter(None, remark.split("; ")):
                remarks.setdefault(each, []).append(letter)
        remark = "; ".join(f"{', '.join(letters)}: {each}" for each, letters in remarks.items())
        rows.append([name, *cells, remark])
    columns = [f"{what}, {letter}" for letter in sizes for what in ("fit", "predict", "MiB")]
    return Table(["estimator", *columns, ""], rows, "l" + "r" * len(columns) + "l")


def _findings(sizes: Sizes, found: Found, seconds: float) -> list[str]:
    """Which fits and predictions miss the limits, and what was refused."""
    letters = {size: letter for letter, size in sizes.items()}
    results = {
        f"{name} {letters[size]}": record.get("result", {})
        for (name, size), record in found.items()
    }
    missed = [name for name, result in results.items() if not within(result, seconds)]
    slow = [
        name
        for name, result in results.items()
        if result.get("predict_seconds", 0.0)
        > max(_SHORT, _PREDICTION * result.get("fit_seconds", 0.0))
    ]
    return [
        f"{len(results) - len(missed)} of {len(results)} end within {seconds:g} s and {MEMORY:g} "
        f"MiB, or refuse before they begin; missed: {', '.join(missed) or 'none'}.",
        f"Predictions that take more than {100 * _PREDICTION:g} % of the fit, and more than "
        f"{_SHORT:g} s: {', '.join(slow) or 'none'}.",
        *(
            f"{name}: {result['refusal']}"
            for name, result in results.items()
            if "refusal" in result
        ),
    ]


def within(result: dict[str, Any], seconds: float) -> bool:
    """Whether a fit and its prediction kept the limits, or were refused at once."""
    if not result or "ended" in result:
        return False
    stages = [stage for stage in ("fit", "predict") if f"{stage}_seconds" in result]
    if "refusal" in result and result[f"{stages[-1]}_seconds"] > _AT_ONCE * seconds:
        return False
    return all(
        result[f"{stage}_seconds"] <= seconds and result[f"{stage}_peak_mib"] <= MEMORY
        for stage in stages
    )


def _words(size: tuple[int, int, int]) -> str:
    return " x ".join(f"{each:,}" for each in size)


def _cells(record: dict[str, Any] | None, seconds: float) -> list[str]:
    """Fit, prediction, peak and remark of a record."""
    if record is None:
        return ["-", "-", "-", ""]
    if "error" in record:
        return ["failed", "-", "-", record["error"]]
    result = record["result"]
    cells = []
    for stage in ("fit", "predict"):
        if f"{stage}_seconds" in result:
            cells.append(f"{result[f'{stage}_seconds']:.1f}")
        elif result["stage"] == stage and "ended" in result:
            cells.append(f"> {seconds:g}" if result["ended"] == "time" else "killed")
        else:
            cells.append("-")
    peaks = [
        result[f"{stage}_peak_mib"] for stage in ("fit", "predict") if f"{stage}_peak_mib" in result
    ]
    remarks = ["refused"] if "refusal" in result else []
    remarks += [result["ended"]] if result.get("ended", "time") != "time" else []
    remarks += sorted(result.get("warnings", {}))
    return [*cells, f"{max(peaks):.0f}" if peaks else "-", "; ".join(remarks)]


# -- in a fresh process ----------------------------------------------------------------------------


def target_of(estimator: Any, labels: np.ndarray) -> np.ndarray:
    """Classes, three grades, noisy numbers or survival times, as the estimator needs."""
    rng = np.random.default_rng(0)
    if hasattr(estimator, "predict_survival_function"):
        times = rng.exponential(np.where(labels == 1, 1.0, 3.0))
        return survival_outcomes(rng.random(len(labels)) < 0.7, times)
    if is_regressor(estimator):
        return labels + 0.3 * rng.normal(size=len(labels))
    if type(estimator).__name__ == "OrdinalMISVC":
        return labels + (rng.random(len(labels)) < 0.3)
    return labels


def limited(task: dict[str, Any]) -> dict[str, Any]:
    """CPU time and peak memory of a fit and of a prediction for the same bags.

    The task names the ``estimator``, the sizes ``n_bags``, ``bag_size`` and ``n_features``, and
    perhaps the limits ``seconds`` (CPU time of the fit, and of the prediction), ``memory`` (MiB of
    memory that is not backed by files) and the file ``progress``.
    """
    known: dict[str, Any] = {"stage": "data"}
    sizes = {name: task[name] for name in ("n_bags", "bag_size", "n_features")}
    bags, labels = generated({**sizes, "data": "overlapping"})
    model = estimator_of(task["estimator"], {})
    y = target_of(model, labels)
    known["data_mib"] = bags.instances.nbytes / 2**20
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        few = [bag[:_WARM_UP_SIZE] for bag in bags[:_WARM_UP_BAGS]]
        estimator_of(task["estimator"], {}).fit(Bags.from_list(few), y[: len(few)])
        caught.clear()
        limit_memory(task.get("memory"))
        work: list[tuple[str, Callable[[], Any]]] = [("fit", lambda: model.fit(bags, y))]
        apply = getattr(model, "predict", None) or getattr(model, "transform", None)
        if apply is not None:
            work.append(("predict", lambda: apply(bags)))
        for stage, call in work:
            _report(task, known, stage)
            limit_cpu(task.get("seconds"))
            if not _timed(stage, call, known):
                break
        else:
            known["stage"] = "done"
    known["warnings"] = dict(Counter(item.category.__name__ for item in caught))
    return known


def _timed(stage: str, call: Callable[[], Any], known: dict[str, Any]) -> bool:
    """Measure a call; whether it was not refused."""
    with PeakMemory() as memory:
        watch = Stopwatch()
        try:
            call()
        except (MemoryError, ValueError) as error:
            known["refusal"] = f"{type(error).__name__}: {error}"
        spent = watch.seconds()["cpu_seconds"]
    known[f"{stage}_seconds"] = spent
    known[f"{stage}_peak_mib"] = memory.peak / 2**20
    return "refusal" not in known


def _report(task: dict[str, Any], known: dict[str, Any], stage: str) -> None:
    known["stage"] = stage
    if "progress" in task:
        Path(task["progress"]).write_text(json.dumps(known))


REPORTS = (Report("estimators", "every estimator with its defaults at three sizes", run_defaults),)
