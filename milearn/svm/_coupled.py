"""Formulations in which bags and instances are points of one space (Cheung & Kwok 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.segments import pooling_matrix
from .._fit.multi_start import drawn_rows, values_of
from .._kernels.bag import bag_scales, instance_scales, minmax_bytes
from .._kernels.instance import takes_sparse
from .._solvers.common.cccp import CCCPSolution
from .._solvers.svm.coupled.cccp import solve_coupled
from .._solvers.svm.coupled.gram import BagGram, exact_bytes
from .._solvers.svm.coupled.rows import BagRows, solve_coupled_rows
from .._solvers.svm.losses import Coupling, Hinge, Tube
from .._solvers.svm.starts import screened_rows
from ._fit import Kernel, Problems, TrainingBags, memory_limit, training_gram
from ._formulations import (
    Formulation,
    Report,
    kernel_features,
    stored_rows,
    stored_support,
)
from ._functions import (
    BagFunction,
    InstanceFunction,
    LinearSetFunction,
    MinMaxFunction,
    SetKernelFunction,
    object_rows,
)


@dataclass(frozen=True)
class CoupledSettings:
    """Parameters of an estimator that determine the formulation."""

    bag_kernel: str = "set"
    loss: str = "max"
    coupling: float = 0.0
    epsilon: float = 0.0

    @property
    def hard(self) -> bool:
        """Whether bag scores are highest instance scores, so that no bag is a point itself."""
        return self.loss == "max"

    @property
    def minmax(self) -> bool:
        """Whether bags and instances are given as rows of minima and maxima."""
        return self.bag_kernel == "minmax" and not self.hard


def coupled(problems: Problems, settings: CoupledSettings) -> Coupled:
    """The formulation for the problems of a fit, after a check of the memory that it needs.

    Raises
    ------
    MemoryError
        If kernel values exceed ``working_memory``.
    """
    if problems.kernel.linear or problems.n_components is not None:
        return _over_rows(problems, settings)
    training, kernel, room = problems.training, problems.kernel, memory_limit()
    n_bags, n_instances, n_features = training.size
    needed = exact_bytes(n_bags, n_instances)
    if settings.minmax and sparse.issparse(training.instances) and not takes_sparse(kernel.name):
        # Rows are dense for a kernel that does not support CSR.
        needed += minmax_bytes(n_bags + n_instances, n_features)
    if needed > room:
        raise MemoryError(
            f"The kernel values of {n_bags} bags with {n_instances} instances take "
            f"{needed / 2**20:.0f} MiB and working_memory is {room / 2**20:g} MiB: raise it by "
            "sklearn.set_config(working_memory=...), or give n_components= (300, say) for an "
            "approximation that needs no kernel matrix."
        )
    if settings.minmax:
        rows, scales = _all_object_rows(training, kernel), np.ones(n_instances)
        bags = sparse.eye_array(n_bags, n_bags + n_instances, k=n_instances, format="csr")
    else:
        rows = training.instances
        of_bags, scales = _scales(training, kernel, settings)
        bags = pooling_matrix(training.offsets, np.repeat(of_bags, np.diff(training.offsets)))
    gram = training_gram(rows, kernel, room - needed).share_of(problems.n_workers)
    of_points = BagGram(gram, training.offsets, bags, scales)
    return Coupled.of(problems, settings=settings, gram=of_points)


def _over_rows(problems: Problems, settings: CoupledSettings) -> Coupled:
    training, kernel, bags, features = problems.training, problems.kernel, None, None
    if settings.minmax:
        n_instances, rows = training.size[1], _all_object_rows(training, kernel)
        training = replace(training, selected=Bags(rows[:n_instances], training.offsets))
        bags = BagRows(rows[n_instances:])
    if not kernel.linear:
        rows = rows if settings.minmax else training.instances
        features = kernel_features(rows, kernel, problems.n_components, problems.rng)
        if bags is not None:
            bags = BagRows(features.transform(bags.bags))
        elif not settings.hard:
            of_bags, of_instances = _scales(training, kernel, settings)
            spread = np.repeat(of_bags, np.diff(training.offsets))
            bags = BagRows(features.sums(rows, spread, training.offsets), of_instances)
    more = {"training": training, "features": features, "bags": bags}
    return Coupled.of(problems, settings=settings, **more)


def _all_object_rows(training: TrainingBags, kernel: Kernel) -> Any:
    """Rows of minima and maxima of all instances, then of all bags."""
    keep_sparse, alone = takes_sparse(kernel.name), np.arange(training.offsets[-1] + 1)
    parts = [
        object_rows(training.instances, offsets, keep_sparse)
        for offsets in (alone, training.offsets)
    ]
    return (
        sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    )


def _scales(
    training: TrainingBags, kernel: Kernel, settings: CoupledSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Scales of bags and of instances in the feature space; a hard maximum has means of bags."""
    instances, offsets = training.instances, training.offsets
    if settings.hard:
        return 1.0 / np.diff(offsets), np.ones(int(offsets[-1]))
    return (
        bag_scales(settings.bag_kernel, instances, offsets, kernel.values),
        instance_scales(settings.bag_kernel, instances, kernel.values),
    )


