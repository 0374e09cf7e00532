"""The ways to learn that are compared: an average of bag kernels, and the instance that decides.

A candidate is prepared once, without labels, on all training bags; inner folds then take parts of
what was prepared. Scores have one column for two classes or for regression, else one per class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC, LinearSVC, NuSVR

from .._bags import Bags
from ..svm._bag_svm import BagRows
from ..svm._kernel_average import as_kind

__all__ = [
    "BagCandidate",
    "Candidate",
    "InstanceCandidate",
    "Scaling",
    "ScoreFunction",
    "Training",
]

# The solvers' own 1e-3 leaves scores that depend on the order of the bags in the third digit.
_TOL = 1e-5


@dataclass(frozen=True)
class Training:
    """Targets and weights of the merged training bags."""

    # Of shape (n_bags,). Class numbers, 1 for the positive of two classes; or values.
    targets: np.ndarray
    # Number of columns of scores.
    n_columns: int
    regression: bool
    # Of shape (n_bags,).
    weights: np.ndarray
    C: float

    def signs(self, rows: np.ndarray, column: int) -> np.ndarray:
        """Whether bags are of the class of a column."""
        return self.targets[rows] == (1 if self.n_columns == 1 else column)

    def mean_squared_error(self, values: list[np.ndarray], rows: list[np.ndarray]) -> float:
        """Of predicted values of bags, fold by fold."""
        places = np.concatenate(rows)
        errors = np.concatenate(values)[:, 0] - self.targets[places]
        return float(np.average(errors**2, weights=self.weights[places]))


class ScoreFunction(Protocol):
    """A fitted candidate."""

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, n_columns)."""
        ...

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, n_columns)."""
        ...


class Candidate(Protocol):
    """A way to learn, prepared on the training bags."""

    def fold(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        """Scores of the bags ``test`` under a fit on the bags ``train``."""
        ...

    def whole(self) -> ScoreFunction:
        """A fit on all training bags."""
        ...


# -- bag kernels -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BagFunction:
    rows: BagRows
    models: list[Any]
    regression: bool

    def bag_scores(self, bags: Bags) -> np.ndarray:
        return _scores(self.models, self.rows(bags), self.regression)

    def instance_scores(self, bags: Bags) -> np.ndarray:
        return self.bag_scores(Bags(bags.instances, np.arange(bags.n_instances + 1)))


@dataclass(frozen=True)
class BagCandidate:
    """Support vector machines on an average of bag kernels; one per class against the rest."""

    rows: BagRows
    # Of shape (n_bags, n_bags) or (n_bags, n_features). Kernel matrix or features of the training
    # bags.
    matrix: np.ndarray
    training: Training

    def fold(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        models = self._models(train)
        rows = self.matrix[test] if self._explicit else self.matrix[np.ix_(test, train)]
        return _scores(models, rows, self.training.regression)

    def whole(self) -> ScoreFunction:
        models = self._models(np.arange(len(self.matrix)))
        return _BagFunction(self.rows, models, self.training.regression)

    @property
    def _explicit(self) -> bool:
        return self.rows.projection is not None

    def _models(self, train: np.ndarray) -> list[Any]:
        given, explicit = self.training, self._explicit
        rows = self.matrix[train] if explicit else self.matrix[np.ix_(train, train)]
        models = []
        for column in range(given.n_columns):
            if given.regression:
                model = _regressor(given.C, explicit)
                target = given.targets[train]
            else:
                model = _classifier(given.C, explicit)
                target = given.signs(train, column)
            models.append(model.fit(rows, target, sample_weight=given.weights[train]))
        return models


def _classifier(C: float, explicit: bool) -> Any:
    if explicit:
        return LinearSVC(C=C, dual=False, tol=1e-4, max_iter=10_000)
    return SVC(C=C, kernel="precomputed", tol=_TOL)


def _regressor(C: float, explicit: bool) -> Any:
    if explicit:
        return Ridge(alpha=0.5 / C)
    return NuSVR(nu=0.5, C=C, kernel="precomputed", tol=_TOL)


def _scores(models: list[Any], rows: np.ndarray, regression: bool) -> np.ndarray:
    return np.column_stack(
        [model.predict(rows) if regression else model.decision_function(rows) for model in models]
    )


# -- the instance that decides ---------------------------------------------------------------------


@dataclass(frozen=True)
class _InstanceFunction:
    scale: Callable[[Bags], Bags]
    model: Any

    def bag_scores(self, bags: Bags) -> np.ndarray:
        return _bag_scores(self.model, self.scale(bags))

    def instance_scores(self, bags: Bags) -> np.ndarray:
        bags = self.scale(bags)
        if hasattr(self.model, "instance_decision_function"):
            return _columns(self.model.instance_decision_function(bags))
        return _columns(self.model.predict_instances(bags))


@dataclass(frozen=True)
class Scaling:
    """Instances scaled as they were in training: texts to unit length, others by a transformer."""

    scaler: Any
    text: bool

    @classmethod
    def of(cls, bags: Bags, text: bool, scaler: Any) -> Scaling:
        """Fitted on distinct bags, in the storage that fits their kind."""
        return cls(Normalizer() if text else scaler.fit(bags.instances), text)

    def __call__(self, bags: Bags) -> Bags:
        bags = as_kind(bags, self.text)
        return bags.with_instances(self.scaler.transform(bags.instances))


@dataclass(frozen=True)
class InstanceCandidate:
    """An estimator whose bags score as their highest instance does."""

    # Not fitted.
    model: Any
    scale: Scaling
    # Training bags, scaled.
    bags: Bags
    training: Training

    def fold(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        return _bag_scores(self._fitted(train), self.bags[test])

    def whole(self) -> ScoreFunction:
        return _InstanceFunction(self.scale, self._fitted(np.arange(len(self.bags))))

    def _fitted(self, train: np.ndarray) -> Any:
        given = self.training
        bags = self.bags if len(train) == len(self.bags) else self.bags[train]
        return clone(self.model).fit(bags, given.targets[train], sample_weight=given.weights[train])


def _bag_scores(model: Any, bags: Bags) -> np.ndarray:
    if hasattr(model, "decision_function"):
        return _columns(model.decision_function(bags))
    return _columns(model.predict(bags))


def _columns(values: np.ndarray) -> np.ndarray:
    return values[:, None] if values.ndim == 1 else values
