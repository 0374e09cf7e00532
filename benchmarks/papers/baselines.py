"""Rows of other methods in the tables of Guo (2009) and of Cheung & Kwok (2006), run by us."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from milearn.model_selection import BagShuffleSplit

from ..common.classifiers import CLASSIFIERS
from ..common.page import say, show
from ..common.protocol import Summary, run, summarise, tasks_for
from ..common.records import RecordFile
from ..common.reports import Report, finish
from ..common.table import Table, percent
from ..common.tasks import record_of
from . import cheung2006, guo2009

__all__ = ["REPORTS"]

METHODS = (
    "all-dd",
    "all-emdd",
    "all-citation",
    "all-ddsvm",
    "all-miles",
    "all-bow",
    "all-mind",
    "all-fisher",
    "all-sbmil",
    "all-milboost",
    "all-miforest",
)
# One against the rest where they are for two classes.
IMAGES = (
    "all-ddsvm",
    "all-miles",
    "all-bow",
    "all-citation",
    "all-mind",
    "all-fisher",
    "all-graph",
)
TITLES = {each.name: each.title for each in CLASSIFIERS}
# Of the tables of Cheung & Kwok, and of Chen & Wang (2004) on the same thousand images; none of
# them was checked here, and the splits are theirs.
PUBLISHED_IMAGES = {"all-ddsvm": "81.5 +- 3.0 (DD-SVM)", "all-bow": "66.7 +- 2.2 (Hist-SVM)"}
SPLITS_OF_IMAGES = 10


@dataclass(frozen=True)
class ImageTask:
    """One method on one split of the images."""

    method: str
    seed: int

    @property
    def key(self) -> str:
        """Known in the file of records by it."""
        return f"cheung2006-baselines/{self.method}/{self.seed}"


def run_guo(args: argparse.Namespace) -> int:
    """The methods on the splits of Guo's first two tables."""
    name = "guo2009-baselines"
    datasets = [*guo2009.TABLES["guo2009-table1"], *guo2009.TABLES["guo2009-table2"]]
    n_splits = args.repeats or (2 if args.fast else 10)
    tasks = [
        task
        for dataset in datasets
        for task in tasks_for(
            name,
            [dataset],
            METHODS,
            repeats=1,
            n_splits=n_splits,
            n_inner=3,
            level="quick",
            train_share=guo2009.PUBLISHED[dataset][3],
        )
    ]
    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label=name)
    cells = {(each.dataset, each.method): each for each in summarise(tasks, records, over="fold")}
    rows = []
    for method in METHODS:
        found = [cells.get((dataset, method)) for dataset in datasets]
        values = [_cell(each) for each in found]
        rows.append([f"{TITLES[method]} (ours)", *values])
    for place, column in enumerate(guo2009.COLUMNS):
        values = [f"{guo2009.PUBLISHED[dataset][place]:.1f}" for dataset in datasets]
        rows.append([f"{column} (published)", *values])
    show(Table(["method", *datasets], rows))
    say(
        f"\nAccuracy in percent, mean +- standard deviation over {n_splits} random splits with the "
        "paper's share of training\nbags, the splits of the other tables. One setting each; where "
        "rows of bags are made, C by five folds\nwithin the training part. Instances are "
        "standardised."
    )
    return finish(records, complete, file, len(tasks))


def run_images(args: argparse.Namespace) -> int:
    """The methods on the first splits of Cheung & Kwok's first table."""
    name = "cheung2006-baselines"
    n_splits = args.repeats or (1 if args.fast else SPLITS_OF_IMAGES)
    tasks = [ImageTask(method, seed) for seed in range(n_splits) for method in IMAGES]
    with RecordFile(args.out / f"{name}.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label=name, function=run_task)
    rows = []
    for method in IMAGES:
        keys = [task.key for task in tasks if task.method == method]
        values = [records[key]["result"]["accuracy"] for key in keys if _is_good(records, key)]
        if values:
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            cells = [percent(float(np.mean(values)), spread), PUBLISHED_IMAGES.get(method, "")]
            rows.append([TITLES[method], *cells, str(len(values))])
    show(Table(["method (ours)", "accuracy %", "published", "splits"], rows))
    say(
        "\nThe first splits of cheung2006-table1: half of each class to train on, instances "
        "standardised there. One\nsetting each; where rows of bags are made, C by five folds "
        "within the training half. The published\nfigures were not checked. Hist-SVM uses "
        "histograms of colours instead of these instances."
    )
    return finish(records, complete, file, len(tasks))


def _cell(item: Summary | None) -> str:
    if item is None or not item.folds:
        return "-"
    return percent(item.accuracy, None if math.isnan(item.sd) else item.sd)


def _is_good(records: dict[str, Any], key: str) -> bool:
    return "result" in records.get(key, {})


def run_task(task: ImageTask) -> dict[str, Any]:
    return record_of(task, _classify, dataset="corel1000_10class")


def _classify(task: ImageTask) -> dict[str, Any]:
    bags, y = cheung2006.images()
    split = BagShuffleSplit(1, train_size=0.5, random_state=task.seed)
    train, test = next(iter(split.split(bags, y)))
    classifier = next(each for each in CLASSIFIERS if each.name == task.method)
    model = classifier.build(text=False).fit(bags[train], y[train])
    return {"accuracy": float(np.mean(model.predict(bags[test]) == y[test]))}


REPORTS = (
    Report("guo2009-baselines", "Guo 2009, Tables 1 and 2: other methods on these splits", run_guo),
    Report(
        "cheung2006-baselines", "Cheung & Kwok 2006, Table 1: other methods on images", run_images
    ),
)
