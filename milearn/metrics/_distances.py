"""Hausdorff distances between bags, in blocks of pairs of instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse

from .._bags import Bags
from .._bags.segments import bag_ranges, segment_max, segment_min, segment_sum
from .._kernels.memory import block_bytes, require_memory
from ..utils.validation import check_bags

__all__ = ["BAG_METRICS", "bag_distances"]

BAG_METRICS = ("min", "max", "mean")

# Rows for columns of a block of pairs of instances.
_COLUMNS_PER_ROW = 4
# A block is held several times: as squares, and as what is compared with them.
_BLOCKS_HELD = 4

# A squared distance below this share of the squared norms has lost digits in |a|^2 + |b|^2 - 2ab
# and is computed again from a - b.
_CANCELLED = 1e-5
_PAIRS_AT_ONCE = 4096


def bag_distances(
    X: Any, Y: Any = None, *, metric: str = "mean", n_jobs: int | None = None
) -> np.ndarray:
    r"""Hausdorff distances between bags.

    With Euclidean distances between instances and :math:`d(a, B) = \min_{b \in B} \|a - b\|`,

    .. math::

        \text{"min"}: \min_{a \in A} d(a, B), \qquad
        \text{"max"}: \max \Bigl\{ \max_{a \in A} d(a, B), \max_{b \in B} d(b, A) \Bigr\}, \qquad
        \text{"mean"}: \frac{\sum_{a \in A} d(a, B) + \sum_{b \in B} d(b, A)}{|A| + |B|}.

    "max" is the Hausdorff distance, "min" its minimal form, which is zero as soon as two bags
    share an instance and is no metric, and "mean" the average form of [1]_.

    Parameters
    ----------
    X : bags, see :class:`milearn.Bags`
        Rows of a plain matrix are bags of one instance.
    Y : bags, default=None
        The bags of the columns; those of ``X`` when None.
    metric : {"min", "max", "mean"}, default="mean"
    n_jobs : int, default=None
        Number of threads that share the blocks of rows. None means 1 unless in a
        :func:`joblib.parallel_config` context, -1 means using all processors.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        Symmetric with a diagonal of zeros when ``Y`` is None.

    Raises
    ------
    MemoryError
        Before anything is computed, where the result and the copy of the instances do not fit
        into the available memory.
    ValueError
        For an unknown metric, and bags that differ in their features.

    See Also
    --------
    bag_kernel : Similarities of bags, for kernel methods.
    milearn.cluster.BAMIC : Clusters of bags by these distances.

    Notes
    -----
    All pairs of instances are looked at, in blocks of a few MiB; beside the blocks only the
    result and a centred float64 copy of dense instances are held. Distances of instances that
    nearly coincide are computed without cancellation, so that equal ones are at exactly zero.

    References
    ----------
    .. [1] M.-L. Zhang, Z.-H. Zhou. Multi-instance clustering with applications to multi-instance
       prediction. Applied Intelligence 31, 2009.

    Examples
    --------
    >>> from milearn.metrics import bag_distances
    >>> bags = [[[0.0], [1.0]], [[1.0], [4.0]]]
    >>> bag_distances(bags, metric="max")
    array([[0., 3.],
           [3., 0.]])
    """
    if metric not in BAG_METRICS:
        raise ValueError(f"metric={metric!r} is unknown: choose one of {list(BAG_METRICS)}.")
    left = check_bags(X)
    right = left if Y is None else check_bags(Y)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"X has {left.shape[1]} features but Y has {right.shape[1]}: bags of both must have "
            "the same features."
        )
    symmetric = Y is None
    _check_memory(left, right, symmetric)
    rows, columns = _sides(left, right, symmetric)
    groups = list(bag_ranges(left.offsets, rows.limit))
    others = list(bag_ranges(right.offsets, columns.limit))
    # The work is NumPy's, which lets go of the interpreter: threads share the instances.
    strips = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_strip)(rows, columns, group, others, metric, symmetric) for group in groups
    )
    distances = np.empty((len(left), len(right)))
    for (first, last), strip in zip(groups, strips, strict=True):
        distances[first:last, len(right) - strip.shape[1] :] = strip
        if symmetric:
            distances[last:, first:last] = strip[:, last - first :].T
    return distances


def _block_shape() -> tuple[int, int]:
    """Rows and columns of a block of pairs: few enough that it stays in a core's cache."""
    pairs = block_bytes() // (8 * _BLOCKS_HELD)
    height = max(1, int((pairs / _COLUMNS_PER_ROW) ** 0.5))
    return height, _COLUMNS_PER_ROW * height


