"""``survival``: risks of patients by proportional hazards of instances and by rivals on features.

Concordance on new bags without censoring, over the share of deciding instances and of censored
training bags; see :mod:`benchmarks.common.survival` for the recipe. Penalties are chosen by folds
on the training bags. The rivals are estimators of scikit-survival behind means, maxima and
statistics of the bags. The true risk knows the recipe.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn.metrics import concordance_index
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import BagStatistics, InstanceTransformer
from milearn.survival import MICoxPH

from ..common.memory import Stopwatch
from ..common.output import Table, add_common_options, duration, say, show
from ..common.protocol import run
from ..common.records import RecordFile, digest, record_of
from ..common.reports import finish
from ..common.survival import Cohort, Patients, draw_patients

HELP = "survival of bags: MICoxPH compared with scikit-survival on means, maxima and statistics"

SHARES, CENSORED = (1.0, 0.1, 0.03, 0.01, 0.005), (0.3, 0.6)
REPEATS, FOLDS = 5, 3
COSTS = (0.01, 0.1, 1.0)
TRUE = "true"


@dataclass(frozen=True)
class Method:
    """A column of the table."""

    title: str
    build: Callable[[], BaseEstimator]
    grid: dict[str, list[float]]
    needs_scikit_survival: bool = True


def _bags(pooling: str) -> Method:
    def build() -> BaseEstimator:
        return make_pipeline(InstanceTransformer(StandardScaler()), MICoxPH(pooling=pooling))

    return Method(f"MICoxPH ({pooling})", build, {"micoxph__C": [*COSTS]}, False)


def _ridge(title: str, statistics: Sequence[str]) -> Method:
    def build() -> BaseEstimator:
        from sksurv.linear_model import CoxPHSurvivalAnalysis

        return _behind(statistics, CoxPHSurvivalAnalysis())

    return Method(title, build, {"coxphsurvivalanalysis__alpha": [1 / C for C in COSTS]})


def _forest() -> BaseEstimator:
    from sksurv.ensemble import RandomSurvivalForest

    return _behind(STATISTICS, RandomSurvivalForest(min_samples_leaf=5, random_state=0))


def _boosting() -> BaseEstimator:
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis

    model = GradientBoostingSurvivalAnalysis(
        learning_rate=0.1, max_depth=2, subsample=0.5, random_state=0
    )
    return _behind(STATISTICS, model)


def _behind(statistics: Sequence[str], model: BaseEstimator) -> BaseEstimator:
    return make_pipeline(BagStatistics(tuple(statistics)), StandardScaler(), model)


STATISTICS = ("mean", "std", "min", "max")
METHODS = {
    "cox-max": _bags("max"),
    "cox-mean": _bags("mean"),
    "ridge-mean": _ridge("ridge Cox, means", ["mean"]),
    "ridge-max": _ridge("ridge Cox, maxima", ["max"]),
    "ridge-statistics": _ridge("ridge Cox, statistics", STATISTICS),
    "forest": Method("survival forest, statistics", _forest, {}),
    "boosting": Method("boosting, statistics", _boosting, {}),
}
TITLES = {**{name: method.title for name, method in METHODS.items()}, TRUE: "true risk"}


@dataclass(frozen=True)
class SurvivalTask:
    """One method on one draw of a cohort."""

    cohort: Cohort
    method: str
    seed: int

    @property
    def dataset(self) -> str:
        """Of the progress bar."""
        return f"{self.cohort.share:.1%} deciding, {self.cohort.censored:.0%} censored"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that changes the result, for the record and for its key."""
        method = METHODS.get(self.method)
        model = "" if method is None else " ".join(repr(method.build()).split())
        return {"model": model, "grid": {} if method is None else method.grid}

    @property
    def key(self) -> str:
        name = f"survival/{digest(self.cohort.__dict__)}/{self.method}/{self.seed}"
        return f"{name}@{digest(self.settings)}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_options(parser)
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, metavar="N", help=f"draws (default: {REPEATS})"
    )
    parser.add_argument(
        "--methods", nargs="+", choices=list(TITLES), default=list(TITLES), metavar="NAME"
    )
    parser.add_argument("--fast", action="store_true", help="small bags: a look, not a result")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")