@dataclass(frozen=True, kw_only=True)
class Coupled(Formulation):
    """Solved over rows: instances, or explicit features; or in the dual over kernel values."""

    settings: CoupledSettings
    # Rows of minima and maxima of bags, or explicit features of bags.
    bags: BagRows | None = None
    # Kernel values, for the dual.
    gram: BagGram | None = None

    @property
    def bag_score_is_max(self) -> bool:
        return self.settings.hard

    def coupling(self, loss: Hinge | Tube) -> Coupling:
        """The loss between the score of a bag and its highest instance score."""
        settings = self.settings
        return Coupling(settings.loss, settings.coupling * loss.weights, settings.epsilon)

    def starts(self, loss: Hinge | Tube, rng: np.random.RandomState) -> list[Any]:
        """First rows of all bags, one array per start, or the name of a start."""
        offsets, init = self.training.offsets, self.init
        starts: list[Any] = [init]
        if self.settings.hard and isinstance(init, str) and init == "auto":
            source = self.screen_source(loss.weights)
            assert isinstance(loss, Tube)
            if source is not None and np.diff(offsets).max() > 1 and np.ptp(loss.targets) > 0:
                starts += [screened_rows(source, loss.targets, loss.weights)]
        elif not isinstance(init, str):
            starts = [self.training.given_witnesses(init)]
        elif init == "random":
            starts = [drawn_rows(offsets, rng)]
        return starts + [drawn_rows(offsets, rng) for _ in range(self.n_init - 1)]

    def support_numbers(self) -> np.ndarray:
        """Values of ``support_`` for instances and bags: bags follow all instances."""
        training = self.training
        if not self.settings.minmax:
            return training.rows
        return np.concatenate([training.rows, training.bags.n_instances + training.used])

    def solve(self, loss: Hinge | Tube, start: Any, on_iteration: Report) -> CCCPSolution:
        """A stationary point from a start."""
        coupling, options = self.coupling(loss), self.options.watched_by(on_iteration)
        if self.gram is not None:
            return solve_coupled(self.gram, loss, coupling, start, options)
        bags = self.settings.bag_kernel if self.bags is None else self.bags
        return solve_coupled_rows(self.source(), loss, coupling, bags, start, options, self.gap_tol)

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        """The function that scores instances and bags, and its fitted attributes."""
        if self.gram is not None:
            coef = sign * np.stack(
                [self.gram.expansion(result.of_bags, result.of_instances) for result in results]
            )
            numbers = self.support_numbers()
            expansion, attributes = stored_support(coef, self.gram.rows, numbers, self.kernel)
        else:
            weights = sign * np.stack([result.w for result in results])
            expansion, attributes = stored_rows(weights, self.features, self.support_numbers)
            attributes["n_passes_"] = values_of(results, "n_passes")
        intercept = sign * np.array([result.intercept for result in results])
        name = self.settings.bag_kernel
        function: BagFunction
        if self.settings.hard:
            function = InstanceFunction(expansion, intercept)
        elif self.settings.minmax:
            function = MinMaxFunction(expansion, intercept, takes_sparse(self.kernel.name))
        elif self.kernel.linear:
            function = LinearSetFunction(expansion, intercept, name)
        else:
            function = SetKernelFunction(expansion, intercept, self.kernel.values, name)
        return function, {**attributes, "intercept_": intercept}
