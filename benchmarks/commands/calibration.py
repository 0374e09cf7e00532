"""``calibration``: probabilities of MIClassifier, and values of MIRegressor, compared with rivals.

Bags of ten instances of which one decides, and that no classifier separates. Training and test bags
come from the same draw. The slope is that of a logistic regression of the classes on the stated log
odds, over the test bags of all draws: 1 is right, and below 1 probabilities are too extreme.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from milearn import Bags, MIClassifier, MIRegressor
from milearn.datasets import make_affinity, make_bags
from milearn.preprocessing import BagStatistics

from ..common.output import Table, add_common_options, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of
from ..common.reports import finish

HELP = "probabilities of MIClassifier (slope, Brier score), and MIRegressor, trees and SVR"

N_BAGS, SHARES, DRAWS, N_TEST = (40, 100, 200), (1 / 2, 1 / 21), 6, 400
REGRESSORS = ("MIRegressor", "trees", "SVR")
LOWEST = 1e-12


@dataclass(frozen=True)
class CalibrationTask:
    """One fit: two classes with a share of positive bags, three classes, or a regressor."""

    dataset: str
    method: str
    n_bags: int
    share: float
    draw: int

    @property
    def key(self) -> str:
        name = f"{self.dataset}/{self.method}/{self.n_bags}/{self.share:.3f}/{self.draw}"
        return f"calibration/{name}@{digest([N_TEST])}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument("--bags", nargs="+", type=int, default=list(N_BAGS), metavar="N")
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N", help="default: 6")
    parser.add_argument("--fast", action="store_true", help="40 bags, one draw: not a result")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")


def main(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    if args.fast:
        args.bags, args.draws = [40], 1
        say("--fast: 40 bags and one draw, a look and not a result.\n")
    tasks = tasks_of(args.bags, args.draws)
    with RecordFile(args.out / "calibration.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label="calibration", function=run_task)
    show_classes(tasks, records)
    show_values(tasks, records)
    status = finish(records, complete, file, len(tasks))
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status


def tasks_of(sizes: Sequence[int], n_draws: int) -> list[CalibrationTask]:
    """Whole draws first."""
    return [
        CalibrationTask(dataset, method, n_bags, share, draw)
        for draw in range(n_draws)
        for n_bags in sizes
        for dataset, methods, proportions in (
            ("two classes", ("MIClassifier",), SHARES),
            ("three classes", ("MIClassifier",), (1 / 3,)),
            ("values", REGRESSORS, (0.0,)),
        )
        for share in proportions
        for method in methods
    ]


def run_task(task: CalibrationTask) -> dict[str, Any]:
    return record_of(task, _result)


def _result(task: CalibrationTask) -> dict[str, Any]:
    n, n_all = task.n_bags, task.n_bags + N_TEST
    if task.dataset == "values":
        bags, y = make_affinity(n_all, random_state=task.draw)
        noise = np.random.RandomState(task.draw).normal(size=n_all)
        y = y + 0.5 * np.std(y) * noise
        model = regressor(task.method).fit(bags[:n], y[:n])
        return {"r2": float(r2_score(y[n:], model.predict(bags[n:])))}
    bags, y = _classes(task, n_all)
    model = MIClassifier(random_state=0).fit(bags[:n], y[:n])
    stated = model.predict_proba(bags[n:])
    return {"stated": stated.tolist(), "truth": y[n:].tolist()}


def _classes(task: CalibrationTask, n_bags: int) -> tuple[Bags, np.ndarray]:
    """Shuffled bags; of three classes, the last two have a concept each."""
    settings: dict[str, Any] = {
        "bag_size": 10,
        "concept_distance": 3.0,
        "positive_fraction": task.share,
        "flip_y": 0.05 if task.share == SHARES[0] else 0.0,
    }
    if task.dataset == "two classes":
        bags, y = make_bags(n_bags, random_state=task.draw, **settings)
    else:
        rng = np.random.RandomState(task.draw)
        y = np.arange(n_bags) % 3
        instances = rng.normal(size=(n_bags, 10, 10))
        for kind in (1, 2):
            instances[y == kind, 0, kind] += 4.0
        bags = Bags(instances.reshape(-1, 10), np.arange(n_bags + 1) * 10)
    # The proportions of the training bags are those of the test bags.
    order = np.random.RandomState(task.draw).permutation(n_bags)
    codes = y[order]
    at = np.empty(n_bags)
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        at[members] = (np.arange(len(members)) + 0.5) / len(members)
    train = np.zeros(n_bags, dtype=bool)
    train[np.argsort(at, kind="stable")[: task.n_bags]] = True
    order = np.concatenate([order[train], order[~train]])
    return bags[order], y[order]


def regressor(name: str) -> Any:
    """MIRegressor, or a regressor on the mean, minimum, maximum and standard deviation."""
    if name == "MIRegressor":
        return MIRegressor(random_state=0)
    statistics = BagStatistics(("mean", "min", "max", "std"))
    if name == "trees":
        return make_pipeline(statistics, ExtraTreesRegressor(300, min_samples_leaf=2))
    search = GridSearchCV(SVR(), {"C": [0.01, 0.1, 1.0, 10.0]}, cv=5)
    return make_pipeline(statistics, StandardScaler(), search)


# -- tables ----------------------------------------------------------------------------------------


def slope_of(log_odds: np.ndarray, truth: np.ndarray) -> float:
    """Slope of a logistic regression of the classes on the stated log odds."""
    model = LogisticRegression(C=1e6).fit(log_odds[:, None], truth)
    return float(model.coef_[0, 0])


def brier_score(stated: np.ndarray, truth: np.ndarray) -> float:
    """Mean squared difference of probabilities and classes; of two classes, of the second one."""
    if stated.shape[1] == 2:
        return float(np.mean((stated[:, 1] - truth) ** 2))
    return float(np.mean(np.sum((stated - np.eye(stated.shape[1])[truth]) ** 2, axis=1)))


def show_classes(tasks: Sequence[CalibrationTask], records: dict[str, dict[str, Any]]) -> None:
    """One row per number of bags and proportion of the classes."""
    pooled: dict[tuple[str, float, int], list[tuple[np.ndarray, np.ndarray]]] = {}
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        if result is not None and "stated" in result:
            found = np.array(result["stated"]), np.array(result["truth"])
            pooled.setdefault((task.dataset, task.share, task.n_bags), []).append(found)
    rows = []
    for (dataset, share, n_bags), parts in sorted(pooled.items()):
        stated, truth = (np.concatenate(each) for each in zip(*parts, strict=True))
        clipped = np.clip(stated, LOWEST, 1 - LOWEST)
        log_odds = np.log(clipped) - np.log1p(-clipped)
        columns = [1] if stated.shape[1] == 2 else range(stated.shape[1])
        slopes = [slope_of(log_odds[:, code], truth == code) for code in columns]
        areas = [roc_auc_score(truth == code, stated[:, code]) for code in columns]
        rates = np.bincount(truth) / len(truth)
        constant = brier_score(np.tile(rates, (len(truth), 1)), truth)
        rows.append(
            [
                f"{dataset}, 1:{round(1 / share) - 1}",
                str(n_bags),
                f"{np.mean(slopes):.2f}",
                f"{brier_score(stated, truth):.3f}",
                f"{constant:.3f}",
                f"{100 * np.mean(areas):.1f}",
            ]
        )
    columns_of = ["classes", "training bags", "slope", "Brier", "Brier of the rates", "AUC x 100"]
    title = (
        "probabilities of MIClassifier for new bags; a slope of 1 and a Brier score of 0 are best"
    )
    show(Table(columns_of, rows, title=title))
    say(f"Slopes and AUC over the {N_TEST} test bags of all draws together.")


def show_values(tasks: Sequence[CalibrationTask], records: dict[str, dict[str, Any]]) -> None:
    """R2 of each regressor."""
    found: dict[tuple[int, str], list[float]] = {}
    for task in tasks:
        result = records.get(task.key, {}).get("result")
        if result is not None and "r2" in result:
            found.setdefault((task.n_bags, task.method), []).append(result["r2"])
    sizes = sorted({n_bags for n_bags, _ in found})
    rows = [
        [str(n), *(f"{np.mean(found[n, name]):.3f}" for name in REGRESSORS)]
        for n in sizes
        if all((n, name) in found for name in REGRESSORS)
    ]
    title = "R2 on new bags, mean over draws; trees and SVR on mean, min, max, sd"
    show(Table(["training bags", *REGRESSORS], rows, title=title))
