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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from milearn import Bags
from milearn.datasets import make_bags
from milearn.survival import survival_outcomes
from milearn.utils import all_estimators

from ..common.fresh import in_fresh_process
from ..common.memory import PeakMemory, limit_cpu, limit_memory
from ..common.output import Table, say, show
from ..common.runner import run

# Bags, instances of a bag, features.
SIZES = {"A": (2000, 10, 20), "B": (300, 300, 50), "C": (20_000, 10, 50)}
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
STAGES = ("fit", "predict")

Found = dict[tuple[str, str], dict[str, Any] | None]


def measure(estimator: str, size: tuple[int, int, int]) -> dict[str, Any]:
    """What :func:`limited` measures in a fresh process, or how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress.json"
        task = {"estimator": estimator, "size": size, "progress": str(progress)}
        try:
            return in_fresh_process(
                "benchmarks.scales.estimators:limited", task, 2 * SECONDS + _AROUND
            )
        except (RuntimeError, TimeoutError) as error:
            if not progress.exists():
                raise
            # Ended by a limit: not an error, which would be tried again.
            late = isinstance(error, TimeoutError) or str(error) == _OUT_OF_TIME
            return {**json.loads(progress.read_text()), "ended": "time" if late else str(error)}


def limited(task: dict[str, Any]) -> dict[str, Any]:
    """CPU time and peak memory of a fit and of a prediction for the same bags.

    Its state is in the file ``progress`` of the task before each of them.
    """
    n_bags, bag_size, n_features = task["size"]
    data = {"bag_size": bag_size, "concept_distance": 3.0, "flip_y": 0.1, "random_state": 0}
    bags, labels = make_bags(n_bags, n_features, **data)
    kind = dict(all_estimators())[task["estimator"]]
    seed = {"random_state": 0} if "random_state" in kind().get_params(deep=False) else {}
    model, known = kind(**seed), {"stage": "data"}
    y = target_of(model, labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        few = [bag[:_WARM_UP_SIZE] for bag in bags[:_WARM_UP_BAGS]]
        kind(**seed).fit(Bags.from_list(few), y[: len(few)])
        caught.clear()
        limit_memory(_ROOM * MEMORY)
        apply = getattr(model, "predict", None) or getattr(model, "transform", None)
        work = {"fit": lambda: model.fit(bags, y), "predict": lambda: apply and apply(bags)}
        for stage, call in work.items():
            known["stage"] = stage
            Path(task["progress"]).write_text(json.dumps(known))
            limit_cpu(SECONDS)
            with PeakMemory() as memory:
                try:
                    call()
                except (MemoryError, ValueError) as error:
                    known["refusal"] = f"{type(error).__name__}: {error}"
            known[stage] = [memory.found["cpu_seconds"], memory.found["highest_mb"]]
            if "refusal" in known or apply is None:
                break
    known["warnings"] = sorted({item.category.__name__ for item in caught})
    return known


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


# -- tables ----------------------------------------------------------------------------------------


def estimators(args: argparse.Namespace) -> None:
    """The table of all estimators; ``only`` names those that are fitted."""
    names = args.only or [name for name, _ in all_estimators()]
    sizes = dict(list(SIZES.items())[: 1 if args.fast else None])
    tasks = [(name, size) for name in names for size in sizes.values()]
    keys = [(name, letter) for name in names for letter in sizes]
    found: Found = dict(zip(keys, run(args, measure, tasks), strict=True))
    rows = []
    for name in names:
        cells, remarks = [], {}
        for letter in sizes:
            *figures, remark = _cells(found[name, letter])
            cells += figures
            for each in filter(None, remark):
                remarks.setdefault(each, []).append(letter)
        words = "; ".join(f"{', '.join(letters)}: {each}" for each, letters in remarks.items())
        rows.append([name, *cells, words])
    columns = [f"{what}, {letter}" for letter in sizes for what in (*STAGES, "MiB")]
    show(Table(["estimator", *columns, ""], rows, "l" + "r" * len(columns) + "l"))
    for line in _findings(found):
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


def _cells(result: dict[str, Any] | None) -> Iterator[Any]:
    """Fit, prediction, peak, and a list of remarks."""
    if result is None:
        yield from ("failed", "-", "-", [])
        return
    for stage in STAGES:
        if stage in result:
            yield f"{result[stage][0]:.1f}"
        elif result["stage"] == stage and "ended" in result:
            yield f"> {SECONDS:g}" if result["ended"] == "time" else "killed"
        else:
            yield "-"
    peaks = [result[stage][1] for stage in STAGES if stage in result]
    yield f"{max(peaks):.0f}" if peaks else "-"
    ended = result.get("ended", "time")
    remarks = ["refused"] if "refusal" in result else []
    yield [*remarks, *([ended] if ended != "time" else []), *result.get("warnings", [])]


def within(result: dict[str, Any] | None) -> bool:
    """Whether a fit and its prediction kept the limits, or were refused at once."""
    if result is None or "ended" in result:
        return False
    stages = [result[stage] for stage in STAGES if stage in result]
    if "refusal" in result and stages[-1][0] > _AT_ONCE * SECONDS:
        return False
    return all(seconds <= SECONDS and peak <= MEMORY for seconds, peak in stages)


def _findings(found: Found) -> Iterator[str]:
    """Which fits and predictions miss the limits, and what was refused."""
    results = {f"{name} {letter}": result for (name, letter), result in found.items()}
    missed = [name for name, result in results.items() if not within(result)]
    slow = [
        name
        for name, result in results.items()
        if result is not None
        and "predict" in result
        and result["predict"][0] > max(_SHORT, _PREDICTION * result["fit"][0])
    ]
    yield (
        f"{len(results) - len(missed)} of {len(results)} end within {SECONDS:g} s and {MEMORY:g} "
        f"MiB, or refuse before they begin; missed: {', '.join(missed) or 'none'}."
    )
    yield (
        f"Predictions that take more than {100 * _PREDICTION:g} % of the fit, and more than "
        f"{_SHORT:g} s: {', '.join(slow) or 'none'}."
    )
    for name, result in results.items():
        if result is not None and "refusal" in result:
            yield f"{name}: {result['refusal']}"


REPORTS = {"estimators": ("every estimator with its defaults at three sizes", estimators)}
