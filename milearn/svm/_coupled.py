"""Formulations in which bags and instances are points of one space (Cheung & Kwok 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .._bags.segments import gather_rows, segment_argmax, segment_max, segment_sum
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
from .._solvers.common.options import SolverOptions
from .._solvers.svm.bag_features import BagFeatures, feature_bytes
from .._solvers.svm.bag_gram import (
    BagGram,
    BagsAlone,
    PrecomputedGram,
    SetKernelGram,
    alone_bytes,
    exact_bytes,
)
from .._solvers.svm.coupled_cccp import equal_subgradient, solve_coupled
from .._solvers.svm.coupled_primal import solve_coupled_primal
from .._solvers.svm.losses import Coupling, Hinge, Tube
from ._formulations import (
    Formulation,
    Report,
    Stored,
    TrainingBags,
    announce,
    kernel_features,
    stored_features,
    stored_support,
)
from ._functions import (
    BagFunction,
    InstanceFunction,
    MinMaxFunction,
    SetKernelFunction,
    object_rows,
)
from ._kernel import Kernel, memory_limit, training_gram

__all__ = ["CoupledSettings", "couple"]

# Relative gap of a convex step over explicit features: a cutting plane method has few digits.
_PRIMAL_TOL = 1e-6


@dataclass(frozen=True)
class CoupledSettings:
    """Parameters of an estimator that name the formulation.

    Attributes
    ----------
    bag_kernel, loss : str
    coupling, epsilon : float
    n_components : int or None
    cache_bytes : float
        Memory for kernel values of a fit.
    init : str or array-like
    n_init : int
    """

    bag_kernel: str
    loss: str
    coupling: float
    epsilon: float
    n_components: int | None
    cache_bytes: float
    init: Any
    n_init: int

    @classmethod
    def of(cls, estimator: Any) -> CoupledSettings:
        """The settings of an estimator with the parameters of these names."""
        return cls(
            bag_kernel=estimator.bag_kernel,
            loss=estimator.loss,
            coupling=estimator.coupling,
            epsilon=estimator.epsilon,
            n_components=estimator.n_components,
            cache_bytes=memory_limit(),
            init=estimator.init,
            n_init=1,
        )

    @classmethod
    def hard_maximum(cls, estimator: Any) -> CoupledSettings:
        """The settings of an estimator whose bags score as their highest instances do."""
        return cls(
            bag_kernel="set",
            loss="max",
            coupling=0.0,
            epsilon=0.0,
            n_components=estimator.n_components,
            cache_bytes=memory_limit(),
            init=estimator.init,
            n_init=estimator.n_init,
        )

    @property
    def hard(self) -> bool:
        """Whether a bag's score is its highest instance's, so that there are no bag objects."""
        return self.loss == "max"

    @property
    def alone(self) -> bool:
        """Whether bags have nothing to do with their instances: one SVM on the bag kernel."""
        return self.coupling == 0 and not self.hard

    @property
    def minmax(self) -> bool:
        """Whether bags and instances are rows of minima and maxima."""
        return self.bag_kernel == "minmax" and not self.hard


def couple(
    training: TrainingBags,
    kernel: Kernel,
    settings: CoupledSettings,
    options: SolverOptions,
    rng: np.random.RandomState,
    n_workers: int = 1,
) -> Formulation:
    """The formulation for the bags of a fit, after a look at the memory that it needs.

    Raises
    ------
    MemoryError
        Where kernel values or explicit features are larger than ``working_memory``.
    """
    n_bags, n_instances = len(training.used), int(training.offsets[-1])
    # An indefinite kernel loses the negative part that it has between the instances.
    alone = settings.alone and kernel.semidefinite
    needed = alone_bytes(n_bags) if alone else exact_bytes(n_bags, n_instances)
    room = settings.cache_bytes
    if settings.minmax and sparse.issparse(training.instances) and not takes_sparse(kernel.name):
        # A kernel that takes no CSR matrix is given dense rows.
        n_rows = n_bags if alone else n_bags + n_instances
        needed += minmax_bytes(n_rows, training.instances.shape[1])
    if settings.n_components is not None or (kernel.linear and needed > room):
        features = _bag_features(training, kernel, settings, rng)
        return CoupledPrimal(training, kernel, settings, options, features)
    if not alone:
        announce(training, "coupled")
    if needed > room:
        raise MemoryError(
            f"The kernel values of {n_bags} bags with {n_instances} instances take "
            f"{needed / 2**20:.0f} MiB and working_memory is {room / 2**20:g} MiB: raise it by "
            "sklearn.set_config(working_memory=...), or give n_components= (300, say) for an "
            "approximation that needs no kernel matrix."
        )
    if alone:
        points = _points_of_bags(training, kernel, settings, room - needed)
        return AloneDual(training, kernel, settings, options, BagsAlone(points.products), points)
    gram = _bag_gram(training, kernel, settings, room - needed, n_workers)
    return CoupledDual(training, kernel, settings, options, gram)


def _bag_gram(
    training: TrainingBags,
    kernel: Kernel,
    settings: CoupledSettings,
    cache_bytes: float,
    n_workers: int,
) -> BagGram:
    instances, offsets = training.instances, training.offsets
    if settings.minmax:
        rows = _all_object_rows(training, kernel)
        # Rows of instances are asked for one by one; those of bags are made here.
        gram = training_gram(rows, kernel, settings.cache_bytes)
        return PrecomputedGram(gram.share_of(n_workers), offsets)
    gram = training_gram(instances, kernel, cache_bytes).share_of(n_workers)
    return SetKernelGram(gram, offsets, *_scales(training, kernel, settings))


def _points_of_bags(
    training: TrainingBags, kernel: Kernel, settings: CoupledSettings, room: float
) -> _BagPoints:
    """The bags under their kernel, with instances beside them where these are for nothing."""
    instances, offsets = training.instances, training.offsets
    n_bags, n_instances = len(offsets) - 1, int(offsets[-1])
    cross = None
    if settings.minmax:
        rows = object_rows(instances, offsets, takes_sparse(kernel.name))
        products = np.array(kernel.values(rows, rows), dtype=np.float64)
        return _BagPoints(products, np.ones(n_bags), rows, None)
    if kernel.linear:
        # The image of a bag is a vector: no kernel value between instances is needed.
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
    return _BagPoints(products, scale, instances, cross)


def _sums_of_bags(instances: Any, offsets: np.ndarray) -> Any:
    """The sum of the instances of each bag, an ndarray or CSR like these."""
    if not sparse.issparse(instances):
        return segment_sum(instances, offsets)
    every = np.arange(instances.shape[0])
    return sparse.csr_array((np.ones(len(every)), every, offsets)) @ instances


@dataclass(frozen=True)
class _BagPoints:
    """Bags as points of the bag kernel's space.

    Attributes
    ----------
    products : ndarray of shape (n_bags, n_bags)
        Their inner products.
    scale : ndarray of shape (n_bags,)
        Of the sum of a bag's images.
    rows : ndarray or CSR
        What the kernel is between: instances, or bags as rows of minima and maxima.
    cross : ndarray of shape (n_bags, n_instances) or None
        Inner products of sums of images with scaled instances; None where they would have to be
        made for the purpose.
    """

    products: np.ndarray
    scale: np.ndarray
    rows: Any
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


def _bag_features(
    training: TrainingBags,
    kernel: Kernel,
    settings: CoupledSettings,
    rng: np.random.RandomState,
) -> BagFeatures:
    whole, rows = None, training.instances
    candidates = rows
    if settings.minmax:
        candidates = _all_object_rows(training, kernel)
        n_instances = rows.shape[0]
        rows, whole = candidates[:n_instances], candidates[n_instances:]
    n_bags, dim = len(training.used), rows.shape[1]
    if not kernel.linear and settings.n_components is not None:
        dim = min(settings.n_components, candidates.shape[0])
    needed = feature_bytes(rows, n_bags, dim)
    if needed > settings.cache_bytes:
        remedy = ", or take solver='primal'" if kernel.linear else ", or lower n_components"
        if settings.minmax and kernel.linear:
            remedy = ", or take another bag_kernel"
        raise MemoryError(
            f"The explicit features of {n_bags} bags, {dim} each, take up to "
            f"{needed / 2**20:.0f} MiB and working_memory is {settings.cache_bytes / 2**20:g} MiB: "
            f"raise it by sklearn.set_config(working_memory=...){remedy}."
        )
    features = kernel_features(candidates, kernel, settings.n_components, rng)
    scales = _scales(training, kernel, settings)
    return BagFeatures(features, rows, training.offsets, *scales, whole)


@dataclass(frozen=True)
class _Coupled:
    """Base of the two formulations: starts, and the function of an expansion."""

    training: TrainingBags
    kernel: Kernel
    settings: CoupledSettings
    options: SolverOptions

    @property
    def bag_score_is_max(self) -> bool:
        """Whether the estimator takes the highest score of the instances."""
        return self.settings.hard

    def coupling(self, loss: Hinge | Tube) -> Coupling:
        """How the score of a bag is tied to its highest instance score."""
        settings = self.settings
        return Coupling(settings.loss, settings.coupling * loss.weights, settings.epsilon)

    def starts(self, loss: Hinge | Tube, rng: np.random.RandomState) -> list[np.ndarray | None]:
        offsets, init = self.training.offsets, self.settings.init

        def of_rows(rows: np.ndarray) -> np.ndarray:
            subgradient = np.zeros(offsets[-1])
            subgradient[rows] = 1.0
            return subgradient

        def drawn() -> np.ndarray:
            return of_rows(offsets[:-1] + rng.randint(0, np.diff(offsets)))

        if not isinstance(init, str):
            starts: list[np.ndarray | None] = [of_rows(self.training.given_witnesses(init))]
        elif init == "random":
            starts = [drawn()]
        else:
            mean = init == "mean" or self.settings.hard
            starts = [equal_subgradient(offsets) if mean else None]
        return starts + [drawn() for _ in range(self.settings.n_init - 1)]

    def numbers(self) -> np.ndarray:
        """Rows of the objects as the user knows them: bags follow all instances."""
        training = self.training
        if not self.settings.minmax:
            return training.rows
        return np.concatenate([training.rows, training.bags.n_instances + training.used])

    def with_scales(
        self, stored: Stored, results: Sequence[Any], sign: int
    ) -> tuple[BagFunction, dict[str, Any]]:
        """The function on two levels, with the intercepts of the results."""
        expansion, attributes = stored
        intercept = sign * np.array([result.intercept for result in results])
        function: BagFunction
        if self.settings.hard:
            function = InstanceFunction(expansion, intercept)
        elif self.settings.minmax:
            function = MinMaxFunction(expansion, intercept, takes_sparse(self.kernel.name))
        else:
            function = SetKernelFunction(
                expansion, intercept, self.kernel.values, self.settings.bag_kernel
            )
        return function, {**attributes, "intercept_": intercept}


@dataclass(frozen=True)
class CoupledDual(_Coupled):
    """Over kernel values, in the dual."""

    gram: BagGram

    @property
    def gap_tol(self) -> float:
        """Relative duality gap that a convex step may end with."""
        return self.options.tol

    def solve(
        self, loss: Hinge | Tube, start: np.ndarray | None, on_iteration: Report
    ) -> CCCPSolution:
        options = self.options.watched_by(on_iteration)
        return solve_coupled(self.gram, loss, self.coupling(loss), start, options)

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        coef = np.stack(
            [sign * self.gram.expansion(result.of_bags, result.of_instances) for result in results]
        )
        training = self.training
        vectors = training.instances
        if self.settings.minmax:
            vectors = _all_object_rows(training, self.kernel)
        stored = stored_support(coef, vectors, self.numbers(), self.kernel)
        return self.with_scales(stored, results, sign)


@dataclass(frozen=True)
class AloneDual(_Coupled):
    """Without coupling: one SVM on the kernel between bags, convex, in the dual."""

    gram: BagsAlone
    points: _BagPoints

    @property
    def gap_tol(self) -> float:
        """Relative duality gap that the solution may end with."""
        return self.options.tol

    def starts(self, loss: Hinge | Tube, rng: np.random.RandomState) -> list[np.ndarray | None]:
        """One: what a start linearises is not there. ``init`` is checked all the same."""
        super().starts(loss, rng)
        return [np.ones(self.gram.n_bags)]

    def solve(
        self, loss: Hinge | Tube, start: np.ndarray | None, on_iteration: Report
    ) -> CCCPSolution:
        options = self.options.watched_by(on_iteration)
        return solve_coupled(self.gram, loss, Coupling.none(self.gram.n_bags), start, options)

    def numbers(self) -> np.ndarray:
        training = self.training
        if self.settings.minmax:
            return training.bags.n_instances + training.used
        return training.rows

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        coef = np.stack([sign * result.of_bags * self.points.scale for result in results])
        of_rows = coef
        if not self.settings.minmax:
            of_rows = np.repeat(coef, np.diff(self.training.offsets), axis=1)
        stored = stored_support(of_rows, self.points.rows, self.numbers(), self.kernel)
        function, attributes = self.with_scales(stored, results, sign)
        if self.points.cross is not None and len(self.training.used) == len(self.training.bags):
            scores = (coef @ self.points.cross).T
            attributes["witnesses_"] = self._witnesses(scores, function, sign)
        return function, attributes

    def _witnesses(self, scores: np.ndarray, function: BagFunction, sign: int) -> np.ndarray:
        """Rows of the highest instances by given scores, shape (n_bags,) or (n_bags, k).

        A near-tie is left to the function, which decides it as in predictions.
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
    """Difference of scores that rounding may cause."""
    return 1e-9 * max(1.0, float(np.abs(scores).max()))


@dataclass(frozen=True)
class CoupledPrimal(_Coupled):
    """Over explicit features, in the primal by cutting planes."""

    features: BagFeatures

    @property
    def gap_tol(self) -> float:
        """Relative duality gap that a convex step may end with."""
        return max(self.options.tol, _PRIMAL_TOL)

    def solve(
        self, loss: Hinge | Tube, start: np.ndarray | None, on_iteration: Report
    ) -> CCCPSolution:
        options = self.options.watched_by(on_iteration)
        inner_tol = max(0.1 * options.tol, _PRIMAL_TOL)
        return solve_coupled_primal(
            self.features, loss, self.coupling(loss), start, options, inner_tol
        )

    def function(self, results: Sequence[Any], sign: int) -> tuple[BagFunction, dict[str, Any]]:
        weights = sign * np.stack([result.w for result in results])
        stored = stored_features(weights, self.features.features, self.numbers())
        return self.with_scales(stored, results, sign)
