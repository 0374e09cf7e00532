"""``speed``: CPU time and peak memory of fits and predictions, compared with a baseline and peers.

A round measures every row of a (data set, kernel) once, in turn and each in a fresh process, and
its ratios compare fits of that round alone: a computer that gets slower or busier during the run
moves both sides. Reported are the ratio of the shortest times, and the median and range of the
rounds' ratios. Another package's time is compared with ours for the same problem only where both
reached the same value of the objective.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass, replace
from typing import Any

from ..common import peers
from ..common.data import describe, load
from ..common.fresh import in_fresh_process
from ..common.output import Table, add_common_options, duration, megabytes, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of, source_digest
from ._speed_fit import BASELINE, OURS, TRAIN_SHARE

HELP = "time and memory of fits and predictions, compared with one SVC and installed packages"

# A group of rows: methods without a kernel have tables of their own.
KERNELS = ("linear", "rbf", "none")
# Objective values that differ by more than this share are of different solutions.
SAME = 0.01


@dataclass(frozen=True)
class Title:
    """What the tables need to know of a row."""

    text: str
    kernels: tuple[str, ...]
    problem: str | None
    peer: bool


@dataclass(frozen=True)
class RoundTask:
    """One round: every row of a data set and kernel once; ``method`` is the kernel."""

    dataset: str
    method: str
    repeat: int
    C: float
    timeout: float
    methods: tuple[str, ...]

    @property
    def key(self) -> str:
        # A time belongs to the code that was timed.
        settings = digest([self.C, self.timeout, self.methods, source_digest()])
        return f"speed/{self.dataset}/{self.method}/{self.repeat}@{settings}"


FIELDS = {"command": "speed", "gamma": "1 / n_features", "scaled": "standardised"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument(
        "--datasets",
        nargs="+",
        default=["musk2", "elephant"],
        metavar="NAME",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--kernels",
        nargs="+",
        choices=KERNELS,
        default=list(KERNELS),
        help="none: the methods without a kernel (default: all)",
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument("-C", type=float, default=1.0, help="default: 1")
    parser.add_argument(
        "--timeout",
        type=float,
        default=600,
        metavar="SECONDS",
        help="longest time for one row of one round; one that misses it is not tried again in "
        "later rounds (default: 600)",
    )
    parser.add_argument("--no-peers", action="store_true", help="leave other packages out")


def rows_here(*, with_peers: bool = True) -> dict[str, Title]:
    """The rows that can be measured here, in the order of the tables."""
    others: dict[str, Title] = {}
    if with_peers:
        for name, peer in peers.installed().items():
            others[name] = Title(peer.title, ("linear", "rbf"), peer.problem, True)
    own = {name: Title(row.title, row.kernels, row.problem, False) for name, row in OURS.items()}
    return {**own, **others}


def main(args: argparse.Namespace) -> int:
    for name in args.datasets:
        load(name)
    rows = rows_here(with_peers=not args.no_peers)
    groups = {
        kernel: [name for name, row in rows.items() if kernel in row.kernels]
        for kernel in args.kernels
    }
    # Whole rounds one after the other: a run that is stopped early has a table of everything.
    tasks = [
        RoundTask(dataset, kernel, number, args.C, args.timeout, tuple(groups[kernel]))
        for number in range(args.rounds)
        for dataset in args.datasets
        for kernel in args.kernels
    ]
    with RecordFile(args.out / "speed.jsonl", fresh=args.fresh) as file:
        timed_out = _timed_out(file, tasks)

        def measure(task: RoundTask) -> dict[str, Any]:
            known = timed_out.setdefault((task.dataset, task.method), {})
            record = record_of(task, lambda task: run_round(task, known), **FIELDS)
            found = record.get("result", {})
            known.update((name, row) for name, row in found.items() if "timeout" in row)
            return record

        # One at a time: times of fits that run side by side say little.
        records, complete = run(tasks, file, jobs=1, label="speed", function=measure)
    failed = any("error" in record for record in records.values())
    for dataset in args.datasets:
        for kernel in args.kernels:
            found = [
                records[task.key]["result"]
                for task in tasks
                if (task.dataset, task.method) == (dataset, kernel)
                and "result" in records.get(task.key, {})
            ]
            if found:
                words = "no kernel" if kernel == "none" else f"{kernel} kernel"
                title = f"{describe(load(dataset))}; {words}, C={args.C:g}"
                show(replace(fit_table(found, kernel, rows), title=title))
                print()
                show(predict_table(found, rows))
                failed |= any(
                    "error" in row and "timeout" not in row
                    for each in found
                    for row in each.values()
                )
    say(_legend())
    say(f"records: {file.path.name} ({len(records)} of {len(tasks)} rounds)")
    if not complete:
        return 130
    return 1 if failed else 0


def _legend() -> str:
    return (
        "\nStandardised instances, gamma = 1 / features; each row of a round in a process of its "
        "own, rows in turn.\nCPU time: shortest of a fit, and of a prediction for all bags; "
        "ratio: to that of the baseline, shortest over\nshortest; rounds: median [least, largest] "
        "of the rounds' ratios; memory: peak above the process before,\nmedian of the rounds. "
        "\nobjective: recomputed here for another package; compared with ours: its time in ours "
        "for the same problem, where the\nvalues agree to 1 %. train, test: accuracy in percent of "
        f"one more fit on {100 * TRAIN_SHARE:.0f} % of the bags, without tuning:\nan indication. "
        '"no kernel": the baseline has a linear one.'
    )


def _timed_out(
    file: RecordFile, tasks: list[RoundTask]
) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """Rows that an earlier run has seen to take too long, by data set and kernel."""
    records, found = file.read(), {}
    for task in tasks:
        for name, row in records.get(task.key, {}).get("result", {}).items():
            if "timeout" in row:
                found.setdefault((task.dataset, task.method), {})[name] = row
    return found


def run_round(
    task: RoundTask, timed_out: dict[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Every method once, each in a fresh process; a failure is a part of the result.

    What an earlier round has seen to take too long is not tried again.
    """
    stated = {"dataset": task.dataset, "kernel": task.method, "C": task.C}
    timed_out = timed_out or {}
    return {
        method: timed_out.get(method)
        or _fit({**stated, "accuracy": task.repeat == 0, "method": method}, task.timeout)
        for method in task.methods
    }


