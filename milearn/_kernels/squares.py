"""Squared distances between instances, block by block, without cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .memory import block_bytes

# Ratio of rows to columns of a block of pairs of instances.
_COLUMNS_PER_ROW = 4
# A block is in memory several times: as squares, and as the values they are compared with.
BLOCKS_HELD = 4

# A squared distance below this fraction of the squared norms is inaccurate as |a|^2 + |b|^2 - 2ab
# and is computed again from a - b.
_CANCELLED = {np.dtype(np.float64): 1e-5, np.dtype(np.float32): 1e-3}
_PAIRS_AT_ONCE = 4096


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


def rows_of(
    instances: Any, offsets: np.ndarray, centre: np.ndarray | None = None, dtype: Any = np.float64
) -> Side:
    """Instances on the side of the rows.

    Parameters
    ----------
    instances : ndarray or CSR of shape (n_instances, n_features)
    offsets : ndarray of shape (n_bags + 1,)
    centre : ndarray of shape (n_features,), default=None
        Point that is subtracted from dense instances on both sides, because distances are
        inaccurate if instances are far from the origin.
    dtype : dtype, default=float64
        Type of the squared distances of dense instances, the same on both sides.
    """
    if sparse.issparse(instances):
        return _sparse_side(instances, offsets)
    factor, norms = _factor(instances, centre, dtype)
    factor[:, -2], factor[:, -1] = norms, 1.0
    return Side(factor, norms, offsets)


def columns_of(
    instances: Any, offsets: np.ndarray, centre: np.ndarray | None = None, dtype: Any = np.float64
) -> Side:
    """Instances on the side of the columns, see :func:`rows_of`."""
    if sparse.issparse(instances):
        return _sparse_side(instances, offsets)
    factor, norms = _factor(instances, centre, dtype)
    factor[:, :-2] *= -2.0
    factor[:, -2], factor[:, -1] = 1.0, norms
    return Side(factor, norms, offsets, scaling=-0.5)


def _factor(
    instances: np.ndarray, centre: np.ndarray | None, dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Centred instances with two additional columns, and their squared norms."""
    n, n_features = instances.shape
    factor = np.empty((n, n_features + 2), dtype=dtype)
    lines = factor[:, :-2]
    np.subtract(instances, 0.0 if centre is None else centre, out=lines, casting="same_kind")
    return factor, np.einsum("ij,ij->i", lines, lines)


def _sparse_side(instances: Any, offsets: np.ndarray) -> Side:
    matrix = sparse.csr_array(instances, dtype=np.float64)
    return Side(matrix, np.asarray(matrix.power(2).sum(axis=1)), offsets)


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
