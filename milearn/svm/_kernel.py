"""The kernel of a fit, and kernel values between its training instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.metrics.pairwise import linear_kernel

from .._fit.components import AUTO
from .._fit.warn import warn_of_indefinite
from .._kernels.instance import instance_kernel, resolve_gamma
from .._solvers.common.gram import Gram, KernelGram, LinearGram, MatrixGram, clipped_gram


def memory_limit() -> float:
    """Bytes for kernel values, by scikit-learn's setting ``working_memory``."""
    return float(get_config()["working_memory"]) * 2**20


@dataclass(frozen=True)
class Kernel:
    """A kernel between instances with all its parameters resolved."""

    name: str | Callable[[Any, Any], Any]
    # None if the kernel does not depend on gamma.
    gamma: float | None
    # Takes two matrices and returns the matrix of shape (n_left, n_right).
    values: Callable[[Any, Any], np.ndarray]
    # Whether the kernel is known to be positive semidefinite.
    semidefinite: bool
    # Columns of the used training instances in a precomputed kernel; ``values`` is not called then.
    columns: np.ndarray | None = None

    @classmethod
    def of(cls, estimator: Any, instances: Any, sample_weight: np.ndarray) -> Kernel:
        """The kernel of an estimator's parameters, for instances with their weights."""
        gamma = resolve_gamma(estimator.gamma, instances, sample_weight)
        values, semidefinite = instance_kernel(estimator.kernel, gamma=gamma)
        return cls(estimator.kernel, gamma, values, semidefinite)

    @classmethod
    def precomputed(cls, estimator: Any, training: Any) -> Kernel:
        """The kernel whose values are the instances of the bags."""
        shape = training.bags.n_instances, training.bags.shape[1]
        if shape[0] != shape[1]:
            raise ValueError(
                "kernel='precomputed' needs the square matrix of kernel values between all "
                f"training instances, and X.instances has shape {shape}: cross-validation cannot "
                "slice such a matrix; pass a callable kernel, or BagSVC(bag_kernel='precomputed')."
            )
        if estimator.n_components not in (None, AUTO):
            raise ValueError(
                "n_components draws landmarks from instances, and kernel='precomputed' has kernel "
                "values alone: leave n_components=None, or pass a callable kernel."
            )
        return cls("precomputed", None, _given_values, False, training.rows)

    @classmethod
    def inner_product(cls) -> Kernel:
        """The linear kernel."""
        return cls("linear", None, linear_kernel, True)

    @property
    def linear(self) -> bool:
        """Whether values are inner products of instances."""
        return bool(self.name == "linear")


def training_gram(rows: Any, kernel: Kernel, cache_bytes: float) -> Gram:
    """Inner products of training rows, without the negative part of an indefinite kernel."""
    if kernel.linear:
        return LinearGram(rows)
    gram = KernelGram(rows, kernel.values, int(cache_bytes))
    if kernel.columns is not None:
        matrix = rows[:, kernel.columns]
        gram = MatrixGram(rows, matrix.toarray() if sparse.issparse(matrix) else matrix)
    if kernel.semidefinite:
        return gram
    clipped, smallest = clipped_gram(gram)
    if smallest < 0:
        warn_of_indefinite(smallest, "training instances")
    return clipped


def _given_values(left: Any, right: Any) -> np.ndarray:
    raise AssertionError("the values of a precomputed kernel are given")
