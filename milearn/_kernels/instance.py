"""Kernels between instances, by scikit-learn's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels

from .._bags.segments import without_rounding

# scikit-learn's names of kernels between rows.
KERNELS = tuple(sorted(kernel_metrics()))

# Kernels that do not accept CSR rows, and kernels that do not accept read-only rows.
_DENSE_ONLY = ("additive_chi2", "chi2")
# Squared length of a row, in units of the RBF's width, above which |x|^2 + |z|^2 - 2 <x, z> loses
# too many digits of |x - z|^2.
_MAX_SCALED_NORM = 1e3


def resolve_gamma(gamma: Any, instances: Any, weights: np.ndarray | None = None) -> float:
    """Resolved ``gamma``: "scale" is 1 / (n_features * variance), "auto" 1 / n_features.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float
    instances : ndarray or CSR of shape (n_instances, n_features)
    weights : ndarray of shape (n_instances,), default=None
        Weights of the instances in the variance, so that a weight of two equals repetition.
    """
    n_features = instances.shape[1]
    if gamma == "auto":
        return 1.0 / n_features
    if gamma != "scale":
        return float(gamma)
    weights = np.ones(instances.shape[0]) if weights is None else weights
    share = weights / (weights.sum() * n_features)
    if sparse.issparse(instances):
        mean = float(share @ instances.sum(axis=1))
        variance = float(share @ instances.multiply(instances).sum(axis=1)) - mean**2
    else:
        mean = float((share @ instances).sum())
        variance = float(share @ np.einsum("ij,ij->i", instances - mean, instances - mean))
    differ = without_rounding(np.sqrt(max(variance, 0.0)), mean) > 0
    return 1.0 / (n_features * variance) if differ else 1.0


def instance_kernel(
    kernel: str | Callable, *, gamma: float
) -> tuple[Callable[[Any, Any], np.ndarray], bool]:
    """The kernel as a function of two matrices, and whether it is known to be semidefinite.

    As in scikit-learn's SVC, the degree of "poly" is 3, and the constant of "poly" and "sigmoid" is
    0. The function can be pickled if ``kernel`` can, which is required for worker processes.
    """
    if callable(kernel):
        return partial(_checked_values, kernel), False
    # Use one job: the caller's parallel_config is for fits, not for blocks of a few MiB.
    function = partial(
        pairwise_kernels,
        metric=kernel,
        filter_params=True,
        n_jobs=1,
        gamma=gamma,
        degree=3,
        coef0=0.0,
    )
    if kernel == "linear":
        return partial(_inner_products, function), True
    if kernel == "rbf":
        return partial(_gaussians, function, gamma), True
    if kernel in _DENSE_ONLY:
        return partial(_of_writable, function), kernel == "chi2"
    return function, kernel != "sigmoid"


def takes_sparse(kernel: str | Callable) -> bool:
    """Whether a named kernel supports CSR matrices; unknown for a callable."""
    return not callable(kernel) and kernel not in _DENSE_ONLY


def _inner_products(of_any_kind: Callable, left: Any, right: Any) -> np.ndarray:
    return np.asarray(left @ right.T if _are_plain(left, right) else of_any_kind(left, right))


def _gaussians(of_any_kind: Callable, gamma: float, left: Any, right: Any) -> np.ndarray:
    """scikit-learn's arithmetic, after centring rows that are far from zero."""
    if not _are_plain(left, right):
        return np.asarray(of_any_kind(left, right))
    same = right is left
    norms = np.einsum("ij,ij->i", right, right)
    if gamma * norms.max(initial=0.0) > _MAX_SCALED_NORM:
        centre = right.mean(axis=0)
        right = right - centre
        left = right if same else left - centre
        norms = np.einsum("ij,ij->i", right, right)
    values = -2.0 * (left @ right.T)
    values += (norms if same else np.einsum("ij,ij->i", left, left))[:, None]
    values += norms
    np.maximum(values, 0.0, out=values)
    if same:
        np.fill_diagonal(values, 0.0)
    values *= -gamma
    return np.asarray(np.exp(values, out=values))


def _of_writable(function: Callable, *sides: Any) -> np.ndarray:
    """Values of a compiled kernel that does not accept read-only arrays, such as those of Bags."""
    rows = (np.require(X, requirements="W") if isinstance(X, np.ndarray) else X for X in sides)
    return np.asarray(function(*rows))


def _are_plain(left: Any, right: Any) -> bool:
    """Whether scikit-learn's validation, which is slower than a small block, can be skipped."""
    dense = isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
    return dense and left.dtype == right.dtype == np.float64


def _checked_values(kernel: Callable, left: Any, right: Any) -> np.ndarray:
    """Values of a callable kernel, validated and converted to a dense matrix."""
    values = kernel(left, right)
    if sparse.issparse(values):
        values = values.toarray()
    values = np.asarray(values, dtype=np.float64)
    expected = (left.shape[0], right.shape[0])
    if values.shape != expected:
        raise ValueError(
            f"The kernel returned shape {values.shape} for {expected[0]} and {expected[1]} "
            f"instances: kernel(A, B) must return a matrix of shape {expected}."
        )
    return values
