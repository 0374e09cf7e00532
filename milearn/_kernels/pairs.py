"""Reductions over all pairs of instances of two bags, for every pair of bags, in one pass.

With d the Euclidean distance, for the bags A on the left and B on the right:

    nearest to the right   min_{b in B} d(a, b)^2   for each instance a and each bag B
    nearest to the left    min_{a in A} d(a, b)^2   for each bag A and each instance b
    sums of an RBF         sum_{a in A} sum_{b in B} exp(-d(a, b)^2 / s)

The squared distances are computed block by block, without cancellation, and not stored.
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

from .._bags.segments import bag_ranges, segment_mean
from .._bags.threads import Parallel
from .memory import block_bytes, require_memory

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
class Side:
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
) -> Side:
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
        return Side(matrix, np.asarray(matrix.power(2).sum(axis=1)), offsets)
    n, n_features = instances.shape
    factor = np.empty((n, n_features + 2), dtype=dtype)
    lines = factor[:, :-2]
    np.subtract(instances, 0.0 if centre is None else centre, out=lines, casting="same_kind")
    norms = np.einsum("ij,ij->i", lines, lines)
    if not right:
        factor[:, -2], factor[:, -1] = norms, 1.0
        return Side(factor, norms, offsets)
    lines *= -2.0
    factor[:, -2], factor[:, -1] = 1.0, norms
    return Side(factor, norms, offsets, scaling=-0.5)


def block_shape() -> tuple[int, int]:
    """Numbers of rows and columns of a block of pairs that fits into a core's cache."""
    pairs = block_bytes() // (8 * BLOCKS_HELD)
    height = max(1, int((pairs / _COLUMNS_PER_ROW) ** 0.5))
    return height, _COLUMNS_PER_ROW * height


def squares(rows: Side, columns: Side, of: slice, to: slice, *, exact: bool = True) -> np.ndarray:
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


