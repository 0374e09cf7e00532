"""Formulations whose bag score is the highest instance score, between estimators and solvers.

A formulation is made for the bags of one fit. It lists the starts of a problem, solves it, and
turns the results into a function and its fitted attributes. Formulations with other bag scores are
in :mod:`._coupled`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol, cast

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.blocks import BLOCK_BYTES, PassSource, width_of
from .._bags.segments import gather_rows
from .._fit.multi_start import drawn_rows, given_rows, values_of
from .._fit.validation import STORED_FLOATS
from .._solvers.common.cccp import CCCPSolution, SolverOptions
from .._solvers.common.descent import precision
from .._solvers.common.features import FeatureMap, FeatureSource, landmark_features
from .._solvers.common.screen import landmark_source
from .._solvers.svm.losses import Hinge
from .._solvers.svm.maximum.dual import MISVMResult, solve_mi_svm
from .._solvers.svm.maximum.labels_dual import solve_instance_labels
from .._solvers.svm.maximum.labels_rows import solve_instance_labels_rows
from .._solvers.svm.maximum.linear import dual_or_rows, with_weights
from .._solvers.svm.maximum.rows import solve_mi_svm_rows
from .._solvers.svm.maximum.starts import screened_witnesses
from .._solvers.svm.problem import BinaryProblem, suits_rows
from .._solvers.svm.selection import (
    RowSolver,
    SelectionResult,
    SelectionSettings,
    solve_selection,
)
from ._functions import (
    BagFunction,
    ColumnExpansion,
    Expansion,
    InstanceFunction,
    KernelExpansion,
    LinearExpansion,
)
from ._kernel import Kernel, memory_limit, training_gram, warn_of_indefinite

Report = Callable[[int, float], bool]


@dataclass(frozen=True)
class TrainingBags:
    """All bags of a fit, and the used ones: those with a weight above zero."""

    bags: Bags
    used: np.ndarray  # positions of the used bags
    offsets: np.ndarray  # of the used bags among their instances
    selected: Any  # the used bags, which may be remote

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of the used bags' instances among all instances."""
        return gather_rows(self.bags.offsets, self.used)[0]

    @property
    def stored(self) -> Any:
        """Instances of the used bags as they are stored: ndarray, CSR or rows of a memory map."""
        return self.selected.instance_rows

    @property
    def is_remote(self) -> bool:
        """Whether the instances are on the workers of a cluster."""
        return bool(self.bags.is_remote)

    @property
    def is_in_memory(self) -> bool:
        """Whether the instances are an array or CSR matrix and not a memory map."""
        stored = self.stored
        in_memory = isinstance(stored, np.ndarray) and not isinstance(stored, np.memmap)
        return in_memory or sparse.issparse(stored)

    @property
    def size(self) -> tuple[int, int, int]:
        """Numbers of used bags, of their instances, and of features."""
        return len(self.used), int(self.offsets[-1]), int(self.bags.shape[1])

    def source(self, n_jobs: int = 1, block_bytes: int = BLOCK_BYTES) -> PassSource:
        """Instances of the used bags for passes by ``n_jobs`` threads."""
        return self.selected.source(n_jobs=n_jobs, block_bytes=block_bytes)

    @cached_property
    def instances(self) -> Any:
        """Instances of the used bags in memory and in float64, an ndarray or CSR."""
        stored = self.stored if sparse.issparse(self.stored) else self.stored[:]
        return stored.astype(np.float64, copy=False)

    @classmethod
    def of(cls, bags: Bags, used: np.ndarray) -> TrainingBags:
        """Select the bags at the positions ``used``."""
        offsets = np.concatenate([[0], np.cumsum(np.diff(bags.offsets)[used])]).astype(np.intp)
        selected = bags if len(used) == len(bags) else bags[used]
        return cls(bags, used, offsets, selected)

    def given_witnesses(self, init: Any) -> np.ndarray:
        """``init`` as one row of ``instances`` per used bag."""
        rows, offsets = given_rows(init, self.bags), self.bags.offsets
        return self.offsets[:-1] + rows[self.used] - offsets[self.used]