def _fit(task: dict[str, Any], timeout: float) -> dict[str, Any]:
    try:
        return in_fresh_process("benchmarks.commands._speed_fit:measure", task, timeout=timeout)
    except TimeoutError as error:
        return {"error": str(error), "timeout": timeout}
    except RuntimeError as error:
        return {"error": str(error)}


def fit_table(rounds: list[dict[str, Any]], kernel: str, rows: dict[str, Title]) -> Table:
    """Fits of one data set and kernel over its rounds."""
    lines = []
    for method in (name for name in rows if name in rounds[0]):
        error = _error(method, rounds)
        if error is not None:
            lines.append([rows[method].text, "-", "-", "-", "", "-", error[:60], ""])
            continue
        seconds, ratio, spread, limit = _ratios(method, rounds, "cpu_seconds", kernel)
        memory = statistics.median(row[method]["peak_mb"] for row in rounds)
        value = rounds[0][method]["objective"]
        words = "" if value is None else f"{value:.6g}"
        if rounds[0][method]["warnings"]:
            words += " (" + ", ".join(rounds[0][method]["warnings"]) + ")"
        beside = _beside(method, rounds, rows)
        lines.append(
            [rows[method].text, seconds, ratio, spread, limit, megabytes(memory), words, beside]
        )
    columns = [
        "fit",
        "CPU time",
        "ratio",
        "rounds",
        "goal",
        "memory",
        "objective",
        "compared with ours",
    ]
    return Table(columns, lines, "lrrrlrll")


def predict_table(rounds: list[dict[str, Any]], rows: dict[str, Title]) -> Table:
    """Predictions for all bags; and accuracies, which the first round measures."""
    lines = []
    for method in (name for name in rows if name in rounds[0]):
        if _error(method, rounds) is not None:
            continue
        seconds, ratio, spread, _ = _ratios(method, rounds, "predict_cpu_seconds", None)
        memory = statistics.median(row[method]["predict_peak_mb"] for row in rounds)
        fractions = [rounds[0][method].get(f"{side}_accuracy") for side in ("train", "test")]
        accuracies = ["" if share is None else f"{100 * share:.1f}" for share in fractions]
        lines.append([rows[method].text, seconds, ratio, spread, megabytes(memory), *accuracies])
    columns = ["prediction", "CPU time", "ratio", "rounds", "memory", "train %", "test %"]
    return Table(columns, lines, "lrrrrrr")


def _error(method: str, rounds: list[dict[str, Any]]) -> str | None:
    errors = [row[method]["error"] for row in rounds if "error" in row[method]]
    return errors[0] if errors else None


def _ratios(
    method: str, rounds: list[dict[str, Any]], what: str, kernel: str | None
) -> tuple[str, str, str, str]:
    """Cells: shortest time, its ratio to the baseline's, the rounds' ratios, the goal."""
    seconds = [row[method][what] for row in rounds]
    baselines = [row[BASELINE].get(what) for row in rounds]
    if method == BASELINE or None in baselines:
        return duration(min(seconds)), "", "", ""
    ratio = min(seconds) / min(baselines)
    goal = OURS[method].goal.get(kernel) if kernel is not None and method in OURS else None
    limit = "" if goal is None else f"{goal:g}"
    if goal is not None and ratio > goal:
        limit += " missed"
    return duration(min(seconds)), _figure(ratio), _spread(seconds, baselines), limit


def _spread(mine: list[float], other: list[float]) -> str:
    ratios = [one / two for one, two in zip(mine, other, strict=True)]
    low, high = _figure(min(ratios)), _figure(max(ratios))
    return f"{_figure(statistics.median(ratios))} [{low}, {high}]"


def _figure(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}"


def _beside(method: str, rounds: list[dict[str, Any]], rows: dict[str, Title]) -> str:
    """Another package's time in ours for the same problem, or why there is none."""
    row = rows[method]
    if not row.peer:
        return ""
    if row.problem is None:
        return "another objective"
    same = [
        name
        for name, other in rows.items()
        if name in rounds[0] and other.problem == row.problem and not other.peer
    ]
    if not same or _error(same[0], rounds) is not None:
        return ""
    value, ours = (rounds[0][name]["objective"] for name in (method, same[0]))
    if value > ours * (1 + SAME):
        return f"higher than {rows[same[0]].text} ({ours:.6g})"
    if value < ours * (1 - SAME):
        return f"lower than {rows[same[0]].text} ({ours:.6g})"
    seconds, others = ([each[name]["cpu_seconds"] for each in rounds] for name in (method, same[0]))
    ratio = _figure(min(seconds) / min(others))
    return f"{ratio}, {_spread(seconds, others)} x {rows[same[0]].text}"
