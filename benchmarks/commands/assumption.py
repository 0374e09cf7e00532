"""``assumption``: which classifiers keep the multiple-instance assumption (Raff & Holt 2023)."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

from milearn.datasets import make_false_frequency, make_single_concept, make_threshold_concepts

from ..common.classifiers import CLASSIFIERS, Classifier
from ..common.output import add_common_options
from ..common.page import say, show
from ..common.records import RecordFile
from ..common.table import Table
from ..common.tasks import record_of

HELP = "AUC of every classifier in the three unit tests of the multiple-instance assumption"

TESTS = {
    "single concept": make_single_concept,
    "false frequency": make_false_frequency,
    "two concepts": make_threshold_concepts,
}
# An area below which a test counts as failed, on every one of the draws.
PASSES = 0.95


@dataclass(frozen=True)
class AssumptionTask:
    """One classifier on one draw of one test."""

    method: str
    test: str
    seed: int

    @property
    def key(self) -> str:
        """Known in the file of records by it."""
        return f"assumption {self.method} {self.test} {self.seed}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    names = [each.name for each in CLASSIFIERS]
    parser.add_argument("--methods", nargs="+", default=names, metavar="NAME", choices=names)
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="draws of each test (default: 3)"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")


def main(args: argparse.Namespace) -> int:
    chosen = [each for each in CLASSIFIERS if each.name in args.methods]
    tasks = [
        AssumptionTask(each.name, test, seed)
        for each in chosen
        for test in TESTS
        for seed in range(args.repeats)
    ]
    file = RecordFile(args.out / "assumption.jsonl", fresh=args.fresh)
    known = file.read()
    missing = [task for task in tasks if task.key not in known]
    with file:
        found = Parallel(n_jobs=args.jobs, return_as="generator")(
            delayed(record_of)(task, area) for task in missing
        )
        for record in found:
            file.append(record)
            known[record["key"]] = record
    show(table_of(chosen, tasks, known))
    say(
        f"Mean area under the ROC curve of test bags over {args.repeats} draw(s); a star where "
        f"every draw\nis above {PASSES:g}. 'single concept' and 'false frequency' are passed "
        "by methods that search for one instance;\nin 'two concepts' a positive bag "
        "needs one of each, which a maximum over instances cannot represent."
    )
    return int(any("error" in known[task.key] for task in tasks))


def area(task: AssumptionTask) -> dict[str, Any]:
    """Area under the curve at test, of a fit on the training bags of the draw."""
    classifier = next(each for each in CLASSIFIERS if each.name == task.method)
    X, y, X_test, y_test = TESTS[task.test](random_state=task.seed)
    model = classifier.build(text=False).fit(X, y)
    if hasattr(model, "decision_function"):
        scores = model.decision_function(X_test)
    else:
        scores = model.predict_proba(X_test)[:, 1]
    return {"auc": float(roc_auc_score(y_test, scores))}


def table_of(
    chosen: list[Classifier], tasks: list[AssumptionTask], records: dict[str, dict[str, Any]]
) -> Table:
    """One row per classifier, one column per test, and whether the assumption is kept."""
    areas: dict[tuple[str, str], list[float]] = {}
    for task in tasks:
        result = records[task.key].get("result", {"auc": float("nan")})
        areas.setdefault((task.method, task.test), []).append(result["auc"])
    rows = []
    for each in chosen:
        columns = [np.array(areas[each.name, test]) for test in TESTS]
        cells = [
            "failed" if np.isnan(column).any() else f"{column.mean():.2f}{_star(column)}"
            for column in columns
        ]
        kept = all(_star(column) == "*" for column in columns[:2])
        rows.append([each.title, *cells, "yes" if kept else "no"])
    return Table(["classifier", *TESTS, "keeps the assumption"], rows)


def _star(column: np.ndarray) -> str:
    return "*" if (column > PASSES).all() else " "
