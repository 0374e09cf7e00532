"""Kernels between instances, by scikit-learn's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    chi2_kernel,
    cosine_similarity,
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
    sigmoid_kernel,
)

__all__ = ["KERNELS", "instance_kernel", "resolve_gamma"]

# scikit-learn's names of kernels between rows.
KERNELS = (
    "additive_chi2",
    "chi2",
    "cosine",
    "laplacian",
    "linear",
    "poly",
    "polynomial",
    "rbf",
    "sigmoid",
)


def resolve_gamma(gamma: Any, instances: Any, weights: np.ndarray | None = None) -> float:
    """The number behind ``gamma``: "scale" is 1 / (n_features * variance), "auto" 1 / n_features.

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
    return 1.0 / (n_features * variance) if variance > 0 else 1.0


def instance_kernel(
    kernel: str | Callable, *, gamma: float, degree: float, coef0: float
) -> tuple[Callable[[Any, Any], np.ndarray], bool]:
    """The kernel as a function of two matrices, and whether it is known to be semidefinite."""
    if callable(kernel):
        return _checked(kernel), False
    if kernel == "linear":
        return linear_kernel, True
    if kernel == "rbf":
        return lambda left, right: rbf_kernel(left, right, gamma=gamma), True
    if kernel == "laplacian":
        return lambda left, right: laplacian_kernel(left, right, gamma=gamma), True
    if kernel == "chi2":
        return lambda left, right: chi2_kernel(left, right, gamma=gamma), True
    if kernel == "cosine":
        return cosine_similarity, True
    if kernel == "additive_chi2":
        return additive_chi2_kernel, False
    if kernel in ("poly", "polynomial"):
        known = coef0 >= 0 and float(degree).is_integer()
        return (
            lambda left, right: polynomial_kernel(
                left, right, degree=degree, gamma=gamma, coef0=coef0
            ),
            known,
        )
    assert kernel == "sigmoid", f"{kernel!r} is checked before"
    return lambda left, right: sigmoid_kernel(left, right, gamma=gamma, coef0=coef0), False


def _checked(kernel: Callable) -> Callable[[Any, Any], np.ndarray]:
    def evaluate(left: Any, right: Any) -> np.ndarray:
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

    return evaluate
