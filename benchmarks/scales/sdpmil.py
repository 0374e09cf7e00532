"""Time of the relaxation of SDPMIL against the number of instances, compared with one SVC."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import SVC

from milearn import Bags
from milearn._solvers.common.gram import LinearGram
from milearn._solvers.svm.guo.relaxation import RelaxationResult, solve_relaxation
from milearn._solvers.svm.problem import BinaryProblem
from milearn._solvers.svm.selection import relaxation_problem
from milearn.model_selection import BagShuffleSplit
from milearn.svm import SDPMIL

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
# The default kernel, from the instances to the fitted estimator.
WHOLE_FIT, C_RBF = "RBF, whole fit", 10.0


@dataclass(frozen=True)
class ScaleTask:
    """A share of the bags of a data set; ``method`` is what is measured beside an SVC."""

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
    instances, inherited = scale(bags.instances), y[bags.bag_index]
    whole = task.method == WHOLE_FIT
    ours, svc = [], []
    for _ in range(task.rounds):
        watch = Stopwatch()
        if whole:
            found = SDPMIL(C=C_RBF).fit(Bags(instances, bags.offsets), y)
        else:
            found = _relaxed(instances, bags.offsets, y, SETS[task.dataset])
        ours.append(watch.seconds())
        watch = Stopwatch()
        plain = SVC(C=C_RBF) if whole else SVC(kernel="linear", C=SETS[task.dataset])
        plain.fit(instances, inherited)
        svc.append(watch.seconds("svc_"))
    times = {name: min(each[name] for each in took) for took in (ours, svc) for name in took[0]}
    facts: dict[str, Any] = {"n_instances": bags.n_instances, **times}
    if not whole:
        facts.update(columns=len(found.w), n_iter=found.n_iter, error=found.error)
    return facts


def _relaxed(instances: Any, offsets: np.ndarray, y: np.ndarray, C: float) -> RelaxationResult:
    signs = np.where(y == 1, 1.0, -1.0)
    binary = BinaryProblem(LinearGram(instances), offsets, signs, np.full(len(signs), C))
    problem = relaxation_problem(binary, slack_bound=2.0, exactly_one=True)
    return solve_relaxation(problem, tol=1e-10)


def run_scale(args: argparse.Namespace) -> int:
    """The table of the report."""
    rounds = args.repeats or (1 if args.fast else 3)
    names = ["elephant"] if args.fast else list(SETS)
    tasks = [ScaleTask(name, share, rounds) for name in names for share in SHARES[name]]
    tasks.append(
        ScaleTask("elephant", SHARES["elephant"][0 if args.fast else -1], rounds, WHOLE_FIT)
    )
    with RecordFile(args.out / "sdpmil-instances.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label="sdpmil-instances", function=run_task)
    rows = []
    for name in names:
        found = [
            records[task.key]["result"]
            for task in tasks
            if (task.dataset, task.method) == (name, "relaxation")
            and "result" in records.get(task.key, {})
        ]
        rows += [_row(name, result) for result in found]
        if len(found) > 1:
            rows.append([name, "slope", "", f"{slope(found):.2f}", "", "", "", ""])
    if (last := records.get(tasks[-1].key, {})).get("result"):
        rows.append(_row("elephant, RBF, whole fit", last["result"]))
    times = ["relaxation, CPU time", "one SVC, CPU time"]
    show(Table(["data", "instances", "columns", *times, "ratio", "steps", "error"], rows))
    say(
        f"\nCPU time, shortest of {rounds}, linear kernel, the last row of SDPMIL(C={C_RBF:g}).fit "
        f"compared with SVC(C={C_RBF:g}).fit;\nslope: of log time over log instances by least "
        f"squares (the paper's bound: {PUBLISHED_BOUND}); error: largest of residuals and "
        "relative gap."
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
        str(result.get("columns", "")),
        duration(result["cpu_seconds"]),
        duration(result["svc_cpu_seconds"]),
        f"{result['cpu_seconds'] / result['svc_cpu_seconds']:.1f}",
        str(result.get("n_iter", "")),
        f"{result['error']:.0e}" if "error" in result else "",
    ]


REPORTS = (
    Report(
        "sdpmil-instances",
        "time of the relaxation of SDPMIL against the number of instances",
        run_scale,
    ),
)
