"""Kernels and distances between bags, as matrices."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.canonical import check_choice, check_positive
from .._bags.distinct import drawn_bags, most_bags, rows_per_block
from .._bags.rows_on_disk import in_memory
from .._bags.segments import (
    bag_ranges,
    pooling_matrix,
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
)
from .._compat import need_module
from .._fit.validation import check_bags
from .._kernels.bag import (
    BAG_KERNELS,
    bag_scales,
    median_of_rows,
    minmax_bytes,
    minmax_vectors,
    normalising_scales,
)
from .._kernels.instance import KERNELS, instance_kernel, takes_sparse
from .._kernels.learned import LEARNED_KERNELS, learn_bag_kernel
from .._kernels.memory import block_bytes, require_memory
from .._kernels.pairs import (
    BLOCKS_HELD,
    POT,
    PreparedRows,
    earth_movers,
    pair_reductions,
    side_of,
    squares,
)


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
    r"""Compute the kernel matrix between bags.

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

    Read more in the :ref:`User Guide <methods_kernels>`.

    .. versionadded:: 0.1.0

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
        :obj:`joblib.parallel_config` context; -1 means all processors.
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
    check_choice("bag_kernel", name, BAG_KERNELS + LEARNED_KERNELS)
    if not callable(kernel):
        check_choice("kernel", kernel, KERNELS)
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
    dense = [minmax_bytes(*each.shape) for each in sides if not (keep_sparse and each.is_sparse)]
    further = sum(dense) if name == "minmax" else 0
    remedy = ", or use an estimator with n_components=, which needs no kernel matrix"
    _require_room("kernel matrix of", left, training, further, remedy)
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
        values = pair_reductions(
            lambda of, to: function(left.instances[of], training.instances[to]),
            left.offsets,
            training.offsets,
            symmetric=Y is None,
            similarity=np.asarray,
            n_jobs=n_jobs,
        ).sums
    scale = _scales(name, left, function, values if Y is None else None)
    values *= scale[:, None]
    values *= scale if Y is None else _scales(name, training, function, None)
    return values


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
    if matrix is None or name != "normalized_set":
        return bag_scales(name, bags.instances, bags.offsets, function)
    return normalising_scales(np.diagonal(matrix))


def _require_room(what: str, left: Bags, right: Bags, further: float, remedy: str) -> None:
    """Refuse a matrix that does not fit into memory with blocks and further bytes."""
    require_memory(
        8.0 * len(left) * len(right) + BLOCKS_HELD * block_bytes() + further,
        f"The {what} {len(left)} x {len(right)} bags",
        f"compute it for fewer bags at a time{remedy}",
    )


# How the distances of the instances of a bag to the nearest ones of another bag are pooled.
_POOLS = {"min": segment_min, "max": segment_max, "mean": segment_sum, "mind": segment_mean}
BAG_METRICS = (*_POOLS, "emd")


