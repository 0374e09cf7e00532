"""``speed``: time and peak memory of a fit against one scikit-learn SVM on the same instances.

A round fits every row of a (data set, kernel) once, in turn and each in a fresh process, and
its ratios compare fits of that round alone: a machine that gets slower or busier during the run
moves both sides. Reported are the ratio of the shortest times, and the median and range of the
rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ._output import add_common_options, short_path
from ._progress import Progress
from ._records import RecordFile, digest, environment, source_digest
from ._table import duration, format_table, megabytes
from .data import describe, load
from .peers import PEERS, installed

HELP = "time and peak memory of fits, as ratios to one SVC on all instances"

FLOOR = "svc"
TITLES = {
    FLOOR: "floor: one SVC, inherited labels",
    "misvc-instance": "MISVC, instance slack",
    "misvc-bag": "MISVC, bag slack",
    "instancemisvc": "InstanceMISVC",
}
# Most that a fit may cost, in fits of the floor: (linear, rbf).
GOALS = {"misvc-instance": (1.0, 2.5), "misvc-bag": (2.0, 4.0), "instancemisvc": (10.0, 10.0)}
KERNELS = ("linear", "rbf")
# A peer whose objective is this much above ours has not solved the problem.
WORSE = 0.01


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
        "--kernels", nargs="+", choices=KERNELS, default=list(KERNELS), help="default: both"
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument("-C", type=float, default=1.0, help="default: 1")
    parser.add_argument(
        "--timeout",
        type=float,
        default=600,
        metavar="SECONDS",
        help="longest time for one row of one round; meant for peers (default: 600)",
    )
    parser.add_argument("--no-peers", action="store_true", help="leave other packages out")


def main(args: argparse.Namespace) -> int:
    for name in args.datasets:
        load(name)
    peers = {} if args.no_peers else installed()
    methods = [*TITLES, *peers]
    rounds = [
        (dataset, kernel, number)
        for dataset in args.datasets
        for kernel in args.kernels
        for number in range(args.rounds)
    ]
    complete = True
    with RecordFile(args.out / "speed.jsonl", fresh=args.fresh) as file:
        known = file.read()
        records = {}
        for key in (_key(*item, args.C, methods) for item in rounds):
            # Times of another state of the package are of no use, not even for a warning.
            if key in known and known[key]["versions"]["milearn_source"] == source_digest():
                records[key] = known[key]
        with Progress(len(rounds), done=len(records), label="speed") as progress:
            try:
                for dataset, kernel, number in rounds:
                    key = _key(dataset, kernel, number, args.C, methods)
                    if key in records:
                        continue
                    task = {"dataset": dataset, "kernel": kernel, "C": args.C}
                    fits = run_round(task, methods, args.timeout)
                    records[key] = {
                        "schema": 1,
                        "key": key,
                        "command": "speed",
                        "dataset": dataset,
                        "method": kernel,
                        "repeat": number,
                        "fold": None,
                        "seed": None,
                        "parameters": {**task, "gamma": "1 / n_features", "scaled": "standardised"},
                        "versions": environment(),
                        "result": fits,
                    }
                    file.append(records[key])
                    progress.advance(f"{dataset} {kernel}")
            except KeyboardInterrupt:
                complete = False
                progress.write("Stopped: the same command goes on from here.")
    failed = False
    for dataset in args.datasets:
        for kernel in args.kernels:
            found = [
                records[key]["result"]
                for key in (_key(dataset, kernel, n, args.C, methods) for n in range(args.rounds))
                if key in records
            ]
            if found:
                print(f"\n{describe(load(dataset))}; {kernel} kernel, C={args.C:g}")
                print(table(found, kernel))
                failed |= any("error" in fit for row in found for fit in row.values())
    print(
        "\nStandardised instances; each row of a round in a process of its own, rows in turn; "
        "time: shortest fit;\nratio: shortest over shortest; rounds: median [smallest, largest] "
        "of the rounds' ratios; memory: peak above\nthe process before the fit."
    )
    print(f"records: {short_path(file.path)} ({len(records)} of {len(rounds)} rounds)")
    if not complete:
        return 130
    return 1 if failed else 0


def _key(dataset: str, kernel: str, number: int, C: float, methods: list[str]) -> str:
    return f"speed/{dataset}/{kernel}/{number}@{digest([C, methods])}"


def run_round(task: dict[str, Any], methods: list[str], timeout: float) -> dict[str, Any]:
    """Every method once, each in a fresh process; a failure is a part of the result."""
    return {method: _fit({**task, "method": method}, timeout) for method in methods}


def _fit(task: dict[str, Any], timeout: float) -> dict[str, Any]:
    checkout = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "benchmarks._speed_fit", json.dumps(task)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command, cwd=checkout, env=environ, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not finished after {time.perf_counter() - start:.0f} s"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return {"error": lines[-1] if lines else f"exit status {done.returncode}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(rounds: list[dict[str, Any]], kernel: str) -> str:
    """Rows of one data set and kernel over its rounds."""
    rows = []
    for method in rounds[0]:
        title = TITLES.get(method) or PEERS[method].title
        errors = [fits[method]["error"] for fits in rounds if "error" in fits[method]]
        if errors:
            rows.append([title, "-", "-", "-", "-", "-", errors[0][:60]])
            continue
        seconds = [fits[method]["seconds"] for fits in rounds]
        memory = statistics.median(fits[method]["peak_mb"] for fits in rounds)
        cells = [title, duration(min(seconds))]
        floors = [fits[FLOOR].get("seconds") for fits in rounds]
        remark = _remark(method, rounds)
        if method == FLOOR or None in floors:
            rows.append([*cells, "", "", "", megabytes(memory), remark])
            continue
        ratios = [mine / floor for mine, floor in zip(seconds, floors, strict=True)]
        spread = f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
        ratio = min(seconds) / min(floors)
        goal = GOALS.get(method)
        limit = "" if goal is None else f"{goal[KERNELS.index(kernel)]:g}"
        if goal is not None and ratio > goal[KERNELS.index(kernel)]:
            limit += " missed"
        rows.append([*cells, f"{ratio:.2f}", spread, limit, megabytes(memory), remark])
    header = ["fit", "time", "ratio", "rounds", "goal", "memory", "objective"]
    return format_table(header, rows, align="lrrrlrl")


def _remark(method: str, rounds: list[dict[str, Any]]) -> str:
    """The objective value; for a peer, whether it reached ours."""
    fit = rounds[0][method]
    value = fit["objective"]
    if value is None:
        return ""
    text = f"{value:.6g}"
    if fit["warnings"]:
        text += " (" + ", ".join(fit["warnings"]) + ")"
    if method in PEERS:
        ours = rounds[0][PEERS[method].same_as].get("objective")
        if ours is not None and value > ours * (1 + WORSE):
            text += f" NOT SOLVED (ours {ours:.6g})"
    return text
