"""Kernels between bags, as a matrix for any kernel method."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._kernels.bag import (
    BAG_KERNELS,
    BLOCK_BYTES,
    bag_scales,
    minmax_vectors,
    pair_sums,
)
from .._kernels.instance import KERNELS, instance_kernel
from ..utils.validation import check_bags

__all__ = ["bag_kernel"]


def bag_kernel(
    X: Any,
    Y: Any = None,
    *,
    bag_kernel: str = "normalized_set",
    kernel: Any = "rbf",
    gamma: float | None = None,
    degree: float = 3,
    coef0: float = 0.0,
) -> np.ndarray:
    r"""Matrix of a kernel between bags, made from a kernel between instances.

    With :math:`s(A, B) = \sum_{x \in A} \sum_{z \in B} k(x, z)` and bags of sizes
    :math:`n_A, n_B`, the kernels of [1]_ are

    .. math::

        \text{"set"}: s(A, B), \qquad
        \text{"mean\_set"}: \frac{s(A, B)}{n_A n_B}, \qquad
        \text{"normalized\_set"}: \frac{s(A, B)}{\sqrt{s(A, A) \, s(B, B)}},

    and "minmax", :math:`k(t(A), t(B))` where :math:`t(B)` holds the minimum and the maximum of
    each feature over the bag.

    Parameters
    ----------
    X : bags, see :class:`milearn.Bags`
        Rows of a plain matrix are bags of one instance.
    Y : bags, default=None
        The bags of the columns; those of ``X`` when None.
    bag_kernel : {"normalized_set", "set", "mean_set", "minmax"}, default="normalized_set"
    kernel : str or callable, default="rbf"
        Kernel between instances, by scikit-learn's name ("linear", "poly", "rbf", "laplacian",
        "chi2", "cosine", "sigmoid", ...); a callable takes two matrices and returns the
        matrix of shape (n_left, n_right).
    gamma : float, default=None
        Coefficient of "rbf", "poly", "laplacian", "chi2" and "sigmoid"; 1 / n_features when
        None (of an instance, also for "minmax").
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)

    Raises
    ------
    MemoryError
        Before anything is computed, where the result does not fit into the free memory.
    ValueError
        For unknown names, bags that differ in their features, and bags whose similarity with
        themselves is negative where it has to be divided by.

    Notes
    -----
    The kernel values of all pairs of instances are needed but never kept: they are made in
    blocks of a few MiB. With ``kernel="linear"`` the bags are summed first and no pair of
    instances is ever formed. A bag whose image is zero has similarity zero to every bag.

    References
    ----------
    .. [1] T. Gaertner, P. A. Flach, A. Kowalczyk, A. J. Smola. Multi-instance kernels. ICML 2002.

    Examples
    --------
    >>> from milearn.datasets import make_bags
    >>> from milearn.metrics import bag_kernel
    >>> from sklearn.svm import SVC
    >>> X, y = make_bags(n_bags=30, random_state=0)
    >>> K = bag_kernel(X, gamma=0.05)
    >>> K.shape
    (30, 30)
    >>> SVC(kernel="precomputed", C=100).fit(K, y).score(K, y)
    1.0
    """
    name = bag_kernel
    if name not in BAG_KERNELS:
        raise ValueError(f"bag_kernel={name!r} is unknown: choose from {_listed(BAG_KERNELS)}.")
    if not callable(kernel) and kernel not in KERNELS:
        raise ValueError(
            f"kernel={kernel!r} is unknown: choose from {_listed(KERNELS)}, or pass a callable."
        )
    left = check_bags(X)
    right = None if Y is None else check_bags(Y)
    other = left if right is None else right
    if left.shape[1] != other.shape[1]:
        raise ValueError(
            f"X has {left.shape[1]} features but Y has {other.shape[1]}: bags of both must have "
            "the same features."
        )
    if gamma is None:
        gamma = 1.0 / left.shape[1]
    check_memory(len(left), len(other))
    function, _ = instance_kernel(kernel, gamma=gamma, degree=degree, coef0=coef0)
    if name == "minmax":
        vectors = minmax_vectors(left.instances, left.offsets)
        others = vectors if right is None else minmax_vectors(other.instances, other.offsets)
        return np.asarray(function(vectors, others), dtype=np.float64)
    if kernel == "linear":
        sums = _bag_sums(left)
        product = sums @ (sums if right is None else _bag_sums(other)).T
        values = product.toarray() if sparse.issparse(product) else np.asarray(product)
    elif right is None:
        values = pair_sums(left.instances, left.offsets, kernel=function)
    else:
        values = pair_sums(
            left.instances, left.offsets, other.instances, other.offsets, kernel=function
        )
    scale = _scales(name, left, function, values if right is None else None)
    values *= scale[:, None]
    values *= scale if right is None else _scales(name, other, function, None)
    return values


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


def _bag_sums(bags: Bags) -> Any:
    ones = np.ones(bags.n_instances)
    places = (ones, np.arange(bags.n_instances), bags.offsets)
    return sparse.csr_array(places, shape=(len(bags), bags.n_instances)) @ bags.instances


def _scales(name: str, bags: Bags, function: Any, matrix: np.ndarray | None) -> np.ndarray:
    if matrix is None or name != "normalized_set" or (np.diagonal(matrix) < 0).any():
        return bag_scales(name, bags.instances, bags.offsets, function)
    own = np.diagonal(matrix)
    return np.divide(1.0, np.sqrt(own), out=np.zeros(len(own)), where=own > 0)


def check_memory(n_rows: int, n_columns: int) -> None:
    """Refuse a matrix that does not fit into the free memory, before it is begun."""
    needed = 8 * n_rows * n_columns + 4 * BLOCK_BYTES
    free = free_memory()
    if free is not None and needed > free:
        raise MemoryError(
            f"The kernel matrix of {n_rows} x {n_columns} bags takes {needed / 2**20:.0f} MiB and "
            f"{free / 2**20:.0f} MiB are free: compute it for fewer bags at a time, or use an "
            "estimator with n_components=, which needs no kernel matrix."
        )


def free_memory() -> float | None:
    """Physical memory that is free, in bytes; None where the system does not say."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None
