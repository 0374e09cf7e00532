"""Time of the relaxation of SDPMIL against the number of instances, beside one SVC on them."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import SVC

from milearn._solvers.common.gram import LinearGram
from milearn._solvers.common.pivoted_cholesky import centered_kernel, kernel_features, needs_kernel
from milearn._solvers.svm.guo_relaxation import RelaxationProblem, solve_relaxation
from milearn.model_selection import BagShuffleSplit

from ..common.data import load
from ..common.memory import Stopwatch
from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, source_digest
from ..common.reports import Report, finish
from ..common.table import Table, duration
from ..common.tasks import record_of

__all__ = ["REPORTS"]

# Elephant at 3/5 is the training part of Guo (2009). C is what a search chooses there.
SETS = {"elephant": 0.1, "musk2": 0.1, "trec9/tst1": 10.0}
SHARES = {"elephant": (0.2, 0.4, 0.6, 0.99), "musk2": (0.25, 0.5, 0.97)}
SHARES["trec9/tst1"] = (0.125, 0.25, 0.5, 0.99)
PUBLISHED_BOUND = 4.5


@dataclass(frozen=True)
class ScaleTask:
    """A share of the bags of a data set; ``method`` is what is measured beside one SVC."""

    dataset: str
    share: float
    rounds: int
    method: str = "relaxation"

    @property
    def key(self) -> str:
        settings = digest([asdict(self), source_digest()])
        return f"sdpmil-instances/{self.dataset}/{self.share}@{settings}"


def run_task(task: ScaleTask) -> dict[str, Any]:
    return record_of(task, measure)


def measure(task: ScaleTask) -> dict[str, Any]:
    """Shortest times of the relaxation and of one SVC, in turn."""
    data = load(task.dataset)
    split = BagShuffleSplit(1, train_size=task.share, random_state=0)
    train, _ = next(iter(split.split(data.bags, data.y)))
    bags, y = data.bags[train], data.y[train]
    scale = normalize if data.text else StandardScaler().fit_transform
    instances, C = scale(bags.instances), SETS[task.dataset]
    inherited, signs = y[bags.bag_index], np.where(y == 1, 1.0, -1.0)
    ours, svc = [], []
    for _ in range(task.rounds):
        watch = Stopwatch()
        gram = LinearGram(instances)
        is_kernel = needs_kernel(gram)
        problem = RelaxationProblem(
            centered_kernel(gram) if is_kernel else kernel_features(gram),
            bags.offsets,
            signs,
            np.full(len(bags), C),
            slack_bound=2.0,
            exactly_one=True,
            is_kernel=is_kernel,
        )
        found = solve_relaxation(problem, tol=1e-10)
        ours.append(watch.seconds())
        watch = Stopwatch()
        SVC(kernel="linear", C=C).fit(instances, inherited)
        svc.append(watch.seconds("svc_"))
    return {
        "n_instances": bags.n_instances,
        "columns": problem.features.shape[1],
        **{name: min(each[name] for each in times) for times in (ours, svc) for name in times[0]},
        "n_iter": found.n_iter,
        "error": found.error,
    }


def run_scale(args: argparse.Namespace) -> int:
    """The table of the report."""
    rounds = args.repeats or (1 if args.fast else 3)
    names = ["elephant"] if args.fast else list(SETS)
    tasks = [ScaleTask(name, share, rounds) for name in names for share in SHARES[name]]
    with RecordFile(args.out / "sdpmil-instances.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label="sdpmil-instances", function=run_task)
    rows = []
    for name in names:
        found = [
            records[task.key]["result"]
            for task in tasks
            if task.dataset == name and "result" in records.get(task.key, {})
        ]
        rows += [_row(name, result) for result in found]
        if len(found) > 1:
            rows.append([name, "slope", "", f"{slope(found):.2f}", "", "", "", ""])
    times = ["relaxation, CPU time", "one SVC, CPU time"]
    show(Table(["data", "instances", "columns", *times, "ratio", "steps", "error"], rows))
    say(
        f"\nCPU time, shortest of {rounds}, linear kernel, factor of the kernel included;\nslope: "
        f"of log time over log instances by least squares (the paper's bound: {PUBLISHED_BOUND}); "
        "error: largest of residuals and relative gap."
    )
    return finish(records, complete, file, len(tasks))


def slope(results: list[dict[str, Any]]) -> float:
    """Exponent of the growth with the number of instances."""
    sizes = np.log([result["n_instances"] for result in results])
    return float(np.polyfit(sizes, np.log([result["cpu_seconds"] for result in results]), 1)[0])


def _row(name: str, result: dict[str, Any]) -> list[str]:
    return [
        name,
        str(result["n_instances"]),
        str(result["columns"]),
        duration(result["cpu_seconds"]),
        duration(result["svc_cpu_seconds"]),
        f"{result['cpu_seconds'] / result['svc_cpu_seconds']:.1f}",
        str(result["n_iter"]),
        f"{result['error']:.0e}",
    ]


REPORTS = (
    Report(
        "sdpmil-instances",
        "time of the relaxation of SDPMIL against the number of instances",
        run_scale,
    ),
)
