"""Formulations in which bags and instances are points of one space (Cheung & Kwok 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.segments import gather_rows, segment_argmax, segment_max, segment_sum
from .._fit.multi_start import drawn_rows, values_of
from .._kernels.bag import (
    bag_scales,
    instance_scales,
    minmax_bytes,
    normalising_scales,
    pair_sums,
    symmetric_row_sums,
)
from .._kernels.instance import takes_sparse
from .._solvers.common.cccp import CCCPSolution
from .._solvers.svm.coupled.cccp import equal_subgradient, solve_coupled
from .._solvers.svm.coupled.gram import (
    BagGram,
    PrecomputedGram,
    SetKernelGram,
    UncoupledGram,
    exact_bytes,
    uncoupled_bytes,
)
from .._solvers.svm.coupled.rows import BagRows, solve_coupled_rows
from .._solvers.svm.losses import Coupling, Hinge, Tube
from .._solvers.svm.starts import screened_rows
from ._fit import Kernel, Problems, TrainingBags, memory_limit, training_gram
from ._formulations import (
    Formulation,
    Report,
    Stored,
    kernel_features,
    stored_linear,
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
    def uncoupled(self) -> bool:
        """Whether bag scores are not tied to instance scores: one SVM on the bag kernel."""
        return self.coupling == 0 and not self.hard

    @property
    def minmax(self) -> bool:
        """Whether bags and instances are given as rows of minima and maxima."""
        return self.bag_kernel == "minmax" and not self.hard


def coupled(problems: Problems, settings: CoupledSettings) -> CoupledDual | CoupledRows:
    """The formulation for the problems of a fit, after a check of the memory that it needs.

    Raises
    ------
    MemoryError
        If kernel values exceed ``working_memory``.
    """
    training, kernel = problems.training, problems.kernel
    if problems.by_rows() or (settings.hard and kernel.linear):
        return _coupled_rows(problems, settings)
    n_bags, n_instances, _ = training.size
    # The negative part of an indefinite kernel is found between the instances.
    uncoupled = settings.uncoupled and kernel.semidefinite
    needed, room = exact_bytes(n_bags, n_instances), memory_limit()
    if uncoupled:
        needed = uncoupled_bytes(n_bags)
    if settings.minmax and sparse.issparse(training.instances) and not takes_sparse(kernel.name):
        # Rows are dense for a kernel that does not support CSR.
        n_rows = n_bags if uncoupled else n_bags + n_instances
        needed += minmax_bytes(n_rows, training.instances.shape[1])
    if needed > room:
        raise MemoryError(
            f"The kernel values of {n_bags} bags with {n_instances} instances take "
            f"{needed / 2**20:.0f} MiB and working_memory is {room / 2**20:g} MiB: raise it by "
            "sklearn.set_config(working_memory=...), or give n_components= (300, say) for an "
            "approximation that needs no kernel matrix."
        )
    if uncoupled:
        points = _uncoupled_bags(training, kernel, settings, room - needed)
        gram: BagGram = UncoupledGram(points.products)
        return CoupledDual.of(problems, settings=settings, gram=gram, points=points)
    gram = _bag_gram(problems, settings, room, needed)
    return CoupledDual.of(problems, settings=settings, gram=gram)


def _coupled_rows(problems: Problems, settings: CoupledSettings) -> CoupledRows:
    training, kernel = problems.training, problems.kernel
    if not settings.minmax and kernel.linear:
        return CoupledRows.of(problems, settings=settings)
    instances = candidates = training.instances
    if settings.minmax:
        candidates = _all_object_rows(training, kernel)
        n_instances = instances.shape[0]
        instances, whole = candidates[:n_instances], candidates[n_instances:]
        training = replace(training, selected=Bags(instances, training.offsets))
    features = kernel_features(candidates, kernel, problems.n_components, problems.rng)
    if settings.minmax:
        bags = BagRows(features.transform(whole))
    else:
        of_bags, of_instances = _scales(training, kernel, settings)
        spread = np.repeat(of_bags, np.diff(training.offsets))
        bags = BagRows(features.sums(instances, spread, training.offsets), of_instances)
    more = {"training": training, "features": features, "bags": bags}
    return CoupledRows.of(problems, settings=settings, **more)


def _bag_gram(problems: Problems, settings: CoupledSettings, room: float, needed: float) -> BagGram:
    training, kernel = problems.training, problems.kernel
    instances, offsets = training.instances, training.offsets
    if settings.minmax:
        rows = _all_object_rows(training, kernel)
        # Rows of instances are computed when needed, those of bags here.
        gram = training_gram(rows, kernel, room).share_of(problems.n_workers)
        return PrecomputedGram(gram, offsets)
    gram = training_gram(instances, kernel, room - needed).share_of(problems.n_workers)
    return SetKernelGram(gram, offsets, *_scales(training, kernel, settings))


def _uncoupled_bags(
    training: TrainingBags, kernel: Kernel, settings: CoupledSettings, room: float
) -> _UncoupledBags:
    """The bags under their kernel, and their products with instances if those cost nothing."""
    instances, offsets = training.instances, training.offsets
    n_bags, n_instances = len(offsets) - 1, int(offsets[-1])
    cross = None
    if settings.minmax:
        rows = object_rows(instances, offsets, takes_sparse(kernel.name))
        products = np.array(kernel.values(rows, rows), dtype=np.float64)
        return _UncoupledBags(products, np.ones(n_bags), rows, None)
    if kernel.linear:
        # The image of a bag is a vector, so that kernel values between instances are not needed.
        sums = _sums_of_bags(instances, offsets)
        product = sums @ sums.T
        products = np.asarray(product.toarray() if sparse.issparse(product) else product)
    elif 8 * n_bags * n_instances <= room:
        cross, own = symmetric_row_sums(instances, offsets, kernel.values)
        products = segment_sum(cross.T, offsets)
        products = 0.5 * (products + products.T)
        if settings.bag_kernel == "normalized_set":
            cross *= normalising_scales(own, "Instance")
    else:
        products = pair_sums(instances, offsets, kernel=kernel.values)
    if settings.bag_kernel == "normalized_set":
        scale = normalising_scales(np.diagonal(products))
    else:
        scale = bag_scales(settings.bag_kernel, instances, offsets, kernel.values)
    products *= scale[:, None]
    products *= scale
    return _UncoupledBags(products, scale, instances, cross)


def _sums_of_bags(instances: Any, offsets: np.ndarray) -> Any:
    """The sum of the instances of each bag, as an ndarray or CSR like the instances."""
    if not sparse.issparse(instances):
        return segment_sum(instances, offsets)
    every = np.arange(instances.shape[0])
    return sparse.csr_array((np.ones(len(every)), every, offsets)) @ instances


@dataclass(frozen=True)
class _UncoupledBags:
    """Bags as points of the bag kernel's space, without their instances."""

    # Inner products of the bags, (n_bags, n_bags), and scales of their sums of images, (n_bags,).
    products: np.ndarray
    scale: np.ndarray
    # Arguments of the kernel: instances, or bags as rows of minima and maxima.
    rows: Any
    # Inner products of sums of images with scaled instances, (n_bags, n_instances), if known.
    cross: np.ndarray | None


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
    """Scales of bags and of instances in the feature space."""
    instances, offsets = training.instances, training.offsets
    if settings.hard or settings.minmax:
        return np.ones(len(offsets) - 1), np.ones(int(offsets[-1]))
    return (
        bag_scales(settings.bag_kernel, instances, offsets, kernel.values),
        instance_scales(settings.bag_kernel, instances, kernel.values),
    )


