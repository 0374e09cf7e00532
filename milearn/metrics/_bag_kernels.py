"""Kernels between bags, as a matrix for any kernel method."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.segments import pooling_matrix
from .._kernels.bag import (
    BAG_KERNELS,
    bag_scales,
    median_of_rows,
    minmax_bytes,
    minmax_vectors,
    pair_sums,
)
from .._kernels.instance import KERNELS, instance_kernel, takes_sparse
from .._kernels.learned import LEARNED_KERNELS, learn_bag_kernel
from .._kernels.memory import block_bytes, require_memory
from ._distances import both_sides


def bag_kernel(
    X: Any,
    Y: Any = None,
    *,
    bag_kernel: str = "normalized_set",
    kernel: Any = "rbf",
    gamma: float | str | None = None,
    width: float = 1.0,
    cosine: bool = False,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> np.ndarray:
    r"""Matrix of a kernel between bags.

    With :math:`s(A, B) = \sum_{x \in A} \sum_{z \in B} k(x, z)` and bags of sizes
    :math:`n_A, n_B`, the kernels of [1]_ are

    .. math::

        \text{"set"}: s(A, B), \qquad
        \text{"mean\_set"}: \frac{s(A, B)}{n_A n_B}, \qquad
        \text{"normalized\_set"}: \frac{s(A, B)}{\sqrt{s(A, A) \, s(B, B)}},

    and "minmax", :math:`k(t(A), t(B))` where :math:`t(B)` holds the minimum and the maximum of
    each feature over the bag.

    The other kernels have no parameter: their scales are learnt on the training bags, which are
    those of ``Y``, or of ``X`` if ``Y`` is None. With :math:`d` the Euclidean distance,
    :math:`D(A, B)` the mean over the instances of A of the smallest squared distance to B, and
    :math:`\operatorname{med}` the median over the pairs of training bags times ``width``:

    .. math::

        \text{"mean", "unit\_mean", "mind\_rows", "miles\_rows"}&:
            \exp \Bigl( -\frac{\|r(A) - r(B)\|^2}{\operatorname{med} \|r - r'\|^2} \Bigr), \\
        \text{"statistics", "minmax\_laplacian"}&:
            \exp \Bigl( -\frac{\|r(A) - r(B)\|_1}{\operatorname{med} \|r - r'\|_1} \Bigr), \\
        \text{"mind"}&:
            \exp \Bigl( -\frac{D(A, B) + D(B, A)}{\operatorname{med} (D + D')} \Bigr), \\
        \text{"emd"}&:
            \exp \Bigl( -\frac{E(A, B)}{\operatorname{med} E} \Bigr)
                \quad \text{(earth mover's distance)}, \\
        \text{"graph"}&:
            \frac{\sum_{x \in A} \sum_{z \in B} W_x W_z \exp(-d(x, z)^2 / s)}
                {\sum_{x \in A} W_x \sum_{z \in B} W_z}.

    :math:`r(B)` is the mean of the instances ("mean"); the mean of instances divided by their
    lengths ("unit_mean"); minimum and maximum of each feature ("minmax_laplacian"); minimum, mean,
    maximum and standard deviation of each feature, each divided by its standard deviation over the
    training bags ("statistics"); :math:`D(B, T)` for each training bag T, standardised over them
    and clipped at three standard deviations ("mind_rows", [2]_); and :math:`\max_{x \in B}
    \exp(-d(x, t)^2 / s)` for each training instance t, standardised, with s the median of the
    squared distances of training instances ("miles_rows", [3]_). "graph" (the miGraph kernel of
    [4]_) links two instances of a bag whose distance does not exceed the mean distance in the bag;
    :math:`W_x` is one over the number of links of x, including the link to itself, and s is as
    above, times ``width``. "set_median" is "normalized_set" with :math:`k(x, z) = \exp(-d(x, z)^2 /
    s)` and the same s. With ``gamma="median"`` the width of "normalized_set" and "minmax" is also a
    median.

    Parameters
    ----------
    X : bags, see :class:`milearn.Bags`
        Rows of a plain matrix are bags of one instance.
    Y : bags, default=None
        The bags of the columns; by default, those of ``X``.
    bag_kernel : str, default="normalized_set"
        "normalized_set", "set", "mean_set" or "minmax", which take ``kernel``; or "mean",
        "unit_mean", "minmax_laplacian", "statistics", "set_median", "mind", "mind_rows",
        "miles_rows", "emd" or "graph".
    kernel : str or callable, default="rbf"
        Kernel between instances, by scikit-learn's name ("linear", "poly", "rbf", "laplacian",
        "chi2", "cosine", "sigmoid", ...); a callable takes two matrices and returns the
        matrix of shape (n_left, n_right). "poly" has the degree 3 and, like "sigmoid", the
        constant 0.
    gamma : float or "median", default=None
        Coefficient of "rbf", "poly", "laplacian", "chi2" and "sigmoid"; by default, 1 / n_features
        (of an instance, also for "minmax"). With "rbf" and "laplacian", "median" sets gamma
        to one over ``width`` times the median of the distances that gamma multiplies: over pairs of
        training instances, or of training bags with "minmax".
    width : float, default=1.0
        Factor by which the medians are multiplied.
    cosine : bool, default=False
        For text, with the kernels that have no parameter: instances are first divided by their
        lengths (except for "mean"); "mean", "unit_mean", "minmax_laplacian" and "statistics" are
        cosines of the angle between :math:`r(A)` and :math:`r(B)`, without standardisation; and
        :math:`r(B)` of "miles_rows" holds the largest cosine with each training instance, without
        standardisation.
    n_jobs : int, default=None
        Number of threads, which also call a callable ``kernel``. None means 1 unless in a
        :func:`joblib.parallel_config` context, -1 means using all processors.
    random_state : int, RandomState instance or None, default=None
        Determines the sample of training bags or instances on which the medians are computed if
        there are more than 1000 bags or 500 instances.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        Kernel of each bag of ``X`` with each of ``Y``.

    Raises
    ------
    ImportError
        For "emd" without POT, the extra ``milearn[emd]``.
    MemoryError
        If the result does not fit into the available memory. This is checked before any
        computation.
    ValueError
        For unknown names, different numbers of features in ``X`` and ``Y``, or a bag with a
        negative similarity to itself if the kernel divides by it.

    See Also
    --------
    bag_distances : Distances of bags.

    Notes
    -----
    The kernel values of all pairs of instances are computed in blocks of a few MiB and not stored.
    With ``kernel="linear"`` the instances of each bag are summed first, so no pairs are formed. A
    bag whose image is zero has similarity zero to every bag.

    CSR instances stay sparse in all kernels. "mind" and "emd" are not positive semidefinite for
    all bags; the others are (the first four if ``kernel`` is). "emd" solves a linear program
    for each pair of bags, see :func:`bag_distances`; "miles_rows" stores a matrix of shape
    (n_bags, n_training_instances).

    References
    ----------
    .. [1] T. Gaertner, P. A. Flach, A. Kowalczyk, A. J. Smola. Multi-instance kernels. ICML 2002.
    .. [2] V. Cheplygina, D. M. J. Tax, M. Loog. Multiple instance learning with bag
       dissimilarities. Pattern Recognition 48(1), 2015.
    .. [3] Y. Chen, J. Bi, J. Z. Wang. MILES: Multiple-instance learning via embedded instance
       selection. IEEE TPAMI 28(12), 2006.
    .. [4] Z.-H. Zhou, Y.-Y. Sun, Y.-F. Li. Multi-instance learning by treating instances as
       non-i.i.d. samples. ICML 2009.

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
    if name not in BAG_KERNELS + LEARNED_KERNELS:
        known = _listed(BAG_KERNELS + LEARNED_KERNELS)
        raise ValueError(f"bag_kernel={name!r} is unknown: choose from {known}.")
    if not callable(kernel) and kernel not in KERNELS:
        raise ValueError(
            f"kernel={kernel!r} is unknown: choose from {_listed(KERNELS)}, or pass a callable."
        )
    left, training = both_sides(X, Y)
    sides = [left] if Y is None else [left, training]
    if name in LEARNED_KERNELS:
        if gamma is not None:
            raise ValueError(
                f"gamma={gamma!r} is not used by bag_kernel={name!r}, whose widths are medians: "
                "set width, which multiplies them."
            )
        options = {"cosine": cosine, "n_jobs": n_jobs, "random_state": random_state}
        rows, offsets = training.instances, training.offsets
        fitted, train = learn_bag_kernel(name, rows, offsets, width=width, **options)
        return train if Y is None else fitted.matrix(left.instances, left.offsets)
    if cosine:
        raise ValueError(
            f'cosine=True is not used by bag_kernel={name!r}: pass kernel="cosine" instead.'
        )
    if gamma is None:
        gamma = 1.0 / left.shape[1]
    elif isinstance(gamma, str):
        gamma = 1.0 / (width * _median(name, kernel, gamma, training, random_state))
    function, _ = instance_kernel(kernel, gamma=gamma)
    keep_sparse = takes_sparse(kernel)
    _check_memory(name, sides, keep_sparse)
    if name == "minmax":
        vectors = [
            minmax_vectors(bags.instances, bags.offsets, keep_sparse=keep_sparse) for bags in sides
        ]
        return np.asarray(function(vectors[0], vectors[-1]), dtype=np.float64)
    if kernel == "linear":
        sums = [pooling_matrix(bags.offsets, 1.0) @ bags.instances for bags in sides]
        product = sums[0] @ sums[-1].T
        values = np.asarray(product.toarray() if sparse.issparse(product) else product)
    else:
        arrays = [each for bags in sides for each in (bags.instances, bags.offsets)]
        values = pair_sums(*arrays, kernel=function, n_jobs=n_jobs)
    scale = _scales(name, left, function, values if Y is None else None)
    values *= scale[:, None]
    values *= scale if Y is None else _scales(name, training, function, None)
    return values


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


def _median(name: str, kernel: Any, gamma: str, training: Bags, random_state: Any) -> float:
    """The reciprocal of gamma="median"."""
    if gamma != "median" or kernel not in ("rbf", "laplacian"):
        raise ValueError(
            f'gamma={gamma!r} with kernel={kernel!r}: pass a number, or gamma="median" with "rbf" '
            'or "laplacian".'
        )
    rows = training.instances
    if name == "minmax":
        rows = minmax_vectors(rows, training.offsets, keep_sparse=True)
    generator = check_random_state(random_state)
    return median_of_rows(rows, kernel == "laplacian", generator)


def _scales(name: str, bags: Bags, function: Any, matrix: np.ndarray | None) -> np.ndarray:
    if matrix is None or name != "normalized_set" or (np.diagonal(matrix) < 0).any():
        return bag_scales(name, bags.instances, bags.offsets, function)
    own = np.diagonal(matrix)
    return np.divide(1.0, np.sqrt(own), out=np.zeros(len(own)), where=own > 0)


def _check_memory(name: str, sides: list[Bags], keep_sparse: bool) -> None:
    """Raise an error if the matrix would not fit into the available memory."""
    left, right = sides[0], sides[-1]
    needed = 8 * len(left) * len(right) + 4 * block_bytes()
    if name == "minmax":
        kept = [keep_sparse and sparse.issparse(side.instances) for side in sides]
        needed += sum(
            minmax_bytes(*side.shape) for side, k in zip(sides, kept, strict=True) if not k
        )
    require_memory(
        needed,
        f"The kernel matrix of {len(left)} x {len(right)} bags",
        "compute it for fewer bags at a time, or use an estimator with n_components=, which needs "
        "no kernel matrix",
    )
