"""``ratios``: a fit of each family compared with plain scikit-learn, in half a minute.

Seconds of two computers cannot be compared; ratios within one process can, and a change for the
worse is seen by the factor to the kept figures.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from milearn import Bags, MIClassifier
from milearn.baselines import EMDD, MILES, CitationKNN
from milearn.cluster import M3IC
from milearn.datasets import make_bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.structured import MILSD
from milearn.svm import MISVC, SDPMIL, BagSVC, CoupledMISVC, InstanceMISVC

from ..common.output import RESULTS, SUFFIX, Table, read_page, say, show

HELP = "fits of each family compared with plain scikit-learn, as ratios; CI prints them"

# A ratio is the least of so many, each of fits that follow on each other.
ROUNDS = 3
# So many predictions of one bag are averaged.
PREDICTIONS = 20
WORSE = 1.5
KEPT = Path(__file__).resolve().parents[2] / "docs" / "results" / f"ratios{SUFFIX}"


@dataclass(frozen=True)
class Pair:
    """An estimator and the plain one on the instances of the same bags."""

    name: str
    ours: BaseEstimator
    plain: BaseEstimator
    n_bags: int
    n_features: int = 20


def pairs() -> list[Pair]:
    """What is compared."""
    linear, kernel = LinearSVC(), SVC(C=1.0)
    quick: dict[str, Any] = {"tol": 1e-2, "n_estimators": 50}
    return [
        Pair("MISVC, linear, by passes", MISVC(kernel="linear", C=1.0), linear, 2000),
        Pair("MISVC, linear, slack of instances", _by_instance(), linear, 2000),
        Pair("MISVC, RBF", MISVC(C=1.0), kernel, 60),
        Pair("CoupledMISVC", CoupledMISVC(C=1.0), kernel, 60),
        Pair("InstanceMISVC, RBF", InstanceMISVC(C=1.0), kernel, 60),
        Pair("SDPMIL, RBF", SDPMIL(C=1.0), kernel, 60),
        Pair("BagSVC", BagSVC(), kernel, 200),
        Pair("MIClassifier", MIClassifier(random_state=0), kernel, 100),
        Pair("MILSD, graph of neighbours", MILSD(graph="knn", C=10.0, mu=1.0), linear, 60),
        Pair("M3IC, 4 clusters", M3IC(n_clusters=4, n_init=1, random_state=0), _means(), 200),
        Pair("DPBoost", DPBoost(**quick), GradientBoostingClassifier(), 60),
        Pair("LPBoost", LPBoost(**quick), GradientBoostingClassifier(), 60),
        Pair("MILES", MILES(), kernel, 60),
        Pair("EMDD", EMDD(n_init=1), kernel, 60, 5),
        Pair("CitationKNN", CitationKNN(), kernel, 200),
    ]


def _by_instance() -> MISVC:
    return MISVC(kernel="linear", C=1.0, slack="instance")


def _means() -> KMeans:
    return KMeans(n_clusters=4, n_init=1, random_state=0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=RESULTS, metavar="DIR", help="folder (default: %(default)s)"
    )
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="WORD", help="pairs whose name holds a word"
    )


def main(args: argparse.Namespace) -> int:
    kept = kept_ratios(KEPT)
    chosen = [
        pair for pair in pairs() if not args.only or any(word in pair.name for word in args.only)
    ]
    rows, worse = [], []
    for pair in chosen:
        ours, plain, one_bag = measured(pair)
        ratio, before = ours / plain, kept.get(pair.name)
        if before is not None and ratio > WORSE * before:
            worse.append(pair.name)
        rows.append(
            (
                pair.name,
                type(pair.plain).__name__,
                f"{ours:.3f}",
                f"{plain:.3f}",
                f"{ratio:.2f}",
                "" if before is None else f"{before:.2f}",
                f"{1000 * one_bag:.2f} ms",
            )
        )
    show(
        Table(
            title="CPU seconds of a fit, and its ratio to plain scikit-learn on the instances",
            columns=(
                "estimator",
                "plain",
                "s",
                "plain s",
                "ratio",
                "kept ratio",
                "predict one bag",
            ),
            rows=tuple(rows),
            align="llrrrrr",
            note=f"Each is the minimum of {ROUNDS} rounds, in one process and one thread.\n"
            f"predict one bag: its time, mean of {PREDICTIONS}.",
        )
    )
    if worse:
        say(f"More than {WORSE} times the kept ratio: {', '.join(worse)}.")
    return 0


def kept_ratios(path: Path) -> dict[str, float]:
    """Ratios of the kept page by name; empty without one."""
    if not path.is_file():
        return {}
    (table,) = read_page(path).tables
    of_ratio = list(table.columns).index("ratio")
    return {row[0]: float(row[of_ratio]) for row in table.rows}


def measured(pair: Pair) -> tuple[float, float, float]:
    """CPU seconds of our fit, of the plain one, and of our prediction for one bag."""
    bags, y = make_bags(pair.n_bags, pair.n_features, bag_size=(2, 8), flip_y=0.05, random_state=0)
    instances, labels = bags.instances, np.asarray(y)[bags.bag_index]
    ours = [_seconds(pair.ours, bags, y) for _ in range(ROUNDS)]
    plain = [_seconds(pair.plain, instances, labels) for _ in range(ROUNDS)]
    model = clone(pair.ours).fit(bags, y)
    return min(ours), min(plain), _seconds_of_a_prediction(model, bags[:1])


def _seconds_of_a_prediction(model: BaseEstimator, bag: Bags) -> float:
    model.predict(bag)
    start = time.process_time()
    for _ in range(PREDICTIONS):
        model.predict(bag)
    return (time.process_time() - start) / PREDICTIONS


def _seconds(
    estimator: BaseEstimator,
    X: Bags | np.ndarray,
    y: np.ndarray,
    clock: Callable[[], float] = time.process_time,
) -> float:
    model = clone(estimator)
    with warnings.catch_warnings():
        # Boosting is given fewer rounds than it needs: what a round costs is compared.
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = clock()
        model.fit(X, y)
        return max(clock() - start, 1e-4)
