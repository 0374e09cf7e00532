"""``backends``: the solvers behind qpsolvers, timed in the loops that call them.

A backend that is fast on one program may be slow in a loop that solves twenty neighbours of it,
or stop so far from the optimum that the loop needs more steps: whole fits are what counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import qpsolvers
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from milearn import Bags
from milearn._solvers.common import qp
from milearn._solvers.common.gram import Gram, KernelGram, LinearGram
from milearn._solvers.common.options import SolverOptions
from milearn._solvers.svm.maximum.dual import solve_mi_svm
from milearn._solvers.svm.problem import BinaryProblem

from ..common.data import load
from ..common.memory import Stopwatch
from ..common.output import add_common_options
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import finish
from ..common.table import Table, duration
from ..common.tasks import record_of

HELP = "backends of qpsolvers in the loops that call them: time, objective, gap"

# Permissive licences only: a GPL solver is nobody's default here.
BACKENDS = ("piqp", "daqp", "osqp", "clarabel")
LOOPS = {
    "misvc-rbf": "MISVC, bag slack, RBF",
    "misvc-linear": "MISVC, bag slack, linear",
}


@dataclass(frozen=True)
class BackendTask:
    """One fit of one loop with one backend; ``repeat`` tells equal fits apart."""

    dataset: str
    loop: str
    backend: str
    repeat: int

    @property
    def key(self) -> str:
        name = f"backends/{self.dataset}/{self.loop}/{self.backend}/{self.repeat}"
        # A time belongs to the code that was timed.
        return f"{name}@{digest([source_digest()])}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument("--dataset", default="elephant", metavar="NAME", help="default: elephant")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")


def main(args: argparse.Namespace) -> int:
    load(args.dataset)
    names = [name for name in BACKENDS if name in qpsolvers.available_solvers]
    tasks = [
        BackendTask(args.dataset, loop, backend, repeat)
        for repeat in range(args.rounds)
        for loop in LOOPS
        for backend in names
    ]
    with RecordFile(args.out / "backends.jsonl", fresh=args.fresh) as file:
        # One at a time: times of fits that run side by side say little.
        records, complete = run(tasks, file, jobs=1, label="backends", function=run_task)
    for loop, title in LOOPS.items():
        rows = []
        for backend in names:
            found = [
                records[task.key]
                for task in tasks
                if (task.loop, task.backend) == (loop, backend) and task.key in records
            ]
            results = [record["result"] for record in found if "result" in record]
            if not results:
                error = next((record["error"] for record in found), "not run")
                rows.append([backend, "-", "-", "-", "-", error[:60]])
                continue
            seconds = [result["cpu_seconds"] for result in results]
            remarks = ", ".join({name for record in found for name in record["warnings"]})
            rows.append(
                [
                    backend,
                    duration(min(seconds)),
                    duration(float(np.median(seconds))),
                    f"{results[0]['objective']:.10g}",
                    f"{results[0]['gap']:.1e}",
                    remarks,
                ]
            )
        columns = ["backend", "shortest CPU time", "median CPU time", "objective", "relative gap"]
        show(Table([*columns, ""], rows, "lrrrrl", title=f"{title}, {args.dataset}"))
    missing = [name for name in BACKENDS if name not in names]
    say(
        f"\nCPU time of a whole fit on standardised instances, C=1, {args.rounds} rounds in turn; "
        "the "
        "objective\nis that of the non-convex problem, the gap that of the last convex step."
    )
    if missing:
        say(f"not installed: {', '.join(missing)}")
    return finish(records, complete, file, len(tasks))


def run_task(task: BackendTask) -> dict[str, Any]:
    """The record of one fit."""
    fields = {"command": "backends", "method": f"{task.loop} {task.backend}"}
    return record_of(task, _fit, **fields)


@contextmanager
def only_backend(name: str) -> Iterator[None]:
    """Within it all quadratic programs of the loops go to this backend."""
    usual = qp.BACKENDS
    qp.BACKENDS = (name,)
    try:
        yield
    finally:
        qp.BACKENDS = usual


@lru_cache(maxsize=1)
def _standardised(name: str) -> tuple[Bags, np.ndarray]:
    data = load(name)
    return data.bags.with_instances(StandardScaler().fit_transform(data.bags.instances)), data.y


def _fit(task: BackendTask) -> dict[str, Any]:
    bags, y = _standardised(task.dataset)
    watch = Stopwatch()
    objective, gap = _fitted(bags, y, task.loop.removeprefix("misvc-"), task.backend)
    return {**watch.seconds(), "objective": objective, "gap": gap}


def _fitted(bags: Bags, y: np.ndarray, setting: str, backend: str) -> tuple[float, float]:
    gram: Gram = LinearGram(bags.instances)
    if setting != "linear":
        kernel = partial(rbf_kernel, gamma=1.0 / bags.shape[1])
        gram = KernelGram(bags.instances, kernel, 2**30)
    signs = np.where(y == 1, 1.0, -1.0)
    problem = BinaryProblem(gram, bags.offsets, signs, np.ones(len(signs)))
    with only_backend(backend):
        found = solve_mi_svm(problem, "bag", None, SolverOptions(tol=1e-6, max_iter=100))
    return found.objective, max(0.0, found.dual_gap / found.objective)
