"""Disjunctive programs of bags, over distinct points in canonical order.

Linear programs have many solutions, and which one the simplex method finds depends on the order of
rows and columns. So that a fit does not depend on the order of bags or instances, points are put in
the order of a hash of their values; equal points, and equal bags of one class, become one with the
sum of their costs, which makes a weight of two the same as a repetition to the last digit.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils import gen_batches

from .learners import Matrix
from .problem import DisjunctiveProblem

__all__ = ["disjunctive_problem", "distinct_points", "inherited_problem", "rows_per_block"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def rows_per_block(bytes_per_row: int) -> int:
    """How many rows fit into scikit-learn's ``working_memory``, at least one."""
    return max(1, int(get_config()["working_memory"] * 2**20 // max(1, bytes_per_row)))


def distinct_points(X: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of a matrix, in the order of their hashes and, where these are equal, values.

    Returns
    -------
    rows : ndarray of shape (n_points,)
        A row of X for each point.
    point_of : ndarray of shape (n_rows,)
    """
    _, rows, point_of = np.unique(_hashes(X), return_index=True, return_inverse=True)
    point_of = point_of.ravel()
    collided = np.unique(point_of[_differing_rows(X, rows[point_of])])
    if not len(collided):
        return rows, point_of
    # Different rows of one hash: a second key tells them apart.
    rank = np.zeros(len(point_of), dtype=np.intp)
    for point in collided.tolist():
        mine = np.flatnonzero(point_of == point)
        values = X[mine].toarray() if sparse.issparse(X) else X[mine]
        rank[mine] = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    keys = np.column_stack([point_of, rank])
    _, rows, point_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return rows, point_of.ravel()


def _differing_rows(X: Matrix, partners: np.ndarray) -> np.ndarray:
    """Rows i whose values are not those of the row ``partners[i]``."""
    suspects = np.flatnonzero(partners != np.arange(len(partners)))
    if not len(suspects):
        return suspects
    width = max(1, X.nnz // X.shape[0] if sparse.issparse(X) else X.shape[1])
    found = []
    for part in gen_batches(len(suspects), rows_per_block(3 * 8 * width)):
        here = suspects[part]
        unequal = X[here] != X[partners[here]]
        found.append(here[np.asarray(unequal.sum(axis=1)).ravel() > 0])
    return np.concatenate(found)


def _hashes(X: Matrix) -> np.ndarray:
    """A 64-bit hash of each row: the sum over features, to which zeros contribute nothing."""
    n, width = X.shape
    out: np.ndarray = np.zeros(n, dtype=np.uint64)
    if sparse.issparse(X):
        values = _mixed(X.data, X.indices)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
        # Sums wrap around, and so do their differences.
        out = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
        return out
    # The values, the bits of each and three temporary arrays of them.
    for rows in gen_batches(n, rows_per_block(5 * 8 * width)):
        part = X[rows]
        values = _mixed(part.ravel(), np.tile(np.arange(width), len(part)))
        out[rows] = values.reshape(part.shape).sum(axis=1, dtype=np.uint64)
    return out


def _mixed(values: np.ndarray, features: np.ndarray) -> np.ndarray:
    # The finaliser of SplitMix64 (Steele, Lea & Flood 2014).
    bits: np.ndarray = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
    z: np.ndarray = bits + (features.astype(np.uint64) + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    z[values == 0] = 0
    return z


def disjunctive_problem(
    point_of: np.ndarray, offsets: np.ndarray, positive: np.ndarray, costs: np.ndarray
) -> DisjunctiveProblem:
    """Problem (5): positive bags of two or more points are ambiguous, all else has a sign.

    Parameters
    ----------
    point_of : ndarray of shape (n_instances,)
    offsets : ndarray of shape (n_bags + 1,)
    positive : ndarray of bool, shape (n_bags,)
    costs : ndarray of shape (n_bags,)
    """
    blocks: dict[tuple[int, ...], float] = {}
    signed = _Signed()
    for bag in range(len(positive)):
        members = np.unique(point_of[offsets[bag] : offsets[bag + 1]])
        if positive[bag] and len(members) > 1:
            key = tuple(members.tolist())
            blocks[key] = blocks.get(key, 0.0) + float(costs[bag])
        elif positive[bag]:
            signed.add(members, 1.0, costs[bag])
        else:
            signed.add(point_of[offsets[bag] : offsets[bag + 1]], -1.0, costs[bag])
    ordered = sorted(blocks)
    return DisjunctiveProblem(
        int(point_of.max()) + 1,
        [np.array(key, dtype=np.intp) for key in ordered],
        np.array([blocks[key] for key in ordered]),
        *signed.arrays(),
    )


def inherited_problem(
    point_of: np.ndarray, offsets: np.ndarray, positive: np.ndarray, costs: np.ndarray
) -> DisjunctiveProblem:
    """The supervised problem in which every instance has the label of its bag."""
    signed = _Signed()
    for bag in range(len(positive)):
        sign = 1.0 if positive[bag] else -1.0
        signed.add(point_of[offsets[bag] : offsets[bag + 1]], sign, costs[bag])
    return DisjunctiveProblem(int(point_of.max()) + 1, [], np.zeros(0), *signed.arrays())


class _Signed:
    """Points with signs and the sums of their costs."""

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, float, float]] = []

    def add(self, points: np.ndarray, sign: float, cost: float) -> None:
        self._parts.append((points, sign, float(cost)))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not self._parts:
            return np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0)
        points = np.concatenate([part for part, _, _ in self._parts]).astype(np.intp)
        signs = np.concatenate([np.full(len(part), sign) for part, sign, _ in self._parts])
        costs = np.concatenate([np.full(len(part), cost) for part, _, cost in self._parts])
        # Positive points first, each kind by point; costs of equal ones added in a fixed order.
        keys, where = np.unique(
            np.where(signs > 0, 0, points.max() + 1) + points, return_inverse=True
        )
        order = np.lexsort((costs, where))
        total = np.zeros(len(keys))
        np.add.at(total, where[order], costs[order])
        size = int(points.max()) + 1
        return keys % size, np.where(keys < size, 1.0, -1.0), total
