"""Formulations that are solved by passes over the instances, and when they are taken.

With a linear kernel the primal decides: its cost grows with the instances and hardly with the bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse

from .._bags import Bags
from .._bags.segments import bag_ranges, pooling_matrix
from .._fit.validation import STORED_FLOATS
from .._solvers.common.cccp import CCCPSolution
from .._solvers.common.gram import KERNEL_BLOCK_BYTES
from .._solvers.common.nystroem import FeatureMap
from .._solvers.common.options import SolverOptions
from .._solvers.svm.coupled_passes import solve_coupled_passes
from .._solvers.svm.losses import Coupling, Hinge, Tube
from .._solvers.svm.maximum.labels_rows import solve_instance_labels_rows
from .._solvers.svm.sizes import by_passes
from ._base import solver_options
from ._coupled import CoupledSettings
from ._formulations import (
    ANNEALED,
    Formulation,
    Report,
    TrainingBags,
    drawn_labels,
    primal_function,
    primal_precision,
    primal_source,
)
from ._functions import BagFunction, Expansion, LinearExpansion
from ._kernel import Kernel
from ._or_primal import OrPrimal

__all__ = ["SOLVERS", "CoupledPasses", "InstanceLabelsPrimal", "PassesMixin"]

SOLVERS = ("auto", "dual", "primal")


class PassesMixin:
    """For estimators with a parameter ``solver``: when they go by passes, and what they read."""

    solver: str
    kernel: Any

    def _linear(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def _may_pass(self) -> bool:
        """Whether the parameters allow the primal; more of them than these may count."""
        free = self.solver == "primal" or (self.solver == "auto" and not self._anneals())
        return free and (self._linear() or self._has_features())

    def _anneals(self) -> bool:
        """Whether the start is annealed, over kernel values."""
        init = getattr(self, "init", None)
        if not isinstance(init, str) or init != ANNEALED:
            return False
        if self.solver == "primal":
            raise ValueError("init='annealed' has no primal: take solver='auto' or another init.")
        return True

    def _has_features(self) -> bool:
        """Whether a kernel beside the linear one is approximated by features that can be passed."""
        return False

    def _by_passes(self, training: TrainingBags) -> bool:
        """Whether the primal is taken."""
        n_bags, n_instances, n_features = training.size
        # Explicit features of other kernels are few.
        width = n_features if self._linear() else 0
        large = training.is_remote or by_passes(self.solver, n_bags, n_instances, width)
        return self._may_pass() and large

    def _takes_remote_bags(self) -> bool:
        return self._may_pass() and self._linear()

    def _or_passes(
        self, dual: Formulation, training: TrainingBags, kernel: Kernel, n_workers: int
    ) -> Formulation:
        """A coupled formulation with the primal behind it, where there is one."""
        if not kernel.linear or getattr(self, "bag_kernel", "") == "minmax":
            return dual
        of = CoupledSettings.of if hasattr(self, "loss") else CoupledSettings.hard_maximum
        n_threads = self._n_threads(n_workers)
        passes = CoupledPasses.of(of(self), training, solver_options(self), n_threads)
        return OrPrimal(training, dual, passes)

    def _n_threads(self, n_workers: int) -> int:
        """Threads that share a pass: the jobs for which there is no run."""
        return max(1, effective_n_jobs(getattr(self, "n_jobs", None)) // n_workers)

    def _fit_dtypes(self) -> Any:
        """Types of instances that ``fit`` takes as they are."""
        return STORED_FLOATS if self._may_pass() and self._linear() else np.float64

    def _kernel_of(self, training: TrainingBags, sample_weight: np.ndarray) -> Kernel:
        """The kernel of a fit; ``sample_weight`` is that of the used bags."""
        if self._linear() and self._by_passes(training):
            return Kernel.plain()
        spread = np.repeat(sample_weight, np.diff(training.offsets))
        return Kernel.of(self, training.instances, spread)


@dataclass(frozen=True)
class _Passes:
    """Base of the formulations by passes.

    Attributes
    ----------
    training : TrainingBags
    options : SolverOptions
    init : str or array-like
    n_init : int
    n_jobs : int
        Threads that a pass is shared by.
    features : FeatureMap or None
        None for those of the linear kernel, the instances.
    """

    training: TrainingBags
    options: SolverOptions
    init: Any = "auto"
    n_init: int = 1
    n_jobs: int = 1
    features: FeatureMap | None = None

    @property
    def bag_score_is_max(self) -> bool:
        """Whether a bag scores as its highest instance does."""
        return True

    @property
    def gap_tol(self) -> float:
        """Relative duality gap that a convex step may end with."""
        return max(self.options.tol, primal_precision(self.training, self.features))

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        """The function of the results times ``sign``, and its fitted attributes."""
        return primal_function(self.training, self.features, results, sign)


@dataclass(frozen=True)
class InstanceLabelsPrimal(_Passes):
    """mi-SVM with a linear kernel or explicit features."""

    def starts(self, loss: Hinge, rng: np.random.RandomState) -> list[Any]:
        """First labels of all instances, one array per start, or the name of a start."""
        first: Any = self.init
        if self.init == "bag":
            first = np.repeat(loss.signs, np.diff(self.training.offsets))
        starts = [] if self.init == "random" else [first]
        missing = self.n_init - len(starts)
        return starts + [drawn_labels(self.training, loss, rng) for _ in range(missing)]

    def solve(self, loss: Hinge, start: Any, on_iteration: Report) -> CCCPSolution:
        """A local minimum of the problem with this loss, from this start."""
        options = self.options.watched_by(on_iteration)
        source = primal_source(self.training, self.features, self.n_jobs)
        return solve_instance_labels_rows(source, loss, start, options, self.gap_tol)


@dataclass(frozen=True)
class CoupledPasses(_Passes):
    """Bags tied to their highest instances, with a linear kernel.

    Attributes
    ----------
    bag_kernel, loss : str
    coupling, epsilon : float
    """

    bag_kernel: str = "normalized_set"
    loss: str = "l1"
    coupling: float = 0.1
    epsilon: float = 0.1

    @classmethod
    def of(
        cls,
        settings: CoupledSettings,
        training: TrainingBags,
        options: SolverOptions,
        n_threads: int,
    ) -> CoupledPasses:
        """The formulation for the settings of an estimator."""
        return cls(
            training,
            options,
            settings.init,
            settings.n_init,
            n_threads,
            None,
            settings.bag_kernel,
            settings.loss,
            settings.coupling,
            settings.epsilon,
        )

    @property
    def bag_score_is_max(self) -> bool:
        """Whether a bag scores as its highest instance does."""
        return self.loss == "max"

    def starts(self, loss: Hinge | Tube, rng: np.random.RandomState) -> list[Any]:
        """First rows of all bags, one array per start, or the name of a start."""
        offsets, init = self.training.offsets, self.init

        def drawn() -> np.ndarray:
            return np.asarray(offsets[:-1] + rng.randint(0, np.diff(offsets)))

        if not isinstance(init, str):
            starts: list[Any] = [self.training.given_witnesses(init)]
        else:
            starts = [drawn() if init == "random" else init]
        return starts + [drawn() for _ in range(self.n_init - 1)]

    def solve(self, loss: Hinge | Tube, start: Any, on_iteration: Report) -> CCCPSolution:
        """A local minimum of the problem with this loss, from this start."""
        options = self.options.watched_by(on_iteration)
        coupling = Coupling(self.loss, self.coupling * loss.weights, self.epsilon)
        source = self.training.source(self.n_jobs)
        return solve_coupled_passes(
            source, loss, coupling, self.bag_kernel, start, options, self.gap_tol
        )

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        """The function of the results times ``sign``, and its fitted attributes."""
        function, attributes = super().function(results, sign)
        if not self.bag_score_is_max:
            expansion = LinearExpansion(attributes["coef_"])
            function = LinearSetFunction(expansion, attributes["intercept_"], self.bag_kernel)
        return function, attributes


@dataclass(frozen=True)
class LinearSetFunction:
    """A linear function in the space of a set kernel: a bag is the scaled sum of its instances."""

    expansion: Expansion
    intercept: np.ndarray
    bag_kernel: str

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, k)."""
        scores, rows = self.expansion(bags.instance_rows), bags.instance_rows
        if self.bag_kernel == "normalized_set":
            step = _rows_of_a_block(bags)
            norms = [_norms(rows[first : first + step]) for first in range(0, len(scores), step)]
            scores *= _inverse(np.concatenate(norms))[:, None]
        return scores + self.intercept

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, k)."""
        sums = pooling_matrix(bags.offsets, 1.0) @ self.expansion(bags.instance_rows)
        if self.bag_kernel == "mean_set":
            sums /= bags.sizes[:, None]
        elif self.bag_kernel == "normalized_set":
            norms = []
            for first, last in bag_ranges(bags.offsets, _rows_of_a_block(bags)):
                start, stop = int(bags.offsets[first]), int(bags.offsets[last])
                pooling = pooling_matrix(bags.offsets[first : last + 1] - start, 1.0)
                norms.append(_norms(pooling @ bags.instance_rows[start:stop]))
            sums *= _inverse(np.concatenate(norms))[:, None]
        return np.asarray(sums + self.intercept)


def _rows_of_a_block(bags: Bags) -> int:
    return max(1, KERNEL_BLOCK_BYTES // (8 * max(1, bags.shape[1])))


def _norms(rows: Any) -> np.ndarray:
    if sparse.issparse(rows):
        rows = rows.astype(np.float64, copy=False)
        return np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def _inverse(norms: np.ndarray) -> np.ndarray:
    inverse = np.zeros(len(norms))
    np.divide(1.0, norms, out=inverse, where=norms > 0)
    return inverse
