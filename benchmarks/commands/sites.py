"""``sites``: folds that keep sites together, exact compared with greedy.

Sites have sizes with a heavy tail and different class proportions, as hospitals have. The deviation
is the share of the bags of a class that would have to change fold for equal counts, averaged over
the classes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from milearn.model_selection import SiteFolds, SiteKFold

from ..common.output import RESULTS
from ..common.page import say, show
from ..common.table import Table, duration

HELP = "folds that keep sites together: exact and greedy, with gaps and times"


@dataclass(frozen=True)
class Cohort:
    """Numbers of sites, patients, classes and folds."""

    sites: int
    patients: int
    classes: int
    folds: int


COHORTS = (
    Cohort(12, 100, 2, 3),
    Cohort(30, 300, 2, 5),
    Cohort(36, 1000, 2, 3),
    Cohort(40, 900, 4, 5),
    Cohort(60, 600, 3, 5),
    Cohort(200, 2000, 2, 5),
    Cohort(200, 2000, 4, 5),
    Cohort(200, 2000, 2, 10),
    Cohort(200, 2000, 6, 5),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="folder of the results (default: benchmarks/results)",
    )
    parser.add_argument("--draws", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument(
        "--time-limit", type=float, default=60.0, metavar="S", help="default: 60 seconds"
    )


def main(args: argparse.Namespace) -> int:
    rows = [_row(cohort, args.draws, args.time_limit) for cohort in COHORTS]
    columns = [
        *("sites", "patients", "classes", "folds", "greedy %", "exact %", "bound %"),
        *("proved", "largest gap %", "longest time"),
    ]
    show(Table(columns, rows, "r" * len(columns), title="Folds that keep sites together"))
    say(
        f'\nMeans over {args.draws} draws of the deviation of the class counts; "proved" counts '
        "the draws whose\nfolds are proved to be the best. Wall time of SiteKFold.assign, limit "
        f"{args.time_limit:g} s."
    )
    return 0


def _row(cohort: Cohort, draws: int, time_limit: float) -> list[str]:
    found, seconds = [], []
    for seed in range(draws):
        y, site = draw(cohort, seed)
        begin = time.perf_counter()
        found.append(_assigned(cohort, y, site, time_limit))
        seconds.append(time.perf_counter() - begin)
    greedy = [each.greedy_deviation for each in found]
    return [
        *map(str, (cohort.sites, cohort.patients, cohort.classes, cohort.folds)),
        f"{100 * np.mean(greedy):.3f}",
        f"{100 * np.mean([each.deviation for each in found]):.3f}",
        f"{100 * np.mean([each.bound for each in found]):.3f}",
        f"{sum(each.is_optimal for each in found)} of {draws}",
        f"{100 * max(each.gap for each in found):.3f}",
        duration(max(seconds)),
    ]


def _assigned(cohort: Cohort, y: np.ndarray, site: np.ndarray, time_limit: float) -> SiteFolds:
    splitter = SiteKFold(cohort.folds, time_limit=time_limit)
    with warnings.catch_warnings():
        # The table shows the gap.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return splitter.assign(np.zeros((len(y), 1)), y, site)


def draw(cohort: Cohort, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Class and site of each patient; every site has a patient."""
    rng = np.random.default_rng(seed)
    popular = rng.lognormal(0, 1.2, size=cohort.sites)
    drawn = rng.choice(cohort.sites, cohort.patients - cohort.sites, p=popular / popular.sum())
    site = np.append(np.arange(cohort.sites), drawn)
    proportions = rng.dirichlet(np.full(cohort.classes, 2.0), size=cohort.sites)
    y = (rng.random(len(site))[:, None] > proportions.cumsum(axis=1)[site, :-1]).sum(axis=1)
    return y, site
