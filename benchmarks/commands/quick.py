"""``quick``: every family of estimators on small data in half a minute, as a first look."""

from __future__ import annotations

import argparse

import numpy as np
from joblib import cpu_count
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
from milearn.model_selection import compare
from milearn.preprocessing import BagStatistics, InstanceTransformer
from milearn.svm import BagSVR, CoupledMISVR

from ..common.data import find_data_dir
from ..common.folds import (
    Records,
    Timed,
    add_methods,
    cross_validated,
    mean,
    repeated,
    show_folds,
    spread,
)
from ..common.memory import Stopwatch
from ..common.methods import scaler
from ..common.output import Table, duration, percent, say, show
from ..common.runner import add_options

HELP = "every family of estimators on embedded data (and Musk1 where it is), in half a minute"

METHODS = (
    *("plain-mean", "plain-minmax", "all-single", "default", "all-bagsvc", "all-misvc"),
    *("all-misvc-l1", "all-instancemisvc", "all-sdpmil", "all-milsd", "all-dpboost", "all-miles"),
    *("all-citation", "all-dd", "all-milboost", "all-fisher"),
)
# Every third bag is of one kind: a digit that a third of its instances show, and no other bag need.
KINDS = (0, 4, 7)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, jobs=cpu_count(), fast="tiny data")
    add_methods(parser, ("digits", "concept", "musk1"), METHODS)


def main(args: argparse.Namespace) -> None:
    if args.fast:
        args.datasets = ["digits-tiny", "concept-tiny"]
    elif "musk1" in args.datasets and find_data_dir() is None:
        args.datasets.remove("musk1")
        say("musk1 is left out: no data folder (set MILEARN_DATA to one that holds musk1.npz).")
    folds = 2 if args.fast else 5

    def over_folds(records: Records) -> str:
        return percent(mean(records, "accuracy"), spread([each["accuracy"] for each in records]))

    show_folds(cross_validated(args, args.datasets, args.methods, repeated(folds)), over_folds)
    say(
        f"\n{folds}-fold cross-validation over bags, default settings; for methods that embed "
        "bags,\nC is chosen by inner folds. accuracy: mean +- standard deviation over the folds."
    )
    n_bags = 18 if args.fast else 60
    show_regressors(args, n_bags, folds)
    show_clusterers(n_bags)


def show_regressors(args: argparse.Namespace, n_bags: int, folds: int) -> None:
    X, y = make_affinity(n_bags, 10, n_relevant=6, random_state=0)
    regressors: dict[str, BaseEstimator] = {
        "mean, SVR": make_pipeline(BagStatistics("mean"), StandardScaler(), SVR()),
        "MIRegressor": MIRegressor(random_state=0),
        "BagSVR": BagSVR(),
        "MISVR": make_pipeline(scaler(False), CoupledMISVR()),
    }
    found = compare(
        {name: Timed(model) for name, model in regressors.items()},
        {"": (X, y)},
        cv=KFold(folds, shuffle=True, random_state=0),
        scoring=squared_error,
        n_jobs=args.jobs,
    )
    rows = []
    for name in regressors:
        records = [each for each in found.records if each["estimator"] == name]
        error = mean(records, "squared error") / np.var(y)
        rows.append([name, f"{error:.2f}", duration(mean(records, "cpu_seconds"))])
    columns = ["method", "squared error / variance", "fit, CPU time"]
    show(Table(columns, rows, title=f"molecules: regression of {n_bags} generated bags"))


def squared_error(timed: Timed, X: Bags, y: np.ndarray) -> dict[str, float]:
    error = float(np.mean((timed.fitted_.predict(X) - y) ** 2))
    return {"squared error": error, "cpu_seconds": timed.cpu_seconds_}


def show_clusterers(n_bags: int) -> None:
    share = n_bags // len(KINDS)
    parts = [
        load_digit_bags(
            share, digit=kind, positive_fraction=1.0, witness_rate=0.3, random_state=kind
        ).data
        for kind in KINDS
    ]
    rows = []
    for name, steps in {
        "mean, KMeans": (BagStatistics("mean"), KMeans(3, n_init=10, random_state=0)),
        "M3IC": (M3IC(3, C=100.0, random_state=0),),
        "BAMIC": (BAMIC(3, metric="mean", random_state=0),),
    }.items():
        model, watch = (
            make_pipeline(scaler(False), InstanceTransformer(Normalizer()), *steps),
            Stopwatch(),
        )
        found = model.fit_predict(Bags.concatenate(parts))
        seconds = watch.seconds()["cpu_seconds"]
        accuracy = clustering_accuracy(np.repeat(KINDS, share), found)
        rows.append([name, percent(accuracy), duration(seconds)])
    title = f"kinds: clustering of {n_bags} bags of digits into {len(KINDS)} kinds"
    show(Table(["method", "accuracy %", "fit, CPU time"], rows, title=title))
