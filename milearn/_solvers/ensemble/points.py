"""Disjunctive programs of bags, over distinct points in canonical order.

Linear programs have many solutions, and which one the simplex method finds depends on the order of
rows and columns. So that a fit does not depend on the order of bags or instances, points are put in
the order of a hash of their values; equal points, and equal bags of one class, become one with the
sum of their costs, which makes a weight of two the same as a repetition to the last digit.
"""

from __future__ import annotations

import numpy as np

from .problem import DisjunctiveProblem

__all__ = ["disjunctive_problem", "inherited_problem"]


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
