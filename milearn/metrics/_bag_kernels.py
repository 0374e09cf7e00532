"""Kernels between bags, as a matrix for any kernel method."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._bags import Bags
from .._bags.segments import pooling_matrix
from .._kernels.bag import (
    BAG_KERNELS,
    bag_scales,
    minmax_bytes,
    minmax_vectors,
    pair_sums,
)
from .._kernels.instance import KERNELS, instance_kernel, takes_sparse
from .._kernels.memory import block_bytes, require_memory
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
        Which of these kernels.
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
        Kernel of each bag of ``X`` with each of ``Y``.

    Raises
    ------
    MemoryError
        Before anything is computed, where the result does not fit into the available memory.
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
    keep_sparse = takes_sparse(kernel)
    _check_memory(name, left, right, keep_sparse)
    function, _ = instance_kernel(kernel, gamma=gamma, degree=degree, coef0=coef0)
    if name == "minmax":
        vectors = minmax_vectors(left.instances, left.offsets, keep_sparse=keep_sparse)
        others = vectors
        if right is not None:
            others = minmax_vectors(right.instances, right.offsets, keep_sparse=keep_sparse)
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
    return pooling_matrix(bags.offsets, 1.0) @ bags.instances


def _scales(name: str, bags: Bags, function: Any, matrix: np.ndarray | None) -> np.ndarray:
    if matrix is None or name != "normalized_set" or (np.diagonal(matrix) < 0).any():
        return bag_scales(name, bags.instances, bags.offsets, function)
    own = np.diagonal(matrix)
    return np.divide(1.0, np.sqrt(own), out=np.zeros(len(own)), where=own > 0)


def _check_memory(name: str, left: Bags, right: Bags | None, keep_sparse: bool) -> None:
    """Refuse a matrix that does not fit into the available memory, before it is begun."""
    sides = [left] if right is None else [left, right]
    needed = 8 * len(left) * len(sides[-1]) + 4 * block_bytes()
    if name == "minmax":
        needed += sum(
            minmax_bytes(*side.shape)
            for side in sides
            if not (keep_sparse and sparse.issparse(side.instances))
        )
    require_memory(
        needed,
        f"The kernel matrix of {len(left)} x {len(sides[-1])} bags",
        "compute it for fewer bags at a time, or use an estimator with n_components=, which needs "
        "no kernel matrix",
    )
