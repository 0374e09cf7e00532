"""``scale coverage``: how often intervals of cross-validated scores contain what they estimate."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline

from milearn import Bags
from milearn.model_selection import StratifiedBagKFold, compare
from milearn.preprocessing import BagStatistics

from ..common.output import Table, show

WORLDS, N_NEW, N_FOLDS = 200, 2000, 5
# Score, effect of the classes or values on the first feature.
SCORES = (("roc_auc", 1.0), ("roc_auc", 2.2), ("accuracy", 1.0), ("r2", 1.0))
# Number of units, and bags of each.
DESIGNS = ((40, 1), (100, 1), (30, 3), (60, 3))


def world(rng: Any, n_units: int, per: int, effect: float, valued: bool) -> tuple[Bags, Any, Any]:
    """Bags of three instances, their labels, and the units, which have an effect of their own."""
    unit = np.repeat(np.arange(n_units), per)
    centre, y = rng.normal(size=(n_units, 4)), np.arange(n_units) % 2
    if valued:
        y = effect * centre[:, 0] + rng.normal(size=n_units)
    else:
        centre[:, 0] += effect * y
    rows = centre[np.repeat(unit, 3)] + rng.normal(size=(3 * len(unit), 4))
    return Bags(rows, np.arange(0, len(rows) + 1, 3)), y[unit], unit


def one(seed: int, n_units: int, per: int, score: str, effect: float) -> tuple[float, ...]:
    """The ends of the interval, and the score of the same models on many new bags."""
    rng, valued = np.random.default_rng(seed), score == "r2"
    X, y, groups = world(rng, n_units, per, effect, valued)
    new = world(rng, N_NEW, per, effect, valued)[:2]
    last = Ridge() if valued else LogisticRegression()
    model = make_pipeline(BagStatistics(("mean",)), last)
    folds = GroupKFold(N_FOLDS) if valued else StratifiedBagKFold(N_FOLDS)
    splits = list(folds.split(X, y, groups))
    data = (X, y) if per == 1 else (X, y, groups)
    found = compare({"model": model}, {"bags": data}, cv=splits, scoring=score)
    scorer = get_scorer(score)
    truth = np.mean([scorer(clone(model).fit(X[t], y[t]), *new) for t, _ in splits])
    return (*found.intervals()[0, 0], truth)


def coverage(args: argparse.Namespace) -> None:
    n_worlds, rows = 3 if args.fast else args.repeats or WORLDS, []
    for n_units, per in DESIGNS:
        for score, effect in SCORES:
            found = [one(seed, n_units, per, score, effect) for seed in range(n_worlds)]
            low, high, truth = np.transpose(found)
            shares = [(low <= truth) & (truth <= high), truth < low, truth > high]
            cells = [f"{100 * each.mean():.1f}" for each in shares]
            units = f"{n_units} bags" if per == 1 else f"{n_units} groups of {per} bags"
            width = np.median(high - low)
            rows.append([units, score, f"{truth.mean():.2f}", "95", *cells, f"{width:.2f}"])
    columns = ("units", "score", "mean", "nominal", "found", "truth below", "above", "width")
    note = (
        f"{n_worlds} worlds, {N_FOLDS} folds. Found: percentage of the intervals of compare that "
        "contain the score of the same models on new bags. Width: median."
    )
    show(Table(columns, rows, "ll" + 6 * "r", note=note))


REPORTS = {"coverage": ("coverage of the 95 % intervals of cross-validated scores", coverage)}
