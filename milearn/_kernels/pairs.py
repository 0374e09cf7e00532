"""Reductions over all pairs of instances of two bags, for every pair of bags, in one pass.

With d the Euclidean distance, for the bags A on the left and B on the right:

    nearest to the right   min_{b in B} d(a, b)^2   for each instance a and each bag B
    nearest to the left    min_{a in A} d(a, b)^2   for each bag A and each instance b
    sums of an RBF         sum_{a in A} sum_{b in B} exp(-d(a, b)^2 / s)

The squared distances are computed block by block, without cancellation, and not stored. Sums of
other kernels take the same pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import delayed
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.utils import gen_batches

from .._bags.segments import bag_ranges
from .._bags.threads import Parallel
from .._compat import need_module
from .._version import refuse_old
from .memory import block_bytes, require_memory

__getattr__ = refuse_old(__name__, "Side")

# Ratio of rows to columns of a block of pairs of instances.
_COLUMNS_PER_ROW = 4
# A block is in memory several times: as squares, and as the values they are compared with.
BLOCKS_HELD = 4

# A squared distance below this fraction of the squared norms is inaccurate as |a|^2 + |b|^2 - 2ab
# and is computed again from a - b.
_CANCELLED = {np.dtype(np.float64): 1e-5, np.dtype(np.float32): 1e-3}
_PAIRS_AT_ONCE = 4096
# Number of instances of a block of bags whose pairs within each bag are computed.
_OWN_ROWS = 64


# -- squared distances -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PreparedRows:
    """Instances of one side of a matrix of distances.

    ``rows.factor @ columns.factor.T`` is the matrix of squared distances of dense instances: norms
    and ones are two more columns, so that the product adds them. ``scaling`` times the first
    columns of ``factor`` are the instances.
    """

    factor: Any
    norms: np.ndarray
    offsets: np.ndarray
    scaling: float = 1.0

    @property
    def is_sparse(self) -> bool:
        return bool(sparse.issparse(self.factor))

    def take(self, rows: np.ndarray) -> Any:
        """Some of the instances, centred."""
        if self.is_sparse:
            return self.factor[rows]
        return self.scaling * self.factor[rows, :-2]


def side_of(
    instances: Any,
    offsets: np.ndarray,
    centre: np.ndarray | None = None,
    dtype: Any = np.float64,
    *,
    right: bool = False,
) -> PreparedRows:
    """Instances on the side of the rows, or of the columns if ``right``.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    centre : ndarray of shape (n_features,), default=None
        Point that is subtracted from dense instances on both sides, because distances are
        inaccurate if instances are far from the origin.
    dtype : dtype, default=float64
        Type of the squared distances of dense instances, the same on both sides.
    right : bool, default=False
    """
    if sparse.issparse(instances):
        matrix = sparse.csr_array(instances, dtype=np.float64)
        return PreparedRows(matrix, np.asarray(matrix.power(2).sum(axis=1)), offsets)
    n, n_features = instances.shape
    factor = np.empty((n, n_features + 2), dtype=dtype)
    lines = factor[:, :-2]
    np.subtract(instances, 0.0 if centre is None else centre, out=lines, casting="same_kind")
    norms = np.einsum("ij,ij->i", lines, lines)
    if not right:
        factor[:, -2], factor[:, -1] = norms, 1.0
        return PreparedRows(factor, norms, offsets)
    lines *= -2.0
    factor[:, -2], factor[:, -1] = 1.0, norms
    return PreparedRows(factor, norms, offsets, scaling=-0.5)


def block_shape() -> tuple[int, int]:
    """Numbers of rows and columns of a block of pairs that fits into a core's cache."""
    pairs = block_bytes() // (8 * BLOCKS_HELD)
    height = max(1, int((pairs / _COLUMNS_PER_ROW) ** 0.5))
    return height, _COLUMNS_PER_ROW * height


