"""Nested cross-validation as a stream of tasks, one per data set, method and fold.

A task tunes its pipeline by an inner cross-validation on the training bags of one outer fold and
is scored once on the bags left out; no parameter ever sees the bags that are reported. Tasks know
everything by name and number, so they can run in any order, in any process, again after a stop.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.utils.parallel import Parallel, delayed
from tqdm import tqdm

from milearn.model_selection import BagShuffleSplit, StratifiedBagKFold

from .data import describe, load
from .memory import Stopwatch
from .methods import METHODS, Method
from .output import Table, duration, note_sources, percent, show
from .records import SCHEMA, RecordFile, digest, mixed_sources, record_of

# Seconds between two states of a bar in a log, which has no lines that can be overwritten.
_EVERY_IN_A_LOG = 5.0


@dataclass(frozen=True)
class FoldTask:
    """One outer fold of one method on one data set.

    Attributes
    ----------
    command : str
        The command it belongs to.
    dataset, method : str
        Names in ``data`` and ``methods``.
    repeat, fold : int
        Number of the outer cross-validation, and of the fold in it. The repeat is the seed of
        the outer splitter, so that all methods face the same folds.
    n_splits, n_inner : int
        Outer and inner folds.
    level : str
        Width of the grid, see ``methods.LEVELS``.
    train_share : float, default=None
        Share of the bags to train on: the outer folds are then random splits.
    """

    command: str
    dataset: str
    method: str
    repeat: int
    fold: int
    n_splits: int
    n_inner: int
    level: str
    train_share: float | None = None

    @property
    def outer(self) -> BagShuffleSplit | StratifiedBagKFold:
        """The splitter whose folds are the tasks."""
        if self.train_share is None:
            return StratifiedBagKFold(self.n_splits, shuffle=True, random_state=self.repeat)
        return BagShuffleSplit(self.n_splits, train_size=self.train_share, random_state=self.repeat)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that changes the result, for the record and for its key."""
        method, data = METHODS[self.method], load(self.dataset)
        pipeline, grid = _described(method, data.bags.shape[1], self.level, data.text)
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)[5:8]},
            "pipeline": pipeline,
            "grid": grid,
            "outer": self._outer_text(),
            "inner": f"StratifiedBagKFold({self.n_inner}, shuffle=True, random_state=repeat)",
            "selected_by": "accuracy",
        }

    def _outer_text(self) -> str:
        if self.train_share is None:
            return f"StratifiedBagKFold({self.n_splits}, shuffle=True, random_state=repeat)"
        share = f"train_size={self.train_share:.6g}"
        return f"BagShuffleSplit({self.n_splits}, {share}, random_state=repeat)"

    @property
    def key(self) -> str:
        name = f"{self.command}/{self.dataset}/{self.method}/{self.repeat}/{self.fold}"
        return f"{name}@{digest(self.settings)}"


def tasks_for(
    command: str,
    datasets: Sequence[str],
    methods: Sequence[str],
    *,
    repeats: int,
    n_splits: int,
    n_inner: int,
    level: str,
    train_share: float | None = None,
) -> list[FoldTask]:
    """All tasks, whole repeats first: a run that is stopped early has compared like with like."""
    return [
        FoldTask(command, dataset, method, repeat, fold, n_splits, n_inner, level, train_share)
        for repeat in range(repeats)
        for dataset in datasets
        for method in methods
        for fold in range(n_splits)
    ]


def run_fold(task: FoldTask) -> dict[str, Any]:
    """Tune, fit, score; the record of the task."""
    record = record_of(task, _result, seed=task.repeat, parameters=task.settings)
    # They stand in the parameters.
    del record["level"], record["train_share"]
    return record


@cache
def _described(method: Method, n_features: int, level: str, text: bool) -> tuple[str, Any]:
    """The pipeline in words and the grid in figures, which all folds have in common."""
    return _words(method.build(text)), _plain(method.grid(n_features, level, text))


