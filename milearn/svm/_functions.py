"""Fitted functions: scores of instances and bags.

A function holds everything that prediction needs, so that changing parameters of the estimator
after the fit has no effect. With k problems (one, or one per class) scores have k columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.rows_on_disk import pieces_of
from .._bags.segments import bag_ranges, pooling_matrix, segment_sum
from .._fit.multi_start import attributes_of
from .._fit.validation import STORED_FLOATS
from .._kernels.bag import bag_scales, instance_scales, minmax_vectors
from .._solvers.common.gram import KERNEL_BLOCK_BYTES, KernelExpansion
from .._solvers.svm.coupled.rows import inverse_norms

# Takes rows and returns their scores, shape (n, k).
Expansion = Callable[[Any], np.ndarray]


class BagFunction(Protocol):
    """Scores of instances and bags, with the intercepts."""

    def instance_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_instances, k)."""
        ...

    def bag_scores(self, bags: Bags) -> np.ndarray:
        """Scores of shape (n_bags, k), unless these are the highest of the instances."""
        ...


@dataclass(frozen=True)
class LinearExpansion:
    """Inner products with weight vectors, the rows of ``coef`` of shape (k, n_columns)."""

    coef: np.ndarray

    def __call__(self, rows: Any) -> np.ndarray:
        if sparse.issparse(rows):
            product = rows @ self.coef.T
            return product.toarray() if sparse.issparse(product) else np.asarray(product)
        # Instances of lower precision or in a file are converted piece by piece.
        scores, first = np.empty((rows.shape[0], len(self.coef))), 0
        for piece in pieces_of(rows, np.float64):
            np.matmul(piece, self.coef.T, out=scores[first : first + len(piece)])
            first += len(piece)
        return scores


@dataclass(frozen=True)
class InstanceFunction:
    """A function of instances; the score of a bag is its highest instance score."""

    expansion: Expansion
    intercept: np.ndarray

    def instance_scores(self, bags: Bags) -> np.ndarray:
        return self.expansion(bags.instance_rows) + self.intercept

    def bag_scores(self, bags: Bags) -> np.ndarray:
        raise AssertionError("the estimator takes the highest score of the instances")


@dataclass(frozen=True)
class SetKernelFunction:
    """A function in the space of a set kernel: a bag is the scaled sum of its instances."""

    expansion: Expansion
    intercept: np.ndarray
    kernel: Callable[[Any, Any], np.ndarray]
    bag_kernel: str

    def instance_scores(self, bags: Bags) -> np.ndarray:
        scale = instance_scales(self.bag_kernel, bags.instances, self.kernel)
        return self.expansion(bags.instances) * scale[:, None] + self.intercept

    def bag_scores(self, bags: Bags) -> np.ndarray:
        scale = bag_scales(self.bag_kernel, bags.instances, bags.offsets, self.kernel)
        sums = segment_sum(self.expansion(bags.instances), bags.offsets)
        return sums * scale[:, None] + self.intercept


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
            norms = [inverse_norms(rows[i : i + step]) for i in range(0, len(scores), step)]
            scores *= np.concatenate(norms)[:, None]
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
                norms.append(inverse_norms(pooling @ bags.instance_rows[start:stop]))
            sums *= np.concatenate(norms)[:, None]
        return np.asarray(sums + self.intercept)


@dataclass(frozen=True)
class MinMaxFunction:
    """A function of rows of minima and maxima, which bags and instances have."""

    expansion: Expansion
    intercept: np.ndarray
    keep_sparse: bool

    def instance_scores(self, bags: Bags) -> np.ndarray:
        return self._scores(bags, np.arange(bags.n_instances + 1))

    def bag_scores(self, bags: Bags) -> np.ndarray:
        return self._scores(bags, bags.offsets)

    def _scores(self, bags: Bags, offsets: np.ndarray) -> np.ndarray:
        rows = minmax_vectors(bags.instances, offsets, keep_sparse=self.keep_sparse)
        return self.expansion(rows) + self.intercept


def _rows_of_a_block(bags: Bags) -> int:
    return max(1, KERNEL_BLOCK_BYTES // (8 * max(1, bags.shape[1])))


# -- fitted functions and their attributes ---------------------------------------------------------


Stored = tuple[Expansion, dict[str, Any]]


def linear_expansion(fit: Any, coef: np.ndarray, intercept: np.ndarray) -> Stored:
    """Weights and intercepts for the instances of a fit, as those of its bags before centring."""
    if fit.centre is not None:
        intercept = intercept - coef @ fit.centre
    attributes = {"coef_": coef, "intercept_": intercept, "_dtypes": STORED_FLOATS}
    return LinearExpansion(coef), attributes


def expansion_of(fit: Any, results: Sequence[Any]) -> Stored:
    """The expansion of the results, times the sign of the classes, and its fitted attributes."""
    features = fit.features
    more: dict[str, Any] = {"n_components_": None}
    intercept = fit.sign * np.array([*map(attrgetter("intercept"), results)])
    of_function = attrgetter("w" if fit.over_rows else "coef")
    coef = fit.sign * np.stack([*map(of_function, results)])
    if fit.over_rows:
        more |= attributes_of(results, "n_passes")
    if fit.linear and features is None:
        expansion, attributes = linear_expansion(fit, coef, intercept)
        return expansion, {**attributes, **more}
    # The values of ``support_`` for instances and bags: bags follow all instances.
    numbers = np.concatenate([fit.rows, fit.bags.n_instances + fit.used])
    if features is None:
        vectors = fit.gram.instances
    else:
        coef, vectors = coef @ features.factor.T, features.landmarks
        numbers = numbers[features.chosen]
        more["n_components_"] = len(numbers)
    support = np.flatnonzero(coef.any(axis=0))
    coef, vectors = coef[:, support], vectors[support]
    more |= {"dual_coef_": coef, "support_": numbers[support], "support_vectors_": vectors}
    return KernelExpansion(fit.kernel, vectors, coef), {**more, "intercept_": intercept}


def instance_function(fit: Any, results: Sequence[Any]) -> tuple[InstanceFunction, dict[str, Any]]:
    """The function of the highest instance, and its fitted attributes."""
    expansion, attributes = expansion_of(fit, results)
    return InstanceFunction(expansion, attributes["intercept_"]), attributes
