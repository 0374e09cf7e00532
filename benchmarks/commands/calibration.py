"""``calibration``: probabilities of MIClassifier, and values of MIRegressor, compared with rivals.

Bags of ten instances of which one decides, and that no classifier separates. Training and test bags
come from the same draw. The slope is that of a logistic regression of the classes on the stated log
odds, over the test bags of all draws: 1 is right, and below 1 probabilities are too extreme.
"""

from __future__ import annotations

import argparse
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

from ..common.methods import seeded
from ..common.output import Table, say, show
from ..common.runner import add_options, run

HELP = "probabilities of MIClassifier (slope, Brier score), and MIRegressor, trees and SVR"

N_BAGS, DRAWS, N_TEST = (40, 100, 200), 6, 400
# Number of classes, and the share of the positive ones or of each.
CLASSES = ((3, 1 / 3), (2, 1 / 21), (2, 1 / 2))
REGRESSORS = ("MIRegressor", "trees", "SVR")
LOWEST = 1e-12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, jobs=1, fast="40 bags, one draw")
    parser.add_argument("--bags", nargs="+", type=int, default=list(N_BAGS), metavar="N")
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N", help="default: 6")


def main(args: argparse.Namespace) -> None:
    if args.fast:
        args.bags, args.draws = [40], 1
    draws = range(args.draws)
    # Whole draws first.
    tasks = [(n, *kind, draw) for draw in draws for n in args.bags for kind in CLASSES]
    values = [(n, name, draw) for draw in draws for n in args.bags for name in REGRESSORS]
    stated = dict(zip(tasks, run(args, stated_and_true, tasks), strict=True))
    r2 = dict(zip(values, run(args, r2_of, values), strict=True))
    rows = []
    for kind in CLASSES:
        for n in args.bags:
            parts = [each for draw in draws if (each := stated[n, *kind, draw]) is not None]
            if parts:
                rows.append([_words(*kind), str(n), *cells_of(parts)])
    columns = ["classes", "training bags", "slope", "Brier", "Brier of the rates", "AUC x 100"]
    title = (
        "probabilities of MIClassifier for new bags; a slope of 1 and a Brier score of 0 are best"
    )
    show(Table(columns, rows, title=title))
    say(f"Slopes and AUC over the {N_TEST} test bags of all draws together.")
    rows = [
        [str(n), *(f"{np.mean([r2[n, name, draw] for draw in draws]):.3f}" for name in REGRESSORS)]
        for n in args.bags
    ]
    title = "R2 on new bags, mean over draws; trees and SVR on mean, min, max, sd"
    show(Table(["training bags", *REGRESSORS], rows, title=title))


def _words(n_classes: int, share: float) -> str:
    return f"{'two' if n_classes == 2 else 'three'} classes, 1:{round(1 / share) - 1}"


def stated_and_true(
    n: int, n_classes: int, share: float, draw: int
) -> tuple[np.ndarray, np.ndarray]:
    """Stated probabilities and classes of test bags."""
    bags, y = _classes(n, n_classes, share, draw)
    model = MIClassifier(random_state=0).fit(bags[:n], y[:n])
    return model.predict_proba(bags[n:]), y[n:]


def _classes(n: int, n_classes: int, share: float, draw: int) -> tuple[Bags, np.ndarray]:
    """Shuffled bags; of three classes, the last two have a concept each."""
    n_bags = n + N_TEST
    if n_classes == 2:
        bags, y = make_bags(
            n_bags,
            bag_size=10,
            concept_distance=3.0,
            positive_fraction=share,
            flip_y=0.05 if share == 1 / 2 else 0.0,
            random_state=draw,
        )
    else:
        rng = np.random.RandomState(draw)
        y = np.arange(n_bags) % 3
        instances = rng.normal(size=(n_bags, 10, 10))
        for kind in (1, 2):
            instances[y == kind, 0, kind] += 4.0
        bags = Bags(instances.reshape(-1, 10), np.arange(n_bags + 1) * 10)
    # The proportions of the training bags are those of the test bags.
    order = np.random.RandomState(draw).permutation(n_bags)
    at = np.empty(n_bags)
    for code in np.unique(y):
        members = np.flatnonzero(y[order] == code)
        at[members] = (np.arange(len(members)) + 0.5) / len(members)
    train = np.zeros(n_bags, dtype=bool)
    train[np.argsort(at, kind="stable")[:n]] = True
    order = np.concatenate([order[train], order[~train]])
    return bags[order], y[order]


def r2_of(n: int, name: str, draw: int) -> float:
    """R2 on new bags of MIRegressor, or of a regressor on statistics."""
    bags, y = make_affinity(n + N_TEST, random_state=draw)
    y = y + 0.5 * np.std(y) * np.random.RandomState(draw).normal(size=n + N_TEST)
    statistics = BagStatistics(("mean", "min", "max", "std"))
    search = GridSearchCV(SVR(), {"C": [0.01, 0.1, 1.0, 10.0]}, cv=5)
    models = {
        "MIRegressor": MIRegressor(),
        "trees": make_pipeline(statistics, ExtraTreesRegressor(300, min_samples_leaf=2)),
        "SVR": make_pipeline(statistics, StandardScaler(), search),
    }
    model: Any = seeded(models[name])
    return float(r2_score(y[n:], model.fit(bags[:n], y[:n]).predict(bags[n:])))


def brier_score(stated: np.ndarray, truth: np.ndarray) -> float:
    """Mean squared difference of probabilities and classes; of two classes, of the second one."""
    if stated.shape[1] == 2:
        return float(np.mean((stated[:, 1] - truth) ** 2))
    return float(np.mean(np.sum((stated - np.eye(stated.shape[1])[truth]) ** 2, axis=1)))


def cells_of(parts: list[tuple[np.ndarray, np.ndarray]]) -> list[str]:
    """Slope, Brier scores and AUC of the draws together."""
    stated, truth = (np.concatenate(each) for each in zip(*parts, strict=True))
    clipped = np.clip(stated, LOWEST, 1 - LOWEST)
    log_odds = np.log(clipped) - np.log1p(-clipped)
    slopes, areas = [], []
    for code in [1] if stated.shape[1] == 2 else range(stated.shape[1]):
        model = LogisticRegression(C=1e6).fit(log_odds[:, [code]], truth == code)
        slopes.append(model.coef_[0, 0])
        areas.append(roc_auc_score(truth == code, stated[:, code]))
    constant = np.tile(np.bincount(truth) / len(truth), (len(truth), 1))
    return [
        f"{np.mean(slopes):.2f}",
        f"{brier_score(stated, truth):.3f}",
        f"{brier_score(constant, truth):.3f}",
        f"{100 * np.mean(areas):.1f}",
    ]
