"""The candidates: bag kernels, models of the highest instance, and statistics of the bags.

A candidate is prepared once, without labels, on all training bags, and inner folds use subsets of
the result. Scores have one column for two classes or for regression, otherwise one per class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.base import clone, is_classifier
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC, LinearSVC, NuSVR
from sklearn.utils import gen_batches

from .._bags import Bags
from .._bags.blocks import BLOCK_BYTES
from .._bags.rows_on_disk import (
    computed_in,
    computed_when_read,
    converted,
    is_read_in_blocks,
    without_names,
)
from .._bags.segments import bag_ranges
from .._kernels.instance import instance_kernel, resolve_gamma
from .._solvers.common.features import FeatureMap, landmark_features
from .._solvers.common.passes import instance_scores
from .._solvers.discriminant.search import ShareSearch, ShareSolution, best_cut, worth
from .._solvers.discriminant.superquantile import pooled_scores
from .._version import refuse_old
from ..discriminant_analysis._share import stacked_columns
from ..model_selection._inner import Folds
from ..preprocessing import BagStatistics
from ..preprocessing._instance_transformer import ScaledInPlace
from ..svm._kernel_average import as_kind

__getattr__ = refuse_old(__name__, "_StatisticsFunction", "FittedModels", "LinearModel")

# Most instances that are scored at once.
_MOST_INSTANCES = 2**16
# With the default 1e-3, the third digit of scores depends on the order of the bags.
_TOL = 1e-5
# Costs of the logistic regression of standardised statistics.
_COSTS = (1e-4, 1e-3, 1e-2, 0.1, 1.0)


@dataclass(frozen=True)
class CandidateName:
    """The name of a candidate, and what it assumes of the classes.

    Of two classes, one instance suffices for ``positive``. Values are those of the highest instance
    if it is 1, or of the lowest. Of three or more classes, all have instances that decide but
    ``without``, if there is one.
    """

    name: str
    positive: int | None = None
    without: int | None = None

    def __str__(self) -> str:
        if self.without is not None:
            return f"{self.name!r} without instances of class {self.without + 1}"
        return repr(self.name) + (" by the lowest instance" if self.positive == 0 else "")


@dataclass(frozen=True)
class FitData:
    """Targets and weights of the merged training bags."""

    # Class numbers, 1 for the positive one of two classes; or values.
    targets: np.ndarray
    # Number of columns of scores.
    n_columns: int
    regression: bool
    # Of shape (n_bags,).
    weights: np.ndarray
    C: float

    def column(self, number: int) -> np.ndarray:
        """What the scores of a column should grow with: values, or 1 for its class and else -1."""
        if self.regression:
            return self.targets
        return 2.0 * (self.targets == (1 if self.n_columns == 1 else number)) - 1.0


def in_parts(scores: Callable[[Bags], np.ndarray], bags: Bags) -> np.ndarray:
    """Scores of bags in float64, for as many at once as fit into a block."""

    def of(part: Bags) -> np.ndarray:
        return scores(part if part.dtype == np.float64 else converted(part, np.float64))

    width = bags.shape[1]
    if bags.is_sparse:
        # Rows with more entries than those of texts become dense.
        width = min(width, 1 + 10 * bags.instance_rows.nnz // bags.n_instances)
    limit = max(1, min(_MOST_INSTANCES, BLOCK_BYTES // 8 // width))
    if bags.n_instances <= limit:
        return of(bags)
    ranges = bag_ranges(bags.offsets, limit)
    return np.concatenate([of(bags[first:last]) for first, last in ranges])


def _scores(models: list[Any], X: Any) -> np.ndarray:
    """Scores of each model, or values of a regressor, side by side, shape (n, n_columns).

    Those of forests are log odds of the classes, at most those of half a tree against all others.
    """
    found = []
    for model in models:
        if hasattr(model, "decision_function"):
            scores = model.decision_function(X)
        elif is_classifier(model):
            proportions = model.predict_proba(X)
            proportions = proportions[:, 1:] if proportions.shape[1] == 2 else proportions
            smallest = 0.5 / len(model.estimators_)
            scores = logit(np.clip(proportions, smallest, 1 - smallest))
        else:
            scores = model.predict(X)
        found.append(scores.reshape(len(scores), -1))
    return np.hstack(found)


@dataclass(frozen=True)
class FoldModels:
    """A candidate that was fitted on inner folds: weighted means of the scores of their models."""

    # Rows or scaled bags for the models.
    prepare: Callable[[Bags], Any]
    # Those of each fold: one of all columns of scores, or one per column.
    models: list[list[Any]]
    # Of shape (n_folds, n_columns), with a sum of one for each column, or of minus one if models
    # predict negative values.
    weights: np.ndarray

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, n_columns)."""
        prepared = self.prepare(bags)
        return self._mean(_scores(models, prepared) for models in self.models)

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, n_columns); those of bags of one for models of rows."""
        first = self.models[0][0]
        if not hasattr(first, "predict_instances"):
            return self.bag_scores(Bags.singletons(bags.instances))
        method = "instance_decision_function" if is_classifier(first) else "predict_instances"
        scaled = self.prepare(bags)
        return self._mean(
            np.stack([getattr(model, method)(scaled) for model in models], axis=1)
            for models in self.models
        )

    def _mean(self, scores: Iterable[np.ndarray]) -> np.ndarray:
        return np.asarray(sum(own * each for own, each in zip(self.weights, scores, strict=True)))


# -- one row for each bag --------------------------------------------------------------------------


@dataclass(frozen=True)
class RowCandidate:
    """Models of rows, one of each bag: kernel values, features of a kernel, or statistics.

    Support vector machines are one-vs-rest; trees have all classes.
    """

    # Not fitted.
    model: Any
    # Rows of new bags.
    rows: Callable[[Bags], Any]
    # Of shape (n_bags, n_bags) or (n_bags, n), CSR for texts. Rows of the training bags.
    matrix: Any
    data: FitData
    is_kernel: bool = False
    one_vs_rest: bool = False

    def fold(self, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Fit on bags: scores of the bags ``test``, shape (n_test, n_columns), and models."""
        new = self.matrix[np.ix_(test, train)] if self.is_kernel else self.matrix[test]
        rows = self.matrix[np.ix_(train, train)] if self.is_kernel else self.matrix[train]
        targets = [self.data.targets[train]]
        if self.one_vs_rest and self.data.n_columns > 1:
            targets = [targets[0] == code for code in range(self.data.n_columns)]
        weights = self.data.weights[train]
        models = [clone(self.model).fit(rows, each, sample_weight=weights) for each in targets]
        return _scores(models, new), models

    def function(self, _: list[list[Any]], weights: np.ndarray) -> FoldModels:
        """A fit on all bags: a convex problem has one solution, which more bags improve."""
        return FoldModels(self.rows, [self._last()], np.ones((1, self.data.n_columns)))

    def _last(self) -> list[Any]:
        everything = np.arange(len(self.data.targets))
        return self.fold(everything, everything)[1]