def _plain(value: Any) -> Any:
    """Parameters as JSON holds them: figures as figures, estimators as they are printed."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, int | float):
        return float(value)
    return value if isinstance(value, str) else _words(value)


def _words(value: Any) -> str:
    # Without the addresses of functions, which every process has its own of.
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(value).split()))


def _result(task: FoldTask) -> dict[str, Any]:
    data = load(task.dataset)
    train, test = list(task.outer.split(data.bags, data.y))[task.fold]
    method = METHODS[task.method]
    pipeline = method.build(data.text)
    candidates = ParameterGrid(method.grid(data.bags.shape[1], task.level, data.text))
    if len(candidates) == 1:  # nothing to choose
        chosen, inner_score = candidates[0], None
    else:
        search = GridSearchCV(
            pipeline,
            candidates.param_grid,
            cv=StratifiedBagKFold(task.n_inner, shuffle=True, random_state=task.repeat),
            scoring="accuracy",
            refit=False,
            error_score="raise",
        )
        search.fit(data.bags[train], data.y[train])
        chosen, inner_score = search.best_params_, float(search.best_score_)
    # An estimator among the parameters belongs to all the candidates: its clone is fitted.
    model = clone(pipeline).set_params(**clone(chosen, safe=False))
    watch = Stopwatch()
    model.fit(data.bags[train], data.y[train])
    fit_seconds, watch = watch.seconds("fit_"), Stopwatch()
    scores = scores_of(model, data.bags[test])
    predict_seconds = watch.seconds("predict_")
    truth = data.y[test]
    two_classes = len(np.unique(truth)) == 2
    return {
        "n_train": len(train),
        "n_test": len(test),
        "accuracy": float(np.mean(model.predict(data.bags[test]) == truth)),
        "auc": float(roc_auc_score(truth, scores)) if two_classes else None,
        **fit_seconds,
        **predict_seconds,
        "chosen": _plain(chosen),
        "inner_score": inner_score,
        **_told(model, data.bags[test], truth),
    }


def scores_of(model: Any, bags: Any) -> np.ndarray:
    """Scores of bags for the second class, whatever method a classifier has for them."""
    if hasattr(model, "decision_function"):
        return model.decision_function(bags)
    return model.predict_proba(bags)[:, 1]


def _told(model: Any, bags: Any, truth: np.ndarray) -> dict[str, Any]:
    """What an estimator of the package chose, and probabilities of two classes with the truth."""
    found: dict[str, Any] = {}
    if hasattr(model, "paradigm_"):
        found["paradigm"] = model.paradigm_
    if hasattr(model, "predict_proba") and len(model.classes_) == 2:
        found["probabilities"] = [float(value) for value in model.predict_proba(bags)[:, 1]]
        found["truth"] = [int(value) for value in truth]
    return found


def run(
    tasks: Sequence[FoldTask],
    file: RecordFile,
    *,
    jobs: int,
    label: str,
    function: Callable[[FoldTask], dict[str, Any]] = run_fold,
) -> tuple[dict[str, dict[str, Any]], bool]:
    """Run what the file does not hold yet; return the records of ``tasks`` and whether all ran.

    Ctrl-C ends the run in order: what is finished is in the file, and the table can still be
    made from it.
    """
    wanted = {task.key: task for task in tasks}

    def finished() -> dict[str, dict[str, Any]]:
        # A task that failed is worth another try: the cause may have been mended.
        return {
            key: record
            for key, record in file.read().items()
            if key in wanted and "error" not in record and record.get("schema") == SCHEMA
        }

    records = finished()
    todo = [task for key, task in wanted.items() if key not in records]
    terminal = sys.stderr.isatty()
    with tqdm(
        total=len(wanted),
        initial=len(records),
        desc=label,
        file=sys.stderr,
        dynamic_ncols=terminal,
        mininterval=0.1 if terminal else _EVERY_IN_A_LOG,
    ) as bar:

        def write(message: str) -> None:
            bar.write(message, file=sys.stderr)

        if records:
            write(f"{len(records)} of {len(wanted)} records are there already.")
        stale = mixed_sources(records.values())
        if stale:
            write(
                f"{stale} of them come from another state of the package: --fresh runs them again."
            )
        try:
            for record in _stream(function, todo, jobs):
                file.append(record)
                records[record["key"]] = record
                if "error" in record:
                    write(f"{record['key']} failed: {record['error']}")
                bar.set_postfix_str(f"{record['dataset']} {record['method']}", refresh=False)
                bar.update()
            complete = True
        except KeyboardInterrupt:
            complete = False
            # It may have come between the writing of a record and the next line.
            records.update(finished())
            write(
                f"Stopped with {len(records)} of {len(wanted)} records written: the same command "
                "goes on from here."
            )
    note_sources(records.values())
    return records, complete


def recorded(tasks: Sequence[FoldTask], file: RecordFile) -> dict[str, dict[str, Any]]:
    """The records of ``tasks`` that earlier runs left in the file; nothing is run."""
    kept = file.read()
    records = {task.key: kept[task.key] for task in tasks if task.key in kept}
    note_sources(records.values())
    return records


def _stream(function: Callable[[Any], Any], tasks: Sequence[Any], jobs: int) -> Iterator[Any]:
    if jobs == 1 or len(tasks) <= 1:
        yield from map(function, tasks)
        return
    # Results are taken as they come, whatever their order, so that each is on the disk at once.
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(_uninterrupted)(function, task) for task in tasks)


def _uninterrupted(function: Callable[[Any], Any], task: Any) -> Any:
    # Ctrl-C reaches every process of the terminal; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(task)


@dataclass(frozen=True)
class Summary:
    """What a table says about one method on one data set."""

    dataset: str
    method: str
    accuracy: float
    sd: float
    auc: float
    fit_cpu_seconds: float
    fit_wall_seconds: float
    folds: int
    missing: int
    failed: int
    warned: int


def summarise(
    tasks: Sequence[FoldTask], records: dict[str, dict[str, Any]], *, over: str
) -> list[Summary]:
    """One summary per data set and method with at least one record, in the order of the tasks.

    ``over="fold"`` gives the standard deviation over folds; ``over="repeat"`` that of the means
    of whole cross-validations, which is what published tables of 10 x 10 folds show.
    """
    groups: dict[tuple[str, str], list[FoldTask]] = {}
    for task in tasks:
        groups.setdefault((task.dataset, task.method), []).append(task)
    summaries = []
    for (dataset, method), members in groups.items():
        found = [records[task.key] for task in members if task.key in records]
        good = [record for record in found if "result" in record]
        if not found:
            continue
        results = [record["result"] for record in good]
        values = _accuracies(good, over)
        summaries.append(
            Summary(
                dataset=dataset,
                method=method,
                accuracy=_mean(values),
                sd=float(np.std(values, ddof=1)) if len(values) > 1 else float("nan"),
                auc=_mean([result["auc"] for result in results if result["auc"] is not None]),
                fit_cpu_seconds=_mean([result["fit_cpu_seconds"] for result in results]),
                fit_wall_seconds=_mean([result["fit_wall_seconds"] for result in results]),
                folds=len(good),
                missing=len(members) - len(found),
                failed=len(found) - len(good),
                warned=sum(bool(record["warnings"]) for record in good),
            )
        )
    return summaries


def _accuracies(records: Iterable[dict[str, Any]], over: str) -> list[float]:
    if over == "fold":
        return [record["result"]["accuracy"] for record in records]
    repeats: dict[int, list[float]] = {}
    for record in records:
        repeats.setdefault(record["repeat"], []).append(record["result"]["accuracy"])
    return [_mean(values) for values in repeats.values()]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def print_tables(summaries: Sequence[Summary]) -> None:
    """One table per data set; incomplete and troubled rows say so."""
    for dataset in dict.fromkeys(item.dataset for item in summaries):
        rows = [_row(item) for item in summaries if item.dataset == dataset]
        columns = ["method", "accuracy %", "AUC", "fit, CPU time", "fit, wall time", ""]
        show(Table(columns, rows, "lrrrrl", title=describe(load(dataset))))


def _row(item: Summary) -> list[str]:
    remarks = []
    if item.missing:
        remarks.append(f"{item.missing} folds missing")
    if item.failed:
        remarks.append(f"{item.failed} folds FAILED")
    if item.warned:
        remarks.append(f"warnings in {item.warned} folds")
    title = METHODS[item.method].title
    if not item.folds:
        return [title, "-", "-", "-", "-", ", ".join(remarks)]
    accuracy = percent(item.accuracy, item.sd if item.sd == item.sd else None)
    times = [duration(item.fit_cpu_seconds), duration(item.fit_wall_seconds)]
    return [title, accuracy, f"{item.auc:.3f}", *times, ", ".join(remarks)]