@dataclass(frozen=True, kw_only=True)
class _Coupled(Formulation):
    """Base of the two formulations: starts, and the function of an expansion."""

    settings: CoupledSettings

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

    def stored(self, coef: np.ndarray, vectors: Any, numbers: np.ndarray) -> Stored:
        """A function over kernel values; for the linear kernel its weights, as over rows."""
        if not self.kernel.linear:
            return stored_support(coef, vectors, numbers, self.kernel)
        expansion, attributes = stored_linear(np.asarray((vectors.T @ coef.T).T))
        n_passes = np.zeros(len(coef), dtype=int)
        return expansion, {**attributes, "n_passes_": n_passes if len(coef) > 1 else 0}

    def on_two_levels(
        self, stored: Stored, results: Sequence[Any], sign: int
    ) -> tuple[BagFunction, dict[str, Any]]:
        """The function that scores instances and bags, with the intercepts of the results."""
        expansion, attributes = stored
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


@dataclass(frozen=True, kw_only=True)
class CoupledDual(_Coupled):
    """Solved in the dual over kernel values; ``points`` is not None for uncoupled bags."""

    gram: BagGram | UncoupledGram
    points: _UncoupledBags | None = None

    @property
    def over_rows(self) -> bool:
        return False

    def solve(self, loss: Hinge | Tube, start: Any, on_iteration: Report) -> CCCPSolution:
        options = self.options.watched_by(on_iteration)
        if self.points is not None:
            n_bags = self.gram.n_bags
            return solve_coupled(self.gram, loss, Coupling.none(n_bags), np.ones(n_bags), options)
        offsets, first = self.training.offsets, None
        if not isinstance(start, str):
            first = np.zeros(offsets[-1])
            first[start] = 1.0
        elif start == "mean":
            first = equal_subgradient(offsets)
        return solve_coupled(self.gram, loss, self.coupling(loss), first, options)

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        training = self.training
        if self.points is not None:
            return self._function_of_bags(self.points, results, sign)
        coef = np.stack(
            [sign * self.gram.expansion(result.of_bags, result.of_instances) for result in results]
        )
        vectors = training.instances
        if self.settings.minmax:
            vectors = _all_object_rows(training, self.kernel)
        stored = self.stored(coef, vectors, self.support_numbers())
        return self.on_two_levels(stored, results, sign)

    def _function_of_bags(
        self, points: _UncoupledBags, results: Sequence[Any], sign: int
    ) -> tuple[BagFunction, dict[str, Any]]:
        training, minmax = self.training, self.settings.minmax
        coef = np.stack([sign * result.of_bags * points.scale for result in results])
        numbers = training.bags.n_instances + training.used if minmax else training.rows
        of_rows = coef if minmax else np.repeat(coef, np.diff(training.offsets), axis=1)
        stored = self.stored(of_rows, points.rows, numbers)
        function, attributes = self.on_two_levels(stored, results, sign)
        if points.cross is not None and len(training.used) == len(training.bags):
            scores = (coef @ points.cross).T
            attributes["witnesses_"] = self._witnesses(scores, function, sign)
        return function, attributes

    def _witnesses(self, scores: np.ndarray, function: BagFunction, sign: int) -> np.ndarray:
        """Rows of the highest instances by given scores, shape (n_bags,) or (n_bags, k).

        Near-ties are scored again by the function, so that they are broken as in predictions.
        """
        training = self.training
        offsets, highest = training.offsets, segment_max(sign * scores, training.offsets)
        near = sign * scores >= np.repeat(highest - _tie(scores), np.diff(offsets), axis=0)
        tied = np.flatnonzero((segment_sum(near.astype(np.intp), offsets) > 1).any(axis=1))
        if len(tied):
            rows, _ = gather_rows(offsets, tied)
            scores[rows] = function.instance_scores(training.bags[tied])
        witnesses = segment_argmax(sign * scores, offsets)
        return witnesses[:, 0] if scores.shape[1] == 1 else witnesses


def _tie(scores: np.ndarray) -> float:
    """Largest difference of scores that counts as rounding."""
    return 1e-9 * max(1.0, float(np.abs(scores).max()))


@dataclass(frozen=True, kw_only=True)
class CoupledRows(_Coupled):
    """Solved over rows: instances, or explicit features of instances and bags."""

    bags: BagRows | None = None

    def solve(self, loss: Hinge | Tube, start: Any, on_iteration: Report) -> CCCPSolution:
        options = self.options.watched_by(on_iteration)
        return solve_coupled_rows(
            self.source(),
            loss,
            self.coupling(loss),
            self.settings.bag_kernel if self.bags is None else self.bags,
            start,
            options,
            self.gap_tol,
        )

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        weights = sign * np.stack([result.w for result in results])
        stored = stored_rows(weights, self.features, self.support_numbers)
        function, attributes = self.on_two_levels(stored, results, sign)
        return function, {**attributes, "n_passes_": values_of(results, "n_passes")}