def squares(
    rows: PreparedRows, columns: PreparedRows, of: slice, to: slice, *, exact: bool = True
) -> np.ndarray:
    """Squared distances between two ranges of instances.

    They are exactly zero for equal instances, and small ones are accurate; with ``exact=False``
    they have the errors of |a|^2 + |b|^2 - 2ab and may be negative.
    """
    if rows.is_sparse:
        values = -2.0 * (rows.factor[of] @ columns.factor[to].T).toarray()
        values += rows.norms[of, None]
        values += columns.norms[to]
    else:
        values = rows.factor[of] @ columns.factor[to].T
    if not exact:
        return values
    # First by one bound for the block; the norms of pairs are only computed for the candidates.
    lost_below = _CANCELLED[values.dtype]
    most = lost_below * (rows.norms[of].max() + columns.norms[to].max())
    near = np.flatnonzero(values <= most)
    if len(near):
        i, j = np.divmod(near, values.shape[1])
        norms = rows.norms[of][i] + columns.norms[to][j]
        lost = values.ravel()[near] <= lost_below * norms
        i, j = i[lost], j[lost]
        for first in range(0, len(i), _PAIRS_AT_ONCE):
            part = slice(first, first + _PAIRS_AT_ONCE)
            step = rows.take(of.start + i[part]) - columns.take(to.start + j[part])
            values[i[part], j[part]] = (
                step.power(2).sum(axis=1)
                if sparse.issparse(step)
                else np.einsum("ij,ij->i", step, step)
            )
    return values


# -- blocks of bags --------------------------------------------------------------------------------


def each_block(
    left: np.ndarray,
    right: np.ndarray,
    visit: Callable[[tuple[int, int], tuple[int, int]], None],
    *,
    symmetric: bool,
    n_jobs: int | None = None,
) -> None:
    """Call ``visit`` for each block of bags, or only the upper triangle if ``symmetric``.

    Parameters
    ----------
    left, right : ndarray of shape (n_bags + 1,)
        Offsets of the bags.
    visit : callable
        ``visit(group, other)`` with the ranges (first, last) of the bags on the left and on the
        right. It is called by several threads for different blocks.
    symmetric : bool
        Whether both sides are the same bags. The blocks of a group of rows then begin with the
        group's first bag.
    n_jobs : int, default=None
        Number of threads that share the groups of rows.
    """
    height, width = block_shape()

    def strip(group: tuple[int, int]) -> None:
        start = group[0] if symmetric else 0
        for first, last in bag_ranges(right, width):
            if last > start:
                visit(group, (max(first, start), last))

    # Threads share the instances; NumPy releases the GIL.
    Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(
        delayed(strip)(group) for group in bag_ranges(left, height)
    )


def copy_upper(upper: np.ndarray, matrix: np.ndarray) -> None:
    """Copy the entries above the diagonal of a matrix to their mirror images in another one.

    So results are exactly symmetric: rounding depends on the side. Numbers of the entries would
    take as much memory as the entries.
    """
    for row in range(1, len(matrix)):
        matrix[row, :row] = upper[:row, row]


# -- reductions ------------------------------------------------------------------------------------

# Distances, or other values, of two ranges of instances.
Values = Callable[[slice, slice], np.ndarray]


# The requested reductions: minima towards the columns, minima towards the rows, and sums of
# similarities of values, or None.
Needs = tuple[bool, bool, Callable[[np.ndarray], np.ndarray] | None]


def _reduced(
    values_of: Values,
    offsets: tuple[np.ndarray, np.ndarray],
    group: tuple[int, int],
    other: tuple[int, int],
    needs: Needs,
) -> PairReductions:
    """Reduce the values of the bags ``group`` on the left and ``other`` on the right.

    ``to_columns`` of shape (n_rows, n_right_bags) and ``to_rows`` of shape (n_left_bags,
    n_columns) contain the value of the nearest instance of each bag of the other side; ``sums`` of
    shape (n_left_bags, n_right_bags) the sums of similarities. None if not requested.
    """
    top, left = offsets[0][group[0]], offsets[1][other[0]]
    row_offsets, column_offsets = offsets_in(offsets[0], group), offsets_in(offsets[1], other)
    n_rows, n_columns = int(row_offsets[-1]), int(column_offsets[-1])
    n_left, n_right = len(row_offsets) - 1, len(column_offsets) - 1
    with_columns, with_rows, similarity = needs
    to_columns = np.full((n_rows, n_right), np.inf) if with_columns else None
    to_rows = np.full((n_left, n_columns), np.inf) if with_rows else None
    sums = np.zeros((n_left, n_right)) if similarity is not None else None
    height, width = block_shape()
    # A range of several bags has one part; one large bag may have more.
    for of in gen_batches(n_rows, height):
        row_bags, row_starts = bags_of_rows(row_offsets, of)
        for to in gen_batches(n_columns, width):
            column_bags, column_starts = bags_of_rows(column_offsets, to)
            values = values_of(
                slice(top + of.start, top + of.stop), slice(left + to.start, left + to.stop)
            )
            if to_columns is not None:
                part = to_columns[of, column_bags]
                np.minimum(part, np.minimum.reduceat(values, column_starts, axis=1), out=part)
            if to_rows is not None:
                part = to_rows[row_bags, to]
                nearest = _over_rows(np.minimum, values, row_starts, values.dtype)
                np.minimum(part, nearest, out=part)
            if similarity is not None and sums is not None:
                by_bag = _over_rows(np.add, similarity(values), row_starts, np.float64)
                sums[row_bags, column_bags] += np.add.reduceat(by_bag, column_starts, axis=1)
    return PairReductions(to_columns, to_rows, sums=sums)


