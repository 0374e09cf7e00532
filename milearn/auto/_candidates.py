"""The candidates: bag kernels, models of the highest instance, and statistics of the bags.

A candidate is prepared once, without labels, on all training bags, and inner folds use subsets of
the result. Scores have one column for two classes or for regression, otherwise one per class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.special import logit
from sklearn.base import clone, is_classifier
from sklearn.linear_model import Ridge
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC, LinearSVC, NuSVR

from .._bags import Bags
from .._bags.blocks import BLOCK_BYTES
from .._bags.rows_on_disk import (
    compute_dtype,
    computed_when_read,
    converted,
    is_read_in_blocks,
    without_names,
)
from .._bags.segments import bag_ranges
from .._kernels.instance import instance_kernel, resolve_gamma
from .._solvers.common.features import FeatureMap
from ..preprocessing import BagStatistics
from ..preprocessing._clipped import ScaledInPlace
from ..svm._bag_svm import BagRows
from ..svm._formulations import kernel_features
from ..svm._kernel import Kernel
from ..svm._kernel_average import as_kind

# Numbers of scaled instances that are computed at once.
_AT_ONCE = 2**23
# With the default 1e-3, the third digit of scores depends on the order of the bags.
_TOL = 1e-5
# Relative step of the objective at which models of the highest instance stop in inner folds.
_FOLD_TOL = 1e-3


@dataclass(frozen=True)
class CandidateName:
    """The name of a candidate, and what it assumes of the classes.

    Of two classes, one instance suffices for ``positive``. Of three or more, all have instances
    that decide but ``without``, if there is one.
    """

    name: str
    positive: int | None = None
    without: int | None = None

    def __str__(self) -> str:
        if self.without is not None:
            return f"{self.name!r} without instances of class {self.without + 1}"
        return repr(self.name) + (" for the first class" if self.positive == 0 else "")


@dataclass(frozen=True)
class Training:
    """Targets and weights of the merged training bags."""

    # Class numbers, 1 for the positive one of two classes; or values.
    targets: np.ndarray
    # Number of columns of scores.
    n_columns: int
    regression: bool
    # Of shape (n_bags,).
    weights: np.ndarray
    C: float

    def column(self, rows: np.ndarray, column: int) -> np.ndarray:
        """Values of bags, or whether they are of the class of a column."""
        if self.regression:
            return self.targets[rows]
        return self.targets[rows] == (1 if self.n_columns == 1 else column)


class ScoreFunction(Protocol):
    """A fitted candidate."""

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, n_columns)."""
        ...

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, n_columns)."""
        ...


class Candidate(Protocol):
    """A model that was prepared on the training bags."""

    def fold(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        """Fit on the bags ``train`` and score the bags ``test``, shape (n_test, n_columns)."""
        ...

    def whole(self) -> ScoreFunction:
        """Fit on all training bags."""
        ...


def in_parts(
    scores: Callable[[Bags], np.ndarray], bags: Bags, *, at_once: int = BLOCK_BYTES // 8
) -> np.ndarray:
    """Scores of bags in float64, for as many at once as have ``at_once`` numbers."""

    def of(part: Bags) -> np.ndarray:
        return scores(part if part.dtype == np.float64 else converted(part, np.float64))

    if bags.is_sparse or bags.n_instances * bags.shape[1] <= at_once:
        return of(bags)
    limit = max(1, at_once // bags.shape[1])
    ranges = bag_ranges(bags.offsets, limit)
    return np.concatenate([of(bags[first:last]) for first, last in ranges])


# -- bag kernels -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BagFunction:
    rows: BagRows
    models: list[Any]

    def bag_scores(self, bags: Bags) -> np.ndarray:
        return _side_by_side(self.models, self.rows(bags))

    def instance_scores(self, bags: Bags) -> np.ndarray:
        return self.bag_scores(Bags.singletons(bags.instances))


@dataclass(frozen=True)
class BagCandidate:
    """Support vector machines on an average of bag kernels, one-vs-rest."""

    rows: BagRows
    # Of shape (n_bags, n_bags) or (n_bags, n_features). Kernel matrix or features of the training
    # bags.
    matrix: np.ndarray
    training: Training

    def fold(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        return _side_by_side(self._models(train), self._rows(test, train))

    def whole(self) -> ScoreFunction:
        return _BagFunction(self.rows, self._models(np.arange(len(self.matrix))))

    @property
    def _explicit(self) -> bool:
        return self.rows.projection is not None

    def _rows(self, bags: np.ndarray, train: np.ndarray) -> np.ndarray:
        """Features of bags, or their kernel values with the bags that are trained on."""
        return self.matrix[bags] if self._explicit else self.matrix[np.ix_(bags, train)]

    def _models(self, train: np.ndarray) -> list[Any]:
        given, rows = self.training, self._rows(train, train)
        return [
            _model(given.regression, given.C, self._explicit).fit(
                rows, given.column(train, column), sample_weight=given.weights[train]
            )
            for column in range(given.n_columns)
        ]


def _model(regression: bool, C: float, explicit: bool) -> Any:
    if explicit and regression:
        return Ridge(alpha=0.5 / C)
    if explicit:
        return LinearSVC(C=C, dual=False, tol=1e-4, max_iter=10_000)
    if regression:
        return NuSVR(nu=0.5, C=C, kernel="precomputed", tol=_TOL)
    return SVC(C=C, kernel="precomputed", tol=_TOL)


def _columns(model: Any, X: Any) -> np.ndarray:
    """Scores of a classifier or values of a regressor, shape (n, n_columns)."""
    return _as_columns(model.decision_function(X) if is_classifier(model) else model.predict(X))


def _as_columns(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1)


def _side_by_side(models: list[Any], rows: Any) -> np.ndarray:
    return np.hstack([_columns(model, rows) for model in models])


# -- highest instance ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _InstanceFunction:
    scale: Callable[[Bags], Bags]
    # One per column.
    models: list[Any]

    def bag_scores(self, bags: Bags) -> np.ndarray:
        return np.concatenate([_side_by_side(self.models, part) for part in self._parts(bags)])

    def instance_scores(self, bags: Bags) -> np.ndarray:
        return np.concatenate(
            [
                np.hstack([_of_instances(model, part) for model in self.models])
                for part in self._parts(bags)
            ]
        )

    def _parts(self, bags: Bags) -> Iterator[Bags]:
        """Scaled bags, as many at once as have ``_AT_ONCE`` features."""
        per_part = max(1, _AT_ONCE // self.models[0].n_features_in_)
        parts = np.asarray(bags.offsets[:-1]) // per_part
        for rows in np.split(np.arange(len(bags)), np.flatnonzero(np.diff(parts)) + 1):
            yield self.scale(bags if len(rows) == len(bags) else bags[rows])


def _of_instances(model: Any, bags: Bags) -> np.ndarray:
    if is_classifier(model):
        return _as_columns(model.instance_decision_function(bags))
    return _as_columns(model.predict_instances(bags))


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
        if bags.is_remote:
            return cls(scaler.fit(bags.unnamed()), text)
        in_blocks = is_read_in_blocks(bags)
        return cls(scaler.fit(without_names(bags) if in_blocks else bags.instances), text)

    def __call__(self, bags: Any) -> Any:
        if bags.is_remote:
            return bags.transformed(self)
        bags = as_kind(bags, self.text)
        rows = bags.instances.astype(compute_dtype(bags), copy=False)
        return bags.with_instances(self.scaler.transform(rows))

    def when_read(self, bags: Bags) -> Bags:
        """Dense bags that are scaled when they are read, in the type of computations."""
        return computed_when_read(bags, ScaledInPlace(self.scaler), compute_dtype(bags))


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
        values, semidefinite = instance_kernel("rbf", gamma=gamma)
        kernel = Kernel("rbf", gamma, values, semidefinite)
        rng = np.random.RandomState(seed)
        return cls(scale, kernel_features(rows, kernel, n_components, rng))

    def __call__(self, bags: Bags) -> Bags:
        return self.of_scaled(self.scale(bags))

    def of_scaled(self, bags: Bags) -> Bags:
        """Features of scaled bags, computed in blocks."""
        rows, map_ = bags.instances, self.features
        found = np.empty((len(rows), map_.dim), dtype=np.float32)
        step = map_.rows_at_once
        for first in range(0, len(rows), step):
            block = slice(first, first + step)
            found[block] = map_.transform(rows[block])
        return bags.with_instances(found)


@dataclass(frozen=True)
class InstanceCandidate:
    """An estimator whose bag scores are the highest instance scores, one-vs-rest.

    One class of three or more may be ``without`` instances that decide: a bag is of this class
    unless one of its instances is of another. The score of this class is then minus the highest
    score of the others.
    """

    # Not fitted.
    model: Any
    scale: Callable[[Bags], Bags]
    # Training bags, scaled.
    bags: Bags
    training: Training
    without: int | None = None
    # Out-of-fold scores of classes, which candidates with different ``without`` share.
    shared: dict[Any, np.ndarray] = field(default_factory=dict)

    def fold(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        if self.training.n_columns == 1:
            return _columns(self._fitted(0, train, {"tol": _FOLD_TOL}), self.bags[test])
        return np.hstack([self._scores(column, train, test) for column in self._columns])

    def whole(self) -> ScoreFunction:
        rows = np.arange(len(self.bags))
        models = [self._fitted(column, rows, {}) for column in self._columns]
        return _InstanceFunction(self.scale, models)

    @property
    def _columns(self) -> range:
        return range(self.training.n_columns)

    def _scores(self, column: int, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        key = column, column == self.without, train.tobytes()
        if key not in self.shared:
            model = self._fitted(column, train, {"tol": _FOLD_TOL})
            self.shared[key] = _columns(model, self.bags[test])
        return self.shared[key]

    def _fitted(self, column: int, train: np.ndarray, settings: dict[str, Any]) -> Any:
        given = self.training
        targets = given.targets[train]
        if given.n_columns > 1:
            targets = (targets == column).astype(np.intp)
            settings = {**settings, "pos_label": 0 if column == self.without else 1}
        model = clone(self.model).set_params(**settings)
        bags = self.bags if len(train) == len(self.bags) else self.bags[train]
        return model.fit(bags, targets, sample_weight=given.weights[train])


# -- statistics of the bags ------------------------------------------------------------------------


@dataclass(frozen=True)
class _StatisticsFunction:
    rows: Callable[[Bags], np.ndarray]
    model: Any

    def bag_scores(self, bags: Bags) -> np.ndarray:
        return _votes(self.model, self.rows(bags))

    def instance_scores(self, bags: Bags) -> np.ndarray:
        return self.bag_scores(Bags.singletons(bags.instances))


@dataclass(frozen=True)
class ScaledStatistics:
    """Statistics of each feature of scaled bags, shape (n_bags, n)."""

    scale: Scaling
    names: tuple[str, ...]

    def __call__(self, bags: Bags) -> np.ndarray:
        return self.of_scaled(self.scale(bags))

    def of_scaled(self, bags: Bags) -> np.ndarray:
        return BagStatistics(self.names).fit_transform(bags)


@dataclass(frozen=True)
class StatisticsCandidate:
    """Trees, or ridge regression, on statistics of the bags."""

    # Not fitted.
    model: Any
    rows: ScaledStatistics
    # Of shape (n_bags, n).
    matrix: np.ndarray
    training: Training

    def fold(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        return _votes(self._fitted(train), self.matrix[test])

    def whole(self) -> ScoreFunction:
        return _StatisticsFunction(self.rows, self._fitted(np.arange(len(self.matrix))))

    def _fitted(self, train: np.ndarray) -> Any:
        given = self.training
        return clone(self.model).fit(
            self.matrix[train], given.targets[train], sample_weight=given.weights[train]
        )


def _votes(model: Any, rows: np.ndarray) -> np.ndarray:
    """Values; or log odds of the classes, at most those of half a tree against all others."""
    if not is_classifier(model):
        return _as_columns(model.predict(rows))
    proportions = model.predict_proba(rows)
    proportions = proportions[:, 1:] if proportions.shape[1] == 2 else proportions
    smallest = 0.5 / len(model.estimators_)
    return logit(np.clip(proportions, smallest, 1 - smallest))