# -- reductions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """Reductions for two ranges of bags.

    ``to_columns`` of shape (n_rows, n_right_bags) and ``to_rows`` of shape (n_left_bags,
    n_columns) contain the squared distances to the nearest instance of each bag of the other side;
    ``sums`` of shape (n_left_bags, n_right_bags) the sums of an RBF. None if not requested.
    """

    row_offsets: np.ndarray
    column_offsets: np.ndarray
    to_columns: Any
    to_rows: Any
    sums: Any


@dataclass(frozen=True)
class Wanted:
    """The requested reductions: minima towards each side, and the scale s of the RBF."""

    to_columns: bool = False
    to_rows: bool = False
    scale: Any = None


def over_blocks(
    rows: Side,
    columns: Side,
    wanted: Wanted,
    visit: Callable[[Block, tuple[int, int], tuple[int, int]], None],
    *,
    symmetric: bool,
    n_jobs: int | None = None,
) -> None:
    """Call ``visit`` for each block of bags, or only the upper triangle if ``symmetric``.

    Parameters
    ----------
    rows, columns : Side
    wanted : Wanted
    visit : callable
        ``visit(block, group, other)`` with the ranges (first, last) of the bags on the left and on
        the right. It is called by several threads for different blocks.
    symmetric : bool
        Whether both sides are the same bags. The blocks of a group of rows then begin with the
        group's first bag.
    n_jobs : int, default=None
        Number of threads that share the groups of rows.
    """
    # Not in the threads, in which scikit-learn's settings are not available.
    limits = block_shape()
    others = list(bag_ranges(columns.offsets, limits[1]))

    def strip(group: tuple[int, int]) -> None:
        start = group[0] if symmetric else 0
        for first, last in others:
            if last > start:
                other = (max(first, start), last)
                visit(_block(rows, columns, group, other, wanted, limits), group, other)

    # Threads share the instances; NumPy releases the GIL.
    Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(
        delayed(strip)(group) for group in bag_ranges(rows.offsets, limits[0])
    )


def _block(
    rows: Side,
    columns: Side,
    group: tuple[int, int],
    other: tuple[int, int],
    wanted: Wanted,
    limits: tuple[int, int],
) -> Block:
    top, left = rows.offsets[group[0]], columns.offsets[other[0]]
    row_offsets = rows.offsets[group[0] : group[1] + 1] - top
    column_offsets = columns.offsets[other[0] : other[1] + 1] - left
    n_rows, n_columns = int(row_offsets[-1]), int(column_offsets[-1])
    n_left, n_right = len(row_offsets) - 1, len(column_offsets) - 1
    to_columns = np.full((n_rows, n_right), np.inf) if wanted.to_columns else None
    to_rows = np.full((n_left, n_columns), np.inf) if wanted.to_rows else None
    sums = np.zeros((n_left, n_right)) if wanted.scale is not None else None
    # A range of several bags has one part; one large bag may have more.
    for of in gen_batches(n_rows, limits[0]):
        row_bags, row_starts = bags_of_rows(row_offsets, of)
        for to in gen_batches(n_columns, limits[1]):
            column_bags, column_starts = bags_of_rows(column_offsets, to)
            # Exponentials do not require precise small squares.
            values = squares(
                rows,
                columns,
                slice(top + of.start, top + of.stop),
                slice(left + to.start, left + to.stop),
                exact=wanted.to_columns or wanted.to_rows,
            )
            if to_columns is not None:
                part = to_columns[of, column_bags]
                np.minimum(part, np.minimum.reduceat(values, column_starts, axis=1), out=part)
            if to_rows is not None:
                part = to_rows[row_bags, to]
                np.minimum(part, _over_rows(np.minimum, values, row_starts, values.dtype), out=part)
            if sums is not None:
                values *= -1.0 / wanted.scale
                np.exp(values, out=values)
                by_bag = _over_rows(np.add, values, row_starts, np.float64)
                sums[row_bags, column_bags] += np.add.reduceat(by_bag, column_starts, axis=1)
    return Block(row_offsets, column_offsets, to_columns, to_rows, sums)


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
class PairSums:
    """Result of :func:`pair_reductions`; fields that were not requested are None."""

    # Of shape (n_left_bags, n_right_bags). Mean over the instances of the left bag of the smallest
    # squared distance to the right one.
    there: Any = None
    # Of shape (n_left_bags, n_right_bags). The same from the instances of the right bag to the left
    # one.
    back: Any = None
    # Of shape (n_left_bags, n_right_instances). Squared distance of each instance on the right to
    # the nearest of each bag on the left.
    nearest: Any = None
    # Of shape (n_left_bags, n_right_bags). Sums of the RBF.
    sums: Any = None


def pair_reductions(
    rows: Side,
    columns: Side,
    *,
    symmetric: bool,
    means: bool = False,
    nearest: bool = False,
    scale: float | None = None,
    root: bool = False,
    n_jobs: int | None = None,
) -> PairSums:
    """One pass over the pairs of instances.

    Parameters
    ----------
    rows, columns : Side
    symmetric : bool
        Whether both sides are the same bags.
    means, nearest : bool
        Whether ``there`` and ``back``, and ``nearest``, are computed.
    scale : float, default=None
        Scale s of the RBF; if None, ``sums`` are not computed.
    root : bool, default=False
        Whether ``there`` and ``back`` are means of distances instead of squared ones.
    n_jobs : int, default=None

    Returns
    -------
    PairSums
    """
    n_left, n_right = len(rows.offsets) - 1, len(columns.offsets) - 1
    found = PairSums(
        np.empty((n_left, n_right)) if means else None,
        np.empty((n_left, n_right)) if means else None,
        np.empty((n_left, int(columns.offsets[-1]))) if nearest else None,
        np.empty((n_left, n_right)) if scale is not None else None,
    )

    def keep(block: Block, group: tuple[int, int], other: tuple[int, int]) -> None:
        left, right = slice(*group), slice(*other)
        if found.sums is not None:
            found.sums[left, right] = block.sums
        if means:
            to_columns, to_rows = block.to_columns, block.to_rows
            if root:
                to_columns, to_rows = np.sqrt(to_columns), np.sqrt(to_rows)
            back = np.add.reduceat(to_rows, block.column_offsets[:-1], axis=1)
            back /= np.diff(block.column_offsets)
            found.there[left, right] = segment_mean(to_columns, block.row_offsets)
            found.back[left, right] = back
        if found.nearest is not None:
            own, theirs = slice(*rows.offsets[list(group)]), slice(*columns.offsets[list(other)])
            found.nearest[left, theirs] = block.to_rows
            if symmetric:
                found.nearest[right, own] = block.to_columns.T

    wanted = Wanted(means or (nearest and symmetric), means or nearest, scale)
    over_blocks(rows, columns, wanted, keep, symmetric=symmetric, n_jobs=n_jobs)
    if symmetric:
        lower = np.tril_indices(n_left, -1)
        if found.sums is not None:
            found.sums[lower] = found.sums.T[lower]
        if means:
            found.there[lower] = found.back.T[lower]
            found.back = found.there.T
    return found


def own_sums(rows: Side, columns: Side, scale: float) -> np.ndarray:
    """Sum of exp(-d(a, b)^2 / scale) over the pairs of each bag with itself, shape (n_bags,)."""
    limits = block_shape()
    out = np.empty(len(rows.offsets) - 1)
    for group in bag_ranges(rows.offsets, _OWN_ROWS):
        block = _block(rows, columns, group, group, Wanted(scale=scale), limits)
        out[slice(*group)] = np.diagonal(block.sums)
    return out


# Maximum number of pivots of the network simplex, far more than bags of thousands need.
_MAX_PIVOTS = 10_000_000


def require_pot() -> Any:
    """The module ``ot`` of POT.

    Raises
    ------
    ImportError
        If POT is not installed.
    """
    try:
        import ot
    except ImportError as error:
        raise ImportError(
            "The earth mover's distance is computed by POT, which is not installed: "
            "pip install 'milearn[emd]'."
        ) from error
    return ot


def earth_movers(
    rows: Side, columns: Side, *, symmetric: bool, n_jobs: int | None = None
) -> np.ndarray:
    r"""Smallest mean distance over which the instances of one bag can be moved onto the other.

    .. math::

        \min_{F \ge 0} \sum_{ij} F_{ij} \|a_i - b_j\|
        \quad \text{s.t.} \quad \sum_j F_{ij} = 1 / n_A, \; \sum_i F_{ij} = 1 / n_B.

    Parameters
    ----------
    rows, columns : Side
    symmetric : bool
        Whether both sides are the same bags, whose diagonal is then exactly zero.
    n_jobs : int, default=None
        Number of threads; the solver releases the GIL.

    Returns
    -------
    ndarray of shape (n_left_bags, n_right_bags)
    """
    ot = require_pot()
    limits = block_shape()
    largest = [
        max(limit, int(np.diff(side.offsets).max()))
        for side, limit in zip((rows, columns), limits, strict=True)
    ]
    # Costs as squares and as roots, the copy of the solver, and its flow.
    require_memory(
        32.0 * largest[0] * largest[1],
        f"The earth mover's distance between bags of up to {largest[0]} and {largest[1]} instances",
        "draw some instances of large bags, as max_instances= of bag_distances does",
    )
    out = np.zeros((len(rows.offsets) - 1, len(columns.offsets) - 1))
    others = list(bag_ranges(columns.offsets, limits[1]))

    def strip(group: tuple[int, int]) -> None:
        for other in others:
            if symmetric and other[1] <= group[0]:
                continue
            top, left = int(rows.offsets[group[0]]), int(columns.offsets[other[0]])
            of = slice(top, int(rows.offsets[group[1]]))
            to = slice(left, int(columns.offsets[other[1]]))
            costs = np.sqrt(squares(rows, columns, of, to))
            for i in range(*group):
                own = costs[rows.offsets[i] - top : rows.offsets[i + 1] - top]
                for j in range(max(other[0], i + 1) if symmetric else other[0], other[1]):
                    begin, end = columns.offsets[j] - left, columns.offsets[j + 1] - left
                    out[i, j] = _transport(ot, own[:, begin:end])

    Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(
        delayed(strip)(group) for group in bag_ranges(rows.offsets, limits[0])
    )
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
