"""``selection``: one search over several estimators of the package against the best floor."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from ..common.methods import METHODS
from ..common.protocol import Summary
from ..common.table import format_table, percent
from .nested import add_nested_options, run_nested

HELP = "one GridSearchCV over several estimators, nested, beside the best of the plain floors"

DATASETS = ("musk1", "musk2", "elephant", "fox", "tiger")
NAMES = ("floor-minmax", "floor-mean", "floor-setkernel", "selected")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_nested_options(parser, DATASETS, NAMES)


def main(args: argparse.Namespace) -> int:
    status, summaries, records = run_nested(args, "selection", "selection")
    rows = verdicts(summaries)
    if rows:
        print("\nwhat the search chose (by accuracy and AUC), beside the best floor")
        header = ["data", "selected", "best floor", "floor", "reached"]
        print(format_table(header, rows, align="lrrll"))
    rows = choices(records)
    if rows:
        print("\nhow often the search took which machine")
        print(format_table(["data", "machine", "folds"], rows, align="llr"))
    return status


def choices(records: list[dict[str, Any]]) -> list[list[str]]:
    """A row a data set and machine, the most frequent first."""
    taken: dict[str, Counter[str]] = {}
    for record in records:
        if record["method"] == "selected" and "result" in record:
            chosen = record["result"]["chosen"]
            machine = chosen["estimator"] + " on rows" * ("rows" in chosen)
            taken.setdefault(record["dataset"], Counter())[machine] += 1
    return [
        [dataset, machine, str(folds)]
        for dataset, machines in taken.items()
        for machine, folds in machines.most_common()
    ]


def verdicts(summaries: list[Summary]) -> list[list[str]]:
    """A row a data set on which the search and a floor have all their folds."""
    rows = []
    complete = [item for item in summaries if item.folds and not item.missing and not item.failed]
    for dataset in dict.fromkeys(item.dataset for item in complete):
        here = [item for item in complete if item.dataset == dataset]
        mine = [item for item in here if item.method == "selected"]
        floors = [item for item in here if METHODS[item.method].floor]
        if not mine or not floors:
            continue
        best = max(floors, key=lambda item: item.accuracy)
        short = 100 * (best.accuracy - mine[0].accuracy)
        rows.append(
            [
                dataset,
                percent(mine[0].accuracy),
                percent(best.accuracy),
                METHODS[best.method].title.removeprefix("floor: "),
                "yes" if short <= 0 else f"no, {short:.1f} points below",
            ]
        )
    return rows