def main(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    methods = args.methods
    if find_spec("sksurv") is None:
        say("The rivals are left out: scikit-survival is not installed (milearn[survival]).")
        methods = [name for name in methods if not _is_rival(name)]
    cohorts = [Cohort(200, 300, 200, 16, share, part) for share in SHARES for part in CENSORED]
    repeats = args.repeats
    if args.fast:
        cohorts, repeats = [Cohort(40, 100, 20, 4, share, 0.3) for share in (1.0, 0.05)], 1
        say("--fast: small bags, a look and not a result.\n")
    tasks = [
        SurvivalTask(cohort, method, seed)
        for cohort in cohorts
        for seed in range(repeats)
        for method in methods
    ]
    with RecordFile(args.out / "survival.jsonl", fresh=args.fresh) as file:
        records, complete = run(tasks, file, jobs=args.jobs, label="survival", function=run_task)
    show(table_of(tasks, records, repeats))
    status = finish(records, complete, file, len(tasks))
    print(f"time:    {time.perf_counter() - start:.0f} s")
    return status


def _is_rival(name: str) -> bool:
    return name in METHODS and METHODS[name].needs_scikit_survival


# -- one task --------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _patients(cohort: Cohort, seed: int) -> Patients:
    return draw_patients(cohort, seed)


def run_task(task: SurvivalTask) -> dict[str, Any]:
    """The record of a task."""
    return record_of(task, _result, dataset=task.dataset, parameters=task.settings)


def _result(task: SurvivalTask) -> dict[str, Any]:
    data = _patients(task.cohort, task.seed)
    if task.method == TRUE:
        return {"concordance": concordance_index(data.y_test, data.risk), "fit_cpu_seconds": 0.0}
    method = METHODS[task.method]
    folds = StratifiedBagKFold(FOLDS, shuffle=True, random_state=task.seed)
    # The score of all of these estimators is Harrell's c.
    model = GridSearchCV(method.build(), method.grid, cv=folds) if method.grid else method.build()
    watch = Stopwatch()
    model.fit(data.train, data.y)
    seconds = watch.seconds("fit_")
    risks = model.predict(data.test)
    chosen = getattr(model, "best_params_", {})
    return {"concordance": concordance_index(data.y_test, risks), "chosen": chosen, **seconds}


# -- the table -------------------------------------------------------------------------------------


def table_of(
    tasks: Sequence[SurvivalTask], records: dict[str, dict[str, Any]], repeats: int
) -> Table:
    """One row per cohort, one column per method; the best mean but the true risk has a star."""
    methods = list(dict.fromkeys(task.method for task in tasks))
    found: dict[tuple[Cohort, str], list[float]] = {}
    times: dict[str, list[float]] = {name: [] for name in methods}
    for task in tasks:
        result = records.get(task.key, {}).get("result", {})
        value = result.get("concordance", np.nan)
        found.setdefault((task.cohort, task.method), []).append(value)
        times[task.method].append(result.get("fit_cpu_seconds", np.nan))
    rows = []
    for cohort in dict.fromkeys(task.cohort for task in tasks):
        means = [float(np.mean(found[cohort, name])) for name in methods]
        rivals = [mean for name, mean in zip(methods, means, strict=True) if name != TRUE]
        best = max((mean for mean in rivals if mean == mean), default=np.nan)
        cells = [
            _cell(mean, name != TRUE and mean == best)
            for name, mean in zip(methods, means, strict=True)
        ]
        rows.append([f"{cohort.share:.1%}", f"{cohort.censored:.0%}", *cells])
    medians = [float(np.median(times[name])) if name != TRUE else np.nan for name in methods]
    rows.append(["fit, CPU time, median", "", *("-" if t != t else duration(t) for t in medians)])
    cohort = tasks[0].cohort
    note = (
        f"Concordance x 100 on {cohort.n_test} new bags without censoring, mean over {repeats} "
        f"draw(s), {cohort.n_bags} training bags\nof {cohort.size} instances with "
        f"{cohort.n_features} features. A star marks the best of a row. Penalties by {FOLDS} folds."
    )
    columns = ["deciding instances", "censored", *(TITLES[name] for name in methods)]
    return Table(columns, rows, note=note)


def _cell(mean: float, best: bool) -> str:
    return "-" if mean != mean else f"{100 * mean:.1f}{'*' if best else ' '}"
