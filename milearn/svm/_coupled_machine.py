"""What the machines that couple bags to instances share: objects, and scores on two levels."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._kernels import KERNELS, instance_kernel
from .._segments import segment_sum
from .._set_kernels import (
    BAG_KERNELS,
    bag_scales,
    instance_scales,
    minmax_vectors,
)
from .._solvers._coupled import CoupledResult, equal_shares
from .._solvers._coupled_step import Coupling
from .._solvers._gram import BLOCK_BYTES, KernelGram, LinearGram
from .._solvers._objects import Objects, RowObjects, SetObjects, exact_bytes
from ..utils._sklearn import Interval, StrOptions
from ._runs import Runs, training_gram

__all__ = ["LOSSES", "CoupledMachine", "check_witness_rows"]

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

    @property
    def _statistics(self) -> bool:
        """Whether objects are rows of minima and maxima; a hard maximum needs no bag objects."""
        return self.bag_kernel == "minmax" and self.loss != "max"

    def _kernel_function(self, gamma: float) -> tuple[Callable[[Any, Any], np.ndarray], bool]:
        return instance_kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)

    def _check_supported(self) -> None:
        if self.n_components is not None:
            raise NotImplementedError("n_components comes with the next change: leave it at None.")

    def _coupling(self, costs: np.ndarray) -> Coupling:
        return Coupling(self.loss, self.coupling * costs, self.epsilon)

    # -- fit -----------------------------------------------------------------------------------

    def _objects(self, instances: Any, offsets: np.ndarray, gamma: float) -> Objects:
        """Bags and instances as objects, after a look at the memory that they need."""
        n_bags, n_instances = len(offsets) - 1, int(offsets[-1])
        needed, room = exact_bytes(n_bags, n_instances), self.cache_size * 2**20
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
        results: list[CoupledResult],
        objects: Objects,
        bags: Bags,
        rows: np.ndarray,
        turn: int,
    ) -> None:
        """Store the functions, one a result; ``rows`` are the instances that took part."""
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
