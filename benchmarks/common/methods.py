"""The methods that are compared, each a pipeline and the grid over which it is tuned.

Every method sees the same bags and does its own scaling inside the pipeline, so that nothing of
a test fold enters a training fold. The baselines are plain scikit-learn on a summary of each bag:
a method for bags that does not beat them has not earned its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from milearn import Bags
from milearn.baselines import SingleInstance
from milearn.metrics import bag_kernel
from milearn.model_selection import StratifiedBagKFold
from milearn.preprocessing import BagStatistics, ClippedScaler, InstanceTransformer
from milearn.svm import MISVC, SDPMIL, InstanceMISVC

from .classifiers import CLASSIFIERS

# Width of the search: C as it is, gamma as a multiple of 1 / n_features (of the matrix that the
# kernel sees), the natural unit after standardisation. A linear kernel on standardised features
# grows with their number, so that it separates the bags at a far smaller C.
LEVELS: dict[str, dict[str, tuple[float, ...]]] = {
    "tiny": {"linear": (0.1,), "rbf": (1.0,), "gamma": (1.0,), "boost": (0.3,), "mean": (10.0,)},
    "quick": {
        "linear": (0.01, 0.1, 1.0),
        "rbf": (1.0, 10.0, 100.0),
        "gamma": (0.3, 1.0),
        "boost": (0.1, 1.0),
        "mean": (1.0, 10.0),
    },
    "full": {
        "linear": (0.001, 0.01, 0.1, 1.0, 10.0),
        "rbf": (1.0, 10.0, 100.0, 1000.0),
        "gamma": (0.1, 0.3, 1.0, 3.0),
        "boost": (0.03, 0.1, 0.3, 1.0),
        "mean": (0.1, 1.0, 10.0, 100.0),
    },
}

# Texts are scaled to rows of unit length: a linear kernel is then as large as an RBF kernel, and
# the unit of gamma is one. Boosting pays for the sum of its weights: a slack that costs less than
# 1 / n_bags leaves it empty. "mean": C of an SVM that divides it by the number of bags.


# What GridSearchCV takes: one grid or several.
Grid = dict[str, list[Any]] | list[dict[str, list[Any]]]


@dataclass(frozen=True)
class Method:
    """One row of the tables.

    Parameters
    ----------
    name : str
        As it is typed after ``--methods``.
    title : str
        As it is printed.
    make : callable
        ``make(text)`` makes the pipeline; ``text`` is True for sparse rows.
    step : str
        Prefix of the parameters ``C`` and ``gamma`` in the pipeline.
    kernel : {"linear", "rbf", "boost", "mean", "none"}
        Which values of C are tried; only with "rbf" there is a gamma to choose, and with "none"
        nothing.
    search : callable, default=None
        ``search(n_features, level, text)`` makes the whole grid, for a method that is a choice
        among several.
    """

    name: str
    title: str
    make: Callable[[bool], Pipeline]
    step: str
    kernel: str = "rbf"
    search: Callable[[int, str, bool], list[dict[str, list[Any]]]] | None = None

    def build(self, text: bool = False) -> Pipeline:
        """The pipeline, with the scaling that suits the instances."""
        return self.make(text)

    def grid(self, n_features: int, level: str, text: bool = False) -> Grid:
        """The grid for ``GridSearchCV``, the simplest candidates first: they win ties."""
        if self.search is not None:
            return self.search(n_features, level, text)
        values = LEVELS[level]
        grid: dict[str, list[Any]] = {
            f"{self.step}__C": list(
                values["rbf" if text and self.kernel == "linear" else self.kernel]
            )
        }
        if self.kernel == "rbf":
            unit = 1.0 if text else 1.0 / n_features
            grid[f"{self.step}__gamma"] = [factor * unit for factor in values["gamma"]]
        return grid


def _scaler(text: bool) -> InstanceTransformer:
    return InstanceTransformer(Normalizer() if text else StandardScaler())


def _on_instances(*steps: Callable[[], Any]) -> Callable[[bool], Pipeline]:
    return lambda text: make_pipeline(_scaler(text), *(step() for step in steps))


def _misvc(kernel: str, slack: str) -> Method:
    return Method(
        f"misvc-{slack}-{kernel}",
        f"MISVC, {slack} slack, {kernel}",
        _on_instances(lambda: MISVC(kernel=kernel, slack=slack)),
        "misvc",
        kernel,
    )


def _instance_misvc(kernel: str) -> Method:
    return Method(
        f"instancemisvc-{kernel}",
        f"InstanceMISVC, {kernel}",
        _on_instances(lambda: InstanceMISVC(kernel=kernel)),
        "instancemisvc",
        kernel,
    )


def _sdpmil(kernel: str, polish: bool) -> Method:
    return Method(
        f"sdpmil-{'polish-' if polish else ''}{kernel}",
        f"SDPMIL{', polished' if polish else ''}, {kernel}",
        _on_instances(lambda: SDPMIL(kernel=kernel, polish=polish)),
        "sdpmil",
        kernel,
    )


def _nothing_to_set(n_features: int, level: str, text: bool) -> list[dict[str, list[Any]]]:
    return [{}]


def _plain_row(name: str, title: str, make: Callable[[bool], BaseEstimator]) -> Method:
    """A method that is fitted as it is: what it tunes, it tunes by itself."""
    return Method(name, title, make, "", "none", search=_nothing_to_set)


def _tuned_svc(kernel: str = "rbf") -> GridSearchCV:
    return GridSearchCV(SVC(kernel=kernel), {"C": [1.0, 10.0, 100.0]}, cv=5)


def _plain_statistics(*names: str) -> Callable[[bool], BaseEstimator]:
    def make(text: bool) -> BaseEstimator:
        if text:
            # Unit length for bags and not for instances: on the newsgroups of the guiding half that
            # takes LinearSVC from chance to the best of all.
            rows = BagStatistics(names, sparse_output=True)
            return make_pipeline(rows, Normalizer(), _tuned_svc())
        return make_pipeline(BagStatistics(names), StandardScaler(), _tuned_svc())

    return make


def tuned_logistic() -> GridSearchCV:
    """Logistic regression on rows, its cost by inner folds."""
    costs = {"C": np.logspace(-4, 2, 7)}
    return GridSearchCV(LogisticRegression(max_iter=2000), costs, scoring="neg_log_loss", cv=5)


def _plain_logistic(text: bool) -> BaseEstimator:
    scaler = Normalizer() if text else StandardScaler()
    return make_pipeline(BagStatistics(("mean",), sparse_output=text), scaler, tuned_logistic())


def _plain_trees(text: bool) -> BaseEstimator:
    rows = BagStatistics(("mean", "min", "max", "std"), sparse_output=text)
    return make_pipeline(rows, ExtraTreesClassifier(500, random_state=0))


def _plain_linear(text: bool) -> BaseEstimator:
    model = GridSearchCV(LinearSVC(dual=False), {"C": [0.01, 0.1, 1.0, 10.0]}, cv=5)
    if text:
        rows = BagStatistics(("mean",), sparse_output=True)
        return make_pipeline(rows, Normalizer(), model)
    return make_pipeline(BagStatistics(("mean",)), StandardScaler(), model)


class _SetRows(TransformerMixin, BaseEstimator):
    """Bags to rows of the normalised set kernel, in blocks, gamma at one over the features."""

    def __init__(self, text: bool = False) -> None:
        self.text = text

    def fit(self, X: Bags, y: Any = None) -> _SetRows:
        self.bags_ = X
        return self

    def transform(self, X: Bags) -> np.ndarray:
        return bag_kernel(X, self.bags_, gamma=1.0 if self.text else 1.0 / X.shape[1])


def _clipped_linear(text: bool) -> BaseEstimator:
    scaler = _scaler(text) if text else ClippedScaler()
    return make_pipeline(scaler, MISVC(kernel="linear"))


def _calibrated(text: bool) -> BaseEstimator:
    model = CalibratedClassifierCV(MISVC(), cv=StratifiedBagKFold(5, shuffle=True, random_state=0))
    return make_pipeline(_scaler(text), model)


# What a user of scikit-learn would set beside the default: standard scaling learnt on the
# training bags, C by an inner cross-validation on rows or on one kernel matrix.
AUTOMATIC = (
    _plain_row("plain-mean", "mean, SVC", _plain_statistics("mean")),
    _plain_row("plain-minmax", "min/max, SVC", _plain_statistics("min", "max")),
    _plain_row(
        "plain-set",
        "set kernel, SVC",
        lambda text: make_pipeline(_scaler(text), _SetRows(text), _tuned_svc("precomputed")),
    ),
    _plain_row("plain-linear", "mean, LinearSVC", _plain_linear),
    _plain_row("plain-logistic", "mean, LogisticRegression", _plain_logistic),
    _plain_row("plain-extremes", "mean, min, max, SVC", _plain_statistics("mean", "min", "max")),
    _plain_row("plain-trees", "mean, min, max, sd, ExtraTrees", _plain_trees),
    _plain_row(
        "plain-single",
        "SingleInstance(SVC())",
        lambda text: make_pipeline(_scaler(text), SingleInstance(SVC())),
    ),
    _plain_row("misvc-linear", "MISVC, linear, clipped z-scores", _clipped_linear),
    _plain_row("misvc-default", "MISVC()", lambda text: MISVC()),
    _plain_row("misvc-calibrated", "CalibratedClassifierCV(MISVC())", _calibrated),
)

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *AUTOMATIC,
        *(_plain_row(each.name, each.title, each.build) for each in CLASSIFIERS),
        *(_misvc(kernel, slack) for slack in ("bag", "instance") for kernel in ("linear", "rbf")),
        *(_instance_misvc(kernel) for kernel in ("linear", "rbf")),
        *(_sdpmil(kernel, polish) for polish in (False, True) for kernel in ("linear", "rbf")),
    )
}


def select(names: list[str]) -> list[Method]:
    """Methods by name.

    Raises
    ------
    SystemExit
        For an unknown name.
    """
    known = list(METHODS)
    for name in names:
        if name not in METHODS:
            raise SystemExit(f"There is no method {name!r}: choose from {', '.join(known)}.")
    return [METHODS[name] for name in names]


def gap_of(model: Any) -> float:
    """The gap that a fitted model states: of its last convex problem, or to its lower bound."""
    for name in ("dual_gap_", "optimality_gap_"):
        if hasattr(model, name):
            return float(getattr(model, name))
    raise AttributeError(f"{type(model).__name__} states no gap.")
