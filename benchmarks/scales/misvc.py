"""MISVC: explicit features against the number of instances, and constraints as violated."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from milearn._kernels.bag import bag_scales
from milearn._kernels.instance import instance_kernel
from milearn._solvers.common.gram import KernelGram
from milearn._solvers.common.options import SolverOptions
from milearn._solvers.svm.coupled.cccp import solve_coupled
from milearn._solvers.svm.coupled.gram import SetKernelGram
from milearn._solvers.svm.losses import Coupling, Hinge

from ..common.data import load
from ..common.fresh import in_fresh_process
from ..common.memory import Stopwatch
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest
from ..common.reports import Report, finish
from ..common.table import Table, duration, megabytes
from ..common.tasks import record_of
from ._misvc_fit import (
    BAG_SIZE,
    GAMMA_COST,
    N_COMPONENTS,
    N_FEATURES,
)

__all__ = ["REPORTS"]

SIZES = (10_000, 31_600, 100_000, 316_000, 1_000_000)
SLOPE_GOAL = 1.1
# The size of which the memory is bounded, and the bound.
BOUNDED = 100_000
MEMORY_GOAL_MB = 1024.0
LARGE_GRAM = (2000, 200)

# One fit on Elephant: C * n, coupling.
TOTAL_COST, COUPLING = 1000.0, 0.1
SPEED_GOAL = 0.2


@dataclass(frozen=True)
class ScaleTask:
    """One measurement in a process of its own, or lazy constraints against all of them."""

    report: str
    dataset: str
    method: str
    size: int
    seed: int

    @property
    def key(self) -> str:
        settings = digest([BAG_SIZE, N_FEATURES, N_COMPONENTS, GAMMA_COST, TOTAL_COST, COUPLING])
        return f"{self.report}/{self.dataset}/{self.method}/{self.size}/{self.seed}@{settings}"


def run_task(task: ScaleTask) -> dict[str, Any]:
    return record_of(task, lazy_against_all if task.method == "rows" else in_process)


def in_process(task: ScaleTask) -> dict[str, Any]:
    """What ``_misvc_fit`` measures in a fresh process."""
    stated = {"kind": task.method, "size": task.size, "seed": task.seed}
    return in_fresh_process("benchmarks.scales._misvc_fit", stated)


def run_instances(args: argparse.Namespace) -> int:
    name = "misvc-instances"
    sizes = SIZES[:2] if args.fast else SIZES
    rounds = args.repeats or 1
    tasks = [
        ScaleTask(name, "concepts", "fit", size, seed) for seed in range(rounds) for size in sizes
    ]
    records, complete, file = _run(args, name, tasks)
    shortest: dict[int, dict[str, Any]] = {}
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        known = shortest.get(task.size)
        if result is not None and (known is None or result["cpu_seconds"] < known["cpu_seconds"]):
            shortest[task.size] = result
    header = ["instances", "bags", "CPU time", "per instance", "steps", "peak", "of it data"]
    rows = [
        [
            f"{size:,}",
            f"{size // BAG_SIZE:,}",
            duration(result["cpu_seconds"]),
            f"{1e6 * result['cpu_seconds'] / size:.0f} us",
            str(result["n_iter"]),
            megabytes(result["peak_mb"]),
            megabytes(result["data_mb"]),
        ]
        for size, result in shortest.items()
    ]
    show(Table(header, rows))
    if len(shortest) > 1:
        logs = np.log10([[size, result["cpu_seconds"]] for size, result in shortest.items()])
        slope = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        verdict = "" if slope <= SLOPE_GOAL else ", MISSED"
        say(f"\nslope of log time over log instances: {slope:.2f} (goal {SLOPE_GOAL}{verdict})")
    if BOUNDED in shortest:
        peak = shortest[BOUNDED]["peak_mb"]
        verdict = "" if peak < MEMORY_GOAL_MB else ", MISSED"
        say(
            f"peak memory of the process at {BOUNDED:,} instances: {peak:.0f} MB "
            f"(goal {MEMORY_GOAL_MB:.0f}{verdict})"
        )
    say(
        f"CoupledMISVC(n_components={N_COMPONENTS}), Gaussian kernel, l1 loss, coupling 0.1, "
        f"C * n = {GAMMA_COST:g}; bags of {BAG_SIZE} with {N_FEATURES} features;\n"
        f"peak: the whole process, libraries and data too; shortest of {rounds}, each fit in a "
        "process of its own."
    )
    return finish(records, complete, file, len(tasks))


def run_gram(args: argparse.Namespace) -> int:
    name = "misvc-bag-kernel"
    n_bags = LARGE_GRAM[0] // (10 if args.fast else 1)
    task = ScaleTask(name, "noise", "gram", n_bags, 0)
    records, complete, file = _run(args, name, [task])
    result = records.get(task.key, {}).get("result")
    if result is not None:
        n = n_bags * LARGE_GRAM[1]
        columns = ["bags", "instances per bag", "CPU time", "peak of the process", "data"]
        row = [
            f"{n_bags:,}",
            str(LARGE_GRAM[1]),
            duration(result["cpu_seconds"]),
            megabytes(result["peak_mb"]),
            megabytes(result["data_mb"]),
            f"{8 * n * n / 2**30:,.0f} GiB",
        ]
        show(Table([*columns, "all pairs of instances"], [row], "r" * len(row), title="bag_kernel"))
        say("peak: libraries and data too; all pairs of instances: what their matrix would take.")
    return finish(records, complete, file, 1)


# -- lazy constraints ----------------------------------------------------------------------------


def lazy_against_all(task: ScaleTask) -> dict[str, Any]:
    """Times of a fit with constraints as they are violated, and with all of them."""
    data = load(task.dataset)
    X = StandardScaler().fit_transform(data.bags.instances)
    bags, y = data.bags, data.y
    if task.size:
        chosen = np.sort(np.random.RandomState(0).permutation(len(data.bags))[: task.size])
        bags, y = data.bags[chosen], data.y[chosen]
        X = StandardScaler().fit_transform(bags.instances)
    kernel, _ = instance_kernel("rbf", gamma=1.0 / X.shape[1])
    scales = bag_scales("normalized_set", X, bags.offsets, kernel)
    loss = Hinge(np.where(y == 1, 1.0, -1.0), np.full(len(y), TOTAL_COST / len(y)))
    coupling = Coupling("l1", COUPLING * loss.weights)
    found: dict[str, Any] = {"n_bags": len(y), "n_instances": len(X)}
    for cuts in ("lazy", "all"):
        watch = Stopwatch()
        gram = KernelGram(X, kernel, 2**28)
        bag_gram = SetKernelGram(gram, bags.offsets, scales, np.ones(len(X)))
        result = solve_coupled(bag_gram, loss, coupling, None, SolverOptions(1e-6, 100), cuts)
        found[cuts] = {
            **watch.seconds(),
            "objective": result.objective,
            "gap": result.dual_gap,
            "n_cuts": result.n_cuts,
            "n_iter": result.n_iter,
            "n_solves": result.n_solves,
        }
    return found


def run_rows(args: argparse.Namespace) -> int:
    name = "misvc-rows"
    rounds = args.repeats or (1 if args.fast else 2)
    task_size = 60 if args.fast else 0
    tasks = [ScaleTask(name, "elephant", "rows", task_size, seed) for seed in range(rounds)]
    records, complete, file = _run(args, name, tasks)
    found = [records[task.key]["result"] for task in tasks if "result" in records.get(task.key, {})]
    if found:
        best = {
            cuts: min((result[cuts] for result in found), key=lambda item: item["cpu_seconds"])
            for cuts in ("lazy", "all")
        }
        table = [
            [
                "as violated" if cuts == "lazy" else "all",
                str(best[cuts]["n_cuts"]),
                duration(best[cuts]["cpu_seconds"]),
                str(best[cuts]["n_iter"]),
                str(best[cuts]["n_solves"]),
                f"{best[cuts]['objective']:.6f}",
                f"{best[cuts]['gap'] / best[cuts]['objective']:.0e}",
            ]
            for cuts in ("lazy", "all")
        ]
        header = [
            "constraints",
            "maximum number",
            "CPU time",
            "steps",
            "programs",
            "objective",
            "gap",
        ]
        show(Table(header, table))
        ratio = best["lazy"]["cpu_seconds"] / best["all"]["cpu_seconds"]
        verdict = "" if ratio < SPEED_GOAL else ", MISSED"
        same = abs(best["lazy"]["objective"] / best["all"]["objective"] - 1)
        say(
            f"\nratio {ratio:.3f} (goal {SPEED_GOAL}{verdict}); objectives differ by {same:.0e}. "
            f"{found[0]['n_bags']} bags, {found[0]['n_instances']} instances,\nstandardised, "
            f"Gaussian kernel of width 1/d, C * n = {TOTAL_COST:g}, coupling {COUPLING}, l1 loss; "
            f"kernel values included; shortest of {rounds}, in turn."
        )
    return finish(records, complete, file, len(tasks))


def _run(
    args: argparse.Namespace, name: str, tasks: list[ScaleTask]
) -> tuple[dict[str, dict[str, Any]], bool, RecordFile]:
    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label=name, function=run_task)
    return records, complete, file


REPORTS = (
    Report("misvc-instances", "MISVC(n_components=300): 10^4 to 10^6 instances", run_instances),
    Report("misvc-bag-kernel", "bag kernel of 2,000 bags x 200 instances", run_gram),
    Report("misvc-rows", "MISVC on Elephant: constraints as violated against all", run_rows),
)
