"""Formulations whose bag score is the highest instance score, between estimators and solvers.

A formulation is made for the bags of one fit, see :func:`._fit.solve_and_store`. Formulations with
other bag scores are in :mod:`._coupled`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .._bags import Bags
from .._bags.blocks import PassSource, width_of
from .._fit.multi_start import drawn_rows, values_of
from .._fit.validation import STORED_FLOATS
from .._fit.warn import warn_of_indefinite
from .._solvers.common.cccp import CCCPSolution, SolverOptions
from .._solvers.common.descent import precision
from .._solvers.common.features import FeatureMap, FeatureSource, landmark_features
from .._solvers.common.screen import instance_landmarks, transformed_source
from .._solvers.svm.losses import Hinge
from .._solvers.svm.maximum.dual import solve_mi_svm
from .._solvers.svm.maximum.labels import solve_instance_labels, solve_instance_labels_rows
from .._solvers.svm.problem import BinaryProblem
from .._solvers.svm.selection import SelectionSettings, solve_selection
from .._solvers.svm.starts import screened_witnesses, solve_mi_svm_rows
from ._fit import Kernel, Problems, TrainingBags, memory_limit, training_gram
from ._functions import (
    BagFunction,
    Expansion,
    InstanceFunction,
    KernelExpansion,
    LinearExpansion,
)

Report = Callable[[int, float], bool]


@dataclass(frozen=True, kw_only=True)
class Formulation:
    """Base of the formulations: the data of a fit, and its instances for passes."""

    training: TrainingBags
    options: SolverOptions
    kernel: Kernel
    tol: float | str
    init: Any = "auto"
    n_init: int = 1
    n_jobs: int = 1
    features: FeatureMap | None = None

    @classmethod
    def of(cls, problems: Problems, **more: Any) -> Self:
        """The formulation for the problems of a fit."""
        estimator = problems.estimator
        facts: dict[str, Any] = {
            "training": problems.training,
            "options": problems.options,
            "kernel": problems.kernel,
            "tol": estimator.tol,
            "init": getattr(estimator, "init", "auto"),
            "n_init": getattr(estimator, "n_init", 1),
            "n_jobs": problems.n_threads,
        }
        return cls(**{**facts, **more})

    @property
    def over_rows(self) -> bool:
        """Whether it is solved over rows, or in the dual over kernel values."""
        return self.kernel.linear or self.features is not None

    @property
    def gap_tol(self) -> float:
        """Relative duality gap at which a convex step may stop."""
        if not self.over_rows:
            return self.options.tol
        width = self.training.width if self.features is None else self.features.dim
        return precision(self.tol, self.training.size[1], width)

    def source(self) -> PassSource:
        """The instances or their explicit features."""
        bags, features = self.training.selected, self.features
        if features is None:
            return self.training.source(self.n_jobs)
        block_bytes = int(8 * width_of(bags.instance_rows) * features.rows_at_once)
        return FeatureSource(bags.source(n_jobs=self.n_jobs, block_bytes=block_bytes), features)

    def screen_source(self, weights: np.ndarray) -> PassSource | None:
        """Instances or features for a screened start; None for an indefinite kernel."""
        if self.over_rows:
            return self.source()
        if not self.kernel.semidefinite:
            return None
        source = self.training.source()
        return transformed_source(source, instance_landmarks(source, self.kernel.values, weights))


@dataclass(frozen=True, kw_only=True)
class Maximum(Formulation):
    """MI-SVM, or mi-SVM with ``slack="labels"``.

    The linear kernel and explicit features are solved over rows, other kernels in the dual over
    kernel values.
    """

    slack: str = "bag"
    # Kernel values, for the dual.
    gram: Any = None

    bag_score_is_max: ClassVar[bool] = True

    def starts(self, loss: Hinge, rng: np.random.RandomState) -> list[Any]:
        """First witnesses or labels, one array per start, or the name of a start."""
        draw = random_labels if self.slack == "labels" else random_witnesses
        starts: list[Any] = [self.init]
        if not isinstance(self.init, str):
            starts = [self.training.given_witnesses(self.init)[loss.signs > 0]]
        elif self.init == "random":
            starts = [draw(self.training, loss, rng)]
        elif self.init == "bag":
            starts = [np.repeat(loss.signs, np.diff(self.training.offsets))]
        return starts + [draw(self.training, loss, rng) for _ in range(self.n_init - 1)]

    def solve(self, loss: Hinge, start: Any, on_iteration: Report) -> CCCPSolution:
        """A stationary point from a start."""
        options = self.options.watched_by(on_iteration)
        if self.over_rows:
            if self.slack == "labels":
                return solve_instance_labels_rows(self.source(), loss, start, options, self.gap_tol)
            return solve_mi_svm_rows(self.source(), loss, self.slack, start, options, self.gap_tol)
        problem = BinaryProblem(self.gram, self.training.offsets, loss.signs, loss.weights)
        others = None
        if isinstance(start, str):
            others, start = self.screened(loss) if start == "auto" else None, None
        if self.slack == "labels":
            return solve_instance_labels(problem, start, options, others)
        return solve_mi_svm(problem, self.slack, start, options, others)

    def screened(self, loss: Hinge) -> np.ndarray | None:
        """Screened starts; of a nonlinear kernel the best one, as its steps cost more."""
        source = self.screen_source(loss.weights)
        if source is None:
            return None
        found = screened_witnesses(source, loss.signs, loss.weights)
        return found if self.kernel.linear else found[:1]

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        """The function of the results times ``sign``, and its fitted attributes."""
        attributes: dict[str, Any]
        training = self.training
        if self.over_rows:
            weights = sign * np.stack([result.w for result in results])
            expansion, attributes = stored_rows(weights, self.features, lambda: training.rows)
            attributes["n_passes_"] = values_of(results, "n_passes")
        else:
            found = [self.gram.expansion(result.rows, result.coef) for result in results]
            coef = np.stack(
                [np.bincount(rows, weights=each, minlength=self.gram.n) for rows, each in found]
            )
            expansion, attributes = stored_support(
                sign * coef, training.instances, training.rows, self.kernel
            )
        intercept = sign * np.array([result.intercept for result in results])
        return InstanceFunction(expansion, intercept), {**attributes, "intercept_": intercept}


def maximum(problems: Problems, slack: str) -> Maximum:
    """The formulation of MI-SVM or mi-SVM for the problems of a fit."""
    training, kernel = problems.training, problems.kernel
    gram = features = None
    if not kernel.linear:
        if problems.n_components is None:
            gram = training_gram(training.instances, kernel, memory_limit())
            gram = gram.share_of(problems.n_workers)
        else:
            features = kernel_features(
                training.instances, kernel, problems.n_components, problems.rng
            )
    return Maximum.of(problems, slack=slack, gram=gram, features=features)


def random_witnesses(training: TrainingBags, loss: Hinge, rng: np.random.RandomState) -> np.ndarray:
    """A random instance of each positive bag."""
    return drawn_rows(training.offsets, rng, loss.signs > 0)


def random_labels(training: TrainingBags, loss: Hinge, rng: np.random.RandomState) -> np.ndarray:
    """Random labels of the instances of positive bags, at least one positive in each."""
    offsets, sizes = training.offsets, np.diff(training.offsets)
    labels = np.where(rng.uniform(size=offsets[-1]) < 0.5, 1.0, -1.0)
    labels[drawn_rows(offsets, rng)] = 1.0
    labels[np.repeat(loss.signs < 0, sizes)] = -1.0
    return labels


@dataclass(frozen=True, kw_only=True)
class Selection(Maximum):
    """Guo's selection of one instance of each positive bag; ``gram`` has all kernel values."""

    settings: SelectionSettings

    def source(self) -> PassSource:
        """The instances, or their explicit features, which are the instances of ``gram``."""
        if self.features is None:
            return self.training.source()
        return Bags(self.gram.instances, self.training.offsets).source()

    def starts(self, loss: Hinge, rng: np.random.RandomState) -> list[Any]:
        return [None]

    def solve(self, loss: Hinge, start: Any, on_iteration: Report) -> CCCPSolution:
        options = self.options.watched_by(on_iteration)
        problem = BinaryProblem(self.gram, self.training.offsets, loss.signs, loss.weights)
        others = self.screened(loss) if self.settings.polish else None
        rows = (self.source(), self.gap_tol) if self.over_rows else None
        found = solve_selection(problem, self.settings, options, rows, others)
        if not found.stopped and (found.relaxation.error > options.tol or found.mixture_failure):
            found.stopped = "relaxation"
        return found

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        return super().function([each.svm for each in results], sign)


