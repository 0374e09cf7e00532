"""Both sides of the size rules of ``MIClassifier``, at the largest size of the first one."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from milearn import MIClassifier
from milearn.auto._plan import SizeLimits
from milearn.datasets import make_bags

from ..common.page import say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest
from ..common.reports import Report, finish
from ..common.table import Table
from ..common.tasks import record_of

__all__ = ["CASES", "REPORTS", "Case", "LimitTask", "run_limits"]

N_TEST, N_FEATURES = 500, 20
_NEVER = 10**15


@dataclass(frozen=True)
class Case:
    """A size near a limit.

    Attributes
    ----------
    limit : str
        Field of ``SizeLimits``.
    sides : tuple of str
        What a fit does at the limit, and what it does above.
    n_bags, bag_size : int
    above : float, default=0
        Value of the limit that gives the second side.
    """

    limit: str
    sides: tuple[str, str]
    n_bags: int
    bag_size: int
    above: float = 0


CASES = {
    "99 bags": Case("agreeing_bags", ("linear by two fits", "linear by one fit"), 99, 10),
    "2,500 instances": Case("exact_instances", ("exact RBF", "150 landmarks"), 250, 10),
    "2e10 products": Case("pair_cost", ("seven bag kernels", "means and extremes"), 320, 50),
    "20,000 instances": Case("rbf_instances", ("150 landmarks", "no RBF"), 400, 50),
    "400 test bags": Case(
        "test_bags", ("five folds", "until 400 bags"), 800, 5, SizeLimits().test_bags
    ),
    "3,000 bags": Case("exact_bags", ("exact bag kernels", "500 landmarks"), 3000, 3),
}


@dataclass(frozen=True)
class LimitTask:
    """A fit with one side of a rule forced; the other rules are as they are."""

    dataset: str
    method: str
    n_bags: int
    bag_size: int
    limit: str
    value: float

    @property
    def key(self) -> str:
        settings = digest([self.n_bags, self.bag_size, self.value, N_TEST, N_FEATURES])
        return f"automatic-limits/{self.dataset}/{self.method}@{settings}"


def tasks_of(fast: bool) -> list[LimitTask]:
    """Two fits for each rule; with ``fast`` on a few dozen bags."""
    return [
        LimitTask(
            name,
            side,
            max(24, case.n_bags // 100) if fast else case.n_bags,
            min(case.bag_size, 3) if fast else case.bag_size,
            case.limit,
            value,
        )
        for name, case in CASES.items()
        for side, value in zip(case.sides, (_NEVER, case.above), strict=True)
    ]


def run_task(task: LimitTask) -> dict[str, Any]:
    return record_of(task, _result)


def _result(task: LimitTask) -> dict[str, Any]:
    class Limited(MIClassifier):
        _size_limits = replace(SizeLimits(), **{task.limit: task.value})

    every, y = make_bags(
        task.n_bags + N_TEST,
        N_FEATURES,
        bag_size=task.bag_size,
        witness_rate=1 / task.bag_size,
        concept_distance=3.0,
        flip_y=0.1,
        random_state=0,
    )
    train, test = np.arange(task.n_bags), np.arange(task.n_bags, task.n_bags + N_TEST)
    begun = time.process_time()
    model = Limited(random_state=0).fit(every[train], y[train])
    fit_seconds, begun = time.process_time() - begun, time.process_time()
    scores = model.decision_function(every[test])
    return {
        "fit_cpu_seconds": fit_seconds,
        "predict_cpu_seconds": time.process_time() - begun,
        "accuracy": float(np.mean((scores > 0) == y[test])),
        "auc": float(roc_auc_score(y[test], scores)),
        "paradigm": model.paradigm_,
        "skipped": model.skipped_,
    }


def run_limits(args: argparse.Namespace) -> int:
    """The table of both sides."""
    tasks = tasks_of(args.fast)
    with RecordFile(args.out / "automatic-limits.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=1, label="limits", function=run_task)
    rows, last = [], ""
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        if result is None:
            continue
        size = f"{task.n_bags:,} x {task.bag_size} x {N_FEATURES}"
        named = ["", ""] if task.dataset == last else [task.dataset, size]
        last = task.dataset
        times = [f"{result[f'{name}_cpu_seconds']:.1f}" for name in ("fit", "predict")]
        measures = [f"{100 * result[name]:.1f}" for name in ("accuracy", "auc")]
        rows.append([*named, task.method, *times, *measures, result["paradigm"]])
    columns = ["limit", "bags x instances x features", "side", "fit", "predict"]
    columns += ["accuracy %", "AUC x 100", "model"]
    show(Table(columns, rows, "lllrrrrl"))
    say(
        f"CPU seconds of a fit and of the prediction of {N_TEST} further bags. The first side is "
        "that of the rule up to the limit,\nthe second one that above it. One instance of a "
        "positive bag decides, and 10 % of the labels are wrong."
    )
    return finish(records, complete, file, len(tasks))


REPORTS = (
    Report(
        "automatic-limits",
        "both sides of the size rules of MIClassifier: time and accuracy",
        run_limits,
    ),
)
