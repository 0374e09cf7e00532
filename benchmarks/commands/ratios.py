"""``ratios``: a fit of each family compared with plain scikit-learn, in half a minute.

Seconds of two computers cannot be compared; ratios within one process can, and a change for the
worse is seen by the factor to the kept figures.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from milearn import MIClassifier
from milearn.baselines import EMDD, MILES, CitationKNN
from milearn.cluster import M3IC
from milearn.datasets import make_bags
from milearn.ensemble import DPBoost, LPBoost
from milearn.structured import MILSD
from milearn.svm import MISVC, SDPMIL, BagSVC, CoupledMISVC, InstanceMISVC

from ..common.output import SUFFIX, Table, number, read_page, say, show
from ..common.runner import add_options

HELP = "fits of each family compared with plain scikit-learn, as ratios; CI prints them"

# A ratio is the least of so many, each of fits that follow on each other.
ROUNDS = 3
# So many predictions of one bag are averaged.
PREDICTIONS = 20
WORSE = 1.5
KEPT = Path(__file__).resolve().parents[2] / "docs" / "results" / f"ratios{SUFFIX}"
QUICK = {"tol": 1e-2, "n_estimators": 50}
_LINEAR, _SVC, _BOOSTING = LinearSVC(), SVC(C=1.0), GradientBoostingClassifier()
# Estimator, the plain one on the instances of the same bags, numbers of bags and features.
PAIRS: tuple[tuple[str, Any, Any, int, int], ...] = (
    ("MISVC, linear, by passes", MISVC(kernel="linear", C=1.0), _LINEAR, 2000, 20),
    (
        *("MISVC, linear, slack of instances", MISVC(kernel="linear", C=1.0, slack="instance")),
        *(_LINEAR, 2000, 20),
    ),
    ("MISVC, RBF", MISVC(C=1.0), _SVC, 60, 20),
    ("CoupledMISVC", CoupledMISVC(C=1.0), _SVC, 60, 20),
    ("InstanceMISVC, RBF", InstanceMISVC(C=1.0), _SVC, 60, 20),
    ("SDPMIL, RBF", SDPMIL(C=1.0), _SVC, 60, 20),
    ("BagSVC", BagSVC(), _SVC, 200, 20),
    ("MIClassifier", MIClassifier(random_state=0), _SVC, 100, 20),
    ("MILSD, graph of neighbours", MILSD(graph="knn", C=10.0, mu=1.0), _LINEAR, 60, 20),
    (
        *("M3IC, 4 clusters", M3IC(n_clusters=4, n_init=1, random_state=0)),
        *(KMeans(n_clusters=4, n_init=1, random_state=0), 200, 20),
    ),
    ("DPBoost", DPBoost(**QUICK), _BOOSTING, 60, 20),
    ("LPBoost", LPBoost(**QUICK), _BOOSTING, 60, 20),
    ("MILES", MILES(), _SVC, 60, 20),
    ("EMDD", EMDD(n_init=1), _SVC, 60, 5),
    ("CitationKNN", CitationKNN(), _SVC, 200, 20),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="pairs whose name holds a word"
    )


def main(args: argparse.Namespace) -> None:
    kept = {}
    if KEPT.is_file():
        (table,) = read_page(KEPT).tables
        kept = {row[0]: number(row[table.columns.index("ratio")]) for row in table.rows}
    rows, worse = [], []
    for name, model, plain, *sizes in PAIRS:
        if not any(word in name for word in args.only):
            continue
        ours, theirs, one_bag = measured(model, plain, *sizes)
        ratio, before = ours / theirs, kept.get(name)
        if before is not None and ratio > WORSE * before:
            worse.append(name)
        shown = "" if before is None else f"{before:.2f}"
        cells = [f"{ours:.3f}", f"{theirs:.3f}", f"{ratio:.2f}", shown, f"{1000 * one_bag:.2f} ms"]
        rows.append([name, type(plain).__name__, *cells])
    columns = ["estimator", "plain", "s", "plain s", "ratio", "kept ratio", "predict one bag"]
    title = "CPU seconds of a fit, and its ratio to plain scikit-learn on the instances"
    show(Table(columns, rows, "llrrrrr", title=title))
    say(
        f"Each is the minimum of {ROUNDS} rounds, in one process and one thread.\n"
        f"predict one bag: its time, mean of {PREDICTIONS}."
    )
    if worse:
        say(f"More than {WORSE} times the kept ratio: {', '.join(worse)}.")


def measured(model: Any, plain: Any, n_bags: int, n_features: int) -> tuple[float, float, float]:
    """CPU seconds of our fit, of the plain one, and of our prediction for one bag."""
    bags, y = make_bags(n_bags, n_features, bag_size=(2, 8), flip_y=0.05, random_state=0)
    with warnings.catch_warnings():
        # Boosting is given fewer rounds than it needs: what a round costs is compared.
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours = min(_seconds(lambda: clone(model).fit(bags, y)) for _ in range(ROUNDS))
        rows = bags.instances, y[bags.bag_index]
        theirs = min(_seconds(lambda: clone(plain).fit(*rows)) for _ in range(ROUNDS))
        fitted, bag = clone(model).fit(bags, y), bags[:1]
    fitted.predict(bag)
    predicted = _seconds(lambda: [fitted.predict(bag) for _ in range(PREDICTIONS)])
    return ours, theirs, predicted / PREDICTIONS


def _seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return max(time.process_time() - start, 1e-4)