class Formulation(Protocol):
    """The problem of a fit: starts, solution, function."""

    @property
    def bag_score_is_max(self) -> bool:
        """Whether bag scores are highest instance scores."""
        ...

    @property
    def gap_tol(self) -> float:
        """Relative duality gap at which a convex step may stop."""
        ...

    def starts(self, loss: Any, rng: np.random.RandomState) -> list[np.ndarray | None]:
        """First linearisations, one per start; None is the default of the solver."""
        ...

    def solve(self, loss: Any, start: np.ndarray | None, on_iteration: Report) -> CCCPSolution:
        """A local minimum of the problem with this loss, from this start."""
        ...

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        """The function of the results times ``sign``, and its fitted attributes."""
        ...


def by_rows(
    training: TrainingBags,
    kernel: Kernel,
    n_components: int | None,
    *,
    slack: str = "instance",
    float64_numbers: int = 2**25,
) -> bool:
    """Whether a problem is solved over rows; otherwise it goes to the dual over kernel values.

    Explicit features and remote instances go to the solver over rows, and so does the linear kernel
    where :func:`suits_rows` holds, or more than ``float64_numbers`` numbers are not in memory.
    ``slack="bag"`` has one slack per bag.
    """
    if training.is_remote or n_components is not None:
        return True
    if not kernel.linear:
        return False
    n_bags, n_instances, n_features = training.size
    if not training.is_in_memory and n_instances * n_features > float64_numbers:
        return True
    n_slacks = n_bags if slack == "bag" else n_instances
    return suits_rows(training.size, n_slacks)


@dataclass(frozen=True)
class _Maximum:
    """Base of MI-SVM and mi-SVM; ``slack="labels"`` is mi-SVM."""

    training: TrainingBags
    options: SolverOptions
    slack: str = "bag"
    init: Any = "auto"
    n_init: int = 1

    @property
    def bag_score_is_max(self) -> bool:
        return True

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


@dataclass(frozen=True, kw_only=True)
class MaximumDual(_Maximum):
    """MI-SVM or mi-SVM in the dual, over the Gram matrix of the instances."""

    kernel: Kernel
    gram: Any
    # For a linear kernel, the solver over rows is the fallback of the dual.
    rows: MaximumRows | None = None

    @property
    def gap_tol(self) -> float:
        tol = self.options.tol
        return tol if self.rows is None else max(tol, self.rows.gap_tol)

    def problem(self, loss: Hinge) -> BinaryProblem:
        return BinaryProblem(self.gram, self.training.offsets, loss.signs, loss.weights)

    def solve(self, loss: Hinge, start: Any, on_iteration: Report) -> CCCPSolution:
        rows = self.rows
        if rows is None:
            return self._solve(loss, start, on_iteration)
        return dual_or_rows(
            lambda: with_weights(self._solve(loss, start, on_iteration), self.gram),
            lambda: rows.solve(loss, start, on_iteration),
        )

    def screened(self, loss: Hinge) -> np.ndarray | None:
        """Screened starts; of a nonlinear kernel the best one, as its steps cost more."""
        source = screen_source(self.training, self.kernel, loss.weights)
        if source is None:
            return None
        found = screened_witnesses(source, loss)
        return found if self.kernel.linear else found[:1]

    def _solve(self, loss: Hinge, start: Any, on_iteration: Report) -> MISVMResult:
        options, problem = self.options.watched_by(on_iteration), self.problem(loss)
        first: Any = None if isinstance(start, str) else start
        others = self.screened(loss) if isinstance(start, str) and start == "auto" else None
        if self.slack == "labels":
            return solve_instance_labels(problem, first, options, others)
        return solve_mi_svm(problem, self.slack, first, options, others)

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        if self.kernel.linear:
            return row_function(self.training, None, results, sign)
        expansions = [self.gram.expansion(result.rows, result.coef) for result in results]
        dense = np.stack(
            [np.bincount(index, weights=coef, minlength=self.gram.n) for index, coef in expansions]
        )
        instances = self.training.instances
        stored = stored_dual(sign * dense, instances, self.training.rows, self.kernel)
        return with_intercepts(stored, results, sign)