def offsets_in(offsets: np.ndarray, bags: tuple[int, int]) -> np.ndarray:
    """Offsets of a range of bags, from zero."""
    return offsets[bags[0] : bags[1] + 1] - offsets[bags[0]]


def bags_of_rows(offsets: np.ndarray, rows: slice) -> tuple[slice, np.ndarray]:
    """The bags that contain some of the rows, and the first of these rows in each bag."""
    first = int(np.searchsorted(offsets, rows.start, side="right")) - 1
    last = int(np.searchsorted(offsets, rows.stop, side="left"))
    return slice(first, last), np.maximum(offsets[first:last], rows.start) - rows.start


def _over_rows(ufunc: Any, values: np.ndarray, starts: np.ndarray, dtype: Any) -> np.ndarray:
    # reduceat takes six times as long as reduce along the rows of a wide matrix.
    out = np.empty((len(starts), values.shape[1]), dtype=dtype)
    for bag, (first, last) in enumerate(zip(starts, [*starts[1:], len(values)], strict=True)):
        ufunc.reduce(values[first:last], axis=0, out=out[bag])
    return out


@dataclass
class PairReductions:
    """Result of :func:`pair_reductions`; fields that were not requested are None."""

    # Of shape (n_left_bags, n_right_bags). The smallest values of the instances of the left bag
    # with the right one, pooled over the bag, and the same from the right bag to the left one.
    to_columns: Any = None
    to_rows: Any = None
    # Of shape (n_left_bags, n_right_instances). Value of each instance on the right with the
    # nearest of each bag on the left.
    nearest: Any = None
    # Of shape (n_left_bags, n_right_bags). Sums of similarities.
    sums: Any = None


def pair_reductions(
    values_of: Values,
    left: np.ndarray,
    right: np.ndarray,
    *,
    symmetric: bool,
    pool: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    nearest: bool = False,
    similarity: Callable[[np.ndarray], np.ndarray] | None = None,
    both: bool = True,
    n_jobs: int | None = None,
) -> PairReductions:
    """One pass over the pairs of instances.

    Parameters
    ----------
    values_of : callable
        ``values_of(of, to)``, the values of two ranges of instances, such as :func:`squares`.
    left, right : ndarray of shape (n_bags + 1,)
        Offsets of the bags.
    symmetric : bool
        Whether both sides are the same bags.
    pool : callable, default=None
        ``pool(values, offsets)`` of the smallest values of the instances of each bag, such as
        ``segment_mean``; if None, ``to_columns`` and ``to_rows`` are not computed.
    nearest : bool
        Whether ``nearest`` is computed.
    similarity : callable, default=None
        Similarities of a block of values, which it may change; if None, ``sums`` are not computed.
    both : bool, default=True
        Whether ``to_rows`` is computed too. If both sides are the same bags and it is not,
        ``to_columns`` must be symmetric.
    n_jobs : int, default=None

    Returns
    -------
    PairReductions
    """
    shape = len(left) - 1, len(right) - 1
    found = PairReductions(
        np.empty(shape) if pool else None,
        np.empty(shape) if pool and both else None,
        np.empty((shape[0], int(right[-1]))) if nearest else None,
        np.empty(shape) if similarity is not None else None,
    )
    needs = bool(pool) or (nearest and symmetric), nearest or bool(pool and both), similarity

    def keep(group: tuple[int, int], other: tuple[int, int]) -> None:
        block = _reduced(values_of, (left, right), group, other, needs)
        rows, columns = slice(*group), slice(*other)
        if found.sums is not None:
            found.sums[rows, columns] = block.sums
        if pool:
            found.to_columns[rows, columns] = pool(block.to_columns, offsets_in(left, group))
        if pool and both:
            found.to_rows[rows, columns] = pool(block.to_rows.T, offsets_in(right, other)).T
        if found.nearest is not None:
            found.nearest[rows, slice(*right[list(other)])] = block.to_rows
            if symmetric:
                found.nearest[columns, slice(*left[list(group)])] = block.to_columns.T

    each_block(left, right, keep, symmetric=symmetric, n_jobs=n_jobs)
    if symmetric:
        if found.sums is not None:
            copy_upper(found.sums, found.sums)
        if pool:
            copy_upper(found.to_rows if both else found.to_columns, found.to_columns)
            found.to_rows = found.to_columns.T
    return found


