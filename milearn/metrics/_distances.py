"""Distances between bags, in blocks of pairs of instances."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from .._bags import Bags
from .._bags.distinct import rows_per_block
from .._bags.segments import bag_ranges, segment_max, segment_min, segment_sum
from .._fit.validation import check_bags
from .._kernels.emd import earth_movers, require_pot
from .._kernels.memory import block_bytes, require_memory
from .._kernels.pairs import (
    BLOCKS_HELD,
    Block,
    Side,
    Wanted,
    over_blocks,
    pair_reductions,
    side_of,
)

_HAUSDORFF = ("min", "max", "mean")
BAG_METRICS = (*_HAUSDORFF, "mind", "emd")


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
    r"""Distances between bags: Hausdorff distances, mean minimum distances, earth mover's.

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
        :func:`joblib.parallel_config` context, -1 means using all processors.

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
    if metric not in BAG_METRICS:
        raise ValueError(f"metric={metric!r} is unknown: choose one of {list(BAG_METRICS)}.")
    if (directed or squared) and metric != "mind":
        raise ValueError(f'directed and squared require metric="mind", got metric={metric!r}.')
    if max_instances is not None:
        _check_max_instances(max_instances, metric)
    if metric == "emd":
        require_pot()
    left, right = both_sides(X, Y)
    symmetric = Y is None
    if max_instances is not None:
        generator = check_random_state(random_state)
        left = _drawn(left, int(max_instances), generator)
        right = left if symmetric else _drawn(right, int(max_instances), generator)
    at_once = _rows_at_once(left)
    _check_memory(left, right, symmetric, at_once)

    def computed(part: Bags) -> np.ndarray:
        rows, columns = _sides(part, right, symmetric)
        if metric == "emd":
            return earth_movers(rows, columns, symmetric=symmetric, n_jobs=n_jobs)
        if metric != "mind":
            return _hausdorff(rows, columns, metric, symmetric, n_jobs)
        found = pair_reductions(
            rows, columns, symmetric=symmetric, means=True, root=not squared, n_jobs=n_jobs
        )
        return found.there if directed else 0.5 * (found.there + found.back)

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


def _hausdorff(
    rows: Side, columns: Side, metric: str, symmetric: bool, n_jobs: int | None
) -> np.ndarray:
    distances = np.empty((len(rows.offsets) - 1, len(columns.offsets) - 1))

    def keep(block: Block, group: tuple[int, int], other: tuple[int, int]) -> None:
        distances[slice(*group), slice(*other)] = _block_distances(block, metric)

    wanted = Wanted(to_columns=True, to_rows=metric != "min")
    over_blocks(rows, columns, wanted, keep, symmetric=symmetric, n_jobs=n_jobs)
    if symmetric:
        # Exactly symmetric, because rounding depends on the side. Numbers of the entries would take
        # as much memory as the entries.
        for row in range(1, len(distances)):
            distances[row, :row] = distances[:row, row]
    return distances


def _block_distances(block: Block, metric: str) -> np.ndarray:
    if metric == "min":
        return np.sqrt(segment_min(block.to_columns, block.row_offsets))
    starts = block.column_offsets[:-1]
    if metric == "max":
        there = segment_max(block.to_columns, block.row_offsets)
        back = np.maximum.reduceat(block.to_rows, starts, axis=1)
        return np.sqrt(np.maximum(there, back))
    there = segment_sum(np.sqrt(block.to_columns), block.row_offsets)
    back = np.add.reduceat(np.sqrt(block.to_rows), starts, axis=1)
    sizes = np.diff(block.row_offsets)[:, None] + np.diff(block.column_offsets)
    return (there + back) / sizes


def _check_max_instances(max_instances: Any, metric: str) -> None:
    if metric != "emd":
        raise ValueError(f'max_instances requires metric="emd", got metric={metric!r}.')
    whole = isinstance(max_instances, Integral) and not isinstance(max_instances, bool)
    if not whole or max_instances < 1:
        raise ValueError(f"max_instances={max_instances!r} is not a positive integer.")


def _drawn(bags: Bags, most: int, generator: Any) -> Bags:
    """Bags with at most ``most`` instances each, drawn without replacement."""
    if (bags.sizes <= most).all():
        return bags
    kept = [
        np.arange(start, stop)
        if stop - start <= most
        else start + np.sort(generator.choice(stop - start, most, replace=False))
        for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
    ]
    sizes = [len(rows) for rows in kept]
    return Bags(bags.instances[np.concatenate(kept)], np.concatenate([[0], np.cumsum(sizes)]))


def _bytes_per_instance(bags: Bags) -> float:
    """Memory of the copies of an instance."""
    # Dense instances are in memory twice, with two more columns.
    rows = bags.instance_rows
    cells = rows.nnz / max(1, bags.n_instances) if bags.is_sparse else bags.shape[1] + 2
    return float(16.0 * cells)


def _rows_at_once(bags: Bags) -> int:
    """Number of instances whose copies fit into ``working_memory``."""
    return rows_per_block(max(1, int(_bytes_per_instance(bags))))


def _check_memory(left: Bags, right: Bags, symmetric: bool, at_once: int) -> None:
    # The result is in memory twice: while it is made symmetric, or put together from blocks.
    needed = 16.0 * len(left) * len(right) + BLOCKS_HELD * block_bytes()
    needed += _bytes_per_instance(right) * right.n_instances
    if not symmetric:
        n_copied = min(left.n_instances, max(at_once, int(left.sizes.max(initial=0))))
        needed += _bytes_per_instance(left) * n_copied
    require_memory(
        needed,
        f"The matrix of distances between {len(left)} x {len(right)} bags",
        "compute it for fewer bags at a time; a clusterer can be fitted on a sample of the bags "
        "and predict the others",
    )


def _sides(left: Bags, right: Bags, symmetric: bool) -> tuple[Side, Side]:
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


def largest_similarities(bags: Bags, prototypes: Any, gamma: float) -> np.ndarray:
    """Largest Gaussian similarity of each bag to each prototype, shape (n_bags, n_prototypes)."""
    # In place: it is a large matrix.
    values = bag_distances(bags, Bags.singletons(prototypes), metric="min")
    np.square(values, out=values)
    values *= -gamma
    return np.asarray(np.exp(values, out=values))
