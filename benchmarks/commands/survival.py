"""``survival``: risks of patients by proportional hazards of instances and by rivals on features.

Concordance on new bags without censoring, over the share of deciding instances and of censored
training bags; see :mod:`benchmarks.common.survival` for the recipe. Penalties are chosen by folds
on the training bags. The rivals are estimators of scikit-survival behind means, maxima and
statistics of the bags. The true risk knows the recipe.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn.metrics import concordance_index
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import BagStatistics
from milearn.survival import MICoxPH

from ..common.memory import Stopwatch
from ..common.methods import scaler
from ..common.output import Table, duration, say, show
from ..common.runner import add_options, run
from ..common.survival import Cohort, draw_patients

HELP = "survival of bags: MICoxPH compared with scikit-survival on means, maxima and statistics"

SHARES, CENSORED = (1.0, 0.1, 0.03, 0.01, 0.005), (0.3, 0.6)
REPEATS, FOLDS = 5, 3
COSTS = (0.01, 0.1, 1.0)
STATISTICS = ("mean", "std", "min", "max")
TITLES = {
    "cox-max": "MICoxPH (max)",
    "cox-mean": "MICoxPH (mean)",
    "ridge-mean": "ridge Cox, means",
    "ridge-max": "ridge Cox, maxima",
    "ridge-statistics": "ridge Cox, statistics",
    "forest": "survival forest, statistics",
    "boosting": "boosting, statistics",
    "true": "true risk",
}


def model_of(name: str, seed: int) -> Any:
    """The estimator of a column, with its penalty by folds where it has one."""
    kind, _, what = name.partition("-")
    if kind == "cox":
        model = make_pipeline(scaler(False), MICoxPH(pooling=what))
        return _searched(model, {"micoxph__C": list(COSTS)}, seed)
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    rows = BagStatistics(STATISTICS if what in ("", "statistics") else (what,))
    boosting = {"learning_rate": 0.1, "max_depth": 2, "subsample": 0.5, "random_state": 0}
    model = {
        "ridge": CoxPHSurvivalAnalysis(),
        "forest": RandomSurvivalForest(min_samples_leaf=5, random_state=0),
        "boosting": GradientBoostingSurvivalAnalysis(**boosting),
    }[kind]
    model = make_pipeline(rows, StandardScaler(), model)
    grid = {"coxphsurvivalanalysis__alpha": [1 / C for C in COSTS]}
    return _searched(model, grid, seed) if kind == "ridge" else model


def _searched(model: Any, grid: dict[str, list[float]], seed: int) -> GridSearchCV:
    # The score of all of these estimators is Harrell's c.
    folds = StratifiedBagKFold(FOLDS, shuffle=True, random_state=seed)
    return GridSearchCV(model, grid, cv=folds)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, jobs=1, fast="small bags")
    words = f"draws (default: {REPEATS})"
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help=words)


_drawn = lru_cache(maxsize=1)(draw_patients)


def result_of(cohort: Cohort, seed: int, name: str) -> tuple[float, float]:
    """Concordance and CPU time of the fit of one method on one draw of a cohort."""
    data = _drawn(cohort, seed)
    if name == "true":
        return concordance_index(data.y_test, data.risk), np.nan
    model, watch = model_of(name, seed), Stopwatch()
    model.fit(data.train, data.y)
    seconds = watch.seconds()["cpu_seconds"]
    return float(concordance_index(data.y_test, model.predict(data.test))), seconds


def main(args: argparse.Namespace) -> None:
    methods = list(TITLES)
    if find_spec("sksurv") is None:
        say("The rivals are left out: scikit-survival is not installed (milearn[survival]).")
        methods = ["cox-max", "cox-mean", "true"]
    cohorts = [Cohort(200, 300, 200, 16, share, part) for share in SHARES for part in CENSORED]
    if args.fast:
        cohorts, args.repeats = [Cohort(40, 100, 20, 4, share, 0.3) for share in (1.0, 0.05)], 1
    tasks = [
        (cohort, seed, name)
        for cohort in cohorts
        for seed in range(args.repeats)
        for name in methods
    ]
    found = [each or (np.nan, np.nan) for each in run(args, result_of, tasks)]
    values = np.reshape(found, (len(cohorts), args.repeats, len(methods), 2))
    rows = []
    for cohort, means in zip(cohorts, values[..., 0].mean(axis=1), strict=True):
        best = max((mean for mean in means[:-1] if mean == mean), default=np.nan)
        cells = [
            "-" if mean != mean else f"{100 * mean:.1f}{'*' if mean == best else ' '}"
            for mean in means[:-1]
        ]
        cells.append(f"{100 * means[-1]:.1f} ")  # the true risk
        rows.append([f"{cohort.share:.1%}", f"{cohort.censored:.0%}", *cells])
    medians = np.median(values[..., 1], axis=(0, 1))
    rows.append(["fit, CPU time, median", "", *("-" if t != t else duration(t) for t in medians)])
    columns = ["deciding instances", "censored", *(TITLES[name] for name in methods)]
    show(Table(columns, rows))
    cohort = cohorts[0]
    say(
        f"Concordance x 100 on {cohort.n_test} new bags without censoring, mean over "
        f"{args.repeats} draw(s), {cohort.n_bags} training bags\nof {cohort.size} instances with "
        f"{cohort.n_features} features. A star marks the best of a row. Penalties by {FOLDS} folds."
    )
