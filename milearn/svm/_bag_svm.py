"""What BagSVC and BagSVR share: parameters, and rows of kernel values or features of bags."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_memory

from .._bags import Bags
from .._kernels.memory import require_memory
from ..utils._sklearn import Interval, StrOptions
from ._distinct import bag_fingerprints, distinct_rows, is_text
from ._kernel_average import (
    KernelAverage,
    KernelPlan,
    as_kind,
    default_scalings,
    kernel_terms,
    learn_average,
)

__all__ = ["BAG_SVM_CONSTRAINTS", "BagRows", "BagSVM", "nystroem_projection", "plan_of"]

BAG_SVM_CONSTRAINTS: dict[str, Any] = {
    "C": [Interval(Real, 0.0, None, closed="neither")],
    "bag_kernel": [str, callable, list],
    "scaling": [StrOptions({"auto"}), list, None],
    "width": [Interval(Real, 0.0, None, closed="neither")],
    "n_components": [Interval(Integral, 1, None, closed="left"), None],
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "cache_size": [Interval(Real, 0.0, None, closed="neither")],
    "memory": [str, object],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}

# Eigenvalues below this share of the largest are rounding.
_EIGEN_TOL = 1e-10


def plan_of(bag_kernel: Any, scaling: Any, width: float, text: bool) -> KernelPlan:
    """The kernels and scalings that parameters name for texts or for other instances."""
    if scaling == "auto":
        scalings: tuple[Any, ...] = (None,) if text else default_scalings()
    else:
        scalings = (None,) if scaling is None else tuple(scaling)
    if not scalings:
        raise ValueError("scaling is an empty list: name a transformer, or pass None for none.")
    return KernelPlan(kernel_terms(bag_kernel, text), scalings, width, cosine=text)


@dataclass(frozen=True)
class BagRows:
    """Bags as rows: kernel values with the training bags, or features.

    Attributes
    ----------
    average : KernelAverage or None
        None for rows that are given.
    columns : ndarray of shape (n_train,) or None
        The distinct bag of each training bag.
    projection : ndarray of shape (n_landmarks, n_features) or None
        What makes features of kernel values with the landmarks.
    cached : callable
        ``cached(average, bags)`` gives kernel values, from the memory where they are known.
    """

    average: KernelAverage | None
    columns: np.ndarray | None
    projection: np.ndarray | None
    cached: Any

    def __call__(self, bags: Bags, keep: bool = True) -> np.ndarray:
        """Rows of shape (n_bags, n_columns); ``keep`` says whether the memory is worth it."""
        if self.average is None:
            return np.asarray(bags.instances)
        values = (self.cached if keep else kernel_rows)(self.average, bags)
        if self.projection is not None:
            return values @ self.projection
        return values if self.columns is None else values[:, self.columns]


def kernel_rows(average: KernelAverage, bags: Bags) -> np.ndarray:
    """Kernel of bags with the training bags of an average, as a function that can be cached."""
    return average.rows(bags)


def nystroem_projection(matrix: np.ndarray) -> np.ndarray:
    """The matrix P with K P P' K' near the kernel, for values K with the landmarks."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _EIGEN_TOL * max(values[-1], 0.0)
    if not kept.any():
        return np.zeros((len(matrix), 1))
    return vectors[:, kept] / np.sqrt(values[kept])


class BagSVM:
    """Mixin: learns the kernel of an estimator's parameters on bags."""

    bag_kernel: Any
    scaling: Any
    width: float
    n_components: int | None
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

    def _learn(self, bags: Bags, used: np.ndarray) -> tuple[BagRows, np.ndarray, dict[str, Any]]:
        """Rows of bags, those of the used training bags, and what is told of the kernel.

        Parameters
        ----------
        bags : Bags
        used : ndarray
            Positions of the bags that take part.

        Returns
        -------
        rows : BagRows
        matrix : ndarray of shape (n_used, n_used) or (n_used, n_components)
        attributes : dict of fitted attributes
        """
        if self._precomputed:
            return self._given(bags, used)
        part = bags if len(used) == len(bags) else bags[used]
        text = is_text(part)
        plan = plan_of(self.bag_kernel, self.scaling, self.width, text)
        first, inverse = distinct_rows(bag_fingerprints(part))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        approximate = self.n_components is not None and self.n_components < len(first)
        n_columns = self.n_components if approximate else len(part)
        require_memory(
            24.0 * len(part) * int(n_columns or 0),
            f"The kernel matrix of {len(part)} x {n_columns} bags",
            "give n_components= a number of landmarks",
        )
        landmarks = first
        if approximate:
            chosen = np.random.RandomState(seed).permutation(len(first))[: self.n_components]
            landmarks = first[np.sort(chosen)]
        distinct = part if len(landmarks) == len(part) else part[landmarks]
        memory = check_memory(self.memory)
        cached = memory.cache(kernel_rows)
        average, matrix = memory.cache(learn_average, ignore=["n_jobs"])(
            plan, as_kind(distinct, text), n_jobs=self.n_jobs, seed=seed
        )
        columns = None if len(first) == len(part) else inverse
        attributes = {"kernels_": _told(plan), "landmarks_": used[landmarks]}
        if not approximate:
            del attributes["landmarks_"]
            if columns is not None:
                matrix = matrix[np.ix_(columns, columns)]
            return BagRows(average, columns, None, cached), matrix, attributes
        rows = BagRows(average, None, nystroem_projection(matrix), cached)
        return rows, rows(part), attributes

    def _given(self, bags: Bags, used: np.ndarray) -> tuple[BagRows, np.ndarray, dict[str, Any]]:
        if bags.n_instances != len(bags) or bags.shape[0] != bags.shape[1]:
            raise ValueError(
                "bag_kernel='precomputed' needs the square matrix of the kernel between the "
                f"training bags, and X has {bags.n_instances} row(s) in {len(bags)} bag(s) and "
                f"{bags.shape[1]} column(s): pass milearn.metrics.bag_kernel(bags), or name a "
                "kernel."
            )
        matrix = as_kind(bags, text=False).instances
        rows = BagRows(None, None, None, None)
        return rows, np.asarray(matrix)[np.ix_(used, used)], {"_columns": used}

    def _rows_of(self, bags: Bags) -> np.ndarray:
        rows = self._rows(as_kind(bags, text=False) if self._rows.average is None else bags)
        return rows if self._rows.average is not None else rows[:, self._columns]

    _columns: np.ndarray

    def _rows_of_instances(self, bags: Bags) -> np.ndarray:
        if self._rows.average is None:
            raise ValueError(
                "A precomputed kernel between bags says nothing of instances: fit with "
                "bag_kernel= the name of a kernel."
            )
        alone = Bags(bags.instances, np.arange(bags.n_instances + 1))
        return self._rows(alone, keep=False)


def _told(plan: KernelPlan) -> list[tuple[Any, Any, float]]:
    """Kernel, scaling and weight of each term of the average."""
    return [(kernel, scaling, weight) for scaling in plan.scalings for kernel, weight in plan.terms]