def bag_distances(
    X: Any,
    Y: Any = None,
    *,
    metric: str = "mean",
    directed: bool = False,
    squared: bool = False,
    max_instances: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> np.ndarray:
    r"""Compute Hausdorff, mean minimum or earth mover's distances between bags.

    With Euclidean distances between instances and :math:`d(a, B) = \min_{b \in B} \|a - b\|`,

    .. math::

        \text{"min"}&: \min_{a \in A} d(a, B), \\
        \text{"max"}&: \max \Bigl\{ \max_{a \in A} d(a, B), \max_{b \in B} d(b, A) \Bigr\}, \\
        \text{"mean"}&: \frac{\sum_{a \in A} d(a, B) + \sum_{b \in B} d(b, A)}{|A| + |B|}, \\
        \text{"mind"}&: \frac{D(A, B) + D(B, A)}{2}, \qquad
            D(A, B) = \frac{1}{|A|} \sum_{a \in A} d(a, B), \\
        \text{"emd"}&: \min_{F \ge 0} \sum_{a, b} F_{ab} \|a - b\| \quad \text{s.t.} \quad
            \sum_b F_{ab} = \frac{1}{|A|}, \; \sum_a F_{ab} = \frac{1}{|B|}.

    "max" is the Hausdorff distance. "min" is its minimal form, which is zero if two bags share an
    instance and is not a metric. "mean" is the average form of [1]_. "mind" gives both bags the
    same weight, regardless of their sizes, and has a one-sided form [2]_. "emd", the earth mover's
    distance [3]_, is the smallest mean distance over which the instances of one bag can be moved
    onto those of the other. It is a metric on bags as distributions.

    Read more in the :ref:`User Guide <methods_kernels>`.

    .. versionadded:: 0.1.0

    Parameters
    ----------
    X : bags, see :class:`milearn.Bags`
        Rows of a plain matrix are bags of one instance.
    Y : bags, default=None
        The bags of the columns; by default, those of ``X``.
    metric : {"min", "max", "mean", "mind", "emd"}, default="mean"
        The distance.
    directed : bool, default=False
        With "mind": only D(A, B), from the bags of ``X`` to those of ``Y``.
    squared : bool, default=False
        With "mind": means of squared distances of instances.
    max_instances : int, default=None
        With "emd": maximum number of instances per bag. Larger bags are subsampled, once for all
        pairs. This overestimates distances by about the distance between two samples of one bag.
        By default, distances are exact.
    random_state : int, RandomState instance or None, default=None
        Determines the subsamples of ``max_instances``.
    n_jobs : int, default=None
        Number of threads that share the blocks of rows. None means 1 unless in a
        :obj:`joblib.parallel_config` context; -1 means all processors.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        With a diagonal of zeros if ``Y`` is None, and symmetric unless ``directed``.

    Raises
    ------
    ImportError
        For "emd" without POT, the extra ``milearn[emd]``.
    MemoryError
        If the result and the copy of the instances do not fit into the available memory. This is
        checked before any computation.
    ValueError
        For an unknown metric, an option of another metric, or different numbers of features in
        ``X`` and ``Y``.

    See Also
    --------
    bag_kernel : Similarities of bags, for kernel methods.
    milearn.cluster.BAMIC : Clusters of bags by these distances.

    Notes
    -----
    All pairs of instances are compared, in blocks of a few MiB. Apart from these blocks, only the
    result and a centred float64 copy of the instances are kept in memory. If ``Y`` is given and the
    copy of ``X`` exceeds scikit-learn's ``working_memory``, it is made for some bags after others.
    Distances between nearly equal instances are computed without cancellation, so the distance of
    equal instances is exactly zero.

    "emd" solves a linear program for each pair of bags: an assignment problem for two bags of
    equal size up to 64, otherwise the network simplex method of POT [4]_. A pair takes about 50
    microseconds for bags of ten, 0.6 ms for bags of 65, 14 ms for bags of 300 and 0.3 s for bags of
    a thousand. For larger bags set ``max_instances``: for the same computing time it was closer to
    the exact distance than Sinkhorn's iterations, which are therefore not implemented.

    References
    ----------
    .. [1] M.-L. Zhang, Z.-H. Zhou. Multi-instance clustering with applications to multi-instance
       prediction. Applied Intelligence 31, 2009.
    .. [2] V. Cheplygina, D. M. J. Tax, M. Loog. Multiple instance learning with bag
       dissimilarities. Pattern Recognition 48(1), 2015.
    .. [3] Y. Rubner, C. Tomasi, L. J. Guibas. The earth mover's distance as a metric for image
       retrieval. International Journal of Computer Vision 40(2), 2000.
    .. [4] R. Flamary et al. POT: Python Optimal Transport. Journal of Machine Learning Research
       22(78), 2021.

    Examples
    --------
    >>> from milearn.metrics import bag_distances
    >>> bags = [[[0.0], [1.0]], [[1.0], [4.0]]]
    >>> bag_distances(bags, metric="max")
    array([[0., 3.],
           [3., 0.]])
    >>> bag_distances(bags, metric="mind", directed=True)
    array([[0. , 0.5],
           [1.5, 0. ]])
    """
    check_choice("metric", metric, BAG_METRICS)
    if (directed or squared) and metric != "mind":
        raise ValueError(f'directed and squared require metric="mind", got metric={metric!r}.')
    if max_instances is not None:
        if metric != "emd":
            raise ValueError(f'max_instances requires metric="emd", got metric={metric!r}.')
        check_positive(max_instances=max_instances)
    if metric == "emd":
        need_module(*POT)
    left, right = both_sides(X, Y)
    symmetric = Y is None
    if max_instances is not None:
        generator = check_random_state(random_state)
        left = left.sample_instances(max_instances, random_state=generator)
        right = left if symmetric else right.sample_instances(max_instances, random_state=generator)
    # The instances whose copies fit into ``working_memory``.
    at_once = rows_per_block(max(1, int(_bytes_per_instance(left))))
    # The result is in memory twice: while it is made symmetric, or put together from blocks. Of
    # other bags, there are also the distances in the other direction.
    further = (8.0 if symmetric else 16.0) * len(left) * len(right)
    further += _bytes_per_instance(right) * right.n_instances
    if not symmetric:
        n_copied = min(left.n_instances, max(at_once, int(left.sizes.max(initial=0))))
        further += _bytes_per_instance(left) * n_copied
    remedy = "; a clusterer can be fitted on a sample of the bags and predict the others"
    _require_room("matrix of distances between", left, right, further, remedy)

    def pool(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        if metric in ("min", "max"):
            return np.sqrt(_POOLS[metric](values, offsets))
        return _POOLS[metric](values if squared else np.sqrt(values), offsets)

    def computed(part: Bags) -> np.ndarray:
        rows, columns = _sides(part, right, symmetric)
        if metric == "emd":
            return earth_movers(rows, columns, symmetric=symmetric, n_jobs=n_jobs)
        found = pair_reductions(
            partial(squares, rows, columns),
            rows.offsets,
            columns.offsets,
            pool=pool,
            both=metric != "min" and (symmetric or not directed),
            symmetric=symmetric,
            n_jobs=n_jobs,
        )
        values = np.asarray(found.to_columns)
        if metric == "max":
            np.maximum(values, found.to_rows, out=values)
        elif metric != "min" and not directed:
            values += found.to_rows
            values /= 2.0 if metric == "mind" else part.sizes[:, None] + right.sizes
        return values

    if symmetric or left.n_instances <= at_once:
        return computed(left)
    ranges = bag_ranges(left.offsets, at_once)
    return np.concatenate([computed(left[first:last]) for first, last in ranges])


def both_sides(X: Any, Y: Any) -> tuple[Bags, Bags]:
    """Bags of the rows and of the columns of a matrix; the same if Y is None."""
    left = check_bags(X)
    right = left if Y is None else check_bags(Y)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"X has {left.shape[1]} features but Y has {right.shape[1]}: bags of both must have "
            "the same features."
        )
    return left, right


def _bytes_per_instance(bags: Bags) -> float:
    """Memory of the copies of an instance."""
    # Dense instances are in memory twice, with two more columns.
    rows = bags.instance_rows
    cells = rows.nnz / max(1, bags.n_instances) if bags.is_sparse else bags.shape[1] + 2
    return float(16.0 * cells)


def _sides(left: Bags, right: Bags, symmetric: bool) -> tuple[PreparedRows, PreparedRows]:
    one, other = left.instances, right.instances
    if sparse.issparse(one) or sparse.issparse(other):
        one = sparse.csr_array(one, dtype=np.float64)
        other = one if symmetric else sparse.csr_array(other, dtype=np.float64)
        return side_of(one, left.offsets), side_of(other, right.offsets, right=True)
    varying = np.any([(matrix != matrix[0]).any(axis=0) for matrix in (one, other)], axis=0)
    varying |= one[0] != other[0]
    if not varying.all():
        # Skip constant features: they do not change any distance.
        one, other = (np.ascontiguousarray(matrix[:, varying]) for matrix in (one, other))
    centre = other.mean(axis=0, dtype=np.float64)
    return (
        side_of(one, left.offsets, centre),
        side_of(other, right.offsets, centre, right=True),
    )


def prototype_bags(
    bags: Bags, n_prototypes: int | str | None, most: int, random_state: Any
) -> tuple[Bags, np.ndarray]:
    """Bags with which others are compared, in memory, and their positions, ascending.

    "auto" draws at most ``most`` bags, and None takes all.
    """
    n_bags = len(bags) if n_prototypes is None else n_prototypes
    if n_bags == "auto":
        n_bags = most_bags(bags, most)
    drawn = drawn_bags(bags, int(n_bags), check_random_state(random_state))
    return in_memory(bags if len(drawn) == len(bags) else bags[drawn]), drawn


def largest_similarities(bags: Bags, prototypes: Any, gamma: float) -> np.ndarray:
    """Largest Gaussian similarity of each bag to each prototype, shape (n_bags, n_prototypes)."""
    # In place: it is a large matrix.
    values = bag_distances(bags, Bags.singletons(prototypes), metric="min")
    np.square(values, out=values)
    values *= -gamma
    return np.asarray(np.exp(values, out=values))