@dataclass(frozen=True)
class MaximumRows(_Maximum):
    """MI-SVM or mi-SVM over rows: the instances, or their explicit features."""

    n_jobs: int = 1
    features: FeatureMap | None = None

    @property
    def gap_tol(self) -> float:
        return max(self.options.tol, row_precision(self.training, self.features))

    def solve(self, loss: Hinge, start: Any, on_iteration: Report) -> CCCPSolution:
        source = row_source(self.training, self.features, self.n_jobs)
        options = self.options.watched_by(on_iteration)
        if self.slack == "labels":
            return solve_instance_labels_rows(source, loss, start, options, self.gap_tol)
        return solve_mi_svm_rows(source, loss, self.slack, start, options, self.gap_tol)

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        return row_function(self.training, self.features, results, sign)


def maximum(problems: Any, slack: str) -> MaximumDual | MaximumRows:
    """The formulation of MI-SVM or mi-SVM for the problems of a fit."""
    estimator, training, kernel = problems.estimator, problems.training, problems.kernel
    options = training, problems.options, slack, estimator.init, estimator.n_init
    if not problems.by_rows(slack):
        gram = training_gram(training.instances, kernel, memory_limit())
        gram = gram.share_of(problems.n_workers)
        rows = MaximumRows(*options, problems.n_threads) if kernel.linear else None
        return MaximumDual(*options, kernel=kernel, gram=gram, rows=rows)
    features = None
    if not kernel.linear:
        features = kernel_features(training.instances, kernel, problems.n_components, problems.rng)
    return MaximumRows(*options, problems.n_threads, features)


def row_function(
    training: TrainingBags, features: FeatureMap | None, results: Sequence[Any], sign: int
) -> tuple[BagFunction, dict[str, Any]]:
    """The function of the weight vectors of results over rows, times ``sign``."""
    weights = sign * np.stack([result.w for result in results])
    stored = stored_rows(weights, features, lambda: training.rows)
    function, attributes = with_intercepts(stored, results, sign)
    return function, {**attributes, "n_passes_": values_of(results, "n_passes")}


def row_source(training: TrainingBags, features: FeatureMap | None, n_jobs: int) -> PassSource:
    """The instances or their explicit features, for passes by ``n_jobs`` threads."""
    if features is None:
        return training.source(n_jobs)
    return feature_source(training.selected, features, n_jobs)


def screen_source(training: TrainingBags, kernel: Kernel, weights: np.ndarray) -> PassSource | None:
    """Instances or their landmark features for a screen, or None where there are neither."""
    if kernel.linear:
        return training.source()
    if not kernel.semidefinite:
        return None
    return landmark_source(training.source(), kernel.values, weights)


def feature_source(bags: Any, features: FeatureMap, n_jobs: int) -> FeatureSource:
    """Explicit features of the instances of bags, in blocks whose kernel values are small."""
    block_bytes = int(8 * width_of(bags.instance_rows) * features.rows_at_once)
    return FeatureSource(bags.source(n_jobs=n_jobs, block_bytes=block_bytes), features)


def row_precision(training: TrainingBags, features: FeatureMap | None = None) -> float:
    """Relative gap of a convex step that is solved over rows."""
    n_instances = int(training.offsets[-1])
    if features is None and not training.is_remote:
        return precision(n_instances, width_of(training.stored))
    # Explicit features and remote instances count as dense.
    width = training.bags.shape[1] if features is None else features.dim
    return precision(n_instances, float(width))


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
class Selection(MaximumDual):
    """Guo's selection of one instance of each positive bag."""

    settings: SelectionSettings
    over_rows: bool
    # Explicit features instead of the kernel; ``gram`` has their values for all instances.
    features: FeatureMap | None = None

    @property
    def gap_tol(self) -> float:
        tol = self.options.tol
        if self.features is None and not self.kernel.linear:
            return tol
        return max(tol, row_precision(self.training, self.features))

    @property
    def source(self) -> PassSource:
        """The instances, or their explicit features."""
        if self.features is None:
            return self.training.source()
        return Bags(self.gram.instances, self.training.offsets).source()

    def screened(self, loss: Hinge) -> np.ndarray | None:
        if self.features is None:
            return super().screened(loss)
        return screened_witnesses(self.source, loss)[:1]

    def starts(self, loss: Hinge, rng: np.random.RandomState) -> list[Any]:
        return [None]

    def solve(self, loss: Hinge, start: Any, on_iteration: Report) -> CCCPSolution:
        options, problem = self.options.watched_by(on_iteration), self.problem(loss)
        others = self.screened(loss) if self.settings.polish else None
        solve = partial(solve_selection, problem, self.settings, options, others=others)
        if self.features is None and not self.kernel.linear:
            return solve()
        rows = RowSolver(self.source, self.gap_tol)
        if self.over_rows or self.features is not None:
            return solve(rows)
        return dual_or_rows(lambda: self._with_weights(solve()), lambda: solve(rows))

    def _with_weights(self, found: SelectionResult) -> SelectionResult:
        return replace(found, svm=with_weights(cast(MISVMResult, found.svm), self.gram))

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        fits = [each.svm for each in results]
        if self.features is None:
            return super().function(fits, sign)
        return row_function(self.training, self.features, fits, sign)


