"""Regression and clustering in ``quick``: what the tables of classifiers do not show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVR

from milearn import Bags, MIRegressor
from milearn.cluster import BAMIC, M3IC
from milearn.datasets import load_digit_bags, make_affinity
from milearn.metrics import clustering_accuracy
from milearn.preprocessing import BagStatistics, InstanceTransformer
from milearn.svm import BagSVR, CoupledMISVR

from ..common.memory import Stopwatch
from ..common.output import Table, duration, percent, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of

# Every third bag is of one kind: a digit that a third of its instances show, and no other bag need.
KINDS = (0, 4, 7)


@dataclass(frozen=True)
class Model:
    """A row of one of the tables."""

    title: str
    make: Callable[[], BaseEstimator]


def _scaled(*steps: BaseEstimator) -> BaseEstimator:
    return make_pipeline(InstanceTransformer(StandardScaler()), *steps)


def _of_rows(*steps: BaseEstimator) -> BaseEstimator:
    return _scaled(InstanceTransformer(Normalizer()), *steps)


REGRESSORS = {
    "mean-svr": Model(
        "mean, SVR", lambda: make_pipeline(BagStatistics("mean"), StandardScaler(), SVR())
    ),
    "regressor": Model("MIRegressor", lambda: MIRegressor(random_state=0)),
    "bagsvr": Model("BagSVR", BagSVR),
    "misvr": Model("MISVR", lambda: _scaled(CoupledMISVR())),
}
CLUSTERERS = {
    "kmeans": Model(
        "mean, KMeans",
        lambda: _of_rows(BagStatistics("mean"), KMeans(3, n_init=10, random_state=0)),
    ),
    "m3ic": Model("M3IC", lambda: _of_rows(M3IC(3, C=100.0, n_init=5, random_state=0))),
    "bamic": Model("BAMIC", lambda: _of_rows(BAMIC(3, metric="mean", random_state=0))),
}


@dataclass(frozen=True)
class OtherTask:
    """All folds of one regressor, or one clusterer on all bags."""

    dataset: str
    method: str
    n_bags: int
    n_splits: int

    @property
    def key(self) -> str:
        model = (REGRESSORS | CLUSTERERS)[self.method]
        words = " ".join(repr(model.make()).split())
        name = f"quick/{self.dataset}/{self.method}"
        return f"{name}@{digest([self.n_bags, self.n_splits, words])}"


def run_others(file: RecordFile, jobs: int, small: bool) -> tuple[dict[str, Any], bool, int]:
    """Run both, show their tables; the records, whether all ran, and the number of tasks."""
    n_bags, n_splits = (18, 2) if small else (60, 5)
    tasks = [OtherTask("molecules", name, n_bags, n_splits) for name in REGRESSORS]
    tasks += [OtherTask("kinds", name, n_bags, 1) for name in CLUSTERERS]
    records, complete = run(tasks, file, jobs=jobs, label="quick", function=_recorded)
    rows: dict[str, list[list[str]]] = {"molecules": [], "kinds": []}
    for task in tasks:
        record = records.get(task.key, {})
        found = record.get("result", {})
        title = (REGRESSORS | CLUSTERERS)[task.method].title
        cells = ["-", "-"]
        if found:
            figure = percent(found["accuracy"]) if task.dataset == "kinds" else _error(found)
            cells = [figure, duration(found["fit_cpu_seconds"])]
        warned = "warnings" if record.get("warnings") else ""
        rows[task.dataset].append([title, *cells, "FAILED" if "error" in record else warned])
    if complete:
        title = f"molecules: regression of {n_bags} generated bags"
        columns = ["method", "squared error / variance", "fit, CPU time", ""]
        show(Table(columns, rows["molecules"], "lrrl", title=title))
        title = f"kinds: clustering of {n_bags} bags of digits into {len(KINDS)} kinds"
        columns = ["method", "accuracy %", "fit, CPU time", ""]
        show(Table(columns, rows["kinds"], "lrrl", title=title))
    return records, complete, len(tasks)


def _error(found: dict[str, Any]) -> str:
    return f"{found['relative_error']:.2f}"


def _recorded(task: OtherTask) -> dict[str, Any]:
    work = _clustered if task.dataset == "kinds" else _regressed
    return record_of(task, work, command="quick")


def _regressed(task: OtherTask) -> dict[str, Any]:
    X, y = make_affinity(task.n_bags, 10, n_relevant=6, random_state=0)
    folds = KFold(task.n_splits, shuffle=True, random_state=0)
    predicted, seconds = np.empty(len(y)), []
    for train, test in folds.split(np.arange(len(y))):
        model, watch = REGRESSORS[task.method].make(), Stopwatch()
        model.fit(X[train], y[train])
        seconds.append(watch.seconds("fit_")["fit_cpu_seconds"])
        predicted[test] = model.predict(X[test])
    relative = float(np.mean((predicted - y) ** 2) / np.var(y))
    return {"relative_error": relative, "fit_cpu_seconds": float(np.mean(seconds))}


def _clustered(task: OtherTask) -> dict[str, Any]:
    share = task.n_bags // len(KINDS)
    parts = [
        load_digit_bags(
            share, digit=kind, positive_fraction=1.0, witness_rate=0.3, random_state=kind
        ).data
        for kind in KINDS
    ]
    model, watch = CLUSTERERS[task.method].make(), Stopwatch()
    found = model.fit_predict(Bags.concatenate(parts))
    seconds = watch.seconds("fit_")["fit_cpu_seconds"]
    accuracy = clustering_accuracy(np.repeat(KINDS, share), found)
    return {"accuracy": float(accuracy), "fit_cpu_seconds": seconds}