def _check_memory(left: Bags, right: Bags, symmetric: bool) -> None:
    # The strips of the result and the result; two copies of dense instances with two columns more.
    needed = 16.0 * len(left) * len(right) + _BLOCKS_HELD * block_bytes()
    for side in (left,) if symmetric else (left, right):
        n_copied = side.instances.nnz if sparse.issparse(side.instances) else None
        cells = side.n_instances * (side.shape[1] + 2) if n_copied is None else n_copied
        needed += 16.0 * cells
    require_memory(
        needed,
        f"The matrix of distances between {len(left)} x {len(right)} bags",
        "compute it for fewer bags at a time; a clusterer can be fitted on a sample of the bags "
        "and predict the others",
    )


@dataclass
class _Side:
    """Instances of one side with their squared norms.

    ``factor`` times the other side's ``factor`` transposed is the matrix of squared distances of
    dense instances: norms and ones stand in two more columns, so that the product adds them.
    ``limit`` instances of the side are in a block.
    """

    instances: Any
    factor: Any
    norms: np.ndarray
    offsets: np.ndarray
    limit: int


def _sides(left: Bags, right: Bags, symmetric: bool) -> tuple[_Side, _Side]:
    # Here and not in the threads, to which scikit-learn's settings do not reach.
    height, width = _block_shape()
    if sparse.issparse(left.instances) or sparse.issparse(right.instances):
        one = sparse.csr_array(left.instances, dtype=np.float64)
        other = one if symmetric else sparse.csr_array(right.instances, dtype=np.float64)
        return (
            _Side(one, one, _squared_norms(one), left.offsets, height),
            _Side(other, other, _squared_norms(other), right.offsets, width),
        )
    # Distances do not change with the origin, but digits are lost with the distance from it.
    centre = right.instances.mean(axis=0, dtype=np.float64)
    lines = [side.instances - centre for side in ((left,) if symmetric else (left, right))]
    varying = np.any([(matrix != matrix[0]).any(axis=0) for matrix in lines], axis=0)
    if not symmetric:
        varying |= lines[0][0] != lines[1][0]
    if not varying.all():
        # A feature that is the same everywhere is not worth a multiplication.
        lines = [np.ascontiguousarray(matrix[:, varying]) for matrix in lines]
    norms = [np.einsum("ij,ij->i", matrix, matrix) for matrix in lines]
    ones = [np.ones(len(each)) for each in norms]
    rows = np.column_stack([lines[0], norms[0], ones[0]])
    columns = np.column_stack([-2.0 * lines[-1], ones[-1], norms[-1]])
    return (
        _Side(lines[0], rows, norms[0], left.offsets, height),
        _Side(lines[-1], columns, norms[-1], right.offsets, width),
    )


def _squared_norms(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.power(2).sum(axis=1))


def _strip(
    rows: _Side,
    columns: _Side,
    group: tuple[int, int],
    others: list[tuple[int, int]],
    metric: str,
    symmetric: bool,
) -> np.ndarray:
    """Distances of a group of bags to all bags, or to those from the group's first on."""
    start = group[0] if symmetric else 0
    parts = [
        _block(rows, columns, group, (max(first, start), last), metric)
        for first, last in others
        if last > start
    ]
    strip = np.concatenate(parts, axis=1)
    if symmetric:
        # Exactly as above the diagonal, where rounding depends on the side.
        size = group[1] - group[0]
        square = strip[:, :size]
        lower = np.tril_indices(size, -1)
        square[lower] = square.T[lower]
    return strip