# -- explicit features and stored attributes -------------------------------------------------------


def kernel_features(
    rows: Any, kernel: Kernel, n_components: int | None, rng: np.random.RandomState
) -> FeatureMap:
    """Explicit features by landmarks; for the linear kernel, the rows themselves."""
    if kernel.linear:
        return FeatureMap(rows.shape[1])
    assert n_components is not None
    features, smallest = landmark_features(rows, kernel.values, n_components, rng)
    if smallest < -1e-10:
        warn_of_indefinite(smallest, "landmarks")
    return features


Stored = tuple[Expansion, dict[str, Any]]


def stored_dual(coef: np.ndarray, vectors: Any, numbers: np.ndarray, kernel: Kernel) -> Stored:
    """A function over kernel values; for the linear kernel its weights, as over rows."""
    if not kernel.linear:
        return stored_support(coef, vectors, numbers, kernel)
    expansion, attributes = stored_linear(np.asarray((vectors.T @ coef.T).T))
    n_passes = np.zeros(len(coef), dtype=int)
    return expansion, {**attributes, "n_passes_": n_passes if len(coef) > 1 else 0}


def stored_support(coef: np.ndarray, vectors: Any, numbers: np.ndarray, kernel: Kernel) -> Stored:
    """A function over kernel values of ``vectors`` and its fitted attributes.

    ``coef`` has shape (k, n_vectors); ``numbers`` are the values of ``support_`` for the vectors.
    """
    support = np.flatnonzero(coef.any(axis=0))
    attributes: dict[str, Any] = {
        "dual_coef_": coef[:, support],
        "support_": numbers[support],
    }
    coef = attributes["dual_coef_"]
    if kernel.columns is not None:
        return ColumnExpansion(attributes["support_"], coef), attributes
    attributes["support_vectors_"] = vectors = vectors[support]
    if kernel.linear:
        weights = np.asarray((vectors.T @ coef.T).T)
        return LinearExpansion(weights), {**attributes, "coef_": weights}
    return KernelExpansion(kernel.values, vectors, coef), attributes


def stored_linear(weights: np.ndarray) -> Stored:
    """A linear function with weights of shape (k, n_features), and its fitted attributes."""
    return LinearExpansion(weights), {"coef_": weights, "_dtypes": STORED_FLOATS}


def stored_rows(
    weights: np.ndarray, features: FeatureMap | None, numbers: Callable[[], np.ndarray]
) -> Stored:
    """A function with weights of features or explicit features, and its fitted attributes."""
    if features is None or features.kernel is None:
        return stored_linear(weights)
    coef = weights @ features.factor.T
    attributes = {
        "dual_coef_": coef,
        "support_": numbers()[features.chosen],
        "support_vectors_": features.landmarks,
        "n_components_": int(features.landmarks.shape[0]),
    }
    return KernelExpansion(features.kernel, features.landmarks, coef), attributes


def with_intercepts(
    stored: Stored, results: Sequence[Any], sign: int
) -> tuple[BagFunction, dict[str, Any]]:
    """A function of instances with the intercepts of the results."""
    expansion, attributes = stored
    intercept = sign * np.array([result.intercept for result in results])
    return InstanceFunction(expansion, intercept), {**attributes, "intercept_": intercept}