@dataclass(frozen=True)
class LogisticCandidate(RowCandidate):
    """Logistic regression of rows, with the C that is best for the test bags of other folds."""

    folds: Folds = field(default_factory=list)

    @cached_property
    def _compared(self) -> tuple[dict[bytes, list[Any]], np.ndarray]:
        """Models of each C for each fold, and losses of shape (n_costs, n_bags), or zeros."""
        models, losses = {}, np.zeros((len(_COSTS), len(self.data.targets)))
        for train, test in self.folds:
            own = [self._fitted(train, C) for C in _COSTS]
            for row, model in zip(losses, own, strict=True):
                stated = model.predict_log_proba(self.matrix[test])
                row[test] = -stated[np.arange(len(test)), self.data.targets[test]]
            models[test.tobytes()] = own
        return models, losses

    def _fitted(self, train: np.ndarray, C: float) -> Any:
        rows, targets = self.matrix[train], self.data.targets[train]
        return clone(self.model).set_params(C=C).fit(rows, targets, self.data.weights[train])

    def _best(self, bags: np.ndarray) -> int:
        """The place of the C with the smallest loss; of equal ones, that of the smallest."""
        means = self._compared[1][:, bags] @ self.data.weights[bags]
        return int(np.argmin(np.round(means / self.data.weights[bags].sum(), 9)))

    def fold(self, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Scores of the bags ``test``, shape (n_test, n_columns), by a C chosen without them."""
        others = [each for _, each in self.folds if not np.array_equal(each, test)] or [test]
        model = self._compared[0][test.tobytes()][self._best(np.concatenate(others))]
        return _scores([model], self.matrix[test]), [model]

    def _last(self) -> list[Any]:
        best = self._best(np.concatenate([test for _, test in self.folds]))
        return [self._fitted(np.arange(len(self.data.targets)), _COSTS[best])]


def bag_model(data: FitData, *, is_kernel: bool) -> Any:
    """The support vector machine, or ridge regression, for kernel values or features of bags."""
    if not is_kernel:
        return (
            Ridge(alpha=0.5 / data.C)
            if data.regression
            else LinearSVC(C=data.C, dual=False, tol=1e-4, max_iter=10_000)
        )
    if data.regression:
        return NuSVR(nu=0.5, C=data.C, kernel="precomputed", tol=_TOL)
    return SVC(C=data.C, kernel="precomputed", tol=_TOL)


# -- highest instance ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """Scaling of instances: texts to unit length, others by a fitted transformer."""

    scaler: Any
    text: bool

    @classmethod
    def of(cls, bags: Any, text: bool, scaler: Any) -> Scaling:
        """Fit on distinct bags; texts are stored as CSR, others as dense arrays."""
        if text:
            return cls(Normalizer(), text)
        return cls(
            scaler.fit(without_names(bags) if is_read_in_blocks(bags) else bags.instances), text
        )

    def __call__(self, bags: Any) -> Any:
        return as_kind(bags, self.text)._transformed(_scaled, self.scaler)

    def when_read(self, bags: Bags) -> Bags:
        """Dense bags that are scaled when they are read, in the type of computations."""
        return computed_when_read(bags, ScaledInPlace(self.scaler), computed_in(bags.dtype))


def _scaled(bags: Bags, scaler: Any) -> Bags:
    rows = bags.instances.astype(computed_in(bags.dtype), copy=False)
    return bags.with_instances(scaler.transform(rows))


@dataclass(frozen=True)
class ScaledStatistics:
    """Statistics of each feature of scaled bags, shape (n_bags, n).

    Of texts, statistics are scaled to unit length, and not the instances.
    """

    scale: Scaling
    names: tuple[str, ...]
    # A fitted transformer of statistics.
    standardise: Any = None

    def __call__(self, bags: Bags) -> Any:
        return self.of_scaled(as_kind(bags, True) if self.scale.text else self.scale(bags))

    def of_scaled(self, bags: Bags) -> Any:
        """Statistics of scaled bags, or of texts, which are CSR."""
        rows = BagStatistics(self.names, sparse_output=self.scale.text).fit_transform(bags)
        rows = Normalizer().transform(rows) if self.scale.text else rows
        return rows if self.standardise is None else self.standardise.transform(rows)


@dataclass(frozen=True)
class LandmarkFeatures:
    """Scaling of instances, followed by landmark features of the RBF kernel in single precision."""

    scale: Scaling
    features: FeatureMap

    @classmethod
    def of(
        cls, scale: Scaling, bags: Bags, weights: np.ndarray, n_components: int, seed: int
    ) -> LandmarkFeatures:
        """Landmarks of scaled bags with weights, as :class:`~milearn.svm.MISVC` draws them."""
        rows = bags.instances
        gamma = resolve_gamma("scale", rows, np.repeat(weights, bags.sizes))
        kernel, _ = instance_kernel("rbf", gamma=gamma)
        rng = np.random.RandomState(seed)
        return cls(scale, landmark_features(rows, kernel, n_components, rng))

    def __call__(self, bags: Bags) -> Bags:
        return self.of_scaled(self.scale(bags))

    def of_scaled(self, bags: Bags) -> Bags:
        """Features of scaled bags, computed in blocks."""
        rows, map_ = bags.instances, self.features
        found = np.empty((len(rows), map_.dim), dtype=np.float32)
        for block in gen_batches(len(rows), map_.rows_at_once):
            found[block] = map_.transform(rows[block])
        return bags.with_instances(found)


@dataclass(frozen=True)
class InstanceCandidate:
    """An estimator whose bag scores are the highest instance scores, one-vs-rest.

    With the sign -1 it predicts the negative values, so that the lowest instance decides.

    One class of three or more may be ``without`` instances that decide: a bag is of this class
    unless one of its instances is of another. The score of this class is then minus the highest
    score of the others.
    """

    # Not fitted.
    model: Any
    scale: Callable[[Bags], Bags]
    # Training bags, scaled.
    bags: Bags
    data: FitData
    without: int | None = None
    sign: int = 1
    # Models of classes and their out-of-fold scores, which candidates with different ``without``
    # share.
    shared: dict[Any, Any] = field(default_factory=dict)

    def fold(self, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Fit on the bags ``train``: scores of the bags ``test``, (n_test, n_columns), and models.

        There is a model for each column.
        """
        keys = [
            (column, column == self.without, train.tobytes())
            for column in range(self.data.n_columns)
        ]
        for key in keys:
            if key not in self.shared:
                model = self._fitted(key[0], train)
                self.shared[key] = self.sign * _scores([model], self.bags[test]), model
        scores, models = zip(*(self.shared[key] for key in keys), strict=True)
        return np.hstack(scores), list(models)

    def function(self, models: list[list[Any]], weights: np.ndarray) -> FoldModels:
        """The mean of the models of folds: a fit on all bags may end in another minimum."""
        if not models:
            everything = np.arange(len(self.data.targets))
            models = [self.fold(everything, everything)[1]]
        return FoldModels(self.scale, models, self.sign * weights)

    def _fitted(self, column: int, train: np.ndarray) -> Any:
        targets, settings = self.sign * self.data.targets[train], {}
        if self.data.n_columns > 1:
            targets = (targets == column).astype(np.intp)
            settings["pos_label"] = 0 if column == self.without else 1
        model = clone(self.model).set_params(**settings)
        model._may_be_constant = True  # a constant of a fold is left out, or has no weight
        bags = self.bags if len(train) == len(self.bags) else self.bags[train]
        return model.fit(bags, targets, sample_weight=self.data.weights[train])


# -- share of instances ----------------------------------------------------------------------------


@dataclass(frozen=True)
class FittedShares:
    """Fitted functions of instances, each with the share of a bag over which it is averaged."""

    scale: Scaling
    # One for each column of scores.
    solutions: list[ShareSolution]
    # Scores beyond which instances are counted, shape (n_columns,).
    cuts: np.ndarray
    # Compared shares of shape (n_shares,), and their out-of-fold scores, (n_columns, n_shares).
    shares: np.ndarray
    share_scores: np.ndarray

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, n_columns)."""
        signs, poolings = zip(
            *((s.choice.sign, s.choice.pooling) for s in self.solutions), strict=True
        )
        return pooled_scores(self.instance_scores(bags), bags.offsets, signs, poolings)

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, n_columns)."""
        coef = np.array([each.coef for each in self.solutions])
        scores = instance_scores(self.scale(bags).source(), coef)
        return scores + np.array([each.intercept for each in self.solutions])

    def attributes(self) -> dict[str, Any]:
        """The attributes of ShareDiscriminant or ShareRegressor on scaled bags."""
        choices = [each.choice for each in self.solutions]
        columns = {
            "coef_": [each.coef for each in self.solutions],
            "intercept_": [each.intercept for each in self.solutions],
            "cut_": self.cuts,
            "share_": [each.share for each in choices],
            "pooling_": [each.pooling for each in choices],
            "orientation_": [each.sign for each in choices],
            "share_scores_": self.share_scores,
        }
        found = {name: stacked_columns(values) for name, values in columns.items()}
        return found | {"shares_": self.shares}