def _block(
    rows: _Side, columns: _Side, group: tuple[int, int], other: tuple[int, int], metric: str
) -> np.ndarray:
    """Distances of the bags of one range to those of another."""
    top, left = rows.offsets[group[0]], columns.offsets[other[0]]
    row_offsets = rows.offsets[group[0] : group[1] + 1] - top
    column_offsets = columns.offsets[other[0] : other[1] + 1] - left
    n_rows, n_columns = row_offsets[-1], column_offsets[-1]
    # Squared distance of each instance to the nearest of each bag on the other side.
    to_columns = np.full((n_rows, len(column_offsets) - 1), np.inf)
    to_rows = np.full((len(row_offsets) - 1, n_columns), np.inf)
    for a, b in _tiles(row_offsets, rows.limit):
        for c, d in _tiles(column_offsets, columns.limit):
            squares = _squares(rows, columns, slice(top + a, top + b), slice(left + c, left + d))
            nearest = np.minimum.reduceat(squares, _starts(column_offsets), axis=1)
            np.minimum(to_columns[a:b], nearest, out=to_columns[a:b])
            if metric == "min":
                continue
            nearest = np.minimum.reduceat(squares, _starts(row_offsets), axis=0)
            np.minimum(to_rows[:, c:d], nearest, out=to_rows[:, c:d])
    if metric == "min":
        return np.sqrt(segment_min(to_columns, row_offsets))
    if metric == "max":
        there = segment_max(to_columns, row_offsets)
        back = np.maximum.reduceat(to_rows, column_offsets[:-1], axis=1)
        return np.sqrt(np.maximum(there, back))
    there = segment_sum(np.sqrt(to_columns), row_offsets)
    back = np.add.reduceat(np.sqrt(to_rows), column_offsets[:-1], axis=1)
    return (there + back) / (np.diff(row_offsets)[:, None] + np.diff(column_offsets))


def _tiles(offsets: np.ndarray, limit: int) -> list[tuple[int, int]]:
    """The range of several bags as it is, that of one large bag in parts."""
    size = int(offsets[-1])
    if len(offsets) > 2:
        return [(0, size)]
    return [(first, min(first + limit, size)) for first in range(0, size, limit)]


def _starts(offsets: np.ndarray) -> np.ndarray:
    # A part of one large bag is a segment of its own.
    return offsets[:-1] if len(offsets) > 2 else np.zeros(1, dtype=np.intp)


def _squares(rows: _Side, columns: _Side, of: slice, to: slice) -> np.ndarray:
    """Squared distances between two ranges of instances."""
    if sparse.issparse(rows.factor):
        squares = -2.0 * (rows.factor[of] @ columns.factor[to].T).toarray()
        squares += rows.norms[of, None]
        squares += columns.norms[to]
    else:
        squares = rows.factor[of] @ columns.factor[to].T
    # First by one number for the block: the norms of pairs are looked at for those alone.
    most = _CANCELLED * (rows.norms[of].max() + columns.norms[to].max())
    near = np.flatnonzero(squares <= most)
    if len(near):
        i, j = np.divmod(near, squares.shape[1])
        norms = rows.norms[of][i] + columns.norms[to][j]
        lost = squares.ravel()[near] <= _CANCELLED * norms
        i, j = i[lost], j[lost]
        for first in range(0, len(i), _PAIRS_AT_ONCE):
            part = slice(first, first + _PAIRS_AT_ONCE)
            step = rows.instances[of][i[part]] - columns.instances[to][j[part]]
            squares[i[part], j[part]] = (
                step.power(2).sum(axis=1)
                if sparse.issparse(step)
                else np.einsum("ij,ij->i", step, step)
            )
    return squares
