"""``public``: nine real sets beyond the classical ones, each with its interval by bag.

Folds are those stored with a set, and two further divisions into five by
:class:`~milearn.model_selection.StratifiedBagKFold` with seeds 1 and 2. A set without stored folds
has three divisions, with seeds 0, 1 and 2; numbers are divided by scikit-learn's ``KFold``. Groups
stay together. Two bags are compared within the folds of a division only, because the scores of two
models have no common scale. The intervals hold for the bags that a model did not see: bags, or
groups, are drawn again with the scores that they have. What another training set would change is
not in them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import MIRegressor
from milearn.discriminant_analysis import ShareRegressor
from milearn.inspection import instance_scores
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import BagStatistics
from milearn.svm import MISVR, BagSVR

from ..common.data import PUBLIC, load_file, path_of
from ..common.memory import Stopwatch
from ..common.methods import METHODS, scaler, seeded
from ..common.nets import NETS, has_nets, make_nets
from ..common.output import SUFFIX, Table, duration, percent, read_page, say, show
from ..common.runner import add_options, run, source_digest

HELP = "nine real sets of public repositories: AUC or R2 with 95 % intervals by bag"

NET = "gated-attention"
NAMES = (
    *("default", "all-bagsvc", "all-misvc", "share-default"),
    *("plain-logistic", "plain-statistics", "plain-trees", NET),
)
TITLES = {name: METHODS[name].title for name in NAMES[:-1]} | {NET: NETS[NET]}
STATISTICS = ("mean", "min", "max", "std")
# The same methods for numbers: ridge regression in the place of logistic regression.
_RIDGE = (StandardScaler(), RidgeCV(np.logspace(-2, 4, 7)))
REGRESSORS = {
    "default": MIRegressor(),
    "all-bagsvc": BagSVR(),
    "all-misvc": make_pipeline(scaler(False), MISVR()),
    "share-default": ShareRegressor(),
    "plain-logistic": make_pipeline(BagStatistics(("mean",)), *_RIDGE),
    "plain-statistics": make_pipeline(BagStatistics(STATISTICS), *_RIDGE),
    "plain-trees": make_pipeline(BagStatistics(STATISTICS), ExtraTreesRegressor(300)),
}
N_SPLITS, DRAWS, LEVELS = 3, 1000, (2.5, 97.5)
COLUMNS = ("data", "method", "AUC or R2 x 100", "low", "high", "accuracy %", "AUC of instances")
COLUMNS += ("fit, CPU time", "splits", "package")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, jobs=1)
    names = [name.removeprefix("public/") for name in PUBLIC]
    for name, choices in (("sets", names), ("methods", NAMES)):
        words = f"of {', '.join(choices)}; other rows of a kept table stay (default: all)"
        parser.add_argument(
            f"--{name}", nargs="+", choices=choices, default=choices, metavar="NAME", help=words
        )
    parser.add_argument("--splits", type=int, default=N_SPLITS, metavar="N")


def main(args: argparse.Namespace) -> None:
    tasks = [
        (f"public/{name}", method, split)
        for split in range(args.splits)
        for name in args.sets
        for method in args.methods
        if method != NET or has_nets()
    ]
    found = dict(zip(tasks, run(args, held_out, tasks), strict=True))
    # A run of some rows takes the others from the table that it replaces.
    path = args.out / f"public{SUFFIX}"
    rows = {tuple(row[:2]): row for row in read_page(path).tables[0].rows} if path.is_file() else {}
    for data, method in dict.fromkeys(task[:2] for task in tasks):
        results = [found[data, method, split] for split in range(args.splits)]
        # A method has no scores of a task that it does not solve, and a failed one no result.
        if all(each and each["scores"] for each in results):
            name = data.removeprefix("public/")
            cells = summary(data, results)
            rows[name, TITLES[method]] = [
                *(name, TITLES[method], *cells, str(args.splits), source_digest("milearn"))
            ]
    order = [(name.removeprefix("public/"), title) for name in PUBLIC for title in TITLES.values()]
    kept = [rows[key] for key in order if key in rows]
    title = "public sets: AUC, or R2 of chembl1862, of bags left out, with 95 % intervals by bag"
    show(Table(COLUMNS, kept, "ll" + "r" * (len(COLUMNS) - 2), title=title))
    say(
        f"Stored folds and two further divisions into five; intervals by {DRAWS} draws of bags. "
        "Several classes:\nmean of each against the others. Net: mean of three. AUC of instances: "
        "labels above 0 are positive.\npackage: state of the sources (milearn_source) of each row."
    )
    if not has_nets():
        say("The net was left out: torchmil is not installed (pip install 'milearn[nets]').")


def outcome(bunch: Any) -> np.ndarray:
    """Numbers, or classes from 0 on."""
    y = np.asarray(bunch.target)
    return y if y.dtype.kind == "f" else np.unique(y, return_inverse=True)[1]


def folds_of(name: str, split: int) -> np.ndarray:
    """The fold of each bag."""
    bunch = load_file(name)
    with np.load(path_of(name)) as file:
        if split == 0 and "fold" in file:
            return file["fold"]
    kind = StratifiedBagKFold if outcome(bunch).dtype.kind != "f" else KFold
    cv, folds = kind(5, shuffle=True, random_state=split), np.zeros(len(bunch.data), int)
    for number, (_, test) in enumerate(cv.split(bunch.data, outcome(bunch), bunch.get("groups"))):
        folds[test] = number
    return folds


def held_out(name: str, method: str, split: int) -> dict[str, Any]:
    """Scores of all bags by models that did not see them, one row per model of the method."""
    bunch, folds = load_file(name), folds_of(name, split)
    bags, y = bunch.data, outcome(bunch)
    numbers = y.dtype.kind == "f"
    if method == NET:
        models = make_nets(NET) if len(np.unique(y)) == 2 else []
    else:
        models = [seeded(REGRESSORS[method]) if numbers else METHODS[method].model(False)]
    found: dict[str, Any] = {"scores": [], "correct": [], "seconds": [], "instances": []}
    for model in models:
        scores = np.zeros((len(bags), 1 if numbers or y.max() == 1 else int(y.max()) + 1))
        for fold in np.unique(folds):
            test, watch = folds == fold, Stopwatch()
            model.fit(bags[~test], y[~test])
            found["seconds"].append(watch.seconds()["cpu_seconds"])
            scores[test] = columns(model, bags[test], scores.shape[1])
            if hasattr(model, "predict") and not numbers:
                found["correct"] += (model.predict(bags[test]) == y[test]).tolist()
            last = getattr(model, "steps", [("", model)])[-1][1]
            if "instance_labels" in bunch and hasattr(last, "instance_decision_function"):
                labels = np.asarray(bunch.instance_labels)[test[bags.bag_index]] > 0
                area = roc_auc_score(labels, instance_scores(model, bags[test]))
                found["instances"].append(float(area))
        found["scores"].append(scores)
    return found


def columns(model: Any, bags: Any, n_columns: int) -> np.ndarray:
    """Scores of the second of two classes, of each of several, or predicted numbers."""
    for name in ("decision_function", "predict_proba", "predict"):
        if hasattr(model, name):
            return getattr(model, name)(bags).reshape(len(bags), -1)[:, -n_columns:]
    raise TypeError(f"{type(model).__name__} has no scores.")


def summary(name: str, results: list[dict[str, Any]]) -> Iterator[str]:
    """Figure and interval, accuracy, AUC of instances, and CPU time of a fit."""
    bunch = load_file(name)
    y, units = outcome(bunch), np.arange(len(bunch.data))
    if bunch.get("groups") is not None:
        units = np.unique(bunch.groups, return_inverse=True)[1]
    n_units = units.max() + 1
    rng = np.random.default_rng(0)
    draws = rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=DRAWS)[:, units]
    weights = np.vstack([np.ones(len(y)), draws])
    scores = [
        (each, folds_of(name, split))
        for split, result in enumerate(results)
        for each in result["scores"]
    ]
    figures = determination(y, scores, weights) if y.dtype.kind == "f" else area(y, scores, weights)
    yield percent(figures[0])
    yield from map(percent, np.nanpercentile(figures[1:], LEVELS))
    for key in ("correct", "instances"):
        values = [value for result in results for value in result[key]]
        yield percent(float(np.mean(values))) if values else "-"
    yield duration(float(np.mean([value for each in results for value in each["seconds"]])))


def area(y: np.ndarray, scores: list[Any], weights: np.ndarray) -> np.ndarray:
    """AUC of pairs of the same fold for each row of weights, mean over the classes."""
    areas = []
    for label in range(1, 2) if y.max() == 1 else range(y.max() + 1):
        inside = y == label
        won = together = np.zeros((inside.sum(), (~inside).sum()))
        for columns, folds in scores:
            of = columns[:, label if columns.shape[1] > 1 else 0]
            same = folds[inside][:, None] == folds[~inside]
            above = of[inside][:, None] - of[~inside]
            won, together = won + same * (0.5 + 0.5 * np.sign(above)), together + same
        left, right = weights[:, inside].T, weights[:, ~inside].T
        areas.append((left * (won @ right)).sum(axis=0) / (left * (together @ right)).sum(axis=0))
    return np.mean(areas, axis=0)


def determination(y: np.ndarray, scores: list[Any], weights: np.ndarray) -> np.ndarray:
    """R2 of predicted numbers for each row of weights."""
    wrong = np.mean([(columns[:, 0] - y) ** 2 for columns, _ in scores], axis=0)
    mean = weights @ y / weights.sum(axis=1)
    return 1 - weights @ wrong / (weights * (y - mean[:, None]) ** 2).sum(axis=1)
