"""Every public estimator with its defaults at three sizes: it ends in time, or refuses to begin.

Each fit, with the prediction for the same bags, runs in a process of its own with limits of CPU
time and memory.
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from milearn.utils import all_estimators

from ..common.fresh import in_fresh_process
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish, say_states
from ..common.table import Table
from ..common.tasks import record_of

__all__ = ["PAIRS", "REPORTS", "SIZES", "DefaultTask", "Pair", "run_defaults", "run_pairs"]

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


@dataclass(frozen=True)
class DefaultTask:
    """One estimator at one size; ``dataset`` is the size."""

    dataset: str
    method: str
    size: tuple[int, int, int]
    seconds: float
    memory: float
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        return f"{self.dataset}/{self.method}@{digest([asdict(self), source_digest()])}"


def run_task(task: DefaultTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: DefaultTask) -> dict[str, Any]:
    """What ``_estimator_fit`` measures in a fresh process, or how it ended."""
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
        if task.settings:
            stated["settings"] = dict(task.settings)
        try:
            return in_fresh_process(
                "benchmarks.scales._estimator_fit",
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


# -- exact against approximate ---------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """An estimator at a size at which both settings end."""

    name: str
    size: tuple[int, int, int]
    exact: tuple[tuple[str, Any], ...]
    approximate: tuple[tuple[str, Any], ...]


_SAMPLED = (("max_instances", 30_000),)
_ALL_INSTANCES = (("max_instances", None),)
_EXACT_CUTS = (("max_bins", None), ("n_estimators", 1000))
_FEW_CUTS = (("max_bins", 256), ("n_estimators", 100))

PAIRS = (
    Pair("BLRT", (4000, 10, 20), (("max_samples", None),), (("max_samples", 2000),)),
    Pair("CitationKNN", (2000, 10, 20), (("n_prototypes", None),), (("n_prototypes", 1000),)),
    Pair("DDSVM", (5000, 10, 20), _ALL_INSTANCES, _SAMPLED),
    Pair("DPBoost", (300, 10, 20), _EXACT_CUTS, _FEW_CUTS),
    Pair("DiverseDensity", (5000, 10, 20), _ALL_INSTANCES, _SAMPLED),
    Pair("EMDD", (5000, 10, 20), _ALL_INSTANCES, _SAMPLED),
    Pair("LPBoost", (150, 10, 20), _EXACT_CUTS, _FEW_CUTS),
    Pair("MIForest", (2000, 10, 20), (("max_samples", None),), (("max_samples", "auto"),)),
    Pair("MILBoost", (2000, 10, 20), (("max_bins", None),), (("max_bins", 256),)),
    Pair("MILES", (2000, 10, 20), (("n_prototypes", None),), (("n_prototypes", 2000),)),
)
_PAIR_SECONDS = 120.0


def run_pairs(args: argparse.Namespace) -> int:
    """What the remedies for large data cost."""
    only = getattr(args, "only", None)
    pairs = [pair for pair in PAIRS if not only or pair.name in only]
    seconds = getattr(args, "seconds", None) or _PAIR_SECONDS
    tasks = {
        (pair.name, which): DefaultTask(
            _words(pair.size), pair.name, pair.size, seconds, 2 * MEMORY, getattr(pair, which)
        )
        for pair in (pairs[:1] if args.fast else pairs)
        for which in ("exact", "approximate")
    }
    with RecordFile(args.out / "estimators-exact.jsonl", fresh=args.fresh) as file:
        records, complete = run(
            list(tasks.values()), file, jobs=1, label="estimators-exact", function=run_task
        )
    rows = []
    for (name, which), task in tasks.items():
        if task.key not in records:
            continue
        first = which == "exact"
        settings = ", ".join(f"{key}={value!r}" for key, value in task.settings)
        cells = _compared(records[task.key], seconds)
        rows.append([name if first else "", task.dataset if first else "", settings, *cells])
    columns = ["estimator", "bags x instances x features", "settings", "fit", "objective"]
    columns += ["lower bound", "accuracy %"]
    show(Table(columns, rows, "lllrrrr"))
    say(
        "\nCPU seconds of a fit; value of the objective, and lower bound, where there is one; "
        f"accuracy on 1,000 fresh bags, of whose labels a tenth is flipped.\nAt most {seconds:g} "
        "CPU seconds; bags of make_bags(concept_distance=3, flip_y=0.1); random_state=0."
    )
    return finish(records, complete, file, len(tasks))


def _compared(record: dict[str, Any], seconds: float) -> list[str]:
    """Fit, objective, bound and accuracy of a record."""
    result = record.get("result", {})
    if "accuracy" not in result:
        return [f"> {seconds:g}" if result.get("ended") == "time" else "failed", "", "", ""]
    values = [
        f"{result[name]:.6g}" if name in result else "" for name in ("objective_", "lower_bound_")
    ]
    return [f"{result['fit_seconds']:.1f}", *values, f"{100 * result['accuracy']:.1f}"]


REPORTS = (
    Report("estimators", "every estimator with its defaults at three sizes", run_defaults),
    Report("estimators-exact", "defaults for large data against exact settings", run_pairs),
)