class ShareCandidate:
    """Means of the highest scores of a share of the instances, one-vs-rest.

    All inner folds, and the parts, are fitted at once, for every share, pooling and orientation.
    """

    def __init__(
        self, scale: Scaling, bags: Bags, data: FitData, folds: Folds, parts: Folds
    ) -> None:
        self.scale, self.data, self.folds = scale, data, folds
        targets = np.array([data.column(number) for number in range(data.n_columns)])
        self.search = ShareSearch(bags.source(), targets, data.weights)
        # For each column, the solution, and out-of-fold scores: its own, and of each share.
        self._validated = [
            self.search.validated(number, folds, parts) for number in range(data.n_columns)
        ]

    def fold(self, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Scores of the bags ``test``, shape (n_test, n_columns)."""
        return np.stack([scores[test] for _, scores, _ in self._validated], axis=1), []

    def function(self, models: list[list[Any]], weights: np.ndarray) -> FittedShares:
        """What folds and parts have found; it has its own weights."""
        source, targets = self.search.source, self.search.targets
        solutions = [solution for solution, *_ in self._validated]
        cuts = [
            best_cut(source, each.coef, each.choice.sign, target, self.data.weights)
            + each.intercept
            for each, target in zip(solutions, targets, strict=True)
        ]
        found = np.array([self._share_scores(n) for n in range(len(targets))])
        return FittedShares(self.scale, solutions, np.array(cuts), self.search.shares, found)

    def _share_scores(self, number: int) -> np.ndarray:
        """The out-of-fold AUC of the best choice of each share, or its correlation with values."""
        bags = np.unique(np.concatenate([test for _, test in self.folds]))
        targets, weights = self.search.targets[number, bags], self.data.weights[bags]
        rows = self._validated[number][2][:, bags]
        if self.data.regression:
            return worth(rows, targets, weights)
        return np.array([roc_auc_score(targets > 0, row, sample_weight=weights) for row in rows])


Candidate = RowCandidate | InstanceCandidate | ShareCandidate