# -- explicit features and stored attributes -------------------------------------------------------


def kernel_features(
    rows: Any, kernel: Kernel, n_components: int | None, rng: np.random.RandomState
) -> FeatureMap:
    """Explicit features by landmarks."""
    assert n_components is not None
    features, smallest = landmark_features(rows, kernel.values, n_components, rng)
    if smallest < -1e-10:
        warn_of_indefinite(smallest, "landmarks")
    return features


Stored = tuple[Expansion, dict[str, Any]]


def stored_support(coef: np.ndarray, vectors: Any, numbers: np.ndarray, kernel: Kernel) -> Stored:
    """A function over kernel values of ``vectors`` and its fitted attributes.

    ``coef`` has shape (k, n_vectors); ``numbers`` are the values of ``support_`` for the vectors.
    """
    support = np.flatnonzero(coef.any(axis=0))
    coef, vectors = coef[:, support], vectors[support]
    attributes = {
        "dual_coef_": coef,
        "support_": numbers[support],
        "support_vectors_": vectors,
    }
    return KernelExpansion(kernel.values, vectors, coef), attributes


def stored_linear(weights: np.ndarray) -> Stored:
    """A linear function with weights of shape (k, n_features), and its fitted attributes."""
    return LinearExpansion(weights), {"coef_": weights, "_dtypes": STORED_FLOATS}


def stored_rows(
    weights: np.ndarray, features: FeatureMap | None, numbers: Callable[[], np.ndarray]
) -> Stored:
    """A function with weights of features or explicit features, and its fitted attributes."""
    if features is None:
        return stored_linear(weights)
    coef = weights @ features.factor.T
    attributes = {
        "dual_coef_": coef,
        "support_": numbers()[features.chosen],
        "support_vectors_": features.landmarks,
        "n_components_": int(features.landmarks.shape[0]),
    }
    return KernelExpansion(features.kernel, features.landmarks, coef), attributes
