"""What the machines that couple bags to instances share: objects, and scores on two levels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.segments import segment_sum
from .._kernels.bag import (
    BAG_KERNELS,
    bag_scales,
    instance_scales,
    minmax_vectors,
)
from .._kernels.instance import KERNELS, instance_kernel
from .._solvers.common.gram import BLOCK_BYTES, KernelGram, LinearGram
from .._solvers.svm.bag_features import (
    FeatureMap,
    FeatureObjects,
    choose_landmarks,
    feature_bytes,
    whitening,
)
from .._solvers.svm.bag_gram import (
    Objects,
    RowObjects,
    SetObjects,
    exact_bytes,
)
from .._solvers.svm.coupled_cccp import equal_shares, solve_coupled
from .._solvers.svm.coupled_dual import Coupling
from .._solvers.svm.coupled_primal import solve_coupled_features
from .._solvers.svm.losses import Hinge, Tube
from ..utils._sklearn import Interval, StrOptions
from ._runs import Runs, training_gram

__all__ = ["LOSSES", "CoupledMachine", "check_witness_rows"]

# Relative gap of a convex step over explicit features: a cutting plane method has few digits.
FEATURE_TOL = 1e-6
LOSSES = ("l1", "l2", "epsilon_insensitive", "max")


class CoupledMachine(Runs):
    """Mixin for estimators whose function is spanned by bags and instances.

    The host has the parameters of ``_coupled_constraints``; this class turns instances and offsets
    into the objects of a solver, stores the function that it found, and evaluates it.
    """

    _coupled_constraints: ClassVar[dict[str, Any]] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "degree": [Interval(Real, 0.0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "bag_kernel": [StrOptions(set(BAG_KERNELS))],
        "loss": [StrOptions(set(LOSSES))],
        "coupling": [Interval(Real, 0.0, None, closed="left")],
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "qp_solver": [str, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    kernel: Any
    degree: float
    coef0: float
    bag_kernel: str
    loss: str
    coupling: float
    epsilon: float
    n_components: int | None
    tol: float
    max_iter: int
    cache_size: float
    init: Any
    n_init: int
    gamma_: float
    intercept_: np.ndarray
    # Whether the last fit went by explicit features.
    _explicit: bool = False

    @property
    def _statistics(self) -> bool:
        """Whether objects are rows of minima and maxima; a hard maximum needs no bag objects."""
        return self.bag_kernel == "minmax" and self.loss != "max"

    def _kernel_function(self, gamma: float) -> tuple[Callable[[Any, Any], np.ndarray], bool]:
        return instance_kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)

    @property
    def _gap_tol(self) -> float:
        """Relative duality gap that a convex step may end with."""
        return max(self.tol, FEATURE_TOL) if self._explicit else self.tol

    def _coupling(self, costs: np.ndarray) -> Coupling:
        return Coupling(self.loss, self.coupling * costs, self.epsilon)

    # -- fit -----------------------------------------------------------------------------------

    def _objects(
        self, instances: Any, offsets: np.ndarray, gamma: float, rng: Any
    ) -> Objects | FeatureObjects:
        """Bags and instances as objects, after a look at the memory that they need."""
        n_bags, n_instances = len(offsets) - 1, int(offsets[-1])
        needed, room = exact_bytes(n_bags, n_instances), self.cache_size * 2**20
        if self.n_components is not None or (self.kernel == "linear" and needed > room):
            return self._feature_objects(instances, offsets, gamma, rng)
        if needed > room:
            raise MemoryError(
                f"The kernel values of {n_bags} bags with {n_instances} instances take "
                f"{needed / 2**20:.0f} MiB and cache_size={self.cache_size:g} MiB: raise "
                "cache_size, or give n_components= (300, say) for an approximation that needs no "
                "kernel matrix."
            )
        kernel, semidefinite = self._kernel_function(gamma)
        if self._statistics:
            own = minmax_vectors(instances, np.arange(n_instances + 1))
            rows = np.concatenate([own, minmax_vectors(instances, offsets)])
            return RowObjects(self._checked_gram(rows, kernel, semidefinite, room), offsets)
        gram = self._checked_gram(instances, kernel, semidefinite, room - needed)
        if self.loss == "max":
            # The objects of a hard maximum are plain instances.
            return SetObjects(gram, offsets, np.ones(n_bags), np.ones(n_instances))
        scales = bag_scales(self.bag_kernel, instances, offsets, kernel)
        return SetObjects(
            gram, offsets, scales, instance_scales(self.bag_kernel, instances, kernel)
        )

    def _feature_objects(
        self, instances: Any, offsets: np.ndarray, gamma: float, rng: Any
    ) -> FeatureObjects:
        kernel, _ = self._kernel_function(gamma)
        n_bags, n_instances = len(offsets) - 1, int(offsets[-1])
        whole, rows = None, instances
        if self._statistics:
            rows = minmax_vectors(instances, np.arange(n_instances + 1))
            whole = minmax_vectors(instances, offsets)
        self._check_feature_memory(rows, n_bags)
        features = self._feature_map(rows, kernel, rng, whole)
        scales = np.ones(n_bags), np.ones(n_instances)
        if self.loss != "max" and not self._statistics:
            scales = (
                bag_scales(self.bag_kernel, instances, offsets, kernel),
                instance_scales(self.bag_kernel, instances, kernel),
            )
        return FeatureObjects(features, rows, offsets, *scales, whole)

    def _feature_map(self, rows: Any, kernel: Any, rng: Any, whole: Any = None) -> FeatureMap:
        """Explicit features; those of the linear kernel are the rows themselves."""
        if self.kernel == "linear":
            return FeatureMap(rows.shape[1])
        assert self.n_components is not None
        candidates = rows if whole is None else np.concatenate([rows, whole])
        chosen = choose_landmarks(candidates, self.n_components, rng)
        landmarks = candidates[chosen]
        factor, share = whitening(np.asarray(kernel(landmarks, landmarks), dtype=np.float64))
        if share < -1e-10:
            warnings.warn(
                "The kernel matrix of the landmarks is indefinite (its smallest eigenvalue is "
                f"{share:.1e} of the largest): its negative part was dropped.",
                UserWarning,
                stacklevel=7,
            )
        return FeatureMap(factor.shape[1], kernel, landmarks, factor, chosen)

    def _check_feature_memory(self, rows: Any, n_bags: int) -> None:
        dim = rows.shape[1]
        if self.kernel != "linear" and self.n_components is not None:
            dim = min(self.n_components, rows.shape[0] + (n_bags if self._statistics else 0))
        needed, room = feature_bytes(rows, n_bags, dim), self.cache_size * 2**20
        if needed > room:
            remedy = "" if self.kernel == "linear" else ", or lower n_components"
            raise MemoryError(
                f"The explicit features of {n_bags} bags, {dim} each, take up to "
                f"{needed / 2**20:.0f} MiB and cache_size={self.cache_size:g} MiB: raise "
                f"cache_size{remedy}."
            )

    def _solve_coupled(self, objects: Any, loss: Hinge | Tube, **options: Any) -> Any:
        """Run the solver that suits the objects."""
        coupling = self._coupling(loss.weights)
        if isinstance(objects, FeatureObjects):
            inner_tol = max(0.1 * self.tol, FEATURE_TOL)
            return solve_coupled_features(objects, loss, coupling, inner_tol=inner_tol, **options)
        return solve_coupled(objects, loss, coupling, **options)

    def _checked_gram(
        self, rows: Any, kernel: Any, semidefinite: bool, room: float
    ) -> LinearGram | KernelGram:
        return training_gram(rows, self.kernel, kernel, semidefinite, room, stacklevel=6)

    def _share_starts(self, bags: Bags, used: np.ndarray, offsets: np.ndarray, rng: Any) -> list:
        """First linearisations, one a start; None leaves the first to the solver."""

        def of_rows(rows: np.ndarray) -> np.ndarray:
            shares = np.zeros(offsets[-1])
            shares[rows] = 1.0
            return shares

        def drawn() -> np.ndarray:
            return of_rows(offsets[:-1] + rng.randint(0, np.diff(offsets)))

        if not isinstance(self.init, str):
            given = check_witness_rows(self.init, bags)[used] - bags.offsets[:-1][used]
            starts: list[np.ndarray | None] = [of_rows(offsets[:-1] + given)]
        elif self.init == "random":
            starts = [drawn()]
        else:
            mean = self.init == "mean" or self.loss == "max"
            starts = [equal_shares(offsets) if mean else None]
        return starts + [drawn() for _ in range(self.n_init - 1)]

    def _store_function(
        self,
        results: list[Any],
        objects: Objects | FeatureObjects,
        bags: Bags,
        rows: np.ndarray,
        turn: int,
    ) -> None:
        """Store the functions, one a result; ``rows`` are the instances that took part."""
        self._explicit = isinstance(objects, FeatureObjects)
        if isinstance(objects, FeatureObjects):
            weights = turn * np.stack([result.w for result in results])
            self._store_weights(weights, objects.features, bags, rows)
            return
        dense = np.stack(
            [turn * objects.expansion(result.of_bags, result.of_instances) for result in results]
        )
        support = np.flatnonzero(dense.any(axis=0))
        if self._statistics:
            own = minmax_vectors(bags.instances, np.arange(bags.n_instances + 1))
            vectors = np.concatenate([own, minmax_vectors(bags.instances, bags.offsets)])
            used = np.unique(bags.bag_index[rows])
            numbers = np.concatenate([rows, bags.n_instances + used])
        else:
            vectors, numbers = bags.instances, rows
        self.dual_coef_ = dense[:, support]
        self.support_ = numbers[support]
        self.support_vectors_ = vectors[self.support_]
        if self.kernel == "linear":
            self.coef_ = np.asarray((self.support_vectors_.T @ self.dual_coef_.T).T)

    def _store_weights(
        self, weights: np.ndarray, features: FeatureMap, bags: Bags, rows: np.ndarray
    ) -> None:
        """Store functions given by weights of explicit features, (k, dim)."""
        if features.kernel is None:
            self.coef_ = weights
            return
        numbers = rows
        if self._statistics:
            used = np.unique(bags.bag_index[rows])
            numbers = np.concatenate([rows, bags.n_instances + used])
        self.dual_coef_ = weights @ features.factor.T
        self.support_ = numbers[features.chosen]
        self.support_vectors_ = features.landmarks

    # -- scores ----------------------------------------------------------------------------------

    def _two_levels(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Scores of instances and bags, with the intercept: (n_instances, k) and (n_bags, k)."""
        if self._statistics:
            own = minmax_vectors(bags.instances, np.arange(bags.n_instances + 1))
            whole = minmax_vectors(bags.instances, bags.offsets)
            return self._raw(own) + self.intercept_, self._raw(whole) + self.intercept_
        raw = self._raw(bags.instances)
        own, whole = self._scales(bags)
        by_bag = segment_sum(raw, bags.offsets) * whole[:, None]
        return raw * own[:, None] + self.intercept_, by_bag + self.intercept_

    def _instance_level(self, bags: Bags) -> np.ndarray:
        """Scores of instances alone: what bags score is not computed."""
        if self._statistics:
            own = minmax_vectors(bags.instances, np.arange(bags.n_instances + 1))
            return self._raw(own) + self.intercept_
        raw = self._raw(bags.instances)
        if self.loss == "max":
            return raw + self.intercept_
        kernel, _ = self._kernel_function(self.gamma_)
        own = instance_scales(self.bag_kernel, bags.instances, kernel)
        return raw * own[:, None] + self.intercept_

    def _scales(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        kernel, _ = self._kernel_function(self.gamma_)
        return (
            instance_scales(self.bag_kernel, bags.instances, kernel),
            bag_scales(self.bag_kernel, bags.instances, bags.offsets, kernel),
        )

    def _raw(self, rows: Any) -> np.ndarray:
        """Values of the function at rows as the kernel takes them, shape (n_rows, k)."""
        if self.kernel == "linear":
            product = rows @ self.coef_.T
            return product.toarray() if sparse.issparse(product) else np.asarray(product)
        if len(self.support_) == 0:
            return np.zeros((rows.shape[0], len(self.intercept_)))
        kernel, _ = self._kernel_function(self.gamma_)
        step = max(1, BLOCK_BYTES // (8 * max(1, len(self.support_))))
        blocks = [
            kernel(rows[first : first + step], self.support_vectors_) @ self.dual_coef_.T
            for first in range(0, rows.shape[0], step)
        ]
        return np.concatenate(blocks)


def check_witness_rows(init: Any, bags: Bags) -> np.ndarray:
    """``init`` as one row of ``X.instances`` a bag, or an error that says what is wrong."""
    rows = np.asarray(init)
    if rows.shape != (len(bags),) or rows.dtype.kind not in "iu":
        raise ValueError(
            f"init has shape {rows.shape} and type {rows.dtype}: give {len(bags)} integers, "
            "one row of X.instances a bag."
        )
    outside = (rows < bags.offsets[:-1]) | (rows >= bags.offsets[1:])
    if outside.any():
        bag = int(np.argmax(outside))
        raise ValueError(
            f"init[{bag}] = {rows[bag]} is not a row of bag {bag}: its rows are "
            f"{bags.offsets[bag]} to {bags.offsets[bag + 1] - 1}."
        )
    return rows