def own_sums(
    values_of: Values, offsets: np.ndarray, similarity: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Sum of the similarities of the pairs of each bag with itself, shape (n_bags,)."""
    out = np.empty(len(offsets) - 1)
    for group in bag_ranges(offsets, _OWN_ROWS):
        block = _reduced(values_of, (offsets, offsets), group, group, (False, False, similarity))
        out[slice(*group)] = np.diagonal(block.sums)
    return out


def gaussians(scale: float, squares: np.ndarray) -> np.ndarray:
    """exp(-d^2 / scale) of squared distances, which are overwritten."""
    squares *= -1.0 / scale
    return np.exp(squares, out=squares)


POT = ("ot", "The earth mover's distance", "milearn[emd]")
# Maximum number of pivots of the network simplex, far more than bags of thousands need.
_MAX_PIVOTS = 10_000_000


def earth_movers(
    rows: PreparedRows, columns: PreparedRows, *, symmetric: bool, n_jobs: int | None = None
) -> np.ndarray:
    r"""Smallest mean distance over which the instances of one bag can be moved onto the other.

    .. math::

        \min_{F \ge 0} \sum_{ij} F_{ij} \|a_i - b_j\|
        \quad \text{s.t.} \quad \sum_j F_{ij} = 1 / n_A, \; \sum_i F_{ij} = 1 / n_B.

    Parameters
    ----------
    rows, columns : PreparedRows
    symmetric : bool
        Whether both sides are the same bags, whose diagonal is then exactly zero.
    n_jobs : int, default=None
        Number of threads; the solver releases the GIL.

    Returns
    -------
    ndarray of shape (n_left_bags, n_right_bags)
    """
    ot = need_module(*POT)
    largest = [
        max(limit, int(np.diff(side.offsets).max()))
        for side, limit in zip((rows, columns), block_shape(), strict=True)
    ]
    # Costs as squares and as roots, the copy of the solver, and its flow.
    require_memory(
        32.0 * largest[0] * largest[1],
        f"The earth mover's distance between bags of up to {largest[0]} and {largest[1]} instances",
        "draw some instances of large bags, as max_instances= of bag_distances does",
    )
    out = np.zeros((len(rows.offsets) - 1, len(columns.offsets) - 1))

    def fill(group: tuple[int, int], other: tuple[int, int]) -> None:
        of, to = slice(*rows.offsets[list(group)]), slice(*columns.offsets[list(other)])
        costs = np.sqrt(squares(rows, columns, of, to))
        for i in range(*group):
            own = costs[rows.offsets[i] - of.start : rows.offsets[i + 1] - of.start]
            for j in range(max(other[0], i + 1) if symmetric else other[0], other[1]):
                begin, end = columns.offsets[j] - to.start, columns.offsets[j + 1] - to.start
                out[i, j] = _transport(ot, own[:, begin:end])

    each_block(rows.offsets, columns.offsets, fill, symmetric=symmetric, n_jobs=n_jobs)
    if symmetric:
        out += out.T
    return out


def _transport(ot: Any, costs: np.ndarray) -> float:
    """Cost of moving equal weights of the rows onto equal weights of the columns."""
    n_left, n_right = costs.shape
    if n_left == 1 or n_right == 1:
        return float(costs.mean())
    if n_left == n_right and n_left <= 64:
        # A permutation is optimal, and computing it is three times as fast for small bags.
        return float(costs[linear_sum_assignment(costs)].mean())
    # The tolerances of the solver are absolute. A power of two changes no digit.
    exponent = int(np.frexp(costs.max())[1])
    # The dual variables, which centring would concern, are not used.
    cost = ot.emd2(
        np.full(n_left, 1.0 / n_left),
        np.full(n_right, 1.0 / n_right),
        np.ldexp(costs, -exponent, dtype=np.float64),
        numItermax=_MAX_PIVOTS,
        center_dual=False,
        check_marginals=False,
    )
    return float(np.ldexp(cost, exponent))
