"""Bags as a disjunctive program over distinct points, in an order of its own.

Linear programs have many solutions, and which one the simplex method finds depends on the order of
rows and columns. So that a fit does not depend on the order of bags or instances, points are put in
the order of a hash of their values; equal points, and equal bags of one class, become one with the
sum of their costs, which makes a weight of two the same as a repetition to the last digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .problem import DisjunctiveProblem

__all__ = ["disjunctive_problem", "distinct_points", "inherited_problem"]

_BLOCK = 2**20
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def distinct_points(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of a matrix in canonical order.

    Returns
    -------
    rows : ndarray of shape (n_points,)
        A row of X for each point.
    point_of : ndarray of shape (n_rows,)
    """
    _, rows, point_of = np.unique(_hashes(X), return_index=True, return_inverse=True)
    return rows, point_of.ravel()


def _hashes(X: Any) -> np.ndarray:
    """A 64-bit hash of each row: the sum over features, to which zeros contribute nothing."""
    n, width = X.shape
    out = np.zeros(n, dtype=np.uint64)
    if sparse.issparse(X):
        values = _mixed(X.data, X.indices)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
        # Sums wrap around, and so do their differences.
        return sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    step = max(1, _BLOCK // width)
    for first in range(0, n, step):
        part = X[first : first + step]
        values = _mixed(part.ravel(), np.tile(np.arange(width), len(part)))
        out[first : first + step] = values.reshape(part.shape).sum(axis=1, dtype=np.uint64)
    return out


def _mixed(values: np.ndarray, features: np.ndarray) -> np.ndarray:
    # The finaliser of SplitMix64 (Steele, Lea & Flood 2014).
    bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
    z = bits + (features.astype(np.uint64) + np.uint64(1)) * _GOLDEN
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
