"""Disjunctive programs of bags, over distinct points in canonical order.

A linear program may have many solutions, and the order of rows and columns determines which one the
simplex method finds. Points are sorted by a hash of their values, so that a fit does not depend on
the order of bags or instances. Equal points, and equal bags of a class, are merged and their costs
are added, so that a weight of two is exactly equivalent to duplicating a bag.
"""

from __future__ import annotations

import numpy as np

from .problem import DisjunctiveProblem


def disjunctive_problem(
    point_of: np.ndarray, offsets: np.ndarray, positive: np.ndarray, costs: np.ndarray
) -> DisjunctiveProblem:
    """Problem (5): positive bags of two or more points are ambiguous, other points have a sign.

    Parameters
    ----------
    point_of : ndarray of shape (n_instances,)
    offsets : ndarray of shape (n_bags + 1,)
    positive : ndarray of bool, shape (n_bags,)
    costs : ndarray of shape (n_bags,)
    """
    ambiguous: dict[tuple[int, ...], float] = {}
    signed = np.repeat(~positive, np.diff(offsets))
    for bag in np.flatnonzero(positive):
        members = np.unique(point_of[offsets[bag] : offsets[bag + 1]])
        if len(members) > 1:
            key = tuple(members.tolist())
            ambiguous[key] = ambiguous.get(key, 0.0) + float(costs[bag])
        else:
            signed[offsets[bag]] = True
    ordered = sorted(ambiguous)
    return DisjunctiveProblem(
        int(point_of.max()) + 1,
        [np.array(key, dtype=np.intp) for key in ordered],
        np.array([ambiguous[key] for key in ordered]),
        *_signed_points(point_of, offsets, positive, costs, signed),
    )


def inherited_problem(
    point_of: np.ndarray, offsets: np.ndarray, positive: np.ndarray, costs: np.ndarray
) -> DisjunctiveProblem:
    """The supervised problem in which every instance has the label of its bag."""
    every = np.ones(len(point_of), dtype=bool)
    signed = _signed_points(point_of, offsets, positive, costs, every)
    return DisjunctiveProblem(int(point_of.max()) + 1, [], np.zeros(0), *signed)


def _signed_points(
    point_of: np.ndarray,
    offsets: np.ndarray,
    positive: np.ndarray,
    costs: np.ndarray,
    used: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, signs and summed costs of the used instances, by the classes of their bags."""
    owner = np.repeat(np.arange(len(positive)), np.diff(offsets))[used]
    points, costs = point_of[used].astype(np.intp), costs[owner]
    # Positive points first, then by point; costs of equal points are added in a fixed order.
    size = int(point_of.max()) + 1
    keys, where = np.unique(np.where(positive[owner], 0, size) + points, return_inverse=True)
    order = np.lexsort((costs, where))
    total = np.zeros(len(keys))
    np.add.at(total, where[order], costs[order])
    return keys % size, np.where(keys < size, 1.0, -1.0), total
