"""``ordinal``: ordered classes by all thresholds, one against the rest, and rounded values.

Every set has bags whose class is the highest grade of their instances: the best binding energy of a
molecule, the highest digit of a bag of images, the highest disease progression of a group of
patients, and a generated score with noise. C is chosen by the mean absolute error of inner folds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_diabetes, load_digits
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milearn import Bags
from milearn.datasets import make_affinity
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import InstanceTransformer
from milearn.svm import MISVC, MISVR, OrdinalMISVC

from ..common.output import RESULTS
from ..common.page import say, show
from ..common.table import Table, duration

HELP = "ordered classes: all thresholds compared with one-vs-rest and rounded values"

N_BAGS, N_GRADES = 150, 4
COSTS = {"C": [0.01, 0.1, 1.0]}
_ERROR = "neg_mean_absolute_error"


class Rounded(RegressorMixin, BaseEstimator):
    """MISVR whose values are rounded to the grades of the training bags."""

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Any, y: Any) -> Rounded:
        """Fit on the grades as values."""
        self.ends_ = np.min(y), np.max(y)
        self.model_ = MISVR(C=self.C, kernel="linear").fit(X, np.asarray(y, dtype=float))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Rounded values."""
        return np.clip(np.rint(self.model_.predict(X)), *self.ends_)


METHODS: dict[str, Callable[[], BaseEstimator]] = {
    "OrdinalMISVC": lambda: GridSearchCV(
        OrdinalMISVC(), COSTS, scoring=_ERROR, cv=StratifiedBagKFold(3)
    ),
    "MISVC, one against the rest": lambda: GridSearchCV(
        MISVC(kernel="linear"), COSTS, scoring=_ERROR, cv=StratifiedBagKFold(3)
    ),
    "MISVR, rounded": lambda: GridSearchCV(
        Rounded(), COSTS, scoring=_ERROR, cv=StratifiedBagKFold(3)
    ),
    "the same grade for all bags": lambda: DummyRegressor(strategy="quantile", quantile=0.45),
}


# -- sets ------------------------------------------------------------------------------------------


def graded(values: np.ndarray) -> np.ndarray:
    """Quantiles of values as grades."""
    return np.digitize(values, np.quantile(values, np.arange(1, N_GRADES) / N_GRADES))


def affinity(seed: int) -> tuple[Bags, np.ndarray]:
    """Molecules by the best binding energy of their shapes."""
    X, values = make_affinity(N_BAGS, n_features=20, n_relevant=10, random_state=seed)
    return X, graded(values)


def _grouped(rows: np.ndarray, values: np.ndarray, seed: int) -> tuple[Bags, np.ndarray]:
    """Bags of 2 to 5 rows, drawn without replacement, with their highest values."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, size=N_BAGS)
    sizes = sizes[np.cumsum(sizes) <= len(rows)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    chosen = rng.permutation(len(rows))[: offsets[-1]]
    return Bags(rows[chosen], offsets), np.maximum.reduceat(values[chosen], offsets[:-1])


def diabetes(seed: int) -> tuple[Bags, np.ndarray]:
    """Groups of patients by the highest disease progression after a year."""
    data = load_diabetes()
    X, values = _grouped(data.data, data.target, seed)
    return X, graded(values)


def digits(seed: int) -> tuple[Bags, np.ndarray]:
    """Bags of images by their highest digit, 0 to 5, 6 to 7, 8, or 9."""
    data = load_digits()
    X, values = _grouped(data.data, data.target, seed)
    return X, np.digitize(values, [6, 8, 9])


def line(seed: int) -> tuple[Bags, np.ndarray]:
    """Bags of 10 by the highest value of a direction, with noise on the value."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(10 * N_BAGS, 20))
    tops = rows[:, :3].sum(axis=1).reshape(N_BAGS, 10).max(axis=1)
    X = Bags(rows, np.arange(0, 10 * N_BAGS + 1, 10))
    return X, graded(tops + 0.5 * rng.normal(size=N_BAGS))


SETS = {"affinity": affinity, "diabetes": diabetes, "digits": digits, "generated": line}


# -- the command -----------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="folder of the results (default: benchmarks/results)",
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--folds", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS], help="default: all")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")


def main(args: argparse.Namespace) -> int:
    rows = []
    for name in args.sets:
        for method in METHODS:
            parts = Parallel(n_jobs=args.jobs)(
                delayed(run)(name, method, seed, args.folds) for seed in range(args.repeats)
            )
            errors, hits, seconds = np.concatenate(parts).T
            rows.append(
                [
                    name,
                    method,
                    f"{errors.mean():.3f}",
                    f"{100 * hits.mean():.1f}",
                    duration(float(seconds.mean())),
                ]
            )
    columns = ["set", "method", "mean absolute error", "accuracy %", "fit, CPU time"]
    show(Table(columns, rows, "llrrr", title="Ordered classes"))
    say(
        f"\nMeans over {args.repeats} draws of the bags and {args.folds} folds each; errors in "
        f"grades. Standardised\ninstances, C of {', '.join(map(str, COSTS['C']))} by the error of "
        "three inner folds, linear functions."
    )
    return 0


def run(name: str, method: str, seed: int, n_folds: int) -> np.ndarray:
    """Error, accuracy and time of the fit of each fold."""
    X, y = SETS[name](seed)
    found = []
    cv = StratifiedBagKFold(n_folds, shuffle=True, random_state=seed)
    for train, test in cv.split(X, y):
        model = make_pipeline(InstanceTransformer(StandardScaler()), METHODS[method]())
        begin = time.process_time()
        model.fit(X[train], y[train])
        seconds = time.process_time() - begin
        predicted = model.predict(X[test])
        found.append((np.abs(predicted - y[test]).mean(), (predicted == y[test]).mean(), seconds))
    return np.array(found)
