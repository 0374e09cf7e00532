"""Time of the relaxation of SDPMIL against the number of instances, beside one SVC on them."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import SVC

from milearn._solvers.common.gram import LinearGram
from milearn._solvers.common.pivoted_cholesky import kernel_features
from milearn._solvers.svm.guo_relaxation import RelaxationProblem, solve_relaxation
from milearn.model_selection import BagShuffleSplit

from ..common.data import load
from ..common.output import short_path
from ..common.protocol import run
from ..common.records import RecordFile, digest, environment
from ..common.reports import Report
from ..common.table import duration, format_table

__all__ = ["REPORTS"]

# Elephant at 3/5 is the training part of Guo (2009). C is what a search chooses there.
SETS = {"elephant": 0.1, "musk2": 0.1, "trec9/tst1": 10.0}
SHARES = {"elephant": (0.2, 0.4, 0.6, 0.99), "musk2": (0.25, 0.5, 0.97)}
SHARES["trec9/tst1"] = (0.125, 0.25, 0.5, 0.99)
PUBLISHED_BOUND = 4.5


@dataclass(frozen=True)
class ScaleTask:
    """A share of the bags of a data set; ``method`` is what is measured beside the floor."""

    dataset: str
    share: float
    rounds: int
    method: str = "relaxation"

    @property
    def key(self) -> str:
        source = environment()["milearn_source"]
        return f"sdpmil-instances/{self.dataset}/{self.share}@{digest([asdict(self), source])}"


def measure(task: ScaleTask) -> dict[str, Any]:
    """Shortest CPU time of the relaxation and of one SVC, in turn."""
    data = load(task.dataset)
    split = BagShuffleSplit(1, train_size=task.share, random_state=0)
    train, _ = next(iter(split.split(data.bags, data.y)))
    bags, y = data.bags[train], data.y[train]
    scale = normalize if data.text else StandardScaler().fit_transform
    instances, C = scale(bags.instances), SETS[task.dataset]
    inherited, signs = y[bags.bag_index], np.where(y == 1, 1.0, -1.0)
    ours, floor = [], []
    for _ in range(task.rounds):
        begin = time.process_time()
        problem = RelaxationProblem(
            kernel_features(LinearGram(instances)),
            bags.offsets,
            signs,
            np.full(len(bags), C),
            slack_bound=2.0,
            exactly_one=True,
        )
        found = solve_relaxation(problem, tol=1e-10)
        middle = time.process_time()
        SVC(kernel="linear", C=C).fit(instances, inherited)
        ours.append(middle - begin)
        floor.append(time.process_time() - middle)
    return {
        "key": task.key,
        **asdict(task),
        "versions": environment(),
        "result": {
            "n_instances": bags.n_instances,
            "columns": problem.features.shape[1],
            "seconds": min(ours),
            "svc_seconds": min(floor),
            "n_iter": found.n_iter,
            "error": found.error,
        },
    }


def run_scale(args: argparse.Namespace) -> int:
    """The table of the report."""
    rounds = args.repeats or (1 if args.fast else 3)
    names = ["elephant"] if args.fast else list(SETS)
    tasks = [ScaleTask(name, share, rounds) for name in names for share in SHARES[name]]
    with RecordFile(args.out / "sdpmil-instances.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label="sdpmil-instances", function=measure)
    rows = []
    for name in names:
        found = [
            records[task.key]["result"]
            for task in tasks
            if task.dataset == name and task.key in records
        ]
        rows += [_row(name, result) for result in found]
        if len(found) > 1:
            rows.append([name, "slope", "", f"{slope(found):.2f}", "", "", "", ""])
    header = ["data", "instances", "columns", "relaxation", "one SVC", "ratio", "steps", "error"]
    print(format_table(header, rows))
    print(
        f"\nCPU time, shortest of {rounds}, linear kernel, factor of the kernel included;\nslope: "
        f"of log time over log instances by least squares (the paper's bound: {PUBLISHED_BOUND}); "
        "error: largest of residuals and relative gap."
    )
    print(f"records: {short_path(file.path)} ({len(records)} of {len(tasks)})")
    return 0 if complete else 130


def slope(results: list[dict[str, Any]]) -> float:
    """Exponent of the growth with the number of instances."""
    sizes = np.log([result["n_instances"] for result in results])
    return float(np.polyfit(sizes, np.log([result["seconds"] for result in results]), 1)[0])


def _row(name: str, result: dict[str, Any]) -> list[str]:
    return [
        name,
        str(result["n_instances"]),
        str(result["columns"]),
        duration(result["seconds"]),
        duration(result["svc_seconds"]),
        f"{result['seconds'] / result['svc_seconds']:.1f}",
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
