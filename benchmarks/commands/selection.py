"""``selection``: one search over several estimators of the package against the best baseline."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from ..common.methods import METHODS
from ..common.page import show
from ..common.protocol import Summary
from ..common.table import Table, percent
from .nested import add_nested_options, run_nested

HELP = "one GridSearchCV over several estimators, nested, compared with the best plain baseline"

DATASETS = ("musk1", "musk2", "elephant", "fox", "tiger")
NAMES = ("default", "baseline-minmax", "baseline-mean", "baseline-setkernel", "selected")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_nested_options(parser, DATASETS, NAMES)


def main(args: argparse.Namespace) -> int:
    status, summaries, records = run_nested(args, "selection", "selection")
    rows = verdicts(summaries)
    if rows:
        columns = ["data", "selected", "best baseline", "baseline", "reached"]
        title = "chosen by the search (accuracy and AUC), compared with the best baseline"
        show(Table(columns, rows, "lrrll", title=title))
    rows = choices(records)
    if rows:
        title = "how often the search took which estimator"
        show(Table(["data", "estimator", "folds"], rows, "llr", title=title))
    return status


def choices(records: list[dict[str, Any]]) -> list[list[str]]:
    """One row per data set and estimator, the most frequent first."""
    taken: dict[str, Counter[str]] = {}
    for record in records:
        if record["method"] == "selected" and "result" in record:
            chosen = record["result"]["chosen"]
            estimator = chosen["estimator"] + " on rows" * ("rows" in chosen)
            taken.setdefault(record["dataset"], Counter())[estimator] += 1
    return [
        [dataset, estimator, str(folds)]
        for dataset, estimators in taken.items()
        for estimator, folds in estimators.most_common()
    ]


def verdicts(summaries: list[Summary]) -> list[list[str]]:
    """One row per data set on which the search and a baseline have all their folds."""
    rows = []
    complete = [item for item in summaries if item.folds and not item.missing and not item.failed]
    for dataset in dict.fromkeys(item.dataset for item in complete):
        here = [item for item in complete if item.dataset == dataset]
        mine = [item for item in here if item.method == "selected"]
        baselines = [item for item in here if METHODS[item.method].baseline]
        if not mine or not baselines:
            continue
        best = max(baselines, key=lambda item: item.accuracy)
        short = 100 * (best.accuracy - mine[0].accuracy)
        rows.append(
            [
                dataset,
                percent(mine[0].accuracy),
                percent(best.accuracy),
                METHODS[best.method].title.removeprefix("baseline: "),
                "yes" if short <= 0 else f"no, {short:.1f} points below",
            ]
        )
    return rows
