"""Common parts of BagSVC and BagSVR: parameters, and bags as rows of kernel values or features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_memory

from .._bags import Bags
from .._bags.distinct import MergedBags, merge_bags
from .._compat import Interval, StrOptions
from .._fit.components import BAG_LIMITS, auto_components
from .._kernels.learned import LEARNED_KERNELS, compares_instances
from .._kernels.memory import require_memory
from .._solvers.common.low_rank import whitening
from ._base import COMPONENTS
from ._kernel_average import (
    KernelAverage,
    KernelPlan,
    as_kind,
    default_scalings,
    is_text,
    kernel_terms,
    learn_average,
)

BAG_SVM_CONSTRAINTS: dict[str, Any] = {
    "C": [Interval(Real, 0.0, None, closed="neither")],
    "bag_kernel": [StrOptions({"average", "precomputed", *LEARNED_KERNELS}), callable, list],
    "scaling": [StrOptions({"auto"}), list, None],
    "width": [Interval(Real, 0.0, None, closed="neither")],
    "n_components": COMPONENTS,
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "memory": [str, object],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}


def plan_of(bag_kernel: Any, scaling: Any, width: float, text: bool) -> KernelPlan:
    """The kernels and scalings of the parameters, which differ between texts and other data."""
    if scaling == "auto":
        scalings: tuple[Any, ...] = (None,) if text else default_scalings()
    else:
        scalings = (None,) if scaling is None else tuple(scaling)
    if not scalings:
        raise ValueError("scaling is an empty list: name a transformer, or pass None for none.")
    return KernelPlan(kernel_terms(bag_kernel, text), scalings, width, cosine=text)


@dataclass(frozen=True)
class BagRows:
    """Bags as rows: kernel values with the training bags, or features."""

    # None for a precomputed kernel.
    average: KernelAverage | None
    # The column of each training bag, of shape (n_train,), if they are not in order.
    columns: np.ndarray | None
    # Maps kernel values with the landmarks to features, of shape (n_landmarks, n_features).
    projection: np.ndarray | None
    # ``cached(average, bags)`` returns kernel values and caches them.
    cached: Any

    def __call__(self, bags: Bags, keep: bool = True) -> np.ndarray:
        """Rows of shape (n_bags, n_columns); ``keep`` tells whether to use the cache."""
        if self.average is None:
            values = np.asarray(as_kind(bags, text=False).instances)
        else:
            values = (self.cached if keep else kernel_rows)(self.average, bags)
        if self.projection is not None:
            return values @ self.projection
        return values if self.columns is None else values[:, self.columns]


def kernel_rows(average: KernelAverage, bags: Bags) -> np.ndarray:
    """Kernel of bags with the training bags of an average, as a function that can be cached."""
    return average.rows(bags)


@dataclass(frozen=True)
class LearnedRows:
    """Rows of the training bags with a weight above zero."""

    rows: BagRows
    # Of shape (n_used, n_used) or (n_used, n_features).
    values: np.ndarray
    # Positions among the training bags, of shape (n_used,).
    positions: np.ndarray
    # Of shape (n_used,).
    weights: np.ndarray


def random_landmarks(merged: MergedBags, n_components: int | None, seed: int) -> np.ndarray:
    """Positions among the merged bags of landmarks that are drawn from the distinct ones."""
    chosen = np.random.RandomState(seed).permutation(len(merged.distinct_positions))[:n_components]
    return merged.distinct_positions[np.sort(chosen)]


def bag_rows(
    average: KernelAverage, matrix: np.ndarray, merged: MergedBags, cached: Any = kernel_rows
) -> tuple[BagRows, np.ndarray]:
    """Rows of bags under an average, and those of the merged training bags.

    Parameters
    ----------
    average : KernelAverage
    matrix : ndarray
        The average between the bags that it was learnt on: the distinct ones, or landmarks.
    merged : MergedBags
    cached : callable, default=kernel_rows
        A cached version of :func:`kernel_rows`.
    """
    if len(matrix) < len(merged.distinct_positions):
        rows = BagRows(average, None, whitening(matrix)[0], cached)
        return rows, rows(merged.bags)
    if len(matrix) == len(merged.bags):
        return BagRows(average, None, None, cached), matrix
    inverse = merged.inverse
    return BagRows(average, inverse, None, cached), matrix[np.ix_(inverse, inverse)]


class BagSVM:
    """Mixin: learns the kernel of an estimator's parameters on bags."""

    bag_kernel: Any
    scaling: Any
    width: float
    n_components: int | str | None
    memory: Any
    random_state: Any
    n_jobs: int | None

    _bag_score_is_max = False
    _rows: BagRows
    _parameter_constraints: ClassVar[dict[str, Any]] = BAG_SVM_CONSTRAINTS

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.bag_kernel, str) and self.bag_kernel == "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = self._precomputed
        return tags

    def _learn(
        self, bags: Bags, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[LearnedRows, dict[str, Any]]:
        """Learn the kernel, and compute the rows of the training bags.

        Parameters
        ----------
        bags : Bags
        targets : ndarray of shape (n_bags,)
            Bags that are equal in their instances and targets are merged.
        weights : ndarray of shape (n_bags,)
            Bags of weight zero are ignored.

        Returns
        -------
        learned : LearnedRows
        attributes : dict of fitted attributes
        """
        if self._precomputed:
            return self._given(bags, weights)
        merged = merge_bags(bags, targets, weights)
        text = is_text(merged.bags)
        plan = plan_of(self.bag_kernel, self.scaling, self.width, text)
        n_merged, n_distinct = len(merged.bags), len(merged.distinct_positions)
        n_components = self._components(merged.bags, plan)
        approximated = n_components is not None and n_components < n_distinct
        # Without landmarks the kernels are deterministic, so that they can be cached.
        fixed = self.random_state is None and not approximated
        seed = 0 if fixed else int(check_random_state(self.random_state).randint(2**31 - 1))
        n_columns = int(n_components or 0) if approximated else n_merged
        require_memory(
            24.0 * n_merged * n_columns,
            f"The kernel matrix of {n_merged} x {n_columns} bags",
            "give n_components= a number of landmarks",
        )
        landmarks = merged.distinct_positions
        if approximated:
            landmarks = random_landmarks(merged, n_components, seed)
        distinct = merged.bags[landmarks] if approximated else merged.distinct
        memory = check_memory(self.memory)
        average, matrix = memory.cache(learn_average, ignore=["n_jobs"])(
            plan, as_kind(distinct, text), n_jobs=self.n_jobs, seed=seed
        )
        attributes: dict[str, Any] = {
            "kernels_": _listed_terms(plan),
            "n_components_": len(landmarks) if approximated else None,
        }
        if approximated:
            attributes["landmarks_"] = merged.positions[landmarks]
        rows, values = bag_rows(average, matrix, merged, memory.cache(kernel_rows))
        return LearnedRows(rows, values, merged.positions, merged.weights), attributes

    def _components(self, bags: Bags, plan: KernelPlan) -> int | None:
        """The number of landmarks. Kernels of one vector for each bag have only few pairs."""
        limits = BAG_LIMITS
        if all(isinstance(term, str) and not compares_instances(term) for term, _ in plan.terms):
            limits = replace(limits, instances=bags.n_instances, pairs=np.inf)
        return auto_components(self.n_components, len(bags), bags.n_instances, limits)

    def _given(self, bags: Bags, weights: np.ndarray) -> tuple[LearnedRows, dict[str, Any]]:
        if bags.n_instances != len(bags) or bags.shape[0] != bags.shape[1]:
            raise ValueError(
                "bag_kernel='precomputed' needs the square matrix of the kernel between the "
                f"training bags, and X has {bags.n_instances} row(s) in {len(bags)} bag(s) and "
                f"{bags.shape[1]} column(s): pass milearn.metrics.bag_kernel(bags), or name a "
                "kernel."
            )
        used = np.flatnonzero(weights > 0)
        rows = BagRows(None, None if len(used) == len(bags) else used, None, None)
        return LearnedRows(rows, rows(bags[used]), used, weights[used]), {"n_components_": None}

    def _rows_of_instances(self, bags: Bags) -> np.ndarray:
        if self._rows.average is None:
            raise ValueError(
                "Instances have no scores under a precomputed kernel between bags: fit with "
                "bag_kernel= the name of a kernel."
            )
        alone = Bags(bags.instances, np.arange(bags.n_instances + 1))
        return self._rows(alone, keep=False)


def _listed_terms(plan: KernelPlan) -> list[tuple[Any, Any, float]]:
    """Kernel, scaling and weight of each term of the average."""
    return [(kernel, scaling, weight) for scaling in plan.scalings for kernel, weight in plan.terms]
